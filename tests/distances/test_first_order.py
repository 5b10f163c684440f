import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.distances.proxies.first_order import FirstOrder
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from tests.oracles import random_problem
from tests.perturbation.networks import mlp, test_digits

NORMS = pytest.mark.parametrize("norm", Norm, ids=str)


@NORMS
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 12), d=st.integers(1, 8))
def test_is_exact_on_a_linear_model_without_limits_and_with_all_rivals(norm, seed, classes, d):
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.0, 0.1, 1.0, 7.0], size=d)
    model, x = random_problem(rng, n=6, d=d, classes=classes, domain=Domain(scale=scale))
    y = model.predict(x)
    expected = measure(model, x, y, ExactLinear(norm)).values
    np.testing.assert_allclose(measure(model, x, y, FirstOrder(norm, rivals=None)).values, expected, rtol=1e-9)


@NORMS
def test_with_one_rival_only_the_strongest_counts(norm):
    model, x = random_problem(np.random.default_rng(5), n=200, d=5, classes=6)
    y = model.predict(x)
    one, every = (measure(model, x, y, FirstOrder(norm, rivals=count)).values for count in (1, None))
    assert (one >= every).all()
    assert (one > every * 1.01).any()
    scores = model.scores(x)
    second = np.argsort(-scores, axis=1)[:, 1]
    rows = np.arange(len(x))
    slopes = norm.dual.length(model.weight[y] - model.weight[second])
    np.testing.assert_allclose(one, (scores[rows, y] - scores[rows, second]) / slopes, rtol=1e-9)


def test_limits_that_are_one_make_a_feature_immutable():
    model, x = random_problem(np.random.default_rng(5), n=20, d=3, classes=2)
    low, high = np.array([-np.inf, 0.0, -np.inf]), np.array([np.inf, 0.0, np.inf])
    fixed = as_classifier(model, domain=Domain(low, high))
    y = model.predict(x)
    weight = np.delete(model.weight[1] - model.weight[0], 1)
    expected = np.abs(model.scores(x) @ [-1, 1]) / np.linalg.norm(weight)
    np.testing.assert_allclose(measure(fixed, x, y, FirstOrder()).values, expected, rtol=1e-9)


class Shifted(nn.Module):
    """A module with something added to all of its scores, which may depend on the input."""

    def __init__(self, module, shift):
        super().__init__()
        self.module, self.shift = module, shift

    def forward(self, x):
        return self.module(x) + self.shift * (1 + x.flatten(1).sum(dim=1, keepdim=True))


@NORMS
def test_does_not_change_when_something_is_added_to_all_scores(norm):
    x, y = test_digits(50)
    plain = measure(mlp(), x, y, FirstOrder(norm)).values
    shifted = measure(as_classifier(Shifted(mlp(), 3.0), classes=range(10)), x, y, FirstOrder(norm)).values
    np.testing.assert_allclose(shifted, plain, rtol=2e-3)


def test_agrees_with_a_gradient_taken_by_hand():
    (x, y), module = test_digits(20), mlp()
    found = measure(module, x, y, FirstOrder(rivals=None))
    assert found.bound is Bound.NEITHER
    for i in np.flatnonzero(found.correct)[:5]:
        row = torch.tensor(x[i : i + 1], requires_grad=True)
        scores, ways = module(row)[0], []
        for k in set(range(10)) - {int(y[i])}:
            margin = scores[y[i]] - scores[k]
            (gradient,) = torch.autograd.grad(margin, row, retain_graph=True)
            ways.append((margin / gradient.norm()).item())
        assert found.values[i] == pytest.approx(min(ways), rel=1e-4)


@NORMS
def test_is_infinite_without_a_slope(norm):
    constant = as_classifier((np.zeros((3, 2)), [0.0, 1.0, 0.0]))
    assert measure(constant, np.zeros((2, 2)), [1, 0], FirstOrder(norm)).values.tolist() == [np.inf, 0.0]


def test_refuses_no_rivals():
    with pytest.raises(InputError, match="`rivals` of FirstOrder must be at least 1"):
        FirstOrder(rivals=0)
