"""Contrast of medians: the median distance of each group relative to that of its rest, with an interval.

A median does not depend on how far the farthest samples are. The number of samples of a side below its true median is
binomial with probability ½, whatever the distribution, so that order statistics limit the median (with ties too). The
limits of the ratio are the extremes of x/y over all pairs of values that the two counts allow together, that is, whose
squared deviations from ½ (in standard errors) add up to at most z². For smooth distributions these are the limits
of MOVER (Donner and Zou 2012); with ties and with an atom at 0, where the error of a median is not normal, MOVER's are
too short.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats, Ints, grouped
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.capping import capped
from fairmargin.inference.design import Design
from fairmargin.inference.distributions import normal_quantile
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.sizes import Sizes, sizes_of

_ROUNDING = 1e-12  # shares that differ by less are equal
_ANGLES = np.linspace(0.0, np.pi / 2, 33)  # how the deviation is divided between both sides


@dataclass(frozen=True, slots=True, eq=False)
class Medians:
    """Medians and limits of one side: of each group, or of its rest. Limits have shape (groups, angles)."""

    low: Floats  # from a limit near the median to the farthest
    high: Floats
    middle: Floats  # (groups, 2): the two middle values, or twice the same; their mean is the median

    @classmethod
    def of(cls, columns: Floats) -> "Medians":
        """Read the columns that `_median_and_limits` returns."""
        angles = len(_ANGLES)
        return cls(columns[:, :angles], columns[:, angles:-2], columns[:, -2:])


def median_contrasts(
    distances: Distances,
    partition: Partition,
    control: Partition | None,
    design: Design,
    *,
    alpha: Floats,
    reasons: Sequence[str],
) -> tuple[Estimate, ...]:
    """Return median(group) / median(rest) − 1 of every group.

    Distances are not capped. The distance of an unreached sample is only known to lie beyond the radius of its search.
    Lower limits take it to be this radius, and upper ones infinite. The contrast is undefined where this changes a
    median. With a control, medians are those in the common mix of strata.

    Parameters
    ----------
    alpha
        1 − level of the limits of each group.
    reasons
        Why a group has no contrast with its rest; empty if it has one.
    """
    bound = distances.bound / distances.bound
    sizes = sizes_of(partition, control, design)
    z = np.array([-normal_quantile(each / 2) for each in alpha])
    farthest = _both_sides(capped(distances.values, np.inf), partition, control, design.weights, sizes, z)
    nearest = farthest
    if distances.unreached.any():
        nearest = _both_sides(capped(_searched(distances), np.inf), partition, control, design.weights, sizes, z)
    zero = "has the distance 0" if (distances.correct & (distances.values == 0)).any() else "is misclassified"
    found = []
    for i, label in enumerate(partition.labels):
        names = f"group {label!r}", f"the rest of group {label!r}"
        lows, highs = [side.middle[i] for side in nearest], [side.middle[i] for side in farthest]
        reason = reasons[i] or next(
            filter(None, (_reason(*side, zero) for side in zip(names, lows, highs, strict=True))), ""
        )
        if reason:
            found.append(Estimate.undefined(reason, bound))
            continue
        value = float(highs[0].sum() / highs[1].sum()) - 1
        with np.errstate(divide="ignore"):
            low = float(np.min(nearest[0].low[i] / farthest[1].high[i][::-1])) - 1
            high = float(np.max(farthest[0].high[i] / nearest[1].low[i][::-1])) - 1
        if low == -1 and np.isinf(high):
            few = f"group {label!r} or its rest has too few distances above 0 for an interval of its median"
            found.append(Estimate(value, np.nan, np.nan, bound, few))
            continue
        found.append(Estimate(value, min(low, value), max(high, value), bound))
    return tuple(found)


def _searched(distances: Distances) -> Floats:
    """Return the distances, and for unreached samples the radius of their search, if it is recorded."""
    if distances.tried is None:
        return distances.values
    known = distances.unreached & ~np.isnan(distances.tried)
    return np.where(known, distances.tried, distances.values)


def _reason(name: str, low: Floats, high: Floats, zero: str) -> str:
    """Return why a side has no median above 0, given the middle ones of the least and of the largest distances."""
    if high[0] == 0:
        return f"at least half of {name} {zero}, so that its median distance is 0"
    if np.isinf(high[1]):
        return f"no misclassified input was found for half of {name}, so that its median distance is not known"
    if (low < high).any():
        return f"searches that found nothing ended below the median distance of {name}"
    return ""


def _both_sides(
    values: Floats, partition: Partition, control: Partition | None, weights: Floats | None, sizes: Sizes, z: Floats
) -> tuple[Medians, Medians]:
    """Return medians and limits of every group and of its rest."""
    order = np.argsort(values) if weights is None else np.lexsort((weights, values))
    ordered, groups, strata = values[order], len(z), sizes.mix.shape[1]
    ordered_weights = None if weights is None else weights[order]
    stratum = np.zeros(len(order), dtype=np.int64) if control is None else control.membership[order]
    by_stratum = _Samples.by_code(stratum, strata, ordered_weights)
    by_cell = _Samples.by_code(stratum * groups + partition.membership[order], groups * strata, ordered_weights)
    own_side, rest_side = [], []
    for i, quantile in enumerate(z):
        own, rest = [], []
        for k in np.flatnonzero(sizes.mix[i] > 0):
            cell, weight = by_cell[k * groups + i], sizes.mix[i, k]
            own.append((cell, weight / sizes.own[i, k]))
            rest += [(by_stratum[k], weight / sizes.rest[i, k]), (cell, -weight / sizes.rest[i, k])]
        own_side.append(_median_and_limits(ordered, own, quantile, sizes.own_effective[i]))
        rest_side.append(_median_and_limits(ordered, rest, quantile, sizes.rest_effective[i]))
    return Medians.of(np.stack(own_side)), Medians.of(np.stack(rest_side))


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """Some of all samples, sorted by their values: their places among all, and sums of weights if they have weights."""

    places: Ints
    sums: Floats | None  # of the weights of the first 0, 1, … of them

    @classmethod
    def by_code(cls, codes: Ints, count: int, weights: Floats | None) -> list["_Samples"]:
        """Return the samples of each code 0 … count − 1."""
        order, starts = grouped(codes, count)
        sets = np.split(order, starts[1:-1])
        return [cls(each, None if weights is None else np.append(0.0, np.cumsum(weights[each]))) for each in sets]

    def until(self, places: Ints) -> Floats:
        """Return the number of these samples up to each place, or the sum of their weights."""
        count = np.searchsorted(self.places, places, side="right")
        return count.astype(np.float64) if self.sums is None else self.sums[count]


def _median_and_limits(
    ordered: Floats, parts: Sequence[tuple[_Samples, float]], quantile: float, effective: float
) -> Floats:
    """Return lower limits, upper limits and the two middle values of a side; NaN if it has no samples.

    Where a side has too few samples for a limit, it is 0 or inf.

    Parameters
    ----------
    ordered
        The values of all samples, ascending.
    parts
        Samples of the side, and the factor of each of their weights. Weights times factors sum to 1; a negative factor
        takes samples out of an earlier part.
    quantile
        Largest deviation of a share from ½, in standard errors.
    effective
        Effective number of independent samples of the side.
    """
    if not parts:
        return np.full(2 * len(_ANGLES) + 2, np.nan)
    share = 0.5 - quantile * np.sin(_ANGLES) / (2 * np.sqrt(effective))
    # The lower limit is the smallest value with more than `share` at or below it, the upper one mirrors it.
    targets = np.concatenate([share + _ROUNDING, 1 - share - _ROUNDING, [0.5 - _ROUNDING, 0.5 + _ROUNDING]])
    first, last = np.zeros(len(targets), dtype=np.int64), np.full(len(targets), len(ordered) - 1)
    while (first < last).any():
        middle = (first + last) // 2
        below = sum(weight * samples.until(middle) for samples, weight in parts)
        enough = below > targets
        first, last = np.where(enough, first, middle + 1), np.where(enough, middle, last)
    found = ordered[np.minimum(first, len(ordered) - 1)]
    none = share < 0
    found[: len(share)][none], found[len(share) : -2][none] = 0.0, np.inf
    return found
