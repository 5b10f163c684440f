"""Audit of one partition: every group against the rest, with intervals, tests and a verdict."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, cast

import numpy as np

from fairmargin.analyses.cells import (
    MARKS,
    SAMPLES,
    VERDICT,
    count,
    decimals_of,
    largest_of,
    length,
    p_cell,
    share,
    table_of,
)
from fairmargin.analyses.censored import (
    ANY_DEPTH,
    BAND,
    BY_INFLUENCE,
    assumptions,
    depends_on_depth,
    depth_cell,
)
from fairmargin.analyses.changes import unfinished
from fairmargin.analyses.curves import (
    DIFFERENT,
    HIGHER,
    LOWER,
    CurveComparison,
    bias_columns,
    compare_curves,
    where_they_differ,
)
from fairmargin.analyses.explanations import (
    CURVE_READING,
    CURVES_TOPIC,
    SIGMA_MEANING,
    SIGMA_TOPIC,
    VARIANCE_READING,
    bounds_explained,
    verdicts_explained,
)
from fairmargin.analyses.figures import GroupWithCurve, robustness_curves, sigma_intervals
from fairmargin.analyses.measures import (
    Measured,
    OtherMeasures,
    is_very_wide,
    largest_share,
    measures_section,
    median_words,
    other_measures,
    parts_words,
    single_samples,
    tail_warning,
)
from fairmargin.analyses.summary import ComparedGroups, bound_warning, by_sigma, cap_note, finding, summary
from fairmargin.analyses.table import columns_of
from fairmargin.core.arrays import Bools, Floats, Ints, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.codec import Format
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition, check_partition
from fairmargin.core.undefined import Undefined
from fairmargin.errors import InputError
from fairmargin.inference import spread
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.bounds import sigma_bounds
from fairmargin.inference.capping import capped, tiny_words, undefined_like
from fairmargin.inference.censoring import Restricted, Searches, horizon_of, restrict
from fairmargin.inference.contrast import Contrasts, Family, GroupMeans, outer, too_few_words, verdict_of
from fairmargin.inference.design import Design, absent_words
from fairmargin.inference.estimate import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    NOT_COMPARABLE,
    TOO_FEW,
    Estimate,
    Verdict,
)
from fairmargin.inference.groups import compare_groups
from fairmargin.inference.permutation import hypotheses
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import binomial_interval, kolmogorov_band
from fairmargin.inference.tails import changes_without_tail
from fairmargin.presentation.formatting import (
    JUST_BEYOND_ZERO,
    level_text,
    listed,
    number,
    p_value,
    percent,
    plain,
    quoted,
    radius_words,
    several,
)
from fairmargin.presentation.section import Cell, Column, Explanation, Section, Table


@dataclass(frozen=True, slots=True, eq=False)
class GroupResult(GroupWithCurve, Measured):
    """One row of an audit: a group against the rest."""

    group: str
    size: int
    accuracy: Estimate
    unreached: float  # share of the group without a finite distance
    robustness: Estimate  # Rob(P), the mean distance
    sigma: Estimate  # Rob(P) / Rob(rest) - 1; the interval holds for all groups at once and agrees with the verdict
    sigma_alone: Estimate  # the same with the interval of this group alone, as if no other had been looked at
    sigma_unrestricted: Estimate  # σ of the distances before they were capped; equal to `sigma` if they were not
    sigma_median: Estimate  # contrast of medians: median(P) / median(rest) - 1, of distances that are not capped
    sigma_accuracy: Estimate  # accuracy(P) / accuracy(rest) - 1, and
    sigma_margin: Estimate  # the same of the mean distance of correct samples: 1 + σ is the product of 1 + both
    gap_to_rest: Estimate  # Rob(P) - Rob(rest), with an interval that holds for all groups at once
    p: float
    p_adjusted: float
    verdict: Verdict
    reason: str  # why there is no verdict; empty where there is one
    curve: RobustnessCurve
    band: float  # half-width of the confidence band of the curve
    dropped: float = 0.0  # share of the group's samples in strata without a counterpart
    effective: float = math.nan  # effective number of samples, by which verdicts are decided
    unreachable: float = 0.0  # share of the group for which it is proven that there is no distance
    sigma_bounds: Estimate | None = None  # σ whatever depth and distance have in common; None if no search failed


@dataclass(frozen=True, slots=True)
class OverallResult:
    """Numbers of the partition as a whole."""

    size: int
    accuracy: Estimate
    robustness: Estimate  # Rob(f), the unweighted mean over the groups
    variance: Estimate  # V_f, debiased, with an interval that can hold 0
    relative_variance: Estimate  # V_f / Rob(f)^2
    largest_gap: Estimate  # max - min
    worst_group: str
    worst_robustness: Estimate
    p_equal: float  # of the hypothesis that no group differs: the smallest corrected p
    effective: float = math.nan  # effective number of samples


@dataclass(frozen=True, slots=True, eq=False)
class AuditResult(ComparedGroups[GroupResult]):
    """Result of an audit of one partition.

    `to_frame()` is the table a person reads, `to_json()` and `from_json()` round-trip without loss.
    """

    FORMAT: ClassVar[Format] = Format(4, "audit", "Run `fairmargin audit` again")

    partition: str
    groups: tuple[GroupResult, ...]
    overall: OverallResult
    bound: Bound
    norm: Norm
    subject: str
    confidence: float
    up_to: float  # the radius at which distances were capped; inf if they were not
    cap_reason: str = ""  # why they were capped, and how many distances that cuts
    censoring: str = ""  # what is assumed of searches that failed before the cap; empty if there are none
    control: str = ""  # name of the partition held constant
    clustered: bool = False
    weighted: bool = False  # whether samples have unequal weights
    method: str = ""  # how intervals and p-values were computed, as sentences
    warnings: tuple[str, ...] = ()
    curves: CurveComparison | None = None

    @property
    def title(self) -> str:
        """Partition, kind of distances, norm, number of samples and cap."""
        radius = f", {radius_words(self.up_to)}" if math.isfinite(self.up_to) else ""
        return f"{self.partition}: {self.bound.words}, {self.norm}, {self.overall.size:,} samples{radius}"

    def summary(self) -> list[str]:
        """Return the headline, and other sentences about all groups together."""
        sentences = summary(self, self.control)
        if not math.isnan(self.overall.p_equal):
            p_equal = p_value(self.overall.p_equal)
            untested = any(math.isnan(row.p_adjusted) for row in self)
            tested = "the tested groups are" if untested else "all groups are"
            sentences.append(f"Test of the assumption that {tested} equally robust: {p_equal}.")
        at_radii = "" if self.curves is None else self.curves.at_radii
        if len(self.groups) > 2 and all(row.verdict == TOO_FEW for row in self):
            sentences.append("No group is large enough: join small ones (`--merge-below`, `Partition.merge`).")
        more = (self._parts_of_least, self.hidden_difference, at_radii, self.single_samples_words)
        return [sentences[0], *filter(None, more), *sentences[1:]]

    @property
    def _parts_of_least(self) -> str:
        """Sentence on the parts of σ of the least robust group; empty if it is not significantly less robust."""
        least = by_sigma(self.groups)[0]
        parts = parts_words(least)
        return f"{quoted(least.group)}: {parts[0].lower()}{parts[1:]}" if parts else ""

    @property
    def hidden_difference(self) -> str:
        """Sentence about groups whose curves differ significantly although their means do not; empty if none."""
        hidden = self._hidden
        if not hidden:
            return ""
        others = [quoted(group) for group in hidden[1:] if len(self.groups) > 2]
        same = f" The same holds for {listed(others)}." if others else ""
        return f"{self._difference_of_curves(hidden[0])}{same}"

    @property
    def _hidden(self) -> list[str]:
        """Groups of which only the curves differ, first those of which fewer samples withstand at some radius."""
        found = [row.group for row in by_sigma(self.groups) if self._only_curves_differ(row)]
        curves = self.curves
        return found if curves is None else sorted(found, key=lambda group: curves[group].fewer is None)

    @property
    def single_samples_words(self) -> str:
        """Sentence about groups whose mean depends on one distance, so that an interval of σ is very wide."""
        if self.censoring or not any(is_very_wide(row.sigma) for row in self):
            return ""
        return single_samples([(row, largest_share(row.curve, self.up_to)) for row in self])

    def _only_curves_differ(self, row: GroupResult) -> bool:
        """Return whether the means of a group and its rest do not differ significantly, but their curves do."""
        return row.verdict == NO_DIFFERENCE and self.curves is not None and self.curves[row.group].verdict in DIFFERENT

    def _difference_of_curves(self, group: str) -> str:
        assert self.curves is not None
        row = self.curves[group]
        return (
            f"The means of {quoted(group)} and its rest do not differ significantly, but their curves do: "
            f"{where_they_differ(row)} ({p_value(row.p_adjusted)})."
        )

    def finding(self, row: GroupResult) -> str:
        """Return a group's verdict, the kind of bound it rests on, and what curves, parts and medians add to it."""
        curves = self._difference_of_curves(row.group) if self._only_curves_differ(row) else ""
        single = ""
        if not self.censoring and is_very_wide(row.sigma):
            single = single_samples([(row, largest_share(row.curve, self.up_to))])
        return " ".join(filter(None, (self._verdict(row), curves, parts_words(row), single, self._median(row, curves))))

    def _short_finding(self, row: GroupResult) -> str:
        """Return the finding of a group without what the summary says of it."""
        hidden = self._hidden
        curves = self._difference_of_curves(row.group) if row.group in hidden[1:] else ""
        parts = "" if row is by_sigma(self.groups)[0] else parts_words(row)
        return " ".join(filter(None, (self._verdict(row), curves, parts, self._median(row, curves))))

    def _median(self, row: GroupResult, curves: str) -> str:
        """Return what the median adds to the sentence on the curves of the group, if there is one."""
        only = {LOWER: "smaller", HIGHER: "larger"}
        also = only.get(self.curves[row.group].verdict, "") if curves and self.curves is not None else ""
        return median_words(row, also=also)

    def _verdict(self, row: GroupResult) -> str:
        return finding(self, row, row.reason)

    def notes(self) -> list[str]:
        """Return every condition under which the numbers hold."""
        notes = []
        if self.subject != "model":
            notes.append(
                f"The numbers speak of {plain(self.subject)}, which is another classifier than the plain model."
            )
        if math.isfinite(self.up_to):
            notes.append(cap_note(self.up_to, self.cap_reason))
        if self.censoring:
            notes.append(self.censoring)
        if self.control:
            left_out = sum(row.dropped * row.size for row in self)
            lost = f" {round(left_out):,} samples without a counterpart were left out." if left_out >= 0.5 else ""
            notes.append(
                f"Groups are compared at equal {quoted(self.control)}: a difference that only mirrors how "
                f"{quoted(self.control)} is distributed does not show.{lost}"
            )
        if self.clustered:
            notes.append(
                "Samples that belong together (for instance several of one person) were resampled together: they count "
                "as one observation, not as many."
            )
        if self.weighted:
            notes.append(
                f"Samples count by their weights: together, these {self.overall.size:,} are as informative as "
                f"{self.overall.effective:,.0f} with equal weights."
            )
        return notes

    def section(self) -> Section:
        """Return every group against the rest, the curves, and the partition as a whole."""
        headline, *more = self.summary()
        rows = by_sigma(self.groups)
        capped = f"capped at {number(self.up_to)}" if math.isfinite(self.up_to) else ""
        size = f"{several(self.overall.size, 'sample')} in {several(len(rows), 'group')}"
        return Section(
            title=f"By {plain(self.partition)}",
            about=" · ".join(
                filter(None, (self.bound.words, f"{self.norm} norm", size, capped and f"distances {capped}"))
            ),
            answer=headline,
            sentences=tuple(more),
            findings=tuple(map(self._short_finding, rows)),
            cautions=self.warnings,
            notes=tuple(self.notes()),
            tables=(_groups_table(self, rows, capped),),
            figures=(
                robustness_curves(
                    self.groups,
                    self.norm,
                    self.up_to,
                    alt=f"Curves: the share still classified correctly against the perturbation radius. {headline}",
                ),
                sigma_intervals(
                    self.groups,
                    self.confidence,
                    alt=f"Each group’s σ with its interval. {' '.join([headline, *more])}",
                ),
            ),
            further=(
                measures_section(rows, self.confidence, self.up_to, self.partition),
                Section("The partition as a whole", tables=(_overall_table(self, capped),)),
                *(() if self.curves is None else (self.curves.section(),)),
            ),
            explanations=(
                Explanation(CURVES_TOPIC, CURVE_READING),
                Explanation(SIGMA_TOPIC, SIGMA_MEANING),
                *verdicts_explained(),
                *bounds_explained([self.bound]),
            ),
            method=self.method if self.curves is None else f"{self.method} {self.curves.method}",
        )

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group, every number in a column of its own.

        `robustness_bias_max` is the largest |Pr(d > τ | group) − Pr(d > τ | rest)| of correct samples over all radii τ
        (Nanda 2021, Eq. 2), and `robustness_bias_radius` the smallest τ at which it is reached. Both ignore `control`.
        `p_curves` is of the hypothesis that the curves of the group and of its rest are equal.
        """
        return [
            {
                "partition": self.partition,
                **columns_of(row, ("group", "size", "accuracy", "robustness", "sigma", "gap_to_rest")),
                "sigma_alone_low": row.sigma_alone.low,
                "sigma_alone_high": row.sigma_alone.high,
                "sigma_bounds_low": (row.sigma_bounds or row.sigma).low,
                "sigma_bounds_high": (row.sigma_bounds or row.sigma).high,
                **columns_of(row, ("sigma_unrestricted", "sigma_median", "sigma_accuracy", "sigma_margin")),
                **columns_of(row, ("unreached", "unreachable", "p", "p_adjusted", "dropped", "effective")),
                **({} if self.curves is None else _curve_columns(self.curves, row.group)),
                "bound": row.robustness.bound.value,
                "verdict": row.verdict,
                "finding": self.finding(row),
                "up_to": self.up_to,
            }
            for row in self.groups
        ]


def _curve_columns(curves: CurveComparison, group: str) -> dict[str, Any]:
    row = curves[group]
    tests = {"p_curves": row.p, "p_curves_adjusted": row.p_adjusted}
    return {**tests, **bias_columns(row), **curves.difference_columns(row)}


def audit(
    distances: Distances, partition: Partition, settings: AuditSettings | None = None, *, radii: Any = ()
) -> AuditResult:
    """Compare every group of a partition with the rest, with intervals, tests and a verdict.

    Parameters
    ----------
    distances
        One number per sample, from `measure` or from anywhere else.
    partition
        The groups.
    settings
        Confidence, control, clusters and limits; the defaults suit independent samples.
    radii
        Radii at which the curves of groups are compared; see `compare_curves`.

    >>> from fairmargin.core.norm import Norm
    >>> rng = np.random.default_rng(0)
    >>> values = np.concatenate([rng.gamma(2, 1.0, 200), rng.gamma(2, 2.0, 200)])
    >>> d = Distances(values, values > 0, Bound.EXACT, Norm.L2)
    >>> result = audit(d, Partition.by("sex", ["F"] * 200 + ["M"] * 200))
    >>> result["F"].verdict
    'less robust'
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
        found = audit(distances.take(present), partition.take(present), chosen.take(present), radii=radii)
        return replace(found, warnings=(*found.warnings, *absent_words(partition, present)))
    design = Design.of(chosen, len(distances))
    horizon = horizon_of([distances], partition, chosen.control, chosen.up_to)
    known = restrict(distances, partition, chosen.control, horizon.up_to, design.weights)
    means, contrasts = compare_groups(known.values, partition, chosen, design.cluster, known.within)
    reasons = [no_contrast(i, label, contrasts) for i, label in enumerate(partition.labels)]
    others = other_measures(distances, known.values, partition, chosen, design, contrasts, reasons)
    rows = known.withheld(_rows(distances, partition, means, contrasts, others, chosen, design, known))
    if math.isfinite(horizon.up_to):
        rows = _with_unrestricted(rows, distances, partition, chosen, design)
    overall = _overall(distances, partition, means, rows, chosen, design)
    return AuditResult(
        partition=partition.name,
        groups=rows,
        overall=_without_means(overall, known) if any(known.own_gaps) else overall,
        bound=distances.bound,
        norm=distances.norm,
        subject=distances.subject,
        confidence=chosen.confidence,
        up_to=horizon.up_to,
        cap_reason=horizon.reason,
        censoring=assumptions(is_censored=known.is_censored, bounds_differ=known.bounds_differ),
        control="" if chosen.control is None else chosen.control.name,
        clustered=design.cluster is not None,
        weighted=design.weights is not None,
        method=_method(chosen, contrasts, known),
        curves=compare_curves(distances, partition, chosen, radii=radii),
        warnings=tuple(
            filter(
                None,
                (
                    tiny_words([distances], horizon.up_to),
                    known.warning,
                    depends_on_depth(
                        [(row.group, row.verdict, row.sigma_bounds) for row in rows], is_censored=known.is_censored
                    ),
                    "" if known.is_censored else _tail_warning(known.values, partition, chosen, design, rows),
                    _weak_group(rows),
                    _unfinished_warning(distances) or bound_warning(distances.bound, rows),
                ),
            )
        ),
    )


def _unfinished_warning(distances: Distances) -> str:
    """Return how many distances of an exact estimator are upper bounds, because their search ended at its budget."""
    count = int(unfinished(distances).sum()) if distances.estimator.startswith("exact_") else 0
    if not count or distances.bound is not Bound.UPPER:
        return ""
    return (
        f"{count:,} of {len(distances):,} distances are upper bounds, because their exact search ended at its budget; "
        "all others are exact. A larger budget (boxes=…) finds more."
    )


def _rows(
    distances: Distances,
    partition: Partition,
    means: GroupMeans,
    contrasts: Contrasts,
    others: tuple[OtherMeasures, ...],
    settings: AuditSettings,
    design: Design,
    known: Restricted,
) -> tuple[GroupResult, ...]:
    family = Family.of(contrasts, settings.alpha)
    adjusted = family.adjusted
    bound, searches = distances.bound, Searches.of(distances)
    ranges = _sigma_bounds(partition, contrasts, family, settings, design, known, bound / bound)
    rows = []
    for i, (label, own) in enumerate(zip(partition.labels, partition.rows(), strict=True)):
        sigma, other = _sigma(i, label, contrasts, family.sigma, bound), others[i]
        verdict, size = verdict_of(i, contrasts, float(adjusted[i]), settings), design.effective(own)
        reason = reason_without_verdict(verdict, i, contrasts, settings)
        curve = searches.take(own).curve(None if design.weights is None else design.weights[own])
        band = kolmogorov_band(design.curve_size(curve, size), settings.confidence)
        rows.append(
            GroupResult(
                group=label,
                size=len(own),
                accuracy=share_of(distances.correct, own, design, settings),
                unreached=design.share(distances.unreached, own)[0],
                robustness=_robustness(i, label, means, bound),
                sigma=sigma,
                sigma_alone=_sigma(i, label, contrasts, contrasts.sigma_limits, bound),
                sigma_unrestricted=sigma,
                sigma_median=other.sigma_median,
                sigma_accuracy=other.sigma_accuracy,
                sigma_margin=other.sigma_margin,
                gap_to_rest=_gap(i, label, contrasts, family.gap, bound - bound),
                p=Undefined(reason) if reason else float(contrasts.p[i]),
                p_adjusted=Undefined(reason) if reason else float(adjusted[i]),
                verdict=verdict,
                reason=reason,
                curve=curve,
                band=min(1.0, float(known.widening[i]) * band),
                dropped=float(contrasts.dropped[i]),
                effective=size,
                unreachable=design.share(searches.proven, own)[0],
                sigma_bounds=ranges[i],
            )
        )
    return tuple(rows)


def _sigma_bounds(
    partition: Partition,
    contrasts: Contrasts,
    family: Family,
    settings: AuditSettings,
    design: Design,
    known: Restricted,
    bound: Bound,
) -> list[Estimate | None]:
    """Return the bounds of every σ that need no assumption on depths, at the level of the simultaneous intervals."""
    if not known.bounds_differ:
        return [None] * len(partition.labels)
    level = settings.alpha / hypotheses(np.ones(len(partition.labels), dtype=np.bool_))
    limits = sigma_bounds(known.low, known.high, partition, settings.control, design, level)
    return [_sigma(i, label, contrasts, outer(family.sigma, limits), bound) for i, label in enumerate(partition.labels)]


def _with_unrestricted(
    rows: tuple[GroupResult, ...],
    distances: Distances,
    partition: Partition,
    settings: AuditSettings,
    design: Design,
) -> tuple[GroupResult, ...]:
    """Replace `sigma_unrestricted` by the σ that the audit would have without the cap."""
    bound, missing = distances.bound, int(distances.unreached.sum())
    if missing:
        nothing = Estimate.undefined(f"{several(missing, 'sample')} without a finite distance", bound / bound)
        return tuple(replace(row, sigma_unrestricted=nothing) for row in rows)
    _, contrasts = compare_groups(capped(distances.values, math.inf), partition, settings, design.cluster)
    limits = Family.of(contrasts, settings.alpha).sigma
    found = (_sigma(i, row.group, contrasts, limits, bound) for i, row in enumerate(rows))
    return tuple(replace(row, sigma_unrestricted=each) for row, each in zip(rows, found, strict=True))


def _tail_warning(
    values: Floats, partition: Partition, settings: AuditSettings, design: Design, rows: tuple[GroupResult, ...]
) -> str:
    verdicts = [row.verdict for row in rows]
    return tail_warning(changes_without_tail(values, partition, settings, design, verdicts), rows)


def share_of(hits: Bools, rows: Ints, design: Design, settings: AuditSettings, bound: Bound = Bound.EXACT) -> Estimate:
    """Return the share of hits among some samples, with its exact binomial interval for their effective number."""
    value, size = design.share(hits, rows)
    return Estimate(value, *binomial_interval(value * size, size, settings.confidence), bound)


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
            no_contrast(i, label, contrasts) or f"the rest of group {label!r} has robustness 0", ratio
        )
    if min(contrasts.units[i], contrasts.rest_units[i]) < 2:
        return Estimate(value, math.nan, math.nan, ratio, f"group {label!r} or its rest has 1 sample: no interval")
    if value == -1:
        reason = f"no sample of group {label!r} has a distance above 0"
        return Estimate(-1.0, -1.0, -JUST_BEYOND_ZERO if limits.high[i] < 0 else math.nan, ratio, reason)
    return Estimate(*_around(value, float(limits.low[i]), float(limits.high[i])), ratio)


def _around(value: float, low: float, high: float, scale: float = 1.0) -> tuple[float, float, float]:
    """Return a value and limits in order; with a `scale` above 0, differences as small as rounding errors become 0."""
    if abs(value) < JUST_BEYOND_ZERO * scale:
        value, low, high = (0.0 if abs(part) < JUST_BEYOND_ZERO * scale else part for part in (value, low, high))
    if math.isnan(low) or math.isnan(high):
        return value, low, high
    return value, min(low, value), max(high, value)


def _gap(i: int, label: str, contrasts: Contrasts, limits: Limits, bound: Bound) -> Estimate:
    reason = no_contrast(i, label, contrasts)
    if reason:
        return Estimate.undefined(reason, bound)
    value, low, high = (float(part[i]) for part in (contrasts.gap, limits.low, limits.high))
    if min(contrasts.units[i], contrasts.rest_units[i]) < 2:
        return Estimate(value, math.nan, math.nan, bound, f"group {label!r} or its rest has 1 sample: no interval")
    scale = abs(value / contrasts.sigma[i]) if np.isfinite(contrasts.sigma[i]) and contrasts.sigma[i] else abs(value)
    return Estimate(*_around(value, low, high, float(scale)), bound)


def no_contrast(i: int, label: str, contrasts: Contrasts) -> str:
    """Return why group number `i` has no contrast with its rest; empty if it has one."""
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
    settings: AuditSettings,
    design: Design,
) -> OverallResult:
    everyone = np.arange(len(distances))
    bound = distances.bound
    worst = int(means.mean.argmin())
    one_is_less_robust = any(row.verdict == LESS_ROBUST for row in rows)
    worst_limits = spread.worst_limits(means, settings.confidence, one_is_less_robust=one_is_less_robust)
    return OverallResult(
        size=len(distances),
        accuracy=share_of(distances.correct, everyone, design, settings),
        robustness=_mean_over_groups(means, settings, bound),
        variance=_spread(means, rows, spread.variance, settings, bound),
        relative_variance=_spread(means, rows, spread.relative_variance, settings, bound),
        largest_gap=_spread(means, rows, spread.largest_gap, settings, bound),
        worst_group=partition.labels[worst],
        worst_robustness=Estimate(*_around(float(means.mean[worst]), *worst_limits, scale=0.0), bound),
        p_equal=min((row.p_adjusted for row in rows if not math.isnan(row.p_adjusted)), default=math.nan),
        effective=design.effective(everyone),
    )


def _without_means(overall: OverallResult, known: Restricted) -> OverallResult:
    """Return the numbers of the partition without those that rest on the mean of a group that is not known up to T."""
    reason = next(filter(None, known.own_gaps))
    changed = {
        field.name: undefined_like(getattr(overall, field.name), reason)
        for field in fields(overall)
        if field.name != "accuracy" and isinstance(getattr(overall, field.name), Estimate)
    }
    return replace(overall, **cast(dict[str, Any], changed))


def _mean_over_groups(means: GroupMeans, settings: AuditSettings, bound: Bound) -> Estimate:
    """Return Rob(f), the mean over groups; without an interval if the spread of one group is unknown."""
    value = float(means.mean.mean())
    if (means.units < 2).any():
        return Estimate(value, math.nan, math.nan, bound, "a group has 1 independent sample: its spread is unknown")
    if value == 0:
        return Estimate(0.0, 0.0, math.nan, bound, "no sample has a distance above 0")
    limits = spread.overall_limits(means, settings.confidence)
    return Estimate(*_around(value, float(limits.low[0]), float(limits.high[0]), scale=0.0), bound)


def _spread(
    means: GroupMeans,
    rows: tuple[GroupResult, ...],
    statistic: spread.Statistic,
    settings: AuditSettings,
    bound: Bound,
) -> Estimate:
    """Return a variance or extreme over groups: debiased, with an interval that can hold 0."""
    kept = means.units >= 2
    spread_bound = bound.of_spread()
    if kept.sum() < 2:
        return Estimate.undefined("fewer than two groups have two independent samples", spread_bound)
    if means.mean[kept].mean() == 0:
        return Estimate.undefined("every group has robustness 0", spread_bound)
    mean, error2 = means.mean[kept], means.error2[kept]
    simulate = spread.observed_means(means, kept, settings.resamples, settings.seed)
    value, low, high = spread.spread_interval(mean, np.sqrt(error2), simulate, statistic, settings.confidence)
    if len(rows) == 2 and settings.control is None:
        low, high = _spread_of_two(rows[0], statistic, (low, high))
        value = min(max(value, low), high)
    if statistic is not spread.largest_gap:  # variances are debiased by what their noise adds on average
        debiased = spread.debiased_variance(mean, error2)
        debiased = debiased if statistic is spread.variance else debiased / float(mean.mean()) ** 2
        value = min(max(debiased, low), high)
    return Estimate(value, low, high, spread_bound)


def _spread_of_two(
    row: GroupResult, statistic: spread.Statistic, otherwise: tuple[float, float]
) -> tuple[float, float]:
    """Return limits that follow from those of the gap or of σ, so that they exclude 0 exactly where these do."""
    relative = statistic is spread.relative_variance
    estimate = row.sigma if relative else row.gap_to_rest
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return otherwise
    if relative:  # V_f/Rob(f)² = ((1 + σ − 1)/(1 + σ + 1))²
        with np.errstate(divide="ignore"):  # σ can be −1
            below, above = spread.limits_of_size(float(np.log1p(estimate.low)), float(np.log1p(estimate.high)))
        return math.tanh(below / 2) ** 2, math.tanh(above / 2) ** 2
    below, above = spread.limits_of_size(estimate.low, estimate.high)
    return (below, above) if statistic is spread.largest_gap else (below**2 / 4, above**2 / 4)


def _method(settings: AuditSettings, contrasts: Contrasts, known: Restricted) -> str:
    return (
        f"{BY_INFLUENCE if known.is_censored else ''}{level_text(settings.confidence)} intervals. "
        "σ and gap: for all groups at once (Bonferroni), by Hall's transformation of the studentised log ratio, at "
        "least as wide as Student's with degrees of freedom from the "
        f"kurtosis and as a group's own bootstrap-t interval with {settings.resamples:,} resamples; they exclude 0 "
        "exactly where the corrected p is significant. Spread over groups: by inverting a test that allows 0, or, of "
        "two groups, from the limits of gap and σ. Accuracy: exact binomial. "
        "Medians: order statistics. Parts of σ: exact binomial limits, and Hall's. "
        f"Bands of curves: {BAND if known.is_censored else 'Kolmogorov’s band'}. p-values: the largest of these "
        f"methods and of a {contrasts.way}, corrected by Holm's method over the groups."
    )


def reason_without_verdict(verdict: Verdict, i: int, contrasts: Contrasts, settings: AuditSettings) -> str:
    """Say why a group has no verdict; empty where it has one."""
    if verdict in (TOO_FEW, NO_VERDICT):
        own_is_small = contrasts.effective[i] <= contrasts.rest_effective[i]
        few = int(min(contrasts.effective[i], contrasts.rest_effective[i]))
        units = contrasts.units[i] if own_is_small else contrasts.rest_units[i]
        differs = few < units or settings.cluster is not None
        return too_few_words(few, settings, own=own_is_small, effective=differs)
    if verdict == NOT_COMPARABLE and contrasts.rest_units[i] == 0:
        return "there is no sample outside the group"
    if verdict == NOT_COMPARABLE:
        name = "the control" if settings.control is None else repr(settings.control.name)
        return f"{percent(contrasts.dropped[i])} of the samples lie in strata of {name} that lack one side"
    return ""


def _weak_group(rows: tuple[GroupResult, ...]) -> str:
    """Warn of one very weak group, which makes every other group look more robust than the rest."""
    weak = [i for i, row in enumerate(rows) if row.verdict == LESS_ROBUST]
    strong = [i for i, row in enumerate(rows) if row.verdict == MORE_ROBUST]
    if not weak or len(strong) < 1 or len(rows) < 3:
        return ""
    worst = min(weak, key=lambda i: rows[i].robustness.value)
    sizes = np.array([row.curve.size for row in rows])
    sizes[worst] = 0
    sums = sizes * np.array([row.robustness.value for row in rows])
    fallen = []
    for i in strong:
        rest_size, rest_sum = sizes.sum() - sizes[i], sums.sum() - sums[i]
        if rest_size and rest_sum > 0 and sums[i] / sizes[i] / (rest_sum / rest_size) - 1 <= 0.5 * rows[i].sigma.value:
            fallen.append(rows[i].group)
    if not fallen:
        return ""
    names = ", ".join(repr(name) for name in fallen)
    return (
        f"Group {rows[worst].group!r} is so much weaker that it lowers the rest of every other group: without it, less "
        f'than half of the advantage of {names} would be left. One very weak group makes every other "more robust than '
        'the rest".'
    )


# What console and report show --------------------------------------------------------------------------------------


def _groups_table(result: AuditResult, rows: list[GroupResult], capped: str) -> Table:
    distance = decimals_of([row.robustness for row in rows] + [row.gap_to_rest for row in rows])
    scale = largest_of([row.robustness for row in rows])
    many = len(rows) > 2
    level = f"{level_text(result.confidence)} interval"
    columns = [
        (VERDICT, [Cell(row.verdict) for row in rows]),
        (
            Column("σ", f"up to {number(result.up_to)}" if capped else "relative to rest", interval=level),
            [share(row.sigma, signed=True, alone=row.sigma_alone if many else None) for row in rows],
        ),
        (Column("p", "adjusted"), [p_cell(row.p_adjusted) for row in rows]),
        (Column("mean distance", capped, hidden=True), [length(row.robustness, distance, scale=scale) for row in rows]),
        (Column("accuracy", hidden=True), [share(row.accuracy, signed=False) for row in rows]),
        _samples_column(rows),
        (
            Column("gap to rest", hidden=True),
            [length(row.gap_to_rest, distance, signed=True, scale=scale) for row in rows],
        ),
    ]
    if any(row.sigma_bounds for row in rows):
        columns.append((ANY_DEPTH, [depth_cell(row.sigma_bounds) for row in rows]))
    for name, shares in (
        ("unreached", [row.unreached for row in rows]),
        ("proven unreachable", [row.unreachable for row in rows]),
        ("left out", [row.dropped for row in rows]),
    ):
        if any(each > 0 for each in shares):
            columns.append((Column(name, hidden=True), [Cell(percent(each)) for each in shares]))
    alone = " The line “alone” is the interval of σ that this group would have if no other had been looked at."
    return table_of(
        rows,
        columns,
        marks=(MARKS[row.verdict] for row in rows),
        caption=(
            f"Every group against the rest, least robust first. Below a value stands its {level}. Intervals of σ and "
            "of the gap hold for all groups at once, as p does: they exclude 0 exactly where the verdict is “less "
            f"robust” or “more robust”.{alone if many else ''} Distances in {result.norm}."
        ),
        label=f"Groups of {plain(result.partition)}",
    )


def _samples_column(rows: list[GroupResult]) -> tuple[Column, list[Cell]]:
    """Return sizes, with effective numbers if weights or clusters make them differ."""
    numbers = [row.size if math.isnan(row.effective) else int(row.effective + 1e-9) for row in rows]
    if all(number == row.size for number, row in zip(numbers, rows, strict=True)):
        return SAMPLES, [count(row.size) for row in rows]
    cells = [Cell(f"{row.size:,} ({number:,})") for number, row in zip(numbers, rows, strict=True)]
    return Column("samples", "(effective)", hidden=True), cells


def _overall_table(result: AuditResult, capped: str) -> Table:
    overall = result.overall
    decimals = decimals_of([overall.robustness, overall.largest_gap, overall.worst_robustness])
    scale = largest_of([overall.robustness])
    worst, gap = "The smallest mean distance of a group.", "From the most to the least robust group."
    if overall.largest_gap.is_defined:
        means = [row.robustness.value for row in result]
        lowest = [quoted(row.group) for row, mean in zip(result, means, strict=True) if mean == min(means)]
        worst = f"The smallest mean distance of a group: {listed(lowest)}."
        gap += f" Less what chance adds (observed: {number(max(means) - min(means))})."
    rows = (
        (
            "mean distance",
            length(overall.robustness, decimals, scale=scale),
            "Rob(f). Over the groups, each counting the same.",
        ),
        ("worst group", length(overall.worst_robustness, decimals, scale=scale), f"min Rob(P). {worst}"),
        ("largest gap", length(overall.largest_gap, decimals, scale=scale), f"max − min. {gap}"),
        ("variance", length(overall.variance, decimals_of([overall.variance]), scale=scale**2), VARIANCE_READING),
        (
            "relative variance",
            length(overall.relative_variance, decimals_of([overall.relative_variance]), scale=1.0),
            "V_f / Rob(f)². Comparable between models. Less what chance alone adds, as V_f.",
        ),
        ("accuracy", share(overall.accuracy, signed=False), f"Over all {overall.size:,} samples."),
    )
    return Table(
        columns=(Column("quantity", kind="text"), Column("value"), Column("what it is", kind="text")),
        rows=tuple((Cell(name), value, Cell(meaning)) for name, value, meaning in rows),
        caption=f"All groups together.{f' Distances are {capped}.' if capped else ''}",
        label=f"{plain(result.partition)} as a whole",
    )
