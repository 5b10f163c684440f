"""Lengths of perturbations in units of the domain's scale, and directions of steepest ascent."""

import torch
from torch import Tensor

from fairmargin.core.norm import Norm


def in_units(delta: Tensor, scale: Tensor) -> Tensor:
    """Return delta / scale, and 0 for immutable features, which have scale 0.

    >>> in_units(torch.tensor([[3.0, 8.0]]), torch.tensor([0.0, 2.0]))
    tensor([[0., 4.]])
    """
    still = scale == 0
    return torch.where(still, 0.0, delta / torch.where(still, 1.0, scale))


def length(delta: Tensor, norm: Norm, scale: Tensor) -> Tensor:
    """Return ‖delta / scale‖ of each row in double precision. Immutable features, with scale 0, are ignored.

    >>> length(torch.tensor([[3.0, 8.0]]), Norm.L2, torch.tensor([1.0, 2.0]))
    tensor([5.], dtype=torch.float64)
    """
    return norm_of(in_units(delta.double(), scale.double()), norm)


def norm_of(rows: Tensor, norm: Norm) -> Tensor:
    """Return the norm of each row."""
    if norm is Norm.L1:
        return rows.abs().sum(dim=1)
    if norm is Norm.LINF:
        return rows.abs().amax(dim=1)
    # Divided by the largest entry, so that squares of small numbers do not underflow.
    top = rows.abs().amax(dim=1, keepdim=True)
    safe = torch.where(top > 0, top, 1.0)
    return (rows / safe).square().sum(dim=1).sqrt() * safe[:, 0]


def steepest(gain: Tensor, norm: Norm) -> Tensor:
    """Return the direction of length 1 in L2 or L∞ that maximises ⟨gain, direction⟩. The maximum is gain's dual norm.

    >>> steepest(torch.tensor([[3.0, -4.0]]), Norm.LINF)
    tensor([[ 1., -1.]])
    """
    if norm is Norm.LINF:
        return gain.sign()
    size = norm_of(gain, Norm.L2)[:, None]
    return gain / torch.where(size > 0, size, 1.0)
