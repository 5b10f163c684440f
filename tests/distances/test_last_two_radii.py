import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.distances.proxies.last_two_radii import LastTwoRadii
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from tests.oracles import random_problem
from tests.perturbation.networks import cnn, test_digits

NORMS = pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF], ids=str)


@NORMS
def test_is_half_of_the_overshot_distance_on_a_linear_model(norm):
    model, x = random_problem(np.random.default_rng(2), n=30, classes=5)
    y = model.predict(x)
    exact = measure(model, x, y, ExactLinear(norm)).values
    found = measure(model, x, y, LastTwoRadii(norm, rivals=None))
    assert found.bound is Bound.NEITHER
    np.testing.assert_allclose(found.values, 1.05 * exact / 2, rtol=1e-9)


class Bent(nn.Module):
    """f_0 − f_1 = 1 − t²: from t = ½ published DeepFool steps to a place that can be worked out by hand."""

    def forward(self, x):
        return torch.stack([1 - x[:, 0] ** 2, x[:, 0] * 0], 1)


def test_averages_the_radii_of_the_last_two_steps_of_a_walk():
    model = as_classifier(Bent().double(), classes=range(2), bounds=(0, 9))
    at, radii = np.float32(0.25), [0.0]
    start = at
    while 1 - at * at >= 0:
        at = at + np.float32(1.05) * (1 - at * at) / (2 * at)
        radii.append(float(at - start))
    assert len(radii) == 2  # one step leads across, so the one before is the sample itself
    found = measure(model, np.array([[0.25]]), [0], LastTwoRadii())
    assert found.values[0] == pytest.approx((radii[-1] + radii[-2]) / 2, rel=1e-5)


class Flattening(nn.Module):
    """f_0 − f_1 = 1 − √t: the boundary is farther than it looks, so that a walk takes several steps."""

    def forward(self, x):
        return torch.stack([1 - x[:, 0].sqrt(), x[:, 0] * 0], 1)


def test_averages_a_long_walk_s_last_two_radii():
    model = as_classifier(Flattening(), classes=range(2), bounds=(0, 9))
    at, radii = 0.04, [0.0]
    while 1 - at**0.5 >= 0:
        at += 1.05 * (1 - at**0.5) * 2 * at**0.5
        radii.append(at - 0.04)
    assert len(radii) >= 4
    found = measure(model, np.array([[0.04]], np.float32), [0], LastTwoRadii())
    assert found.values[0] == pytest.approx((radii[-1] + radii[-2]) / 2, rel=1e-4)


@NORMS
def test_on_a_network_it_lies_between_half_of_what_published_deepfool_finds_and_that(norm):
    x, y = test_digits(60)
    settings = {"norm": norm, "steps": 50, "rivals": 4}
    found = measure(cnn(), x, y, LastTwoRadii(**settings)).values
    deepfool = measure(cnn(), x, y, DeepFool(**settings, published=True)).values
    assert (found <= deepfool * 1.2).all()
    assert (found >= deepfool / 2 * (1 - 1e-6)).all()


def test_is_infinite_where_deepfool_finds_nothing():
    constant = as_classifier((np.zeros((2, 2)), [1.0, 0.0]))
    found = measure(constant, np.zeros((2, 2)), [0, 1], LastTwoRadii())
    assert found.values.tolist() == [np.inf, 0.0]
    assert found.tried.tolist() == [0.0, 0.0]


def test_refuses_what_deepfool_refuses():
    with pytest.raises(InputError, match="`steps` of DeepFool must be at least 1"):
        LastTwoRadii(steps=0)
