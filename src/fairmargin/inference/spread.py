"""Intervals for variances and extremes over groups, which are positive even if groups differ by sampling noise only.

A plain bootstrap of a variance or of max − min always excludes a true 0, because it adds noise to numbers that already
contain noise. Here a test is inverted instead. For the hypothesis that the true differences are c times the observed
ones, the distribution of the statistic is simulated; the interval contains every c that the observed statistic does not
reject. It starts at 0 (c = 0) whenever equality of the groups cannot be rejected.

`variance_range` bounds the variance of numbers that are known up to intervals.
"""

import math
from collections.abc import Callable

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.inference.bootstrap import Limits, interval
from fairmargin.inference.contrast import GroupMeans, outer

Statistic = Callable[[Floats], Floats]  # (…, groups) -> (…)

_FARTHEST = 1e6  # largest c
_HALVINGS = 40


def variance(means: Floats) -> Floats:
    """Return the population variance of the groups."""
    return np.asarray(np.var(means, axis=-1))


def relative_variance(means: Floats) -> Floats:
    """Return the population variance divided by the squared mean."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.var(means, axis=-1) / np.mean(means, axis=-1) ** 2)


def largest_gap(means: Floats) -> Floats:
    """Return the largest mean minus the smallest."""
    return np.asarray(np.max(means, axis=-1) - np.min(means, axis=-1))


def debiased_variance(means: Floats, error2: Floats) -> float:
    """Return the variance over groups minus the expected contribution of their standard errors, and at least 0."""
    groups = len(means)
    return max(0.0, float(np.var(means) - (groups - 1) / groups * np.mean(error2)))


def spread_interval(
    means: Floats, noise: Floats, simulate: Callable[[Floats], Floats], statistic: Statistic, confidence: float
) -> tuple[float, float, float]:
    """Return a median-unbiased value and confidence limits of a statistic of the groups' true means.

    Parameters
    ----------
    means
        Observed means of the groups.
    noise
        Their standard errors.
    simulate
        Function that draws observed means of shape (draws, groups), given the true means.
    statistic
        Statistic that is 0 if all means are equal and grows with their differences.
    confidence
        Confidence of the limits.
    """
    center = means.mean()
    seen = float(statistic(means))
    direction = _direction(means - center, noise)

    def true_means(c: float) -> Floats:
        return np.asarray(np.maximum(center + c * direction, 0.0))

    def probability_below(c: float, bar: float) -> float:
        drawn = statistic(simulate(true_means(c)))
        # Ties count half, because the statistic of small counts has few values.
        return float(np.mean(drawn < bar) + 0.5 * np.mean(drawn == bar))

    def solve(level: float, bar: float) -> float:
        """Return the c for which the statistic is less than `bar` with probability `level`; 0 if there is none."""
        if probability_below(0.0, bar) <= level:
            return 0.0
        low, high = 0.0, 1.0
        while probability_below(high, bar) > level and high < _FARTHEST:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if probability_below(middle, bar) > level else (low, middle)
            if high - low < 1e-4 * high:
                break
        return high

    tail = (1 - confidence) / 2
    # Groups can agree by chance more closely than equal groups usually do. The upper limit is therefore at least
    # that of a typical sample of equal groups.
    usual = float(np.median(statistic(simulate(true_means(0.0)))))
    c_low, c_middle, c_high = solve(1 - tail, seen), solve(0.5, seen), solve(tail, max(seen, usual))
    # Of equal means, rounding can make the statistic larger than 0.
    value, *limits = (float(statistic(true_means(c))) if c > 0 else 0.0 for c in (c_middle, c_low, c_high))
    return value, min(limits), max(limits)


def _direction(differences: Floats, noise: Floats) -> Floats:
    """Return the differences of the groups for c = 1: the observed ones, scaled to at least the size of the noise.

    If all observed differences are 0, the noise of the groups with alternating signs replaces them.
    """
    size, expected = math.sqrt(np.mean(differences**2)), math.sqrt(np.mean(noise**2))
    if size <= 1e-9 * expected:
        signs = np.where(np.arange(len(noise)) % 2 == 0, 1.0, -1.0)
        return np.asarray(signs * noise - np.mean(signs * noise))
    return np.asarray(differences * max(1.0, expected / size))


def observed_means(means: GroupMeans, kept: Bools, resamples: int, seed: int) -> Callable[[Floats], Floats]:
    """Return a function that draws observed means, given the true ones.

    The logarithm of an observed mean deviates from the truth as Hall's transformation says, so that means of few and
    skewed distances vary as widely as they do in other samples, not only as in resamples of the observed ones.
    """
    deviations = means.log_means.deviations(resamples, np.random.default_rng([seed, 7]), means.correlation)
    # Infinite factors would make the statistic NaN, and such large ones lie beyond every quantile anyway.
    factors = np.exp(np.minimum(deviations[:, kept], math.log(_FARTHEST)))
    return lambda truth: truth * factors


def limits_of_size(low: float, high: float) -> tuple[float, float]:
    """Return limits of |x|, given limits of x.

    >>> limits_of_size(-3.0, -1.0), limits_of_size(-3.0, 1.0)
    ((1.0, 3.0), (0.0, 3.0))
    """
    ends = abs(low), abs(high)
    return 0.0 if low <= 0 <= high else min(ends), max(ends)


def overall_limits(means: GroupMeans, confidence: float) -> Limits:
    """Return limits of the unweighted mean over the groups, the outer ones of bootstrap-t and Hall's method.

    Both are computed on the log scale. Groups with one unit are left out.
    """
    log = means.log_overall
    limits = outer(
        interval(log.value, log.error, means.log_overall_t, log.freedom, confidence), log.limits(1 - confidence)
    )
    return limits.transformed(np.exp)


def worst_limits(means: GroupMeans, confidence: float, *, one_is_less_robust: bool) -> tuple[float, float]:
    """Return limits of the smallest true mean of a group.

    The lower limit is the smallest of the groups' lower limits, because only that of the truly worst group can fail.
    The upper limit is the smallest of simultaneous upper limits (Bonferroni). Among many groups, the smallest limit
    belongs to a group whose samples happen to lack the far tail, which their spread does not show. Unless a group is
    significantly less robust than its rest, the upper limit is therefore at least that of the mean over all groups.
    """
    above = means.log_means.limits((1 - confidence) / len(means.mean))
    # A group with one sample, or whose distances are all 0, gives no upper limit.
    with np.errstate(over="ignore"):
        high = np.fmax(np.exp(above.high), means.limits.high)
    smallest = float(np.where((means.mean > 0) & np.isfinite(high), high, np.inf).min())
    if not one_is_less_robust:
        smallest = float(np.fmax(smallest, overall_limits(means, confidence).high[0]))
    return float(np.where(np.isnan(means.limits.low), 0.0, means.limits.low).min()), smallest


EXACT_UP_TO = 16  # number of groups k up to which all 2^k corners are tried
_BOX_HALVINGS = 200
_EPS = float(np.finfo(np.float64).eps)


def variance_range(low: Floats, high: Floats) -> tuple[float, float]:
    """Return the smallest and the largest population variance of numbers r with low ≤ r ≤ high.

    Guarantee: no r in the box has a variance outside the limits. Both limits are attained, except that the upper one is
    only a bound for more than 16 numbers. Rounding errors are bounded and added on the safe side.

    The smallest variance is a convex problem. The largest variance is attained at a corner, because a variance is
    convex. Finding the corner is NP-hard (the partition problem), so that all corners are tried for few numbers, and
    `upper_bound` is used for many.

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
    """Return an upper bound of the variance in the box, up to rounding.

    As var(r) = min over t of mean (r − t)², max over r of var(r) ≤ mean over i of max over r_i of (r_i − t)² for
    *every* t. This bound is convex in t, and the best t is found by bisection; an inexact t gives a valid, larger
    bound. The best bound is at most k/(k − 1) times the largest variance: at the best t, numbers whose two ends are
    equally far from t can be drawn at random with mean t, and the variance of their mean is at most 1/k of the bound.
    """
    low, high = low - low.min(), high - low.min()
    middle, half = (low + high) / 2, (high - low) / 2
    below, above = 0.0, float(high.max())
    for _ in range(_BOX_HALVINGS):
        t = (below + above) / 2
        if float((np.sign(t - middle) * (np.abs(t - middle) + half)).sum()) > 0:
            above = t
        else:
            below = t
    t = (below + above) / 2
    return float(np.mean(np.maximum((low - t) ** 2, (high - t) ** 2)))


def _least(low: Floats, high: Floats) -> float:
    """Return a lower bound of the variance, exact up to rounding.

    As var(r) = min over t of mean (r − t)², the best r are the points of the intervals nearest to a common t, which is
    their own mean. As t is not exact, the tangent plane of the variance at this r is minimised over the box; a convex
    function lies above its tangents.
    """
    if low.max() <= high.min():
        return 0.0  # one number lies in all intervals
    low, high = low - low.min(), high - low.min()
    below, above = 0.0, float(high.max())
    for _ in range(_BOX_HALVINGS):
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
