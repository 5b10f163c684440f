from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from fairmargin.core.bound import Bound
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition

law = settings(max_examples=50, deadline=None, derandomize=True)
lengths = st.one_of(st.just(0.0), st.floats(0, 100), st.integers(0, 5).map(float))
groups = st.lists(lengths, min_size=1, max_size=25)
radii = st.floats(0, 120)


def steps_area(curve, up_to=np.inf):
    """Return the area below a step function in exact arithmetic."""
    at, height = curve.steps()
    count = len(curve)
    pieces = zip(at, [*at[1:], at[-1]], height, strict=True)
    return sum(
        Fraction(round(h * count), count) * (Fraction(min(b, up_to)) - Fraction(min(a, up_to))) for a, b, h in pieces
    )


@law
@given(groups, st.floats(0.01, 120) | st.just(np.inf))
def test_the_area_up_to_a_radius_is_the_mean_of_the_capped_distances(values, up_to):
    curve = RobustnessCurve(values)
    assert steps_area(curve, up_to) == sum(Fraction(min(v, up_to)) for v in values) / len(values)
    assert curve.area(up_to) == pytest.approx(float(steps_area(curve, up_to)), rel=1e-14)


def test_the_area_agrees_with_numerical_integration():
    curve = RobustnessCurve(np.random.default_rng(0).gamma(2, 1, 40))
    grid = np.linspace(0, 20, 400_001)
    below = grid[grid <= 1.5]
    for points, up_to in ((grid, np.inf), (below, 1.5)):
        assert integrate.trapezoid(np.asarray(curve.at(points)), points) == pytest.approx(curve.area(up_to), abs=1e-4)


@law
@given(groups, radii)
def test_the_value_is_the_fraction_of_samples_beyond_the_radius(values, radius):
    for tau in (radius, *values):
        assert RobustnessCurve(values).at(tau) == sum(v > tau for v in values) / len(values)


@pytest.mark.parametrize("bound", [Bound.EXACT, Bound.UPPER])
def test_the_value_at_radius_zero_is_the_accuracy(bound):
    distances = Distances([0.0, 0.0, 0.3, np.inf], [False, False, True, True], bound, Norm.L2)
    assert RobustnessCurve.of(distances).at(0.0) == distances.correct.mean() == 0.5


@law
@given(groups, groups, radii)
def test_the_curve_of_merged_groups_is_the_weighted_mean_of_their_curves(one, other, radius):
    merged, a, b = RobustnessCurve(one + other), RobustnessCurve(one), RobustnessCurve(other)
    share = len(one) / len(one + other)
    assert merged.at(radius) == pytest.approx(share * a.at(radius) + (1 - share) * b.at(radius), abs=1e-12)


def test_a_group_is_selected_by_mask_or_by_index():
    distances = Distances([1.0, 2.0, 3.0], [True] * 3, Bound.EXACT, Norm.L2)
    (_, mask), _ = Partition.by("g", ["a", "b", "a"])
    assert RobustnessCurve.of(distances, mask).values.tolist() == [1, 3]
    assert RobustnessCurve.of(distances, [2, 0]).values.tolist() == [1, 3]


def test_a_number_gives_a_number_and_an_array_an_array():
    curve = RobustnessCurve([1.0, 2.0])
    assert isinstance(curve.at(1), float)
    assert curve.at([[0.0, 1.0], [2.0, 9.0]]).tolist() == [[1.0, 0.5], [0.0, 0.0]]


def test_unreached_samples_count_at_every_radius():
    curve = RobustnessCurve([1.0, np.inf])
    assert curve.at(1e308) == 0.5
    assert (curve.area(), curve.area(up_to=3)) == (np.inf, 2.0)
    assert curve.steps()[0].tolist() == [0.0, 1.0]


def test_steps_begin_at_zero_and_list_each_decrease_once():
    at, height = RobustnessCurve([2.0, 1.0, 2.0, 0.0]).steps()
    assert (at.tolist(), height.tolist()) == ([0, 1, 2], [0.75, 0.5, 0.0])


def test_values_are_sorted_copied_and_read_only():
    given_values = np.array([3.0, 1.0])
    curve = RobustnessCurve(given_values)
    given_values[:] = 0
    assert curve.values.tolist() == [1, 3]
    with pytest.raises(ValueError, match="read-only"):
        curve.values[0] = 9
