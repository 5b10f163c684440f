"""Nearest point of a hyperplane inside the domain, where a linear approximation of the boundary would be crossed."""

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units, norm_of, steepest

_ROUNDS = 6  # maximum number of iterations; in each one either the plane is reached or more features reach their limits


def unblocked(network: Network, rows: Tensor, gain: Tensor) -> Tensor:
    """Return the slopes, with 0 for those features that are at a limit and would move beyond it."""
    blocked = ((rows >= network.high) & (gain > 0)) | ((rows <= network.low) & (gain < 0))
    return torch.where(blocked, 0.0, gain)


def nearest_on_plane(network: Network, start: Tensor, gain: Tensor, needed: Tensor, norm: Norm) -> Tensor:
    """Return the input nearest to each start with ⟨gain, step⟩ = needed, where step is in units of the domain's scale.

    Guarantee: the result is inside the domain. All features move by the same amount (L∞), or in proportion to their
    slopes (L2), until they reach their limits, as in the exact solution. If the plane does not intersect the domain,
    the result is the last point of this procedure.

    Parameters
    ----------
    network
        Model whose domain limits the inputs.
    start
        Samples, one row each.
    gain
        Slopes per unit of scale; 0 for immutable features.
    needed
        Required increase, one number per row, not negative.
    norm
        Norm of the step: L2 or L∞.
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
