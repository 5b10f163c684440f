"""The limits of a variance over a box hold for every point of the box, rounding included."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from fairmargin.inference.spread import EXACT_UP_TO, largest_at_corners, upper_bound, variance_range


def boxes(count, seed, groups=(2, 6), places=2):
    """Random boxes of several shapes: wide, narrow, nested, far from 0, and with coordinates that coincide."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        k = int(rng.integers(*groups))
        offset = rng.choice([0.0, 1.0, 1e6])
        low = offset + np.round(rng.uniform(0, 2, k), places)
        width = np.round(rng.uniform(0, rng.choice([0.01, 0.3, 2.0]), k), places) * (rng.random(k) < 0.9)
        yield low, low + width


def variance(numbers):
    mean = sum(numbers) / len(numbers)
    return sum((n - mean) ** 2 for n in numbers) / len(numbers)


def fractions(numbers):
    return [Fraction(float(n)) for n in numbers]


def exact_largest(low, high):
    return max(variance(corner) for corner in itertools.product(*zip(fractions(low), fractions(high), strict=True)))


def exact_least(low, high):
    """Minimise the mean squared distance from t to the intervals, which is a parabola between two neighbouring ends."""
    low, high = fractions(low), fractions(high)

    def at(t):
        return sum((t - min(max(t, a), b)) ** 2 for a, b in zip(low, high, strict=True)) / len(low)

    ends = sorted({*low, *high})
    candidates = [*ends]
    for left, right in itertools.pairwise(ends):
        active = [b for b in high if b <= left] + [a for a in low if a >= right]
        if active:
            candidates.append(min(max(sum(active) / len(active), left), right))
    return min(map(at, candidates))


def test_the_largest_variance_may_need_a_low_end_among_high_ones():
    low, high = np.array([0.8, 0.3, 0.5]), np.array([0.9, 1.1, 0.9])
    assert np.var([0.9, 0.3, 0.9]) == pytest.approx(0.08)
    assert variance_range(low, high)[1] == pytest.approx(0.08)


def test_no_point_of_a_box_leaves_the_limits_in_exact_arithmetic():
    for places in (2, 17):
        for low, high in boxes(750, seed=places, places=places):
            least, largest = variance_range(low, high)
            assert least <= exact_least(low, high)
            assert exact_largest(low, high) <= largest


def test_with_few_groups_the_limits_are_attained():
    for low, high in boxes(500, seed=3):
        least, largest = variance_range(low, high)
        scale = float(exact_largest(low, high))
        assert largest == pytest.approx(scale, rel=1e-12, abs=1e-300)
        assert least == pytest.approx(float(exact_least(low, high)), rel=1e-9, abs=1e-12 * scale + 1e-300)


def test_the_bound_for_many_groups_is_never_below_the_best_corner_and_seldom_far_above():
    excess = []
    for low, high in boxes(1_000, seed=4, groups=(2, 11), places=17):
        exact, bound = largest_at_corners(low, high), upper_bound(low, high)
        assert exact * (1 - 1e-12) <= bound <= exact * len(low) / (len(low) - 1) * (1 + 1e-12)
        excess.append(bound / exact - 1)
    assert np.median(excess) < 0.01


@pytest.mark.parametrize("groups", [EXACT_UP_TO + 1, 60, 1_000])
def test_many_groups_are_bounded_closely(groups):
    rng = np.random.default_rng(groups)
    low = rng.uniform(0, 2, groups)
    high = low + rng.uniform(0, 1.5, groups)
    _, largest = variance_range(low, high)
    points = np.where(rng.random((3_000, groups)) < 0.5, low, high)
    best = points[np.var(points, axis=1).argmax()]
    for _ in range(3 * groups):  # move one group at a time to its better end
        i = int(rng.integers(groups))
        moved = best.copy()
        moved[i] = low[i] if best[i] == high[i] else high[i]
        best = moved if np.var(moved) > np.var(best) else best
    assert np.var(best) <= largest <= 1.02 * np.var(best)


def test_numbers_that_are_known_have_one_variance():
    low, largest = variance_range(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0]))
    assert low == pytest.approx(largest) == pytest.approx(np.var([1.0, 2.0, 4.0]))
    assert variance_range(np.full(3, 0.1), np.full(3, 0.1)) == (0.0, 0.0)
    assert variance_range(np.array([0.1]), np.array([0.4])) == (0.0, 0.0)


def test_the_least_variance_is_attained_by_numbers_inside_the_box():
    low, high = np.array([0.0, 2.0, 5.0]), np.array([1.0, 3.0, 6.0])
    # Only the outer intervals pull: 1, t, 5 with t = 3, the mean of all three.
    assert variance_range(low, high)[0] == pytest.approx(np.var([1.0, 3.0, 5.0]))
