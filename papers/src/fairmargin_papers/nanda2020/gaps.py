"""How far a group's robustness curve lies from that of the rest, before and after AdvERM."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fairmargin.core.arrays import Bools
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.capping import common_cap
from fairmargin_papers.nanda2020.studies import Setting, Target
from fairmargin_papers.shared.trained import SeedMean, over_seeds


@dataclass(frozen=True, slots=True)
class Gap:
    """A group against the rest, on one network.

    Parameters
    ----------
    between
        The area between both curves, ∫ |I_P(τ) − I_rest(τ)| dτ.
    relative
        The same over ∫ I_rest(τ) dτ, which does not shrink merely because all distances do.
    sigma
        (∫ I_P − ∫ I_rest) / ∫ I_rest: its sign says who is more robust.
    bias
        RB(P, τ) at the radius that AdvERM looks at, among correct samples: what its regulariser pulls together.
    accuracy
        Of everyone.
    """

    between: float
    relative: float
    sigma: float
    bias: float
    accuracy: float


def gap_of(distances: Distances, partition: Partition, group: str, radius: float) -> Gap:
    """The gap of one group; misclassified samples count with distance 0, as in the paper's curves, but not in the bias.

    Where no misclassified input was found for some sample, all distances are capped at what is known of everyone. A
    network that has collapsed, so that nobody else is right or no boundary was found at all, has no gap: NaN.

    >>> from fairmargin.core.bound import Bound
    >>> from fairmargin.core.norm import Norm
    >>> found = Distances([3.0, 1.0, 1.0, 1.0], [True] * 4, Bound.EXACT, Norm.L2)
    >>> gap_of(found, Partition.by("sex", ["F", "F", "M", "M"]), "F", radius=2.0)
    Gap(between=1.0, relative=1.0, sigma=1.0, bias=0.5, accuracy=1.0)
    """
    if group not in partition.labels:
        raise InputError(f"Partition {partition.name!r} has no group {group!r}, only {', '.join(partition.labels)}.")
    inside = partition.membership == partition.labels.index(group)
    accuracy = float(distances.correct.mean())
    found = (distances.values > 0) & ~distances.unreached
    if not found.any() or not distances.correct[~inside].any():
        return Gap(math.nan, math.nan, math.nan, math.nan, accuracy)
    values = np.minimum(distances.values, common_cap(distances, math.inf)[0])
    own, rest = values[inside], values[~inside]
    between = float(stats.wasserstein_distance(own, rest))  # in one dimension, the area between two such curves
    bias = _robustness_bias(distances, inside, radius)
    return Gap(between, between / float(rest.mean()), float(own.mean() / rest.mean() - 1), bias, accuracy)


def _robustness_bias(distances: Distances, inside: Bools, radius: float) -> float:
    """Return RB(P, τ) = |Pr(d > τ | P, correct) − Pr(d > τ | not P, correct)| at one radius τ (Nanda 2021, Eq. 2)."""
    sides = [distances.values[side & distances.correct] for side in (inside, ~inside)]
    if not all(side.size for side in sides):
        return math.nan
    own, rest = (float(np.mean(side > radius)) for side in sides)
    return abs(own - rest)


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Plain networks and those of AdvERM for one group, a pair for each seed.

    Parameters
    ----------
    setting, target
        Data, network, group and the regulariser's weight.
    before, after
        The gaps, a seed each.
    plain, regularised
        The distances behind them.
    partition
        Of the samples measured.
    """

    setting: Setting
    target: Target
    before: tuple[Gap, ...]
    after: tuple[Gap, ...]
    plain: tuple[Distances, ...]
    regularised: tuple[Distances, ...]
    partition: Partition

    @property
    def name(self) -> str:
        """For people: "CIFAR-10, small_cnn, truck, α = 1"."""
        return f"{self.setting.title}, {self.target.group}, α = {self.target.weight:g}"

    @property
    def collapsed(self) -> int:
        """How many networks have no gap, since they give one answer to everything."""
        return sum(math.isnan(gap.relative) for gap in (*self.before, *self.after))

    def difference(self, of: str) -> SeedMean:
        """After minus before of one number of the gap, over seeds: each seed's networks start from the same weights."""
        if of != "accuracy" and self.collapsed:
            return SeedMean(math.nan, math.nan, math.nan)
        return over_seeds([getattr(b, of) - getattr(a, of) for a, b in self._pairs])

    def ratio(self, of: str) -> SeedMean:
        """After over before, over seeds: the geometric mean, its interval on the scale of logarithms."""
        if self.collapsed:
            return SeedMean(math.nan, math.nan, math.nan)
        logs = over_seeds([math.log(getattr(b, of) / getattr(a, of)) for a, b in self._pairs])
        return SeedMean(*(float(np.exp(each)) for each in (logs.mean, logs.low, logs.high)))

    @property
    def _pairs(self) -> Iterable[tuple[Gap, Gap]]:
        return zip(self.before, self.after, strict=True)

    @property
    def median(self) -> float:
        """The median distance of the plain networks' correct samples."""
        return float(np.median(np.concatenate([each.values[each.correct] for each in self.plain])))

    def means(self, of: str) -> tuple[float, float]:
        """Its mean before and after."""
        before, after = (float(np.mean([getattr(gap, of) for gap in gaps])) for gaps in (self.before, self.after))
        return before, after
