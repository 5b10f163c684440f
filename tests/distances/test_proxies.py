"""Proxies: each number equals its formula, and none claims to be a bound."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.measure import measure
from fairmargin.distances.proxies.first_order import FirstOrder
from fairmargin.distances.proxies.last_two_radii import LastTwoRadii
from fairmargin.distances.proxies.softmax_margin import SoftmaxMargin
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import exact, of_formula
from tests.oracles import random_problem
from tests.perturbation.networks import cnn, mlp, test_digits

NORMS = pytest.mark.parametrize("norm", Norm, ids=str)
BOTH_NORMS = pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF], ids=str)

# first_order ------------------------------------------------------------------------------------------------------


@NORMS
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 12), d=st.integers(1, 8))
def test_first_order_is_exact_on_a_linear_model_without_limits_and_with_all_rivals(norm, seed, classes, d):
    rng = np.random.default_rng(seed)
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    if seed % 2:
        low[0] = high[0] = 0.5  # equal limits make a feature immutable
    model, x = random_problem(
        rng, n=6, d=d, classes=classes, domain=Domain(low, high, rng.choice([0.0, 0.1, 1.0, 7.0], size=d))
    )
    found = measure(model, x, model.predict(x), FirstOrder(norm, rivals=None))
    np.testing.assert_allclose(found.values, exact(model, x, norm), rtol=1e-9)
    assert found.bound is Bound.NEITHER


@NORMS
def test_first_order_with_one_rival_considers_the_strongest_only(norm):
    model, x = random_problem(np.random.default_rng(5), n=200, d=5, classes=6)
    y = model.predict(x)
    one, every = (measure(model, x, y, FirstOrder(norm, rivals=count)).values for count in (1, None))
    assert (one >= every).all()
    assert (one > every * 1.01).any()
    scores, rows = model.scores(x), np.arange(len(x))
    second = np.argsort(-scores, axis=1)[:, 1]
    slopes = norm.dual.length(model.weight[y] - model.weight[second])
    np.testing.assert_allclose(one, (scores[rows, y] - scores[rows, second]) / slopes, rtol=1e-9)


@NORMS
def test_first_order_does_not_change_when_something_is_added_to_all_scores(norm):
    def shifted(x):
        return mlp()(x) + 3 * (1 + x.flatten(1).sum(dim=1, keepdim=True))

    x, y = test_digits(50)
    plain, other = (measure(model, x, y, FirstOrder(norm)).values for model in (mlp(), of_formula(shifted, 10)))
    np.testing.assert_allclose(other, plain, rtol=2e-3)


def test_first_order_equals_a_gradient_computed_by_autograd():
    (x, y), module = test_digits(20), mlp()
    found = measure(module, x, y, FirstOrder(rivals=None))
    for i in np.flatnonzero(found.correct)[:5]:
        row = torch.tensor(x[i : i + 1], requires_grad=True)
        scores, ways = module(row)[0], []
        for k in set(range(10)) - {int(y[i])}:
            margin = scores[y[i]] - scores[k]
            (gradient,) = torch.autograd.grad(margin, row, retain_graph=True)
            ways.append((margin / gradient.norm()).item())
        assert found.values[i] == pytest.approx(min(ways), rel=1e-4)


# last_two_radii ---------------------------------------------------------------------------------------------------


@BOTH_NORMS
def test_last_two_radii_is_half_of_deepfool_s_distance_on_a_linear_model(norm):
    model, x = random_problem(np.random.default_rng(2), n=30, classes=5)
    found = measure(model, x, model.predict(x), LastTwoRadii(norm, rivals=None))
    assert found.bound is Bound.NEITHER
    np.testing.assert_allclose(found.values, 1.05 * exact(model, x, norm) / 2, rtol=1e-9)


def test_last_two_radii_averages_the_last_two_steps_of_a_search():
    # f_0 − f_1 = 1 − √t: the boundary is farther than it looks, so a search takes several steps.
    model = of_formula(lambda x: torch.stack([1 - x[:, 0].sqrt(), x[:, 0] * 0], 1), bounds=(0, 9))
    at, radii = 0.04, [0.0]
    while 1 - at**0.5 >= 0:
        at += 1.05 * (1 - at**0.5) * 2 * at**0.5
        radii.append(at - 0.04)
    assert len(radii) >= 4
    found = measure(model, np.array([[0.04]], np.float32), [0], LastTwoRadii())
    assert found.values[0] == pytest.approx((radii[-1] + radii[-2]) / 2, rel=1e-4)


@BOTH_NORMS
def test_last_two_radii_lies_between_half_of_published_deepfool_s_distance_and_the_whole(norm):
    x, y = test_digits(60)
    settings = {"norm": norm, "steps": 50, "rivals": 4}
    found = measure(cnn(), x, y, LastTwoRadii(**settings)).values
    deepfool = measure(cnn(), x, y, DeepFool(**settings, published=True)).values
    assert (found <= deepfool * 1.2).all()
    assert (found >= deepfool / 2 * (1 - 1e-6)).all()


@pytest.mark.parametrize("proxy", [FirstOrder(), FirstOrder("l1"), LastTwoRadii()], ids=repr)
def test_is_infinite_without_a_gradient(proxy):
    constant = as_classifier((np.zeros((3, 2)), [0.0, 1.0, 0.0]))
    assert measure(constant, np.zeros((2, 2)), [1, 0], proxy).values.tolist() == [np.inf, 0.0]


# softmax_margin ---------------------------------------------------------------------------------------------------


def margins(scores):
    probabilities = np.sort(softmax(scores.astype(float), axis=1), axis=1)
    return probabilities[:, -1] - probabilities[:, -2]


@NORMS
def test_softmax_margin_is_the_lead_in_probability_by_scipy(norm):
    module, (x, y) = cnn(), test_digits(90)
    found = measure(module, x, y, SoftmaxMargin(norm))
    with torch.no_grad():
        expected = margins(module(torch.tensor(x)).numpy())
    assert (found.bound, found.norm) == (Bound.NEITHER, norm)
    np.testing.assert_allclose(found.values[found.correct], expected[found.correct], rtol=1e-4)
    assert (~found.correct).any()
    linear, x = random_problem(np.random.default_rng(0), classes=4)
    found = measure(linear, x, linear.predict(x), SoftmaxMargin())
    np.testing.assert_allclose(found.values, margins(linear.scores(x)), rtol=1e-9)


def test_softmax_margin_changes_with_the_temperature_although_the_boundary_does_not():
    x, y = test_digits(90)
    plain, flat = (measure(of_formula(lambda x, t=t: cnn()(x) / t, 10), x, y, SoftmaxMargin()) for t in (1.0, 10.0))
    np.testing.assert_array_equal(plain.correct, flat.correct)
    assert (flat.values[flat.correct] < plain.values[plain.correct]).mean() > 0.9


def test_softmax_margin_of_huge_scores_is_1_and_of_ties_0():
    model = LinearClassifier([[0.0], [0.0], [0.0]], [1e6, 0.0, 0.0])
    assert measure(model, [[0.0]], [0], SoftmaxMargin()).values.tolist() == [1.0]
    tied = LinearClassifier([[0.0], [0.0]], [3.0, 3.0])
    assert measure(tied, [[0.0]], [0], SoftmaxMargin()).values.tolist() == [0.0]
