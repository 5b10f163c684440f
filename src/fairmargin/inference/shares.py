"""Shares of groups, such as accuracies: intervals, comparisons with the rest, and their spread over groups."""

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
    """Return Clopper and Pearson's exact interval of a share. Counts can be fractional (effective sizes).

    >>> [round(limit, 4) for limit in binomial_interval(8, 10, 0.95)]
    [0.4439, 0.9748]
    """
    tail = (1 - confidence) / 2
    low = 0.0 if hits <= 0 else beta_quantile(tail, hits, size - hits + 1)
    high = 1.0 if hits >= size else beta_quantile(1 - tail, hits + 1, size - hits)
    return low, high


def kolmogorov_band(size: float, confidence: float) -> float:
    """Return the half-width of a confidence band that contains the true curve, for a curve of `size` samples.

    It follows from the distribution of Kolmogorov's statistic, and is conservative if the curve has jumps.

    >>> round(kolmogorov_band(100, 0.95), 3)
    0.134
    """
    return min(1.0, kolmogorov_quantile(confidence, max(int(size), 1)))


def effective_size(samples_per_unit: Floats) -> float:
    """Return (Σn)² / Σn², the number of independent samples that clusters of equal samples correspond to."""
    return float(samples_per_unit.sum() ** 2 / np.square(samples_per_unit).sum())


def share_contrasts(hits: Floats, partition: Partition, settings: AuditSettings, cluster: Ints | None) -> Contrasts:
    """Return the share of ones of each group minus that of its rest, with limits and p-values.

    Independent samples that are 0 or 1 with the same probability are exchangeable, so that the permutation test is
    exact at any size. In each stratum, the distances of the exact limits from the shares of both sides are combined by
    squares (Newcombe 1998, there with Wilson's limits). These limits are also valid if a side is all 0 or all 1, where
    the standard error is 0. Clusters are compared as in an audit of distances.
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
    tested = is_testable(units, rest_units, common.dropped, settings)  # single samples are their effective number
    if cells.strata == 1:
        p = np.where(tested, _every_permutation(moments[:, 0]), np.nan)
        way = "Fisher's exact test over all assignments of the samples to the groups, both tails alike"
    else:
        test = permutation_test(cells, common.mix, tested, alpha=settings.alpha, seed=settings.seed)
        p = test.p
        way = f"studentised permutation test, samples permuted inside strata, at most {test.most:,} permutations"
    unknown = Limits(np.full(len(units), np.nan), np.full(len(units), np.nan))

    def gap_at(alpha: float) -> Limits:
        return _gap_limits(sides.gap, moments, rest, common.mix, 1 - alpha)

    return Contrasts(
        gap=sides.gap,
        gap_at=gap_at,
        sigma=unknown.low,
        sigma_limits=unknown,
        sigma_at=lambda _: unknown,
        dropped=common.dropped,
        units=units,
        rest_units=rest_units,
        effective=units,
        rest_effective=rest_units,
        p=p,
        way=way,
    )


def _every_permutation(moments: Floats) -> Floats:
    """Return the p-value of each group: twice the probability of a count of ones as extreme as the observed one.

    Under permutations the count is hypergeometric. It is not studentised: values of 0 and 1 with equal means have equal
    variances too, and the studentised statistic of a group without a single 0 would be infinite.
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
    """Return the distances of a share from its exact lower and upper limit."""
    hits, size = float(sums[TOTAL]), float(sums[SAMPLES])
    low, high = binomial_interval(hits, size, confidence)
    return hits / size - low, high - hits / size


def variation(shares: Floats) -> Floats:
    """Return the coefficient of variation over the groups; 0 if all shares are 0."""
    return np.sqrt(np.nan_to_num(relative_variance(shares)))


def share_spread(
    shares: Floats, sizes: Floats, statistic: Statistic, settings: AuditSettings, bound: Bound
) -> Estimate:
    """Return the variance, the coefficient of variation or the largest gap of the groups' true shares.

    The interval inverts a test with binomial counts: it assumes no normal distribution, and can contain 0. Variances
    are debiased by the variance of the noise; the gap is median-unbiased.

    Parameters
    ----------
    shares, sizes
        Share and number of samples of each group; sizes can be effective sizes of clusters.
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
        stream = np.random.default_rng([settings.seed, 5])  # equal for all hypotheses, so that limits vary smoothly
        return np.asarray(stream.binomial(counts, np.clip(truth, 0, 1), (settings.resamples, len(counts))) / counts)

    # One success and one failure are added, because shares of 0 and 1 are not known without error either.
    smoothed = (shares * counts + 1) / (counts + 2)
    noise = np.sqrt(smoothed * (1 - smoothed) / counts)

    def of_shares(means: Floats) -> Floats:
        return statistic(np.clip(means, 0, 1))  # hypotheses of very large differences lie outside of [0, 1]

    value, low, high = spread_interval(shares, noise, simulate, of_shares, settings.confidence)
    # As shares are clipped at 0 and 1, the variation can decrease while the hypothetical differences grow.
    low, high = sorted(0.0 if limit < 1e-12 else limit for limit in (low, high))  # smaller ones are rounding errors
    if statistic is not largest_gap:
        plain = debiased_variance(shares, shares * (1 - shares) / np.maximum(counts - 1, 1))
        value = plain if statistic is variance else math.sqrt(plain) / float(shares.mean())
    return Estimate(min(max(value, low), high), low, high, spread_bound)


def mean_share(shares: Floats, sizes: Floats, settings: AuditSettings, bound: Bound) -> Estimate:
    """Return the unweighted mean of the groups' shares, with the exact limits of the groups combined by squares."""
    limits = _limits(shares, sizes, settings.confidence)
    value = float(shares.mean())
    below, above = (math.sqrt(float(np.square(shares - each).sum())) / len(shares) for each in limits)
    return Estimate(value, max(0.0, value - below), min(1.0, value + above), bound)


def worst_share(shares: Floats, sizes: Floats, settings: AuditSettings, bound: Bound) -> Estimate:
    """Return the smallest share.

    The lower limit is the smallest of the groups' lower limits, because only that of the truly worst group can fail.
    The upper limit is the smallest of simultaneous upper limits (Bonferroni), because each of them can fail.
    """
    low, _ = _limits(shares, sizes, settings.confidence)
    _, high = _limits(shares, sizes, 1 - settings.alpha / len(shares))
    return Estimate(float(shares.min()), float(low.min()), float(high.min()), bound)


def _limits(shares: Floats, sizes: Floats, confidence: float) -> tuple[Floats, Floats]:
    pairs = [binomial_interval(share * size, size, confidence) for share, size in zip(shares, sizes, strict=True)]
    low, high = np.array(pairs).T
    return low, high
