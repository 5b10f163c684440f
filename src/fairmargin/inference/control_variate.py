"""Group means of an expensive distance from few of them and many cheap ones (a control variate).

Every sample of a pool has a cheap distance, few have the reference's distance r. With a prediction f of r from the
cheap one,

    mean of r  =  mean of f over the pool  +  mean of r − f over the few:

the second part takes away what is wrong with the first, so that no prediction, however bad, makes the mean wrong; a
good one makes its interval short. Predictions of a sample never come from a fit that has seen its r (cross-fitting).
Misclassified samples have distance 0 either way, and need no reference.

Who is measured by the reference is drawn: in a group every correct sample has the chance min(1, k · size), where its
size grows with its cheap distance if what is left to know of it does. Equal sizes are plain random samples.

How many samples it takes to know whether a few percent of a group lie far away: a mean depends on its farthest
samples. If 2 % of the samples of a group lie 30 times as far as the others, they make up 38 % of the mean, and more
than half of all draws of 30 samples contain none of them: the spread then looks small, and an interval made from it
is wrong. Two precautions follow. No group counts as precise before so many samples are known that a far sample would
have been among them; and no group's largest deviation counts as smaller than is usual in all groups.

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
from fairmargin.inference.prediction import cross_predictions

_FLAT = 0.25  # of the mean cheap distance is in everyone's size: no weight is more than four times the mean one
_FEWEST_DEGREES = 4.0  # below, Student's quantiles explode
_HIGHEST = 0.99  # quantile of the cheap distances beyond which sizes grow no more


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """What is known of the samples of a pool.

    Parameters
    ----------
    group
        The position of each sample's group, 0 … G−1.
    sizes
        How many samples each group has in all, of which the pool is a random part.
    correct
        Which samples may have a distance above 0, as far as the cheap estimator knows.
    cheap
        Of every sample; `inf` is allowed. Equal numbers tell nothing: then the result is that of the reference alone.
    reference
        NaN where it was not measured.
    chance
        With which each correct sample was to be measured by the reference, given the pool; above 0.
    size
        By which larger samples would be drawn with a larger chance, see `sizes_by`; whether they were, `chance` says.
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
    """Each group's mean, what is not known of it, and why; one entry a group.

    Parameters
    ----------
    mean, error2, third, freedom
        The estimate, its squared standard error, its third cumulant, and the degrees of freedom of the squared error.
    spread2
        The variance of r, zeros included.
    left2
        The variance of r − f, zeros included.
    equal2, sized2
        What n correct samples measured by the reference leave of the squared error, times n, if drawn with equal
        chances, or by size.
    correlation
        Of r with f, zeros included; 0 where there is none.
    share
        Of samples that are classified correctly.
    pool, measured
        Samples of the pool, and those of them that the reference measured.
    largest
        The share of the squared error that comes from one sample.
    """

    mean: Floats
    error2: Floats
    third: Floats
    freedom: Floats
    spread2: Floats
    left2: Floats
    equal2: Floats
    sized2: Floats
    correlation: Floats
    share: Floats
    pool: Ints
    measured: Ints
    largest: Floats


def sizes_by(cheap: Floats) -> Floats:
    """Return the size of each sample in the draw: a quarter is equal for all, the rest follows its cheap distance.

    >>> sizes_by(np.array([0.0, 1.0, 3.0])).round(2).tolist()
    [0.25, 0.81, 1.94]
    """
    finite = cheap[np.isfinite(cheap)]
    if not finite.size or finite.max() <= 0:
        return np.ones(len(cheap))
    capped = np.minimum(cheap, np.quantile(finite, _HIGHEST, method="higher"))
    return np.asarray(_FLAT + (1 - _FLAT) * capped / capped.mean())


def chances(size: Floats, count: int, least: float = 0.0) -> Floats:
    """Return chances min(1, max(least, k · size)) that add up to `count`, or to as many samples as there are.

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
    """Estimate the mean of the reference’s distance in every group.

    Guarantee: the estimate is that of the reference alone, only less certain, if the cheap distances are useless; with
    the reference on every sample it is the plain mean. `finite`: the target is the mean over the samples there are
    (`sizes`), and not over the population that they come from.

    >>> rng = np.random.default_rng(0)
    >>> cheap = rng.gamma(2, 1, 1000)
    >>> reference = np.where(np.arange(1000) < 100, cheap * 1.1 + 0.1 * rng.normal(size=1000), np.nan)
    >>> everyone = np.zeros(1000, dtype=np.int64), np.array([1000]), np.ones(1000, dtype=np.bool_)
    >>> found = control_variate_means(Pool(*everyone, cheap, reference, np.full(1000, 0.1), cheap), finite=True)
    >>> bool(abs(found.mean[0] - 1.1 * cheap.mean()) < 0.03), bool(found.error2[0] < 0.002)
    (True, True)
    """
    # A residual enters the error with the square of its weight, and so it does the fit.
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
    """The samples of one group: what the reference found of few of them, and what is predicted of all."""

    total: int
    predicted: Floats  # of the correct samples
    sizes: Floats  # of the correct samples
    chance: Floats  # from here on, of those that the reference measured
    size: Floats
    weight: Floats
    offset: float  # mean of r − f
    centre: float  # mean of r
    left: Floats  # r − f about its mean
    deviation: Floats  # r about its mean
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
        """Return the entries of `Means`; the largest squares count as no less than is usual."""
        n, able, total, weight = len(self.chance), len(self.predicted), self.total, self.weight
        share = able / total
        if not able:
            return (0.0, 0.0, 0.0, np.inf, 0.0, 0.0, 0.0, 0.0, 0.0, share, total, 0, 0.0)
        if n < 2:
            return (*(np.nan,) * 9, share, total, n, np.nan)
        unseen_left2 = max(0.0, usual_left2 - float(self.residual2.max())) / n
        unseen_deviation2 = max(0.0, usual_deviation2 - float(self.deviation2.max())) / n
        # The variance of all, zeros included, from that of those that are not 0 by nature.
        between2 = share * (1 - share) * self.centre**2
        spread2 = share * (float(weight @ self.deviation2) + unseen_deviation2) + between2
        left2 = share * (float(weight @ self.residual2) + unseen_left2)
        unknown = max(0.0, 1 / total - (1 / everyone if finite else 0.0))
        # Each measured sample's part in the squared error: of the draw from the pool, then of the pool itself.
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
            mean, error2, third, _freedom(parts, error2), spread2, left2, share * left2, sized2, correlation, share,
            total, n, largest,
        )  # fmt: skip


def _freedom(parts: Floats, error2: float) -> float:
    """Return degrees of freedom of a squared error that is a sum of parts, 2 E² / Var: heavy tails leave few.

    Half of these: few samples of a skewed distance seldom hold those that show how heavy its tail is, and with all of
    them intervals of 30 samples cover 92 % where 95 % is asked (tests/inference/test_control_variate.py).
    """
    n = len(parts)
    if error2 <= 0:
        return np.inf
    noise = n / (n - 1) * float(((parts - parts.mean()) ** 2).sum())
    return min(n - 1.0, max(_FEWEST_DEGREES, error2**2 / noise)) if noise > 0 else n - 1.0


FAR_SHARE = 0.02  # the share of far samples that should not be missed
SAMPLES = 250  # of which none is far with a probability of 0.98^250 = 0.6 % at that share, and at most one of 4 %


def samples_needed(sizes: Ints, *, finite: bool) -> Floats:
    """Return how many samples of each group must be known before its interval can count as precise.

    For a population these are `SAMPLES`. If the target is the samples there are, fewer suffice: the probability that a
    draw misses all far samples, `FAR_SHARE` of the group, is then (1 − n / size)^(FAR_SHARE · size).

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
    """Return the least that counts as the largest squared deviation of each group: the mean over all, by their scales.

    A far sample was drawn in some groups and not in others, although all may contain such samples. NaN: unknown.

    >>> usual_largest2(np.array([900.0, 4.0, np.nan]), np.array([1.0, 2.0, 1.0])).tolist()
    [450.5, 1802.0, 450.5]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        relative2 = largest2 / scale**2
    seen = np.isfinite(relative2)
    return np.asarray(scale**2 * (relative2[seen].mean() if seen.any() else 0.0))
