"""FARMUR's curves by group, and its table of three trainings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fairmargin.core.arrays import Floats
from fairmargin.core.curve import RobustnessCurve
from fairmargin_papers.farmur.measures import Trio, over_sound_seeds
from fairmargin_papers.farmur.studies import METHODS, TABLE
from fairmargin_papers.shared.page import number
from fairmargin_papers.shared.paper import Table
from fairmargin_papers.shared.pictures import COLOURS, MARKERS, line_style, panels, styled

_GRID = 200
_PRINTED = {"lenet": "", "alexnet": "AlexNet", "cifar10": "ResNet-18", "utkface": "UTK Classifier"}
_REACH = 0.999  # share of the distances that the axis shows
_MEAN: dict[str, Any] = {"color": "#000000", "linestyle": "--", "linewidth": 2.2}


@styled
def curves_picture(trios: Sequence[Trio]) -> Figure:
    """Draw one row of panels per network: natural, adversarial and FARMUR from left to right, on one scale."""
    figure, axes = panels(len(trios), len(METHODS), width=3.5, height=2.7, share_y=True)
    for row, trio in enumerate(trios):
        first = {method: trio.distances[method][0] for method in METHODS}
        every = np.concatenate([each.values for each in first.values()])
        radii = np.linspace(0.0, float(np.quantile(every[np.isfinite(every)], _REACH)) or 1.0, _GRID)
        for column, (method, distances) in enumerate(first.items()):
            axis = axes[len(METHODS) * row + column]
            curves = []
            for place, (label, which) in enumerate(trio.partition):
                curves.append(np.asarray(RobustnessCurve.of(distances, which).at(radii)))
                axis.plot(radii, curves[-1], linewidth=1, label=label, **line_style(place))
            axis.plot(radii, np.mean(curves, axis=0), label="mean", **_MEAN)
            axis.set(xlabel="radius τ (L2)", ylim=(0.0, 1.0), xlim=(0.0, radii[-1]))
            network = trio.networks[method][0]
            axis.set_title(f"{method}, seed 0: V_f = {network.variance:.2g}", fontsize=10)
        axes[len(METHODS) * row].set_ylabel(f"{trio.setting.title}\nshare right and farther than τ", fontsize=8)
        handles, labels = axes[len(METHODS) * row].get_legend_handles_labels()
        axes[len(METHODS) * (row + 1) - 1].legend(
            handles, labels, fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0
        )
    return figure


@styled
def table_picture(trios: Sequence[Trio]) -> Figure:
    """Draw one row of panels per network, with the printed numbers beside."""
    asked = (
        ("accuracy", "accuracy (%)", 100.0),
        ("robustness", "Rob(f) (L2)", 1.0),
        ("variance", "V_f (L2²)", 1.0),
        ("relative", "V_f / Rob(f)²", 1.0),
    )
    figure, axes = panels(len(trios), len(asked), width=2.9, height=2.3)
    for row, trio in enumerate(trios):
        table = TABLE[trio.setting.row]
        relative = tuple(v / r**2 for v, r in zip(table.variance, table.robustness, strict=True))
        printed = (table.accuracy, table.robustness, table.variance, relative)
        for column, ((of, name, scale), paper) in enumerate(zip(asked, printed, strict=True)):
            axis = axes[len(asked) * row + column]
            for place, method in enumerate(METHODS):
                values = scale * trio.values(method, of)
                style: dict[str, Any] = {"color": COLOURS[place], "marker": MARKERS[place], "linestyle": "none"}
                # A mark at V_f = 0 lies on the axis, and is not clipped there.
                axis.plot(np.full(len(values), place - 0.12), values, ms=3.5, alpha=0.7, clip_on=False, **style)
                axis.plot(place - 0.12, values.mean(), ms=10, mfc="none", mew=1.8, clip_on=False, **style)
            axis.plot(np.arange(3) + 0.2, paper, "x", color="#000000", ms=6, clip_on=False)
            axis.set_xticks(range(len(METHODS)), METHODS, fontsize=8)
            axis.set(xlim=(-0.5, 2.5))
            axis.set_ylabel(name, fontsize=9)
            axis.margins(y=0.15)
            if of != "accuracy":
                axis.set_ylim(bottom=0.0)
        theirs = _PRINTED[trio.setting.row]
        title = f"{trio.setting.title} (printed: {theirs})" if theirs else trio.setting.title
        axes[len(asked) * row].set_title(title, fontsize=10)
    marks = (("ours, a seed", "o", 3.5, "#666666"), ("ours, mean", "o", 10, "none"), ("printed", "x", 6, "#000000"))
    handles = [
        Line2D([], [], color="#000000" if marker == "x" else "#666666", marker=marker, ms=size, mfc=fill,
               linestyle="none", label=label)
        for label, marker, size, fill in marks
    ]  # fmt: skip
    figure.legend(handles=handles, fontsize=9, loc="outside lower center", ncols=3)
    return figure


_COLLAPSED = "one answer for all"


def trainings_table(trios: Sequence[Trio]) -> Table:
    """Return one row per network and training."""
    rows = []
    for trio in trios:
        printed = TABLE[trio.setting.row]
        for place, method in enumerate(METHODS):
            accuracy, robustness, variance = (
                numbers[place] for numbers in (printed.accuracy, printed.robustness, printed.variance)
            )
            rows.append(
                (
                    trio.setting.title,
                    method,
                    _ours(100 * trio.values(method, "accuracy"), 1),
                    f"{accuracy:.2f}",
                    _ours(trio.values(method, "robustness"), 3),
                    number(robustness),
                    _ours(trio.values(method, "variance"), 4),
                    number(variance),
                    _ours(trio.values(method, "relative"), 3),
                    number(variance / robustness**2),
                )
            )
    columns = ["network", "training"]
    for name in ("accuracy %", "Rob(f)", "V_f", "V_f / Rob(f)²"):
        columns += [name, "printed" if "/" not in name else "from print"]
    caption = (
        "Means over seeds ± half of their 95 % intervals, beside Table 1 of the paper, which is of larger networks."
    )
    return Table("trainings", caption, tuple(columns), tuple(rows))


def _ours(values: Floats, digits: int) -> str:
    return over_sound_seeds(values).text(digits=digits) if np.isfinite(values).all() else _COLLAPSED
