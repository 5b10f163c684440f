import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.distances.measure import measure
from fairmargin.distances.proxies.softmax_margin import SoftmaxMargin
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.oracles import random_problem
from tests.perturbation.networks import cnn, test_digits


class Tempered(nn.Module):
    def __init__(self, module, temperature):
        super().__init__()
        self.module, self.temperature = module, temperature

    def forward(self, x):
        return self.module(x) / self.temperature


def margins(scores):
    chances = np.sort(softmax(scores.astype(float), axis=1), axis=1)
    return chances[:, -1] - chances[:, -2]


@pytest.mark.parametrize("norm", Norm, ids=str)
def test_is_the_lead_in_probability_that_scipy_finds(norm):
    module, (x, y) = cnn(), test_digits(90)
    found = measure(module, x, y, SoftmaxMargin(norm))
    with torch.no_grad():
        expected = margins(module(torch.tensor(x)).numpy())
    assert (found.bound, found.norm) == (Bound.NEITHER, norm)
    np.testing.assert_allclose(found.values[found.correct], expected[found.correct], rtol=1e-4)
    assert (found.values[~found.correct] == 0).all()
    assert (~found.correct).any()


def test_a_linear_model_has_one_too():
    model, x = random_problem(np.random.default_rng(0), classes=4)
    found = measure(model, x, model.predict(x), SoftmaxMargin())
    np.testing.assert_allclose(found.values, margins(model.scores(x)), rtol=1e-9)


def test_changes_with_the_temperature_although_the_boundary_does_not():
    x, y = test_digits(90)
    cool, warm = (as_classifier(Tempered(cnn(), t), classes=range(10)) for t in (1.0, 10.0))
    np.testing.assert_array_equal(cool.predict(x), warm.predict(x))
    sure, unsure = (measure(model, x, y, SoftmaxMargin()) for model in (cool, warm))
    assert (unsure.values[unsure.correct] < sure.values[sure.correct]).mean() > 0.9


def test_huge_scores_give_1_and_ties_give_0():
    model = LinearClassifier([[0.0], [0.0], [0.0]], [1e6, 0.0, 0.0])
    assert measure(model, [[0.0]], [0], SoftmaxMargin()).values.tolist() == [1.0]
    tied = LinearClassifier([[0.0], [0.0]], [3.0, 3.0])
    assert measure(tied, [[0.0]], [0], SoftmaxMargin()).values.tolist() == [0.0]
