"""Shares of groups: exact intervals, each share against that of its rest, and how much shares differ over groups."""

import math

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.bound import Bound
from fairmargin.core.partition import Partition
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.contrast import Contrasts, is_testable
from fairmargin.inference.distributions import beta_quantile, hypergeometric_tails, kolmogorov_quantile
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.groups import compare_groups
from fairmargin.inference.permutation import permutation_test
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.spread import (
    Statistic,
    debiased_variance,
    largest_gap,
    relative_variance,
    spread_interval,
    variance,
)
from fairmargin.inference.units import SAMPLES, TOTAL, UNITS, common_mix, make_cells, rest_of, two_sides


def binomial_interval(hits: float, size: float, confidence: float) -> tuple[float, float]:
    """Return Clopper and Pearson's exact interval of a share; counts may be fractional (an effective size).

    >>> [round(limit, 4) for limit in binomial_interval(8, 10, 0.95)]
    [0.4439, 0.9748]
    """
    tail = (1 - confidence) / 2
    low = 0.0 if hits <= 0 else beta_quantile(tail, hits, size - hits + 1)
    high = 1.0 if hits >= size else beta_quantile(1 - tail, hits + 1, size - hits)
    return low, high


def kolmogorov_band(size: float, confidence: float) -> float:
    """Return the half-width of the band around an empirical curve of `size` samples that holds the true curve.

    The exact distribution of Kolmogorov's statistic; conservative where the curve has jumps.

    >>> round(kolmogorov_band(100, 0.95), 4)
    0.134
    """
    return min(1.0, kolmogorov_quantile(confidence, max(int(size), 1)))


def effective_size(samples_per_unit: Floats) -> float:
    """Return how many independent samples clusters are worth if samples of a cluster are equal: (Σn)² / Σn²."""
    return float(samples_per_unit.sum() ** 2 / np.square(samples_per_unit).sum())


def share_contrasts(hits: Floats, partition: Partition, settings: AuditSettings, cluster: Ints | None) -> Contrasts:
    """Return each group's share of ones minus that of its rest, with limits and p-values.

    Independent samples that are 0 or 1 with the same probability are exchangeable, so that the permutation test is
    exact at any size and needs no guard. Limits combine the exact limits of both sides by squares (Newcombe 1998,
    there with Wilson's limits), stratum by stratum: they stay honest where a side is all 0 or all 1 and a standard
    error would be 0. Clusters have sums of many values, and are left to the machinery of the audit.
    """
    if cluster is not None:
        return compare_groups(hits, partition, settings, cluster)[1]
    cells = make_cells(hits, partition, settings.control, None)
    assert cells is not None  # single samples never span groups
    moments = cells.moments()
    rest = rest_of(moments)
    common = common_mix(moments)
    sides = two_sides(moments, rest, common.mix)
    units, rest_units = moments[..., UNITS].sum(-1), rest[..., UNITS].sum(-1)
    tested = is_testable(units, rest_units, common.dropped, settings)
    if cells.strata == 1:
        p = np.where(tested, _every_permutation(moments[:, 0]), np.nan)
        way = "Fisher's exact test, over every way of dealing the samples out to the groups, both tails alike"
    else:
        test = permutation_test(cells, common.mix, tested, alpha=settings.alpha, seed=settings.seed)
        p = test.p
        way = f"studentised permutation test, samples permuted inside strata, at most {test.most:,} permutations"
    unknown = Limits(np.full(len(units), np.nan), np.full(len(units), np.nan))

    def gap_at(alpha: float) -> Limits:
        return _gap_limits(sides.gap, moments, rest, common.mix, 1 - alpha)

    return Contrasts(
        gap=sides.gap,
        gap_limits=gap_at(settings.alpha),
        gap_at=gap_at,
        sigma=unknown.low,
        sigma_limits=unknown,
        sigma_at=lambda _: unknown,
        dropped=common.dropped,
        units=units,
        rest_units=rest_units,
        p=p,
        way=way,
    )


def _every_permutation(moments: Floats) -> Floats:
    """Return p of each group: twice the chance of a count of ones as extreme as observed, if samples are dealt out.

    A group's number of ones is then hypergeometric, so that nothing need be drawn. Not studentised: values of 0 and 1
    with equal means have equal variances too, and a group without a single 0 would seem infinitely surprising.
    """
    p = np.full(len(moments), np.nan)
    everyone = moments.sum(axis=0)
    for group, sums in enumerate(moments):
        size, ones, all_ = int(sums[SAMPLES]), int(everyone[TOTAL]), int(everyone[SAMPLES])
        if size == all_:
            continue
        p[group] = min(1.0, 2 * min(hypergeometric_tails(int(sums[TOTAL]), all_, ones, size)))
    return p


def _gap_limits(gap: Floats, moments: Floats, rest: Floats, mix: Floats, confidence: float) -> Limits:
    """Return gap ± √Σ mix² (distance of each side's own limit from its share)²."""
    below, above = np.zeros_like(gap), np.zeros_like(gap)
    for group, stratum in np.argwhere(mix > 0):
        own_down, own_up = _reach(moments[group, stratum], confidence)
        rest_down, rest_up = _reach(rest[group, stratum], confidence)
        weight2 = mix[group, stratum] ** 2
        below[group] += weight2 * (own_down**2 + rest_up**2)
        above[group] += weight2 * (own_up**2 + rest_down**2)
    comparable = (mix > 0).any(axis=1)
    low, high = np.maximum(gap - np.sqrt(below), -1.0), np.minimum(gap + np.sqrt(above), 1.0)
    return Limits(np.where(comparable, low, np.nan), np.where(comparable, high, np.nan))


def _reach(sums: Floats, confidence: float) -> tuple[float, float]:
    """Return how far a share lies from its exact lower limit, and from its exact upper limit."""
    hits, size = float(sums[TOTAL]), float(sums[SAMPLES])
    low, high = binomial_interval(hits, size, confidence)
    return hits / size - low, high - hits / size


def variation(shares: Floats) -> Floats:
    """Return √variance / mean over the groups; 0 where all are 0."""
    return np.sqrt(np.nan_to_num(relative_variance(shares)))


def share_spread(
    shares: Floats, sizes: Floats, statistic: Statistic, settings: AuditSettings, bound: Bound
) -> Estimate:
    """Return the variance, the coefficient of variation or the largest gap of the groups' true shares.

    The interval inverts a test with binomial counts, so that nothing is assumed normal and 0 can lie in it. Variances
    are debiased by what noise adds to them; the gap is median-unbiased.

    Parameters
    ----------
    shares, sizes
        Of each group; sizes may be effective sizes of clusters.
    statistic
        `variance`, `variation` or `largest_gap`.

    >>> shares, sizes = np.array([0.4, 0.8]), np.array([100.0, 100.0])
    >>> print(share_spread(shares, sizes, largest_gap, AuditSettings(), Bound.EXACT))
    0.3973 [0.2663, 0.5159]
    """
    spread_bound = bound.of_spread()
    if len(shares) < 2:
        return Estimate.undefined("one group alone has no spread", spread_bound)
    if statistic is variation and not shares.any():
        return Estimate.undefined("every group has accuracy 0", spread_bound)
    counts = np.maximum(np.rint(sizes), 1).astype(np.int64)

    def simulate(truth: Floats) -> Floats:
        stream = np.random.default_rng([settings.seed, 5])  # the same for every hypothesis: limits vary smoothly
        return np.asarray(stream.binomial(counts, np.clip(truth, 0, 1), (settings.resamples, len(counts))) / counts)

    # One success and one failure added: shares of 0 and 1 are not known without error.
    smoothed = (shares * counts + 1) / (counts + 2)
    noise = np.sqrt(smoothed * (1 - smoothed) / counts)

    def of_shares(means: Floats) -> Floats:
        return statistic(np.clip(means, 0, 1))  # a hypothesis of far larger differences leaves [0, 1]

    value, low, high = spread_interval(shares, noise, simulate, of_shares, settings.confidence)
    # Shares end at 0 and 1, so that the variation can fall again while differences grow.
    low, high = sorted(0.0 if limit < 1e-12 else limit for limit in (low, high))  # less is what rounding leaves
    if statistic is not largest_gap:
        plain = debiased_variance(shares, shares * (1 - shares) / np.maximum(counts - 1, 1))
        value = plain if statistic is variance else math.sqrt(plain) / float(shares.mean())
    return Estimate(min(max(value, low), high), low, high, spread_bound)


def mean_share(shares: Floats, sizes: Floats, settings: AuditSettings, bound: Bound) -> Estimate:
    """Return the unweighted mean of the groups' shares; exact limits of the groups combined by squares."""
    limits = _limits(shares, sizes, settings.confidence)
    value = float(shares.mean())
    below, above = (math.sqrt(float(np.square(shares - each).sum())) / len(shares) for each in limits)
    return Estimate(value, max(0.0, value - below), min(1.0, value + above), bound)


def worst_share(shares: Floats, sizes: Floats, settings: AuditSettings, bound: Bound) -> Estimate:
    """Return the smallest share.

    Below: the smallest of the groups' lower limits (only the limit of the truly worst group can fail). Above: the
    smallest of upper limits that hold for all groups at once (Bonferroni), since any can fail.
    """
    low, _ = _limits(shares, sizes, settings.confidence)
    _, high = _limits(shares, sizes, 1 - settings.alpha / len(shares))
    return Estimate(float(shares.min()), float(low.min()), float(high.min()), bound)


def _limits(shares: Floats, sizes: Floats, confidence: float) -> tuple[Floats, Floats]:
    pairs = [binomial_interval(share * size, size, confidence) for share, size in zip(shares, sizes, strict=True)]
    low, high = np.array(pairs).T
    return low, high
