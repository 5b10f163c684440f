"""Number of samples that the cheap and the reference estimator measure in each group, at the lowest cost.

A group's squared error is  drawn2/n + pool2/N − known,  if the reference measures n samples and the cheap estimator N.
For a given error the cost n·c_r + N·c_c is lowest where n/N = √(drawn2/c_r) / √(pool2/c_c) (Neyman's allocation for two
phases; W. Cochran, "Sampling techniques", 1977, chapter 12).
"""

import math
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.inference.distributions import student_quantile
from fairmargin.inference.precision.control_variate import Means
from fairmargin.inference.precision.log_contrast import rest_means

_FREEDOM = 40  # degrees of freedom assumed for a planned interval
_NEARLY = 1.02  # a squared error this many times the smallest possible one is accepted: 1 % of the width
_STEP = 1.25  # factor by which a further round divides the squared error of a group at least
_PRIOR_SAMPLES = 30  # number of samples as which the average over all groups counts in the variance of a group


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Parts of each group's squared error, which is drawn2/n + pool2/N − known. One entry per group.

    Parameters
    ----------
    mean
        Mean distance of the group.
    drawn2, pool2, known
        Parts of the squared error.
    sizes
        Largest possible N.
    able
        Share of the samples of the pool that the reference can measure, which are the correct ones.
    """

    mean: Floats
    drawn2: Floats
    pool2: Floats
    known: Floats
    sizes: Ints
    able: Floats

    @classmethod
    def of(cls, means: Means, sizes: Ints, *, finite: bool) -> "Errors":
        """Estimate the parts from samples that were measured. The draw is by size in groups where that is better.

        Thirty samples give a variance with an error of about a quarter. Each group's own value is therefore averaged
        with the mean over all groups.
        """
        known = means.spread2 / sizes if finite else np.zeros(len(sizes))
        spread2, drawn2 = np.nan_to_num(means.spread2), np.nan_to_num(np.fmin(means.equal2, means.sized2))
        drawn2 = spread2 * _towards_average(drawn2, spread2, means.measured)
        # If the reference measures every correct sample of the pool, the error of the pool itself remains.
        pool2 = np.maximum(0.0, spread2 - drawn2 / np.maximum(means.share, 1e-12))
        return cls(np.nan_to_num(means.mean), drawn2, pool2, np.nan_to_num(known), sizes, means.share)

    @classmethod
    def of_reference_alone(cls, means: Means, sizes: Ints, *, finite: bool) -> "Errors":
        """Return the parts for plain random samples, without a cheap estimator."""
        spread2 = np.nan_to_num(means.spread2)
        zero = np.zeros(len(sizes))
        return cls(np.nan_to_num(means.mean), spread2, zero, spread2 / sizes if finite else zero, sizes, zero + 1)

    def at(self, reference: Floats, pool: Floats) -> Floats:
        """Return the squared errors for these numbers of samples per group."""
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(self.drawn2 > 0, self.drawn2 / reference, 0.0)
            second = np.where(self.pool2 > 0, self.pool2 / pool, 0.0)
        return np.maximum(0.0, first + second - self.known)

    @property
    def least(self) -> Floats:
        """Squared errors if all samples are measured."""
        return self.at(np.maximum(1.0, self.able * self.sizes), self.sizes.astype(np.float64))


def _towards_average(drawn2: Floats, spread2: Floats, measured: Ints) -> Floats:
    """Return drawn2 / spread2 of each group, shrunk towards the mean over the groups."""
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(spread2 > 0, drawn2 / spread2, 0.0)
    seen = (spread2 > 0) & (measured > 0)
    average = float(own[seen].mean()) if seen.any() else 0.0
    return np.asarray((measured * own + _PRIOR_SAMPLES * average) / (measured + _PRIOR_SAMPLES))


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Numbers of samples that each estimator measures in each group, and their cost."""

    reference: Ints
    pool: Ints
    cost: float

    def at_least(self, other: "Allocation") -> "Allocation":
        """Return the elementwise maximum with another allocation, whose samples are measured already."""
        reference, pool = np.maximum(self.reference, other.reference), np.maximum(self.pool, other.pool)
        return Allocation(reference, pool, max(self.cost, other.cost))

    def exceeds(self, other: "Allocation") -> bool:
        """Return whether any number of samples is larger than in another allocation."""
        return bool((self.reference > other.reference).any() or (self.pool > other.pool).any())


def allocate(
    errors: Errors,
    *,
    precision: float,
    confidence: float,
    finite: bool,
    costs: tuple[float, float],
    least: Ints,
    safety: float,
) -> Allocation:
    """Return the cheapest allocation with which σ of every group is precise enough; all samples if none is.

    Parameters
    ----------
    errors
        Parts of the squared errors.
    precision, confidence
        Half the width of every group's interval of σ, and its confidence.
    finite
        Whether the target is the mean over the existing samples instead of the population.
    costs
        Cost of one sample, for the cheap estimator and for the reference.
    least
        Minimum number of reference samples in each group, if the group has as many.
    safety
        Factor by which the true variances may exceed the estimated ones.
    """
    allowed = _allowed(errors, precision / math.sqrt(safety), confidence, finite)
    reference, pool = np.zeros(len(errors.mean)), np.zeros(len(errors.mean))
    for g in range(len(errors.mean)):
        reference[g], pool[g] = _cheapest(errors, g, float(allowed[g]), costs, int(least[g]))
    counts = np.ceil(reference - 1e-9).astype(np.int64), np.ceil(pool - 1e-9).astype(np.int64)
    return Allocation(*counts, float(costs[1] * counts[0].sum() + costs[0] * counts[1].sum()))


def can_shrink(errors: Errors, plan: Allocation) -> Bools:
    """Return in which groups measuring all samples would make the interval noticeably shorter."""
    now = errors.at(plan.reference.astype(np.float64), plan.pool.astype(np.float64))
    return np.asarray(now > np.maximum(_NEARLY * errors.least, 1e-12 * errors.mean**2))


def one_step_further(errors: Errors, plan: Allocation, which: Bools, costs: tuple[float, float]) -> Allocation:
    """Return the cheapest plan that reduces the squared errors of some groups by a fifth, as far as samples suffice."""
    now = errors.at(plan.reference.astype(np.float64), plan.pool.astype(np.float64))
    allowed = np.maximum(now / _STEP, _NEARLY * errors.least)
    reference, pool = plan.reference.copy(), plan.pool.copy()
    for g in np.flatnonzero(which):
        found = _cheapest(errors, int(g), float(allowed[g]), costs, int(plan.reference[g]))
        reference[g], pool[g] = (math.ceil(count - 1e-9) for count in found)
    return Allocation(reference, pool, plan.cost).at_least(plan)


def _allowed(errors: Errors, precision: float, confidence: float, finite: bool) -> Floats:
    """Return the squared error v of each group with which all intervals are short enough.

    The interval of group h is short enough if Σ_g A[h, g] v_g ≤ b_h, which adds its own error and that of its rest.
    Every group gets the same share of the error that its own interval alone would allow. (Dual prices of the intervals
    would give the lowest cost. In experiments with networks they fitted the noise of the pilot, and the result was more
    expensive and less precise.) A group that cannot reach its share gets nearly its smallest possible error, and the
    other groups compensate in its rest.
    """
    floor = _NEARLY * errors.least
    weights, room = _constraints(errors.mean, errors.sizes, precision, confidence, finite)
    alone = np.maximum(room, 0.0) * errors.mean**2
    whole, allowed = np.zeros(len(room), dtype=np.bool_), floor
    for _ in range(len(room) + 1):
        left = (room - weights @ np.where(whole, floor, 0.0))[~whole]
        moving = (weights @ np.where(whole, 0.0, alone))[~whole]
        share = float((left / np.maximum(moving, 1e-300)).min()) if len(left) else 0.0
        allowed = np.where(whole, floor, max(0.0, share) * alone)
        short = ~whole & (allowed < floor)
        if not short.any():
            break
        whole |= short
    return np.where(errors.mean > 0, np.maximum(allowed, floor), np.inf)


def _constraints(mean: Floats, sizes: Ints, precision: float, confidence: float, finite: bool) -> tuple[Floats, Floats]:
    """Return A and b of Σ_g A[h, g] v_g ≤ b_h. A group without an interval, because a mean is 0, has no constraint."""
    z2 = student_quantile((1 + confidence) / 2, _FREEDOM) ** 2
    if len(mean) == 1:
        return np.ones((1, 1)), np.where(mean > 0, precision**2 / z2 * mean**2, 1.0)
    zero = np.zeros_like(mean)
    rest = rest_means(mean, zero, zero, zero + np.inf, sizes, finite=finite)
    defined = (mean > 0) & (rest.mean > 0)
    own, others = np.where(defined, mean, 1.0), np.where(defined, rest.mean, 1.0)
    share = np.where(np.eye(len(mean), dtype=np.bool_), 0.0, sizes) / (sizes.sum() - sizes)[:, None]
    weights = np.diag(1 / own**2) + (share / others[:, None]) ** 2
    room = precision**2 / z2 * (others / own) ** 2 - rest.error2 / others**2
    return np.where(defined[:, None], weights, 0.0), np.where(defined, room, 1.0)


def _cheapest(errors: Errors, g: int, allowed: float, costs: tuple[float, float], least: int) -> tuple[float, float]:
    """Return the numbers of reference and pool samples of one group with the lowest cost."""
    size, able = float(errors.sizes[g]), float(errors.able[g])
    drawn2, pool2 = float(errors.drawn2[g]), float(errors.pool2[g])
    limit = allowed + float(errors.known[g])
    most = max(1.0, able * size)
    if math.isinf(limit) or (pool2 <= 0 and drawn2 <= 0):
        return min(least, most), min(size, max(1.0, least / max(able, 1e-12)))
    if limit <= 0:
        return most, size
    unit = (math.sqrt(drawn2 * costs[1]) + math.sqrt(pool2 * costs[0])) / limit
    pool = unit * math.sqrt(pool2 / costs[0]) if costs[0] > 0 else size
    reference = unit * math.sqrt(drawn2 / costs[1])
    if pool > size:
        pool, room = size, limit - pool2 / size
        reference = drawn2 / room if room > 0 else most
    reference = min(max(reference, least), most)
    return reference, min(size, max(pool, reference / able if able > 0 else size))
