"""The picture of the counter-example to Theorem 6.1."""

import numpy as np
from matplotlib.figure import Figure

from fairmargin.report.pictures import line_style, panels, styled
from fairmargin.theory.generalisation import mean_coin_gap


@styled
def coin_picture() -> Figure:
    """The mean gap of n coin flips falls like 1/√n, not like C/n."""
    figure, (axis,) = panels(1, 1, width=5.5)
    samples = np.unique(np.rint(np.geomspace(10, 1e6, 120)))
    axis.loglog(samples, np.asarray(mean_coin_gap(samples)), label="mean gap of coin flips", **line_style(0))
    for number, constant in enumerate((1, 10)):
        label = f"C/n with C = {constant}, all that is left of the bound"
        axis.loglog(samples, constant / samples, label=label, **line_style(number + 1))
    axis.set(xlabel="samples n", ylabel="|R − R̂|", title="Equal classes, and yet a gap")
    axis.legend(fontsize=8)
    return figure
