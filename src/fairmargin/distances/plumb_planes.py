"""Where a plumb line is let down first: the boundaries of some rivals, taken for planes as they look from a sample."""

from typing import NamedTuple

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import slopes
from fairmargin.perturbation.planes import nearest_on_plane

_OVERSHOOT = 0.015  # beyond the plane, of the way


class Planes(NamedTuple):
    """For each sample, some rivals' boundaries taken for planes, nearest first.

    Parameters
    ----------
    at, aim
        The input where the rival draws level, and the slope towards it; a row a rival.
    way
        How far it is; `inf` where the rival never draws level.
    """

    at: Tensor
    aim: Tensor
    way: Tensor

    def nearest(self, most: int) -> "Planes":
        """At most so many of them."""
        order = self.way.argsort(dim=1, stable=True)[:, :most]
        rows = torch.arange(len(order), device=order.device)[:, None]
        return Planes(*(part[rows, order] for part in self))


def nearest_planes(network: Network, norm: Norm, most: int, start: Tensor, y: Tensor, rivals: Tensor) -> Planes:
    """One tile's nearest planes, at most so many."""
    found = []
    for margin, gain in slopes(network, start, y, rivals):
        there, way = _on_plane(network, norm, start, gain, margin.clamp(min=0))
        there = torch.where(torch.isfinite(way)[:, None], there, start)
        found.append((there, gain / norm_of(gain, Norm.L2).clamp(min=1e-30)[:, None], way))
    return Planes(*(torch.stack(parts, dim=1) for parts in zip(*found, strict=True))).nearest(most)


def _on_plane(network: Network, norm: Norm, start: Tensor, gain: Tensor, margin: Tensor) -> tuple[Tensor, Tensor]:
    """Where a rival first draws level if its lead melts as it begins, and how far that is; `inf` if never."""
    there = nearest_on_plane(network, start, gain, margin * (1 + _OVERSHOOT), norm)
    delta = in_units(there - start, network.scale)
    reached = (gain * delta).sum(dim=1) >= margin
    return there, torch.where(reached, norm_of(delta, norm), torch.inf)
