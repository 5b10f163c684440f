"""Curves before and after AdvERM, and how wide the gap between them is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin_papers.nanda2020.gaps import Change
from fairmargin_papers.shared.pictures import COLOURS, MARKERS, panels, styled

_GRID = 200
_REACH = 0.995  # of the samples' distances are shown


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
    """Left the relative gap, right the accuracy; a line for each network and group, before above after."""
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
    axes[0].set_xscale("log")  # a regulariser that is too strong opens gaps of another size
    axes[0].xaxis.set_major_formatter("{x:g}")
    axes[0].set_yticks(range(len(changes)), [change.name for change in changes])
    axes[0].invert_yaxis()
    figure.legend(*axes[1].get_legend_handles_labels(), fontsize=9, loc="outside lower center", ncols=2)
    return figure
