"""Bound the variance of numbers of which each is only known to lie in an interval."""

import numpy as np

from fairmargin.core.arrays import Floats

EXACT_UP_TO = 16  # groups; beyond, 2^k corners are too many
_HALVINGS = 200
_EPS = float(np.finfo(np.float64).eps)


def variance_range(low: Floats, high: Floats) -> tuple[float, float]:
    """Return limits of the population variance of numbers r with low ≤ r ≤ high.

    Guarantee: no r of the box has a variance outside the limits. Both limits are attained, except that the upper one is
    only a bound if there are more than 16 numbers. Rounding errors are bounded and added on the safe side.

    The least variance is a convex problem. The largest is attained at a corner, since a variance is convex; to find
    that corner is NP-hard (the partition problem), so that all corners are tried for few numbers, see `upper_bound` for
    many.

    >>> least, largest = variance_range(np.array([1.0, 3.0]), np.array([2.0, 4.0]))
    >>> round(least, 9), round(largest, 9)
    (0.25, 2.25)
    >>> round(variance_range(np.array([0.8, 0.3, 0.5]), np.array([0.9, 1.1, 0.9]))[1], 9)  # of 0.9, 0.3, 0.9
    0.08
    """
    if len(low) == 1 or float(low.min()) == float(high.max()):
        return 0.0, 0.0
    largest = largest_at_corners(low, high) if len(low) <= EXACT_UP_TO else upper_bound(low, high)
    # A difference of floats has a relative error of eps/2, and a mean of k squares one of about k·eps/2. The largest
    # variance is at least width²/8k, so that 4·(k + 8)·eps covers what rounding the shifted ends can change.
    return _least(low, high), float(np.nextafter(largest * (1 + 4 * (len(low) + 8) * _EPS), np.inf))


def largest_at_corners(low: Floats, high: Floats) -> float:
    """Return the largest variance over all 2^k corners of the box, up to rounding."""
    low, high = low - low.min(), high - low.min()
    at_high = np.arange(2 ** len(low))[:, None] >> np.arange(len(low)) & 1
    return float(np.var(np.where(at_high == 1, high, low), axis=1).max())


def upper_bound(low: Floats, high: Floats) -> float:
    """Return a number that the variance exceeds nowhere in the box, up to rounding.

    var(r) = min over t of mean (r − t)², so that max over r of var(r) ≤ mean over i of max over r_i of (r_i − t)² for
    *every* t. That is convex in t, and the best t is found by halving; an inexact t gives a valid, larger bound. The
    best one is at most k/(k − 1) times the largest variance: at the best t, numbers whose both ends are equally far
    from t can be drawn at random so that their mean is t on average, and the variance of that mean is at most 1/k of
    the bound.
    """
    low, high = low - low.min(), high - low.min()
    middle, half = (low + high) / 2, (high - low) / 2
    below, above = 0.0, float(high.max())
    for _ in range(_HALVINGS):
        t = (below + above) / 2
        if float((np.sign(t - middle) * (np.abs(t - middle) + half)).sum()) > 0:
            above = t
        else:
            below = t
    t = (below + above) / 2
    return float(np.mean(np.maximum((low - t) ** 2, (high - t) ** 2)))


def _least(low: Floats, high: Floats) -> float:
    """Return a lower bound of the variance, exact up to rounding.

    var(r) = min over t of mean (r − t)², so that the best r are the numbers of the intervals nearest to a common t,
    where the pulls of all intervals cancel. As t is not exact, the tangent plane of the variance at that r is
    minimised over the box: a convex function lies above its tangents.
    """
    if low.max() <= high.min():
        return 0.0  # one number lies in all intervals
    low, high = low - low.min(), high - low.min()
    below, above = 0.0, float(high.max())
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        if float((middle - np.clip(middle, low, high)).sum()) > 0:
            above = middle
        else:
            below = middle
    nearest = np.clip(middle, low, high)
    slope = nearest - nearest.mean()
    tangent = float(np.mean(slope**2) + 2 * np.mean(np.minimum(slope * (low - nearest), slope * (high - nearest))))
    width = float(high.max())
    rounding = 8 * (len(low) + 8) * _EPS * width  # of the ends and of the mean, with room to spare
    return max(0.0, tangent - rounding * (float(np.abs(slope).mean()) + rounding))
