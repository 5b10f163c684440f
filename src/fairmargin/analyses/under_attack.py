"""From who was right, and who stayed right under attack, to robust accuracy group by group."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.analyses.attacked import EveryoneUnderAttack, GroupUnderAttack
from fairmargin.analyses.robust_accuracy import RobustAccuracy
from fairmargin.analyses.under_attack_words import finding_of, warnings_of
from fairmargin.core.arrays import Bools, Floats, Ints, as_bools, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.radius import as_radii
from fairmargin.errors import InputError
from fairmargin.inference.accuracy import error_split
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.contrast import Contrasts
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.exact_intervals import binomial_interval, effective_size
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.share_contrast import share_contrasts
from fairmargin.inference.share_spread import mean_share, share_spread, variation, worst_share
from fairmargin.inference.simultaneous import Family
from fairmargin.inference.spread import largest_gap, variance
from fairmargin.inference.verdicts import verdict_of


def accuracy_under_attack(
    correct: npt.ArrayLike,
    robust: npt.ArrayLike,
    partition: Partition,
    settings: AuditSettings | None = None,
    *,
    attack: str,
    norm: Norm | str,
    radius: Any,
    bound: Bound | str = Bound.UPPER,
) -> RobustAccuracy:
    """Robust accuracy of every group, with intervals, tests and a verdict in words.

    Per group robust error = natural + boundary error, exactly. p_adv has Clopper and Pearson's exact interval; VCRA,
    VCA, the largest gap and the coefficient of variation are debiased, with intervals that can hold 0; groups are
    compared with their rests by permutation, corrected by Holm.

    Parameters
    ----------
    correct
        Whether each sample is classified as its label says.
    robust
        Whether it still is when attacked; True only where `correct` is.
    partition
        The groups.
    settings
        Confidence, control, clusters and limits, as for an audit.
    attack, norm, radius
        What was done: a name, the norm, and the radius (0.1, "4/255") or one a sample.
    bound
        UPPER for attacks, which may have overlooked something; LOWER for certificates; EXACT where all is known.

    References
    ----------
    X. Ma, Z. Wang, W. Liu, "On the Tradeoff Between Robustness and Fairness", 2022 (p_adv, VCRA).

    >>> correct, robust = [True] * 90 + [False] * 10, [True] * 45 + [False] * 55
    >>> groups = Partition.by("sex", ["F", "M"] * 50)
    >>> found = accuracy_under_attack(correct, robust, groups, attack="pgd", norm="linf", radius="4/255")
    >>> found.overall.wrong, found.overall.fooled, found.overall.withstood
    (10, 45, 45)
    >>> found["F"].verdict
    'no significant difference'
    """
    chosen = settings or AuditSettings()
    if math.isfinite(chosen.up_to):
        raise InputError("`up_to` caps distances, and robust accuracy at a radius has none: leave it out.")
    error_split(correct, robust)  # says so if they contradict each other
    hits, withstood = as_bools(correct, "correct"), as_bools(robust, "robust")
    same_length(correct=hits, partition=partition)
    if chosen.control is not None:
        same_length(correct=hits, control=chosen.control)
    side, radii = Bound.parse(bound), as_radii(radius, len(hits))
    cluster = chosen.cluster_codes(len(hits))
    sizes = np.array([_effective(mask, cluster) for _, mask in partition])
    contrasts = share_contrasts(withstood.astype(np.float64), partition, chosen, cluster)
    rows = _rows(hits, withstood, partition, sizes, contrasts, chosen, side)
    overall = _overall(hits, withstood, rows, sizes, chosen, side, cluster)
    return RobustAccuracy(
        partition=partition.name,
        attack=attack,
        norm=Norm.parse(norm),
        radius=float(radii.max()),
        smallest_radius=float(radii.min()),
        groups=rows,
        overall=overall,
        bound=side,
        confidence=chosen.confidence,
        control="" if chosen.control is None else chosen.control.name,
        clustered=cluster is not None,
        method=_method(chosen, contrasts, cluster),
        warnings=warnings_of(rows, overall, side),
    )


def _rows(
    hits: Bools,
    withstood: Bools,
    partition: Partition,
    sizes: Floats,
    contrasts: Contrasts,
    settings: AuditSettings,
    bound: Bound,
) -> tuple[GroupUnderAttack, ...]:
    family = Family.of(contrasts, settings.alpha)
    adjusted = family.adjusted
    rows = []
    for i, (label, mask) in enumerate(partition):
        verdict = verdict_of(i, contrasts, float(adjusted[i]), settings)
        robust, gap = _share(withstood[mask], sizes[i], settings, bound), _gap(i, label, contrasts, family.gap, bound)
        rows.append(
            GroupUnderAttack(
                group=label,
                size=int(mask.sum()),
                wrong=int((~hits[mask]).sum()),
                fooled=int((hits & ~withstood)[mask].sum()),
                natural_accuracy=_share(hits[mask], sizes[i], settings, Bound.EXACT),
                robust_accuracy=robust,
                gap_to_rest=gap,
                p=float(contrasts.p[i]),
                p_adjusted=float(adjusted[i]),
                verdict=verdict,
                finding=finding_of(label, verdict, i, robust, gap, float(adjusted[i]), contrasts, settings),
            )
        )
    return tuple(rows)


def _overall(
    hits: Bools,
    withstood: Bools,
    rows: tuple[GroupUnderAttack, ...],
    sizes: Floats,
    settings: AuditSettings,
    bound: Bound,
    cluster: Ints | None,
) -> EveryoneUnderAttack:
    everyone = _effective(np.ones(len(hits), dtype=np.bool_), cluster)
    natural = np.array([row.natural_accuracy.value for row in rows])
    robust = np.array([row.robust_accuracy.value for row in rows])
    return EveryoneUnderAttack(
        size=len(hits),
        wrong=int((~hits).sum()),
        fooled=int((hits & ~withstood).sum()),
        natural_accuracy=_share(hits, everyone, settings, Bound.EXACT),
        robust_accuracy=_share(withstood, everyone, settings, bound),
        mean_accuracy=mean_share(robust, sizes, settings, bound),
        vcra=share_spread(robust, sizes, variance, settings, bound),
        vca=share_spread(natural, sizes, variance, settings, Bound.EXACT),
        gap=share_spread(robust, sizes, largest_gap, settings, bound),
        variation=share_spread(robust, sizes, variation, settings, bound),
        worst_group=rows[int(robust.argmin())].group,
        worst_accuracy=worst_share(robust, sizes, settings, bound),
        p_equal=min((row.p_adjusted for row in rows if not math.isnan(row.p_adjusted)), default=math.nan),
    )


def _share(hits: Bools, size: float, settings: AuditSettings, bound: Bound) -> Estimate:
    """Exact binomial; with clusters, as if those of a cluster were copies of each other."""
    share = float(hits.mean())
    return Estimate(share, *binomial_interval(share * size, size, settings.confidence), bound)


def _gap(i: int, label: str, contrasts: Contrasts, limits: Limits, bound: Bound) -> Estimate:
    value, low, high = (float(part[i]) for part in (contrasts.gap, limits.low, limits.high))
    if contrasts.rest_units[i] == 0:
        return Estimate.undefined(f"there is no sample outside group {label!r}", bound - bound)
    if contrasts.dropped[i] == 1:
        return Estimate.undefined(f"no stratum has two samples of group {label!r} and two others", bound - bound)
    return Estimate(value, low, high, bound - bound)


def _effective(mask: Bools, cluster: Ints | None) -> float:
    if cluster is None:
        return float(mask.sum())
    return effective_size(np.unique(cluster[mask], return_counts=True)[1].astype(np.float64))


def _method(settings: AuditSettings, contrasts: Contrasts, cluster: Ints | None) -> str:
    gaps = "exact limits of both sides combined by squares" if cluster is None else "bootstrap-t of whole clusters"
    return (
        f"{settings.confidence:.0%} intervals: accuracies exact binomial; gaps to the rest by {gaps}, for all groups "
        "at once (Bonferroni), excluding 0 exactly where the corrected p is significant; spread over groups by "
        f"inverting a test that allows 0, with {settings.resamples:,} draws. p-values: {contrasts.way}, corrected by "
        "Holm's method over the groups."
    )
