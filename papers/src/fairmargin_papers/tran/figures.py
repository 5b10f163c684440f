"""Figures and tables of Tran's networks, after the paper's Figures 1 and 3 to 7."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairmargin.core.arrays import Floats
from fairmargin.core.radius import parse_radius
from fairmargin_papers.shared.paper import Table
from fairmargin_papers.shared.pictures import (
    COLOURS,
    as_picture,
    draw_picture,
    legend_below,
    panels,
    styled,
    with_range,
)
from fairmargin_papers.shared.trained import over_seeds
from fairmargin_papers.tran.hardening import Hardened
from fairmargin_papers.tran.pair import CASES, Example, Pair
from fairmargin_papers.tran.studies import CROSS_ENTROPY, GROUP_LOSS, RAMP, penalised
from fairmargin_papers.tran.sweep import Curves, Sweep

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
    """Draw errors, violations and both distances against λ, one row of panels per dataset."""
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
    """Draw boundary errors under RFGSM against the radius, one line per λ, cross-entropy beside ramp."""
    figure, axes = panels(len(sweeps), 2, width=4.4, height=2.9)
    for row, sweep in enumerate(sweeps):
        pair = axes[2 * row : 2 * row + 2]
        radii, unit = _radii(sweep.plan.subject.radii)
        top = 100 * max(float(curves.boundary.max()) for curves in sweep.curves.values())
        for axis, loss in zip(pair, (CROSS_ENTROPY, RAMP), strict=True):
            if loss not in sweep.curves:
                axis.set_axis_off()
                continue
            curves = sweep.curves[loss]
            for i, weight in enumerate(curves.weights):
                errors = 100 * curves.boundary[:, i]
                with_range(axis, radii, errors, f"λ = {weight:g}", i)
                if curves.collapsed[:, i].any():  # a low error of these networks is no merit
                    _cross_out(axis, radii, errors.mean(axis=0))
            axis.set(xlabel=f"radius ε ({unit})", ylabel="boundary error (%)", ylim=(0, 1.05 * top), xticks=radii)
            axis.set_title(f"{sweep.title}, {WORDS[loss]}", fontsize=10)
    _legend_below(figure, axes[0], 5)
    return figure


@styled
def groups_picture(sweeps: Sequence[Sweep]) -> Figure:
    """Draw accuracy (left) and mean distance (right) by group: plain, with a penalty, and by the worst group's loss."""
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
    """Limit the axis to 1.5 times the largest number of networks that did not collapse, if others are far above."""
    found = (*sweep.curves.values(), sweep.group_loss)
    kept = np.concatenate([scale * getattr(curves, field)[~curves.collapsed] for curves in found])
    bottom, top = axis.get_ylim()
    if kept.size and top > 1.5 * kept.max() > bottom:
        axis.set_ylim(bottom, 1.5 * float(kept.max()))


def _draw(axis: Axes, curves: Curves, values: Floats, label: str, number: int) -> None:
    with_range(axis, np.asarray(curves.weights), values, label, number)
    gone = curves.collapsed.any(axis=0)
    _cross_out(axis, np.asarray(curves.weights)[gone], values[:, gone].mean(axis=0))


def _cross_out(axis: Axes, x: Floats, y: Floats) -> None:
    axis.plot(x, y, "x", color="#222222", markersize=10, label="_collapsed")


def _radii(spelled: Sequence[str]) -> tuple[Floats, str]:
    """Return radii with their unit: 1/255 if all are spelled so."""
    in_255 = all(radius.endswith("/255") for radius in spelled)
    radii = np.array([parse_radius(radius) for radius in spelled])
    return (255 * radii, "1/255, L∞") if in_255 else (radii, "L∞")


def _legend_below(figure: Figure, axis: Axes, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)


_NOISES = {"regular": "noise against the regular", "fair": "noise against the fair", "own": "each its own noise"}


@styled
def hardening_picture(found: Hardened) -> Figure:
    """Draw natural error and violation by ε_* (above), and robust error by ε for each λ (below)."""
    plan, weights = found.plan, found.plan.subject.weights
    columns = max(2, len(weights))
    figure, axes = panels(2, columns, width=3.6, height=2.9)
    (trained, unit), (attacked, tested) = _radii(plan.trained_radii), _radii(plan.subject.radii)
    for axis, values, words in zip(
        axes, (found.natural, found.violation), ("natural error (%)", "violation (%)"), strict=False
    ):
        for i, weight in enumerate(weights):
            with_range(axis, trained, 100 * values[:, :, i], f"λ = {weight:g}", i)
        axis.set(xlabel=f"radius trained with, ε_* ({unit})", ylabel=words)
        legend_below(axis)
    axes[0].set_title(found.title)
    top = 100 * float(found.robust.max())
    for i, weight in enumerate(weights):
        axis = axes[columns + i]
        for j, radius in enumerate(plan.trained_radii):
            with_range(axis, attacked, 100 * found.robust[:, j, i], f"ε_* = {radius}", j)
        axis.set(xlabel=f"radius of RFGSM, ε ({tested})", ylabel="robust error (%)")
        axis.set(title=f"λ = {weight:g}", ylim=(0, 1.05 * top))
        legend_below(axis)
    for spare in (*axes[2:columns], *axes[columns + len(weights) :]):
        spare.set_axis_off()
    return figure


@styled
def pair_picture(pair: Pair) -> Figure:
    """Draw a sample before and after noise, and how often noise changes neither, one or both models' predictions."""
    figure = Figure(figsize=(11.0, 3.6), layout="constrained")
    axes = figure.subplots(1, 4, width_ratios=(1, 1, 1, 2.2))
    if pair.example is None:
        for axis in axes[:3]:
            axis.set_axis_off()
        axes[1].text(0.5, 0.5, "no such sample\nwas found", ha="center", va="center", transform=axes[1].transAxes)
    else:
        _draw_example(axes, pair.example)
    _draw_cases(axes[3], pair)
    return figure


def _draw_example(axes: "np.ndarray[tuple[int], np.dtype[np.object_]]", example: Example) -> None:
    before, after = as_picture(example.before), as_picture(example.after)
    noise = after - before
    shown = 0.5 + noise / (2 * max(float(np.abs(noise).max()), 1e-12))
    if example.person:
        before, after = coarse(before), coarse(after)
    titles = (f"label: {example.truth}", "noise, magnified", "with noise")
    for axis, picture, title in zip(axes[:3], (before, shown, after), titles, strict=True):
        draw_picture(axis, picture, title)
    for axis, moment in ((axes[0], 0), (axes[2], 1)):
        said = {name: answers[moment] for name, answers in example.answers.items()}
        axis.set_xlabel(f"regular: {said['regular']}\nfair: {said['fair']}", fontsize=10)
    axes[1].set_xlabel(f"made against the\n{example.noise} model", fontsize=10)


def coarse(picture: Floats, blocks: int = 8) -> Floats:
    """Return the mean of each block of a picture, so that nobody is recognised.

    >>> coarse(np.array([[0.0, 1.0], [1.0, 0.0]]), blocks=1).tolist()
    [[0.5]]
    """
    rows, columns = (np.array_split(np.arange(side), min(blocks, side)) for side in picture.shape[:2])
    return np.array([[picture[np.ix_(row, column)].mean(axis=(0, 1)) for column in columns] for row in rows])


def _draw_cases(axis: Axes, pair: Pair) -> None:
    places = np.arange(len(CASES))
    for number, (noise, words) in enumerate(_NOISES.items()):
        found = [over_seeds(100 * pair.shares[noise][:, i]) for i in range(len(CASES))]
        means, limits = np.array([each.mean for each in found]), np.array([each.interval for each in found]).T
        # Bars end at 0 and 100 %, whatever the interval of a few seeds is.
        bars = np.where(np.isfinite(limits), np.abs(np.clip(limits, 0.0, 100.0) - means), 0.0)
        height, style = 0.26, {"elinewidth": 0.9, "capsize": 2}
        y = places + height * (number - 1)
        axis.barh(y, means, height * 0.92, xerr=bars, color=COLOURS[number], label=words, error_kw=style)
    axis.set_yticks(places, CASES, fontsize=9)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set(xlabel="share of the test samples (%), 95 % interval over seeds", xlim=(0, 100))
    axis.set_title(f"λ = 0 against λ = {pair.weight:g}, ε = {pair.radius}", fontsize=10)
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=len(_NOISES))


_HEAD = ("data", "training", "error %", "violation %", "softmax margin", "distance L2", "boundary error %")


def group_loss_table(sweeps: Sequence[Sweep]) -> Table:
    """Compare plain training, the largest sound penalty and the worst group's loss: means ± intervals."""
    rows = []
    for sweep in sweeps:
        plain = sweep.curves[CROSS_ENTROPY]
        last = (plain.fair or (0,))[-1]
        penalty = ((f"penalty λ = {plain.weights[last]:g}", plain, last),) if last else ()
        for name, curves, column in (("plain", plain, 0), *penalty, ("worst group’s loss", sweep.group_loss, 0)):
            rows.append((sweep.title, name, *_cells(curves, column)))
    caption = (
        "Plain training, the penalty and the worst group's loss: means over seeds ± half of their 95 % intervals; the "
        "boundary error is a mean over all radii. The paper prints none of these as numbers."
    )
    return Table("group-loss", caption, _HEAD, tuple(rows))


def _cells(curves: Curves, column: int) -> tuple[str, ...]:
    numbers = (
        (curves.natural[:, column], 100.0, 1),
        (curves.violation[:, column], 100.0, 1),
        (curves.margin[:, column], 1.0, 3),
        (curves.distance[:, column], 1.0, 3),
        (curves.boundary[:, column].mean(axis=1), 100.0, 1),
    )
    return tuple(over_seeds(values).text(scale, digits) for values, scale, digits in numbers)
