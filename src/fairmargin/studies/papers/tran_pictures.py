"""Four losses and what their thresholds withstand (after the paper's Figure 8)."""

import numpy as np
from matplotlib.figure import Figure

from fairmargin.report.pictures import line_style, panels, styled
from fairmargin.report.theory_pictures import LOSSES
from fairmargin.theory.gaussian_pair import GaussianPair

_NAMES = {"zero_one": "0/1"}
_POINTS = 401
_MOST = 2.0  # times the least loss: above, curves leave the picture


@styled
def four_losses_picture(pair: GaussianPair, most: float) -> Figure:
    """The mean loss of both classes by threshold (left), and the robust error of each best threshold by radius (right).

    Parameters
    ----------
    pair
        Two classes of equal share.
    most
        The largest radius shown.
    """
    figure, (left, right) = panels(1, 2)
    best = {loss: float(np.asarray(pair.threshold_under(loss))) for loss in LOSSES}
    thresholds = np.linspace(min(best.values()) - 1, max(best.values()) + 2, _POINTS)
    radii = np.linspace(0, most, _POINTS)
    for number, (loss, at) in enumerate(best.items()):
        plus, minus = (np.asarray(each) for each in pair.loss_by_class(loss, thresholds))
        ratio = (plus + minus) / (plus + minus).min()
        name, style = _NAMES.get(loss, loss), line_style(number)
        left.plot(thresholds, np.where(ratio < _MOST, ratio, np.nan), **style)
        left.plot([at], [1.0], "o", color=style["color"], markersize=6)
        label = f"{name}: θ = {at:.3f}".replace("-", "−")
        right.plot(radii, np.asarray(pair.robust_error(at, radii)), label=label, **style)
    left.set(xlabel="threshold θ", ylabel="mean loss ÷ its least", ylim=(0.95, _MOST), title="Four losses, least at ●")
    right.set(xlabel="radius ε", ylabel="robust error", ylim=(0, None), title="What their best thresholds withstand")
    right.legend(fontsize=8, loc="lower right")
    return figure
