"""Permutation tests: could the labels of the groups have been dealt out by chance?

The statistic is studentised, since the raw difference of means raises false alarms (35 % instead of 5 %) when the
groups' variances differ. Permutations stop early for groups that are clearly unremarkable (Besag and Clifford 1991,
which keeps P(p ≤ α) ≤ α exactly) and go on for the others until the smallest p-value after Holm's correction can fall
well below α.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Floats, Ints, same_length
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined
from fairmargin.errors import InputError
from fairmargin.inference.units import (
    CROSS,
    SAMPLES,
    SAMPLES2,
    TOTAL,
    TOTAL2,
    UNITS,
    Cells,
    Sides,
    sum_by_cell,
    two_sides,
    unit_columns,
)

_ENOUGH_EXCEEDANCES = 100  # a p-value is then known within 10 % of itself
_VALUES_AT_ONCE = 1_000_000
_WORK = 4e8  # permuted values in all, beyond what the correction needs


Statistics = Callable[[Ints, int, np.random.Generator], Floats]  # (groups, rows, stream) -> (rows, groups)


@dataclass(frozen=True, slots=True, eq=False)
class PermutationTest:
    """p of each group against its rest, NaN where not tested; permutations looked at, and the most allowed."""

    p: Floats
    permutations: int
    most: int


def permutations_needed(hypotheses: int, alpha: float, units: int) -> int:
    """So many that the smallest corrected p is at most α/2, and up to 9,999 where that is cheap."""
    needed = math.ceil(2 * hypotheses / alpha)
    return max(999, needed, min(9_999, int(_WORK / max(units, 1)))) | 1


def holm(p: Floats, hypotheses: int | None = None) -> Floats:
    """Holm's step-down correction; NaN stays NaN and does not count.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    adjusted = np.full(len(p), np.nan)
    order = np.argsort(p)[: int((~np.isnan(p)).sum())]
    count = len(order) if hypotheses is None else hypotheses
    steps = p[order] * np.maximum(count - np.arange(len(order)), 1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def studentised(sides: Sides) -> Floats:
    """gap / standard error; infinite where two constants differ, 0 where they agree."""
    gap, error = sides.gap, sides.gap_error
    exact = np.where(np.abs(gap) > 1e-12 * (np.abs(sides.own) + np.abs(sides.rest)), np.inf, 0.0)
    return np.divide(np.abs(gap), error, out=exact, where=error > 0)


def permutation_test(cells: Cells, mix: Floats, tested: Bools, *, alpha: float, seed: int) -> PermutationTest:
    """Deals the units out to the groups anew inside each stratum; how often is the gap as large as observed?"""
    moments = cells.moments()
    everyone = moments.sum(axis=0)

    def statistics(groups: Ints, rows: int, stream: np.random.Generator) -> Floats:
        dealt = _deal(cells, groups, rows, stream)
        return studentised(two_sides(dealt, everyone - dealt, mix[groups]))

    observed = studentised(two_sides(moments, everyone - moments, mix))
    most = permutations_needed(hypotheses(tested), alpha, len(cells.total))
    return sequential_test(observed, statistics, tested, most=most, units=len(cells.total), seed=seed)


def hypotheses(tested: Bools) -> int:
    """How many questions are asked: two groups against each other are one."""
    return 1 if len(tested) == 2 else int(tested.sum())


def sequential_test(
    observed: Floats, statistics: Statistics, tested: Bools, *, most: int, units: int, seed: int
) -> PermutationTest:
    """Besag and Clifford's sequential p-values: only groups that are still open are looked at again.

    p = h/L where the h-th statistic at least as large as observed is the L-th; (1 + exceedances)/(1 + most) if it never
    comes.
    """
    bar = observed - 1e-9 * np.where(np.isfinite(observed), np.abs(observed), 0.0)  # equal up to rounding is equal
    stream = np.random.default_rng([seed, 2])
    exceeded = np.zeros(len(bar), dtype=np.int64)
    p = np.full(len(bar), np.nan)
    open_groups, done, rows = np.flatnonzero(tested), 0, 250
    while open_groups.size and done < most:
        rows = max(1, min(rows, most - done, _VALUES_AT_ONCE // units))
        drawn = statistics(open_groups, rows, stream)
        running = exceeded[open_groups] + np.cumsum(drawn >= bar[open_groups], axis=0)
        reached = running[-1] >= _ENOUGH_EXCEEDANCES
        when = (running >= _ENOUGH_EXCEEDANCES).argmax(axis=0) + 1 + done
        p[open_groups[reached]] = _ENOUGH_EXCEEDANCES / when[reached]
        exceeded[open_groups] = running[-1]
        open_groups, done, rows = open_groups[~reached], done + rows, 1000
    p[open_groups] = (1 + exceeded[open_groups]) / (1 + done)
    return PermutationTest(p, done, most)


def _deal(cells: Cells, groups: Ints, rows: int, stream: np.random.Generator) -> Floats:
    """Sums of units dealt out by chance to some of the groups: (rows, groups, strata, 6)."""
    single = cells.are_single
    out = np.zeros((rows, len(groups), cells.strata, 6))
    for stratum in range(cells.strata):
        begin, end = cells.starts[stratum * cells.groups], cells.starts[(stratum + 1) * cells.groups]
        sizes = np.diff(cells.starts)[stratum * cells.groups + groups]
        if not sizes.any():
            continue
        ends = np.append(0, np.cumsum(sizes))
        if single:
            dealt = _draw_without_replacement(cells.total[begin:end], int(ends[-1]), rows, stream)
            out[:, :, stratum, TOTAL] = out[:, :, stratum, CROSS] = _sums(dealt, ends)
            out[:, :, stratum, TOTAL2] = _sums(dealt**2, ends)
            out[:, :, stratum, UNITS] = out[:, :, stratum, SAMPLES] = out[:, :, stratum, SAMPLES2] = sizes
        else:
            order = _draw_without_replacement(np.arange(begin, end), int(ends[-1]), rows, stream)
            columns = unit_columns(cells.total, cells.samples)[order]
            out[:, :, stratum] = sum_by_cell(columns, ends)
    return out


def _sums(values: Floats, ends: Ints) -> Floats:
    return sum_by_cell(values[..., None], ends)[..., 0]


def _draw_without_replacement(
    source: npt.NDArray[Any], take: int, rows: int, stream: np.random.Generator
) -> npt.NDArray[Any]:
    """`take` of the source's entries in random order, `rows` times."""
    if take > len(source) // 8:
        return stream.permuted(np.broadcast_to(source, (rows, len(source))), axis=1)[:, :take]
    return np.stack([source[stream.choice(len(source), take, replace=False)] for _ in range(rows)])


def largest_bias_test(
    distances: Distances, partition: Partition, *, permutations: int = 1_999, seed: int = 0
) -> dict[str, float]:
    """p of the largest robustness bias of each group: how often dealing out the labels by chance gives one as large.

    The supremum over radii is a two-sample Kolmogorov–Smirnov statistic with ties, so that it is permuted rather than
    looked up. p-values are not corrected for the number of groups; `holm` does that.
    """
    if permutations < 99:
        raise InputError(f"`permutations` must be at least 99; given {permutations}.")
    same_length(distances=distances, partition=partition)
    values = distances.values[distances.correct]
    order = np.argsort(values, kind="stable")
    values, codes = values[order], partition.membership[distances.correct][order]
    last_of_tie = np.append(values[1:] > values[:-1], True)
    stream = np.random.default_rng([seed, 3])
    result: dict[str, float] = {}
    for g, label in enumerate(partition.labels):
        own = codes == g
        if own.all() or not own.any():
            result[label] = Undefined(f"no correct sample {'outside' if own.any() else 'in'} group {label!r}")
            continue
        bar = _supremum(own, last_of_tie) - 1e-12
        hits = sum(_supremum(stream.permutation(own), last_of_tie) >= bar for _ in range(permutations))
        result[label] = (1 + hits) / (1 + permutations)
    return result


def _supremum(own: Bools, last_of_tie: Bools) -> float:
    count, size = np.cumsum(own)[last_of_tie], int(own.sum())
    seen = np.flatnonzero(last_of_tie) + 1
    return float(np.abs(count / size - (seen - count) / (len(own) - size)).max())
