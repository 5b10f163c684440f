"""Balls around samples, inside the domain: how to stay in them, begin in them, and cross them steepest."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.perturbation.lengths import in_units, length, norm_of, steepest

_ROUNDS = 8  # of finding the shrinking factor; each one finds the features that meet their limits, and three mostly do
_ROUNDING = torch.finfo(torch.float64).eps


@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """{x : ‖(x − center) / scale‖ ≤ radius} ∩ box around each of a batch's samples; `Ball.around` makes one.

    Samples are of any shape (n, …), and everything is calculated sample by sample. A sample that lies outside of the
    box, by rounding, may stay where it is.

    Parameters
    ----------
    center
        The samples.
    norm
        L2 or L∞.
    radius
        One number a sample, of a shape that broadcasts with them.
    lowest, highest
        Where each feature of each sample may lie: in the box, in L∞ within the radius too, and where the sample has it
        if it cannot move.
    scale
        How long a step of length 1 is in each feature; 0 for one that cannot move.
    """

    center: Tensor
    norm: Norm
    radius: Tensor
    lowest: Tensor
    highest: Tensor
    scale: Tensor

    @classmethod
    def around(
        cls,
        center: Tensor,
        norm: Norm,
        radius: Tensor | float,
        low: Tensor | float = -math.inf,
        high: Tensor | float = math.inf,
        scale: Tensor | float = 1.0,
    ) -> "Ball":
        """The ball of that radius, a number or one a sample; the others are numbers, or of a sample's shape.

        >>> Ball.around(torch.tensor([[0.5, 0.9]]), Norm.LINF, 0.25, low=0, high=1).highest
        tensor([[0.7500, 1.0000]])
        """
        if norm not in (Norm.L2, Norm.LINF):
            raise InputError(f"A ball is made in L2 or L∞; given {norm}.")
        # Plain numbers go straight to the samples' kind: by way of single precision they would be rounded.
        radius, low, high, scale = (_like(each, center) for each in (radius, low, high, scale))
        radius = radius.reshape(-1, *[1] * (center.ndim - 1))
        # A sample may lie outside the box by a rounding: then the box reaches just to it.
        lowest, highest = torch.minimum(low, center), torch.maximum(high, center)
        if norm is Norm.LINF:
            lowest, highest = lowest.maximum(center - radius * scale), highest.minimum(center + radius * scale)
        else:
            lowest, highest = torch.where(scale == 0, center, lowest), torch.where(scale == 0, center, highest)
        return cls(center, norm, radius, lowest, highest, scale)

    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the ball to each x, in Euclidean length of (…)/scale; exact but for rounding.

        In L2 it is center + clamp(t (x − center)) with the largest t ≤ 1 that keeps it short enough, as the conditions
        of Karush, Kuhn and Tucker say: shrinking first and clamping later would waste a part of the radius.

        >>> ball = Ball.around(torch.zeros(1, 2), Norm.L2, 5.0, low=-3, high=3)
        >>> ball.project(torch.tensor([[9.0, 9.0]])), ball.project(torch.tensor([[90.0, 9.0]]))
        (tensor([[3., 3.]]), tensor([[3., 3.]]))
        """
        if self.norm is Norm.LINF:
            return x.clamp(self.lowest, self.highest)
        moved = self.center + self._share(x) * (x - self.center)
        return moved.clamp(self.lowest, self.highest)

    def steepest(self, gradient: Tensor) -> Tensor:
        """The step of length 1 along which a function of that gradient grows most: scale · sign or scale · unit vector.

        A sample without a gradient does not move.

        >>> Ball.around(torch.zeros(1, 2), Norm.L2, 1.0, scale=torch.tensor([1.0, 2.0])).steepest(
        ...     torch.tensor([[3.0, 2.0]])
        ... )
        tensor([[0.6000, 1.6000]])
        """
        gain = (gradient * self.scale).flatten(1)
        return steepest(gain, self.norm).reshape(gradient.shape) * self.scale

    def random_start(self, draws: Tensor) -> Tensor:
        """A point for each sample, uniform in its ball, clamped to the box; `draws` are of `draws_for`.

        >>> ball = Ball.around(torch.full((1, 2), 0.5), Norm.LINF, 0.25, low=0, high=0.6)
        >>> ball.random_start(torch.tensor([[-1.0, 1.0]]))
        tensor([[0.2500, 0.6000]])
        """
        if self.norm is Norm.LINF:
            delta = draws.reshape(self.center.shape)
        else:
            # The first d coordinates of a uniform point of the sphere in d + 2 dimensions are uniform in the ball.
            features = draws.shape[1] - 2
            free = (self.scale != 0).expand(self.center.shape[1:]).flatten()
            draws = torch.cat([draws[:, :features] * free, draws[:, features:]], dim=1)
            delta = steepest(draws, Norm.L2)[:, :features].reshape(self.center.shape)
        return (self.center + self.radius * delta * self.scale).clamp(self.lowest, self.highest)

    def admissible(self, x: Tensor) -> Tensor:
        """The points of a ball in double precision next to x that are numbers of x's kind.

        Guarantee: where the result differs from the center as a number of that kind, it lies in the box, and its
        length, calculated in double precision in any order of additions, is at most the radius. What is no number
        becomes the center.
        """
        seen = self.center.to(x.dtype)  # what the model takes the sample for
        x = torch.where(torch.isfinite(x), x, seen)
        delta = self._step_to(x.double())
        there = (self.center + delta).to(x.dtype)
        for _ in range(2):
            # Rounded away from the sample: the next number on its side is near enough, and may be the sample itself.
            there = torch.where(self._beyond(there, delta), torch.nextafter(there, seen), there)
        return there

    def _step_to(self, x: Tensor) -> Tensor:
        """From the samples to the points next to x; in L2 shorter by what sums may be rounded by."""
        delta = self.project(x) - self.center
        if self.norm is Norm.LINF:
            return delta
        inside = x.clamp(self.lowest, self.highest) - self.center
        most = self.radius.flatten() * (1 - (delta[0].numel() + 4) * _ROUNDING)
        sizes = (length(each.flatten(1), self.norm, self._scale_of_rows()) for each in (inside, delta))
        whole, size = (each.reshape(-1, *[1] * (x.ndim - 1)) for each in sizes)
        most = most.reshape(-1, *[1] * (x.ndim - 1))
        return torch.where(whole <= most, inside, delta * (most / torch.where(size > 0, size, 1.0)).clamp(max=1))

    def _beyond(self, there: Tensor, delta: Tensor) -> Tensor:
        """Which features are outside of the box, or farther from the sample than they may be."""
        wide = there.double()
        away = (wide - self.center).abs()
        far = in_units(away, self.scale) > self.radius if self.norm is Norm.LINF else away > delta.abs()
        return far | (wide > self.highest) | (wide < self.lowest)

    def _share(self, x: Tensor) -> Tensor:
        """The t of `project`, by Newton's steps on ‖clamp(t δ)‖² as a function of t², which is concave: from below."""
        scale, radius = self._scale_of_rows(), self.radius.flatten()[:, None]
        unit = torch.where(radius > 0, radius, 1.0)
        delta = in_units((x - self.center).flatten(1), scale) / unit
        side = torch.where(delta > 0, (self.highest - self.center).flatten(1), (self.center - self.lowest).flatten(1))
        size, limit = delta.abs(), in_units(side, scale) / unit
        share = 1 / norm_of(size, Norm.L2).clamp(min=1)
        for _ in range(_ROUNDS):
            met = share[:, None] * size >= limit
            left = 1 - torch.where(met, limit, 0.0).square().sum(dim=1)
            free = torch.where(met, 0.0, size).square().sum(dim=1)
            longer = (left.clamp(min=0) / torch.where(free > 0, free, 1.0)).sqrt().clamp(max=1)
            longer = torch.where(free > 0, longer, 1.0).maximum(share)
            if torch.equal(longer, share):  # for every sample: then nothing would change any more
                break
            share = longer
        share = torch.where(self.radius.flatten() > 0, share, 0.0)
        return share.reshape(-1, *[1] * (x.ndim - 1))

    def _scale_of_rows(self) -> Tensor:
        return self.scale.expand(self.center.shape[1:]).flatten()


def _like(value: Tensor | float, center: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value.to(center)
    return torch.as_tensor(value, dtype=center.dtype, device=center.device)


def draws_for(center: Tensor, norm: Norm, generator: torch.Generator | None = None) -> Tensor:
    """What `Ball.random_start` makes a point of: uniform numbers in L∞, and in L2 normal ones, two more than features.

    >>> draws_for(torch.zeros(3, 1, 4, 4), Norm.L2, torch.Generator().manual_seed(0)).shape
    torch.Size([3, 18])
    """
    rows, features = len(center), math.prod(center.shape[1:])
    if norm is Norm.LINF:
        uniform = torch.rand(rows, features, generator=generator, dtype=center.dtype, device=center.device)
        return 2 * uniform - 1
    return torch.randn(rows, features + 2, generator=generator, dtype=center.dtype, device=center.device)
