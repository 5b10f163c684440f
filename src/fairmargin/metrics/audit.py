"""From distances and groups to a verdict that can be defended."""

import math

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition, check_partition
from fairmargin.errors import InputError
from fairmargin.metrics import crossing, nested, spread
from fairmargin.metrics.bootstrap import Limits
from fairmargin.metrics.capping import cut_words, forced_cut, within_cap, without_spread
from fairmargin.metrics.contrast import Contrasts, GroupMeans
from fairmargin.metrics.exact_intervals import binomial_interval, effective_size, kolmogorov_band
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.results import JUST_BEYOND_ZERO, LESS_ROBUST, AuditResult, Estimate, GroupResult, OverallResult
from fairmargin.metrics.simultaneous import Family
from fairmargin.metrics.units import make_cells
from fairmargin.metrics.verdicts import finding_of, verdict_of, warnings_of


def audit(distances: Distances, partition: Partition, plan: AuditPlan | None = None) -> AuditResult:
    """Compares every group of a partition with the rest, with intervals, tests and a verdict in words.

    Parameters
    ----------
    distances
        One number per sample, from `measure` or from anywhere else.
    partition
        The groups.
    plan
        Confidence, control, clusters and limits; the defaults suit independent samples.

    >>> from fairmargin.core.norm import Norm
    >>> rng = np.random.default_rng(0)
    >>> values = np.concatenate([rng.gamma(2, 1.0, 200), rng.gamma(2, 2.0, 200)])
    >>> d = Distances(values, values > 0, Bound.EXACT, Norm.L2)
    >>> result = audit(d, Partition.by("sex", ["F"] * 200 + ["M"] * 200))
    >>> result["F"].verdict
    'less robust'
    """
    chosen = plan or AuditPlan()
    check_partition(partition)
    if not isinstance(distances, Distances):
        raise InputError(f"`distances` must be `Distances`, as `measure` returns; given a {type(distances).__name__}.")
    same_length(distances=distances, partition=partition)
    if chosen.control is not None:
        same_length(distances=distances, control=chosen.control)
    up_to, cap_reason = common_cap(distances, chosen.up_to)
    values = np.minimum(distances.values, up_to)
    cluster = chosen.cluster_codes(len(values))
    means, contrasts = compare_groups(values, partition, chosen, cluster)
    cut = forced_cut([distances], partition, up_to, chosen.up_to)
    rows = within_cap(_rows(distances, partition, means, contrasts, chosen, cluster), cut)
    return AuditResult(
        partition=partition.name,
        groups=rows,
        overall=without_spread(_overall(distances, partition, means, rows, chosen, cluster), cut),
        bound=distances.bound,
        norm=distances.norm,
        subject=distances.subject,
        confidence=chosen.confidence,
        up_to=up_to,
        cap_reason=cap_reason,
        control="" if chosen.control is None else chosen.control.name,
        clustered=cluster is not None,
        method=_method(chosen, contrasts),
        warnings=(*filter(None, [cut.warning]), *warnings_of(values, partition, rows, distances.bound)),
    )


def compare_groups(
    values: Floats, partition: Partition, plan: AuditPlan, cluster: Ints | None
) -> tuple[GroupMeans, Contrasts]:
    """Each group's mean, and each group against its rest, by the machinery that suits the clusters."""
    plain = make_cells(values, partition, None, cluster)
    cells = plain if plan.control is None else make_cells(values, partition, plan.control, cluster)
    drawn = None if plain is None else nested.draw(plain, plan)
    if plain is None or drawn is None:
        assert cluster is not None  # single samples never span groups
        means = crossing.means(crossing.cluster_sums(values, partition, None, cluster), plan)
    else:
        means = nested.means(plain, drawn, plan)
    if cells is None:
        assert cluster is not None
        return means, crossing.contrasts(crossing.cluster_sums(values, partition, plan.control, cluster), plan)
    if cells is not plain or drawn is None:
        drawn = nested.draw(cells, plan)
    return means, nested.contrasts(cells, drawn, plan)


def common_cap(distances: Distances, up_to: float) -> tuple[float, str]:
    """The radius at which every distance is capped, and why: the user's, or one forced by unreached samples.

    Unreached samples are known only to lie beyond what was tried. The cap is the smaller of the largest distance found
    and the shortest search that failed, so that min(r, cap) is known for everyone. Whether such a cap leaves enough to
    compare, `forced_cut` says.
    """
    missing = distances.unreached
    if not missing.any():
        return up_to, cut_words(distances, up_to, "the radius asked for")
    share = f"{missing.sum():,} of {len(missing):,} samples ({missing.mean():.1%}) have no finite distance"
    searched = np.empty(0) if distances.tried is None else distances.tried[missing]
    shortest = float(searched[searched > 0].min(initial=np.inf))  # NaN: not recorded
    if math.isfinite(up_to):
        known = "" if up_to <= shortest else f", although the search for them looked only as far as {shortest:.4g}"
        cut = cut_words(distances, up_to)
        return up_to, f"{share} and count as {up_to:.4g}, the radius asked for{known}{cut and f'; {cut}'}"
    found = float(distances.values[~missing].max(initial=0.0))
    cap = min(c for c in (found, shortest) if c > 0)
    if not math.isfinite(cap):
        raise InputError(
            f"{missing.sum():,} of {len(missing):,} samples have no finite distance, the others are 0, and nothing "
            "says how far the search looked. Set `up_to=` (--up-to) to the radius up to which robustness matters."
        )
    cut = cut_words(distances, cap, "the shortest search that found nothing")
    return cap, f"{share}, so that every distance is capped at {cap:.4g}, the same for all groups{cut and f'; {cut}'}"


def _rows(
    distances: Distances,
    partition: Partition,
    means: GroupMeans,
    contrasts: Contrasts,
    plan: AuditPlan,
    cluster: Ints | None,
) -> tuple[GroupResult, ...]:
    family = Family.of(contrasts, plan.alpha)
    adjusted = family.adjusted
    bound = distances.bound
    rows = []
    for i, (label, mask) in enumerate(partition):
        verdict = verdict_of(i, contrasts, float(adjusted[i]), plan)
        sigma = _sigma(i, label, contrasts, family.sigma, bound)
        rows.append(
            GroupResult(
                group=label,
                size=int(mask.sum()),
                accuracy=_accuracy(distances, mask, plan, cluster),
                unreached=float(distances.unreached[mask].mean()),
                robustness=_robustness(i, label, means, bound),
                sigma=sigma,
                sigma_alone=_sigma(i, label, contrasts, contrasts.sigma_limits, bound),
                gap_to_rest=_gap(i, label, contrasts, family.gap, bound - bound),
                p=float(contrasts.p[i]),
                p_adjusted=float(adjusted[i]),
                verdict=verdict,
                finding=finding_of(label, verdict, i, sigma, float(adjusted[i]), contrasts, plan, bound),
                curve=RobustnessCurve.of(distances, mask),
                band=kolmogorov_band(_effective(mask, cluster), plan.confidence),
                dropped=float(contrasts.dropped[i]),
            )
        )
    return tuple(rows)


def _accuracy(distances: Distances, mask: Bools, plan: AuditPlan, cluster: Ints | None) -> Estimate:
    """Exact binomial; with clusters, as if those of a cluster were copies of each other."""
    share, size = float(distances.correct[mask].mean()), _effective(mask, cluster)
    low, high = binomial_interval(share * size, size, plan.confidence)
    return Estimate(share, low, high, Bound.EXACT)


def _effective(mask: Bools, cluster: Ints | None) -> float:
    if cluster is None:
        return float(mask.sum())
    return effective_size(np.unique(cluster[mask], return_counts=True)[1].astype(np.float64))


def _robustness(i: int, label: str, means: GroupMeans, bound: Bound) -> Estimate:
    value = float(means.mean[i])
    if means.units[i] < 2:
        reason = f"group {label!r} has 1 independent sample; an interval needs at least 2"
        return Estimate(value, math.nan, math.nan, bound, reason)
    if value == 0:
        return Estimate(0.0, 0.0, math.nan, bound, f"no sample of group {label!r} has a distance above 0")
    return Estimate(*_around(value, float(means.limits.low[i]), float(means.limits.high[i]), scale=0.0), bound)


def _sigma(i: int, label: str, contrasts: Contrasts, limits: Limits, bound: Bound) -> Estimate:
    value, ratio = float(contrasts.sigma[i]), bound / bound
    if math.isnan(value) or math.isinf(value):
        return Estimate.undefined(
            _no_contrast(i, label, contrasts) or f"the rest of group {label!r} has robustness 0", ratio
        )
    if min(contrasts.units[i], contrasts.rest_units[i]) < 2:
        return Estimate(value, math.nan, math.nan, ratio, f"group {label!r} or its rest has 1 sample: no interval")
    if value == -1:
        reason = f"no sample of group {label!r} has a distance above 0"
        return Estimate(-1.0, -1.0, -JUST_BEYOND_ZERO if limits.high[i] < 0 else math.nan, ratio, reason)
    return Estimate(*_around(value, float(limits.low[i]), float(limits.high[i])), ratio)


def _around(value: float, low: float, high: float, scale: float = 1.0) -> tuple[float, float, float]:
    """Return a value inside its limits, without what rounding leaves of a difference that is none (`scale` above 0)."""
    if abs(value) < JUST_BEYOND_ZERO * scale:
        value, low, high = (0.0 if abs(part) < JUST_BEYOND_ZERO * scale else part for part in (value, low, high))
    if math.isnan(low) or math.isnan(high):
        return value, low, high
    return value, min(low, value), max(high, value)


def _gap(i: int, label: str, contrasts: Contrasts, limits: Limits, bound: Bound) -> Estimate:
    reason = _no_contrast(i, label, contrasts)
    if reason:
        return Estimate.undefined(reason, bound)
    value, low, high = (float(part[i]) for part in (contrasts.gap, limits.low, limits.high))
    if min(contrasts.units[i], contrasts.rest_units[i]) < 2:
        return Estimate(value, math.nan, math.nan, bound, f"group {label!r} or its rest has 1 sample: no interval")
    scale = abs(value / contrasts.sigma[i]) if np.isfinite(contrasts.sigma[i]) and contrasts.sigma[i] else abs(value)
    return Estimate(*_around(value, low, high, float(scale)), bound)


def _no_contrast(i: int, label: str, contrasts: Contrasts) -> str:
    if contrasts.rest_units[i] == 0:
        return f"there is no sample outside group {label!r}"
    if contrasts.dropped[i] == 1:
        return f"no stratum has two samples of group {label!r} and two others"
    return ""


def _overall(
    distances: Distances,
    partition: Partition,
    means: GroupMeans,
    rows: tuple[GroupResult, ...],
    plan: AuditPlan,
    cluster: Ints | None,
) -> OverallResult:
    everyone = np.ones(len(distances), dtype=np.bool_)
    bound = distances.bound
    worst = int(means.mean.argmin())
    one_is_less_robust = any(row.verdict == LESS_ROBUST for row in rows)
    worst_limits = spread.worst_limits(means, plan.confidence, one_is_less_robust=one_is_less_robust)
    return OverallResult(
        size=len(distances),
        accuracy=_accuracy(distances, everyone, plan, cluster),
        robustness=_mean_over_groups(means, plan, bound),
        variance=_spread(means, spread.variance, plan, bound),
        relative_variance=_spread(means, spread.relative_variance, plan, bound),
        largest_gap=_spread(means, spread.largest_gap, plan, bound),
        worst_group=partition.labels[worst],
        worst_robustness=Estimate(*_around(float(means.mean[worst]), *worst_limits, scale=0.0), bound),
        p_equal=min((row.p_adjusted for row in rows if not math.isnan(row.p_adjusted)), default=math.nan),
    )


def _mean_over_groups(means: GroupMeans, plan: AuditPlan, bound: Bound) -> Estimate:
    """Rob(f); without an interval if the spread of one of its groups is unknown."""
    value = float(means.mean.mean())
    if (means.units < 2).any():
        return Estimate(value, math.nan, math.nan, bound, "a group has 1 independent sample: its spread is unknown")
    if value == 0:
        return Estimate(0.0, 0.0, math.nan, bound, "no sample has a distance above 0")
    limits = spread.overall_limits(means, plan.confidence)
    return Estimate(*_around(value, float(limits.low[0]), float(limits.high[0]), scale=0.0), bound)


def _spread(means: GroupMeans, statistic: spread.Statistic, plan: AuditPlan, bound: Bound) -> Estimate:
    """A variance or extreme over groups: debiased, with an interval that can hold 0."""
    kept = means.units >= 2
    spread_bound = bound.of_spread()
    if kept.sum() < 2:
        return Estimate.undefined("fewer than two groups have two independent samples", spread_bound)
    if means.mean[kept].mean() == 0:
        return Estimate.undefined("every group has robustness 0", spread_bound)
    mean, units, error2 = means.mean[kept], means.units[kept], means.error2[kept]
    simulate = spread.shifted_errors(means.resampled[:, kept], mean, units)
    value, low, high = spread.spread_interval(mean, np.sqrt(error2), simulate, statistic, plan.confidence)
    if statistic is not spread.largest_gap:  # variances are debiased by what their noise adds on average
        debiased = spread.debiased_variance(mean, error2)
        debiased = debiased if statistic is spread.variance else debiased / float(mean.mean()) ** 2
        value = min(max(debiased, low), high)
    return Estimate(value, low, high, spread_bound)


def _method(plan: AuditPlan, contrasts: Contrasts) -> str:
    return (
        f"{plan.confidence:.0%} intervals. σ and gap: for all groups at once (Bonferroni), by Hall's transformation of "
        "the studentised log ratio, at least as wide as Student's with degrees of freedom from the kurtosis and as a "
        f"group's own bootstrap-t interval with {plan.resamples:,} resamples; they exclude 0 exactly where the "
        "corrected p is significant. Spread over groups: by inverting a test that allows 0. Accuracy: exact binomial. "
        f"Curves: Kolmogorov's band. p-values: the largest of these methods and of a {contrasts.way}, corrected by "
        "Holm's method over the groups."
    )
