"""Measure samples in rounds until σ of every group is as precise as requested: a pilot, a plan, and further rounds.

Stopping as soon as an interval is short favours samples whose spread happens to be small, which are those that lack the
far part of a group. There are three precautions: the pilot is so large that it contains far samples
(`samples_needed`), groups share their largest deviations (`control_variate`), and there are few rounds, because each
plan aims at the requested precision and reduces the squared errors by at least a fifth. docs/inference.md shows how
often the intervals contain the truth.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, Keys
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.capping import common_cap
from fairmargin.inference.precision.allocation import Allocation, Errors, allocate, can_shrink, one_step_further
from fairmargin.inference.precision.control_variate import (
    SAMPLES,
    Means,
    Pool,
    chances,
    control_variate_means,
    samples_needed,
    sizes_by,
)
from fairmargin.inference.precision.log_contrast import LogContrast, log_contrast

REFERENCE = -1
_SAFETY, _SAFETY_AGAIN = 1.15, 1.1  # factors by which variances may exceed estimates from the pilot, and later ones
_FEW_DECIDE = 30  # with fewer degrees of freedom, a few samples determine the error of a group

Measure = Callable[[int, Ints], Distances]  # (estimator: REFERENCE or position of a candidate; samples) -> distances


@dataclass(frozen=True, slots=True)
class PrecisionTarget:
    """Requested precision, and the costs of the estimators.

    Parameters
    ----------
    precision, confidence
        Half the width of every group's interval of σ, and its confidence.
    finite
        Whether the target is the mean over the existing samples instead of the population.
    pilot
        Number of correct samples of each group that all estimators measure first.
    up_to
        Radius at which distances are capped.
    costs
        Cost of one sample for each candidate (a cheap estimator) and, last, for the reference.
    """

    precision: float
    confidence: float
    finite: bool
    pilot: int
    up_to: float
    costs: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PrecisionOutcome:
    """Means and contrasts of all groups, and what it took to measure them.

    Parameters
    ----------
    means, contrast
        Mean of each group, and its comparison with the rest.
    met
        Whether each group is as precise as requested.
    cheap
        Position of the candidate that was used; None if the reference was used alone.
    counts
        Number of samples that each candidate and, last, the reference measured, including the pilot.
    rounds
        Number of rounds, including the pilot.
    up_to, cap_reason
        Radius at which distances were capped, and why.
    reference
        All distances measured by the reference.
    """

    means: Means
    contrast: LogContrast
    met: Bools
    cheap: int | None
    counts: tuple[int, ...]
    rounds: int
    up_to: float
    cap_reason: str
    reference: Distances


class _Measured:
    """Distances measured so far. No sample is measured twice by the same estimator."""

    def __init__(self, measure: Measure, samples: int, candidates: int) -> None:
        self.measure = measure
        self.values = np.full((candidates + 1, samples), np.nan)
        self.correct = np.zeros(samples, dtype=np.bool_)
        self.parts: list[tuple[Ints, Distances]] = []

    def add(self, which: int, rows: Ints) -> None:
        """Measure the samples that this estimator has not measured yet."""
        missing = np.sort(rows[np.isnan(self.values[which, rows])])
        if not missing.size:
            return
        found = self.measure(which, missing)
        self.values[which, missing] = found.values
        self.correct[missing] = found.correct
        if which == REFERENCE:
            self.parts.append((missing, found))

    @property
    def reference(self) -> Distances:
        """All distances measured by the reference."""
        first = self.parts[0][1]
        tried = [np.full(len(p), np.nan) if p.tried is None else p.tried for _, p in self.parts]
        return Distances(
            np.concatenate([p.values for _, p in self.parts]), np.concatenate([p.correct for _, p in self.parts]),
            first.bound, first.norm, first.subject,
            None if all(p.tried is None for _, p in self.parts) else np.concatenate(tried), first.estimator, first.keep,
        )  # fmt: skip


def to_precision(measure: Measure, partition: Partition, keys: Keys, target: PrecisionTarget) -> PrecisionOutcome:
    """Estimate every group's mean distance and σ with the requested precision, or as precisely as the samples allow.

    Guarantee: the samples that are measured depend on their keys and on their distances, not on their order.

    Parameters
    ----------
    measure
        Function that measures samples by an estimator, given as the position of a candidate or as `REFERENCE`.
    partition, keys
        The groups, and one random number per sample, by which samples are drawn.
    target
        The requested precision and the costs.
    """
    return _Audit(measure, partition, keys, target).run()


class _Audit:
    """The rounds of one audit."""

    def __init__(self, measure: Measure, partition: Partition, keys: Keys, target: PrecisionTarget) -> None:
        self.target, self.sizes, self.group = target, partition.sizes, partition.membership
        self.candidates = len(target.costs) - 1
        self.measured = _Measured(measure, len(partition), self.candidates)
        # All rounds use the same random order of each group's samples, so that a longer draw contains a shorter one.
        self.lines = [own[np.argsort(keys[own], kind="stable")] for own in (np.flatnonzero(m) for _, m in partition)]
        self.needed = samples_needed(partition.sizes, finite=target.finite)
        self.pilots: list[Ints] = []  # samples of each group that all estimators measure first

    def run(self) -> PrecisionOutcome:
        """Measure a pilot, then plan and measure until every group is precise or has no useful samples left."""
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
        counts = tuple(int((~np.isnan(row)).sum()) for row in self.measured.values)
        reference = self.measured.reference
        met = (self.sizes >= self.needed) & self._short(means, contrast)
        if not self.target.finite and self.sizes.sum() < SAMPLES:
            contrast = contrast.without_limits()
        return PrecisionOutcome(
            means, contrast, met, cheap, counts, rounds, *common_cap(reference, self.target.up_to), reference
        )  # fmt: skip

    def _short(self, means: Means, contrast: LogContrast) -> Bools:
        """Return which intervals are as short as requested, and not by chance.

        Samples that lack the far part of their group have a low mean, and the interval of a low σ is short. If a few
        samples determine the error of a group or of σ, the interval must therefore be short relative to 1 + σ too.
        """
        width, scale = contrast.half_width, np.ones(len(self.sizes))
        if not self.target.finite and len(scale) > 1:
            freedom = np.fmin(means.freedom, contrast.against_rest.freedom)
            scale = np.where(freedom < _FEW_DECIDE, np.fmin(1.0, 1 + contrast.sigma), 1.0)
        return np.asarray(width <= self.target.precision * scale)

    def _further(self, cheap: int | None, plan: Allocation, means: Means, contrast: LogContrast) -> Allocation:
        """Return the plan of the next round; the same plan if no group needs more or no further sample would help."""
        unmet = ~self._short(means, contrast) & np.isfinite(contrast.half_width)
        errors = self._errors(cheap, means)
        left = can_shrink(errors, plan)
        # If a group's own samples are used up, those of its rest can help, unless its own error is too large.
        by_rest = unmet & ~left & (contrast.own_half_width < self.target.precision)
        wanted = left & (unmet | (by_rest.sum() - by_rest > 0))
        if not wanted.any():
            return plan
        planned = self._planned(cheap, means, _SAFETY_AGAIN)
        return planned.at_least(one_step_further(errors, plan, wanted, self._costs(cheap)))

    def _pilot(self) -> list[Ints]:
        """Measure the first samples of each group by all estimators, until enough of them are correct."""
        most, needed = self.target.pilot, np.ceil(self.needed).astype(np.int64)
        ends = np.minimum(self.sizes, np.maximum(most, needed))
        while True:
            starts = [line[:end] for line, end in zip(self.lines, ends, strict=True)]
            self.measured.add(0 if self.candidates else REFERENCE, np.concatenate(starts))
            places = [np.flatnonzero(self.measured.correct[start])[:most] for start in starts]
            lacking = np.array([len(place) < most for place in places]) & (ends < self.sizes)
            if not lacking.any():
                break
            ends = np.where(lacking, np.minimum(self.sizes, 2 * ends), ends)
        starts = [
            start if len(place) < most else start[: max(place[-1] + 1, least)]
            for start, place, least in zip(starts, places, needed, strict=True)
        ]
        self.pilots = [start[self.measured.correct[start]] for start in starts]
        first = np.concatenate(self.pilots)
        for which in [*range(self.candidates), REFERENCE]:
            self.measured.add(which, first if first.size else np.concatenate(starts))  # without correct samples, all 0
        return starts

    def _errors(self, cheap: int | None, means: Means) -> Errors:
        of = Errors.of_reference_alone if cheap is None else Errors.of
        return of(means, self.sizes, finite=self.target.finite)

    def _costs(self, cheap: int | None) -> tuple[float, float]:
        costs = self.target.costs
        return 0.0 if cheap is None else costs[cheap], costs[REFERENCE]

    def _planned(self, cheap: int | None, means: Means, safety: float = _SAFETY) -> Allocation:
        target = self.target
        least = np.array([len(pilot) for pilot in self.pilots])
        if cheap is None:
            least = np.minimum(self.sizes, np.maximum(target.pilot, np.ceil(self.needed).astype(np.int64)))
        return allocate(
            self._errors(cheap, means), precision=target.precision, confidence=target.confidence,
            finite=target.finite, costs=self._costs(cheap), least=least, safety=safety,
        )  # fmt: skip

    def _drawn(self, cheap: int | None, plan: Allocation, by_size: Bools) -> tuple[Means, LogContrast]:
        """Measure the planned samples and return the new estimates."""
        if cheap is None:
            return self._drawn_alone(plan)
        rows = [line[:end] for line, end in zip(self.lines, plan.pool, strict=True)]
        self.measured.add(cheap, np.concatenate(rows))
        chance = np.ones(len(self.group))
        wanted = []
        for own, count, pilot, sized in zip(rows, plan.reference, self.pilots, by_size, strict=True):
            right = own[self.measured.correct[own]]
            size = sizes_by(self.measured.values[cheap, right]) if sized else np.ones(len(right))
            chance[right] = chances(size, int(count), min(1.0, len(pilot) / max(1, len(right))))
            # The k-th of K samples in the random order has the random number k/K, and is drawn if that is less than its
            # probability. The pilot comes first in the order and is always drawn, as no probability is below its share.
            place = (np.arange(len(right)) + 0.5) / max(1, len(right))
            wanted += [right[np.argsort(place / chance[right], kind="stable")[:count]], pilot]
        self.measured.add(REFERENCE, np.concatenate(wanted))
        return self._evaluated(cheap, rows, chance)

    def _drawn_alone(self, plan: Allocation) -> tuple[Means, LogContrast]:
        """Measure a plain random part of each group, which includes the pilot, by the reference."""
        chance, wanted = np.ones(len(self.group)), []
        for line, count, pilot in zip(self.lines, plan.reference, self.pilots, strict=True):
            last = int(np.flatnonzero(np.isin(line, pilot))[-1]) + 1 if len(pilot) else 0
            drawn = line[: max(int(count), last)]
            chance[line] = len(drawn) / len(line)
            wanted.append(drawn)
        self.measured.add(REFERENCE, np.concatenate(wanted))
        return self._evaluated(None, self.lines, chance)

    def _evaluated(
        self, cheap: int | None, rows: Sequence[Ints], chance: Floats | None = None
    ) -> tuple[Means, LogContrast]:
        """Return the estimates from these samples, drawn with these probabilities (by default 1)."""
        at = np.concatenate(rows)
        up_to, _ = common_cap(self.measured.reference, self.target.up_to)
        reference = np.minimum(self.measured.values[REFERENCE, at], up_to)
        correct, value, size = self.measured.correct[at], np.zeros(len(at)), np.ones(len(at))
        if cheap is None:  # only the reference tells which samples are correct
            correct = np.ones(len(at), dtype=np.bool_)
            if chance is None:
                reference = np.where(self.measured.correct[at], reference, 0.0)
        else:
            value = self.measured.values[cheap, at]
            for g in range(len(rows)):
                own = (self.group[at] == g) & correct
                size[own] = sizes_by(value[own])
        everyone = np.ones(len(at)) if chance is None else chance[at]
        pool = Pool(self.group[at], self.sizes, correct, value, reference, everyone, size)
        finite, confidence = self.target.finite, self.target.confidence
        means = control_variate_means(pool, finite=finite)
        moments = means.mean, means.error2, means.third, means.freedom
        return means, log_contrast(*moments, self.sizes, finite=finite, confidence=confidence)


def _worth_sizing(means: Means) -> Bools:
    """Return in which groups a draw by size reduces the error, judged by the group and the average of all groups."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log(means.sized2 / means.equal2)
    seen = np.isfinite(gain)
    average = float(gain[seen].mean()) if seen.any() else 0.0
    return np.asarray(np.where(seen, gain + average, average) < 0)
