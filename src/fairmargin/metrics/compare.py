"""Two models on the same samples: which groups gained, which lost, and did the gap close?

Each sample is its own control, so that differences far smaller than the spread of the distances can be seen.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairmargin.core.arrays import Bools, Floats, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances, words_of_keep
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition, check_partition
from fairmargin.errors import InputError
from fairmargin.metrics.audit import common_cap
from fairmargin.metrics.bootstrap import Limits
from fairmargin.metrics.capping import forced_cut, within_cap
from fairmargin.metrics.contrast import is_testable
from fairmargin.metrics.crossing import ClusterSums, cluster_sums
from fairmargin.metrics.paired_change import PairedChange, paired_changes, units_of
from fairmargin.metrics.permutation import holm, hypotheses
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.results import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, TOO_FEW, Estimate, encode, radius_words
from fairmargin.metrics.simultaneous import simultaneous_limits


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
    verdict: str  # of the change of Rob(P): whether the interval of `change` excludes 0
    finding: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one model to another, group by group."""

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

    def __iter__(self) -> Iterator[GroupChange]:
        return iter(self.groups)

    def __getitem__(self, group: str) -> GroupChange:
        for row in self.groups:
            if row.group == group:
                return row
        raise InputError(f"Partition {self.partition!r} has no group {group!r}.")

    def to_frame(self) -> pd.DataFrame:
        """One row per group, every number in a column of its own."""
        rows = []
        for row in self.groups:
            columns: dict[str, object] = {"partition": self.partition}
            for name in row.__dataclass_fields__:
                value = getattr(row, name)
                if isinstance(value, Estimate):
                    columns |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
                else:
                    columns[name] = value
            rows.append(columns | {"up_to": self.up_to})
        return pd.DataFrame(rows)

    def to_json(self) -> str:
        """A JSON text for other programs."""
        return json.dumps(encode(self), ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        lines = [f"{self.partition}: after − before, {self.norm}"]
        if math.isfinite(self.up_to):
            lines[0] += f", {radius_words(self.up_to)}"
            lines += [f"  {self.cap_reason}."] if self.cap_reason else []
        return "\n".join([*lines, *(f"  {row.finding}" for row in self.groups)])


def compare(before: Distances, after: Distances, partition: Partition, plan: AuditPlan | None = None) -> Comparison:
    """Compare two models on the same samples, group by group.

    Reports Rob(P) after minus before and σ(P) after minus before. Intervals and p-values come from one closed form that
    allows for newly wrong and newly right samples that were not observed. They hold for all groups at once: the verdict
    is whether the interval of the change excludes 0, and Holm's corrected p-value is then below 1 − confidence.
    `change_alone` and `sigma_change_alone` have the interval of a single group.

    Parameters
    ----------
    before, after
        Distances of both models by the same estimator. Sample i of one is sample i of the other: they are paired by
        position, so bring both into the same order first.
    partition
        The groups.
    plan
        Confidence, clusters and limits; `control`, `resamples` and `seed` are not used.

    >>> rng = np.random.default_rng(0)
    >>> base = rng.gamma(2, 1, 200)
    >>> groups = Partition.by("sex", ["F"] * 100 + ["M"] * 100)
    >>> old = Distances(base, base > 0, Bound.EXACT, Norm.L2)
    >>> new = Distances(base * np.repeat([1.3, 1.0], 100), base > 0, Bound.EXACT, Norm.L2)
    >>> compare(old, new, groups)["F"].verdict
    'more robust'
    """
    chosen = plan or AuditPlan()
    if chosen.control is not None:
        raise InputError(
            "`compare` pairs each sample with itself, which already holds everything constant: drop `control`."
        )
    check_partition(partition)
    same_length(before=before, after=after, partition=partition)
    _check_alike(before, after)
    up_to, reason = _cap_of_both(before, after, chosen.up_to)
    cluster = chosen.cluster_codes(len(before))
    units = np.arange(len(before)) if cluster is None else cluster
    old, new = (cluster_sums(np.minimum(d.values, up_to), partition, None, units) for d in (before, after))
    cut = forced_cut([before, after], partition, up_to, chosen.up_to)
    return Comparison(
        partition.name,
        within_cap(_rows(old, new, partition, (before.bound, after.bound), chosen), cut),
        before.bound,
        after.bound,
        before.norm,
        before.subject,
        chosen.confidence,
        up_to,
        reason,
        (*filter(None, [cut.warning]), *_warnings(before, after)),
    )


def _rows(
    old: ClusterSums, new: ClusterSums, partition: Partition, bounds: tuple[Bound, Bound], plan: AuditPlan
) -> tuple[GroupChange, ...]:
    mean, ratio = paired_changes(old, new)
    units, rest_units = units_of(old)
    enough = np.full_like(units, np.inf), np.zeros_like(units)
    tested = is_testable(units, *enough, plan)
    sigma_tested = is_testable(units, rest_units, enough[1], plan)
    change = _inferred(mean, tested, lambda which: int(which.sum()), plan)
    sigma = _inferred(ratio, sigma_tested, hypotheses, plan)
    bound = bounds[1] - bounds[0]
    sigma_bound = bounds[1] / bounds[1] - bounds[0] / bounds[0]
    rows = []
    for i, label in enumerate(partition.labels):
        together, alone = (_change(float(change.value[i]), limits, i, bound, units[i]) for limits in change.limits)
        sigma_together, sigma_alone = (
            _sigma_change(float(sigma.value[i]), limits, i, sigma_bound, (units[i], rest_units[i]))
            for limits in sigma.limits
        )
        verdict = _verdict(bool(tested[i]), together)
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
                finding=_finding(label, verdict, together, sigma_together, float(change.adjusted[i]), plan),
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


def _inferred(change: PairedChange, tested: Bools, questions: Callable[[Bools], int], plan: AuditPlan) -> _Inferred:
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
        alpha=plan.alpha,
        hypotheses=count,
        intervals=questions(np.ones_like(tested)),
    )
    together = Limits(relative.low * change.scale, relative.high * change.scale)
    return _Inferred(change.value, p, adjusted, (together, change.limits(plan.alpha)))


def _check_alike(before: Distances, after: Distances) -> None:
    for what, left, right in (("norm", before.norm, after.norm), ("subject", before.subject, after.subject)):
        if left != right:
            raise InputError(f"`before` and `after` must have one {what}; given {left} and {right}.")
    if before.keep != after.keep:
        raise InputError(
            f"`before` and `after` must keep the same classes; given {words_of_keep(before.keep)} and "
            f"{words_of_keep(after.keep)}. Measure both with one `keep`."
        )
    if before.estimator and after.estimator and before.estimator != after.estimator:
        raise InputError(
            f"`before` and `after` must be measured by one estimator; given {before.estimator} and {after.estimator}. "
            "A difference between estimators would look like a change of the model: measure both by the same."
        )


def _cap_of_both(before: Distances, after: Distances, up_to: float) -> tuple[float, str]:
    caps = [common_cap(d, up_to) for d in (before, after)]
    return min(caps, key=lambda cap: cap[0])


def _verdict(tested: bool, change: Estimate) -> str:
    if not tested:
        return TOO_FEW
    if change.low > 0:
        return MORE_ROBUST
    return LESS_ROBUST if change.high < 0 else NO_DIFFERENCE


def _change(value: float, limits: Limits, i: int, bound: Bound, units: float) -> Estimate:
    low, high = float(limits.low[i]), float(limits.high[i])
    if units < 2:
        return Estimate(value, math.nan, math.nan, bound, "a single sample has no interval")
    if low == high:  # newly right samples, which were not observed, would lie at a distance that nothing tells
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


def _finding(label: str, verdict: str, change: Estimate, sigma: Estimate, adjusted: float, plan: AuditPlan) -> str:
    if verdict == TOO_FEW:
        return f"{label}: too few samples ({plan.smallest_group} are needed for a verdict)."
    p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.3f}"
    words = {NO_DIFFERENCE: "no significant change"}.get(verdict, f"{verdict} than before")
    interval = f"{plan.confidence:.0%} interval for all groups at once {limits_text(change)}"
    sigma_text = f"its change of σ is undefined ({sigma.reason})"
    if sigma.is_defined:
        limits = sigma.reason if math.isnan(sigma.low) else limits_text(sigma)
        sigma_text = f"σ changed by {sigma.value:+.4g} ({limits})"
    return (
        f"{label}: {words} (mean distance {change.value:+.4g}, "
        f"{change.reason if math.isnan(change.low) else interval}; {p}); {sigma_text}."
    )


def limits_text(estimate: Estimate, digits: int = 4) -> str:
    """Return an interval in words; a limit that Holm's correction moved just beyond 0 is shown as such."""

    def text(limit: float) -> str:
        if 0 < abs(limit) < 1e-9 * abs(estimate.value):
            return "below 0" if limit < 0 else "above 0"
        return f"{limit:+.{digits}g}"

    return f"{text(estimate.low)} to {text(estimate.high)}"


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
