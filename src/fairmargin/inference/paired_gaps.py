"""A group's gap under two budgets, each sample paired with itself: how far σ and means moved, with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.bound import Bound
from fairmargin.core.partition import Partition
from fairmargin.inference.estimate import Estimate


@dataclass(frozen=True, slots=True, eq=False)
class PairedGaps:
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
            why = (
                "there is no other group"
                if len(self.partition.labels) == 1
                else "every sample of the rest is misclassified"
            )
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


def relative_change(before: Floats, after: Floats, confidence: float) -> Estimate:
    """How far the mean moved, relative to what it was."""
    mean = float(before.mean())
    if mean == 0:
        return Estimate.undefined("every sample is misclassified", Bound.NEITHER)
    ratio = float(after.mean()) / mean
    return _interval(ratio - 1, [(after - ratio * before) / mean], confidence)


def mean_of(values: Floats, confidence: float) -> Estimate:
    """The mean of upper bounds with its interval, which does not reach below 0."""
    if len(values) < 2:
        return Estimate(float(values.mean()), math.nan, math.nan, Bound.UPPER, "one sample has no spread")
    found = _interval(float(values.mean()), [values], confidence)
    return Estimate(found.value, max(found.low, 0.0), found.high, Bound.UPPER)


def rest_weights(sizes: Ints) -> Floats:
    """How much each other group (column) weighs in the rest of a group (row): by its size.

    >>> rest_weights(np.array([10, 30, 10])).tolist()
    [[0.0, 0.75, 0.25], [0.5, 0.0, 0.5], [0.25, 0.75, 0.0]]
    """
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
