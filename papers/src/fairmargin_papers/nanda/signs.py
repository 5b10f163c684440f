"""Signs of σ: how often two of them agree, how far that is from chance, and how sure one may be of it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from scipy import stats

from fairmargin.core.arrays import Floats
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.agreement import SignAgreement, sign_agreement
from fairmargin.inference.shares import binomial_interval
from fairmargin_papers.shared.claims import Interval, Verdict, by_direction
from fairmargin_papers.shared.measures import Over, sigma
from fairmargin_papers.shared.trained import SeedMean, over_seeds

Sigmas = dict[str, float]
Pair = tuple[Sigmas, Sigmas]
NEGLIGIBLE = 0.1  # |σ| below this counts as no bias worth the name
_FEWEST_DATASETS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What was measured on one dataset.

    Parameters
    ----------
    name, title
        Of the dataset.
    seeds
        Of all trainings.
    linear_partitions, partitions
        The groups of the samples on which logistic regressions, and networks, are measured.
    linear
        Distances under the logistic regression of a seed, by an estimator.
    networks, warm
        Names of all networks, and which of them began with weights learnt elsewhere.
    look
        Distances under a network of a seed, by an estimator, after an epoch.
    """

    name: str
    title: str
    seeds: tuple[int, ...]
    linear_partitions: tuple[Partition, ...]
    linear: Callable[[int, str], Distances]
    partitions: tuple[Partition, ...] = ()
    networks: tuple[str, ...] = ()
    warm: tuple[str, ...] = ()
    look: Callable[[str, int, str, str], Distances] | None = None

    def distances(self, network: str, seed: int, by: str, epoch: str = "last") -> Distances:
        """Distances under a network."""
        assert self.look is not None
        return self.look(network, seed, by, epoch)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often two signs agree.

    Parameters
    ----------
    share, interval, chance
        The mean over units of the share of groups with equal signs, its 95 % interval, and the mean of what two
        independent signs with the same frequencies would reach.
    agreeing, groups
        Groups with equal signs and all groups, of an average network of each dataset, added up as the paper does.
    excess
        The interval of share less chance, unit by unit.
    units
        What the intervals are over, in words.
    by
        The share and the chance of each dataset, by its title.
    difference
        The mean over groups of the first σ minus the second, and its interval over the same units.
    variance
        Of that difference over groups.
    """

    share: float
    interval: Interval
    chance: float
    agreeing: float
    groups: int
    excess: Interval
    units: str
    by: Mapping[str, tuple[float, float]]
    difference: SeedMean
    variance: float

    @property
    def level(self) -> float | None:
        """The level of chance, if any group could be compared."""
        return self.chance if self.groups else None


def censored(distances: Distances) -> Distances:
    """The same with every unreached sample at the largest radius that anyone's search met: dropped, it would not count.

    >>> censored(Distances([1.0, np.inf], [True, True], "upper", "L2", tried=[1.0, 3.0])).values.tolist()
    [1.0, 3.0]
    """
    out = distances.unreached
    if not out.any():
        return distances
    farthest = distances.values[~out].max(initial=0.0)
    if distances.tried is not None:
        farthest = distances.tried[out].max(initial=farthest)
    return replace(distances, values=np.where(out, farthest, distances.values), tried=None)


def sigmas(distances: Distances, partitions: Sequence[Partition], over: Over = "all") -> Sigmas:
    """σ of every group that counts, by name; of two groups only the first, since the other has the opposite sign.

    >>> d = Distances([1.0, 3.0, 1.0, 1.0], [True] * 4, "exact", "L2")
    >>> sigmas(d, [Partition.by("class", [0, 1, 2, 2]), Partition.by("sex", ["F", "F", "M", "M"])])
    {'0': -0.4, '1': 2.0, '2': -0.5, 'sex=F': 1.0}
    """
    found: Sigmas = {}
    for partition in partitions:
        values = sigma(censored(distances), partition, over)
        found |= {named(partition.name, label): values[label] for label in counting(partition)}
    return found


def counting(partition: Partition) -> tuple[str, ...]:
    """The groups that count: of two only the first, since whatever is said of it is said of the other."""
    return partition.labels[:1] if len(partition.labels) == 2 else partition.labels


def named(partition: str, label: str) -> str:
    """A group's name: classes bear their own."""
    return label if partition == "class" else f"{partition}={label}"


def agreement(pairs: Mapping[str, Sequence[Pair]]) -> Agreement:
    """How often two σ have the same sign, over datasets, or over networks where there are fewer than three datasets.

    Groups of one dataset are not independent of each other, nor are networks that saw the same samples. So the interval
    is Student's t over datasets (over the networks of one or two). It is never narrower than the exact binomial one of
    all comparisons of an average network, as if they were independent: equal shares must not pass for certainty. Chance
    is subtracted unit by unit.

    Parameters
    ----------
    pairs
        By dataset, for each network the σ of its groups in two ways.

    >>> same, other = {"a": 0.1, "b": -0.1}, {"a": 0.1, "b": 0.1}
    >>> found = agreement({"one": [(same, same)], "two": [(same, same)], "three": [(same, other)]})
    >>> round(found.share, 3), round(found.chance, 3), found.agreeing, found.groups
    (0.833, 0.5, 5.0, 6)
    """
    compared = {name: [each for each in map(_compared, some) if each.groups] for name, some in pairs.items()}
    compared = {name: some for name, some in compared.items() if some}
    if not compared:
        nothing = SeedMean(np.nan, np.nan, np.nan)
        return Agreement(np.nan, (0.0, 1.0), np.nan, 0.0, 0, nothing.interval, "no groups", {}, nothing, np.nan)
    by = {name: (_mean(some, "share"), _mean(some, "chance")) for name, some in compared.items()}
    sizes = {name: round(_mean(some, "groups")) for name, some in compared.items()}
    agreeing, groups = sum(by[name][0] * size for name, size in sizes.items()), sum(sizes.values())
    everyone = [each for some in compared.values() for each in some]
    if len(by) >= _FEWEST_DATASETS:
        units, levels = f"{len(by)} datasets", np.array(list(by.values()))
        differences = [_mean(some, "mean_difference") for some in compared.values()]
    else:
        units, levels = f"{len(everyone)} networks", np.array([(each.share, each.chance) for each in everyone])
        differences = [each.mean_difference for each in everyone]
    low, high = binomial_interval(agreeing, groups, 0.95)
    doubts = agreeing / groups - low, high - agreeing / groups  # downwards and upwards, of independent groups
    shares, above = levels[:, 0], levels[:, 0] - levels[:, 1]
    mean, interval = float(shares.mean()), _around(shares, doubts)
    return Agreement(
        mean,
        (max(0.0, interval[0]), min(1.0, interval[1])),
        float(levels[:, 1].mean()),
        agreeing,
        groups,
        _around(above, doubts),
        units,
        by,
        over_seeds(differences),
        float(np.mean([each.variance_of_difference for each in everyone])),
    )


def _around(values: Floats, least: Interval) -> Interval:
    """Student's interval, on neither side narrower than given."""
    mean, half = float(values.mean()), _half_width(values)
    return mean - max(half, least[0]), mean + max(half, least[1])


def above_chance(both: Agreement, narrow: Agreement) -> Verdict:
    """Whether signs agree more often than by chance, over all samples and over correct ones alone.

    A class that nobody predicts has σ = −1 in both ways: shared mistakes agree by themselves, and must not decide.
    """
    verdicts = {by_direction(each.excess, "above") for each in (both, narrow)}
    return verdicts.pop() if len(verdicts) == 1 else "undecided"


def _compared(pair: Pair) -> SignAgreement:
    return sign_agreement(*pair)


def _mean(some: Sequence[SignAgreement], name: str) -> float:
    return float(np.mean([getattr(each, name) for each in some]))


def mean_of_both(values: npt.ArrayLike) -> SeedMean:
    """The mean of numbers that differ by seed (rows) and by sample (columns), with both in its 95 % interval.

    All seeds are measured on the same samples, so that the samples' share does not shrink with more seeds: half of the
    width is √((t·s/√S)² + (z·e)²), s over the seeds' means, e the standard error of the samples' means.

    >>> mean_of_both([[0.0, 1.0] * 50, [0.0, 1.0] * 50]).text()
    '0.500 ± 0.098'
    """
    rows = np.asarray(values, dtype=np.float64)
    seeds = _half_width(rows.mean(axis=1))
    half = float(np.hypot(seeds, _normal(0.95) * rows.mean(axis=0).std() / np.sqrt(rows.shape[1])))
    mean = float(rows.mean())
    return SeedMean(mean, mean - half, mean + half)


def _half_width(values: npt.ArrayLike) -> float:
    """Half of Student's 95 % interval; 0 if all are equal, so that another source of doubt must be added to it."""
    given = np.asarray(values, dtype=np.float64)
    if len(given) == 1:
        return math.inf
    return float(stats.t.ppf(0.975, len(given) - 1) * given.std(ddof=1) / np.sqrt(len(given)))


def sigma_of(
    distances: Sequence[Distances], group: npt.NDArray[np.bool_], confidence: float = 0.95, fewest: int = 5
) -> SeedMean:
    """σ of a group over seeds, with seeds and samples in its interval; of one seed the samples alone.

    Reckoned on the scale of ln(1 + σ), the logarithm of a quotient of means: no limit lies below −1, where σ ends. The
    interval is the whole line where fewer than `fewest` samples of the group, or of the rest, have a distance above 0:
    ten mistakes in a row have no spread, and yet say little.
    """
    values = np.array([censored(each).values for each in distances])
    own, rest = values[:, group].mean(axis=1), values[:, ~group].mean(axis=1)
    if (rest == 0).any():  # nobody else is robust at all: nothing to be compared with
        return SeedMean(np.nan, np.nan, np.nan)
    if min((values[:, side] > 0).sum(axis=1).min() for side in (group, ~group)) < fewest:
        return SeedMean(float((own / rest - 1).mean()), -np.inf, np.inf)
    lines = np.array([_linearised(row, group) for row in values])
    if len(lines) > 1:
        logs = mean_of_both(lines)
    else:
        half = _normal(confidence) * float(lines.std()) / np.sqrt(lines.shape[1])
        logs = SeedMean(float(lines.mean()), float(lines.mean()) - half, float(lines.mean()) + half)
    return SeedMean(*(float(np.expm1(each)) for each in (logs.mean, logs.low, logs.high)))


def _linearised(values: Floats, group: npt.NDArray[np.bool_]) -> Floats:
    """One number a sample, with mean ln(1 + σ) and the spread that the logarithm of two means' quotient has."""
    own, rest = values[group].mean(), values[~group].mean()
    share = group.mean()
    moves = np.where(group, (values / own - 1) / share, (1 - values / rest) / (1 - share))
    return np.asarray(np.log(own / rest) + moves)


def biased(interval: Interval) -> bool | None:
    """Whether σ is no accident: True if 0 is outside, False if all of the interval is negligible, None in between.

    >>> biased((0.02, 0.3)), biased((-0.05, 0.04)), biased((-0.2, 0.1))
    (True, False, None)
    """
    low, high = interval
    if low > 0 or high < 0:
        return True
    return False if low > -NEGLIGIBLE and high < NEGLIGIBLE else None


def verdict_of(answer: bool | None) -> Verdict:
    """The words for yes, no, and neither."""
    return "undecided" if answer is None else "holds" if answer else "does not hold"


def _normal(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
