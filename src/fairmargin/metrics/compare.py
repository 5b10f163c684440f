"""Two models on the same samples: which groups gained, which lost, and did the gap close?

Each sample is its own control, so that differences far smaller than the spread of the distances can be seen.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairmargin.core.arrays import Bools, Floats, Ints, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.metrics.audit import common_cap
from fairmargin.metrics.bootstrap import Limits, interval
from fairmargin.metrics.capping import forced_cut, within_cap
from fairmargin.metrics.contrast import is_testable
from fairmargin.metrics.crossing import ClusterSums, cluster_sums, freedom_of, resampled_weights, spread_of
from fairmargin.metrics.permutation import holm, permutations_needed, sequential_test
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.results import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, TOO_FEW, Estimate, encode, radius_words


@dataclass(frozen=True, slots=True)
class GroupChange:
    """One group before and after."""

    group: str
    size: int
    before: float  # Rob(P)
    after: float
    change: Estimate  # after − before
    p: float
    p_adjusted: float
    sigma_before: float
    sigma_after: float
    sigma_change: Estimate
    sigma_p: float
    sigma_p_adjusted: float
    verdict: str  # of the change of Rob(P)
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
            rows.append(columns)
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
    """Paired inference for two models on the same samples.

    Rob(P) after minus before, and σ(P) after minus before, with bootstrap-t intervals of paired samples (or clusters)
    and sign-flip tests, corrected by Holm over the groups.

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
    same_length(before=before, after=after, partition=partition)
    _check_alike(before, after)
    up_to, reason = _cap_of_both(before, after, chosen.up_to)
    cluster = chosen.cluster_codes(len(before))
    units = np.arange(len(before)) if cluster is None else cluster
    old, new = (cluster_sums(np.minimum(d.values, up_to), partition, None, units) for d in (before, after))
    tested = _testable(old, chosen)
    paired = _Paired(old, new, tested, chosen)
    cut = forced_cut([before, after], partition, up_to, chosen.up_to)
    rows = within_cap(paired.rows(partition, before.bound, after.bound), cut)
    return Comparison(
        partition.name,
        rows,
        before.bound,
        after.bound,
        before.norm,
        before.subject,
        chosen.confidence,
        up_to,
        reason,
        (*filter(None, [cut.warning]), *_warnings(before.bound, after.bound)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Paired:
    """Both models' sums over the same units."""

    old: ClusterSums
    new: ClusterSums
    tested: Bools
    plan: AuditPlan

    def rows(self, partition: Partition, bound_before: Bound, bound_after: Bound) -> tuple[GroupChange, ...]:
        mix = np.ones((len(partition.labels), 1))
        one = np.ones((1, len(self.old.samples)))
        (old_own,), (old_rest,) = self.old.means(one, mix)
        (new_own,), (new_rest,) = self.new.means(one, mix)
        change_influence, sigma_influence = self._influences(mix)
        change_limits, sigma_limits = self._limits(mix, change_influence, sigma_influence)
        with np.errstate(divide="ignore", invalid="ignore"):
            sigma_before, sigma_after = old_own / old_rest - 1, new_own / new_rest - 1
            sigma_gap = _without_dust(np.abs(sigma_after - sigma_before))
        p = self._flip(self._contributions(), np.abs(new_own - old_own), seed=0)
        sigma_p = self._flip(sigma_influence, sigma_gap, seed=1)
        adjusted, sigma_adjusted = holm(p), holm(sigma_p, 1 if len(p) == 2 else None)
        units = _units(self.old)
        rows = []
        for i, label in enumerate(partition.labels):
            change = new_own[i] - old_own[i]
            verdict = _verdict(bool(self.tested[i]), float(adjusted[i]), float(change), self.plan)
            estimate = _estimate(float(change), change_limits, i, bound_after - bound_before, alone=units[i] < 2)
            sigma_bound = bound_after / bound_after - bound_before / bound_before
            if np.isfinite(sigma_gap[i]):
                sigma_change = float(np.copysign(sigma_gap[i], sigma_after[i] - sigma_before[i])) + 0.0
                sigma = _estimate(sigma_change, sigma_limits, i, sigma_bound, alone=units[i] < 2)
            else:
                sigma = Estimate.undefined("the rest has robustness 0 before or after", sigma_bound)
            rows.append(
                GroupChange(
                    group=label,
                    size=int(partition.sizes[i]),
                    before=float(old_own[i]),
                    after=float(new_own[i]),
                    change=estimate,
                    p=float(p[i]),
                    p_adjusted=float(adjusted[i]),
                    sigma_before=float(sigma_before[i]),
                    sigma_after=float(sigma_after[i]),
                    sigma_change=sigma,
                    sigma_p=float(sigma_p[i]),
                    sigma_p_adjusted=float(sigma_adjusted[i]),
                    verdict=verdict,
                    finding=_finding(label, verdict, estimate, sigma, float(adjusted[i]), self.plan),
                )
            )
        return tuple(rows)

    def _influences(self, mix: Floats) -> tuple[Floats, Floats]:
        """What each unit adds to the deviation of the change of Rob(P), and of σ(P)."""
        one = np.ones((1, len(self.old.samples)))
        relative = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for sums in (self.old, self.new):
                (own,), (rest,) = sums.means(one, mix)
                left, right = sums.influence(mix)
                relative.append((own / rest) * (left / own - right / rest))
        return self.new.influence(mix)[0] - self.old.influence(mix)[0], np.nan_to_num(relative[1] - relative[0])

    def _contributions(self) -> Floats:
        """What each unit adds to after − before itself; swapping the two models flips its sign."""
        total = (self.new.total - self.old.total)[..., 0]
        return np.asarray(total / self.old.samples[..., 0].sum(axis=0))

    def _limits(self, mix: Floats, change: Floats, sigma: Floats) -> tuple[Limits, Limits]:
        one = np.ones((1, len(self.old.samples)))
        observed = self._changes(one, mix)
        errors = [np.sqrt(spread_of(one, part, part))[0] for part in (change, sigma)]
        deviations: list[list[Floats]] = [[], []]
        for weights in resampled_weights(len(self.old.samples), self.plan):
            drawn = self._changes(weights, mix)
            for k, part in enumerate((change, sigma)):
                with np.errstate(divide="ignore", invalid="ignore"):
                    error = np.sqrt(np.maximum(spread_of(weights, part, part), 0))
                    deviations[k].append((drawn[k] - observed[k][0]) / error)
        limits = [
            interval(observed[k][0], errors[k], np.concatenate(deviations[k]), freedom_of(part), self.plan.confidence)
            for k, part in enumerate((change, sigma))
        ]
        return limits[0], limits[1]

    def _changes(self, weights: Floats, mix: Floats) -> tuple[Floats, Floats]:
        """After − before of Rob(P) and of σ(P), for each draw."""
        old_own, old_rest = self.old.means(weights, mix)
        new_own, new_rest = self.new.means(weights, mix)
        with np.errstate(divide="ignore", invalid="ignore"):
            return new_own - old_own, new_own / new_rest - old_own / old_rest

    def _flip(self, scores: Floats, observed: Floats, seed: int) -> Floats:
        """How often flipping the signs of whole units gives a sum as large as observed."""

        def statistics(groups: Ints, rows: int, stream: np.random.Generator) -> Floats:
            flips = stream.integers(0, 2, (rows, len(scores))) * 2.0 - 1
            return np.asarray(np.abs(flips @ scores[:, groups]))

        defined = self.tested & np.isfinite(observed)
        most = permutations_needed(int(max(defined.sum(), 1)), self.plan.alpha, len(scores))
        test = sequential_test(
            observed, statistics, defined, most=most, units=len(scores), seed=2 * self.plan.seed + seed
        )
        return test.p


def _units(sums: ClusterSums) -> Floats:
    """Independent samples or clusters of each group."""
    return np.asarray((sums.samples[..., 0] > 0).sum(axis=0), dtype=np.float64)


def _testable(sums: ClusterSums, plan: AuditPlan) -> Bools:
    units = _units(sums)
    return is_testable(units, np.full_like(units, np.inf), np.zeros_like(units), plan)


def _check_alike(before: Distances, after: Distances) -> None:
    for what, left, right in (("norm", before.norm, after.norm), ("subject", before.subject, after.subject)):
        if left != right:
            raise InputError(f"`before` and `after` must have one {what}; given {left} and {right}.")


def _cap_of_both(before: Distances, after: Distances, up_to: float) -> tuple[float, str]:
    caps = [common_cap(d, up_to) for d in (before, after)]
    return min(caps, key=lambda cap: cap[0])


def _verdict(tested: bool, adjusted: float, change: float, plan: AuditPlan) -> str:
    if not tested:
        return TOO_FEW
    if adjusted < plan.alpha:
        return MORE_ROBUST if change > 0 else LESS_ROBUST
    return NO_DIFFERENCE


def _estimate(value: float, limits: Limits, i: int, bound: Bound, *, alone: bool) -> Estimate:
    if alone:
        return Estimate(value, math.nan, math.nan, bound, "a single sample has no interval")
    low, high = (float(_without_dust(limit[i])) for limit in (limits.low, limits.high))
    return Estimate(value, low, high, bound)


def _without_dust(values: Floats) -> Floats:
    """What rounding leaves of a change that is none is no change."""
    return np.where(np.abs(values) < 1e-12, 0.0, values)


def _finding(label: str, verdict: str, change: Estimate, sigma: Estimate, adjusted: float, plan: AuditPlan) -> str:
    if verdict == TOO_FEW:
        return f"{label}: too few samples ({plan.smallest_group} are needed for a verdict)."
    p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.3f}"
    words = {NO_DIFFERENCE: "no significant change"}.get(verdict, f"{verdict} than before")
    return (
        f"{label}: {words} (mean distance {change.value:+.4g}, {plan.confidence:.0%} interval {change.low:+.4g} to "
        f"{change.high:+.4g}; {p}); σ changed by {sigma}."
    )


def _warnings(before: Bound, after: Bound) -> tuple[str, ...]:
    if before is after is Bound.EXACT:
        return ()
    return (
        f"Before: {before.words}. After: {after.words}. A change between numbers that are not exact can come from the "
        "estimator as well as from the model.",
    )
