"""Shares of groups against the shares of their rests, exactly where samples are independent."""

import numpy as np
from scipy import stats

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.partition import Partition
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.contrast import Contrasts, is_testable
from fairmargin.inference.contrasts import compare_groups
from fairmargin.inference.exact_intervals import binomial_interval
from fairmargin.inference.permutation import permutation_test
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.units import SAMPLES, TOTAL, UNITS, common_mix, make_cells, rest_of, two_sides


def share_contrasts(hits: Floats, partition: Partition, settings: AuditSettings, cluster: Ints | None) -> Contrasts:
    """Each group's share of ones minus that of its rest, with limits and p-values.

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
        return _limits(sides.gap, moments, rest, common.mix, 1 - alpha)

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
    """p of each group: twice the chance of so many ones, or more extreme on the same side, if samples were dealt out.

    A group's number of ones is then hypergeometric, so that nothing need be drawn. Not studentised: values of 0 and 1
    with equal means have equal variances too, and a group without a single 0 would seem infinitely surprising.
    """
    p = np.full(len(moments), np.nan)
    everyone = moments.sum(axis=0)
    for group, sums in enumerate(moments):
        size, ones, all_ = int(sums[SAMPLES]), int(everyone[TOTAL]), int(everyone[SAMPLES])
        if size == all_:
            continue
        dealt = stats.hypergeom(all_, ones, size)
        p[group] = min(1.0, 2 * min(float(dealt.cdf(sums[TOTAL])), float(dealt.sf(sums[TOTAL] - 1))))
    return p


def _limits(gap: Floats, moments: Floats, rest: Floats, mix: Floats, confidence: float) -> Limits:
    """gap ± √Σ mix² (how far each side's own limit lies from its share)²."""
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
    """From a share down to its exact lower limit, and up to its upper limit."""
    hits, size = float(sums[TOTAL]), float(sums[SAMPLES])
    low, high = binomial_interval(hits, size, confidence)
    return hits / size - low, high - hits / size
