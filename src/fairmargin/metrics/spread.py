"""Intervals for variances and extremes over groups, which sampling noise alone makes positive.

A plain bootstrap of a variance, of max − min or of the worst group excludes a true 0 always: it adds noise to numbers
that already hold noise. Here a test is inverted instead. For a hypothesis "the groups differ as observed, c times
as much" (c = 0: not at all) the statistic's distribution is simulated; the interval holds every c that the observed
statistic does not contradict. It can start at 0, and does whenever equality of the groups cannot be ruled out.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.partition import Partition
from fairmargin.metrics.accuracy import accuracy_by_group
from fairmargin.metrics.bootstrap import Limits, interval
from fairmargin.metrics.contrast import GroupMeans, outer
from fairmargin.metrics.results import Estimate

Statistic = Callable[[Floats], Floats]  # of (…, groups), over the last axis

_FARTHEST = 1e6  # times what was observed, or the noise if that is larger
_HALVINGS = 40


def variance(means: Floats) -> Floats:
    """Population variance over the groups."""
    return np.asarray(np.var(means, axis=-1))


def relative_variance(means: Floats) -> Floats:
    """Population variance over the squared mean."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.var(means, axis=-1) / np.mean(means, axis=-1) ** 2)


def largest_gap(means: Floats) -> Floats:
    """Largest minus smallest."""
    return np.asarray(np.max(means, axis=-1) - np.min(means, axis=-1))


def debiased_variance(means: Floats, error2: Floats) -> float:
    """The variance over groups less what their squared standard errors add to it on average; never below 0."""
    groups = len(means)
    return max(0.0, float(np.var(means) - (groups - 1) / groups * np.mean(error2)))


def spread_interval(
    means: Floats, noise: Floats, simulate: Callable[[Floats], Floats], statistic: Statistic, confidence: float
) -> tuple[float, float, float]:
    """Median-unbiased value and confidence limits of a statistic of the groups' true means.

    Parameters
    ----------
    means
        The observed means, one per group.
    noise
        Their standard errors.
    simulate
        Draws observed means, shape (draws, groups), when the true means are the ones given.
    statistic
        Zero when all means are equal, growing with their differences.
    """
    center = means.mean()
    seen = float(statistic(means))
    direction = _direction(means - center, noise)

    def true_means(c: float) -> Floats:
        return np.asarray(center + c * direction)

    def chance_of_less(c: float, bar: float) -> float:
        drawn = statistic(simulate(true_means(c)))
        # Ties count half: the statistic of small counts is coarse.
        return float(np.mean(drawn < bar) + 0.5 * np.mean(drawn == bar))

    def solve(level: float, bar: float) -> float:
        """The c at which a statistic below the bar has that chance; 0 if it has less even without any difference."""
        if chance_of_less(0.0, bar) <= level:
            return 0.0
        low, high = 0.0, 1.0
        while chance_of_less(high, bar) > level and high < _FARTHEST:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if chance_of_less(middle, bar) > level else (low, middle)
            if high - low < 1e-4 * high:
                break
        return high

    tail = (1 - confidence) / 2
    # Groups that agree better than chance would have it do not prove that they are equal: the upper limit is never
    # below what an ordinary sample of equal groups would give.
    usual = float(np.median(statistic(simulate(true_means(0.0)))))
    c_low, c_middle, c_high = solve(1 - tail, seen), solve(0.5, seen), solve(tail, max(seen, usual))
    value, low, high = (float(statistic(true_means(c))) for c in (c_middle, c_low, c_high))
    return value, low, high


def _direction(differences: Floats, noise: Floats) -> Floats:
    """How the groups differ in the hypotheses: as observed, but at least as much as the noise.

    Observed differences that are exactly 0 point nowhere; then neighbours are pulled apart by their noise.
    """
    size, expected = math.sqrt(np.mean(differences**2)), math.sqrt(np.mean(noise**2))
    if size <= 1e-9 * expected:
        signs = np.where(np.arange(len(noise)) % 2 == 0, 1.0, -1.0)
        return np.asarray(signs * noise - np.mean(signs * noise))
    return np.asarray(differences * max(1.0, expected / size))


def shifted_errors(resampled: Floats, means: Floats, sizes: Floats) -> Callable[[Floats], Floats]:
    """A simulator that adds the bootstrap's deviations to given true means, widened by √(n/(n−1))."""
    inflate = np.sqrt(sizes / np.maximum(sizes - 1, 1))
    deviations = (resampled - means) * inflate
    # A resample of clusters that lost a whole group has no mean for it.
    deviations = deviations[np.isfinite(deviations).all(axis=1)]
    return lambda truth: truth + deviations


def overall_limits(means: GroupMeans, confidence: float) -> Limits:
    """Return limits of the unweighted mean over the groups: the outer ones of the bootstrap-t and of Hall's method.

    Both work on the log scale. Groups with one unit are left out.
    """
    log = means.log_overall
    limits = outer(
        interval(log.value, log.error, means.log_overall_t, log.freedom, confidence), log.limits(1 - confidence)
    )
    with np.errstate(over="ignore"):
        return Limits(np.exp(limits.low), np.exp(limits.high))


def worst_limits(means: GroupMeans, confidence: float, *, one_is_less_robust: bool) -> tuple[float, float]:
    """Return limits of the smallest true mean of a group.

    Below: the smallest of the groups' lower limits, since only the limit of the truly worst group can fail. Above: the
    smallest of upper limits that hold for all groups at once (Bonferroni). Of many groups, the one whose samples happen
    to lack their far tail has the smallest limit, and its own spread does not show that. So unless a group is
    significantly less robust than its rest, the limit is not below that of the mean over all groups, which the smallest
    mean never exceeds.
    """
    above = means.log_means.limits((1 - confidence) / len(means.mean))
    # A group whose samples all lie at 0, or that has one sample, bounds nothing from above.
    with np.errstate(over="ignore"):
        high = np.fmax(np.exp(above.high), means.limits.high)
    smallest = float(np.where((means.mean > 0) & np.isfinite(high), high, np.inf).min())
    if not one_is_less_robust:
        smallest = float(np.fmax(smallest, overall_limits(means, confidence).high[0]))
    return float(np.where(np.isnan(means.limits.low), 0.0, means.limits.low).min()), smallest


def accuracy_variance_interval(
    robust: npt.ArrayLike, partition: Partition, *, confidence: float = 0.95, draws: int = 4_000, seed: int = 0
) -> Estimate:
    """VCRA with its interval: debiased, and able to hold 0.

    Counts are binomial under each hypothesis, so that nothing is assumed normal.
    """
    return _accuracy_spread(robust, partition, variance, confidence, draws, seed)


def accuracy_gap_interval(
    robust: npt.ArrayLike, partition: Partition, *, confidence: float = 0.95, draws: int = 4_000, seed: int = 0
) -> Estimate:
    """Largest minus smallest accuracy with an interval that can hold 0."""
    return _accuracy_spread(robust, partition, largest_gap, confidence, draws, seed)


def _accuracy_spread(
    robust: npt.ArrayLike, partition: Partition, statistic: Statistic, confidence: float, draws: int, seed: int
) -> Estimate:
    shares = np.array(list(accuracy_by_group(robust, partition).values()))
    sizes = partition.sizes
    if len(shares) < 2:
        return Estimate.undefined("one group alone has no spread", Bound.EXACT)

    def simulate(truth: Floats) -> Floats:
        stream = np.random.default_rng(seed)  # the same numbers for every hypothesis: limits vary smoothly
        return np.asarray(stream.binomial(sizes, np.clip(truth, 0, 1), (draws, len(sizes))) / sizes)

    # One success and one failure added: shares of 0 and 1 are not known without error.
    smoothed = (shares * sizes + 1) / (sizes + 2)
    noise = np.sqrt(smoothed * (1 - smoothed) / sizes)
    value, low, high = spread_interval(shares, noise, simulate, statistic, confidence)
    if statistic is variance:
        debiased = debiased_variance(shares, shares * (1 - shares) / np.maximum(sizes - 1, 1))
        value = min(max(debiased, low), high)
    return Estimate(value, low, high, Bound.EXACT)
