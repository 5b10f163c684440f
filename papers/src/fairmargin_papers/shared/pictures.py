"""Figures of pages and papers: matplotlib figures in one style, written as SVG with equal bytes in every run."""

import io
import math
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairmargin.core.arrays import Floats
from fairmargin.errors import InputError
from fairmargin.store.atomic import atomic_write_bytes

# Colours of Okabe and Ito, which colour-blind readers can distinguish; dashes and markers also work in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#000000", "#8C564B", "#B8B800")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), "-", "--", "-.")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
DIVERGING = "RdBu"  # red below 0, blue above
INK = "#222222"
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#E6E6E6",
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    # Text stays text, so that a figure can be searched and is small. The salt keeps ids equal in every run.
    "svg.fonttype": "none",
    "svg.hashsalt": "fairmargin",
}


_Arguments = ParamSpec("_Arguments")
_Drawn = TypeVar("_Drawn")


def styled(draw: Callable[_Arguments, _Drawn]) -> Callable[_Arguments, _Drawn]:
    """Return a function that draws in the style of the pages, whatever the style of the user is."""

    @wraps(draw)
    def drawn(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Drawn:
        with mpl.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawn


@styled
def panels(
    rows: int = 1, columns: int = 1, *, width: float = 5.0, height: float = 3.4, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, row by row; sizes are of one panel, in inches.

    >>> figure, (left, right) = panels(1, 2)
    >>> _ = left.set_title("natural")
    """
    if rows < 1 or columns < 1:
        raise InputError(f"A figure has at least one panel; given {rows} × {columns}.")
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=share_y)
    return figure, [axis for row in axes for axis in row]


def line_style(number: int) -> dict[str, Any]:
    """Return colour and dash of a line by its number."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}


@styled
def legend_below(axis: Axes, columns: int = 2) -> None:
    """Draw the legend of a panel below it."""
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)


@styled
def heat_map(
    axis: Axes,
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    unit: str,
    limit: float,
) -> None:
    """Draw numbers as colours that diverge from 0, and write each number into its cell.

    Parameters
    ----------
    axis
        Panel on which is drawn.
    values
        One sequence of numbers per row; NaN stays empty.
    rows, columns
        Names of the rows and columns.
    unit
        Label of the colour bar.
    limit
        Absolute value of the strongest colours.
    """
    image = axis.imshow(values, cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
    axis.grid(visible=False)
    axis.set_xticks(range(len(columns)), columns, rotation=30, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(rows)), rows)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value == value:  # not NaN
                colour = "white" if abs(value) > 0.6 * limit else INK
                text = f"{value:+.2f}".replace("-", "−")
                axis.text(j, i, text, ha="center", va="center", fontsize=8, color=colour)
    figure = axis.get_figure()
    assert isinstance(figure, Figure)
    figure.colorbar(image, ax=axis, label=unit, shrink=0.9)


def with_range(axis: Axes, x: Floats, values: Floats, label: str, number: int) -> None:
    """Draw means over seeds (rows) as a line, with bars from the least to the largest seed."""
    means = values.mean(axis=0)
    spread = np.stack([means - values.min(axis=0), values.max(axis=0) - means])
    marks: dict[str, Any] = {"marker": MARKERS[number], "markersize": 4, "capsize": 2, "linewidth": 1.4}
    axis.errorbar(x, means, spread, label=label, elinewidth=0.8, **marks, **line_style(number))


def as_picture(sample: Floats) -> Floats:
    """Return a sample as matplotlib draws it: rows × columns, or rows × columns × colours; flat ones are square.

    >>> as_picture(np.zeros(64)).shape, as_picture(np.zeros((3, 32, 32))).shape
    ((8, 8), (32, 32, 3))
    """
    if sample.ndim == 1:
        side = math.isqrt(len(sample))
        return sample.reshape(side, side)
    return sample[0] if len(sample) == 1 else np.moveaxis(sample, 0, -1)


@styled
def draw_picture(axis: Axes, picture: Floats, title: str) -> None:
    """Draw pixels in [0, 1] without axes."""
    axis.imshow(np.clip(picture, 0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axis.set_title(title, fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(visible=False)


def write_picture(path: Path | str, figure: Figure) -> Path:
    """Write a figure atomically, as SVG or PNG by the ending of its name."""
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in ("svg", "png"):
        raise InputError(f"A picture is written as .svg or .png; given {path.name!r}.")
    content = io.BytesIO()
    with mpl.rc_context(_STYLE):
        # Without a date, equal numbers give equal files.
        figure.savefig(content, format=kind, metadata={"Date": None} if kind == "svg" else None, dpi=150)
    atomic_write_bytes(path, content.getvalue())
    return path
