"""The gap between a group's robustness curve and that of the rest, before and after AdvERM, and its figures."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.capping import common_cap
from fairmargin_papers.nanda2020.studies import Setting, Target
from fairmargin_papers.shared.pictures import COLOURS, MARKERS, panels, styled
from fairmargin_papers.shared.trained import SeedMean, over_seeds


@dataclass(frozen=True, slots=True)
class Gap:
    """Comparison of a group with the rest on one network."""

    between: float  # area between both curves, ∫ |I_P(τ) − I_rest(τ)| dτ
    relative: float  # the area over ∫ I_rest(τ) dτ, which does not shrink merely because all distances do
    sigma: float  # (∫ I_P − ∫ I_rest) / ∫ I_rest, positive if the group is more robust
    bias: float  # RB(P, τ) of correct samples at the radius of AdvERM, which its regulariser reduces
    accuracy: float  # of all samples


def gap_of(distances: Distances, partition: Partition, group: str, radius: float) -> Gap:
    """Return the gap of one group; misclassified samples have distance 0 as in the paper, and are not in the bias.

    If no misclassified input was found for some sample, all distances are capped at a radius that was searched for
    every sample. The gap is NaN if the network has collapsed: no other sample is correct, or no boundary was found.

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
    """Plain networks and networks of AdvERM for one group, one pair per seed."""

    setting: Setting
    target: Target
    before: tuple[Gap, ...]
    after: tuple[Gap, ...]
    plain: tuple[Distances, ...]  # the distances from which `before` was calculated
    regularised: tuple[Distances, ...]  # the distances from which `after` was calculated
    partition: Partition  # groups of the measured samples

    @property
    def name(self) -> str:
        """Name for rows and figures, such as "CIFAR-10, small_cnn, truck, α = 1"."""
        return f"{self.setting.title}, {self.target.group}, α = {self.target.weight:g}"

    @property
    def collapsed(self) -> int:
        """Number of networks without a gap, because they predict one class for all samples."""
        return sum(math.isnan(gap.relative) for gap in (*self.before, *self.after))

    def difference(self, of: str) -> SeedMean:
        """Return after minus before of one field of the gap, paired by seed, over seeds."""
        if of != "accuracy" and self.collapsed:
            return SeedMean(math.nan, math.nan, math.nan)
        return over_seeds([getattr(b, of) - getattr(a, of) for a, b in self._pairs])

    def ratio(self, of: str) -> SeedMean:
        """Return after over before, the geometric mean over seeds with an interval on the scale of logarithms."""
        if self.collapsed:
            return SeedMean(math.nan, math.nan, math.nan)
        logs = over_seeds([math.log(getattr(b, of) / getattr(a, of)) for a, b in self._pairs])
        return SeedMean(*(float(np.exp(each)) for each in (logs.mean, logs.low, logs.high)))

    @property
    def _pairs(self) -> Iterable[tuple[Gap, Gap]]:
        return zip(self.before, self.after, strict=True)

    @property
    def median(self) -> float:
        """Median distance of the plain networks' correct samples."""
        return float(np.median(np.concatenate([each.values[each.correct] for each in self.plain])))

    def means(self, of: str) -> tuple[float, float]:
        """Return the means over seeds of one field of the gap, before and after."""
        before, after = (float(np.mean([getattr(gap, of) for gap in gaps])) for gaps in (self.before, self.after))
        return before, after


_GRID = 200
_REACH = 0.995  # share of the distances that the axis shows


@styled
def curves_picture(changes: Sequence[Change]) -> Figure:
    """Draw one row of panels per network and group: before on the left, after on the right."""
    figure, axes = panels(len(changes), 2, width=4.4, height=2.9, share_y=True)
    for row, change in enumerate(changes):
        inside = change.partition.membership == change.partition.labels.index(change.target.group)
        every = np.concatenate([each.values for each in (*change.plain, *change.regularised)])
        radii = np.linspace(0.0, float(np.quantile(every[np.isfinite(every)], _REACH)) or 1.0, _GRID)
        for axis, some, when in (
            (axes[2 * row], change.plain, "before"),
            (axes[2 * row + 1], change.regularised, f"AdvERM, α = {change.target.weight:g}"),
        ):
            _side(axis, radii, some, inside, change.target.group, 0)
            _side(axis, radii, some, ~inside, "the rest", 1)
            axis.axvline(change.setting.radius, color="#555555", linestyle=":", linewidth=1.2)
            axis.set(xlabel="radius τ (L2)", ylim=(0.0, 1.0), xlim=(0.0, radii[-1]))
            axis.set_title(f"{change.setting.title}: {when}", fontsize=10)
        axes[2 * row].set_ylabel("share right and farther than τ", fontsize=9)
        axes[2 * row + 1].legend(fontsize=8, loc="upper right")
    return figure


def _side(axis: Axes, radii: Floats, some: Sequence[Distances], which: Bools, label: str, number: int) -> None:
    curves = np.array([RobustnessCurve.of(each, which).at(radii) for each in some])
    dash = ("-", "--")[number]
    for curve in curves:
        axis.plot(radii, curve, color=COLOURS[number], linewidth=0.7, alpha=0.45)
    axis.plot(radii, curves.mean(axis=0), color=COLOURS[number], linestyle=dash, linewidth=2, label=label)


@styled
def gaps_picture(changes: Sequence[Change]) -> Figure:
    """Draw relative gaps (left) and accuracies (right), one line per network and group, before above after."""
    height = 1.3 + 0.55 * len(changes)
    figure, axes = panels(1, 2, width=4.8, height=height, share_y=True)
    for axis, of, name, scale in (
        (axes[0], "relative", "relative gap between the curves (log scale)", 1.0),
        (axes[1], "accuracy", "accuracy (%)", 100.0),
    ):
        for place, change in enumerate(changes):
            for number, (gaps, when) in enumerate(((change.before, "before"), (change.after, "after AdvERM"))):
                values = scale * np.array([getattr(gap, of) for gap in gaps])
                y = place + (0.15 if number else -0.15)
                style: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": "none"}
                axis.plot(values, np.full(len(values), y), markersize=4, alpha=0.7, **style)
                axis.plot(
                    values.mean(), y, markersize=11, mfc="none", mew=1.8, label=when if place == 0 else None, **style
                )
        axis.set_xlabel(name)
    axes[0].set_xscale("log")  # a regulariser that is too strong opens much larger gaps
    axes[0].xaxis.set_major_formatter("{x:g}")
    axes[0].set_yticks(range(len(changes)), [change.name for change in changes])
    axes[0].invert_yaxis()
    figure.legend(*axes[1].get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=2)
    return figure
