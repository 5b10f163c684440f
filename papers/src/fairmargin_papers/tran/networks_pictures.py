"""Pictures of the grid over (ε_*, λ) (the paper's Figures 6 and 7) and of the pair under the same noise (Figure 1)."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairmargin.core.arrays import Floats
from fairmargin.core.radius import parse_radius
from fairmargin_papers.shared.pictures import COLOURS, MARKERS, legend_below, line_style, panels, styled
from fairmargin_papers.shared.trained import over_seeds
from fairmargin_papers.tran.networks_hardening import Hardened
from fairmargin_papers.tran.networks_pair import CASES, Example, Pair

_NOISES = {"regular": "noise against the regular", "fair": "noise against the fair", "own": "each its own noise"}


@styled
def hardening_picture(found: Hardened) -> Figure:
    """Natural error and violation by ε_*, a line for each λ (above); robust error by ε, a line for each ε_* (below)."""
    plan, weights = found.plan, found.plan.subject.weights
    columns = max(2, len(weights))
    figure, axes = panels(2, columns, width=3.6, height=2.9)
    trained, attacked = (_in_units(radii) for radii in (plan.trained_radii, plan.subject.radii))
    for axis, values, words in zip(
        axes, (found.natural, found.violation), ("natural error (%)", "violation (%)"), strict=False
    ):
        for i, weight in enumerate(weights):
            _line(axis, trained, 100 * values[:, :, i], f"λ = {weight:g}", i)
        axis.set(xlabel=f"radius trained with, ε_* ({_unit(plan.trained_radii)})", ylabel=words)
        legend_below(axis)
    axes[0].set_title(found.title)
    top = 100 * float(found.robust.max())
    for i, weight in enumerate(weights):
        axis = axes[columns + i]
        for j, radius in enumerate(plan.trained_radii):
            _line(axis, attacked, 100 * found.robust[:, j, i], f"ε_* = {radius}", j)
        axis.set(xlabel=f"radius of RFGSM, ε ({_unit(plan.subject.radii)})", ylabel="robust error (%)")
        axis.set(title=f"λ = {weight:g}", ylim=(0, 1.05 * top))
        legend_below(axis)
    for spare in (*axes[2:columns], *axes[columns + len(weights) :]):
        spare.set_axis_off()
    return figure


@styled
def pair_picture(pair: Pair) -> Figure:
    """Draw a sample before and after noise with the predictions of both models, and how often each case happens."""
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
    before, after = _as_picture(example.before), _as_picture(example.after)
    noise = after - before
    shown = 0.5 + noise / (2 * max(float(np.abs(noise).max()), 1e-12))
    if example.person:
        before, after = coarse(before), coarse(after)
    titles = (f"label: {example.truth}", "noise, magnified", "with noise")
    for axis, picture, title in zip(axes[:3], (before, shown, after), titles, strict=True):
        axis.imshow(np.clip(picture, 0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(title, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(visible=False)
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
        means = [over_seeds(100 * pair.shares[noise][:, i]) for i in range(len(CASES))]
        # A share has no half-width beyond 0 and 100 %, whatever three seeds say.
        low, high = (
            [
                abs(min(max(end, 0.0), 100.0) - each.mean) if math.isfinite(end) else 0.0
                for each, end in zip(means, ends, strict=True)
            ]
            for ends in ([each.low for each in means], [each.high for each in means])
        )
        height = 0.26
        axis.barh(
            places + height * (number - 1), [each.mean for each in means], height * 0.92, xerr=[low, high],
            color=COLOURS[number], label=words, error_kw={"elinewidth": 0.9, "capsize": 2},
        )  # fmt: skip
    axis.set_yticks(places, CASES, fontsize=9)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set(xlabel="share of the test samples (%), 95 % interval over seeds", xlim=(0, 100))
    axis.set_title(f"λ = 0 against λ = {pair.weight:g}, ε = {pair.radius}", fontsize=10)
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=len(_NOISES))


def _as_picture(sample: Floats) -> Floats:
    """Height × width (× 3) of a sample: channels last, grey flat ones square."""
    if sample.ndim == 1:
        side = math.isqrt(len(sample))
        return sample.reshape(side, side)
    return sample[0] if sample.shape[0] == 1 else np.moveaxis(sample, 0, -1)


def _line(axis: Axes, x: Floats, values: Floats, label: str, number: int) -> None:
    means = values.mean(axis=0)
    spread = np.stack([means - values.min(axis=0), values.max(axis=0) - means])
    axis.errorbar(
        x, means, spread, label=label, marker=MARKERS[number], markersize=4, capsize=2, linewidth=1.4,
        elinewidth=0.8, **line_style(number),
    )  # fmt: skip


def _in_255(radii: tuple[str, ...]) -> bool:
    return all(radius.endswith("/255") for radius in radii)


def _in_units(radii: tuple[str, ...]) -> Floats:
    return np.array([parse_radius(radius) for radius in radii]) * (255 if _in_255(radii) else 1)


def _unit(radii: tuple[str, ...]) -> str:
    return "1/255, L∞" if _in_255(radii) else "L∞"
