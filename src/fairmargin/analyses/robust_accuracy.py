"""Robust accuracy of every group at a radius: samples that were wrong already, that were fooled, and that withstood.

An attack that finds nothing does not prove that there is nothing: robust accuracy is at most what is shown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fairmargin.analyses.audit import no_contrast, reason_without_verdict, share_of
from fairmargin.analyses.cells import MARKS, SAMPLES, VERDICT, count, p_cell, share, table_of
from fairmargin.analyses.explanations import verdicts_explained
from fairmargin.analyses.figures import interval_range
from fairmargin.analyses.table import GroupTable, columns_of
from fairmargin.core.arrays import Bools, Floats, Ints, as_bools, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.codec import Format
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.radius import as_radii, spelled_radius
from fairmargin.errors import InputError
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.contrast import Contrasts, Family, verdict_of
from fairmargin.inference.design import Design
from fairmargin.inference.estimate import (
    FEWEST_FOR_VERDICT,
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    NOT_COMPARABLE,
    TOO_FEW,
    UNJUDGED,
    Estimate,
    Verdict,
)
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import (
    mean_share,
    share_contrasts,
    share_spread,
    variation,
    worst_share,
)
from fairmargin.inference.spread import largest_gap, variance
from fairmargin.presentation.formatting import (
    at_most,
    level_text,
    limit_text,
    listed,
    p_value,
    percent,
    plain,
    points,
    quoted,
    several,
    table_percent,
)
from fairmargin.presentation.section import Bars, Cell, Column, Explanation, Intervals, Section, Table

COUNTS_SAMPLES = "robust accuracy, which counts samples"
"""Why robust accuracy has no weights."""
_NEAR_THE_END = 0.05  # of 0 or 1: a variance of shares has hardly any room there


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of samples that were wrong already, that were fooled, and that withstood; they add up to the size.

    >>> counts = Counts(size=10, wrong=2, fooled=3)
    >>> counts.withstood, counts.natural_error, counts.boundary_error, counts.robust_error
    (5, 0.2, 0.3, 0.5)
    """

    size: int
    wrong: int  # misclassified without any attack
    fooled: int  # correct, until attacked

    def contradiction(self) -> str:
        """Return why these cannot be counts; empty if they can."""
        return "" if self.wrong + self.fooled <= self.size else "its counts do not add up"

    @property
    def withstood(self) -> int:
        """Correct, and the attack found nothing against it."""
        return self.size - self.wrong - self.fooled

    @property
    def natural_error(self) -> float:
        """The share that is wrong already."""
        return self.wrong / self.size

    @property
    def boundary_error(self) -> float:
        """The share that is correct, but no longer under attack."""
        return self.fooled / self.size

    @property
    def robust_error(self) -> float:
        """Natural and boundary error together, from the counts."""
        return (self.wrong + self.fooled) / self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUnderAttack(Counts):
    """One group, and how it compares with the rest."""

    group: str
    natural_accuracy: Estimate
    robust_accuracy: Estimate  # p_adv, the share that withstood
    gap_to_rest: Estimate  # robust accuracy of the group minus that of everyone else
    p: float
    p_adjusted: float  # corrected for the number of groups
    verdict: Verdict
    reason: str  # why there is no verdict; empty where there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryoneUnderAttack(Counts):
    """The partition as a whole. Variances and gaps are debiased, and their intervals can hold 0."""

    natural_accuracy: Estimate  # of all samples
    robust_accuracy: Estimate
    mean_accuracy: Estimate  # the unweighted mean of the groups' robust accuracies
    vcra: Estimate  # the population variance over groups of robust accuracy
    vca: Estimate  # the same of natural accuracy
    gap: Estimate  # largest minus smallest robust accuracy of a group
    variation: Estimate  # √VCRA / mean, which is not forced to 0 as accuracy nears 0, unlike VCRA
    worst_group: str  # the group of least robust accuracy
    worst_accuracy: Estimate
    p_equal: float  # of the hypothesis that no group differs: the smallest corrected p


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustAccuracy(GroupTable[GroupUnderAttack]):
    """Robust accuracy of every group of a partition under an attack at a radius.

    An attack that finds nothing does not prove that there is nothing: robust accuracy is at most what is shown, and
    its `bound` says so. `to_frame()` is the table a person reads, `to_json()` and `from_json()` round-trip.

    Parameters
    ----------
    radius, smallest_radius
        The largest and the smallest radius; they differ if samples have radii of their own.
    bound
        On which side of the truth robust accuracy lies: UPPER for attacks, LOWER for certificates.
    control, clustered, method
        As in an audit: the partition held constant, whether samples form clusters, how intervals were computed.

    `plain_gap`, `plain_vcra` and `plain_vca` are those of the observed accuracies, as papers print them; `overall` has
    the same numbers without the part that noise adds.
    """

    FORMAT: ClassVar[Format] = Format(2, "robust accuracy", "Run `fairmargin attack` again, or `fm.robust_accuracy`")

    partition: str
    attack: str
    norm: Norm
    radius: float
    smallest_radius: float
    groups: tuple[GroupUnderAttack, ...]
    overall: EveryoneUnderAttack
    bound: Bound
    confidence: float
    control: str = ""
    clustered: bool = False
    method: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def worst_groups(self) -> list[str]:
        """The groups whose robust accuracy is the lowest: several in a tie."""
        lowest = min(row.robust_accuracy.value for row in self)
        return [row.group for row in self if row.robust_accuracy.value == lowest]

    @property
    def plain_vcra(self) -> float:
        """(1/L) Σ (p_i − p̄)² of the observed robust accuracies, as papers print it: noise makes it too large."""
        return float(np.var([row.robust_accuracy.value for row in self.groups]))

    @property
    def plain_vca(self) -> float:
        """The same of natural accuracy."""
        return float(np.var([row.natural_accuracy.value for row in self.groups]))

    @property
    def plain_gap(self) -> float:
        """Largest minus smallest of the observed robust accuracies: noise makes it too large."""
        shares = [row.robust_accuracy.value for row in self.groups]
        return max(shares) - min(shares)

    @property
    def title(self) -> str:
        """Partition, attack, radius and number of samples."""
        what = f"{self.partition}: {self.attack} at radius {self.radius_text} in {self.norm}"
        return f"{what}, {self.overall.size:,} samples"

    @property
    def radius_text(self) -> str:
        """The radius as text, as in 4/255."""
        if self.smallest_radius != self.radius:
            return f"{spelled_radius(self.smallest_radius)} to {spelled_radius(self.radius)}"
        return spelled_radius(self.radius)

    @property
    def headline(self) -> str:
        """Of which groups fewer samples withstand than of the rest, in a sentence."""
        of = {verdict: [quoted(row.group) for row in self if row.verdict == verdict] for verdict in _MEANINGS}
        where = f"{self.attack} at radius {self.radius_text}"
        for verdict, which in ((LESS_ROBUST, "fewer"), (MORE_ROBUST, "more")):
            if of[verdict]:
                return f"Under {where}, {which} samples of {listed(of[verdict])} withstand than of the rest."
        if of[NO_DIFFERENCE]:
            return f"Under {where}, no significant difference between the groups of {quoted(self.partition)} was found."
        return f"No verdict on the groups of {quoted(self.partition)}."

    def summary(self) -> list[str]:
        """Return sentences about the partition as a whole."""
        whole, hedge = self.overall, at_most(self.bound)
        p = "" if math.isnan(whole.p_equal) else f" All groups equal: {p_value(whole.p_equal)}."
        # The interval of the worst group is another one than in its row.
        worst = f"worst group{'s' * (len(self.worst_groups) > 1)} {listed(list(map(quoted, self.worst_groups)))}"
        which = " (this interval is for whichever group is truly the worst)" if len(self.groups) > 1 else ""
        natural, boundary, robust = (
            table_percent(error, signed=False)
            for error in (whole.natural_error, whole.boundary_error, whole.robust_error)
        )
        return [
            f"All samples: natural error {natural} + boundary error {boundary} = robust error {robust}; robust "
            f"accuracy {hedge}{share_text(whole.robust_accuracy)}.",
            f"Mean over groups {hedge}{share_text(whole.mean_accuracy)}; {worst}, "
            f"{hedge}{share_text(whole.worst_accuracy)}{which}.",
            f"{self.gap_text}; VCRA {whole.vcra} (with its noise, {self.plain_vcra:.4g}); VCA {whole.vca} "
            f"({self.plain_vca:.4g}); coefficient of variation {whole.variation}.{p}",
        ]

    def section(self) -> Section:
        """Return who was wrong already, who was fooled and who withstood, of every group and of all."""
        first = self.summary()[0]
        rows = sorted(self, key=lambda row: row.robust_accuracy.value)
        where = f"{self.attack} at radius {self.radius_text}"
        size = f"{several(self.overall.size, 'sample')} in {several(len(rows), 'group')}"
        return Section(
            title=f"Under attack, by {plain(self.partition)}",
            about=f"{where} · {self.norm} norm · {size}",
            answer=self.headline,
            sentences=tuple(self.summary()),
            findings=tuple(self.finding(row) for row in rows),
            cautions=self.warnings,
            tables=(_groups_table(self, rows),),
            figures=(
                Bars(
                    title="Wrong already, fooled, withstood.",
                    x_label="share of the group’s samples",
                    labels=tuple(row.group for row in rows),
                    parts=("wrong already", "fooled", "withstood"),
                    shares=tuple((row.natural_error, row.boundary_error, row.withstood / row.size) for row in rows),
                    caption=f"What {where} did to every group, the one with least robust accuracy first.",
                    alt=f"Shares of each group that were wrong already, fooled, and withstood. {first}",
                ),
                robust_accuracy_intervals(self),
            ),
            explanations=(
                Explanation("Robust accuracy", _READING),
                *verdicts_explained(_MEANINGS),
            ),
            method=self.method,
        )

    @property
    def gap_text(self) -> str:
        """Largest minus smallest robust accuracy: as the table shows it, and what is left of it without noise.

        The largest of several noisy numbers minus the smallest is too large on average, even where all groups are
        equal.
        """
        gap = self.overall.gap
        if not gap.is_defined:
            return f"Gap {share_text(gap)}"
        return (
            f"Gap in these samples {table_percent(self.plain_gap, signed=False)}; without its noise {share_text(gap)}"
        )

    def finding(self, row: GroupUnderAttack) -> str:
        """Return a group's verdict; it says "at most" where an attack may have overlooked something."""
        name = plain(row.group)
        size = f"{at_most(row.robust_accuracy.bound)}{share_text(row.robust_accuracy)} withstand the attack"
        if row.verdict in UNJUDGED:
            return f"{name}: {size}; {row.verdict} ({row.reason})."
        than = "than the rest" if row.verdict in (LESS_ROBUST, MORE_ROBUST) else "from the rest"
        gap = row.gap_to_rest
        change = f"{points(gap.value)} points [{', '.join(limit_text(end, points) for end in (gap.low, gap.high))}]"
        return f"{name}: {row.verdict} {than}; {size}, {change} against the rest ({p_value(row.p_adjusted)})."

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group, every number in a column of its own."""
        about = {"partition": self.partition, "attack": self.attack, "norm": self.norm.value, "radius": self.radius}
        counts = ("group", "size", "wrong", "fooled", "natural_error", "boundary_error", "robust_error")
        return [
            {
                **about,
                **columns_of(row, (*counts, "natural_accuracy", "robust_accuracy", "gap_to_rest", "p", "p_adjusted")),
                "bound": row.robust_accuracy.bound.value,
                "verdict": row.verdict,
                "finding": self.finding(row),
            }
            for row in self.groups
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for other programs, also of the observed accuracies as papers print them."""
        plain_values = {"plain_vcra": self.plain_vcra, "plain_vca": self.plain_vca, "plain_gap": self.plain_gap}
        return {**GroupTable.to_dict(self), **plain_values}


def share_text(estimate: Estimate) -> str:
    """Return a share and its interval, in percent."""
    if not estimate.is_defined:
        return f"undefined ({estimate.reason})" if estimate.reason else "undefined"
    value, low, high = (table_percent(each, signed=False) for each in (estimate.value, estimate.low, estimate.high))
    return value if math.isnan(estimate.low) else f"{value} [{low}, {high}]"


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
    """Return the robust accuracy of every group, with intervals, tests and a verdict.

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
        Name, norm and radius of the attack: one radius (0.1, "4/255") or one per sample.
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
    chosen.refuse_weights(COUNTS_SAMPLES)
    hits, withstood = as_bools(correct, "correct"), as_bools(robust, "robust")
    _check_outcomes(hits, withstood)
    same_length(correct=hits, partition=partition)
    if chosen.control is not None:
        same_length(correct=hits, control=chosen.control)
    side, radii = Bound.parse(bound), as_radii(radius, len(hits))
    design = Design.of(chosen, len(hits))
    sizes = np.array([design.effective(own) for own in partition.rows()])
    contrasts = share_contrasts(withstood.astype(np.float64), partition, chosen, design.cluster)
    rows = _rows(hits, withstood, partition, design, contrasts, chosen, side)
    overall = _overall(hits, withstood, rows, sizes, chosen, side, design)
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
        clustered=design.cluster is not None,
        method=_method(chosen, contrasts, design.cluster),
        warnings=_warnings(rows, overall, side),
    )


def _check_outcomes(hits: Bools, withstood: Bools) -> None:
    """Raise an error if there is no sample, or if a misclassified sample is said to withstand the attack."""
    if not same_length(correct=hits, robust=withstood):
        raise InputError("`correct` is empty: there is no sample.")
    bad = withstood & ~hits
    if bad.any():
        raise InputError(
            f"{bad.sum():,} samples are said to withstand the attack but are misclassified without it (first at index "
            f"{int(bad.argmax())}). `robust` must be True only where `correct` is."
        )


def _rows(
    hits: Bools,
    withstood: Bools,
    partition: Partition,
    design: Design,
    contrasts: Contrasts,
    settings: AuditSettings,
    bound: Bound,
) -> tuple[GroupUnderAttack, ...]:
    family = Family.of(contrasts, settings.alpha)
    adjusted = family.adjusted
    rows = []
    for i, (label, own) in enumerate(zip(partition.labels, partition.rows(), strict=True)):
        verdict = verdict_of(i, contrasts, float(adjusted[i]), settings)
        rows.append(
            GroupUnderAttack(
                group=label,
                size=len(own),
                wrong=int((~hits[own]).sum()),
                fooled=int((hits & ~withstood)[own].sum()),
                natural_accuracy=share_of(hits, own, design, settings, Bound.EXACT),
                robust_accuracy=share_of(withstood, own, design, settings, bound),
                gap_to_rest=_gap(i, label, contrasts, family.gap, bound - bound),
                p=float(contrasts.p[i]),
                p_adjusted=float(adjusted[i]),
                verdict=verdict,
                reason=reason_without_verdict(verdict, i, contrasts, settings),
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
    design: Design,
) -> EveryoneUnderAttack:
    everyone = np.arange(len(hits))
    natural = np.array([row.natural_accuracy.value for row in rows])
    robust = np.array([row.robust_accuracy.value for row in rows])
    return EveryoneUnderAttack(
        size=len(hits),
        wrong=int((~hits).sum()),
        fooled=int((hits & ~withstood).sum()),
        natural_accuracy=share_of(hits, everyone, design, settings, Bound.EXACT),
        robust_accuracy=share_of(withstood, everyone, design, settings, bound),
        mean_accuracy=mean_share(robust, sizes, settings, bound),
        vcra=share_spread(robust, sizes, variance, settings, bound),
        vca=share_spread(natural, sizes, variance, settings, Bound.EXACT),
        gap=share_spread(robust, sizes, largest_gap, settings, bound),
        variation=share_spread(robust, sizes, variation, settings, bound),
        worst_group=rows[int(robust.argmin())].group,
        worst_accuracy=worst_share(robust, sizes, settings, bound),
        p_equal=min((row.p_adjusted for row in rows if not math.isnan(row.p_adjusted)), default=math.nan),
    )


def _gap(i: int, label: str, contrasts: Contrasts, limits: Limits, bound: Bound) -> Estimate:
    reason = no_contrast(i, label, contrasts)
    if reason:
        return Estimate.undefined(reason, bound)
    return Estimate(float(contrasts.gap[i]), float(limits.low[i]), float(limits.high[i]), bound)


def _method(settings: AuditSettings, contrasts: Contrasts, cluster: Ints | None) -> str:
    gaps = "exact limits of both sides combined by squares" if cluster is None else "bootstrap-t of whole clusters"
    return (
        f"{level_text(settings.confidence)} intervals: accuracies exact binomial; gaps to the rest by {gaps}, for all "
        "groups at once (Bonferroni), excluding 0 exactly where the corrected p is significant; spread over groups by "
        f"inverting a test that allows 0, with {settings.resamples:,} draws. p-values: {contrasts.way}, corrected by "
        "Holm's method over the groups."
    )


def _warnings(rows: tuple[GroupUnderAttack, ...], overall: EveryoneUnderAttack, bound: Bound) -> tuple[str, ...]:
    """Return what a reader must know before quoting a number."""
    warnings = []
    if bound is Bound.UPPER:
        warnings.append(
            "An attack that finds nothing proves nothing: robust accuracy is at most what is shown. A gap between such "
            "numbers orders nothing by itself, since the attack may be weaker on one group: check with a stronger one."
        )
    if bound is Bound.LOWER:
        warnings.append(
            "A certificate that fails proves nothing: robust accuracy is at least what is shown. A gap between such "
            "numbers orders nothing by itself, since the certificate may be looser for one group: check with an attack."
        )
    mean = overall.mean_accuracy.value
    if len(rows) > 1 and not _NEAR_THE_END <= mean <= 1 - _NEAR_THE_END:
        warnings.append(
            f"Groups have a robust accuracy of {percent(mean)} on average, where variances over groups are forced "
            "towards 0: a small VCRA says little here. Read the worst group and the coefficient of variation, or "
            f"choose a {'smaller' if mean < 0.5 else 'larger'} radius."
        )
    return tuple(warnings)


# What console and report show --------------------------------------------------------------------------------------


_READING = (
    "A sample is wrong already if it is misclassified as it is (natural error), fooled if it is classified correctly "
    "but no longer when perturbed by up to the radius (boundary error), and withstands otherwise. Both errors together "
    "are the robust error; what is left is the robust accuracy. An attack that finds nothing does not prove that there "
    "is nothing: the true robust accuracy is at most what is shown."
)
_MEANINGS = {
    LESS_ROBUST: "Fewer samples of the group withstand than of the rest, by more than chance explains.",
    MORE_ROBUST: "More samples of the group withstand than of the rest, by more than chance explains.",
    NO_DIFFERENCE: "The difference could be chance. This is no proof of equality.",
    TOO_FEW: "The group, or its rest, has fewer effective samples than the analysis asks for. Nothing is claimed.",
    NO_VERDICT: f"The group, or its rest, has fewer than {FEWEST_FOR_VERDICT} effective samples. Nothing is claimed.",
    NOT_COMPARABLE: "There is no one to compare with.",
}


def _groups_table(result: RobustAccuracy, rows: list[GroupUnderAttack]) -> Table:
    level, hedge = f"{level_text(result.confidence)} interval", at_most(result.bound).strip()
    errors = {"natural error": "natural_error", "+ boundary": "boundary_error", "= robust error": "robust_error"}
    columns = [
        (VERDICT, [Cell(row.verdict) for row in rows]),
        (Column("robust accuracy", hedge, interval=level), [share(row.robust_accuracy, signed=False) for row in rows]),
        (
            Column("gap to rest", "in points", hidden=True),
            [share(row.gap_to_rest, signed=True, unit="") for row in rows],
        ),
        (Column("p", "adjusted"), [p_cell(row.p_adjusted) for row in rows]),
        *(
            (Column(name, hidden=True), [Cell(table_percent(getattr(row, field), signed=False)) for row in rows])
            for name, field in errors.items()
        ),
        (SAMPLES, [count(row.size) for row in rows]),
    ]
    return table_of(
        rows,
        columns,
        marks=(MARKS[row.verdict] for row in rows),
        caption=(
            f"The group with least robust accuracy first. Below a value stands its {level}; that of the gap holds for "
            "all groups at once, as p does."
        ),
        label=f"Groups of {plain(result.partition)} under attack",
    )


def robust_accuracy_intervals(result: RobustAccuracy) -> Intervals:
    """Return the robust accuracy of every group with its interval, the smallest first."""
    rows = sorted(result, key=lambda row: row.robust_accuracy.value)
    return Intervals(
        title="What is left under attack.",
        x_label=f"robust accuracy at radius {result.radius_text}",
        ranges=tuple(
            interval_range(row.group, row.robust_accuracy, row.verdict, share_text(row.robust_accuracy)) for row in rows
        ),
        reference=result.overall.robust_accuracy.value,
        caption=f"The line is the robust accuracy of all samples. Bars are {level_text(result.confidence)} intervals.",
        alt=f"Each group’s robust accuracy with its interval. {result.summary()[0]}",
    )


def attacks_together(results: Sequence[RobustAccuracy]) -> Section:
    """Return one row for each of several attacks and radii."""
    return Section(
        title="All attacks",
        tables=(
            Table(
                columns=(
                    Column("attack", kind="text"),
                    Column("groups", kind="text"),
                    Column("norm", kind="text", hidden=True),
                    Column("radius"),
                    Column("robust accuracy"),
                    Column("worst group", kind="text"),
                    Column("its accuracy"),
                    Column("gap", "in these samples", hidden=True),
                    Column("gap", "without its noise", hidden=True),
                ),
                rows=tuple(
                    (
                        Cell(plain(each.attack)),
                        Cell(plain(each.partition)),
                        Cell(str(each.norm)),
                        Cell(each.radius_text),
                        Cell(table_percent(each.overall.robust_accuracy.value, signed=False)),
                        Cell(listed(list(map(plain, each.worst_groups)))),
                        Cell(table_percent(each.overall.worst_accuracy.value, signed=False)),
                        Cell(table_percent(each.plain_gap, signed=False)),
                        Cell(table_percent(each.overall.gap.value, signed=False)),
                    )
                    for each in results
                ),
                caption="Robust accuracy under every attack, at every radius.",
                label="All attacks",
            ),
        ),
    )
