"""Test whether the robustness curves of a group and of its rest are equal, and find the radii at which they differ.

I_P(τ) is the share of a group P whose distance is greater than τ. The statistic is the largest studentised difference
|I_P(τ) − I_rest(τ)| / error(τ) over the radii, a Kolmogorov–Smirnov statistic that weighs every radius by what can be
seen there. Differences are corrected for skewness. As a function of τ, a studentised difference is locally an
Ornstein–Uhlenbeck process if the curves are equal, so that the tail probability of its maximum has a closed form
(Miller and Siegmund 1982, "Maximally selected chi square statistics", Biometrics 38). With few different distances,
Bonferroni's bound over the radii is smaller and used instead. Both are upper bounds for large samples, with and without
ties, and no random numbers are needed. `docs/inference.md` shows false alarms and power.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import special

from fairmargin.core.arrays import Floats, Ints, grouped
from fairmargin.core.partition import Partition
from fairmargin.inference.contrast import is_testable
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.units import SAMPLES, UNITS, common_mix, sum_of_others, sums_in_order

_MOST_RADII = 400  # of more different distances, quantiles of all distances are radii
_WORK = 5e7  # clusters × cells × radii at most, down to `_FEWEST_RADII`
_FEWEST_RADII = 16
# Radii with a greater sum of absolute third moments, relative to the error cubed (as in Berry and Esseen's bound), are
# left out: a group has fewer than about 8 samples nearer, or fewer than 8 farther.
_LEAST_NORMAL = 0.35
_BLOCK = 8  # distances of a group that are bounded together
_SMALLEST_P = 1e-12  # the closed form says nothing about smaller probabilities
_FARTHEST = 40.0  # the tail probability is below 1e-300 beyond


@dataclass(frozen=True, slots=True, eq=False)
class CurveTest:
    """Comparison of every group's curve with that of its rest. Matrices have the shape (groups, radii)."""

    radii: Floats  # 0, and distances of samples in ascending order
    own: Floats  # I_P, in the common mix of strata
    rest: Floats
    score: Floats  # studentised difference, standard normal where curves are equal; 0 at radii that are left out
    roughness: Floats  # (groups,): how far the difference moves over all radii, in standard errors, squared
    judged: Floats  # (groups,): number of radii that are not left out
    p: Floats  # (groups,); NaN where nothing was tested
    effective: Floats  # effective number of independent samples of each group, and of its rest
    rest_effective: Floats
    dropped: Floats  # share of samples in strata that lack one side

    def critical(self, alpha: float) -> Floats:
        """Return the score of each group that the largest one exceeds with probability `alpha`, if curves are equal."""
        low, high = np.zeros_like(self.p), np.full_like(self.p, _FARTHEST)
        for _ in range(50):
            middle = (low + high) / 2
            beyond = tail_probability(middle, self.roughness, self.judged) > alpha
            low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
        return high


def tail_probability(score: Floats, roughness: Floats, radii: Floats) -> Floats:
    """Return the probability that the largest absolute score over the radii is at least `score`.

    >>> tail_probability(np.array([3.0]), np.array([2 * math.log(19)]), np.array([100])).round(4)
    array([0.0755])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.exp(-(score**2) / 2) / math.sqrt(2 * math.pi)
        continuous = np.where(score > 1, density * ((score - 1 / score) * roughness + 4 / score), 1.0)
    return np.asarray(np.minimum(np.minimum(continuous, 2 * np.maximum(radii, 1) * special.ndtr(-score)), 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Sorted:
    """Distances sorted inside each cell of a group and a stratum, with their weights; None if all count the same."""

    groups: int
    strata: int
    values: Floats
    weights: Floats | None
    starts: Ints  # of the cells, stratum by stratum, and the end

    @classmethod
    def of(
        cls, values: Floats, group: Ints, groups: int, weights: Floats | None, stratum: Ints | None = None
    ) -> "Sorted":
        """Sort distances; equal ones by their weights, so that no sum depends on the order of the rows."""
        strata = 1 if stratum is None else int(stratum.max()) + 1
        if groups == strata == 1 and weights is None:
            return cls(1, 1, np.sort(values), None, np.array([0, len(values)]))
        cell = group if stratum is None else group + stratum * groups
        order, starts = grouped(cell, groups * strata)
        if weights is not None:
            order = np.lexsort((weights, values, cell))
            return cls(groups, strata, values[order], weights[order], starts)
        ordered = values[order]
        for start, stop in pairwise(starts):
            ordered[start:stop].sort()
        return cls(groups, strata, ordered, None, starts)

    def sums(self, start: int, stop: int, power: int = 1) -> Floats:
        """Return the sums of the weights of the first 0, 1, … samples of a slice, or of powers of the weights."""
        if self.weights is None:
            return np.arange(stop - start + 1, dtype=np.float64)
        return np.append(0.0, np.cumsum(self.weights[start:stop] ** power))

    def beyond(self, radii: Floats, power: int = 1) -> tuple[Floats, Floats]:
        """Return the weight of each cell, and its weight beyond each radius, of shape (groups, strata, radii)."""
        size = np.empty((self.groups, self.strata))
        beyond = np.empty((self.groups, self.strata, len(radii)))
        for at, (start, stop) in enumerate(pairwise(self.starts)):
            stratum, group = divmod(at, self.groups)
            sums = self.sums(start, stop, power)
            size[group, stratum] = sums[-1]
            beyond[group, stratum] = sums[-1] - sums[np.searchsorted(self.values[start:stop], radii, side="right")]
        return size, beyond


@dataclass(frozen=True, slots=True, eq=False)
class Squares:
    """Sums over independent units, each of shape (groups,), from which effective numbers of samples follow."""

    size: Floats  # sum of all weights of the group
    rest_size: Floats
    own2: Floats  # sum over units of the square of the unit's weight in the group
    rest2: Floats
    both: Floats  # sum over units of the product of the unit's weights in the group and in its rest

    @classmethod
    def of(cls, codes: Ints, groups: int, cluster: Ints | None, weights: Floats | None) -> "Squares":
        """Add up the weights of samples, or of clusters; `codes` are the groups of the samples."""
        if cluster is None and weights is None:
            size = np.bincount(codes, minlength=groups).astype(np.float64)
            rest_size = sum_of_others(size, axis=0)
            return cls(size, rest_size, size, rest_size, np.zeros(groups))
        each = np.ones(len(codes)) if weights is None else weights
        size = sums_in_order(codes, each, groups)
        rest_size = sum_of_others(size, axis=0)
        if cluster is None:
            own2 = sums_in_order(codes, each**2, groups)
            return cls(size, rest_size, own2, sum_of_others(own2, axis=0), np.zeros(groups))
        pairs, inverse = np.unique(cluster * groups + codes, return_inverse=True)
        own = sums_in_order(inverse, each, len(pairs))
        total = sums_in_order(pairs // groups, own, int(cluster.max(initial=-1)) + 1)
        rest, group = total[pairs // groups] - own, pairs % groups
        own2, both = sums_in_order(group, own**2, groups), sums_in_order(group, own * rest, groups)
        square_of_all = np.sort(total**2).sum()
        elsewhere = square_of_all - sums_in_order(group, (own + rest) ** 2, groups)  # clusters outside of the group
        return cls(size, rest_size, own2, elsewhere + sums_in_order(group, rest**2, groups), both)

    def effective(self) -> tuple[Floats, Floats]:
        """Return the effective numbers of samples of each group and of its rest; 0 for an empty rest."""
        sides = (self.size, self.own2), (self.rest_size, self.rest2)
        own, rest = (np.divide(n**2, n2, out=np.zeros_like(n), where=(n > 0) & (n2 > 0)) for n, n2 in sides)
        return own, rest

    def joint(self, own_factor: Floats, rest_factor: float) -> Floats:
        """Return the number of samples whose curve is as uncertain as the difference of the two curves.

        It is 1/(1/n + 1/m) for n and m independent samples. Samples of one cluster count as copies of each other, which
        makes bands too wide rather than too narrow, also if a cluster lies on both sides. The factors enlarge the
        squared errors. NaN if a side is empty.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            error2 = own_factor * self.own2 / self.size**2 + rest_factor * self.rest2 / self.rest_size**2
            return np.asarray(1 / (error2 + 2 * self.both / (self.size * self.rest_size)))


def curve_test(
    values: Floats,
    end: float,
    partition: Partition,
    settings: AuditSettings,
    cluster: Ints | None,
    plain: Sorted | None = None,
) -> CurveTest:
    """Compare the curve of every group with that of its rest, at radii below `end`.

    `plain` are the same distances, sorted by group without the control, if they are sorted already.
    """
    weights, control = settings.weights(len(values)), settings.control
    groups, stratum = len(partition.labels), None if control is None else control.membership
    cells = plain if control is None else None
    cells = cells or Sorted.of(values, partition.membership, groups, weights, stratum)
    clusters = 0 if cluster is None else int(cluster.max()) + 1
    radii = _radii(np.sort(values), end, int(max(_FEWEST_RADII, _WORK / max(clusters * len(cells.starts), 1))))
    size, beyond = cells.beyond(radii)
    cell = partition.membership * cells.strata + (0 if stratum is None else stratum)

    moments = np.zeros((*size.shape, 6))
    moments[..., SAMPLES] = size
    pairs = cell if cluster is None else np.unique(cluster * size.size + cell) % size.size
    moments[..., UNITS] = np.bincount(pairs, minlength=size.size).reshape(size.shape)
    common = common_mix(moments)
    rest_size, others = sum_of_others(size, axis=0), sum_of_others(beyond, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight, rest_weight = (np.where(common.mix > 0, common.mix / side, 0.0) for side in (size, rest_size))
        pooled = np.nan_to_num(beyond.sum(axis=0) / size.sum(axis=0)[:, None])
    own, rest = ((w[..., None] * side).sum(axis=1) for w, side in ((weight, beyond), (rest_weight, others)))
    noise = _noise(cells, radii, weight, rest_weight, pooled, moments[..., UNITS].sum(axis=0))
    if cluster is not None:
        place = np.searchsorted(radii, values, side="left")  # the sample lies beyond the first `place` radii
        each = np.ones(len(values)) if weights is None else weights
        noise = _noise_of_clusters(cluster, cell, place, each, weight, rest_weight, pooled, noise)
    score, roughness, judged = _scores(own - rest, noise)
    largest = np.abs(score).max(axis=1)
    effective, rest_effective = Squares.of(partition.membership, groups, cluster, weights).effective()
    tested = is_testable(effective, rest_effective, common.dropped, settings)
    return CurveTest(
        radii=radii,
        own=own,
        rest=rest,
        score=score,
        roughness=roughness,
        judged=judged,
        p=np.where(tested, np.maximum(tail_probability(largest, roughness, judged), _SMALLEST_P), np.nan),
        effective=effective,
        rest_effective=rest_effective,
        dropped=common.dropped,
    )


def _radii(ordered: Floats, end: float, most: int) -> Floats:
    """Return 0 and the distances below `end`, or quantiles of them if there are many."""
    inside = ordered[np.searchsorted(ordered, 0.0, side="right") : np.searchsorted(ordered, end, side="left")]
    most = min(most, _MOST_RADII)
    if np.count_nonzero(np.diff(inside)) >= most:
        inside = inside[np.arange(1, most) * len(inside) // most]
    return np.append(0.0, np.unique(inside))


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """Moments of the difference of equal curves at every radius, each of shape (groups, radii)."""

    variance: Floats
    third: Floats  # third cumulant
    absolute: Floats  # sum of absolute third moments
    moved: Floats  # variance of the change from the previous radius


def _noise(cells: Sorted, radii: Floats, weight: Floats, rest_weight: Floats, pooled: Floats, units: Floats) -> _Noise:
    """Return the moments for independent samples, which follow from the pooled curve of each stratum.

    If samples have weights, which can depend on the distances in one group only, the variance is at least that which
    the group's and the rest's own samples give.
    """
    moments = []
    for power in (2, 3):
        size, beyond = cells.beyond(radii, power)
        total = size.sum(axis=0)[:, None]
        share = np.divide(beyond.sum(axis=0), total, out=np.zeros_like(pooled), where=total > 0)
        coefficient = size * weight**power, sum_of_others(size, axis=0) * rest_weight**power
        farther, nearer = share * (1 - pooled) ** power, (1 - share) * pooled**power
        moments.append((coefficient, share, farther, nearer))
    (coefficient, share, farther, nearer), (coefficient3, _, farther3, nearer3) = moments
    second = sum(coefficient) * units / np.maximum(units - 1, 1)  # as under permutation
    variance = second @ (farther + nearer)
    if cells.weights is not None:
        size, beyond = cells.beyond(radii, 2)
        own = beyond * (1 - pooled) ** 2 + (size[..., None] - beyond) * pooled**2
        sides = weight[..., None] ** 2 * own + rest_weight[..., None] ** 2 * sum_of_others(own, axis=0)
        variance = np.maximum(variance, sides.sum(axis=1))
    return _Noise(
        variance,
        (coefficient3[0] - coefficient3[1]) @ (farther3 - nearer3),
        sum(coefficient3) @ (farther3 + nearer3),
        second @ -np.diff(share, axis=-1, prepend=share[:, :1]),
    )


def _noise_of_clusters(
    cluster: Ints,
    cell: Ints,
    place: Ints,
    each: Floats,
    weight: Floats,
    rest_weight: Floats,
    pooled: Floats,
    independent: _Noise,
) -> _Noise:
    """Return the moments from the contribution of each cluster to the difference; `each` are weights of samples.

    In a small group, the contributions vary too little at radii that (almost) none of its samples lies beyond. The
    variance is hence at least that of independent samples, times its ratio to that variance over all groups.
    """
    cluster = _ordered_by_content(cluster, np.stack([cell, place, each.view(np.int64)]))
    order = np.lexsort((each, cell, cluster, place))
    cluster, cell, place = (part[order] for part in (cluster, cell, place))
    each = each[order]
    clusters, (groups, strata), count = int(cluster.max()) + 1, weight.shape, pooled.shape[-1]
    flat = cluster * weight.size + cell
    beyond = sums_in_order(flat, each, clusters * weight.size)
    ends = np.searchsorted(place, np.arange(count + 1), side="left")
    size = beyond.reshape(clusters, groups, strata).copy()
    found = np.zeros((4, groups, count))
    before = np.zeros((clusters, groups))
    for k in range(count):
        now = slice(ends[k], ends[k + 1])
        np.subtract.at(beyond, flat[now], each[now])  # these lie beyond k radii only
        centred = beyond.reshape(size.shape) - pooled[:, k] * size
        rest = centred.sum(axis=1, keepdims=True) - centred
        part = (weight * centred - rest_weight * rest).sum(axis=-1)
        powers = part**2, part**3, np.abs(part) ** 3, (part - before) ** 2
        found[:, :, k] = [power.sum(axis=0) for power in powers]
        before = part
    found[[0, 3]] *= clusters / max(clusters - 1, 1)
    variance, third, absolute, moved = found
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(variance.sum(axis=0) / independent.variance.sum(axis=0))
    return _Noise(np.maximum(variance, ratio * independent.variance), third, absolute, moved)


def _ordered_by_content(cluster: Ints, content: Ints) -> Ints:
    """Return clusters numbered by a hash of what they contain, so that no sum depends on the order of the rows.

    Each column of `content` describes a sample.
    """
    mixed = np.zeros(len(cluster), dtype=np.uint64)
    for row in content:
        mixed = (mixed ^ row.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)  # splitmix64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    hashes = np.zeros(int(cluster.max()) + 1, dtype=np.uint64)
    np.add.at(hashes, cluster, mixed)
    rank = np.empty(len(hashes), dtype=np.int64)
    rank[np.argsort(hashes)] = np.arange(len(hashes))
    return rank[cluster]


def _scores(difference: Floats, noise: _Noise) -> tuple[Floats, Floats, Floats]:
    """Return scores, roughness and number of judged radii.

    The cubic transformation removes skewness to first order, as Hall's does for studentised means, and is increasing.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(noise.variance)
        judged = noise.absolute <= _LEAST_NORMAL * error**3
        judged[:, 0] = True  # the accuracy
        judged &= error > 1e-12
        score, skewness = difference / error, noise.third / error**3
        score = score - skewness / 6 * (score**2 - 1) + skewness**2 / 108 * score**3
    inverse = np.divide(1.0, noise.variance, out=np.zeros_like(error), where=judged)
    pairs = judged[:, 1:] & judged[:, :-1]
    roughness = (pairs * noise.moved[:, 1:] * (inverse[:, 1:] + inverse[:, :-1]) / 2).sum(axis=1)
    return np.where(judged, score, 0.0), roughness, judged.sum(axis=1).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Distances above 0 that are known, sorted, with what else is needed of a curve of correct samples."""

    values: Floats
    sums: Floats | None  # weight of the first 0, 1, … of them; None if all count the same
    above_zero: float  # weight of all distances above 0, known or not
    size: float  # weight of all correct samples

    @classmethod
    def of(cls, cells: Sorted, start: int, stop: int, end: float, size: float) -> "Known":
        """Return what is known of a sorted slice below the radius `end`; `size` is the weight of correct samples."""
        values = cells.values[start:stop]
        first = np.searchsorted(values, 0.0, side="right")
        last = max(first, np.searchsorted(values, end, side="left"))  # the end can be 0
        if cells.weights is None:
            return cls(values[first:last], None, float(stop - start - first), size)
        sums = cells.sums(start, stop)
        return cls(values[first:last], sums[first : last + 1] - sums[first], float(sums[-1] - sums[first]), size)

    def beyond(self, nearer: Ints) -> Floats:
        """Return the weight beyond the first `nearer` of the values."""
        return np.asarray(self.above_zero - (nearer if self.sums is None else self.sums[nearer]))


def largest_bias(own: Known, everyone: Known) -> tuple[float, float]:
    """Return the signed difference of the curves of a group and its rest that is largest in absolute value.

    The second number is the smallest radius at which it is reached. The group is among `everyone`.
    """
    candidates = _candidates(own, everyone)
    # The difference only grows between two distances of the group: its extremes lie at them and just before them.
    own_nearer, nearer = (
        np.concatenate([*(np.searchsorted(side.values, candidates, at) for at in ("left", "right")), ends])
        for side, ends in ((own, [0, len(own.values)]), (everyone, [0, len(everyone.values)]))
    )
    bias = _bias(own.beyond(own_nearer), everyone.beyond(nearer), own, everyone)
    distance = np.abs(bias)
    reached = np.flatnonzero(distance == distance.max())
    first = reached[nearer[reached].argmin()]
    return float(bias[first]), float(everyone.values[nearer[first] - 1]) if nearer[first] else 0.0


def _bias(own_beyond: Floats, beyond: Floats, own: Known, everyone: Known) -> Floats:
    return np.asarray(own_beyond / own.size - (beyond - own_beyond) / (everyone.size - own.size))


def _candidates(own: Known, everyone: Known) -> Floats:
    """Return the distances of the group at which the difference can be largest.

    Both curves only fall, so that their values at the ends of a block of distances bound the difference inside.
    """
    starts = own.values[::_BLOCK]
    shares = []
    for side in (own, everyone):
        nearer = np.append(np.searchsorted(side.values, starts, side="left"), len(side.values))
        shares.append(side.beyond(nearer))
    own_beyond, beyond = shares
    highest = _bias(own_beyond[:-1], beyond[1:], own, everyone)
    lowest = _bias(own_beyond[1:], beyond[:-1], own, everyone)
    reached = np.abs(_bias(own_beyond, beyond, own, everyone)).max()
    kept = np.maximum(highest, -lowest) >= reached - 1e-12
    return np.asarray(own.values[np.repeat(kept, _BLOCK)[: len(own.values)]])


def error_factor(cells: Sorted, start: int, stop: int) -> float:
    """Return how much larger the squared error of a curve can be than with weights that do not depend on distances.

    The largest variance of the curve of the distances above 0 in a sorted slice decides, as for its confidence band.
    """
    start += int(np.searchsorted(cells.values[start:stop], 0.0, side="right"))
    if cells.weights is None or stop - start < 2:
        return 1.0
    values, weights = cells.values[start:stop], cells.weights[start:stop]
    last = np.append(values[1:] > values[:-1], True)
    whole, square = weights.sum(), np.square(weights).sum()
    nearer, squares = np.cumsum(weights)[last] / whole, np.cumsum(weights**2)[last] / square
    return max(1.0, float(4 * (squares * (1 - nearer) ** 2 + (1 - squares) * nearer**2).max()))
