"""The nearest misclassified input as a candidate of an attack: a search that knows of no radius."""

import torch

from fairmargin.attacks.survivors import Survivors
from fairmargin.distances.plumb import Plumb
from fairmargin.distances.starting import Started


def offer_nearest(survivors: Survivors, steps: int) -> None:
    """Offer each survivor the nearest misclassified input that `plumb` finds for it, brought into its ball.

    A climb that is drawn to where the loss is largest can miss a boundary that is near; this looks for the boundary.
    """
    which, begun = survivors.left, survivors.begun
    if not len(which):
        return
    everyone = torch.arange(len(which), device=which.device)
    own = Started(begun.x[which], begun.y[which], begun.scores[which], everyone)
    search = Plumb(survivors.norm, steps).searched(survivors.network, own, survivors.keys[which])
    found = torch.isfinite(search.closest.distance)
    survivors.offer(which[found], search.closest.point[found])
