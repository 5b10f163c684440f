"""A lower and an upper bound of the same distances: between what limits robustness, gaps and σ certainly lie."""

import math
from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances, words_of_keep
from fairmargin.core.partition import Partition, check_partition
from fairmargin.errors import InputError
from fairmargin.metrics.audit import compare_groups
from fairmargin.metrics.bracket_words import finding_of
from fairmargin.metrics.bracketed import (
    CERTAINLY_LESS,
    CERTAINLY_LESS_HERE,
    CERTAINLY_MORE,
    CERTAINLY_MORE_HERE,
    NOT_CERTAIN,
    Bracket,
    GroupBracket,
    Range,
)
from fairmargin.metrics.capping import cut_words
from fairmargin.metrics.contrast import MOST_DROPPED, Contrasts, GroupMeans
from fairmargin.metrics.permutation import holm, hypotheses
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.results import JUST_BEYOND_ZERO, NOT_COMPARABLE, TOO_FEW
from fairmargin.metrics.variance_range import variance_range

_ROUNDING = 1e-6  # by which a certificate may seem to exceed an attack: both are calculated in floating point
_MODEL = "model"


def bracket(lower: Distances, upper: Distances, partition: Partition, plan: AuditPlan | None = None) -> Bracket:
    """Between what limits the robustness of each group lies, and whether a gap is certain.

    For every sample lower ≤ r ≤ upper. Hence, for *these samples*, Rob(P) ∈ [mean lower, mean upper] and
    σ(P) ∈ [lo_P/up_rest − 1, up_P/lo_rest − 1]: no attack and no certificate, however good, can leave these limits. For
    the population that the samples were drawn from, the sampling error of each limit is added.

    Guarantee: a verdict "certainly less robust" holds whatever the distances between the bounds are; about the
    population with the plan's confidence, corrected by Holm over the groups; about these samples without any doubt
    (of smoothing: up to the chance of false certificates). Limits for these samples are widened by what rounding can
    change in a mean. If distances are capped, everything holds for min(r, `up_to`), and says so.

    Parameters
    ----------
    lower, upper
        Of the same samples, subject and norm: a certificate (or exact) and an attack (or exact).
    partition
        The groups.
    plan
        As for `audit`; `up_to` caps both. Where an attack found nothing, both are capped at the largest finite bound.

    References
    ----------
    The algebra of bounds in docs/architecture.md; V_f's limits are the extremes of a variance over a box.

    >>> rng = np.random.default_rng(0)
    >>> r = np.concatenate([rng.gamma(4, 1.0, 200), rng.gamma(4, 2.0, 200)])
    >>> lower = Distances(0.8 * r, r > 0, Bound.LOWER, "l2")
    >>> upper = Distances(1.1 * r, r > 0, Bound.UPPER, "l2")
    >>> bracket(lower, upper, Partition.by("sex", ["F"] * 200 + ["M"] * 200))["F"].verdict
    'certainly less robust'
    """
    chosen = plan or AuditPlan()
    check_partition(partition)
    for name, given, kind in (("lower", lower, Distances), ("upper", upper, Distances), ("plan", chosen, AuditPlan)):
        if not isinstance(given, kind):
            raise InputError(f"`{name}` of `bracket` must be of kind {kind.__name__}; given a {type(given).__name__}.")
    same_length(lower=lower, upper=upper, partition=partition)
    sides = _Sides.of(lower, upper, chosen.up_to)
    cluster = chosen.cluster_codes(len(partition))
    found = [_Compared.of(i, sides, partition, chosen, cluster) for i in range(len(partition.labels))]
    p = np.array([each.p for each in found])
    count = hypotheses(~np.isnan(p))
    adjusted, everyone = holm(p, count), hypotheses(np.ones(len(p), dtype=np.bool_))
    levels = chosen.alpha / np.where(np.isnan(p), everyone, max(count, 1))  # see `simultaneous_limits`
    rows = tuple(
        _row(label, int(mask.sum()), each, float(adjusted[i]), float(levels[i]), sides, chosen)
        for i, ((label, mask), each) in enumerate(zip(partition, found, strict=True))
    )
    low, high = (np.array([getattr(row.robustness, side) for row in rows]) for side in ("low", "high"))
    return Bracket(
        partition=partition.name,
        groups=rows,
        variance=variance_range(low, high),
        share_closed=float(np.mean(sides.low == sides.high)),
        crossed=sides.crossed,
        norm=upper.norm,
        subject=upper.subject,
        confidence=chosen.confidence,
        up_to=sides.up_to,
        cap_reason=sides.cap_reason,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """The bounds of min(r, up_to), checked against each other; `crossed` samples had them the wrong way round."""

    low: Floats
    high: Floats
    crossed: int
    up_to: float
    cap_reason: str
    subject: str

    @property
    def rounding(self) -> float:
        """The relative rounding error of a mean of these samples: n·eps/2 at most, with room to spare."""
        return 4 * len(self.low) * float(np.finfo(np.float64).eps)

    @classmethod
    def of(cls, lower: Distances, upper: Distances, up_to: float) -> "_Sides":
        _check_kind(lower, upper)
        missing = upper.unreached
        cap, reason = up_to, cut_words(upper, up_to, "the radius asked for")
        if missing.any() and math.isinf(up_to):
            cap = float(max(upper.values[~missing].max(initial=0.0), lower.values[~lower.unreached].max(initial=0.0)))
            if cap == 0:
                raise InputError(
                    "No sample has a finite upper bound above 0, so that there is nothing to cap at. Set `up_to=` "
                    "(--up-to) to the radius up to which robustness matters."
                )
            reason = (
                f"{missing.sum():,} of {len(missing):,} samples have no finite upper bound: all capped at {cap:.4g}"
            )
        elif missing.any():
            unknown = f"{missing.sum():,} of {len(missing):,} samples have no finite upper bound and count as {cap:.4g}"
            reason = f"{unknown}; {reason}" if reason else f"{unknown}, the radius asked for"
        low, high = np.minimum(lower.values, cap), np.minimum(upper.values, cap)
        crossed = (low > high * (1 + _ROUNDING)) | (lower.correct != upper.correct)
        if crossed.any() and upper.subject == _MODEL:
            raise InputError(_contradiction(lower, upper, crossed))
        if crossed.any():
            # A smoothed model's bounds each hold with a probability only: such samples count from 0 to the larger one.
            low, high = np.where(crossed, 0.0, low), np.where(crossed, np.maximum(low, high), high)
        return cls(np.minimum(low, high), high, int(crossed.sum()), cap, reason, upper.subject)


def _check_kind(lower: Distances, upper: Distances) -> None:
    if lower.bound not in (Bound.LOWER, Bound.EXACT) or upper.bound not in (Bound.UPPER, Bound.EXACT):
        raise InputError(
            f"A bracket needs lower bounds (or exact distances) first and upper bounds (or exact ones) second; given "
            f"{lower.bound.words} and {upper.bound.words}."
        )
    if (lower.subject, lower.norm) != (upper.subject, upper.norm):
        why = "a certificate of a smoothed model says nothing of the model itself"
        if lower.subject == upper.subject:
            why = "measure both in the same norm"
        raise InputError(
            f"The lower bounds are of {lower.subject} in {lower.norm}, the upper ones of {upper.subject} in "
            f"{upper.norm}. Only bounds of one subject in one norm enclose anything: {why}."
        )
    if lower.keep != upper.keep:
        raise InputError(
            f"The lower bounds keep {words_of_keep(lower.keep)}, the upper ones {words_of_keep(upper.keep)}. Only "
            "bounds that keep the same classes enclose anything: measure both with one `keep`."
        )


def _contradiction(lower: Distances, upper: Distances, crossed: Bools) -> str:
    first = int(crossed.argmax())
    where = f"first sample {first}: {lower.values[first]:.6g} and {upper.values[first]:.6g}"
    if lower.correct[first] != upper.correct[first]:
        where = f"sample {first} is classified correctly in one of them only"
    return (
        f"The lower bounds contradict the upper ones in {crossed.sum():,} of {len(crossed):,} samples ({where}). Were "
        "both measured on the same model, samples and labels, in the same order?"
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """One group against its rest with the bounds least and most in its favour."""

    least: tuple[GroupMeans, Contrasts]
    most: tuple[GroupMeans, Contrasts]
    p: float

    @classmethod
    def of(cls, i: int, sides: _Sides, partition: Partition, plan: AuditPlan, cluster: Ints | None) -> "_Compared":
        own = partition.membership == i
        labels, alone = ("group", "rest"), bool(own.all())
        two = Partition(partition.name, labels[: 1 if alone else 2], np.where(own, 0, 1))
        least = compare_groups(np.where(own, sides.low, sides.high), two, plan, cluster)
        most = compare_groups(np.where(own, sides.high, sides.low), two, plan, cluster)
        # Only a gap that keeps its sign with the bounds least in its favour is evidence.
        p = np.nan if np.isnan(least[1].p[0]) else 1.0
        for contrasts, sign in ((least[1], 1), (most[1], -1)):
            if sign * contrasts.gap[0] > 0 and not np.isnan(contrasts.p[0]):
                p = min(p, float(contrasts.p[0]))
        return cls(least, most, p)


def _row(
    label: str, size: int, found: _Compared, adjusted: float, level: float, sides: _Sides, plan: AuditPlan
) -> GroupBracket:
    """Make the row of one group; `level` is Bonferroni's, at which population limits hold for all groups at once."""
    (least_means, least), (most_means, most) = found.least, found.most
    largest = float(sides.high.max())
    robustness = _range(
        (max(0.0, float(least_means.mean[0]) * (1 - sides.rounding)),
         min(largest, float(most_means.mean[0]) * (1 + sides.rounding))),
        (_limit(least_means.limits.low[0], 0.0), _limit(most_means.limits.high[0], math.inf)),
    )  # fmt: skip
    if least.rest_units[0] == 0 or least.dropped[0] == 1:
        nowhere = Range.unknown()
        row = GroupBracket(label, size, robustness, nowhere, nowhere, math.nan, math.nan, NOT_COMPARABLE, "")
        return replace(row, finding=finding_of(row, sides.subject, plan, sides.up_to))
    slack = sides.rounding * largest
    gap_here = float(least.gap[0]) - slack, float(most.gap[0]) + slack
    verdict = _verdict(gap_here, adjusted, least, plan)
    gap = _range(
        gap_here,
        _in_agreement(
            _limit(least.gap_at(level).low[0], -math.inf), _limit(most.gap_at(level).high[0], math.inf), verdict
        ),
    )
    sigma_low = _ratio(least.sigma[0], -1.0, 1 - sides.rounding)
    sigma = _range(
        (
            max(sigma_low, JUST_BEYOND_ZERO) if gap_here[0] > 0 else sigma_low,  # σ is infinite if all of the rest is 0
            _ratio(most.sigma[0], math.inf, 1 + sides.rounding),
        ),
        _in_agreement(
            _limit(least.sigma_at(level).low[0], -1.0), _limit(most.sigma_at(level).high[0], math.inf), verdict
        ),
    )
    row = GroupBracket(label, size, robustness, gap, sigma, found.p, adjusted, verdict, "")
    return replace(row, finding=finding_of(row, sides.subject, plan, sides.up_to, several=level < plan.alpha))


def _range(here: tuple[float, float], population: tuple[float, float]) -> Range:
    """Join limits for these samples and for the population, which are never narrower."""
    return Range(*here, min(here[0], population[0]), max(here[1], population[1]))


def _in_agreement(low: float, high: float, verdict: str) -> tuple[float, float]:
    """Let population limits exclude 0 exactly where the verdict speaks of the population."""
    if verdict == CERTAINLY_LESS:
        return low, min(high, -JUST_BEYOND_ZERO * min(abs(low), 1.0))
    if verdict == CERTAINLY_MORE:
        return max(low, JUST_BEYOND_ZERO * min(abs(high), 1.0)), high
    return min(low, 0.0), max(high, 0.0)


def _verdict(gap: tuple[float, float], adjusted: float, contrasts: Contrasts, plan: AuditPlan) -> str:
    if min(contrasts.units[0], contrasts.rest_units[0]) < plan.smallest_group:
        return TOO_FEW
    if contrasts.dropped[0] > MOST_DROPPED:
        return NOT_COMPARABLE
    if gap[1] < 0:
        return CERTAINLY_LESS if adjusted < plan.alpha else CERTAINLY_LESS_HERE
    if gap[0] > 0:
        return CERTAINLY_MORE if adjusted < plan.alpha else CERTAINLY_MORE_HERE
    return NOT_CERTAIN


def _ratio(value: float, otherwise: float, widening: float) -> float:
    """Return a limit of σ, widened by rounding; a rest of 0 allows anything."""
    return (1 + float(value)) * widening - 1 if math.isfinite(value) else otherwise


def _limit(value: float, otherwise: float) -> float:
    """A limit where one is known; otherwise the one that is never wrong."""
    return otherwise if math.isnan(value) else float(value)
