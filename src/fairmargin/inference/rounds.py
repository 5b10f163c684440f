"""From a precision to samples, in rounds: a pilot, what it asks for, and more until the precision is reached.

To stop as soon as an interval is short favours samples whose spread happens to seem small, and these are the samples
that lack the far part of a group. Three precautions make up for that: the pilot is so large that it contains far
samples (`samples_needed`), groups share what they know of their largest deviations (`control_variate`), and rounds
are few, since each is planned to suffice and takes at least a fifth from the squared errors. docs/inference.md shows
how often the intervals are right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, Keys
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.allocation import Allocation, Errors, allocate, can_shrink, one_step_further
from fairmargin.inference.capping import common_cap
from fairmargin.inference.control_variate import (
    SAMPLES,
    Means,
    Pool,
    chances,
    control_variate_means,
    samples_needed,
    sizes_by,
)
from fairmargin.inference.log_contrast import Contrast, log_contrast

REFERENCE = -1
_SAFETY, _SAFETY_AGAIN = 1.15, 1.1  # by which variances may exceed what a pilot, or many samples, showed
_FEW_DECIDE = 30  # degrees of freedom below which a few samples carry a group's error

Ask = Callable[[int, Ints], Distances]  # an estimator (REFERENCE, or a candidate's position) on some samples


@dataclass(frozen=True, slots=True)
class Question:
    """What `PrecisionPlan` says with estimators. `costs`: of the candidates, then the reference."""

    precision: float
    confidence: float
    finite: bool
    pilot: int
    up_to: float
    costs: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Means and contrasts, the candidate that was preferred (None: the reference alone), and how many samples it took.

    `met` says which groups are as precise as asked. `asked` counts the samples that each candidate and, last, the
    reference measured, the pilot's included.
    """

    means: Means
    contrast: Contrast
    met: Bools
    cheap: int | None
    asked: tuple[int, ...]
    rounds: int
    up_to: float
    cap_reason: str
    reference: Distances


class _Asked:
    """What is known so far of every sample; asks only for what is not."""

    def __init__(self, ask: Ask, samples: int, candidates: int) -> None:
        self.ask = ask
        self.values = np.full((candidates + 1, samples), np.nan)
        self.correct = np.zeros(samples, dtype=np.bool_)
        self.parts: list[tuple[Ints, Distances]] = []

    def of(self, which: int, rows: Ints) -> None:
        """Measure those of the samples that this estimator has not measured yet, in the order of the samples."""
        missing = np.sort(rows[np.isnan(self.values[which, rows])])
        if not missing.size:
            return
        found = self.ask(which, missing)
        self.values[which, missing] = found.values
        self.correct[missing] = found.correct
        if which == REFERENCE:
            self.parts.append((missing, found))

    @property
    def reference(self) -> Distances:
        """All that the reference measured."""
        first = self.parts[0][1]
        tried = [np.full(len(p), np.nan) if p.tried is None else p.tried for _, p in self.parts]
        return Distances(
            np.concatenate([p.values for _, p in self.parts]), np.concatenate([p.correct for _, p in self.parts]),
            first.bound, first.norm, first.subject,
            None if all(p.tried is None for _, p in self.parts) else np.concatenate(tried), first.estimator, first.keep,
        )  # fmt: skip


def to_precision(ask: Ask, partition: Partition, keys: Keys, question: Question) -> Answer:
    """Estimate every group's mean distance and σ as precisely as asked, or as the samples allow.

    Guarantee: which samples are asked about depends on their keys and on what was found, not on their order.

    Parameters
    ----------
    ask
        Measures samples by an estimator: the position of a candidate, or `REFERENCE`.
    partition, keys
        The groups, and a random number for each sample, by which they are drawn.
    question
        What is asked.
    """
    return _Audit(ask, partition, keys, question).run()


class _Audit:
    """The rounds of one audit."""

    def __init__(self, ask: Ask, partition: Partition, keys: Keys, question: Question) -> None:
        self.question, self.sizes, self.group = question, partition.sizes, partition.membership
        self.candidates = len(question.costs) - 1
        self.asked = _Asked(ask, len(partition), self.candidates)
        # Each group's samples in one random order for all rounds: a longer draw contains a shorter one.
        self.lines = [own[np.argsort(keys[own], kind="stable")] for own in (np.flatnonzero(m) for _, m in partition)]
        self.needed = samples_needed(partition.sizes, finite=question.finite)
        self.pilots: list[Ints] = []  # of each group, those that all estimators measure first

    def run(self) -> Answer:
        """Draw a pilot, plan and draw, repeated while a group is not known well enough and has useful samples left."""
        rows = self._pilot()
        shown: dict[int | None, Means] = {k: self._evaluated(k, rows)[0] for k in range(self.candidates)}
        shown[None] = shown[0] if shown else self._evaluated(None, rows)[0]
        plans = {k: self._planned(k, means) for k, means in shown.items()}
        cheap = min(plans, key=lambda k: (plans[k].cost, k is not None))
        by_size = _worth_sizing(shown[cheap]) if cheap is not None else np.zeros(len(rows), dtype=np.bool_)
        pilot = Allocation(np.array(list(map(len, self.pilots))), np.array(list(map(len, rows))), 0.0)
        plan, rounds = plans[cheap].at_least(pilot), 2
        means, contrast = self._drawn(cheap, plan, by_size)
        while True:
            again = self._further(cheap, plan, means, contrast)
            if not again.exceeds(plan):
                break
            plan, rounds = again, rounds + 1
            means, contrast = self._drawn(cheap, plan, by_size)
        counts = tuple(int((~np.isnan(row)).sum()) for row in self.asked.values)
        reference = self.asked.reference
        met = (self.sizes >= self.needed) & self._short(means, contrast)
        if not self.question.finite and self.sizes.sum() < SAMPLES:
            contrast = contrast.without_limits()
        return Answer(
            means, contrast, met, cheap, counts, rounds, *common_cap(reference, self.question.up_to), reference
        )  # fmt: skip

    def _short(self, means: Means, contrast: Contrast) -> Bools:
        """Return which intervals are as short as asked, and not by chance.

        Samples that lack their far part have a low mean, and the interval of a low σ is short. Where a few samples
        carry the error of a group, or of σ, the interval must therefore be short relative to 1 + σ too.
        """
        width, scale = contrast.half_width, np.ones(len(self.sizes))
        if not self.question.finite and len(scale) > 1:
            freedom = np.fmin(means.freedom, contrast.against_rest.freedom)
            scale = np.where(freedom < _FEW_DECIDE, np.fmin(1.0, 1 + contrast.sigma), 1.0)
        return np.asarray(width <= self.question.precision * scale)

    def _further(self, cheap: int | None, plan: Allocation, means: Means, contrast: Contrast) -> Allocation:
        """Return the next round; the same as before where no group needs more, or no sample is left that would help."""
        unmet = ~self._short(means, contrast) & np.isfinite(contrast.half_width)
        errors = self._errors(cheap, means)
        left = can_shrink(errors, plan)
        # Where a group's own samples are used up, those of its rest can help, unless its own error is too large.
        by_rest = unmet & ~left & (contrast.own_half_width < self.question.precision)
        wanted = left & (unmet | (by_rest.sum() - by_rest > 0))
        if not wanted.any():
            return plan
        planned = self._planned(cheap, means, _SAFETY_AGAIN)
        return planned.at_least(one_step_further(errors, plan, wanted, self._costs(cheap)))

    def _pilot(self) -> list[Ints]:
        """Return the first samples of each line, until enough are known and correct; all estimators measure these."""
        most, needed = self.question.pilot, np.ceil(self.needed).astype(np.int64)
        ends = np.minimum(self.sizes, np.maximum(most, needed))
        while True:
            starts = [line[:end] for line, end in zip(self.lines, ends, strict=True)]
            self.asked.of(0 if self.candidates else REFERENCE, np.concatenate(starts))
            places = [np.flatnonzero(self.asked.correct[start])[:most] for start in starts]
            lacking = np.array([len(place) < most for place in places]) & (ends < self.sizes)
            if not lacking.any():
                break
            ends = np.where(lacking, np.minimum(self.sizes, 2 * ends), ends)
        starts = [
            start if len(place) < most else start[: max(place[-1] + 1, least)]
            for start, place, least in zip(starts, places, needed, strict=True)
        ]
        self.pilots = [start[self.asked.correct[start]] for start in starts]
        first = np.concatenate(self.pilots)
        for which in [*range(self.candidates), REFERENCE]:
            self.asked.of(which, first if first.size else np.concatenate(starts))  # nobody is right: 0 for all
        return starts

    def _errors(self, cheap: int | None, means: Means) -> Errors:
        of = Errors.of_reference_alone if cheap is None else Errors.of
        return of(means, self.sizes, finite=self.question.finite)

    def _costs(self, cheap: int | None) -> tuple[float, float]:
        costs = self.question.costs
        return 0.0 if cheap is None else costs[cheap], costs[REFERENCE]

    def _planned(self, cheap: int | None, means: Means, safety: float = _SAFETY) -> Allocation:
        question = self.question
        least = np.array([len(pilot) for pilot in self.pilots])
        if cheap is None:
            least = np.minimum(self.sizes, np.maximum(question.pilot, np.ceil(self.needed).astype(np.int64)))
        return allocate(
            self._errors(cheap, means), precision=question.precision, confidence=question.confidence,
            finite=question.finite, costs=self._costs(cheap), least=least, safety=safety,
        )  # fmt: skip

    def _drawn(self, cheap: int | None, plan: Allocation, by_size: Bools) -> tuple[Means, Contrast]:
        """Measure as planned; what the group means are then."""
        if cheap is None:
            return self._drawn_alone(plan)
        rows = [line[:end] for line, end in zip(self.lines, plan.pool, strict=True)]
        self.asked.of(cheap, np.concatenate(rows))
        chance = np.ones(len(self.group))
        wanted = []
        for own, count, pilot, sized in zip(rows, plan.reference, self.pilots, by_size, strict=True):
            right = own[self.asked.correct[own]]
            size = sizes_by(self.asked.values[cheap, right]) if sized else np.ones(len(right))
            chance[right] = chances(size, int(count), min(1.0, len(pilot) / max(1, len(right))))
            # In the random order, the k-th of K stands for the number k/K: drawn is who has less than its chance. The
            # pilot, the first of the order, is among them: nobody's chance is less than theirs.
            place = (np.arange(len(right)) + 0.5) / max(1, len(right))
            wanted += [right[np.argsort(place / chance[right], kind="stable")[:count]], pilot]
        self.asked.of(REFERENCE, np.concatenate(wanted))
        return self._evaluated(cheap, rows, chance)

    def _drawn_alone(self, plan: Allocation) -> tuple[Means, Contrast]:
        """Draw a plain random part of each group, in which the pilot lies if it can."""
        chance, wanted = np.ones(len(self.group)), []
        for line, count, pilot in zip(self.lines, plan.reference, self.pilots, strict=True):
            last = int(np.flatnonzero(np.isin(line, pilot))[-1]) + 1 if len(pilot) else 0
            drawn = line[: max(int(count), last)]
            chance[line] = len(drawn) / len(line)
            wanted.append(drawn)
        self.asked.of(REFERENCE, np.concatenate(wanted))
        return self._evaluated(None, self.lines, chance)

    def _evaluated(
        self, cheap: int | None, rows: Sequence[Ints], chance: Floats | None = None
    ) -> tuple[Means, Contrast]:
        """Return the means from what is known of these samples; without chances, as if they were all there is."""
        at = np.concatenate(rows)
        up_to, _ = common_cap(self.asked.reference, self.question.up_to)
        reference = np.minimum(self.asked.values[REFERENCE, at], up_to)
        correct, value, size = self.asked.correct[at], np.zeros(len(at)), np.ones(len(at))
        if cheap is None:  # nothing is known but what the reference says
            correct = np.ones(len(at), dtype=np.bool_)
            if chance is None:
                reference = np.where(self.asked.correct[at], reference, 0.0)
        else:
            value = self.asked.values[cheap, at]
            for g in range(len(rows)):
                own = (self.group[at] == g) & correct
                size[own] = sizes_by(value[own])
        everyone = np.ones(len(at)) if chance is None else chance[at]
        pool = Pool(self.group[at], self.sizes, correct, value, reference, everyone, size)
        finite = self.question.finite
        means = control_variate_means(pool, finite=finite)
        contrast = log_contrast(
            means.mean,
            means.error2,
            means.third,
            means.freedom,
            self.sizes,
            finite=finite,
            confidence=self.question.confidence,
        )
        return means, contrast


def _worth_sizing(means: Means) -> Bools:
    """Return whether larger samples are drawn more often, judged half by the group and half by what is usual."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log(means.sized2 / means.equal2)
    seen = np.isfinite(gain)
    usual = float(gain[seen].mean()) if seen.any() else 0.0
    return np.asarray(np.where(seen, gain + usual, usual) < 0)
