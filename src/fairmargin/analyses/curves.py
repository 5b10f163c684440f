"""Comparison of the robustness curves of groups: no difference of means is not read as no difference.

Two groups can have the same mean distance although one has more samples near the boundary and more far away from it.
The curves are compared at all radii at once, those of correct samples with a band (Nanda 2021, Eq. 2), and at radii
that were chosen beforehand.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Final, Literal

import numpy as np

from fairmargin.analyses.cells import SAMPLES, VERDICT, count, p_cell, share, table_of
from fairmargin.analyses.explanations import CURVES_TOPIC
from fairmargin.analyses.table import GroupTable, columns_of
from fairmargin.core.arrays import Floats, Ints, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.codec import Format
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition, check_partition
from fairmargin.core.radius import chosen_radii
from fairmargin.core.undefined import Undefined, reason_of
from fairmargin.errors import InputError
from fairmargin.inference.contrast import MOST_DROPPED, Contrasts, few_samples, simultaneous_limits, too_few_words
from fairmargin.inference.curves import CurveTest, Known, Sorted, Squares, curve_test, error_factor, largest_bias
from fairmargin.inference.design import absent_words
from fairmargin.inference.estimate import NO_DIFFERENCE, NO_VERDICT, NOT_COMPARABLE, TOO_FEW, UNJUDGED, Estimate
from fairmargin.inference.groups import compare_groups
from fairmargin.inference.permutation import holm, hypotheses
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import kolmogorov_band, share_contrasts
from fairmargin.presentation.formatting import (
    level_text,
    listed,
    number,
    p_value,
    percent,
    plain,
    quoted,
    several,
    table_percent,
)
from fairmargin.presentation.section import LESS, MISSING, MORE, SAME, UNSURE, Cell, Column, Explanation, Mark, Section

LOWER: Final = "lower curve"
HIGHER: Final = "higher curve"
CROSSING: Final = "crossing curves"
CurveVerdict = Literal[
    "lower curve",
    "higher curve",
    "crossing curves",
    "no significant difference",
    "too few samples",
    "no verdict",
    "not comparable",
]
DIFFERENT: Final = (LOWER, HIGHER, CROSSING)
_FEWEST_RARE = 8  # samples that a share of a small group needs on both sides of a radius, if clusters span groups
_MARKS: dict[str, Mark] = {
    LOWER: LESS,
    HIGHER: MORE,
    CROSSING: "",
    NO_DIFFERENCE: SAME,
    TOO_FEW: UNSURE,
    NO_VERDICT: UNSURE,
    NOT_COMPARABLE: MISSING,
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Radii between which the curve of a group lies significantly below, or above, that of its rest."""

    start: float
    end: float
    radius: float  # where the difference is clearest
    own: float  # I_P there
    rest: float

    @property
    def text(self) -> str:
        """The radii, and both shares where the difference is clearest."""
        where = f"from {number(self.start)} to {number(self.end)}" if self.start < self.end else number(self.start)
        return (
            f"{'radii ' if self.start < self.end else 'radius '}{where} ({table_percent(self.own, signed=False)} "
            f"against {table_percent(self.rest, signed=False)} at {number(self.radius)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCurves:
    """The curve of a group against that of its rest."""

    group: str
    size: int
    p: float  # of the hypothesis that both curves are equal
    p_adjusted: float  # corrected for the number of groups
    verdict: CurveVerdict
    reason: str  # why there is no verdict; empty where there is one
    fewer: Stretch | None  # where significantly fewer samples of the group withstand than of the rest
    more: Stretch | None
    robustness_bias_max: Estimate  # largest RB(τ) over all radii
    robustness_bias_radius: float  # the smallest radius at which it is reached
    robustness_bias_band: float  # half-width of a band around RB(τ) that holds at all radii of all groups at once
    differences: tuple[Estimate, ...]  # I_P(τ) − I_rest(τ) at the chosen radii
    differences_p: tuple[float, ...]  # corrected for the number of groups and radii


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveComparison(GroupTable[GroupCurves]):
    """Curves of every group against its rest, at all radii and at chosen ones.

    I_P(τ) is the share of a group P whose distance is greater than the radius τ. The robustness bias RB(τ) is
    |Pr(d > τ | P, correct) − Pr(d > τ | rest, correct)|. It ignores the control.

    `to_frame()` is the table a person reads, `to_json()` and `from_json()` round-trip.

    Parameters
    ----------
    radii
        Radii that were chosen beforehand.
    end
        Radius up to which curves are compared, because distances are not known beyond it; inf if all are known.
    end_reason
        What decides that radius; empty if all are known.
    """

    FORMAT: ClassVar[Format] = Format(1, "comparison of curves", "Run `fm.compare_curves` again")

    partition: str
    groups: tuple[GroupCurves, ...]
    radii: tuple[float, ...]
    end: float
    bound: Bound
    norm: Norm
    confidence: float
    control: str = ""
    method: str = ""
    warnings: tuple[str, ...] = ()
    end_reason: str = ""

    @property
    def title(self) -> str:
        """Partition, kind of distances, norm and number of samples."""
        return f"{self.partition}: curves by {self.bound.words}, {self.norm}, {self._size:,} samples"

    @property
    def _size(self) -> int:
        return sum(row.size for row in self)

    @property
    def headline(self) -> str:
        """Which curves differ, in a sentence."""
        differing = [row for row in self if row.verdict in DIFFERENT]
        if differing:
            first = min(differing, key=lambda row: row.p_adjusted)
            others = [quoted(row.group) for row in differing if row is not first and len(self.groups) > 2]
            rests = "its rest" if len(others) == 1 else "their rests"
            also = f" So do those of {listed(others)} and {rests}." if others else ""
            return f"The curves of {quoted(first.group)} and its rest differ: {where_they_differ(first)}.{also}"
        if any(row.verdict == NO_DIFFERENCE for row in self):
            return f"No significant difference between the curves of the groups of {quoted(self.partition)} was found."
        return f"No verdict on the curves of the groups of {quoted(self.partition)}."

    @property
    def at_radii(self) -> str:
        """At which chosen radii shares differ significantly, in a sentence; empty if no radii were chosen."""
        parts = []
        for i, radius in enumerate(self.radii):
            fewer = [quoted(row.group) for row in self if row.differences[i].high < 0]
            more = [quoted(row.group) for row in self if row.differences[i].low > 0]
            found = [f"{how} samples of {listed(who)}" for how, who in (("fewer", fewer), ("more", more)) if who]
            said = f"{' and '.join(found)} withstand than of the rest" if found else "no significant difference"
            known = any(row.differences[i].is_defined for row in self)
            parts.append(f"at {number(radius)} {said if known else 'not compared'}")
        why = f" {self._limit}" if any(radius >= self.end for radius in self.radii) else ""
        return f"At the chosen radii: {'; '.join(parts)}.{why}" if parts else ""

    @property
    def _limit(self) -> str:
        """Below which radius curves are compared, and why; empty if all distances are known."""
        if math.isinf(self.end):
            return ""
        why = f", {self.end_reason}" if self.end_reason else ""
        return f"Curves are compared only below a radius of {number(self.end)}{why}."

    def finding(self, row: GroupCurves) -> str:
        """Return a group's verdict as a sentence."""
        name = plain(row.group)
        if row.verdict in UNJUDGED:
            return f"{name}: {row.verdict} ({row.reason})."
        what = row.verdict if row.verdict == NO_DIFFERENCE else f"{row.verdict}, {where_they_differ(row)}"
        return f"{name}: {what} ({p_value(row.p_adjusted)})."

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group, every number in a column of its own."""
        rows = []
        for row in self:
            record = {"partition": self.partition, **columns_of(row, ("group", "size", "p", "p_adjusted"))}
            for name, stretch in (("fewer", row.fewer), ("more", row.more)):
                record[f"{name}_from"] = math.nan if stretch is None else stretch.start
                record[f"{name}_to"] = math.nan if stretch is None else stretch.end
            record |= bias_columns(row)
            record |= self.difference_columns(row)
            rows.append({**record, "bound": self.bound.value, "verdict": row.verdict, "finding": self.finding(row)})
        return rows

    def difference_columns(self, row: GroupCurves) -> dict[str, float]:
        """Return the columns of the differences of a group from its rest at the chosen radii."""
        columns: dict[str, float] = {}
        for radius, difference, p in zip(self.radii, row.differences, row.differences_p, strict=True):
            at = f"difference_at_{radius:g}"
            columns |= {at: difference.value, f"{at}_low": difference.low, f"{at}_high": difference.high}
            columns[f"{at}_p_adjusted"] = p
        return columns

    def section(self) -> Section:
        """Return where the curves of every group and of its rest differ."""
        rows, level = list(self), f"{level_text(self.confidence)} interval"
        columns = [
            (VERDICT, [Cell(row.verdict) for row in rows]),
            (Column("p", "adjusted"), [p_cell(row.p_adjusted) for row in rows]),
            (Column("fewer withstand", "at radii", kind="text"), [_stretch_cell(row.fewer) for row in rows]),
            (Column("more withstand", "at radii", kind="text"), [_stretch_cell(row.more) for row in rows]),
            *(
                (
                    Column(f"at {number(radius)}", "points to rest", hidden=True, interval=level),
                    [share(row.differences[i], signed=True, unit="") for row in rows],
                )
                for i, radius in enumerate(self.radii)
            ),
            (
                Column("robustness bias", "of correct samples", hidden=True, interval=level),
                [share(row.robustness_bias_max, signed=False, unit="") for row in rows],
            ),
            (Column("at radius", hidden=True), [_radius_cell(row.robustness_bias_radius) for row in rows]),
            (SAMPLES, [count(row.size) for row in rows]),
        ]
        chosen = " at the chosen radii" if self.radii else ""
        table = table_of(
            rows,
            columns,
            marks=(_MARKS[row.verdict] for row in rows),
            caption=(
                "Every group against the rest. The radii are those where the test finds the clearest difference in "
                f"each direction. Differences{chosen} and intervals are in percentage points, and hold for all groups "
                f"{'and radii ' if self.radii else ''}at once. Distances in {self.norm}."
            ),
            label=f"Curves of {plain(self.partition)}",
        )
        known = f" · up to {number(self.end)}" if math.isfinite(self.end) else ""
        size = f"{several(self._size, 'sample')} in {several(len(rows), 'group')}"
        return Section(
            title=f"Curves by {plain(self.partition)}",
            about=f"{self.bound.words} · {self.norm} norm · {size}{known}",
            answer=self.headline,
            sentences=(self.at_radii,) if self.radii else (),
            findings=tuple(map(self.finding, rows)),
            cautions=self.warnings,
            notes=self._notes(),
            tables=(table,),
            explanations=(Explanation(CURVES_TOPIC, _READING),),
            method=self.method,
        )

    def _notes(self) -> tuple[str, ...]:
        said = not self._limit or any(radius >= self.end for radius in self.radii)
        return () if said else (self._limit,)


_READING = (
    "Two groups can have the same mean distance although more samples of one lie near the boundary and more lie far "
    "away. A test of the whole curves sees that: it asks at which radii the shares of a group and of everyone else "
    "that withstand differ by more than chance explains. The robustness bias is the largest such difference among "
    "correctly classified samples."
)


def where_they_differ(row: GroupCurves) -> str:
    """Return at which radii fewer and more samples of a group withstand than of its rest.

    >>> distances = Distances([1.0, 2.0] * 50, [True] * 100, "exact", "l2")
    >>> where_they_differ(compare_curves(distances, Partition.by("sex", ["F", "M"] * 50))["F"])
    'fewer of its samples withstand at radii from 1 to 2 (0.0 % against 100.0 % at 1)'
    """
    parts: list[str] = []
    for how, stretch in (("fewer", row.fewer), ("more", row.more)):
        if stretch is not None:
            of = " of its samples withstand" if not parts else ""
            parts.append(f"{how}{of} at {stretch.text}")
    return " and ".join(parts)


def _stretch_cell(stretch: Stretch | None) -> Cell:
    if stretch is None:
        return Cell("–")
    shares = f"{percent(stretch.own)} against {percent(stretch.rest)} at {number(stretch.radius)}"
    return Cell(f"{number(stretch.start)} to {number(stretch.end)}", note=shares)


def _radius_cell(radius: float) -> Cell:
    return Cell("undefined", note=reason_of(radius)) if math.isnan(radius) else Cell(number(radius))


def bias_columns(row: GroupCurves) -> dict[str, Any]:
    """Return the columns of the robustness bias of a group."""
    columns = columns_of(row, ("robustness_bias_max", "robustness_bias_radius", "robustness_bias_band"))
    largest = row.robustness_bias_max
    return {**columns, **({} if largest.is_defined else {"robustness_bias_max": Undefined(largest.reason)})}


def compare_curves(
    distances: Distances, partition: Partition, settings: AuditSettings | None = None, *, radii: Any = ()
) -> CurveComparison:
    """Compare the robustness curve of every group with that of its rest.

    Parameters
    ----------
    distances
        One number per sample.
    partition
        The groups.
    settings
        Confidence, control, clusters and limits, as for an audit.
    radii
        Radii τ at which the differences I_P(τ) − I_rest(τ) are wanted, as in (0.5, 1) or "4/255,8/255". Choose them
        before you look at the data. Radius 0 compares accuracies.

    References
    ----------
    V. Nanda et al., "Fairness Through Robustness", 2021 (I_P and RB, Eq. 2).

    >>> rng = np.random.default_rng(0)
    >>> values = np.concatenate([rng.gamma(2, 0.5, 300), rng.gamma(9, 1 / 9, 300)])  # of the same mean
    >>> d = Distances(values, values > 0, "exact", "l2")
    >>> found = compare_curves(d, Partition.by("sex", ["F"] * 300 + ["M"] * 300), radii=(0.5, 2))
    >>> found["F"].verdict
    'crossing curves'
    >>> where_they_differ(found["F"]).partition(" and ")[0]
    'fewer of its samples withstand at radii from 0.187 to 0.854 (66.7 % against 94.0 % at 0.564)'
    """
    chosen = settings or AuditSettings()
    check_partition(partition)
    if not isinstance(distances, Distances):
        raise InputError(f"`distances` must be `Distances`, as `measure` returns; given a {type(distances).__name__}.")
    same_length(distances=distances, partition=partition)
    if chosen.control is not None:
        same_length(distances=distances, control=chosen.control)
    present = chosen.present(len(distances))
    if present is not None:
        taken = distances.take(present), partition.take(present), chosen.take(present)
        found = compare_curves(*taken, radii=radii)
        return replace(found, warnings=(*found.warnings, *absent_words(partition, present)))
    wanted, cluster = chosen_radii(radii), chosen.cluster_codes(len(distances))
    weights = chosen.weights(len(distances))
    end, why, warning = known_radius(distances)
    if chosen.up_to < end:
        end, why, warning = chosen.up_to, "the one asked for", ""
    plain = Sorted.of(distances.values, partition.membership, len(partition.labels), weights)
    test = curve_test(distances.values, end, partition, chosen, cluster, plain)
    tested = ~np.isnan(test.p)
    count_of, everyone = hypotheses(tested), hypotheses(np.ones_like(tested))
    adjusted = holm(test.p, count_of)
    critical = test.critical(chosen.alpha / max(count_of, 1))
    biases = _biases(distances, partition, plain, cluster, weights, end, 1 - chosen.alpha / everyone)
    differences = _differences(distances, partition, wanted, chosen, cluster, end)
    rows = []
    for i, (label, size) in enumerate(zip(partition.labels, partition.sizes.tolist(), strict=True)):
        is_different = bool(adjusted[i] < chosen.alpha)
        fewer, more = _stretches(test, i, float(critical[i]), end) if is_different else (None, None)
        verdict, reason = _verdict(test, i, fewer, more, chosen)
        bias, radius, band = biases[i]
        rows.append(
            GroupCurves(
                group=label,
                size=size,
                p=float(test.p[i]),
                p_adjusted=float(adjusted[i]),
                verdict=verdict,
                reason=reason,
                fewer=fewer,
                more=more,
                robustness_bias_max=bias,
                robustness_bias_radius=radius,
                robustness_bias_band=band,
                differences=tuple(each[i][0] for each in differences),
                differences_p=tuple(each[i][1] for each in differences),
            )
        )
    return CurveComparison(
        partition=partition.name,
        groups=tuple(rows),
        radii=wanted,
        end=end,
        bound=distances.bound,
        norm=distances.norm,
        confidence=chosen.confidence,
        control="" if chosen.control is None else chosen.control.name,
        method=_method(chosen, wanted),
        warnings=(warning,) if warning else (),
        end_reason=why,
    )


def known_radius(distances: Distances) -> tuple[float, str, str]:
    """Return the radius below which all curves are known, what decides it, and a warning if that is not far.

    The radius is inf, and the reason empty, if all are known.

    It is the shortest search that failed. Where nothing says how far a search looked, it is the largest distance found.
    """
    missing = distances.unreached
    if not missing.any():
        return math.inf, "", ""
    searched = np.full(missing.sum(), np.nan) if distances.tried is None else distances.tried[missing]
    found = distances.values[~missing]
    end = float(np.where(np.isnan(searched) | (searched == 0), found.max(initial=0.0), searched).min())
    if math.isinf(end):
        return end, "", ""
    why = "the shortest search that found nothing" if (searched == end).any() else "the largest distance found"
    beyond = float((found[found > 0] > end).mean()) if (found > 0).any() else 0.0
    if beyond <= 0.2:
        return end, why, ""
    lost = f"{percent(beyond)} of the finite distances above 0 lie beyond {number(end)}"
    return end, why, f"{lost}, where the comparison of curves ends. Search farther to compare more."


def _stretches(test: CurveTest, i: int, critical: float, end: float) -> tuple[Stretch | None, Stretch | None]:
    """Return where the curve of group number `i` lies below and above that of its rest, around the clearest radius.

    Holm's correction can reject where no score exceeds the `critical` one of Bonferroni's; then it is the clearest
    radius alone.
    """
    score = test.score[i]
    critical = min(critical, float(np.abs(score).max()))
    found: list[Stretch | None] = []
    for side in (-score, score):
        if side.max() < critical:
            found.append(None)
            continue
        peak, beyond = int(side.argmax()), side >= critical
        start = peak - int(np.argmin(np.append(beyond[peak::-1], False))) + 1
        stop = peak + int(np.argmin(np.append(beyond[peak:], False)))  # the first radius that is not significant
        last = float(test.radii[stop]) if stop < len(test.radii) else end
        found.append(
            Stretch(
                start=float(test.radii[start]),
                end=last,
                radius=float(test.radii[peak]),
                own=float(test.own[i, peak]),
                rest=float(test.rest[i, peak]),
            )
        )
    return found[0], found[1]


def _verdict(
    test: CurveTest, i: int, fewer: Stretch | None, more: Stretch | None, settings: AuditSettings
) -> tuple[CurveVerdict, str]:
    own, rest = float(test.effective[i]), float(test.rest_effective[i])
    if rest == 0:
        return NOT_COMPARABLE, "there is no sample outside the group"
    few = few_samples(min(own, rest), settings)
    if few is not None:
        differs = settings.cluster is not None or settings.sample_weight is not None
        return few, too_few_words(int(min(own, rest)), settings, own=own <= rest, effective=differs)
    if test.dropped[i] > MOST_DROPPED:
        lost = percent(float(test.dropped[i]))
        return NOT_COMPARABLE, f"{lost} of the samples lie in strata of the control that lack one side"
    if fewer and more:
        return CROSSING, ""
    return (LOWER if fewer else HIGHER if more else NO_DIFFERENCE), ""


def _biases(
    distances: Distances,
    partition: Partition,
    cells: Sorted,
    cluster: Ints | None,
    weights: Floats | None,
    end: float,
    confidence: float,
) -> list[tuple[Estimate, float, float]]:
    """Return the largest robustness bias of every group with limits, its radius, and the half-width of the band."""
    spread, correct = distances.bound.of_spread(), distances.correct
    right = None if weights is None else weights[correct]
    squares = Squares.of(
        partition.membership[correct], cells.groups, None if cluster is None else cluster[correct], right
    )
    alike = Sorted.of(distances.values, np.zeros(len(distances), dtype=np.int64), 1, weights)
    everyone = Known.of(alike, 0, len(distances), end, float(squares.size.sum()))
    factors = np.array([error_factor(cells, *ends) for ends in pairwise(cells.starts)])
    units = squares.joint(factors, error_factor(alike, 0, len(distances)))
    found: list[tuple[Estimate, float, float]] = []
    for i, (label, (start, stop)) in enumerate(zip(partition.labels, pairwise(cells.starts), strict=True)):
        if squares.size[i] == 0 or squares.rest_size[i] == 0:
            reason = f"no correct sample {'in' if squares.size[i] == 0 else 'outside'} group {label!r}"
            found.append((Estimate.undefined(reason, spread), Undefined(reason), Undefined(reason)))
            continue
        bias, radius = largest_bias(Known.of(cells, start, stop, end, float(squares.size[i])), everyone)
        band, size = kolmogorov_band(float(units[i]), confidence), abs(bias)
        found.append((Estimate(size, max(size - band, 0.0), min(size + band, 1.0), spread), radius, band))
    return found


def _differences(
    distances: Distances,
    partition: Partition,
    radii: tuple[float, ...],
    settings: AuditSettings,
    cluster: Ints | None,
    end: float,
) -> list[list[tuple[Estimate, float]]]:
    """Return I_P(τ) − I_rest(τ) of every group at every chosen radius, with limits and p-values that agree.

    p-values are corrected by Holm's method over all groups and radii.
    """
    bound = distances.bound - distances.bound
    known = [radius for radius in radii if radius < end]
    contrasts = [
        _shares((distances.values > radius).astype(np.float64), partition, settings, cluster) for radius in known
    ]
    count_of = sum(hypotheses(~np.isnan(each.p)) for each in contrasts)
    everyone = sum(hypotheses(np.ones(len(each.p), dtype=bool)) for each in contrasts)
    p = holm(np.array([each.p for each in contrasts]).ravel(), count_of).reshape(len(known), len(partition.labels))
    found: list[list[tuple[Estimate, float]]] = []
    for radius in radii:
        if radius >= end:
            reason = f"curves are compared below a radius of {number(end)} only"
            found.append([(Estimate.undefined(reason, bound), Undefined(reason))] * len(partition.labels))
            continue
        each, adjusted = contrasts[known.index(radius)], p[known.index(radius)]
        limits = simultaneous_limits(
            each.gap_at, each.gap, adjusted, alpha=settings.alpha, hypotheses=count_of, intervals=everyone
        )
        found.append(
            [
                (_difference(i, label, each, float(limits.low[i]), float(limits.high[i]), bound), float(adjusted[i]))
                for i, label in enumerate(partition.labels)
            ]
        )
    return found


def _shares(beyond: Floats, partition: Partition, settings: AuditSettings, cluster: Ints | None) -> Contrasts:
    """Compare shares. If clusters span groups, shares near 0 or 1 of small groups are not tested.

    Such clusters cannot be permuted, and a group that happens to have no rare sample has a standard error of 0.
    """
    if settings.weights(len(beyond)) is None:
        found = share_contrasts(beyond, partition, settings, cluster)
    else:
        found = compare_groups(beyond, partition, settings, cluster)[1]
    if cluster is None or len(np.unique(cluster * len(partition.labels) + partition.membership)) == cluster.max() + 1:
        return found
    rare = min(beyond.mean(), 1 - beyond.mean())
    few = np.minimum(found.effective, found.rest_effective) * rare < _FEWEST_RARE
    return replace(found, p=np.where(few, np.nan, found.p))


def _difference(i: int, label: str, contrasts: Contrasts, low: float, high: float, bound: Bound) -> Estimate:
    if contrasts.rest_units[i] == 0:
        return Estimate.undefined(f"there is no sample outside group {label!r}", bound)
    if contrasts.dropped[i] == 1:
        return Estimate.undefined(f"no stratum has two samples of group {label!r} and two others", bound)
    one = min(contrasts.units[i], contrasts.rest_units[i]) < 2
    reason = f"group {label!r} or its rest has 1 independent sample: no interval" if one and math.isnan(high) else ""
    return Estimate(float(contrasts.gap[i]), low, high, bound, reason)


def _method(settings: AuditSettings, radii: tuple[float, ...]) -> str:
    at = ""
    if radii:
        at = " Differences at chosen radii: exact limits and tests of shares, corrected for all groups and radii."
    return (
        "Curves: the largest studentised difference over all radii, corrected for skewness, with the tail probability "
        "of Miller and Siegmund; p-values corrected by Holm’s method over the groups. Robustness bias: Kolmogorov’s "
        f"band for all radii of all groups at once, at {level_text(settings.confidence)}.{at}"
    )
