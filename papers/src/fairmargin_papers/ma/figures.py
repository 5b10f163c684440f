"""Figures and tables of Ma's sweeps, with the printed numbers of larger networks."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairmargin.core.arrays import Floats
from fairmargin_papers.ma.claims import CHANGES, TEST, weight_values
from fairmargin_papers.ma.measures import Swept, mean_accuracy, variation, vcra, worst_class
from fairmargin_papers.ma.sweep import ATTACKS, FAT, FGSM, MADRY, TESTS, TRADES
from fairmargin_papers.shared.paper import Table
from fairmargin_papers.shared.pictures import COLOURS, INK, MARKERS, legend_below, line_style, panels, styled
from fairmargin_papers.shared.trained import over_seeds

_METHODS = (MADRY, TRADES, FAT)
_SHADES = "Blues"


@styled
def sweep_picture(swept: Swept) -> Figure:
    """Draw three measures (rows) under three attacks (columns) against the training radius."""
    figure, axes = panels(3, len(ATTACKS), width=3.4, height=2.6)
    names = ("robust accuracy (%)", "VCRA (·10⁻²)", "√VCRA ÷ accuracy")
    for column, attack in enumerate(ATTACKS):
        for number, method in enumerate(_METHODS):
            shares = swept.at(method, attack, TEST)
            measures = (100 * mean_accuracy(shares), 100 * vcra(shares, swept.sizes), variation(shares, swept.sizes))
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
    """Draw every cell as a number: accuracy, VCRA, coefficient of variation, worst class."""
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
    """Draw numbers in cells, darker where they are larger; undefined ones stay empty."""
    most = float(np.nanmax(values)) if np.isfinite(values).any() else 1.0
    axis.imshow(values, cmap=_SHADES, vmin=0, vmax=most or 1.0, aspect="auto")
    axis.grid(visible=False)
    axis.set_xticks(range(len(columns)), columns, fontsize=8)
    axis.set_yticks(range(len(rows)), rows, fontsize=8)
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if value > 0.6 * most else INK
            axis.text(j, i, format(value, digits), ha="center", va="center", fontsize=8, color=colour)


@styled
def classes_picture(swept: Swept) -> Figure:
    """Draw robust accuracy by class and radius (left), and its change from the first to the last radius (right)."""
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
    right.axvline(0, color=INK, linewidth=1)
    right.set_yticks(range(len(swept.classes)), swept.classes, fontsize=8)
    right.set_ylim(len(swept.classes) - 0.5, -0.5)
    low, high = right.get_xlim()
    right.set_xlim(max(low, -105.0), min(high, 105.0))  # two seeds may give intervals beyond ±100 points
    right.set(title="change", xlabel=f"points, from ε_train = {radii[0]}/255 to {radii[-1]}/255")
    legend_below(right)
    return figure


@styled
def pairs_picture(swept: Swept) -> Figure:
    """Draw VCRA (left) and robust accuracy (right) of Madry's method and of FAT, cell by cell."""
    figure, axes = panels(1, 2, width=4.6, height=4.2)
    plain, fair = swept.along(MADRY), swept.along(FAT)
    pairs = (
        ("VCRA (·10⁻²)", 100 * vcra(plain, swept.sizes), 100 * vcra(fair, swept.sizes)),
        ("robust accuracy (%)", 100 * mean_accuracy(plain), 100 * mean_accuracy(fair)),
    )
    for axis, (name, before, after) in zip(axes, pairs, strict=True):
        most = 1.05 * float(max(before.max(), after.max())) or 1.0
        axis.plot([0, most], [0, most], color=INK, linewidth=1, label="equal")
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
    """Draw VCRA (left) and robust accuracy (right) against λ, with equally spaced values of λ."""
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


# Tables 3 and 4, ResNet-18, by ε_train; FGSM, PGD-20 and C&W, each at 16/255 and 20/255.
_VCRA: Mapping[str, Mapping[int, tuple[float, ...]]] = {
    MADRY: {
        4: (1.90, 1.31, 0.10, 0.02, 0.11, 0.02),
        8: (2.34, 1.99, 0.50, 0.16, 0.61, 0.19),
        12: (3.12, 2.53, 0.98, 0.35, 1.09, 0.42),
        16: (3.52, 2.99, 1.28, 0.48, 1.38, 0.60),
    },
    FAT: {
        4: (1.76, 1.28, 0.07, 0.01, 0.08, 0.01),
        8: (2.18, 1.69, 0.46, 0.12, 0.52, 0.14),
        12: (2.99, 2.47, 0.84, 0.35, 0.90, 0.38),
        16: (3.32, 2.90, 1.06, 0.40, 1.22, 0.51),
    },
}
_RATE: Mapping[str, Mapping[int, tuple[float, ...]]] = {
    MADRY: {
        4: (29.04, 21.74, 3.54, 1.12, 3.61, 1.05),
        8: (39.00, 32.13, 11.23, 4.96, 12.14, 5.35),
        12: (41.99, 35.71, 19.43, 10.03, 19.39, 10.53),
        16: (42.97, 37.34, 22.50, 12.86, 22.03, 12.65),
    },
    FAT: {
        4: (29.33, 22.65, 3.11, 1.31, 3.23, 0.99),
        8: (38.57, 32.26, 11.29, 5.26, 12.32, 5.48),
        12: (42.77, 36.71, 19.74, 10.97, 19.88, 11.48),
        16: (43.40, 37.98, 22.79, 13.11, 22.21, 12.99),
    },
}
_MISPRINTS = (
    "In print, Table 1 has 21.71 and 42.94 where Table 4 has 21.74 and 42.97 (Madry, FGSM), and its column of "
    "WRN-32-10 under FGSM 20/255 repeats PGD-20 16/255 in three of four rows."
)


def cells_table(swept: Swept) -> Table:
    """Return VCRA and robust accuracy of each method by attack, test radius and training radius, ours and printed."""
    methods = (MADRY, FAT, TRADES)
    columns = ["attack", "ε_test", "ε_train"]
    for measure in ("VCRA ·10⁻²", "robust %"):
        for method in methods:
            columns += [f"{measure}, {method}"] + ([f"{method} printed"] if method in _VCRA else [])
    rows = []
    for attack in ATTACKS:
        for test in swept.sweep.tests:
            for radius in swept.sweep.radii[MADRY]:
                cells = [attack, f"{test}/255", f"{radius}/255"]
                place = 2 * list(ATTACKS).index(attack) + TESTS.index(test)
                for printed, digits in ((_VCRA, 2), (_RATE, 1)):
                    for method in methods:
                        cells.append(_ours(swept, (method, radius), (attack, test), digits, spread=printed is _VCRA))
                        cells += [f"{printed[method][radius][place]:.2f}"] if method in printed else []
                rows.append(tuple(cells))
    caption = (
        f"Every cell: {swept.sweep.network} on {swept.sweep.title}, mean over {len(swept.sweep.seeds)} seeds ± half of "
        f"its 95 % interval; printed: ResNet-18 on CIFAR-10 (Tables 3 and 4). {_MISPRINTS}"
    )
    return Table("cells", caption, tuple(columns), tuple(rows))


def _ours(swept: Swept, trained: tuple[str, int], attacked: tuple[str, int], digits: int, *, spread: bool) -> str:
    method, radius = trained
    if radius not in swept.sweep.radii[method]:
        return "–"
    shares = swept.at(method, *attacked)[:, swept.sweep.radii[method].index(radius)]
    values: Floats = 100 * (vcra(shares, swept.sizes) if spread else mean_accuracy(shares))
    return over_seeds(values).text(digits=digits)


def classes_table(swept: Swept) -> Table:
    """Return robust accuracy by class and training radius under FGSM, and its change, ours and printed."""
    shares, radii = 100 * swept.at(MADRY, FGSM, TEST), swept.sweep.radii[MADRY]
    printed = {place: points for place, _, points in CHANGES.values()}
    rows = [
        (
            name,
            *(f"{value:.1f}" for value in shares[:, :, place].mean(axis=0)),
            over_seeds(shares[:, -1, place] - shares[:, 0, place]).text(digits=1),
            printed.get(place, "–"),
        )
        for place, name in enumerate(swept.classes)
    ]
    caption = (
        f"Robust accuracy (%) by class of Madry’s method under FGSM {TEST}/255, means over seeds, and the change from "
        f"ε_train = {radii[0]}/255 to {radii[-1]}/255 in points ± half of its 95 % interval; printed: ResNet-50 "
        "(Table 2), for four classes of CIFAR-10."
    )
    columns = ("class", *(f"ε_train {radius}/255" for radius in radii), "change", "printed")
    return Table("classes", caption, columns, tuple(rows))
