"""Independent units of an audit, and the sums from which means and standard errors of groups are computed.

A unit is a sample, or a cluster of samples (such as photographs of one person). It has a number of samples and the sum
of their distances. With weights, a sample of weight w counts as w samples. A cell is a group inside a stratum of the
control. Six sums per cell determine means and standard errors, for the data themselves and for every resample and
permutation of them.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, grouped
from fairmargin.core.partition import Partition
from fairmargin.inference.power_sums import ORDER, PowerSums

# The six sums of a cell, in this order: units, samples, Σ total, Σ total², Σ total·samples, Σ samples².
UNITS, SAMPLES, TOTAL, TOTAL2, CROSS, SAMPLES2 = range(6)

# From this number of units on, the power sums of a side say enough about it: bootstrap resamples are drawn from a
# distribution with the same sums, and closed forms replace permutations. docs/inference.md has the simulations.
LARGE = 1_000
# Many hypotheses are decided farther out in the tail, where closed forms need more units. With 1,000 units, 100 groups
# with a tail of index 3 have 5.8 % false alarms, but 1,000 groups 10 %.
_LARGE_PER_HYPOTHESIS = 10
_ROUNDING = 1e-14  # central sums of this size, relative to the sum of powers, may be rounding errors


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Units sorted by stratum and then by group, so that every cell and every stratum is a slice.

    Inside a cell they are sorted by their values, so that no number depends on the order of the rows.

    Weights enter here and nowhere else: a sample with value x and weight w (weights have a mean of 1, see
    `AuditSettings.weights`) has `samples` = w and `total` = w·x, and a cluster the sums Σw and Σw·x of its samples. A
    mean is Σtotal / Σsamples, and its error follows from the influences total − mean·samples. Resamples and
    permutations draw whole units, that is pairs of a weight and a value.
    """

    groups: int
    strata: int
    samples: Floats  # number of samples per unit, or the sum of their weights
    total: Floats  # sum of the values per unit, times their weights
    starts: Ints  # first unit of each of the groups * strata cells, and the end
    powers: Floats | None = None  # of single samples, Σ total^k of each cell for k = 0 … 4; None for other units

    @property
    def are_single(self) -> bool:
        """Whether every unit is one sample, and none has another weight than the others."""
        return bool((self.samples == 1).all())

    def moments(self) -> Floats:
        """Return the six sums, shape (groups, strata, 6)."""
        if self.powers is None:
            return self.arrange(sum_by_cell(unit_columns(self.total, self.samples), self.starts))
        size, total, total2 = self.powers.T[:3]
        return self.arrange(np.stack([size, size, total, total2, total, size], axis=-1))

    def arrange(self, by_cell: Floats) -> Floats:
        """Reshape (…, cells, 6) into (…, groups, strata, 6)."""
        shaped = by_cell.reshape(*by_cell.shape[:-2], self.strata, self.groups, 6)
        return np.swapaxes(shaped, -3, -2)


def make_cells(
    values: Floats,
    groups: Partition,
    control: Partition | None,
    cluster: Ints | None,
    weights: Floats | None = None,
) -> Cells | None:
    """Return the cells of an audit; None if a cluster spans two cells, so that clusters cannot be permuted."""
    strata = 1 if control is None else len(control.labels)
    count = len(groups.labels) * strata
    cell = groups.membership + (0 if control is None else control.membership * len(groups.labels))
    if cluster is None and weights is None:
        order, starts = grouped(cell, count)
        total, powers = values[order], np.empty((count, ORDER + 1))
        for place, (begin, end) in enumerate(pairwise(starts)):
            total[begin:end].sort()
            powers[place] = PowerSums.of(total[begin:end]).rounded()
        return Cells(len(groups.labels), strata, np.ones(len(values)), total, starts, powers)
    if cluster is None:
        assert weights is not None
        first, samples, total = cell, weights, weights * values
    else:
        first = np.zeros(int(cluster.max()) + 1, dtype=np.int64)
        first[cluster] = cell
        if (first[cluster] != cell).any():
            return None
        samples, total = sums_by_code(cluster, values, weights, len(first))
    order, starts = grouped(first, count)
    for begin, end in pairwise(starts):
        part = order[begin:end]
        order[begin:end] = part[np.lexsort((samples[part], total[part]))]
    return Cells(len(groups.labels), strata, samples[order], total[order], starts)


def sums_by_code(codes: Ints, values: Floats, weights: Floats | None, count: int) -> tuple[Floats, Floats]:
    """Return the number of samples and the sum of the values of each code; with weights, Σw and Σw·x."""
    if weights is None:
        return np.bincount(codes, minlength=count).astype(np.float64), sums_in_order(codes, values, count)
    return sums_in_order(codes, weights, count), sums_in_order(codes, weights * values, count)


def sums_in_order(codes: Ints, values: Floats, count: int) -> Floats:
    """Return the sum of the values of each code, added in ascending order: rounding depends on the order."""
    order = np.lexsort((values, codes))
    return np.bincount(codes[order], weights=values[order], minlength=count).astype(np.float64)


def unit_columns(total: Floats, samples: Floats) -> Floats:
    """Return the contribution of each unit to the six sums, of shape (…, units, 6)."""
    return np.stack([np.ones_like(total), samples, total, total**2, total * samples, samples**2], axis=-1)


def sum_by_cell(columns: Floats, starts: Ints) -> Floats:
    """Sum over consecutive units: (…, units, k) to (…, cells, k); empty cells give 0."""
    filled = np.flatnonzero(np.diff(starts) > 0)
    out = np.zeros((*columns.shape[:-2], len(starts) - 1, columns.shape[-1]))
    out[..., filled, :] = np.add.reduceat(columns, starts[filled], axis=-2)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Means and squared standard errors of each group and of its rest, each of shape (…, groups)."""

    own: Floats
    own_error2: Floats
    rest: Floats
    rest_error2: Floats

    @property
    def gap(self) -> Floats:
        """Mean of the group minus mean of the rest."""
        return self.own - self.rest

    @property
    def gap_error(self) -> Floats:
        """Standard error of the gap."""
        return np.sqrt(self.own_error2 + self.rest_error2)

    @property
    def log_ratio(self) -> Floats:
        """ln(mean of the group / mean of the rest) = ln(1 + sigma)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(self.own) - np.log(self.rest))

    @property
    def log_ratio_error(self) -> Floats:
        """Standard error of the log ratio, by linearisation."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt(self.own_error2 / self.own**2 + self.rest_error2 / self.rest**2)


def mean_and_error2(moments: Floats) -> tuple[Floats, Floats]:
    """Return the mean of the samples and its squared standard error, for m independent units.

    mean = Σ total / Σ samples;  error² = m/(m−1) · Σ (total − mean·samples)² / (Σ samples)².
    """
    units, samples, total, total2, cross, samples2 = np.moveaxis(moments, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / samples
        squares = np.maximum(total2 - 2 * mean * cross + mean**2 * samples2, 0.0)
        # Rounding errors are not a spread.
        squares = np.where(squares <= 1e-12 * np.abs(total2), 0.0, squares)
        error2 = units / (units - 1) * squares / samples**2
    return mean, np.where(units > 1, error2, np.nan)


def effective_units(moments: Floats) -> Floats:
    """Return (Σsamples)² / Σsamples² over the units of all strata of each group.

    So many equal units have means with the same error as these; without weights and clusters it is their number.
    """
    sums = moments.sum(axis=-2)
    samples, samples2 = sums[..., SAMPLES], sums[..., SAMPLES2]
    return np.asarray(np.divide(samples**2, samples2, out=np.zeros_like(samples), where=samples2 > 0))


def group_means(moments: Floats) -> tuple[Floats, Floats]:
    """Return mean and squared standard error of each group over all its strata."""
    return mean_and_error2(moments.sum(axis=-2))


def two_sides(moments: Floats, rest_moments: Floats, mix: Floats) -> Sides:
    """Return means over strata weighted by `mix` (groups, strata), so that both sides have the same mix."""
    weighted = []
    for side in (moments, rest_moments):
        mean, error2 = mean_and_error2(side)
        with np.errstate(invalid="ignore"):  # strata without weight may have no mean
            weighted += [np.where(mix > 0, mix * mean, 0.0).sum(-1), np.where(mix > 0, mix**2 * error2, 0.0).sum(-1)]
    return Sides(*weighted)


def rest_of(moments: Floats) -> Floats:
    """Return the six sums of everyone outside each group, inside each stratum."""
    return sum_of_others(moments, axis=-3)


def sum_of_others(values: Floats, axis: int) -> Floats:
    """Return, for each entry along an axis, the sum of the others. Nothing is subtracted, so that small sums are exact.

    >>> sum_of_others(np.array([1e17, 1.0, 2.0]), axis=0).tolist()
    [3.0, 1e+17, 1e+17]
    """
    moved = np.moveaxis(values, axis, 0)
    out = np.zeros_like(moved)
    out[1:] = np.cumsum(moved[:-1], axis=0)
    out[:-1] += np.cumsum(moved[:0:-1], axis=0)[::-1]
    return np.moveaxis(out, 0, axis)


def large_side(hypotheses: int) -> int:
    """Return the number of units from which a closed form needs no permutation test beside it."""
    return max(LARGE, _LARGE_PER_HYPOTHESIS * hypotheses)


def are_large(moments: Floats, mix: Floats, hypotheses: int) -> Bools:
    """Return which groups have `large_side(hypotheses)` units on both sides, in every stratum that counts.

    Units of unequal size count as their effective number, `effective_units`.
    """
    own, rest = (effective_units(side[..., None, :]) for side in (moments, rest_of(moments)))
    fewest = np.where(mix > 0, np.minimum(own, rest), np.inf).min(axis=-1)
    return np.asarray((fewest >= large_side(hypotheses)) & (mix > 0).any(axis=-1))


@dataclass(frozen=True, slots=True, eq=False)
class CommonMix:
    """Weights of the strata for each group, and the share of samples that are left out."""

    mix: Floats  # (groups, strata); rows sum to 1, or to 0 if no stratum can be compared
    dropped: Floats  # (groups,): share of samples in strata where one side is missing


def common_mix(moments: Floats) -> CommonMix:
    """Return weights proportional to the sizes of the strata in which both sides have two units or more.

    If there is a single stratum, one unit suffices. The dropped share is the larger one of the share of all samples and
    of the share of the group's samples.
    """
    least = 2 if moments.shape[-2] > 1 else 1
    samples, units = moments[..., SAMPLES], moments[..., UNITS]
    kept = (units >= least) & (rest_of(moments)[..., UNITS] >= least)
    stratum = samples.sum(axis=0)
    weight = kept * stratum
    total = weight.sum(axis=1, keepdims=True)
    mix = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    of_all = 1 - weight.sum(axis=1) / stratum.sum()
    of_own = 1 - (kept * samples).sum(axis=1) / samples.sum(axis=1)
    return CommonMix(mix, np.maximum(of_all, of_own))


def kurtosis_freedom(cells: Cells, mix: Floats) -> tuple[Floats, Floats]:
    """Return the degrees of freedom of each side's squared standard error, from the kurtosis of its units.

    Var(s²)/σ⁴ = κ/m − (m−3)/(m(m−1)), and it is 2/f for a χ² with f degrees of freedom. With heavy tails f is much
    smaller than m − 1, which is why plain intervals are too short. Strata are combined as by Welch and Satterthwaite.
    """
    moments, by_cell = cells.moments(), _power_sums(cells, 4)
    return _freedom(moments, by_cell, mix), _freedom(rest_of(moments), rest_of(by_cell), mix)


def third_cumulants(cells: Cells, mix: Floats) -> tuple[Floats, Floats]:
    """Return the third cumulant of each group's mean and of its rest's mean in the common mix of strata."""
    moments, by_cell = cells.moments(), _power_sums(cells, 3)
    return _third(moments, by_cell, mix), _third(rest_of(moments), rest_of(by_cell), mix)


def _power_sums(cells: Cells, order: int) -> Floats:
    """Return Σ total^k · samples^(order − k) of each cell for k = 0 … order, of shape (groups, strata, order + 1)."""
    by_cell = None if cells.powers is None else cells.powers[:, : order + 1]
    if by_cell is None:
        columns = [cells.total**k * cells.samples ** (order - k) for k in range(order + 1)]
        by_cell = sum_by_cell(np.stack(columns, axis=-1), cells.starts)
    return by_cell.reshape(cells.strata, cells.groups, order + 1).swapaxes(0, 1)


def _central_sum(mean: Floats, powers: Floats) -> Floats:
    """Return Σ (total − mean·samples)^order of each cell from its power sums."""
    order = powers.shape[-1] - 1
    shift = (-mean)[..., None] ** np.arange(order, -1, -1)
    return np.asarray((np.array([math.comb(order, k) for k in range(order + 1)]) * shift * powers).sum(-1))


def _third(moments: Floats, powers: Floats, mix: Floats) -> Floats:
    units, samples = moments[..., UNITS], moments[..., SAMPLES]
    mean, _ = mean_and_error2(moments)
    with np.errstate(divide="ignore", invalid="ignore"):
        third = _central_sum(mean, powers)
        third = np.where(np.abs(third) <= _ROUNDING * powers[..., -1], 0.0, third) / samples**3
        third = mix**3 * third * units**2 / ((units - 1) * (units - 2))  # unbiased
    return np.asarray(np.where((mix > 0) & (units > 2), third, 0.0).sum(-1))


def _freedom(moments: Floats, powers: Floats, mix: Floats) -> Floats:
    units, samples = moments[..., UNITS], moments[..., SAMPLES]
    mean, error2 = mean_and_error2(moments)
    with np.errstate(divide="ignore", invalid="ignore"):
        fourth = _central_sum(mean, powers)
        second = error2 * samples**2 * (units - 1) / units  # Σ (total − mean·samples)²
        spread = fourth / second**2 - (units - 3) / (units * (units - 1))
        each = np.clip(2 / spread, 2.0, np.maximum(units - 1, 2.0))
        each = np.where(np.isfinite(each), each, np.maximum(units - 1, 1.0))
        part = np.where(mix > 0, mix**2 * error2, 0.0)
        combined = part.sum(-1) ** 2 / (part**2 / each).sum(-1)
    return np.asarray(np.where(np.isfinite(combined), combined, np.maximum(units.sum(-1) - 1, 1.0)))


def combined_freedom(own2: Floats, own_freedom: Floats, rest2: Floats, rest_freedom: Floats) -> Floats:
    """Return Welch–Satterthwaite degrees of freedom of the sum of two squared standard errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (own2 + rest2) ** 2 / (own2**2 / own_freedom + rest2**2 / rest_freedom)
    return np.where(np.isfinite(freedom), freedom, np.minimum(own_freedom, rest_freedom))
