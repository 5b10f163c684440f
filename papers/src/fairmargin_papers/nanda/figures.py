"""Figures of Nanda's experiments: curves of groups, maps of σ, agreement of signs, and a pair of pictures."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.models.linear import LinearClassifier
from fairmargin_papers.nanda.signs import Agreement, Sigmas, censored
from fairmargin_papers.shared.measures import sigma
from fairmargin_papers.shared.pictures import (
    COLOURS,
    DIVERGING,
    MARKERS,
    as_picture,
    heat_map,
    line_style,
    panels,
    styled,
)

_COLUMNS = 3
_READABLE = 30  # maximum number of rows of a map with names and numbers
_STRONGEST = 1.0  # |σ| of the strongest colours
_BROAD = 0.98  # share of the distances that the axis shows


@styled
def class_curves(shown: Sequence[tuple[str, Distances, Partition]]) -> Figure:
    """Draw I(τ) of every class (thin) and their mean (thick), one panel per dataset."""
    figure, axes = _grid_of(len(shown))
    for axis, (title, distances, partition) in zip(axes, shown, strict=False):
        radii = np.linspace(0, _reach(distances), 200)
        curves = np.array([RobustnessCurve.of(censored(distances), mask).at(radii) for _, mask in partition])
        axis.plot(radii, curves.T, color=COLOURS[0], linewidth=0.7, alpha=0.55)
        axis.plot(radii, curves.mean(axis=0), color=COLOURS[1], linewidth=2.2)
        _name_axes(axis, f"{title} ({len(curves)} classes)")
    handles = [
        Line2D([], [], color=COLOURS[0], linewidth=0.9, label="a class"),
        Line2D([], [], color=COLOURS[1], linewidth=2.2, label="mean of the classes"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=9)
    return figure


@styled
def group_curves(shown: Sequence[tuple[str, Distances, Partition]], columns: int = _COLUMNS) -> Figure:
    """Draw I(τ) of every group of a partition, one panel per given title, distances and partition."""
    figure, axes = _grid_of(len(shown), columns)
    for axis, (title, distances, partition) in zip(axes, shown, strict=False):
        radii = np.linspace(0, _reach(distances), 200)
        for number, (label, mask) in enumerate(partition):
            curve = RobustnessCurve.of(censored(distances), mask).at(radii)
            axis.plot(radii, curve, label=label, linewidth=1.5, **line_style(number))
        _name_axes(axis, title)
        axis.legend(fontsize=8, title=partition.name, title_fontsize=8)
    return figure


@styled
def sigma_maps(maps: Mapping[str, tuple[Sequence[str], Sequence[Sigmas]]]) -> Figure:
    """Draw σ of every group (rows) in every network and epoch (columns), one panel per estimator.

    `maps` holds by estimator the names of its columns, and the σ of all groups in each column.
    """
    groups = sorted(next(iter(maps.values()))[1][0], key=_by_leading_number)
    values = {
        name: np.array([[side[group] for side in sides] for group in groups]) for name, (_, sides) in maps.items()
    }
    if len(groups) > _READABLE:
        return _plain_maps({name: (columns, values[name]) for name, (columns, _) in maps.items()})
    most = max(len(columns) for columns, _ in maps.values())
    figure, axes = panels(len(maps), 1, width=3.4 + 0.6 * most, height=1.7 + 0.26 * len(groups))
    for axis, (name, (columns, _)) in zip(axes, maps.items(), strict=True):
        heat_map(axis, values[name].tolist(), groups, columns, unit="σ", limit=_STRONGEST)
        axis.set_title(name)
    return figure


def _by_leading_number(name: str) -> float:
    """Return a sorting key that puts ages first, in their order, and keeps the order of other groups."""
    leading = re.match(r"\d+", name)
    return float(leading.group()) if leading else math.inf


def _plain_maps(maps: Mapping[str, tuple[Sequence[str], Floats]]) -> Figure:
    """Draw maps of many groups without names and numbers, sorted by mean σ in the same order everywhere."""
    order = np.argsort(-np.clip(np.nan_to_num(np.hstack([values for _, values in maps.values()])), -1, 1).mean(axis=1))
    widths = [max(len(columns), 2) for columns, _ in maps.values()]
    figure = Figure(figsize=(1.5 + 0.55 * sum(widths), 2.0 + 0.06 * len(order)), layout="constrained")
    axes = figure.subplots(1, len(maps), squeeze=False, width_ratios=widths)[0]
    for axis, (name, (columns, values)) in zip(axes, maps.items(), strict=True):
        image = axis.imshow(values[order], cmap=DIVERGING, vmin=-_STRONGEST, vmax=_STRONGEST, aspect="auto")
        axis.grid(visible=False)
        axis.set_xticks(range(len(columns)), columns, rotation=30, ha="right", rotation_mode="anchor")
        axis.set_yticks([])
        axis.set_title(name)
    axes[0].set_ylabel(f"{len(order)} groups, by mean σ")
    figure.colorbar(image, ax=list(axes), label="σ", shrink=0.7)
    return figure


@styled
def agreement_picture(rows: Mapping[str, tuple[Agreement, float | None]]) -> Figure:
    """Draw how often signs agree, with intervals, each dataset, the level of chance, and the printed share if any."""
    figure, (axis,) = panels(1, 1, width=8.6, height=1.2 + 0.55 * len(rows))
    titles = list(dict.fromkeys(title for both, _ in rows.values() for title in both.by))
    for place, (both, printed) in enumerate(rows.values()):
        axis.plot(both.interval, [place, place], color="#222222", linewidth=1.4, zorder=1)
        axis.plot(both.share, place, "|", color="#222222", markersize=15, markeredgewidth=2.2, zorder=2)
        axis.plot(both.chance, place, marker="x", color="#777777", markersize=8, linestyle="", zorder=2)
        if printed is not None:
            axis.plot(printed, place + 0.28, marker="*", color="#222222", markersize=8, linestyle="", zorder=2)
        for title, (share, chance) in both.by.items():
            number = titles.index(title)
            style: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": ""}
            axis.plot(share, place - 0.2, markersize=5, **style)
            axis.plot(chance, place - 0.2, markersize=4, markerfacecolor="none", alpha=0.6, **style)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.invert_yaxis()
    axis.set(xlabel="share of groups in which both σ have the same sign", xlim=(0, 1.02))
    handles = [
        Line2D([], [], color="#222222", marker="|", markersize=12, markeredgewidth=2.2, label="mean and 95 % interval"),
        Line2D([], [], color="#777777", marker="x", linestyle="", label="by chance (of a dataset: hollow)"),
        Line2D([], [], color="#222222", marker="*", linestyle="", label="printed"),
        *(
            Line2D([], [], color=COLOURS[number], marker=MARKERS[number], linestyle="", label=title)
            for number, title in enumerate(titles)
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def _grid_of(count: int, most: int = _COLUMNS) -> tuple[Figure, list[Axes]]:
    columns = min(count, most)
    rows = -(-count // columns)
    figure, axes = panels(rows, columns, width=4.0, height=3.1)
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes


def _reach(distances: Distances) -> float:
    """Return the end of the axis, which does not depend on misclassified samples."""
    away = distances.values[np.isfinite(distances.values) & (distances.values > 0)]
    return float(np.quantile(away, _BROAD)) if len(away) else 1.0


def _name_axes(axis: Axes, title: str) -> None:
    axis.set(
        xlabel="distance τ (L2, pixels in [0, 1])",
        ylabel="share right and farther than τ",
        ylim=(0, 1.02),
        xlim=(0, None),
    )
    axis.set_title(title, fontsize=10)


_BEYOND = 1e-6  # relative length of a step beyond the boundary


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """A picture before and after a step of at most the budget towards its nearest boundary."""

    before: Floats
    after: Floats
    label: str
    prediction: str  # after the step
    distance: float  # exact distance from the boundary


def image_pair(model: LinearClassifier, test: Dataset, classes: Partition) -> tuple[Attacked, Attacked, float]:
    """Choose the median correct picture of the least and most robust class, and a budget between their distances.

    Guarantee: no change within the budget flips the second, because the distances of a linear model are exact.
    """
    x, y = np.asarray(test.x), np.asarray(test.y, dtype=np.int64)
    distances = measure(model, test.x, y, ExactLinear(), progress=False)
    scores = {label: value for label, value in sigma(distances, classes).items() if value == value}
    masks = dict(iter(classes))
    there = [label for label in scores if (masks[label] & distances.correct).any()]
    middle = {label: _median_at(distances.values, masks[label] & distances.correct) for label in there}
    weak = min(there, key=lambda label: distances.values[middle[label]])
    strong = max(there, key=lambda label: distances.values[middle[label]])
    near, far = (float(distances.values[middle[label]]) for label in (weak, strong))
    budget = float(np.sqrt(near * far))
    first, second = (
        _attacked(model, test, x[middle[label]], int(y[middle[label]]), label, budget, distance)
        for label, distance in ((weak, near), (strong, far))
    )
    return first, second, budget


def _median_at(values: Floats, which: Bools) -> int:
    """Return the position of the sample with the (lower) median distance."""
    members = np.flatnonzero(which)
    return int(members[np.argsort(values[members], kind="stable")[(len(members) - 1) // 2]])


def _attacked(
    model: LinearClassifier, test: Dataset, x: Floats, y: int, label: str, budget: float, distance: float
) -> Attacked:
    """Move a picture straight to the nearest point of the boundary, or as far as the budget allows."""
    nearest = ExactLinear().closest(model, x[None], np.array([y]))[0]
    way = (nearest - x) / distance
    after = np.clip(x + way * min(budget, distance * (1 + _BEYOND)), 0.0, 1.0)
    said = int(model.predict(after[None])[0])
    name = test.class_names[said] if test.class_names else str(said)
    return Attacked(x, after, label, name, distance)


@styled
def pair_picture(first: Attacked, second: Attacked, budget: float) -> Figure:
    """Draw both pictures before and after, and the change, enlarged."""
    figure, axes = panels(2, 3, width=2.5, height=2.5)
    # Both changes are enlarged by the same factor, which shows that the first stops just beyond its boundary.
    scale = max(float(np.abs(each.after - each.before).max()) for each in (first, second)) or 1.0
    for row, each in enumerate((first, second)):
        change = each.after - each.before
        flips = each.prediction != each.label
        titles = (
            f"{each.label}, distance {each.distance:.2f}",
            f"change, ×{0.5 / scale:.0f}",
            f"now: {each.prediction}" + (", flipped" if flips else ", as before"),
        )
        for axis, content, title in zip(
            axes[3 * row : 3 * row + 3], (each.before, 0.5 + 0.5 * change / scale, each.after), titles, strict=True
        ):
            picture = as_picture(content)
            axis.imshow(picture, cmap="gray" if picture.ndim == 2 else None, vmin=0, vmax=1, interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
            axis.grid(visible=False)
            axis.set_title(title, fontsize=10, loc="center")
    figure.supxlabel(f"budget τ = {budget:.2f} (L2, pixels in [0, 1])", fontsize=10)
    return figure
