"""Bracket: limits of robustness, gaps and σ that follow from a lower and an upper bound of the same distances."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np

from fairmargin.analyses.cells import SAMPLES, count, table_of
from fairmargin.analyses.table import GroupTable
from fairmargin.core.arrays import Bools, Floats, Ints, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.codec import Format
from fairmargin.core.distances import Distances, words_of_keep
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition, check_partition
from fairmargin.errors import InputError
from fairmargin.inference.capping import SMALLEST, capped, cut_words
from fairmargin.inference.contrast import MOST_DROPPED, Contrasts, GroupMeans
from fairmargin.inference.estimate import NOT_COMPARABLE, TOO_FEW
from fairmargin.inference.groups import compare_groups
from fairmargin.inference.permutation import holm, hypotheses
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.spread import variance_range
from fairmargin.presentation import section as shown
from fairmargin.presentation.formatting import (
    JUST_BEYOND_ZERO,
    level_text,
    limit_text,
    number,
    plain,
    radius_of,
    radius_words,
    signed_percent,
    table_percent,
)
from fairmargin.presentation.section import Cell, Column, Explanation, Section, Table

CERTAINLY_LESS: Final = "certainly less robust"
CERTAINLY_MORE: Final = "certainly more robust"
CERTAINLY_LESS_HERE: Final = "certainly less robust in these samples"
CERTAINLY_MORE_HERE: Final = "certainly more robust in these samples"
NOT_CERTAIN: Final = "not certain"
Certainty = Literal[
    "certainly less robust",
    "certainly more robust",
    "certainly less robust in these samples",
    "certainly more robust in these samples",
    "not certain",
    "too few samples",
    "not comparable",
]
CERTAINTIES: Final[tuple[Certainty, ...]] = get_args(Certainty)

_ROUNDING = 1e-6  # by which a certificate may seem to exceed an attack: both are calculated in floating point
_NO_DIFFERENCE = 1e-8  # a σ between limits so near to 0 is 0
_MODEL = "model"
_MEANINGS = {
    CERTAINLY_LESS: " than the rest, whatever the attack",
    CERTAINLY_MORE: " than the rest, whatever the attack",
    CERTAINLY_LESS_HERE: ", but these are too few to speak of the population, all groups considered",
    CERTAINLY_MORE_HERE: ", but these are too few to speak of the population, all groups considered",
    NOT_CERTAIN: ", the bounds leave room for both signs",
}


@dataclass(frozen=True, slots=True)
class BracketLimits:
    """Limits between which a number lies: for these samples for certain, for the population with some confidence."""

    low: float
    high: float
    population_low: float
    population_high: float

    @classmethod
    def unknown(cls) -> "BracketLimits":
        """Return limits that are all unknown."""
        return cls(math.nan, math.nan, math.nan, math.nan)

    @property
    def is_known(self) -> bool:
        """Whether there are limits at all."""
        return not math.isnan(self.low)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:.4g} to {self.high:.4g}" if self.is_known else "unknown"


@dataclass(frozen=True, slots=True)
class GroupBracket:
    """One group between its bounds."""

    group: str
    size: int
    robustness: BracketLimits  # Rob(P)
    gap: BracketLimits  # Rob(P) - Rob(rest)
    sigma: BracketLimits  # Rob(P) / Rob(rest) - 1
    p: float  # of the hypothesis that the population's gap has the other sign, by the bounds least in favour of a gap
    p_adjusted: float  # corrected by Holm
    verdict: Certainty  # what the bounds prove
    reason: str = ""  # why there is no verdict; empty where there is one

    @property
    def is_certain(self) -> bool:
        """Whether the bounds alone decide which side is more robust."""
        return self.verdict in CERTAINTIES[:4]


@dataclass(frozen=True, slots=True)
class Bracket(GroupTable[GroupBracket]):
    """Result of `bracket`: limits between which the robustness of every group lies.

    Parameters
    ----------
    variance
        Limits of V_f, the variance of Rob(P) over the groups, for these samples.
    share_closed
        Share of the samples whose bounds are equal, so that their distance is known.
    crossed
        Number of samples of a smoothed model whose certificate exceeds the attack's distance: one of the two was wrong
        by chance.
    up_to
        The radius at which distances were capped: everything here holds for min(distance, up_to). `inf` if they were
        not.
    cap_reason
        Why they were capped, and how many finite upper bounds that cuts.
    control
        Name of the partition held constant; empty if none was.
    """

    FORMAT: ClassVar[Format] = Format(2, "bracket", "Run `fairmargin audit` again")

    partition: str
    groups: tuple[GroupBracket, ...]
    variance: tuple[float, float]
    share_closed: float
    crossed: int
    norm: Norm
    subject: str
    confidence: float
    up_to: float
    cap_reason: str = ""
    control: str = ""

    @property
    def title(self) -> str:
        """Partition, norm and subject of the bracket."""
        whose = "" if self.subject == _MODEL else f", {self.subject}"
        radius = f", {radius_words(self.up_to)}" if math.isfinite(self.up_to) else ""
        return f"{self.partition}: between a lower and an upper bound, {self.norm}{whose}{radius}"

    def ordered(self) -> list[GroupBracket]:
        """Return the groups, least robust first; those without σ last."""
        middle = {row.group: row.sigma.low + min(row.sigma.high, 10.0) for row in self if row.sigma.is_known}
        return sorted(self, key=lambda row: middle.get(row.group, math.inf))

    @property
    def headline(self) -> str:
        """For how many groups it is certain which side is easier to fool."""
        here = sum(row.is_certain for row in self)
        everywhere = sum(row.verdict in (CERTAINLY_LESS, CERTAINLY_MORE) for row in self)
        if not here:
            return "The bounds leave room for both signs in every group: nothing is certain yet."
        return (
            f"It is certain{self.condition} which side is easier to fool for {here} of {len(self.groups)} groups "
            f"in these samples, and for {everywhere or 'none'} of them in the population."
        )

    @property
    def condition(self) -> str:
        """Conditions of a certain statement in parentheses; empty if there are none."""
        whose = "" if self.subject == _MODEL else f"of the {self.subject} model, up to false certificates"
        limits = ", ".join(filter(None, (radius_of(self.up_to), whose)))
        return f" ({limits})" if limits else ""

    def notes(self) -> list[str]:
        """Return every condition that a reader should know."""
        crossed = (
            f"In {self.crossed:,} samples a certificate exceeds the attack's distance: one of both was wrong by "
            "chance; they count from 0 to the larger."
        )
        capped = f"{self.cap_reason}." if self.cap_reason else ""
        return [*filter(None, (capped, crossed if self.crossed else ""))]

    def section(self) -> Section:
        """Return the limits of every group, for these samples and for the population."""
        low, high = self.variance
        whose = "" if self.subject == _MODEL else f"of the {plain(self.subject)} model"
        limits = f"V_f, the variance of the groups’ mean distances, lies between {number(low)} and {number(high)}."
        return Section(
            title=f"What is certain, by {plain(self.partition)}",
            about=" · ".join(filter(None, (whose, f"{self.norm} norm", radius_of(self.up_to)))),
            answer=self.headline,
            sentences=(limits,),
            findings=tuple(self.finding(row) for row in self.ordered()),
            notes=tuple(self.notes()),
            tables=(_limits_table(self),),
            figures=(bracket_intervals(self),),
            explanations=(Explanation("What is certain", _READING),),
        )

    def finding(self, row: GroupBracket) -> str:
        """Return a sentence on what the bounds prove about a group, for which model, and up to which radius."""
        name = plain(row.group)
        if row.reason or row.verdict not in _MEANINGS:
            return f"{name}: {row.verdict} ({row.reason})."
        if math.isinf(row.sigma.high) and row.sigma.low <= -1:
            return f"{name}: {row.verdict}, nothing was proven about it: σ may have any size."
        whose = "" if self.subject == _MODEL else f" of the {self.subject} model"
        whose += f" at equal {self.control}" if self.control else ""
        together = " for all groups at once" if len(self.groups) > 2 else ""
        here = _percents(row.sigma.low, row.sigma.high)
        everywhere = _percents(row.sigma.population_low, row.sigma.population_high)
        size = (
            f"σ{whose} lies between {here} in these samples, with {level_text(self.confidence)} confidence{together} "
            f"{everywhere} in the population"
        )
        meaning = _MEANINGS[row.verdict]
        if max(abs(row.sigma.low), abs(row.sigma.high)) < _NO_DIFFERENCE:
            meaning = ", there is no difference in these samples"
        doubt = "" if self.subject == _MODEL else " Up to false certificates, of which each has its small probability."
        radius = f"{radius_of(self.up_to)}, " if math.isfinite(self.up_to) else ""
        beyond = f" Distances beyond {self.up_to:.4g} count as {self.up_to:.4g}." if math.isfinite(self.up_to) else ""
        return f"{name}: {radius}{row.verdict}{meaning}; {size}.{beyond}{doubt}"

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group, every limit in a column of its own."""
        rows = []
        for row in self.groups:
            columns: dict[str, Any] = {"partition": self.partition, "group": row.group, "size": row.size}
            for name in ("robustness", "gap", "sigma"):
                limits: BracketLimits = getattr(row, name)
                columns |= {f"{name}_{field.name}": getattr(limits, field.name) for field in fields(limits)}
            columns |= {"p_adjusted": row.p_adjusted, "verdict": row.verdict, "finding": self.finding(row)}
            rows.append(columns | {"up_to": self.up_to})
        return rows


def spelled_limit(share: float) -> str:
    """Format a limit of σ; one that excludes nothing says so.

    >>> spelled_limit(-0.123), spelled_limit(math.inf)
    ('−12 %', 'any size')
    """
    return "any size" if math.isinf(share) else signed_percent(share)


def _percents(low: float, high: float) -> str:
    return f"{limit_text(low, spelled_limit)} and {limit_text(high, spelled_limit)}"


def bracket(lower: Distances, upper: Distances, partition: Partition, settings: AuditSettings | None = None) -> Bracket:
    """Return the limits between which the robustness of each group lies, and whether a gap is certain.

    For every sample lower ≤ r ≤ upper. Hence, for *these samples*, Rob(P) ∈ [mean lower, mean upper] and
    σ(P) ∈ [lo_P/up_rest − 1, up_P/lo_rest − 1]: no attack and no certificate, however good, can leave these limits. For
    the population that the samples were drawn from, the sampling error of each limit is added.

    Guarantee: a verdict "certainly less robust" holds whatever the distances between the bounds are: about the
    population with the confidence of the settings, corrected by Holm over the groups, and about these samples without
    doubt (with smoothing: up to the chance of false certificates). Limits for these samples are widened by what
    rounding can change in a mean. If distances are capped, everything holds for min(r, `up_to`), and says so.

    Parameters
    ----------
    lower, upper
        Lower and upper bounds of the distances of the same samples, with the same subject and norm: a certificate and
        an attack. Exact distances are accepted for both.
    partition
        The groups.
    settings
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
    chosen = settings or AuditSettings()
    check_partition(partition)
    for name, given, kind in (
        ("lower", lower, Distances),
        ("upper", upper, Distances),
        ("settings", chosen, AuditSettings),
    ):
        if not isinstance(given, kind):
            raise InputError(f"`{name}` of `bracket` must be of kind {kind.__name__}; given a {type(given).__name__}.")
    same_length(lower=lower, upper=upper, partition=partition)
    present = chosen.present(len(partition))
    if present is not None:
        return bracket(lower.take(present), upper.take(present), partition.take(present), chosen.take(present))
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
        control="" if chosen.control is None else chosen.control.name,
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
        """Return a bound on the relative rounding error of a mean of these samples, which is n·eps/2 at most."""
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
                    "No sample has a finite upper bound above 0, so that there is no radius at which distances could "
                    "be capped. Set `up_to=` (--up-to) to the radius up to which robustness matters."
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
        low, high = capped(low, cap), capped(high, cap, tiny=SMALLEST)  # rounded outwards: they remain bounds
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
            f"{upper.norm}. A bracket needs bounds of the same subject in the same norm: {why}."
        )
    if lower.keep != upper.keep:
        raise InputError(
            f"The lower bounds keep {words_of_keep(lower.keep)}, the upper ones {words_of_keep(upper.keep)}. A bracket "
            "needs bounds that keep the same classes: measure both with the same `keep`."
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
    """Two comparisons of a group with its rest.

    `least` uses the lower bounds of the group and the upper bounds of the rest, `most` the upper bounds of the group
    and the lower bounds of the rest. The truth lies between both.
    """

    least: tuple[GroupMeans, Contrasts]
    most: tuple[GroupMeans, Contrasts]
    p: float

    @classmethod
    def of(
        cls, i: int, sides: _Sides, partition: Partition, settings: AuditSettings, cluster: Ints | None
    ) -> "_Compared":
        own = partition.membership == i
        labels, alone = ("group", "rest"), bool(own.all())
        two = Partition(partition.name, labels[: 1 if alone else 2], np.where(own, 0, 1))
        least = compare_groups(np.where(own, sides.low, sides.high), two, settings, cluster)
        most = compare_groups(np.where(own, sides.high, sides.low), two, settings, cluster)
        # Only a gap that keeps its sign with the bounds least in its favour is evidence.
        p = np.nan if np.isnan(least[1].p[0]) else 1.0
        for contrasts, sign in ((least[1], 1), (most[1], -1)):
            if sign * contrasts.gap[0] > 0 and not np.isnan(contrasts.p[0]):
                p = min(p, float(contrasts.p[0]))
        return cls(least, most, p)


def _row(
    label: str, size: int, found: _Compared, adjusted: float, level: float, sides: _Sides, settings: AuditSettings
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
        nowhere = BracketLimits.unknown()
        reason = "there is nothing outside the group to compare with"
        return GroupBracket(label, size, robustness, nowhere, nowhere, math.nan, math.nan, NOT_COMPARABLE, reason)
    slack = sides.rounding * largest
    gap_here = float(least.gap[0]) - slack, float(most.gap[0]) + slack
    verdict = _verdict(gap_here, adjusted, least, settings)
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
    return GroupBracket(label, size, robustness, gap, sigma, found.p, adjusted, verdict, _reason(verdict, settings))


def _range(here: tuple[float, float], population: tuple[float, float]) -> BracketLimits:
    """Join limits for these samples and for the population, which are never narrower."""
    return BracketLimits(*here, min(here[0], population[0]), max(here[1], population[1]))


def _in_agreement(low: float, high: float, verdict: str) -> tuple[float, float]:
    """Let population limits exclude 0 exactly where the verdict speaks of the population."""
    if verdict == CERTAINLY_LESS:
        return low, min(high, -JUST_BEYOND_ZERO * min(abs(low), 1.0))
    if verdict == CERTAINLY_MORE:
        return max(low, JUST_BEYOND_ZERO * min(abs(high), 1.0)), high
    return min(low, 0.0), max(high, 0.0)


def _reason(verdict: Certainty, settings: AuditSettings) -> str:
    if verdict == TOO_FEW:
        speak = settings.fewest_for_verdict
        return f"{settings.smallest_group} are needed on both sides, and {speak} to speak of the population"
    if verdict == NOT_COMPARABLE:
        return "too many samples lie in strata that lack one side"
    return ""


def _verdict(gap: tuple[float, float], adjusted: float, contrasts: Contrasts, settings: AuditSettings) -> Certainty:
    if min(contrasts.effective[0], contrasts.rest_effective[0]) < settings.smallest_group:
        return TOO_FEW
    if contrasts.dropped[0] > MOST_DROPPED:
        return NOT_COMPARABLE
    if gap[1] < 0:
        return CERTAINLY_LESS if adjusted < settings.alpha else CERTAINLY_LESS_HERE
    if gap[0] > 0:
        return CERTAINLY_MORE if adjusted < settings.alpha else CERTAINLY_MORE_HERE
    return NOT_CERTAIN


def _ratio(value: float, otherwise: float, widening: float) -> float:
    """Return a limit of σ, widened by rounding; a rest of 0 allows anything."""
    return (1 + float(value)) * widening - 1 if math.isfinite(value) else otherwise


def _limit(value: float, otherwise: float) -> float:
    """Return a limit if it is known, and otherwise the given limit, which holds for any distances."""
    return otherwise if math.isnan(value) else float(value)


# What console and report show --------------------------------------------------------------------------------------


_READING = (
    "An attack shows how far a sample is at most from being fooled, a certificate how far at least. What lies between "
    "both is not known; what lies outside is ruled out, however strong the next attack may be. If the limits of a "
    "group’s σ exclude 0, it is certain which side is easier to fool in the very samples measured. For the population "
    "they were drawn from, sampling error is added, and the verdict allows for there being several groups: it can stay "
    "cautious where one group’s limits, taken alone, exclude 0."
)
_MARKS: dict[str, shown.Mark] = {
    CERTAINLY_LESS: shown.LESS,
    CERTAINLY_MORE: shown.MORE,
    CERTAINLY_LESS_HERE: shown.LESS,
    CERTAINLY_MORE_HERE: shown.MORE,
    NOT_CERTAIN: shown.UNSURE,
    TOO_FEW: shown.UNSURE,
    NOT_COMPARABLE: shown.MISSING,
}
_WIDEST = 3.0  # σ of more than this is drawn as an open end


def _limits_table(result: Bracket) -> Table:
    population = f"population ({level_text(result.confidence)})"
    capped = f"capped at {number(result.up_to)}" if math.isfinite(result.up_to) else ""
    rows = result.ordered()
    columns = [
        (
            Column("verdict", radius_of(result.up_to), kind="verdict"),
            [Cell(row.verdict, note=row.reason) for row in rows],
        ),
        (Column("σ", interval=population), [_limits_cell(row.sigma, _limit_text) for row in rows]),
        (
            Column("mean distance", capped, hidden=True),
            [_limits_cell(row.robustness, _length_text) for row in rows],
        ),
        (SAMPLES, [count(row.size) for row in rows]),
    ]
    return table_of(
        rows,
        columns,
        marks=(_MARKS[row.verdict] for row in rows),
        caption=(
            "Limits for these samples; below them, with sampling error added, those for the population at "
            f"{level_text(result.confidence)} confidence, of σ for all groups at once."
        ),
        label=f"Brackets by {plain(result.partition)}",
    )


def _limits_cell(limits: BracketLimits, show: Callable[[float], str]) -> Cell:
    if not limits.is_known:
        return Cell("undefined")
    here, everywhere = (
        " to ".join(limit_text(end, show) for end in ends)
        for ends in ((limits.low, limits.high), (limits.population_low, limits.population_high))
    )
    return Cell(here, everywhere)


def _limit_text(share: float) -> str:
    return "any size" if math.isinf(share) else table_percent(share)


def _length_text(length: float) -> str:
    return "any size" if math.isinf(length) else number(length)


def bracket_intervals(result: Bracket) -> shown.Intervals:
    """Return σ of every group between its bounds: for these samples, and with sampling error for the population."""
    rows = result.ordered()
    ends = [abs(end) for row in rows for end in (row.sigma.population_low, row.sigma.population_high)]
    return shown.Intervals(
        title="σ between its bounds.",
        x_label="σ: mean distance relative to the rest",
        ranges=tuple(
            shown.Range(
                label=row.group,
                value=math.nan,
                low=row.sigma.low,
                high=row.sigma.high,
                outer_low=row.sigma.population_low,
                outer_high=row.sigma.population_high,
                mark=_MARKS[row.verdict],
                verdict=row.verdict,
                text=result.finding(row),
                reason="" if row.sigma.is_known else f"undefined: {row.reason or row.verdict}",
            )
            for row in rows
        ),
        widest=min(_WIDEST, max((end for end in ends if math.isfinite(end)), default=1.0)),
        caption=(
            "Thick: no distances between the bounds could leave it, in these samples. Thin: with sampling error added, "
            "for the population. Coloured: certain in these samples. A bar that runs into the right edge goes on "
            "beyond it."
        ),
        alt=f"Each group’s σ between its bounds. {result.headline}",
    )
