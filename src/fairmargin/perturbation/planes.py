"""The nearest input on a plane, inside the domain: where a boundary would be if it were straight."""

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units, norm_of, steepest

_ROUNDS = 6  # each one either arrives or brings more features to their limits; later ones hardly change anything


def unblocked(network: Network, rows: Tensor, gain: Tensor) -> Tensor:
    """The slope without those features that stand at a limit and could only move beyond it."""
    blocked = ((rows >= network.high) & (gain > 0)) | ((rows <= network.low) & (gain < 0))
    return torch.where(blocked, 0.0, gain)


def nearest_on_plane(network: Network, start: Tensor, gain: Tensor, needed: Tensor, norm: Norm) -> Tensor:
    """The input nearest to each start where ⟨gain, step⟩ = needed, the step being in units of the domain's scale.

    Guarantee: inside the domain. Features go equally far (L∞) or as far as their slopes say (L2) until they meet their
    limits, which is what the exact answer does; where the plane does not cross the domain, as near to it as that leads.

    Parameters
    ----------
    network
        Whose domain.
    start
        The samples, as rows.
    gain
        The slopes, per unit of scale; 0 for features that cannot move.
    needed
        One number a row, not negative.
    norm
        L2 or L∞.
    """
    rows, left = start, needed
    for _ in range(_ROUNDS):
        free = unblocked(network, rows, gain)
        slope = norm_of(free, norm.dual)
        size = torch.where(slope > 0, left.clamp(min=0) / torch.where(slope > 0, slope, 1.0), 0.0)
        moved = (rows + size[:, None] * steepest(free, norm) * network.scale).clamp(network.low, network.high)
        rows = torch.where(torch.isfinite(moved).all(dim=1)[:, None], moved, rows)
        left = needed - (gain * in_units(rows - start, network.scale)).sum(dim=1)
    return rows
