"""Two formulas of a distance against the true one."""

import numpy as np
from matplotlib.figure import Figure

from fairmargin.core.arrays import Floats
from fairmargin.report.pictures import COLOURS, panels, styled

SHOWN = 1_500  # samples at most


@styled
def formulas_picture(exact: Floats, squared: Floats, last_two: Floats, expected: float) -> Figure:
    """Eq. 7 (left) and Eq. 8 (right) against the exact distance; the black line is the truth."""
    figure, axes = panels(1, 2, width=4.6, height=4.0)
    shown = np.unique(np.linspace(0, len(exact) - 1, SHOWN).astype(np.int64))
    low, high = float(exact[shown].min()), float(exact[shown].max())
    for number, (axis, values, title) in enumerate(
        zip(axes, (squared, last_two), ("Eq. 7: the norm squared", "Eq. 8: the last two radii"), strict=True)
    ):
        axis.loglog(
            exact[shown], values[shown], ".", markersize=3, color=COLOURS[number], alpha=0.6, label="a sample",
        )  # fmt: skip
        axis.loglog([low, high], [low, high], color="#222222", linewidth=1.2, label="the true distance")
        axis.set(xlabel="true distance (L2)", ylabel="what the formula says", title=title)
    axes[1].loglog(
        [low, high], [expected * low, expected * high], "--", color="#222222", linewidth=1, label=f"{expected:.3f} × it"
    )
    for axis in axes:
        axis.legend(fontsize=8, loc="upper left")
    return figure
