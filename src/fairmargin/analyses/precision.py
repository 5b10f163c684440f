"""Audit to a precision: mean distance and σ of every group with intervals of a requested width, and the cost."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np

from fairmargin.analyses.cells import MARKS, SAMPLES, VERDICT, count, decimals_of, length, p_cell, share, table_of
from fairmargin.analyses.explanations import SIGMA_MEANING, SIGMA_TOPIC, bounds_explained, verdicts_explained
from fairmargin.analyses.figures import sigma_intervals
from fairmargin.analyses.summary import (
    ComparedGroup,
    ComparedGroups,
    bound_warning,
    by_sigma,
    cap_note,
    finding,
    summary,
)
from fairmargin.analyses.table import columns_of
from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.codec import Format
from fairmargin.core.norm import Norm
from fairmargin.core.undefined import Undefined
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.contrast import simultaneous_limits
from fairmargin.inference.estimate import (
    FEWEST_FOR_VERDICT,
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    NOT_COMPARABLE,
    TOO_FEW,
    Estimate,
    Verdict,
)
from fairmargin.inference.permutation import holm, hypotheses
from fairmargin.presentation.formatting import level_text, listed, number, percent, plain, quoted, radius_words, several
from fairmargin.presentation.section import Cell, Column, Explanation, Section, Table

POPULATION: Final = "population"
THESE_SAMPLES: Final = "these samples"
Target = Literal["population", "these samples"]
TARGETS: Final[tuple[Target, ...]] = (POPULATION, THESE_SAMPLES)
_FEWEST = 30  # samples of a group, and of its rest, for an interval that holds: as many as a pilot needs


@dataclass(frozen=True, slots=True)
class PreciseGroup(ComparedGroup):
    """One group's mean distance and σ, and what they cost."""

    group: str
    size: int
    robustness: Estimate  # Rob(P), the mean of the reference's distance, with the interval of this group alone
    sigma: Estimate  # Rob(P) / Rob(rest) - 1; the interval holds for all groups at once and agrees with the verdict
    sigma_alone: Estimate  # the same with the interval of this group alone, to which the requested precision applies
    cheap_samples: int  # number of samples that the cheap estimator measured
    reference_samples: int
    plain_samples: float  # random samples that the reference alone would need for the same error; may exceed `size`
    correlation: float  # of the reference's distances with their predictions from the cheap estimator
    met: bool  # whether the interval of `sigma_alone` is as short as requested and reliable
    p: float = math.nan  # of the hypothesis that the group is as robust as its rest; NaN where σ has no interval
    p_adjusted: float = math.nan  # corrected by Holm for the number of groups
    verdict: Verdict = NOT_COMPARABLE
    unmet: str = ""  # why `met` is False; empty if it is True

    @property
    def looked_at(self) -> int:
        """How many samples of the group any estimator has seen."""
        return max(self.cheap_samples, self.reference_samples)


@dataclass(frozen=True, slots=True)
class PrecisionResult(ComparedGroups[PreciseGroup]):
    """Result of an audit to a precision, with its costs.

    Costs are passes through the model, forward and backward, of all samples together.

    Parameters
    ----------
    precision, confidence, target
        The request: half the width of the interval of every group's σ (with one group of Rob, relative to it), its
        confidence, and whether it is about the population or these samples.
    cheap
        The cheap estimator that the pilot chose; empty if none reduced the cost.
    spent
        Cost of all estimators on all samples, including the pilot and the trial of costs.
    plain_cost
        Cost of the reference on a random part of each group that gives the same errors.
    full_cost
        Cost of the reference on every sample.
    rounds
        Number of rounds in which samples were drawn, including the pilot.
    """

    FORMAT: ClassVar[Format] = Format(2, "audit to a precision", "Run it again")

    partition: str
    groups: tuple[PreciseGroup, ...]
    precision: float
    confidence: float
    target: Target
    reference: str
    cheap: str
    bound: Bound
    norm: Norm
    spent: float
    plain_cost: float
    full_cost: float
    rounds: int
    up_to: float
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The requested precision, and what it is about."""
        radius = f", {radius_words(self.up_to)}" if math.isfinite(self.up_to) else ""
        precision = f"σ to ±{self.precision:g} ({level_text(self.confidence)})"
        return f"{self.partition}: {precision} for {_spelled(self.target)}{radius}"

    @property
    def met(self) -> bool:
        """Whether every group has the requested precision."""
        return all(row.met for row in self.groups)

    @property
    def size(self) -> int:
        """How many samples all groups have."""
        return sum(row.size for row in self.groups)

    def summary(self) -> list[str]:
        """Return the headline, and other sentences about all groups together."""
        names = [quoted(row.group) for row in self if row.robustness.value == 0]
        if not names:
            return summary(self)
        whose = f"Of {listed(names)} no sample that was looked at is classified correctly"
        return [*summary(self), f"{whose}: there is no distance to compare."]

    def finding(self, row: PreciseGroup) -> str:
        """Return a group's verdict as a sentence that names the kind of bound it rests on."""
        few = f"{FEWEST_FOR_VERDICT} of it, and of its rest, are needed for a verdict"
        reason = few if row.verdict in (TOO_FEW, NO_VERDICT) else row.sigma.reason or "σ has no interval"
        return finding(self, row, reason)

    @property
    def about(self) -> str:
        """What the numbers are about: the population, or the samples only."""
        if self.target == POPULATION:
            return "the population that the samples were drawn from"
        return "these samples only"

    def section(self) -> Section:
        """Return every group to the precision, and what was measured for it."""
        headline, *more = self.summary()
        rows = by_sigma(self.groups)
        capped = f"capped at {number(self.up_to)}" if math.isfinite(self.up_to) else ""
        how = f"{self.reference}, with {self.cheap}" if self.cheap else self.reference
        size = f"{several(self.size, 'sample')} in {several(len(rows), 'group')}"
        precision = f"to ± {precision_points(self.precision)}"
        about = (how, self.bound.words, f"{self.norm} norm", size, precision, capped and f"distances {capped}")
        trust = [*([_TRUST] if self.cheap else []), _POLL, _MISCLASSIFIED]
        return Section(
            title=f"By {plain(self.partition)}",
            about=" · ".join(filter(None, about)),
            answer=headline,
            sentences=(*more, self.saving),
            findings=tuple(self.finding(row) for row in rows),
            cautions=tuple(self.warnings()),
            notes=tuple(self.remarks()),
            tables=(_groups_table(self, rows, capped),),
            figures=(
                sigma_intervals(
                    self.groups,
                    self.confidence,
                    strip=self.precision,
                    alt=f"Each group’s σ with its interval. {' '.join([headline, *more])}",
                ),
            ),
            further=(Section("What each group took", tables=(_costs_table(self, rows),)),),
            explanations=(
                Explanation("Why so few samples are enough", " ".join(trust)),
                Explanation(SIGMA_TOPIC, SIGMA_MEANING),
                *verdicts_explained(),
                *bounds_explained([self.bound]),
            ),
            method=_METHOD,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for other programs, also whether the precision was reached and what that saved."""
        return {**ComparedGroups.to_dict(self), "met": self.met, "saving": self.saving}

    def remarks(self) -> list[str]:
        """Return every condition that a reader should know."""
        return [*filter(None, (f"The numbers speak of {self.about}.", cap_note(self.up_to), *self.notes))]

    def warnings(self) -> list[str]:
        """Return what a reader must know before quoting a verdict."""
        return [*filter(None, [bound_warning(self.bound, self.groups)])]

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group, every number in a column of its own."""
        counts = ("cheap_samples", "reference_samples", "plain_samples", "correlation", "met", "unmet")
        return [
            {
                "partition": self.partition,
                **columns_of(row, ("group", "size", "robustness", "sigma")),
                "sigma_alone_low": row.sigma_alone.low,
                "sigma_alone_high": row.sigma_alone.high,
                **columns_of(row, (*counts, "p", "p_adjusted")),
                "bound": row.robustness.bound.value,
                "verdict": row.verdict,
                "finding": self.finding(row),
                "up_to": self.up_to,
            }
            for row in self.groups
        ]

    @property
    def saving(self) -> str:
        """The costs beside those of the reference alone, as a sentence."""
        reference = sum(row.reference_samples for row in self.groups)
        text = f"{self.reference} measured {reference:,} of {self.size:,} samples"
        if self.cheap:
            text += f", {self.cheap} {sum(row.cheap_samples for row in self.groups):,}"
        small = (
            " Trials and filled-up tiles count: so small a pool does not pay." if self.spent > self.full_cost else ""
        )
        return (
            f"{text}: {_times(self.plain_cost, self.spent)} the compute of a plain random part of the samples that is "
            f"as precise, {_times(self.full_cost, self.spent)} that of all samples.{small}"
        )


def judged(
    groups: Sequence[PreciseGroup], p: Floats, limits_at: Callable[[float], Limits], confidence: float
) -> tuple[PreciseGroup, ...]:
    """Return the groups with their verdicts, and with intervals of σ that hold for all groups at once.

    Guarantee: with probability `confidence` no group at all is wrongly called less or more robust, however the groups
    depend on each other (Holm's correction), as far as each p is right; two groups against each other are one question.
    The interval of `sigma` excludes 0 exactly where a group is called so. `p` tests each group against its rest, and
    `limits_at(alpha)` are the limits of σ at level 1 − alpha that agree with it (see `log_contrast`).
    """
    seen = np.array([row.looked_at for row in groups])
    fewer = np.minimum(seen, seen.sum() - seen)
    tested = (fewer >= FEWEST_FOR_VERDICT) & np.isfinite(p)
    alone = np.where(tested, p, np.nan)
    questions = hypotheses(tested)
    adjusted = holm(alone, questions)
    value = np.array([row.sigma.value for row in groups])
    limits = simultaneous_limits(
        limits_at,
        value,
        adjusted,
        alpha=1 - confidence,
        hypotheses=questions,
        intervals=hypotheses(np.ones_like(tested)),
    )
    rows = []
    columns = (alone, adjusted, fewer, limits.low, limits.high)
    for row, one, corrected, side, low, high in zip(groups, *(column.tolist() for column in columns), strict=True):
        verdict = _verdict(row, corrected, side, confidence)
        if math.isnan(corrected):
            few = f"{FEWEST_FOR_VERDICT} samples of the group, and of its rest, are needed for a test"
            one = corrected = Undefined(
                few if verdict in (TOO_FEW, NO_VERDICT) else row.sigma.reason or "σ has no interval"
            )
        has_interval = not math.isnan(row.sigma_alone.low + row.sigma_alone.high)
        sigma = replace(row.sigma, low=low, high=high) if has_interval else row.sigma
        rows.append(replace(row, sigma=sigma, p=one, p_adjusted=corrected, verdict=verdict))
    return tuple(rows)


def _verdict(row: PreciseGroup, adjusted: float, fewer: int, confidence: float) -> Verdict:
    if not row.sigma.is_defined:
        return NOT_COMPARABLE
    if fewer < FEWEST_FOR_VERDICT:
        return TOO_FEW if fewer < _FEWEST else NO_VERDICT
    if math.isnan(adjusted):
        return NOT_COMPARABLE
    if adjusted < 1 - confidence:
        return LESS_ROBUST if row.sigma.value < 0 else MORE_ROBUST
    return NO_DIFFERENCE


def _times(other: float, spent: float) -> str:
    """Return the ratio of two costs as text: a saving above 1, an excess below."""
    ratio = other / spent if spent > 0 else float("inf")
    return f"{ratio:.1f}× less than" if ratio >= 1 else f"{1 / ratio:.1f}× more than"


def _spelled(target: str) -> str:
    return "the population" if target == POPULATION else target


# What console and report show --------------------------------------------------------------------------------------


_METHOD = (
    "Group means of the reference estimate, adjusted by the cheap one where that reduces cost (a control variate with "
    "cross-fitted predictions, known as prediction-powered inference). Intervals and p-values by Hall’s "
    "transformation and Student’s t for the logarithm of each group’s mean over that of its rest; p-values are "
    "corrected by Holm over the groups, and the intervals of σ by Bonferroni, so that the two agree. Samples for the "
    "reference were drawn at random. How many was planned in rounds, until every group was as precise as asked or no "
    "sample was left that would help. At least 250 samples of a group were looked at, where there are so many: fewer "
    "may not contain any of its far samples."
)
_POLL = (
    "The samples that were measured were drawn at random and stand for the others, as in an opinion poll. What is not "
    "known because not all were measured is in the intervals."
)
_TRUST = (
    "The numbers are those of the reference estimate, as if it had been made of every sample. Where both estimates are "
    "known one sees how far the cheap one is off, and it is corrected by that everywhere. If it is poor, the intervals "
    "become longer, but the result does not become wrong: nothing is taken from it unchecked."
)
_CORRELATION = "The closer the correlation is to 1, the better the cheap estimate predicts the reference. "
_MISCLASSIFIED = "Misclassified samples have distance 0 and need no search."


def _groups_table(result: PrecisionResult, rows: list[PreciseGroup], capped: str) -> Table:
    level, decimals = f"{level_text(result.confidence)} interval", decimals_of([row.robustness for row in rows])
    alone = (
        " The line “alone” is the interval of σ that this group would have if no other had been looked at; the "
        "precision that was asked for is that of this interval."
    )
    columns = [
        (VERDICT, [Cell(row.verdict) for row in rows]),
        (
            Column("σ", "relative to rest", interval=level),
            [share(row.sigma, signed=True, alone=row.sigma_alone if len(rows) > 2 else None) for row in rows],
        ),
        (Column("p", "adjusted"), [p_cell(row.p_adjusted) for row in rows]),
        (
            Column("as precise", "as asked", hidden=True, interval="reached"),
            [Cell("yes" if row.met else "no", reached(row, result)) for row in rows],
        ),
        (Column("mean distance", capped, hidden=True), [length(row.robustness, decimals) for row in rows]),
        (SAMPLES, [count(row.size) for row in rows]),
    ]
    if result.cheap:
        columns.append((Column("cheap", "estimate", hidden=True), [count(row.cheap_samples) for row in rows]))
    columns.append((Column("reference", "estimate", hidden=True), [count(row.reference_samples) for row in rows]))
    return table_of(
        rows,
        columns,
        marks=(MARKS[row.verdict] for row in rows),
        caption=(
            f"Every group against the rest, least robust first. Below a value stands its {level}. Intervals of σ hold "
            "for all groups at once, as p does: they exclude 0 exactly where the verdict is “less robust” or “more "
            f"robust”.{alone if len(rows) > 2 else ''} Distances in {result.norm}."
        ),
        label=f"Groups of {plain(result.partition)}",
    )


def _costs_table(result: PrecisionResult, rows: list[PreciseGroup]) -> Table:
    def rounded(value: float, digits: int) -> Cell:
        return Cell(f"{value:,.{digits}f}" if math.isfinite(value) else "–")

    columns = [(SAMPLES, [count(row.size) for row in rows])]
    if result.cheap:
        columns += [
            (Column("cheap", "estimate"), [count(row.cheap_samples) for row in rows]),
            (Column("correlation"), [rounded(row.correlation, 2) for row in rows]),
        ]
    columns += [
        (Column("reference", "estimate"), [count(row.reference_samples) for row in rows]),
        (Column("reference alone", "would need"), [rounded(row.plain_samples, 0) for row in rows]),
    ]
    return table_of(
        rows,
        columns,
        caption=(
            f"{_CORRELATION if result.cheap else ''}The last column: on how many samples, drawn at random, the "
            "reference alone would have been as precise; where that is more than the group has, it could not have been."
        ),
        label=f"What each group of {plain(result.partition)} took",
    )


def reached(row: PreciseGroup, result: PrecisionResult) -> str:
    """Return half the width of the interval to which the requested precision applies, in percentage points.

    It is that of σ of the group alone; with one group that of its mean, relative to it.
    """
    estimate = row.sigma_alone if len(result.groups) > 1 else row.robustness
    half = (estimate.high - estimate.low) / 2
    if len(result.groups) == 1 and estimate.value > 0:
        half /= estimate.value
    return f"± {precision_points(half)}" if math.isfinite(half) else "no interval"


def precision_points(half: float) -> str:
    """Format half the width of an interval in percentage points.

    >>> precision_points(0.03), precision_points(0.125)
    ('3.0 points', '12 points')
    """
    return percent(half).replace(" %", " points")
