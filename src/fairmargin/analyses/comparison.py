"""Comparison of two models on the same samples: which groups became more robust, and which less.

Each sample is its own control, so that differences far smaller than the spread of the distances can be detected.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from fairmargin.analyses.cells import (
    MARKS,
    SAMPLES,
    VERDICT,
    count,
    decimals_for,
    decimals_of,
    length,
    p_cell,
    share,
    table_of,
)
from fairmargin.analyses.censored import CENSORING
from fairmargin.analyses.explanations import SIGMA_MEANING, SIGMA_TOPIC, bounds_explained, verdicts_explained
from fairmargin.analyses.figures import interval_range
from fairmargin.analyses.table import GroupTable, columns_of
from fairmargin.core.arrays import Bools, Floats, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.codec import Format
from fairmargin.core.distances import Distances, words_of_keep
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition, check_partition
from fairmargin.errors import InputError
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.capping import tiny_words
from fairmargin.inference.censoring import Searches, horizon_of, restrict
from fairmargin.inference.contrast import few_samples, is_testable, simultaneous_limits
from fairmargin.inference.crossing import ClusterSums, cluster_sums
from fairmargin.inference.design import Design, absent_words
from fairmargin.inference.estimate import (
    FEWEST_FOR_VERDICT,
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    TOO_FEW,
    UNJUDGED,
    Estimate,
    Verdict,
)
from fairmargin.inference.paired import PairedChange, effective_of, in_one_order, paired_changes, units_of
from fairmargin.inference.permutation import holm, hypotheses
from fairmargin.inference.settings import AuditSettings
from fairmargin.presentation.formatting import (
    fixed,
    level_text,
    limits_text,
    listed,
    number,
    p_value,
    plain,
    points,
    quoted,
    radius_words,
    several,
    signed,
    table_percent,
)
from fairmargin.presentation.section import Cell, Column, Explanation, Intervals, Section, Table


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One group before and after."""

    group: str
    size: int
    before: float  # Rob(P)
    after: float
    change: Estimate  # after − before, with an interval that holds for all groups at once
    change_alone: Estimate  # the same with an interval for this group alone
    p: float
    p_adjusted: float
    sigma_before: float
    sigma_after: float
    sigma_change: Estimate  # with an interval that holds for all groups at once
    sigma_change_alone: Estimate
    sigma_p: float
    sigma_p_adjusted: float
    verdict: Verdict  # of the change of Rob(P): whether the interval of `change` excludes 0
    reason: str  # why there is no verdict; empty where there is one


@dataclass(frozen=True, slots=True)
class Comparison(GroupTable[GroupChange]):
    """Result of `compare`: how every group changed from one model to another."""

    FORMAT: ClassVar[Format] = Format(1, "comparison", "Run `fairmargin compare` again")

    partition: str
    groups: tuple[GroupChange, ...]
    bound_before: Bound
    bound_after: Bound
    norm: Norm
    subject: str
    confidence: float
    up_to: float
    cap_reason: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What was compared, in half a sentence."""
        radius = f", {radius_words(self.up_to)}" if math.isfinite(self.up_to) else ""
        return f"{self.partition}: after − before, {self.norm}{radius}"

    @property
    def headline(self) -> str:
        """Which groups lost and which gained, in a sentence."""
        of = {verdict: [quoted(row.group) for row in self if row.verdict == verdict] for verdict in _MEANINGS}
        changes = [
            f"{listed(names)} of {quoted(self.partition)} {'is' if len(names) == 1 else 'are'} {verdict} than before"
            for verdict in (LESS_ROBUST, MORE_ROBUST)
            if (names := of[verdict])
        ]
        if changes:
            return f"{'; '.join(changes)}."
        if of[NO_DIFFERENCE]:
            return f"No significant change of any group of {quoted(self.partition)} was found."
        return f"No group of {quoted(self.partition)} has enough samples for a verdict."

    @property
    def gaps(self) -> str:
        """Whose gap to the rest (σ) narrowed, widened or changed sides, in a sentence; empty if σ was never tested."""
        tested = [row for row in self if not math.isnan(row.sigma_p_adjusted) and row.sigma_change.is_defined]
        changed: dict[str, list[str]] = {}
        for row in tested:
            if row.sigma_change.low > 0 or row.sigma_change.high < 0:
                old, new = row.sigma_before, row.sigma_after
                how = "changed sides" if old * new < 0 else "narrowed" if abs(new) < abs(old) else "widened"
                said = f"{quoted(row.group)} (σ from {table_percent(old)} to {table_percent(new)})"
                changed.setdefault(how, []).append(said)
        if changed:
            return " ".join(f"The gap to the rest {how} for {listed(names)}." for how, names in changed.items())
        return "No significant change of a gap between a group and its rest (σ) was found." if tested else ""

    def section(self) -> Section:
        """Return the change of every group's mean distance and σ."""
        capped = f"distances capped at {number(self.up_to)}" if math.isfinite(self.up_to) else ""
        about = (
            "after − before",
            f"{self.norm} norm",
            f"{several(sum(row.size for row in self), 'sample')} in {several(len(self.groups), 'group')}",
            capped,
        )
        return Section(
            title=f"What changed, by {plain(self.partition)}",
            about=" · ".join(filter(None, about)),
            answer=self.headline,
            sentences=tuple(filter(None, [self.gaps])),
            findings=tuple(self.finding(row) for row in self),
            cautions=tuple(self.notes()),
            tables=(_changes_table(self),),
            figures=(
                Intervals(
                    title="Closer or farther than before.",
                    x_label=f"change of the mean distance ({self.norm})",
                    ranges=tuple(
                        interval_range(
                            row.group,
                            row.change,
                            row.verdict,
                            f"{signed(row.change.value)} ({level_text(self.confidence)} interval "
                            f"{change_limits(row.change)})",
                        )
                        for row in self
                    ),
                    percent=False,
                    caption=(
                        "Left of zero: closer to the boundary than before. Bars are "
                        f"{level_text(self.confidence)} intervals that hold for all groups at once."
                    ),
                    alt=f"Each group’s change of its mean distance with its interval. {self.headline}",
                ),
            ),
            explanations=(
                Explanation(SIGMA_TOPIC, SIGMA_MEANING),
                *verdicts_explained(_MEANINGS),
                *bounds_explained(dict.fromkeys((self.bound_before, self.bound_after))),
            ),
        )

    def notes(self) -> list[str]:
        """Return why distances were capped, and all warnings."""
        return [*([f"{self.cap_reason}."] if self.cap_reason else []), *self.warnings]

    def finding(self, row: GroupChange) -> str:
        """Return how the mean distance of a group changed, and its σ."""
        name = plain(row.group)
        if row.verdict in UNJUDGED:
            return f"{name}: {row.verdict} ({row.reason})."
        verdict = "no significant change" if row.verdict == NO_DIFFERENCE else f"{row.verdict} than before"
        change, sigma = row.change, row.sigma_change
        interval = f"{level_text(self.confidence)} interval for all groups at once {change_limits(change)}"
        if math.isnan(change.low):
            interval = change.reason
        sigma_text = f"its change of σ is undefined ({sigma.reason})"
        if sigma.is_defined:
            limits = sigma.reason if math.isnan(sigma.low) else change_limits(sigma, points)
            sigma_text = f"σ changed by {points(sigma.value)} points ({limits})"
        radius = f" This holds {radius_words(self.up_to)}." if math.isfinite(self.up_to) else ""
        return (
            f"{name}: {verdict} (mean distance {signed(change.value)}, {interval}; {p_value(row.p_adjusted)}); "
            f"{sigma_text}.{radius}"
        )

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group, every number in a column of its own."""
        names = tuple(field.name for field in fields(GroupChange) if field.name != "reason")
        return [
            {
                "partition": self.partition,
                **columns_of(row, names),
                "finding": self.finding(row),
                "up_to": self.up_to,
            }
            for row in self.groups
        ]


def compare(
    before: Distances, after: Distances, partition: Partition, settings: AuditSettings | None = None
) -> Comparison:
    """Compare two models on the same samples, group by group.

    Reports Rob(P) after minus before and σ(P) after minus before. Intervals and p-values come from one closed form that
    allows for newly wrong and newly right samples that were not observed. They hold for all groups at once: the verdict
    is whether the interval of the change excludes 0, and Holm's corrected p-value is then below 1 − confidence.
    `change_alone` and `sigma_change_alone` have the interval of a single group.

    Parameters
    ----------
    before, after
        Distances of both models by the same estimator, or exact distances by any. Sample i of one is sample i of the
        other: they are paired by position, so bring both into the same order first.
    partition
        The groups.
    settings
        Confidence, clusters, weights and limits; `control`, `resamples` and `seed` are not used.

    >>> rng = np.random.default_rng(0)
    >>> base = rng.gamma(2, 1, 200)
    >>> groups = Partition.by("sex", ["F"] * 100 + ["M"] * 100)
    >>> old = Distances(base, base > 0, Bound.EXACT, Norm.L2)
    >>> new = Distances(base * np.repeat([1.3, 1.0], 100), base > 0, Bound.EXACT, Norm.L2)
    >>> compare(old, new, groups)["F"].verdict
    'more robust'
    """
    chosen = settings or AuditSettings()
    if chosen.control is not None:
        raise InputError(
            "`compare` pairs each sample with itself, which already holds everything constant: drop `control`."
        )
    check_partition(partition)
    same_length(before=before, after=after, partition=partition)
    _check_alike(before, after)
    present = chosen.present(len(before))
    if present is not None:
        found = compare(before.take(present), after.take(present), partition.take(present), chosen.take(present))
        return replace(found, warnings=(*found.warnings, *absent_words(partition, present)))
    design = Design.of(chosen, len(before))
    horizon = horizon_of([before, after], partition, None, chosen.up_to)
    _check_depths(before, after, horizon.up_to)
    known = [restrict(each, partition, None, horizon.up_to, design.weights) for each in (before, after)]
    units = np.arange(len(before)) if design.cluster is None else design.cluster
    sums = (cluster_sums(each.values, partition, None, units, design.weights) for each in known)
    rows = _rows(*in_one_order(*sums), partition, (before.bound, after.bound), chosen)
    for each in known:
        rows = each.withheld(rows)
    return Comparison(
        partition.name,
        rows,
        before.bound,
        after.bound,
        before.norm,
        before.subject,
        chosen.confidence,
        horizon.up_to,
        horizon.reason,
        (
            *filter(None, [tiny_words([before, after], horizon.up_to), *dict.fromkeys(each.warning for each in known)]),
            *([CENSORING] if any(each.is_censored for each in known) else []),
            *filter(None, [design.words(len(before))]),
            *_warnings(before, after),
        ),
    )


def _rows(
    old: ClusterSums, new: ClusterSums, partition: Partition, bounds: tuple[Bound, Bound], settings: AuditSettings
) -> tuple[GroupChange, ...]:
    mean, ratio = paired_changes(old, new)
    units, rest_units = units_of(old)
    effective, rest_effective = effective_of(old)
    enough = np.full_like(units, np.inf), np.zeros_like(units)
    tested = is_testable(effective, *enough, settings)
    sigma_tested = is_testable(effective, rest_effective, enough[1], settings)
    change = _inferred(mean, tested, lambda which: int(which.sum()), settings)
    sigma = _inferred(ratio, sigma_tested, hypotheses, settings)
    bound = bounds[1] - bounds[0]
    sigma_bound = bounds[1] / bounds[1] - bounds[0] / bounds[0]
    rows = []
    for i, label in enumerate(partition.labels):
        together, alone = (_change(float(change.value[i]), limits, i, bound, units[i]) for limits in change.limits)
        sigma_together, sigma_alone = (
            _sigma_change(float(sigma.value[i]), limits, i, sigma_bound, (units[i], rest_units[i]))
            for limits in sigma.limits
        )
        verdict = few_samples(float(effective[i]), settings) or _verdict(together)
        rows.append(
            GroupChange(
                group=label,
                size=int(partition.sizes[i]),
                before=float(mean.before[i]),
                after=float(mean.after[i]),
                change=together,
                change_alone=alone,
                p=float(change.p[i]),
                p_adjusted=float(change.adjusted[i]),
                sigma_before=float(ratio.before[i] - 1),
                sigma_after=float(ratio.after[i] - 1),
                sigma_change=sigma_together,
                sigma_change_alone=sigma_alone,
                sigma_p=float(sigma.p[i]),
                sigma_p_adjusted=float(sigma.adjusted[i]),
                verdict=verdict,
                reason=f"a verdict needs {settings.fewest_for_verdict}" if verdict in UNJUDGED else "",
            )
        )
    return tuple(rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Inferred:
    """Changes with p-values and two kinds of limits: for all groups at once, and for each group alone."""

    value: Floats
    p: Floats
    adjusted: Floats
    limits: tuple[Limits, Limits]


def _inferred(
    change: PairedChange, tested: Bools, questions: Callable[[Bools], int], settings: AuditSettings
) -> _Inferred:
    """Test every group and give limits that exclude 0 exactly where the corrected p-value is below α."""
    p, count = np.where(tested, change.p(), math.nan), questions(tested)
    adjusted = holm(p, count if tested.any() else None)

    def relative_limits(alpha: float) -> Limits:
        limits = change.limits(alpha)
        return Limits(limits.low / change.scale, limits.high / change.scale)

    relative = simultaneous_limits(
        relative_limits,
        change.value / change.scale,
        adjusted,
        alpha=settings.alpha,
        hypotheses=count,
        intervals=questions(np.ones_like(tested)),
    )
    together = Limits(relative.low * change.scale, relative.high * change.scale)
    return _Inferred(change.value, p, adjusted, (together, change.limits(settings.alpha)))


def _check_alike(before: Distances, after: Distances) -> None:
    for what, left, right in (("norm", before.norm, after.norm), ("subject", before.subject, after.subject)):
        if left != right:
            raise InputError(f"`before` and `after` must have the same {what}; given {left} and {right}.")
    if before.keep != after.keep:
        raise InputError(
            f"`before` and `after` must keep the same classes; given {words_of_keep(before.keep)} and "
            f"{words_of_keep(after.keep)}. Measure both with the same `keep`."
        )
    both_exact = before.bound is after.bound is Bound.EXACT
    if before.estimator and after.estimator and before.estimator != after.estimator and not both_exact:
        raise InputError(
            f"`before` and `after` must be measured by the same estimator; given {before.estimator} and "
            f"{after.estimator}. A difference between estimators would look like a change of the model: measure both "
            "with one of them. Only exact distances do not depend on the estimator."
        )


def _check_depths(before: Distances, after: Distances, up_to: float) -> None:
    """Refuse searches that failed in both runs and are counted in different ways, so that they look like a change."""
    first, second = Searches.of(before), Searches.of(after)
    mixed = sum(
        int((one.failed & (one.radius < up_to) & other.unknown).sum())
        for one, other in ((first, second), (second, first))
    )
    if mixed:
        raise InputError(
            f"The search for {mixed:,} of {len(first.radius):,} samples failed before and after, but the depth "
            "(`tried`) is known in one of them only: what was kept would look like a change of the model. Give the "
            "depth before and after, or leave it out of both."
        )


def _verdict(change: Estimate) -> Verdict:
    if change.low > 0:
        return MORE_ROBUST
    return LESS_ROBUST if change.high < 0 else NO_DIFFERENCE


def _change(value: float, limits: Limits, i: int, bound: Bound, units: float) -> Estimate:
    low, high = float(limits.low[i]), float(limits.high[i])
    if units < 2:
        return Estimate(value, math.nan, math.nan, bound, "a single sample has no interval")
    if low == high:  # samples may become right that were not observed, at a distance that is not known
        return Estimate(value, math.nan, math.nan, bound, "both models misclassify every sample: no interval")
    return Estimate(value, low, high, bound)


def _sigma_change(value: float, limits: Limits, i: int, bound: Bound, units: tuple[float, float]) -> Estimate:
    if units[1] == 0:
        return Estimate.undefined("there is no other group", bound)
    if math.isnan(value):
        return Estimate.undefined("the rest has robustness 0 before or after", bound)
    low, high = float(limits.low[i]), float(limits.high[i])
    reason = "the group or its rest has a single sample: no interval" if min(units) < 2 else ""
    return Estimate(value, low, high, bound, reason)


def change_limits(change: Estimate, show: Callable[[float], str] = signed) -> str:
    """Return the interval of a change as text."""
    return limits_text(change.low, change.high, show, abs(change.value))


def _warnings(before: Distances, after: Distances) -> tuple[str, ...]:
    warnings = []
    if not before.bound is after.bound is Bound.EXACT:
        warnings.append(
            f"Before: {before.bound.words}. After: {after.bound.words}. A change between numbers that are not exact "
            "can come from the estimator as well as from the model."
        )
    unknown = [when for when, distances in (("before", before), ("after", after)) if not distances.estimator]
    if unknown:
        warnings.append(
            f"It is not known which estimator measured the distances {' and '.join(unknown)}: the change is one of the "
            "model only if both were measured by the same estimator with the same settings."
        )
    return tuple(warnings)


# What console and report show --------------------------------------------------------------------------------------


_MEANINGS = {
    LESS_ROBUST: "The group lies closer to the boundary than before, by more than chance explains.",
    MORE_ROBUST: "The group lies farther from the boundary than before, by more than chance explains.",
    NO_DIFFERENCE: "The change could be chance. This is no proof that nothing changed.",
    TOO_FEW: "The group has fewer effective samples than the comparison asks for. Nothing is claimed.",
    NO_VERDICT: f"The group has fewer than {FEWEST_FOR_VERDICT} effective samples. Nothing is claimed.",
}


def _changes_table(result: Comparison) -> Table:
    rows = result.groups
    decimals = decimals_for([value for row in rows for value in (row.before, row.after)])
    changes = decimals_of([row.change for row in rows])
    level = f"{level_text(result.confidence)} interval"
    columns = [
        (VERDICT, [Cell(row.verdict, note=row.reason) for row in rows]),
        (
            Column("change", "of mean distance", interval=level),
            [length(row.change, changes, signed=True) for row in rows],
        ),
        (Column("p", "adjusted"), [p_cell(row.p_adjusted) for row in rows]),
        (
            Column("mean distance", "before → after", hidden=True),
            [Cell(" → ".join(fixed(each, decimals, signed=False) for each in (row.before, row.after))) for row in rows],
        ),
        (
            Column("σ", "before → after", hidden=True),
            [Cell(" → ".join(map(table_percent, (row.sigma_before, row.sigma_after)))) for row in rows],
        ),
        (Column("change of σ", "in points", hidden=True), [share(r.sigma_change, signed=True, unit="") for r in rows]),
        (Column("p of σ", "adjusted", hidden=True), [p_cell(row.sigma_p_adjusted) for row in rows]),
        (SAMPLES, [count(row.size) for row in rows]),
    ]
    return table_of(
        rows,
        columns,
        marks=(MARKS[row.verdict] for row in rows),
        caption=(
            f"After minus before, each sample compared with itself. Below a change stands its {level} for all groups "
            f"at once. Distances in {result.norm}."
        ),
        label=f"Changes by {plain(result.partition)}",
    )
