"""Rob(f), V_f and V_f / Rob(f)² of networks, and how they change from one training to another."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.capping import common_cap
from fairmargin.inference.spread import debiased_variance
from fairmargin_papers.farmur.studies import Setting
from fairmargin_papers.shared.trained import SeedMean, over_seeds

_WIDTH = 1.959964  # half-width of a 95 % interval in standard errors


@dataclass(frozen=True, slots=True)
class Measured:
    """Numbers of one network."""

    accuracy: float  # of all samples
    robustness: float  # Rob(f), the mean over groups of their mean distance
    variance: float  # V_f, the variance of the groups' mean distances without the part due to sampling
    relative: float  # V_f / Rob(f)²
    groups: tuple[float, ...]  # Rob(P) of each group


def measured(distances: Distances, partition: Partition) -> Measured:
    """Return the numbers of one network; NaN for a network that predicts one class for all samples.

    >>> from fairmargin.core.bound import Bound
    >>> from fairmargin.core.norm import Norm
    >>> found = Distances([1.0, 1.0, 3.0, 3.0], [True] * 4, Bound.EXACT, Norm.L2)
    >>> measured(found, Partition.by("sex", ["F", "F", "M", "M"]))
    Measured(accuracy=1.0, robustness=2.0, variance=1.0, relative=0.25, groups=(1.0, 3.0))
    """
    accuracy = float(distances.correct.mean())
    if not ((distances.values > 0) & ~distances.unreached).any():
        return Measured(accuracy, math.nan, math.nan, math.nan, (math.nan,) * len(partition.labels))
    values = np.minimum(distances.values, common_cap(distances, math.inf)[0])
    means, errors = _moments(values, partition)
    robustness, variance = float(means.mean()), debiased_variance(means, errors)
    return Measured(accuracy, robustness, variance, variance / robustness**2, tuple(map(float, means)))


@dataclass(frozen=True, slots=True, eq=False)
class Trio:
    """The networks of a setting by training, one per seed."""

    setting: Setting
    partition: Partition  # groups of the measured samples
    distances: Mapping[str, tuple[Distances, ...]]
    networks: Mapping[str, tuple[Measured, ...]]

    def values(self, method: str, of: str) -> Floats:
        """Return one field of each network of a training."""
        return np.array([getattr(network, of) for network in self.networks[method]], dtype=float)

    def mean(self, method: str, of: str) -> float:
        """Return the mean of one field over seeds."""
        return float(self.values(method, of).mean())

    def change(self, before: str, after: str, of: str) -> SeedMean:
        """Return after minus before, paired by seed; NaN if a network collapsed.

        The interval includes the variation between seeds and that of the samples. The latter does not shrink with more
        seeds, because all seeds are measured on the same samples.
        """
        found = over_sound_seeds(self.values(after, of) - self.values(before, of))
        if math.isnan(found.mean):
            return found
        pairs = zip(self.distances[after], self.distances[before], strict=True)
        moves = [_influence(late, self.partition, of) - _influence(early, self.partition, of) for late, early in pairs]
        return found.widened(_half_width(np.mean(moves, axis=0), self.partition))

    def relative_change(self, before: str, after: str, of: str) -> SeedMean:
        """Return the relative change, after divided by before, minus 1."""
        first, second = self.values(before, of), self.values(after, of)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = second / first
        found = over_sound_seeds(ratios - 1)
        if math.isnan(found.mean):
            return found
        moves = [
            (_influence(late, self.partition, of) - ratio * _influence(early, self.partition, of)) / value
            for late, early, ratio, value in zip(
                self.distances[after], self.distances[before], ratios, first, strict=True
            )
        ]
        return found.widened(_half_width(np.mean(moves, axis=0), self.partition))


def trio(setting: Setting, partition: Partition, distances: Mapping[str, Sequence[Distances]]) -> Trio:
    """Return a trio from distances by the name of the training."""
    kept = {name: tuple(some) for name, some in distances.items()}
    numbers = {name: tuple(measured(each, partition) for each in some) for name, some in kept.items()}
    return Trio(setting, partition, kept, numbers)


def paired_change(before: Distances, after: Distances, partition: Partition, of: str) -> SeedMean:
    """Return after minus before of two single networks, with an interval for the samples drawn.

    Samples are paired. The interval linearises the field `of` ("accuracy", "robustness", "variance" or "relative") in
    the groups' means, and is too narrow if V_f is near 0.
    """
    change = getattr(measured(after, partition), of) - getattr(measured(before, partition), of)
    moves = _influence(after, partition, of) - _influence(before, partition, of)
    return SeedMean(change, change, change).widened(_half_width(moves, partition))


def _influence(distances: Distances, partition: Partition, of: str) -> Floats:
    """Return one number per sample; their means by group add up to the field, to first order up to a constant."""
    if of == "accuracy":
        sizes = np.bincount(partition.membership, minlength=len(partition.labels))
        return np.asarray(distances.correct * (sizes / sizes.sum())[partition.membership])
    values = np.minimum(distances.values, common_cap(distances, math.inf)[0])
    return np.asarray(values * _slopes(_moments(values, partition)[0], of)[partition.membership])


def _half_width(moves: Floats, partition: Partition) -> float:
    """Return half of the width of the 95 % interval of a sum of means by group, for the samples drawn."""
    return _WIDTH * math.sqrt(float(_moments(moves, partition)[1].sum()))


def _slopes(means: Floats, of: str) -> Floats:
    """Return the derivative of the field with respect to each group's mean."""
    groups, centre, variance = len(means), float(means.mean()), float(np.var(means))
    slope = 2 * (means - centre) / groups
    known = {
        "robustness": np.full(groups, 1 / groups),
        "variance": slope,
        "relative": slope / centre**2 - 2 * variance / (groups * centre**3),
    }
    return np.asarray(known[of])


def _moments(values: Floats, partition: Partition) -> tuple[Floats, Floats]:
    """Return the mean of each group, and its squared standard error."""
    some = [values[which] for _, which in partition]
    means = np.array([each.mean() for each in some])
    return means, np.array([each.var(ddof=1) / len(each) if len(each) > 1 else 0.0 for each in some])


def over_sound_seeds(values: Floats) -> SeedMean:
    """Return the mean of one number per seed; NaN if one of them is NaN, because a network collapsed."""
    if not np.isfinite(values).all():
        return SeedMean(math.nan, math.nan, math.nan)
    return over_seeds(values)
