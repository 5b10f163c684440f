"""How much shares differ over groups, beyond what chance alone would make of it."""

import math

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.metrics.exact_intervals import binomial_interval
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.results import Estimate
from fairmargin.metrics.spread import (
    Statistic,
    debiased_variance,
    largest_gap,
    relative_variance,
    spread_interval,
    variance,
)


def variation(shares: Floats) -> Floats:
    """√variance / mean over the groups; 0 where all are 0."""
    return np.sqrt(np.nan_to_num(relative_variance(shares)))


def share_spread(shares: Floats, sizes: Floats, statistic: Statistic, plan: AuditPlan, bound: Bound) -> Estimate:
    """The variance, the coefficient of variation or the largest gap of the groups' true shares.

    The interval inverts a test with binomial counts, so that nothing is assumed normal and 0 can lie in it. Variances
    are debiased by what noise adds to them; the gap is median-unbiased.

    Parameters
    ----------
    shares, sizes
        Of each group; sizes may be effective sizes of clusters.
    statistic
        `variance`, `variation` or `largest_gap`.

    >>> shares, sizes = np.array([0.4, 0.8]), np.array([100.0, 100.0])
    >>> print(share_spread(shares, sizes, largest_gap, AuditPlan(), Bound.EXACT))
    0.3973 [0.2663, 0.5159]
    """
    spread_bound = bound.of_spread()
    if len(shares) < 2:
        return Estimate.undefined("one group alone has no spread", spread_bound)
    if statistic is variation and not shares.any():
        return Estimate.undefined("every group has accuracy 0", spread_bound)
    counts = np.maximum(np.rint(sizes), 1).astype(np.int64)

    def simulate(truth: Floats) -> Floats:
        stream = np.random.default_rng([plan.seed, 5])  # the same for every hypothesis: limits vary smoothly
        return np.asarray(stream.binomial(counts, np.clip(truth, 0, 1), (plan.resamples, len(counts))) / counts)

    # One success and one failure added: shares of 0 and 1 are not known without error.
    smoothed = (shares * counts + 1) / (counts + 2)
    noise = np.sqrt(smoothed * (1 - smoothed) / counts)

    def of_shares(means: Floats) -> Floats:
        return statistic(np.clip(means, 0, 1))  # a hypothesis of far larger differences leaves [0, 1]

    value, low, high = spread_interval(shares, noise, simulate, of_shares, plan.confidence)
    # Shares end at 0 and 1, so that the variation can fall again while differences grow.
    low, high = sorted(0.0 if limit < 1e-12 else limit for limit in (low, high))  # less is what rounding leaves
    if statistic is not largest_gap:
        plain = debiased_variance(shares, shares * (1 - shares) / np.maximum(counts - 1, 1))
        value = plain if statistic is variance else math.sqrt(plain) / float(shares.mean())
    return Estimate(min(max(value, low), high), low, high, spread_bound)


def mean_share(shares: Floats, sizes: Floats, plan: AuditPlan, bound: Bound) -> Estimate:
    """The unweighted mean of the groups' shares; exact limits of the groups combined by squares."""
    limits = _limits(shares, sizes, plan.confidence)
    value = float(shares.mean())
    below, above = (math.sqrt(float(np.square(shares - each).sum())) / len(shares) for each in limits)
    return Estimate(value, max(0.0, value - below), min(1.0, value + above), bound)


def worst_share(shares: Floats, sizes: Floats, plan: AuditPlan, bound: Bound) -> Estimate:
    """The smallest share.

    Below: the smallest of the groups' lower limits (only the limit of the truly worst group can fail). Above: the
    smallest of upper limits that hold for all groups at once (Bonferroni), since any can fail.
    """
    low, _ = _limits(shares, sizes, plan.confidence)
    _, high = _limits(shares, sizes, 1 - plan.alpha / len(shares))
    return Estimate(float(shares.min()), float(low.min()), float(high.min()), bound)


def _limits(shares: Floats, sizes: Floats, confidence: float) -> tuple[Floats, Floats]:
    pairs = [binomial_interval(share * size, size, confidence) for share, size in zip(shares, sizes, strict=True)]
    low, high = np.array(pairs).T
    return low, high
