"""Group means of an expensive distance from a few of its values and many cheap distances (a control variate).

Every sample of a pool has a cheap distance, and some have the reference distance r. With a prediction f of r from the
cheap distance,

    mean of r  =  mean of f over the pool  +  mean of r − f over the samples with r.

The second term corrects the error of the first, so that the mean is unbiased for every prediction; a good prediction
makes the interval short. The prediction of a sample never comes from a fit that used its r (cross-fitting).
Misclassified samples have distance 0 in both, and need no reference.

The samples for the reference are drawn at random: each correct sample of a group with probability min(1, k · size). Its
size grows with its cheap distance if the unexplained part of r does. Equal sizes give plain random samples.

Number of samples: a mean depends on the largest distances. If 2 % of the samples of a group lie 30 times as far as the
others, they contribute 38 % of the mean, and more than half of all draws of 30 samples contain none of them. The
observed variance is then too small, and an interval from it is wrong. There are two precautions: a group counts as
precise only after so many samples that a far sample would have been among them, and the largest deviation in a group
counts as at least the average over all groups.

References
----------
A. Angelopoulos, S. Bates, C. Fannjiang, M. Jordan, T. Zrnic, "Prediction-powered inference", Science 2023;
A. Angelopoulos, J. Duchi, T. Zrnic, "PPI++: efficient prediction-powered inference", 2023; T. Zrnic, E. Candès,
"Cross-prediction-powered inference", PNAS 2024, and "Active statistical inference", ICML 2024; C.-E. Särndal,
B. Swensson, J. Wretman, "Model assisted survey sampling", 1992; E. Ohlsson, "Sequential Poisson sampling", 1998.
"""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.inference.precision.prediction import cross_predictions

_FLAT = 0.25  # part of the size that is equal for all samples, so that no weight exceeds four times the mean weight
_FEWEST_DEGREES = 4.0  # quantiles of Student's t are very large with fewer
_HIGHEST = 0.99  # quantile of the cheap distances above which sizes are equal


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Samples of all groups with their cheap distances and, for some, their reference distances.

    Parameters
    ----------
    group
        Group of each sample as a number 0 … G−1.
    sizes
        Number of samples that each group has in all. The pool is a random part of them.
    correct
        Whether each sample can have a distance above 0 according to the cheap estimator.
    cheap
        Cheap distance of each sample; `inf` is allowed. If all are equal, the result is that of the reference alone.
    reference
        Reference distance of each sample; NaN where it was not measured.
    chance
        Probability with which each correct sample of the pool was drawn for the reference; above 0.
    size
        Size of each sample for a draw by size, see `sizes_by`. Needed also if the draw was not by size.
    """

    group: Ints
    sizes: Ints
    correct: Bools
    cheap: Floats
    reference: Floats
    chance: Floats
    size: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Means:
    """Estimated mean of each group, its error, and the parts of the error. One entry per group.

    Parameters
    ----------
    mean, error2, third, freedom
        Estimate, its squared standard error and third cumulant, and the degrees of freedom of the squared error.
    spread2
        Variance of r over all samples, including those with distance 0.
    equal2, sized2
        Squared error times n if the reference measures n correct samples, drawn with equal probabilities or by size.
    correlation
        Correlation of r with f over all samples; 0 if f is useless.
    share
        Share of correct samples.
    pool, measured
        Number of samples in the pool, and of those that the reference measured.
    largest
        Largest share of the squared error that comes from one sample.
    """

    mean: Floats
    error2: Floats
    third: Floats
    freedom: Floats
    spread2: Floats
    equal2: Floats
    sized2: Floats
    correlation: Floats
    share: Floats
    pool: Ints
    measured: Ints
    largest: Floats


def sizes_by(cheap: Floats) -> Floats:
    """Return the size of each sample for the draw: a quarter is equal for all, the rest grows with the cheap distance.

    >>> sizes_by(np.array([0.0, 1.0, 3.0])).round(2).tolist()
    [0.25, 0.81, 1.94]
    """
    finite = cheap[np.isfinite(cheap)]
    if not finite.size or finite.max() <= 0:
        return np.ones(len(cheap))
    capped = np.minimum(cheap, np.quantile(finite, _HIGHEST, method="higher"))
    return np.asarray(_FLAT + (1 - _FLAT) * capped / capped.mean())


def chances(size: Floats, count: int, least: float = 0.0) -> Floats:
    """Return probabilities min(1, max(least, k · size)) that add up to `count`, or 1 if there are fewer samples.

    >>> chances(np.array([1.0, 1.0, 2.0, 8.0]), 2).round(2).tolist()
    [0.25, 0.25, 0.5, 1.0]
    """
    if count >= len(size):
        return np.ones(len(size))
    low, high = 0.0, 1.0 / float(size.min())
    for _ in range(45):
        middle = (low + high) / 2
        if np.clip(middle * size, least, 1.0).sum() < count:
            low = middle
        else:
            high = middle
    return np.asarray(np.clip(high * size, max(least, 1e-12), 1.0))


def control_variate_means(pool: Pool, *, finite: bool) -> Means:
    """Estimate the mean reference distance of every group.

    Guarantee: useless cheap distances give the estimate of the reference alone with a slightly larger error. If the
    reference measured every sample, the estimate is the plain mean.

    Parameters
    ----------
    pool
        The samples.
    finite
        Whether the target is the mean over the `pool.sizes` existing samples instead of the population.

    >>> rng = np.random.default_rng(0)
    >>> cheap = rng.gamma(2, 1, 1000)
    >>> reference = np.where(np.arange(1000) < 100, cheap * 1.1 + 0.1 * rng.normal(size=1000), np.nan)
    >>> everyone = np.zeros(1000, dtype=np.int64), np.array([1000]), np.ones(1000, dtype=np.bool_)
    >>> found = control_variate_means(Pool(*everyone, cheap, reference, np.full(1000, 0.1), cheap), finite=True)
    >>> bool(abs(found.mean[0] - 1.1 * cheap.mean()) < 0.03), bool(found.error2[0] < 0.002)
    (True, True)
    """
    # The fit uses squared weights, because a residual enters the error with the square of its weight.
    predicted = cross_predictions(pool.cheap, pool.reference, pool.chance**-2.0, pool.group, pool.correct)
    order = np.argsort(pool.group, kind="stable")
    cuts = np.searchsorted(pool.group[order], np.arange(1, len(pool.sizes)))
    parts = [_Part.of(pool, predicted, own) for own in np.split(order, cuts)]
    scale = np.array([part.centre for part in parts])
    left2, deviation2 = (
        usual_largest2(np.array([each.max() if each.size else np.nan for each in squares]), scale)
        for squares in ([part.residual2 for part in parts], [part.deviation2 for part in parts])
    )
    rows = [
        part.mean(int(size), finite, float(left), float(deviation))
        for part, size, left, deviation in zip(parts, pool.sizes, left2, deviation2, strict=True)
    ]
    return Means(*(np.array(column) for column in zip(*rows, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Correct samples of one group: predictions of all, and reference distances of some."""

    total: int
    predicted: Floats  # of the correct samples
    sizes: Floats  # of the correct samples
    chance: Floats  # this and the following arrays have one entry per sample that the reference measured
    size: Floats
    weight: Floats
    offset: float  # mean of r − f
    centre: float  # mean of r
    left: Floats  # r − f minus its mean
    deviation: Floats  # r minus its mean
    residual2: Floats
    deviation2: Floats

    @classmethod
    def of(cls, pool: Pool, predicted: Floats, own: Ints) -> "_Part":
        right = own[pool.correct[own]]
        few = right[~np.isnan(pool.reference[right])]
        n, r, f, chance = len(few), pool.reference[few], predicted[few], pool.chance[few]
        weight = 1 / chance / (1 / chance).sum()
        left = r - f
        offset, centre = (float(weight @ left), float(weight @ r)) if n else (np.nan, np.nan)
        again = n / (n - 1) if n > 1 else np.nan
        return cls(
            len(own), predicted[right], pool.size[right], chance, pool.size[few], weight, offset, centre,
            left - offset, r - centre, again * (left - offset) ** 2, again * (r - centre) ** 2,
        )  # fmt: skip

    def mean(self, everyone: int, finite: bool, usual_left2: float, usual_deviation2: float) -> tuple[float, ...]:
        """Return the entries of `Means`. The largest squares count as at least the given averages over the groups."""
        n, able, total, weight = len(self.chance), len(self.predicted), self.total, self.weight
        share = able / total
        if not able:
            return (0.0, 0.0, 0.0, np.inf, 0.0, 0.0, 0.0, 0.0, share, total, 0, 0.0)
        if n < 2:
            return (*(np.nan,) * 8, share, total, n, np.nan)
        unseen_left2 = max(0.0, usual_left2 - float(self.residual2.max())) / n
        unseen_deviation2 = max(0.0, usual_deviation2 - float(self.deviation2.max())) / n
        # Variance over all samples, from that over the correct ones.
        between2 = share * (1 - share) * self.centre**2
        spread2 = share * (float(weight @ self.deviation2) + unseen_deviation2) + between2
        left2 = share * (float(weight @ self.residual2) + unseen_left2)
        unknown = max(0.0, 1 / total - (1 / everyone if finite else 0.0))
        # Part of each measured sample in the squared error: of the draw from the pool, then of the pool itself.
        drawn = share**2 * weight**2 * (1 - self.chance) * self.residual2
        parts = drawn + share * weight * unknown * self.deviation2
        unseen2 = share**2 * (1 / n - 1 / able) * unseen_left2 + share * unknown * unseen_deviation2
        parts[parts.argmax()] += unseen2
        third = share**3 * float((weight * self.left) ** 3 @ (1 - self.chance))
        shifted = self.deviation + (1 - share) * self.centre
        third += unknown**2 * (share * float(weight @ shifted**3) - (1 - share) * (share * self.centre) ** 3)
        third += unseen2**1.5
        error2 = float(parts.sum()) + unknown * between2
        sized2 = share**2 * float(self.sizes.mean())
        sized2 *= float(weight @ (self.residual2 / self.size)) + unseen_left2 / float(weight @ self.size)
        correlation = float(np.sqrt(max(0.0, 1 - left2 / spread2))) if spread2 > 0 else 0.0
        largest = float(parts.max()) / error2 if error2 > 0 else 0.0
        mean = share * (float(self.predicted.mean()) + self.offset)
        return (
            mean, error2, third, _freedom(parts, error2), spread2, share * left2, sized2, correlation, share,
            total, n, largest,
        )  # fmt: skip


def _freedom(parts: Floats, error2: float) -> float:
    """Return the degrees of freedom of a squared error that is a sum of parts: half of 2 E² / Var.

    The half is a correction: a few samples of a skewed distribution rarely show how heavy its tail is. Without it,
    intervals from 30 samples cover 92 % instead of 95 % (tests/inference/test_control_variate.py).
    """
    n = len(parts)
    if error2 <= 0:
        return np.inf
    noise = n / (n - 1) * float(((parts - parts.mean()) ** 2).sum())
    return min(n - 1.0, max(_FEWEST_DEGREES, error2**2 / noise)) if noise > 0 else n - 1.0


FAR_SHARE = 0.02  # smallest share of far samples that should be noticed
SAMPLES = 250  # at that share, none of these is far with probability 0.98^250 = 0.6 %, and at most one with 4 %


def samples_needed(sizes: Ints, *, finite: bool) -> Floats:
    """Return the number of samples of each group that must be measured before its interval can count as precise.

    For a population it is `SAMPLES`. For the existing samples (`finite`) fewer suffice: the probability that a draw of
    n misses all far samples, which are `FAR_SHARE` of the group, is (1 − n / size)^(FAR_SHARE · size).

    >>> samples_needed(np.array([50, 500, 50_000]), finite=False).tolist()
    [250.0, 250.0, 250.0]
    >>> samples_needed(np.array([50, 500, 50_000]), finite=True).tolist()
    [50.0, 199.0, 250.0]
    """
    if not finite:
        return np.full(len(sizes), float(SAMPLES))
    missed = (1 - FAR_SHARE) ** (SAMPLES / (FAR_SHARE * sizes))
    return np.minimum(np.ceil(sizes * (1 - missed)), SAMPLES)


def usual_largest2(largest2: Floats, scale: Floats) -> Floats:
    """Return the largest squared deviation that each group is assumed to have at least: the mean, in units of `scale`.

    All groups may contain far samples, although they were drawn in some groups only. NaN marks unknown deviations.

    >>> usual_largest2(np.array([900.0, 4.0, np.nan]), np.array([1.0, 2.0, 1.0])).tolist()
    [450.5, 1802.0, 450.5]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        relative2 = largest2 / scale**2
    seen = np.isfinite(relative2)
    return np.asarray(scale**2 * (relative2[seen].mean() if seen.any() else 0.0))
