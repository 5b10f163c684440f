"""The inputs within a radius of each sample, inside the domain, and how low a linear function gets among them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import norm_of

_ROUNDS = 8  # of finding the multiplier; whatever it is, the bound holds
_ROUNDING = torch.finfo(torch.float64).eps


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """{x + δ : ‖δ / scale‖ ≤ radius} ∩ box, around each of a tile's samples, in double precision.

    Parameters
    ----------
    center
        The samples, as rows.
    scale
        How long a step of length 1 is in each feature; 0 for one that cannot move.
    down, up
        How far each feature of each sample may go either way before it meets the box, in units of the scale.
    norm
        L2 or L∞.
    radius
        One number a sample.
    """

    center: Tensor
    scale: Tensor
    down: Tensor
    up: Tensor
    norm: Norm
    radius: Tensor

    @classmethod
    def around(cls, network: Network, rows: Tensor, norm: Norm, radius: Tensor) -> "Region":
        """The region of that radius inside the network's domain."""
        center, scale = rows.double(), network.scale.double()
        still = scale == 0
        unit = torch.where(still, 1.0, scale)
        # A sample may lie outside the box by a rounding: then the region reaches just to it.
        down, up = (center - network.low.double()) / unit, (network.high.double() - center) / unit
        zero = torch.zeros_like(center)
        down, up = (torch.where(still, zero, way.clamp(min=0)) for way in (down, up))
        return cls(center, scale, down, up, norm, radius.double())

    @property
    def farthest(self) -> Tensor:
        """The length of the longest step that stays in the box: beyond it the region no longer grows."""
        way = torch.maximum(self.down, self.up)
        endless = torch.isinf(way).any(dim=1)
        return torch.where(endless, torch.inf, norm_of(torch.where(endless[:, None], 0.0, way), self.norm))

    def interval(self) -> tuple[Tensor, Tensor]:
        """The smallest and the largest value of each feature."""
        radius = self.radius[:, None]
        return (
            self.center - self.scale * torch.minimum(self.down, radius),
            self.center + self.scale * torch.minimum(self.up, radius),
        )

    def least(self, slopes: Tensor) -> Tensor:
        """A lower bound of ⟨slope, x⟩ for each of the (samples, functions, features); exact but for rounding in L∞.

        In L2 it is the Lagrange dual: for any λ ≥ 0, Σᵢ min over the box of aᵢ dᵢ + λ dᵢ² / 2, minus λ radius² / 2,
        is not above the minimum of ⟨a, d⟩ over ball and box; the best λ, which a few rounds come to, makes it equal.
        """
        gain = slopes * self.scale
        radius = self.radius[:, None, None]
        limit = torch.where(gain > 0, self.down[:, None], self.up[:, None]).minimum(radius)
        gain = gain.abs()
        if self.norm is Norm.LINF:
            drop = (gain * limit).sum(dim=2)
            size = drop
        else:
            drop, size = _dual(gain, limit, radius)
        at_center = (slopes * self.center[:, None]).sum(dim=2)
        size = size + (slopes * self.center[:, None]).abs().sum(dim=2)
        return at_center - drop - slopes.shape[2] * _ROUNDING * size


def _dual(gain: Tensor, limit: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """How far a function of these slopes can fall, at most, and the sizes of what was added up."""
    free = gain
    budget = radius.square().expand(*gain.shape[:2], 1)
    for _ in range(_ROUNDS):
        rest = free.square().sum(dim=2, keepdim=True)
        multiplier = torch.where(rest > 0, (rest / torch.where(budget > 0, budget, 1.0)).sqrt(), 0.0)
        stopped = gain > multiplier * limit
        free = torch.where(stopped, 0.0, gain)
        used = torch.where(stopped, limit, 0.0).square().sum(dim=2, keepdim=True)
        budget = (radius.square() - used).clamp(min=0)
    positive = multiplier > 0
    way = torch.where(positive, gain / torch.where(positive, multiplier, 1.0), torch.inf).minimum(limit)
    size = (gain * way).sum(dim=2)
    fall = size + (multiplier[:, :, 0] / 2) * (radius[:, :, 0].square() - way.square().sum(dim=2))
    return fall, size + multiplier[:, :, 0] * radius[:, :, 0].square()
