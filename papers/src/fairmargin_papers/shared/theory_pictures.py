"""Figures of closed forms: two normal classes, thresholds between them, and their errors under attack."""

import math
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairmargin.core.arrays import Floats
from fairmargin_papers.shared.pictures import COLOURS, legend_below, line_style, panels, styled
from fairmargin_papers.theory.gaussian_classes import GaussianClasses
from fairmargin_papers.theory.gaussian_pair import GaussianPair

LOSSES = ("zero_one", "log", "exponential", "ramp")
_POINTS = 401


def thresholds_of(pair: GaussianPair, radius: float) -> dict[str, float]:
    """Return the thresholds by name: "fair", "natural", and "robust" (against an attack with this radius)."""
    return {
        "fair": float(np.asarray(pair.fair_threshold())),
        "natural": float(np.asarray(pair.natural_threshold())),
        "robust": float(np.asarray(pair.robust_threshold(radius))),
    }


@styled
def pair_densities(pair: GaussianPair, radius: float) -> Figure:
    """Draw the classes’ densities with the three thresholds (left), and both errors by threshold (right)."""
    figure, (left, right) = panels(1, 2)
    x = _around(pair)
    prior = float(np.asarray(pair.prior))
    for number, (name, density, share) in enumerate(
        zip(("class +", "class −"), pair.density_by_class(x), (prior, 1 - prior), strict=True)
    ):
        height = share * np.asarray(density)
        left.plot(x, height, label=name, **line_style(number))
        left.fill_between(x, 0, height, color=COLOURS[number], alpha=0.12)
    _draw_thresholds(left, pair, radius)
    left.set(xlabel="x", ylabel="density × share of the class", title="Two classes, three thresholds")
    left.set_ylim(bottom=0)
    legend_below(left)
    right.plot(x, np.asarray(pair.natural_error(x)), label="natural error", **line_style(6))
    right.plot(x, np.asarray(pair.robust_error(x, radius)), label=f"robust error, ε = {radius:g}", **line_style(3))
    _draw_thresholds(right, pair, radius)
    right.set(xlabel="threshold", ylabel="share of samples", ylim=(0, None), title="Errors by threshold")
    legend_below(right)
    return figure


@styled
def pair_losses(pair: GaussianPair, radius: float) -> Figure:
    """Draw the mean loss by threshold under four losses, with minima (left), and the path of the penalty (right)."""
    figure, (left, right) = panels(1, 2)
    prior = float(np.asarray(pair.prior))
    lowest = {loss: float(np.asarray(pair.threshold_under(loss))) for loss in LOSSES}
    x = _window(pair, [at for at in lowest.values() if math.isfinite(at)])
    for number, loss in enumerate(LOSSES):
        least, best = _mean_loss(pair, loss, lowest[loss], prior), lowest[loss]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = _mean_loss(pair, loss, x, prior) / least
        shown = np.where(ratio < 2, ratio, np.nan)  # larger values would be behind the legend
        left.plot(x, shown, label=f"{loss.replace('_', '/')}: least at {_number(best)}", **line_style(number))
        if x[0] <= best <= x[-1]:
            left.axvline(best, ymax=0.65, linewidth=1.0, **line_style(number))
    left.set(xlabel="threshold", ylabel="mean loss ÷ its minimum", ylim=(0.9, 2.6), title="Four losses")
    left.legend(fontsize=8, loc="upper center", ncols=2)
    penalties = np.linspace(0, 1.1 * _saturation(pair), 201)
    readings: tuple[Literal["sum", "max"], ...] = ("sum", "max")
    for number, reading in enumerate(readings):
        path = np.asarray([pair.fair_threshold(float(penalty), reading=reading) for penalty in penalties])
        right.plot(penalties, path, label=f"penalty read as the {reading}", **line_style(number))
    right.axhline(thresholds_of(pair, radius)["fair"], color="#888888", linewidth=1)
    right.set(xlabel="λ", ylabel="threshold", title="From natural to fair")
    right.legend(fontsize=8)
    return figure


@styled
def classes_by_training(
    classes: GaussianClasses, test_radius: float, train_radius: float = 0.0, most: float | None = None
) -> Figure:
    """Draw errors of both classes (left) and their variance, VCRA (right), against the radius of adversarial training.

    Vertical lines mark `test_radius` and `train_radius`. The variance, on a logarithmic axis, falls to 0 where both
    classes have equal errors.
    """
    figure, (left, right) = panels(1, 2)
    middle = (float(np.asarray(classes.mean_plus)) + float(np.asarray(classes.mean_minus))) / 2
    end = max(0.95 * middle, 1.05 * train_radius) if most is None else most
    radii = np.linspace(0, end, _POINTS)
    plus, minus = (np.asarray(each) for each in classes.class_errors(radii, test_radius))
    left.plot(radii, plus, label="class +", **line_style(0))
    left.plot(radii, minus, label="class −", **line_style(1))
    left.plot(radii, np.asarray(classes.risk(radii, test_radius)), label="all", **line_style(6))
    left.set(xlabel="ε trained with", ylabel=f"robust error at ε = {test_radius:g}", ylim=(0, None), title="Errors")
    right.plot(
        radii, np.asarray(classes.vcra(radii, test_radius)), label=f"VCRA at ε = {test_radius:g}", **line_style(2)
    )
    right.plot(radii, np.asarray(classes.vca(radii)), label="VCA, without attack", **line_style(3))
    right.set(xlabel="ε trained with", ylabel="variance of the classes’ accuracy", title="Variance between classes")
    top = float(np.asarray(classes.vcra(radii, test_radius)).max())
    if top > 0:
        right.set(yscale="log", ylim=(1e-6 * top, 3 * top))
    for axis in (left, right):
        axis.axvline(test_radius, color="#888888", linewidth=1, linestyle=":", label="attacked with")
        if train_radius:
            axis.axvline(train_radius, color="#888888", linewidth=1, label="trained with")
        axis.legend(fontsize=8)
    return figure


def _draw_thresholds(axis: Axes, pair: GaussianPair, radius: float) -> None:
    for number, (name, at) in enumerate(thresholds_of(pair, radius).items()):
        style = line_style((2, 7, 4)[number])
        if math.isfinite(at):
            axis.axvline(at, label=f"{name}: {_number(at)}", linewidth=1.2, **style)
        else:
            axis.plot([], [], label=f"{name}: {_number(at)}, one class for everyone", **style)


def _number(value: float) -> str:
    return (f"{value:.3f}" if math.isfinite(value) else f"{value:+}").replace("-", "−").replace("inf", "∞")


def _mean_loss(pair: GaussianPair, loss: str, at: Any, prior: float) -> Any:
    plus, minus = pair.loss_by_class(loss, at)
    return prior * np.asarray(plus) + (1 - prior) * np.asarray(minus)


def _window(pair: GaussianPair, minima: list[float]) -> Floats:
    """Return thresholds that cover both classes, and the minima that are not too far from them."""
    low, high, spread = (float(np.asarray(v)) for v in (pair.low, pair.high, pair.spread))
    reach = max(high - low, 1.0) + spread
    near = [at for at in minima if low - reach <= at <= high + reach]
    return np.linspace(min(low, *near, low) - 0.5, max(high, *near, high) + 0.5, _POINTS)


def _around(pair: GaussianPair) -> Floats:
    low, high, spread = (float(np.asarray(v)) for v in (pair.low, pair.high, pair.spread))
    return np.linspace(min(low - 3.5, high - 3 * spread), max(low + 3.5, high + 3 * spread), _POINTS)


def _saturation(pair: GaussianPair) -> float:
    """Return the smallest penalty (with the reading "max") for which the threshold is the fair one; 1 if unknown."""
    spread = float(np.asarray(pair.spread))
    return (spread - 1) / (spread + 1) if spread > 1 else 1.0
