"""From distances at rising budgets to a verdict: has the gap between groups settled?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fairmargin.core.arrays import Floats, Ints, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.metrics.adequacy import NOT_SETTLED, NOTHING, SETTLED, UNDECIDED, Adequacy, GroupAdequacy
from fairmargin.metrics.alarms import alarms_of
from fairmargin.metrics.results import TOO_FEW, Estimate
from fairmargin.metrics.settling_words import FEWEST, NOTHING_TO_SETTLE, group_finding, overall_finding

TOLERANCE = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """All that was measured on a sample of each group.

    Parameters
    ----------
    runs
        Distances of the same samples, one for each budget, least budget first.
    budgets
        What each budget is called.
    audited
        Which of them is the audit's.
    slopes, noise, unaided
        See `alarms_of`.
    """

    runs: tuple[Distances, ...]
    budgets: tuple[str, ...]
    audited: int
    slopes: Distances | None = None
    noise: Distances | None = None
    unaided: Distances | None = None

    def __post_init__(self) -> None:
        if len(self.runs) < 2 or len(self.runs) != len(self.budgets):
            raise InputError(
                f"Adequacy compares two or more budgets, each with a name; given {len(self.runs)} runs and "
                f"{len(self.budgets)} names."
            )
        if not 0 <= self.audited < len(self.runs):
            raise InputError(f"`audited` must be one of 0..{len(self.runs) - 1}; given {self.audited}.")
        first = self.runs[0]
        for run in (*self.runs, *(part for part in (self.slopes, self.noise, self.unaided) if part is not None)):
            if run.norm is not first.norm or run.subject != first.subject or len(run) != len(first):
                raise InputError(f"Budgets must be of the same samples in one norm: given {first!r} and {run!r}.")
            if not np.array_equal(run.correct, first.correct):
                raise InputError(
                    "The runs differ in which samples are classified correctly: they are not of one model on the same "
                    "samples."
                )
        if {run.bound for run in self.runs} != {first.bound}:
            raise InputError(
                f"Budgets must be of one kind; given {', '.join(sorted({run.bound.words for run in self.runs}))}."
            )

    def take(self, which: Ints) -> "Evidence":
        """The same of some samples."""
        others = (None if part is None else part.take(which) for part in (self.slopes, self.noise, self.unaided))
        return Evidence(tuple(run.take(which) for run in self.runs), self.budgets, self.audited, *others)


def nothing_to_settle(bound: Bound, norm: Norm, partition: str, estimator: str, tolerance: float) -> Adequacy:
    """For distances that no attack has found."""
    return Adequacy(
        partition=partition,
        estimator=estimator,
        budgets=(),
        audited=0,
        groups=(),
        verdict=NOTHING,
        finding=NOTHING_TO_SETTLE[bound],
        bound=bound,
        norm=norm,
        confidence=math.nan,
        tolerance=tolerance,
        up_to=math.inf,
    )


def settle(
    evidence: Evidence,
    partition: Partition,
    *,
    estimator: str = "",
    sizes: Ints | None = None,
    tolerance: float = TOLERANCE,
    confidence: float = 0.95,
    up_to: float = math.inf,
) -> Adequacy:
    """Whether more budget still moves the gap between groups, and which groups show signs of masked gradients.

    What the audit reports, σ at the audited budget, is compared with the best that all budgets together found, paired
    sample by sample: every input found is an upper bound whatever the budget, so that the least is the nearest to the
    truth. Settled: the interval of the change lies within the tolerance. Not settled: it lies outside. Else undecided.

    The interval is Student's, with the change of σ linearised in the groups' means, and is for that group alone; a
    group's rest weighs the other groups by their sizes, as the audit does.

    Parameters
    ----------
    evidence
        What was measured.
    partition
        The groups of the same samples.
    estimator
        How the distances were measured, in words.
    sizes
        How many samples each group of the partition has in all, where only some of them were measured.
    tolerance
        By how much σ may change.
    confidence
        Of the intervals.
    up_to
        Distances are averaged as min(distance, up_to). Where some are `inf` and no cap is given, the largest finite
        distance that any budget found.

    >>> runs = tuple(Distances([1.0 + s] * 20 + [2.0] * 20, [True] * 40, "upper", "l2") for s in (0.6, 0.5, 0.0))
    >>> group = Partition.by("sex", ["F"] * 20 + ["M"] * 20)
    >>> found = settle(Evidence(runs, ("25 steps", "50 steps", "100 steps"), audited=1), group)
    >>> found["F"].verdict, round(found["F"].sigma_change.value, 3)
    ('not settled', -0.25)
    """
    _check(tolerance, confidence, up_to)
    audited, at = evidence.runs[evidence.audited], evidence.audited
    same_length(distances=audited, partition=partition)
    if audited.bound is not Bound.UPPER:
        return nothing_to_settle(audited.bound, audited.norm, partition.name, estimator, tolerance)
    values = np.stack([run.values for run in evidence.runs])
    cap = _cap(values, up_to)
    alone = np.minimum(values, cap)
    best = np.minimum.accumulate(alone, axis=0)
    nearest = Distances(values.min(axis=0), audited.correct, Bound.UPPER, audited.norm, audited.subject)
    gaps = _Gaps(partition, _weights(partition.sizes if sizes is None else np.asarray(sizes)), confidence)
    rows = []
    for i, (label, members) in enumerate(partition):
        size = int(members.sum())
        sigmas, sigmas_alone = gaps.sigmas(i, best), gaps.sigmas(i, alone)
        change = gaps.change(i, alone[at], best[-1])
        mean_change = _relative_change(alone[at][members], best[-1][members], confidence)
        verdict = _verdict(size, change, tolerance)
        finding = group_finding(
            label,
            verdict,
            size=size,
            sigmas=(sigmas_alone[at], sigmas[-1]),
            sigma_change=change,
            mean_change=mean_change,
            budgets=(evidence.budgets[at], evidence.budgets[-1]),
            tolerance=tolerance,
            confidence=confidence,
        )
        alarms = alarms_of(
            members,
            audited,
            nearest,
            confidence,
            slopes=evidence.slopes,
            noise=evidence.noise,
            unaided=evidence.unaided,
        )
        rows.append(
            GroupAdequacy(
                group=label,
                size=size,
                means=tuple(_mean(run[members], confidence) for run in best),
                means_alone=tuple(map(float, alone[:, members].mean(axis=1))),
                sigmas=sigmas,
                sigmas_alone=sigmas_alone,
                mean_change=mean_change,
                sigma_change=change,
                last_change=gaps.change(i, best[-2], best[-1]),
                verdict=verdict,
                finding=finding,
                alarms=alarms,
            )
        )
    verdict = _overall([row.verdict for row in rows])
    return Adequacy(
        partition=partition.name,
        estimator=estimator,
        budgets=evidence.budgets,
        audited=at,
        groups=tuple(rows),
        verdict=verdict,
        finding=overall_finding(verdict, rows, tolerance),
        bound=Bound.UPPER,
        norm=audited.norm,
        confidence=confidence,
        tolerance=tolerance,
        up_to=cap,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Gaps:
    """Every group against its rest, made up of the others by their `weights` (groups × groups)."""

    partition: Partition
    weights: Floats
    confidence: float

    def sigmas(self, i: int, runs: Floats) -> tuple[float, ...]:
        """σ of group number `i` in each run."""
        return tuple(own / rest - 1 if rest > 0 else math.nan for own, rest in (self._sides(i, run) for run in runs))

    def change(self, i: int, before: Floats, after: Floats) -> Estimate:
        """How far σ moved, with its paired interval."""
        (own, rest), (own_after, rest_after) = self._sides(i, before), self._sides(i, after)
        if not (rest > 0 and rest_after > 0):
            why = "no sample outside the group" if len(self.partition.labels) == 1 else "the rest has distance 0"
            return Estimate.undefined(why, Bound.NEITHER)
        slope, slope_after = own / rest**2, own_after / rest_after**2
        parts = []
        for j in range(len(self.partition.labels)):
            members = self.partition.membership == j
            if j == i:
                parts.append(after[members] / rest_after - before[members] / rest)
            else:
                parts.append(-self.weights[i, j] * (slope_after * after[members] - slope * before[members]))
        return _interval(own_after / rest_after - own / rest, parts, self.confidence)

    def _sides(self, i: int, values: Floats) -> tuple[float, float]:
        sums = np.bincount(self.partition.membership, weights=values, minlength=len(self.partition.labels))
        means = sums / self.partition.sizes
        return float(means[i]), float(self.weights[i] @ means)


def _verdict(size: int, change: Estimate, tolerance: float) -> str:
    if size < FEWEST:
        return TOO_FEW
    if math.isnan(change.low) or math.isnan(change.high):
        return UNDECIDED
    if -tolerance <= change.low and change.high <= tolerance:
        return SETTLED
    return NOT_SETTLED if change.low > tolerance or change.high < -tolerance else UNDECIDED


def _overall(verdicts: Sequence[str]) -> str:
    judged = [verdict for verdict in verdicts if verdict != TOO_FEW]
    if not judged:
        return TOO_FEW
    return NOT_SETTLED if NOT_SETTLED in judged else UNDECIDED if UNDECIDED in judged else SETTLED


def _weights(sizes: Ints) -> Floats:
    others = np.where(np.eye(len(sizes), dtype=np.bool_), 0.0, sizes[None, :].astype(np.float64))
    total = others.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(others, total, out=np.zeros_like(others), where=total > 0))


def _interval(value: float, parts: Sequence[Floats], confidence: float) -> Estimate:
    """A statistic that varies with the means of independent parts of influences; Satterthwaite's degrees of freedom."""
    # Of a single sample the spread is not known: its whole influence stands for it.
    variances = [float(part.var(ddof=1) if len(part) > 1 else part[0] ** 2) / len(part) for part in parts]
    total = sum(variances)
    if total == 0:
        return Estimate(value, value, value, Bound.NEITHER)
    freedom = total**2 / sum(v**2 / max(len(part) - 1, 1) for v, part in zip(variances, parts, strict=True))
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(total)
    return Estimate(value, value - half, value + half, Bound.NEITHER)


def _mean(values: Floats, confidence: float) -> Estimate:
    if len(values) < 2:
        return Estimate(float(values.mean()), math.nan, math.nan, Bound.UPPER, "one sample has no spread")
    found = _interval(float(values.mean()), [values], confidence)
    return Estimate(found.value, max(found.low, 0.0), found.high, Bound.UPPER)


def _relative_change(before: Floats, after: Floats, confidence: float) -> Estimate:
    mean = float(before.mean())
    if mean == 0:
        return Estimate.undefined("every sample is misclassified", Bound.NEITHER)
    ratio = float(after.mean()) / mean
    return _interval(ratio - 1, [(after - ratio * before) / mean], confidence)


def _cap(values: Floats, up_to: float) -> float:
    if math.isfinite(up_to) or np.isfinite(values).all():
        return up_to
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def _check(tolerance: float, confidence: float, up_to: float) -> None:
    if not 0 < tolerance < math.inf:
        raise InputError(f"`tolerance` must be above 0, for instance 0.02; given {tolerance!r}.")
    if not 0.5 <= confidence < 1:
        raise InputError(f"`confidence` must lie in [0.5, 1), for instance 0.95; given {confidence!r}.")
    if not up_to > 0:
        raise InputError(f"`up_to` must be a radius above 0; given {up_to!r}.")
