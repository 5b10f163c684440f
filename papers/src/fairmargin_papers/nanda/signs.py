"""Signs of σ: how often two of them agree, beyond chance, and the intervals of σ and of agreements."""

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
from fairmargin_papers.shared.claims import Decision, Interval, Verdict, by_direction
from fairmargin_papers.shared.measures import Over, sigma
from fairmargin_papers.shared.trained import SeedMean, over_seeds

Sigmas = dict[str, float]
Pair = tuple[Sigmas, Sigmas]
NEGLIGIBLE = 0.1  # |σ| below this counts as no bias
_FEWEST_DATASETS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Measurements on one dataset."""

    name: str
    title: str
    seeds: tuple[int, ...]  # of all trainings
    linear_partitions: tuple[Partition, ...]  # groups of the samples on which logistic regressions are measured
    linear: Callable[[int, str], Distances]  # of the logistic regression of a seed, by an estimator
    partitions: tuple[Partition, ...]  # groups of the samples on which networks are measured
    networks: tuple[str, ...]
    warm: tuple[str, ...]  # networks that started with weights trained on other data
    look: Callable[[str, int, str, str], Distances]  # of a network of a seed, by estimator and epoch

    def distances(self, network: str, seed: int, by: str, epoch: str = "last") -> Distances:
        """Return the distances of a network of a seed, by an estimator, after an epoch."""
        return self.look(network, seed, by, epoch)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often two signs agree. Units are datasets, or networks if there are fewer than three datasets."""

    share: float  # mean over units of the share of groups with equal signs
    interval: Interval  # 95 % interval of the share
    chance: float  # mean over units of the share expected of two independent signs with the same frequencies
    agreeing: float  # groups with equal signs of an average network of each dataset, summed as in the paper
    groups: int  # all groups of an average network of each dataset, summed
    excess: Interval  # interval of share minus chance, paired by unit
    units: str  # description of the units
    by: Mapping[str, tuple[float, float]]  # share and chance of each dataset, by its title
    difference: SeedMean  # mean over groups of the first σ minus the second, over units
    variance: float  # of that difference over groups

    @property
    def level(self) -> float | None:
        """The share expected by chance; None if no group could be compared."""
        return self.chance if self.groups else None


def censored(distances: Distances) -> Distances:
    """Return the distances with unreached samples at the largest radius that was searched for any sample.

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
    """Return σ of every group that counts, by name; of two groups only the first, see `counting`.

    >>> d = Distances([1.0, 3.0, 1.0, 1.0], [True] * 4, "exact", "L2")
    >>> sigmas(d, [Partition.by("class", [0, 1, 2, 2]), Partition.by("sex", ["F", "F", "M", "M"])])
    {'0': -0.4, '1': 2.0, '2': -0.5, 'sex=F': 1.0}
    """
    found: Sigmas = {}
    for partition in partitions:
        values = sigma(censored(distances), partition, over=over)
        found |= {named(partition.name, label): values[label] for label in counting(partition)}
    return found


def counting(partition: Partition) -> tuple[str, ...]:
    """Return the groups that count: of two groups only the first, because the other has the opposite sign."""
    return partition.labels[:1] if len(partition.labels) == 2 else partition.labels


def named(partition: str, label: str) -> str:
    """Return the name of a group; classes are named without their partition."""
    return label if partition == "class" else f"{partition}={label}"


def agreement(pairs: Mapping[str, Sequence[Pair]]) -> Agreement:
    """Return how often two σ have the same sign, from the σ in two ways of each network of each dataset.

    Groups of one dataset are not independent, nor are networks that are measured on the same samples. Hence the
    interval is Student's t over datasets (over networks if there are one or two). It is never narrower than the exact
    binomial interval of all comparisons of an average network, because equal shares are no certainty. Chance is
    subtracted unit by unit.

    >>> same, other = {"a": 0.1, "b": -0.1}, {"a": 0.1, "b": 0.1}
    >>> found = agreement({"one": [(same, same)], "two": [(same, same)], "three": [(same, other)]})
    >>> round(found.share, 3), round(found.chance, 3), found.agreeing, found.groups
    (0.833, 0.5, 5.0, 6)
    """
    compared = {
        name: [each for each in (sign_agreement(*pair) for pair in some) if each.groups] for name, some in pairs.items()
    }
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
    doubts = agreeing / groups - low, high - agreeing / groups  # of independent groups, downwards and upwards
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
    """Return Student's interval, on neither side narrower than given."""
    mean, half = float(values.mean()), _half_width(values)
    return mean - max(half, least[0]), mean + max(half, least[1])


def above_chance(both: Agreement, narrow: Agreement) -> Verdict:
    """Decide whether signs agree more often than by chance, over all samples and also over correct ones.

    A class that is never predicted has σ = −1 in both ways, so that shared mistakes agree without further reason.
    """
    verdicts = {by_direction(each.excess, "above") for each in (both, narrow)}
    return verdicts.pop() if len(verdicts) == 1 else "undecided"


def decided(both: Agreement, narrow: Agreement) -> Decision:
    """Return the decision of a row on an agreement, see `above_chance`."""
    return Decision(above_chance(both, narrow), both.interval, both.level)


def _mean(some: Sequence[SignAgreement], name: str) -> float:
    return float(np.mean([getattr(each, name) for each in some]))


def mean_of_both(values: npt.ArrayLike) -> SeedMean:
    """Return the mean of numbers by seed (rows) and sample (columns), with a 95 % interval for both.

    All seeds are measured on the same samples, so that the error due to the samples does not shrink with more seeds.
    Half of the width is √((t·s/√S)² + (z·e)²), with the standard deviation s of the means of S seeds, and the standard
    error e of the means of the samples.

    >>> mean_of_both([[0.0, 1.0] * 50, [0.0, 1.0] * 50]).text()
    '0.500 ± 0.098'
    """
    rows = np.asarray(values, dtype=np.float64)
    seeds = _half_width(rows.mean(axis=1))
    half = float(np.hypot(seeds, _normal(0.95) * rows.mean(axis=0).std() / np.sqrt(rows.shape[1])))
    mean = float(rows.mean())
    return SeedMean(mean, mean - half, mean + half)


def _half_width(values: npt.ArrayLike) -> float:
    """Return half of the width of Student's 95 % interval, which is 0 if all values are equal."""
    given = np.asarray(values, dtype=np.float64)
    if len(given) == 1:
        return math.inf
    return float(stats.t.ppf(0.975, len(given) - 1) * given.std(ddof=1) / np.sqrt(len(given)))


def sigma_of(
    distances: Sequence[Distances], group: npt.NDArray[np.bool_], confidence: float = 0.95, fewest: int = 5
) -> SeedMean:
    """Return σ of a group over seeds, with an interval that includes seeds and samples (only samples for one seed).

    The interval is calculated on the scale of ln(1 + σ), the logarithm of a quotient of means, so that no limit lies
    below −1. It is the whole line if fewer than `fewest` samples of the group, or of the rest, have a distance above 0:
    ten distances of 0 have no variance, but are little evidence.
    """
    values = np.array([censored(each).values for each in distances])
    own, rest = values[:, group].mean(axis=1), values[:, ~group].mean(axis=1)
    if (rest == 0).any():  # no robust sample with which the group could be compared
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
    """Return one number per sample, with mean ln(1 + σ) and the variance of the logarithm of a quotient of means."""
    own, rest = values[group].mean(), values[~group].mean()
    share = group.mean()
    moves = np.where(group, (values / own - 1) / share, (1 - values / rest) / (1 - share))
    return np.asarray(np.log(own / rest) + moves)


def biased(interval: Interval) -> bool | None:
    """Return True if the interval of σ excludes 0, False if all of it is negligible, and None otherwise.

    >>> biased((0.02, 0.3)), biased((-0.05, 0.04)), biased((-0.2, 0.1))
    (True, False, None)
    """
    low, high = interval
    if low > 0 or high < 0:
        return True
    return False if low > -NEGLIGIBLE and high < NEGLIGIBLE else None


def _normal(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
