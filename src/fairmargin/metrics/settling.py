"""From distances at rising budgets to a verdict: has the gap between groups settled?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from fairmargin.core.arrays import Floats, Ints, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.metrics.adequacy import NOT_SETTLED, NOTHING, SETTLED, UNDECIDED, Adequacy, GroupAdequacy
from fairmargin.metrics.alarms import alarms_of
from fairmargin.metrics.paired_gaps import PairedGaps, mean_of, relative_change, rest_weights
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
    slopes, noise, unaided, others
        See `alarms_of`.
    """

    runs: tuple[Distances, ...]
    budgets: tuple[str, ...]
    audited: int
    slopes: Distances | None = None
    noise: Distances | None = None
    unaided: Distances | None = None
    others: Distances | None = None

    def __post_init__(self) -> None:
        if len(self.runs) < 2 or len(self.runs) != len(self.budgets):
            raise InputError(
                f"Adequacy compares two or more budgets, each with a name; given {len(self.runs)} runs and "
                f"{len(self.budgets)} names."
            )
        if not 0 <= self.audited < len(self.runs):
            raise InputError(f"`audited` must be one of 0..{len(self.runs) - 1}; given {self.audited}.")
        first = self.runs[0]
        for run in (*self.runs, *self.looks.values()):
            asked, expected = ((each.norm, each.subject, each.keep, len(each)) for each in (run, first))
            if asked != expected:
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

    @property
    def looks(self) -> dict[str, Distances]:
        """What was measured beside the budgets, by name."""
        every = {"slopes": self.slopes, "noise": self.noise, "unaided": self.unaided, "others": self.others}
        return {name: look for name, look in every.items() if look is not None}

    def take(self, which: Ints) -> "Evidence":
        """The same of some samples."""
        looks = {name: look.take(which) for name, look in self.looks.items()}
        return Evidence(tuple(run.take(which) for run in self.runs), self.budgets, self.audited, **looks)


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
    """Whether more steps of an attack still move the gap between groups, and for which groups alarms are raised.

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
    check_settings(tolerance, confidence, up_to)
    audited = evidence.runs[evidence.audited]
    same_length(distances=audited, partition=partition)
    if audited.bound is not Bound.UPPER:
        return nothing_to_settle(audited.bound, audited.norm, partition.name, estimator, tolerance)
    total = partition.sizes if sizes is None else np.asarray(sizes)
    found = _Found.of(evidence, up_to)
    gaps = PairedGaps(partition, rest_weights(total), confidence)
    rows = [_row(i, int(of), found, gaps, evidence, tolerance) for i, of in enumerate(total)]
    verdict = _overall([row.verdict for row in rows])
    return Adequacy(
        partition=partition.name,
        estimator=estimator,
        budgets=evidence.budgets,
        audited=evidence.audited,
        groups=tuple(rows),
        verdict=verdict,
        finding=overall_finding(verdict, rows, evidence.budgets, tolerance),
        bound=Bound.UPPER,
        norm=audited.norm,
        confidence=confidence,
        tolerance=tolerance,
        up_to=found.cap,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What each budget found alone, and the best up to each (budgets × samples), capped; and the best of all, not."""

    alone: Floats
    best: Floats
    cap: float
    nearest: Distances

    @classmethod
    def of(cls, evidence: Evidence, up_to: float) -> "_Found":
        values, audited = np.stack([run.values for run in evidence.runs]), evidence.runs[evidence.audited]
        cap = _cap(values, up_to)
        alone = np.minimum(values, cap)
        nearest = replace(audited, values=values.min(axis=0), bound=Bound.UPPER, tried=None, estimator="")
        return cls(alone, np.minimum.accumulate(alone, axis=0), cap, nearest)


def _row(i: int, of: int, found: _Found, gaps: PairedGaps, evidence: Evidence, tolerance: float) -> GroupAdequacy:
    """Group number `i` under a rising budget, of whose `of` samples some were looked at."""
    members, at, confidence = gaps.partition.membership == i, evidence.audited, gaps.confidence
    label, size, audited = gaps.partition.labels[i], int(members.sum()), evidence.runs[evidence.audited]
    sigmas, sigmas_alone = gaps.sigmas(i, found.best), gaps.sigmas(i, found.alone)
    change = gaps.change(i, found.alone[at], found.best[-1])
    mean_change = relative_change(found.alone[at][members], found.best[-1][members], confidence)
    verdict = _verdict(size, len(members) - size, change, tolerance)
    return GroupAdequacy(
        group=label,
        size=size,
        of=of,
        distances=tuple(map(float, np.sort(audited.values[members]))),
        means=tuple(mean_of(run[members], confidence) for run in found.best),
        means_alone=tuple(map(float, found.alone[:, members].mean(axis=1))),
        sigmas=sigmas,
        sigmas_alone=sigmas_alone,
        mean_change=mean_change,
        sigma_change=change,
        last_change=gaps.change(i, found.best[-2], found.best[-1]),
        verdict=verdict,
        finding=group_finding(
            label,
            verdict,
            size=size,
            rest=len(members) - size,
            sigmas=(sigmas_alone[at], sigmas[-1]),
            sigma_change=change,
            mean_change=mean_change,
            budgets=(evidence.budgets[at], evidence.budgets[-1]),
            tolerance=tolerance,
            confidence=confidence,
        ),
        alarms=alarms_of(members, audited, found.nearest, confidence, **evidence.looks),
    )


def _verdict(size: int, rest: int, change: Estimate, tolerance: float) -> str:
    if size < FEWEST or 0 < rest < FEWEST:  # without any rest there is no gap, however many samples are looked at
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


def _cap(values: Floats, up_to: float) -> float:
    if math.isfinite(up_to) or np.isfinite(values).all():
        return up_to
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def check_settings(tolerance: float, confidence: float, up_to: float) -> None:
    """Refuse what `settle` cannot work with, before anything is measured for it."""
    for name, value in (("tolerance", tolerance), ("confidence", confidence), ("up_to", up_to)):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InputError(f"`{name}` must be a number; given {value!r}.")
    if not 0 < tolerance < math.inf:
        raise InputError(f"`tolerance` must be above 0, for instance 0.02; given {tolerance!r}.")
    if not 0.5 <= confidence < 1:
        raise InputError(f"`confidence` must lie in [0.5, 1), for instance 0.95; given {confidence!r}.")
    if not up_to > 0:
        raise InputError(f"`up_to` must be a radius above 0; given {up_to!r}.")
