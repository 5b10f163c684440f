"""Pictures of Ma's sweeps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairmargin.core.arrays import Floats
from fairmargin_papers.ma.networks_fat import weight_values
from fairmargin_papers.ma.networks_rows import CHANGES, TEST
from fairmargin_papers.ma.sweep_measures import Swept, mean_accuracy, variation, vcra, worst_class
from fairmargin_papers.ma.sweep_study import ATTACKS, FAT, FGSM, MADRY, TRADES
from fairmargin_papers.shared.pictures import COLOURS, MARKERS, legend_below, line_style, panels, styled
from fairmargin_papers.shared.trained import over_seeds

_METHODS = (MADRY, TRADES, FAT)
_SHADES = "Blues"
_INK = "#222222"


@styled
def sweep_picture(swept: Swept) -> Figure:
    """Three measures (rows) under three attacks (columns) against the radius trained with."""
    figure, axes = panels(3, len(ATTACKS), width=3.4, height=2.6)
    names = ("robust accuracy (%)", "VCRA (·10⁻²)", "√VCRA ÷ accuracy")
    for column, attack in enumerate(ATTACKS):
        for number, method in enumerate(_METHODS):
            shares = swept.at(method, attack, TEST)
            measures = (
                100 * mean_accuracy(shares),
                100 * vcra(shares, swept.sizes),
                variation(shares, swept.sizes),
            )
            for row, values in enumerate(measures):
                _with_range(axes[row * len(ATTACKS) + column], swept.sweep.radii[method], values, number, method)
        axes[column].set_title(f"{attack}, ε_test = {TEST}/255")
        axes[-len(ATTACKS) + column].set_xlabel("ε_train (1/255)")
    for row, name in enumerate(names):
        axes[row * len(ATTACKS)].set_ylabel(name)
    for axis in axes:
        axis.set_xticks(swept.sweep.radii[MADRY])
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=8)
    return figure


def _with_range(axis: Axes, x: Sequence[float], values: Floats, number: int, label: str) -> None:
    """Draw the mean over seeds as a line and their range as bars, slightly shifted for each line."""
    mean = values.mean(axis=0)
    reach = np.abs(np.stack([values.min(axis=0), values.max(axis=0)]) - mean)
    place = np.asarray(x, dtype=float) + (number - 1) * 0.012 * (max(x) - min(x))
    axis.errorbar(
        place, mean, yerr=reach, marker=MARKERS[number], markersize=4, capsize=2, label=label, **line_style(number)
    )


@styled
def table_picture(swept: Swept) -> Figure:
    """Every cell as a number: accuracy, VCRA, coefficient of variation, worst class."""
    figure, axes = panels(2, 2, width=6.0, height=4.2)
    rows = [(method, radius) for method in _METHODS for radius in swept.sweep.radii[method]]
    shares = np.stack([swept.shares[row] for row in rows])  # (rows, seeds, attacks, tests, classes)
    shown = (
        ("robust accuracy (%)", 100 * mean_accuracy(shares), ".1f"),
        ("VCRA (·10⁻²)", 100 * vcra(shares, swept.sizes), ".2f"),
        ("√VCRA ÷ accuracy", variation(shares, swept.sizes), ".2f"),
        ("robust accuracy of the worst class (%)", 100 * worst_class(shares), ".1f"),
    )
    columns = [f"{attack}\n{test}/255" for attack in ATTACKS for test in swept.sweep.tests]
    labels = [f"{method} {radius}/255" for method, radius in rows]
    for axis, (title, values, digits) in zip(axes, shown, strict=True):
        _numbers(axis, values.mean(axis=1).reshape(len(rows), -1), labels, columns, digits)
        axis.set_title(title)
    return figure


def _numbers(axis: Axes, values: Floats, rows: Sequence[str], columns: Sequence[str], digits: str) -> None:
    """Numbers in cells, darker where they are larger; what is not defined stays empty."""
    most = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    axis.imshow(values, cmap=_SHADES, vmin=0, vmax=most or 1.0, aspect="auto")
    axis.grid(visible=False)
    axis.set_xticks(range(len(columns)), columns, fontsize=8)
    axis.set_yticks(range(len(rows)), rows, fontsize=8)
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if value > 0.6 * most else _INK
            axis.text(j, i, format(value, digits), ha="center", va="center", fontsize=8, color=colour)


@styled
def classes_picture(swept: Swept) -> Figure:
    """Robust accuracy by class and radius (left), and the change from the first to the last radius (right)."""
    figure, (left, right) = panels(1, 2, width=5.6, height=3.8)
    shares = 100 * swept.at(MADRY, FGSM, TEST)
    radii = swept.sweep.radii[MADRY]
    _numbers(left, shares.mean(axis=0).T, swept.classes, [f"{radius}/255" for radius in radii], ".1f")
    left.set(title="robust accuracy (%)", xlabel="ε_train")
    changes = [over_seeds(each) for each in (shares[:, -1] - shares[:, 0]).T]
    for place, change in enumerate(changes):
        reach = [[change.mean - change.low], [change.high - change.mean]]
        right.errorbar(
            change.mean,
            place,
            xerr=reach if np.isfinite(change.low) else None,
            marker="o",
            capsize=3,
            color=COLOURS[0],
            linestyle="none",
            label="ours" if place == 0 else None,
        )
    printed = [(float(points.replace("−", "-")), place) for place, _, points in CHANGES.values()]
    right.plot(*zip(*printed, strict=True), "D", color=COLOURS[1], fillstyle="none", label="printed (ResNet-50)")
    right.axvline(0, color=_INK, linewidth=1)
    right.set_yticks(range(len(swept.classes)), swept.classes, fontsize=8)
    right.set_ylim(len(swept.classes) - 0.5, -0.5)
    low, high = right.get_xlim()
    right.set_xlim(max(low, -105.0), min(high, 105.0))  # two seeds may give intervals far beyond what can be
    right.set(title="change", xlabel=f"points, from ε_train = {radii[0]}/255 to {radii[-1]}/255")
    legend_below(right)
    return figure


@styled
def pairs_picture(swept: Swept) -> Figure:
    """VCRA (left) and robust accuracy (right) of Madry's method and of FAT, cell by cell."""
    figure, axes = panels(1, 2, width=4.6, height=4.2)
    plain, fair = swept.along(MADRY), swept.along(FAT)
    pairs = (
        ("VCRA (·10⁻²)", 100 * vcra(plain, swept.sizes), 100 * vcra(fair, swept.sizes)),
        ("robust accuracy (%)", 100 * mean_accuracy(plain), 100 * mean_accuracy(fair)),
    )
    for axis, (name, before, after) in zip(axes, pairs, strict=True):
        most = 1.05 * float(max(before.max(), after.max())) or 1.0
        axis.plot([0, most], [0, most], color=_INK, linewidth=1, label="equal")
        for number, attack in enumerate(ATTACKS):
            axis.plot(
                before[:, :, number].ravel(), after[:, :, number].ravel(), MARKERS[number], markersize=5,
                fillstyle="none", color=COLOURS[number], label=attack,
            )  # fmt: skip
        axis.set(xlabel=f"{MADRY}: {name}", ylabel=f"{FAT}: {name}", title=name, xlim=(0, most), ylim=(0, most))
        axis.set_aspect("equal")
    axes[0].legend(fontsize=8, loc="upper left")
    return figure


@styled
def weights_picture(swept: Swept) -> Figure:
    """VCRA (left) and robust accuracy (right) against λ, values of λ at equal distances."""
    figure, axes = panels(1, 2, width=4.6, height=3.2)
    for number, attack in enumerate(ATTACKS):
        order, spread, rate = weight_values(swept, attack)
        for axis, values in zip(axes, (spread, rate), strict=True):
            _with_range(axis, range(len(order)), values, number, attack)
            axis.set_xticks(range(len(order)), [f"{weight:g}" for weight in order])
            axis.set_xlabel("λ")
            axis.set_ylim(bottom=0)
    axes[0].set(ylabel="VCRA (·10⁻²)", title="VCRA")
    axes[1].set(ylabel="robust accuracy (%)", title="robust accuracy")
    axes[0].legend(fontsize=8)
    return figure
