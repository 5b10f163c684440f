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
from fairmargin.errors import InputError

law = settings(max_examples=50, deadline=None, derandomize=True)
lengths = st.one_of(st.just(0.0), st.floats(0, 100), st.integers(0, 5).map(float))
groups = st.lists(lengths, min_size=1, max_size=25)
radii = st.floats(0, 120)


def steps_area(curve: RobustnessCurve, up_to: float = np.inf) -> Fraction:
    """Compute the area below a step function in exact arithmetic."""
    at, height = curve.steps()
    count = len(curve)
    ends = [*at[1:], at[-1]]
    return sum(
        (
            Fraction(round(h * count), count) * (Fraction(min(b, up_to)) - Fraction(min(a, up_to)))
            for a, b, h in zip(at, ends, height, strict=True)
        ),
        Fraction(0),
    )


@law
@given(groups)
def test_the_area_below_the_steps_is_the_mean_distance(values: list[float]) -> None:
    curve = RobustnessCurve(values)
    assert steps_area(curve) == sum(map(Fraction, values)) / len(values)
    assert curve.area() == pytest.approx(float(steps_area(curve)), rel=1e-14)


@law
@given(groups, st.floats(0.01, 120))
def test_the_area_up_to_a_radius_is_the_mean_of_the_capped_distances(values: list[float], up_to: float) -> None:
    curve = RobustnessCurve(values)
    assert steps_area(curve, up_to) == sum(Fraction(min(v, up_to)) for v in values) / len(values)
    assert curve.area(up_to) == pytest.approx(float(steps_area(curve, up_to)), rel=1e-14)


def test_the_area_agrees_with_numerical_integration() -> None:
    curve = RobustnessCurve(np.random.default_rng(0).gamma(2, 1, 40))
    grid = np.linspace(0, 20, 400_001)
    assert integrate.trapezoid(np.asarray(curve.at(grid)), grid) == pytest.approx(curve.area(), abs=1e-4)
    below = grid[grid <= 1.5]
    assert integrate.trapezoid(np.asarray(curve.at(below)), below) == pytest.approx(curve.area(up_to=1.5), abs=1e-4)


@law
@given(groups, radii)
def test_the_value_is_the_fraction_of_samples_beyond_the_radius(values: list[float], radius: float) -> None:
    for tau in (radius, *values):
        assert RobustnessCurve(values).at(tau) == sum(v > tau for v in values) / len(values)


@law
@given(groups, radii, radii)
def test_a_curve_never_increases(values: list[float], one: float, other: float) -> None:
    curve = RobustnessCurve(values)
    assert curve.at(min(one, other)) >= curve.at(max(one, other))


@law
@given(groups)
def test_a_curve_is_right_continuous_and_decreases_exactly_at_the_distances(values: list[float]) -> None:
    curve = RobustnessCurve(values)
    for v in values:
        assert curve.at(v) == curve.at(np.nextafter(v, np.inf)) or np.nextafter(v, np.inf) in values
        if v > 0:
            assert curve.at(np.nextafter(v, 0)) > curve.at(v)


@pytest.mark.parametrize("bound", [Bound.EXACT, Bound.UPPER])
def test_the_value_at_radius_zero_is_the_accuracy(bound: Bound) -> None:
    distances = Distances([0.0, 0.0, 0.3, np.inf], [False, False, True, True], bound, Norm.L2)
    assert RobustnessCurve.of(distances).at(0.0) == distances.correct.mean() == 0.5


def test_the_value_at_radius_zero_of_lower_bounds_is_the_accuracy_minus_the_abstentions() -> None:
    distances = Distances([0.0, 0.0, 0.3], [False, True, True], Bound.LOWER, Norm.L2)
    assert RobustnessCurve.of(distances).at(0.0) == pytest.approx(1 / 3)


@law
@given(groups, groups, radii)
def test_the_curve_of_merged_groups_is_the_weighted_mean_of_their_curves(
    one: list[float], other: list[float], radius: float
) -> None:
    merged, a, b = RobustnessCurve(one + other), RobustnessCurve(one), RobustnessCurve(other)
    share = len(one) / len(one + other)
    assert merged.at(radius) == pytest.approx(share * a.at(radius) + (1 - share) * b.at(radius), abs=1e-12)
    assert merged.area() == pytest.approx(share * a.area() + (1 - share) * b.area(), rel=1e-12)


def test_a_group_is_selected_by_mask_or_by_index() -> None:
    distances = Distances([1.0, 2.0, 3.0], [True] * 3, Bound.EXACT, Norm.L2)
    (_, mask), _ = Partition.by("g", ["a", "b", "a"])
    assert RobustnessCurve.of(distances, mask).values.tolist() == [1, 3]
    assert RobustnessCurve.of(distances, [2, 0]).values.tolist() == [1, 3]


def test_a_number_gives_a_number_and_an_array_an_array() -> None:
    curve = RobustnessCurve([1.0, 2.0])
    assert isinstance(curve.at(1), float)
    at = curve.at([[0.0, 1.0], [2.0, 9.0]])
    assert isinstance(at, np.ndarray)
    assert at.tolist() == [[1.0, 0.5], [0.0, 0.0]]


def test_unreached_samples_count_at_every_radius() -> None:
    curve = RobustnessCurve([1.0, np.inf])
    assert curve.at(1e308) == 0.5
    assert curve.area() == np.inf
    assert curve.area(up_to=3) == 2.0
    assert curve.steps()[0].tolist() == [0.0, 1.0]


def test_steps_begin_at_zero_and_list_each_decrease_once() -> None:
    at, height = RobustnessCurve([2.0, 1.0, 2.0, 0.0]).steps()
    assert at.tolist() == [0, 1, 2]
    assert height.tolist() == [0.75, 0.5, 0.0]


def test_values_are_sorted_copied_and_read_only() -> None:
    given_values = np.array([3.0, 1.0])
    curve = RobustnessCurve(given_values)
    given_values[:] = 0
    assert curve.values.tolist() == [1, 3]
    with pytest.raises(ValueError, match="read-only"):
        curve.values[0] = 9


@pytest.mark.parametrize("values", [[], [-1.0, 2.0], [1.0, np.nan], [[1.0]], ["a"]])
def test_invalid_distances_are_refused(values: list) -> None:
    with pytest.raises(InputError):
        RobustnessCurve(values)
