"""Pictures of the sweeps over λ (after the paper's Figures 3, 4 and 5)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairmargin.core.arrays import Floats
from fairmargin.core.radius import parse_radius
from fairmargin_papers.shared.pictures import COLOURS, MARKERS, line_style, panels, styled
from fairmargin_papers.tran.sweep import Curves, Sweep
from fairmargin_papers.tran.sweep_study import CROSS_ENTROPY, GROUP_LOSS, RAMP, penalised

WORDS = {CROSS_ENTROPY: "cross-entropy", RAMP: "ramp"}
_FIELDS = (
    ("natural", "natural error (%)", 100.0),
    ("violation", "violation (%)", 100.0),
    ("margin", "mean softmax margin", 1.0),
    ("distance", "mean distance (L2)", 1.0),
)
_GREY = "#666666"


@styled
def along_weights_picture(sweeps: Sequence[Sweep]) -> Figure:
    """Errors, violations and both distances against λ, a row of panels for each dataset."""
    figure, axes = panels(len(sweeps), len(_FIELDS), width=3.3, height=2.6)
    for row, sweep in enumerate(sweeps):
        for column, (field, words, scale) in enumerate(_FIELDS):
            axis = axes[row * len(_FIELDS) + column]
            for number, (loss, curves) in enumerate(sweep.curves.items()):
                _draw(axis, curves, scale * getattr(curves, field), WORDS[loss], number)
            worst = scale * float(getattr(sweep.group_loss, field).mean())
            axis.axhline(worst, color=_GREY, linestyle=":", linewidth=1.2, label="worst group’s loss")
            axis.set(xlabel="penalty λ", ylabel=words)
            _scaled_by_the_sound(axis, sweep, field, scale)
        axes[row * len(_FIELDS)].set_title(sweep.title)
    _legend_below(figure, axes[0], 3)
    return figure


@styled
def boundary_errors_picture(sweeps: Sequence[Sweep]) -> Figure:
    """Boundary errors under RFGSM against the radius, a line for each λ; cross-entropy beside ramp."""
    figure, axes = panels(len(sweeps), 2, width=4.4, height=2.9)
    for row, sweep in enumerate(sweeps):
        pair = axes[2 * row : 2 * row + 2]
        in_255, radii = _radii(sweep.plan.subject.radii)
        top = 100 * max(float(curves.boundary.max()) for curves in sweep.curves.values())
        for axis, loss in zip(pair, (CROSS_ENTROPY, RAMP), strict=True):
            if loss not in sweep.curves:
                axis.set_axis_off()
                continue
            curves = sweep.curves[loss]
            for i, weight in enumerate(curves.weights):
                errors = 100 * curves.boundary[:, i]
                _with_intervals(axis, radii, errors, f"λ = {weight:g}", i)
                if curves.collapsed[:, i].any():  # nobody flips who gives one answer to all: low, and no merit
                    _cross_out(axis, radii, errors.mean(axis=0))
            unit = "radius ε (1/255, L∞)" if in_255 else "radius ε (L∞)"
            axis.set(xlabel=unit, ylabel="boundary error (%)", ylim=(0, 1.05 * top), xticks=radii)
            axis.set_title(f"{sweep.title}, {WORDS[loss]}", fontsize=10)
    _legend_below(figure, axes[0], 5)
    return figure


@styled
def groups_picture(sweeps: Sequence[Sweep]) -> Figure:
    """Accuracy (left) and mean distance (right) of each group: plain, with a penalty, and by the worst group's loss."""
    figure, axes = panels(len(sweeps), 2, width=6.0, height=2.8)
    for row, sweep in enumerate(sweeps):
        groups = sweep.groups
        fair = sweep.curves[CROSS_ENTROPY].fair or (0,)
        weight = sweep.plan.subject.weights[fair[-1]]
        methods = {
            "λ = 0": penalised(CROSS_ENTROPY, 0.0),
            f"λ = {weight:g}": penalised(CROSS_ENTROPY, weight),
            "worst group’s loss": GROUP_LOSS,
        }
        for axis, values, words, scale in (
            (axes[2 * row], groups.accuracy, "accuracy (%)", 100.0),
            (axes[2 * row + 1], groups.distance, "mean distance (L2)", 1.0),
        ):
            places = np.arange(len(groups.labels))
            for number, (label, method) in enumerate(methods.items()):
                axis.bar(places + 0.27 * (number - 1), scale * values[method], 0.25, label=label, color=COLOURS[number])
            axis.set_xticks(places, groups.labels, rotation=30, ha="right", rotation_mode="anchor", fontsize=8)
            axis.set_ylabel(words)
            axis.grid(visible=False, axis="x")
        axes[2 * row].set_title(sweep.title)
        axes[2 * row + 1].legend(fontsize=7, ncols=3, loc="upper right")
        low, high = axes[2 * row + 1].get_ylim()
        axes[2 * row + 1].set_ylim(low, 1.2 * high)
    return figure


def _scaled_by_the_sound(axis: Axes, sweep: Sweep, field: str, scale: float) -> None:
    """One collapsed network can be ten times as far from its boundary as all others: it must not squeeze them.

    What collapsed is shown up to 1.5 times the largest number of a network that did not.
    """
    found = (*sweep.curves.values(), sweep.group_loss)
    kept = np.concatenate([scale * getattr(curves, field)[~curves.collapsed] for curves in found])
    bottom, top = axis.get_ylim()
    if kept.size and top > 1.5 * kept.max() > bottom:
        axis.set_ylim(bottom, 1.5 * float(kept.max()))


def _draw(axis: Axes, curves: Curves, values: Floats, label: str, number: int) -> None:
    _with_intervals(axis, np.asarray(curves.weights), values, label, number)
    gone = curves.collapsed.any(axis=0)
    _cross_out(axis, np.asarray(curves.weights)[gone], values[:, gone].mean(axis=0))


def _cross_out(axis: Axes, x: Floats, y: Floats) -> None:
    axis.plot(x, y, "x", color="#222222", markersize=10, label="_collapsed")


def _with_intervals(axis: Axes, x: Floats, values: Floats, label: str, number: int) -> None:
    """Means over seeds with bars from the least to the largest seed: intervals of three would hide lines."""
    means = values.mean(axis=0)
    spread = np.stack([means - values.min(axis=0), values.max(axis=0) - means])
    axis.errorbar(
        x, means, spread, label=label, marker=MARKERS[number], markersize=4, capsize=2, linewidth=1.4,
        elinewidth=0.8, **line_style(number),
    )  # fmt: skip


def _radii(spelled: Sequence[str]) -> tuple[bool, Floats]:
    in_255 = all(radius.endswith("/255") for radius in spelled)
    return in_255, np.array([parse_radius(radius) for radius in spelled]) * (255 if in_255 else 1)


def _legend_below(figure: Figure, axis: Axes, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)
