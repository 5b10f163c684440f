import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import assert_independent_of_the_batch
from tests.oracles import linear_distance, random_problem

NORMS = pytest.mark.parametrize("norm", list(Norm), ids=str)


def distances(model, x, y, norm=Norm.L2):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ExactLinear(norm)(model, np.asarray(x), np.asarray(y), keys=np.zeros(len(x), np.uint64))


def assert_agrees_with_the_oracle(model, x, norm):
    y = model.predict(x)
    expected = [linear_distance(model, row, label, norm) for row, label in zip(x, y, strict=True)]
    np.testing.assert_allclose(distances(model, x, y, norm).values, expected, rtol=1e-6, atol=1e-8)


@NORMS
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 9),
    classes=st.integers(2, 5),
    domain=st.sampled_from([Domain(), Domain(0, 1)]),
    at_the_edge=st.booleans(),
)
def test_agrees_with_a_numerical_optimiser_in_a_box_and_without_limits(norm, seed, d, classes, domain, at_the_edge):
    model, x = random_problem(np.random.default_rng(seed), n=5, d=d, classes=classes, domain=domain)
    assert_agrees_with_the_oracle(model, np.round(x) if at_the_edge else x, norm)


@NORMS
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_half_open_limits_scales_and_immutable_features_agree_with_a_numerical_optimiser(norm, seed):
    rng = np.random.default_rng(seed)
    low = np.array([0.0, -np.inf, 0.0, 0.3, -np.inf, 0.0, 0.0])
    high = np.array([1.0, 1.0, np.inf, 0.3, np.inf, 1.0, 1.0])
    scale = np.array([1.0, 2.0, 0.1, 1.0, 0.5, 0.0, 3.0])
    model, x = random_problem(rng, n=5, d=7, domain=Domain(low, high, scale))
    assert_agrees_with_the_oracle(model, x, norm)


@NORMS
def test_limits_never_shorten_a_distance_and_far_limits_do_not_change_it(norm):
    rng = np.random.default_rng(2)
    free, x = random_problem(rng, n=200, classes=6)
    y = free.predict(x)
    boxed = LinearClassifier(free.weight, free.bias, domain=Domain(0, 1))
    far = LinearClassifier(free.weight, free.bias, domain=Domain(-1e6, 1e6))
    without = distances(free, x, y, norm).values
    assert (distances(boxed, x, y, norm).values >= without * (1 - 1e-12)).all()
    assert (distances(boxed, x, y, norm).values > without * 1.01).any()
    np.testing.assert_allclose(distances(far, x, y, norm).values, without, rtol=1e-12)


@NORMS
def test_norms_are_of_the_change_divided_by_the_scale(norm):
    free, x = random_problem(np.random.default_rng(3))
    scaled = LinearClassifier(free.weight, free.bias, domain=Domain(scale=10.0))
    y = free.predict(x)
    np.testing.assert_allclose(distances(scaled, x, y, norm).values * 10, distances(free, x, y, norm).values)


@NORMS
def test_slightly_beyond_the_closest_point_the_prediction_changes_and_slightly_before_it_does_not(norm):
    model, x = random_problem(np.random.default_rng(4), n=100, classes=4, domain=Domain(0, 1))
    y = model.predict(x)
    found = distances(model, x, y, norm)
    points = ExactLinear(norm).closest(model, x, y)
    reached = ~found.unreached
    assert reached.any()
    assert np.isnan(points[~reached]).all()
    x, y, points = x[reached], y[reached], points[reached]
    np.testing.assert_allclose(norm.length(points - x), found.values[reached], rtol=1e-9, atol=1e-12)
    assert model.domain.contains(points, slack=1e-12).all()
    beyond, before = x + (points - x) * (1 + 1e-7), x + (points - x) * (1 - 1e-7)
    assert (model.predict(beyond) != y).all()
    assert (model.predict(before) == y).all()


def test_closest_keeps_the_shape_of_the_samples_and_leaves_misclassified_ones_in_place():
    model = LinearClassifier([[0.0] * 4, [1.0] * 4], [0.0, -10.0])
    x = np.ones((2, 2, 2))
    points = ExactLinear().closest(model, x, np.array([0, 1]))
    np.testing.assert_allclose(points[0], np.full((2, 2), 2.5))
    np.testing.assert_array_equal(points[1], x[1])


def test_is_infinite_where_the_domain_holds_no_other_class():
    model = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -2.1], domain=Domain(0, 1))
    found = distances(model, [[0.5, 0.5]], [0])
    assert found.values.tolist() == [np.inf]
    assert found.bound is Bound.EXACT


@NORMS
def test_a_corner_that_only_ties_belongs_to_the_class_that_comes_first(norm):
    # At x = 1 both scores are 1. Class 0 wins ties: from class 0, class 1 is never reached; from class 1, class 0 is.
    first = LinearClassifier([[0.0], [1.0]], [1.0, 0.0], domain=Domain(0, 1))
    second = LinearClassifier([[1.0], [0.0]], [0.0, 1.0], domain=Domain(0, 1))
    assert distances(first, [[0.25]], [0], norm).values.tolist() == [np.inf]
    assert distances(second, [[0.25]], [1], norm).values.tolist() == [0.75]


@NORMS
def test_a_sample_on_the_boundary_is_correct_at_distance_0_and_parallel_scores_are_never_reached(norm):
    model = LinearClassifier([[0.0], [1.0]], [0.0, -0.5], domain=Domain(0, 1))
    found = distances(model, [[0.5]], [0], norm)
    assert (found.values.tolist(), found.correct.tolist()) == ([0.0], [True])
    parallel = LinearClassifier([[1.0], [1.0]], [0.0, 0.0], domain=Domain(0, 1))
    assert distances(parallel, [[0.5]], [0], norm).values.tolist() == [np.inf]


@NORMS
@pytest.mark.parametrize("size", [1e-170, 1e170])
@pytest.mark.parametrize("high", [1.0, np.inf])
def test_tiny_and_huge_weights_give_the_same_distances(norm, size, high):
    rng = np.random.default_rng(6)
    weight, x = rng.normal(size=(3, 4)), rng.uniform(size=(20, 4))
    plain = LinearClassifier(weight, np.zeros(3), domain=Domain(0, high))
    sized = LinearClassifier(weight * size, np.zeros(3), domain=Domain(0, high))
    y = plain.predict(x)
    np.testing.assert_allclose(distances(sized, x, y, norm).values, distances(plain, x, y, norm).values, rtol=1e-9)


@NORMS
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(2, 40), d=st.integers(1, 200), high=st.sampled_from([1.0, np.inf]))
def test_measures_a_sample_to_the_same_bit_alone_or_in_any_batch(norm, seed, n, d, high):
    model, x = random_problem(np.random.default_rng(seed), n=n, d=d, classes=4, domain=Domain(0, high))
    assert_independent_of_the_batch(lambda x, y: distances(model, x, y, norm).values, x, model.predict(x))


def test_the_order_of_the_classes_does_not_change_a_distance():
    rng = np.random.default_rng(7)
    model, x = random_problem(rng, n=100, d=12, classes=7, domain=Domain(0, 1))
    order = rng.permutation(7)
    shuffled = LinearClassifier(model.weight[order], model.bias[order], domain=model.domain)
    ours = distances(model, x, model.predict(x)).values
    np.testing.assert_array_equal(distances(shuffled, x, shuffled.predict(x)).values, ours)


def test_a_sample_may_lie_outside_of_the_box_by_rounding():
    model = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -0.5], domain=Domain(0, 1))
    assert distances(model, [[1.0 + 1e-8, 1.0]], [1]).correct.all()


def test_an_immutable_feature_may_have_any_value():
    model = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -50.5], domain=Domain([0, 0], [1, 1], [1, 0]))
    assert distances(model, [[0.0, 50.0]], [0]).values.tolist() == [0.5]
