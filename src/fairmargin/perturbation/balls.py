"""Balls around samples inside the domain: projection, random starts and steepest steps."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.perturbation.lengths import in_units, length, norm_of, steepest

_ROUNDS = 8  # maximum number of iterations for the factor of an L2 projection; three are usually enough
_SHORTER = 2.0**-50  # share by which a step is shortened where rounding made it too long
_ROUNDING = torch.finfo(torch.float64).eps


@dataclass(frozen=True, slots=True, eq=False)
class Ball:
    """Ball around each sample of a batch, intersected with the box: {x : ‖(x − center) / scale‖ ≤ radius} ∩ box.

    Use `Ball.around` to create one. Samples have any shape (n, …), and the result for a sample does not depend on the
    others. A sample that lies outside of the box, by rounding, belongs to its ball.

    Parameters
    ----------
    center
        Samples, the centers of the balls.
    norm
        Norm of the ball: L2 or L∞.
    radius
        Radius of each ball, in a shape that broadcasts with the samples.
    lowest, highest
        Limits of each feature of each sample: those of the box, in L∞ also those of the ball. Both limits of an
        immutable feature are its value in the sample.
    scale
        Change of each feature that has length 1; 0 for immutable features.
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
        """Create the balls of a radius around samples.

        The radius is a number, or one number per sample. `low`, `high` and `scale` are numbers, or tensors of the shape
        of a sample.

        >>> Ball.around(torch.tensor([[0.5, 0.9]]), Norm.LINF, 0.25, low=0, high=1).highest
        tensor([[0.7500, 1.0000]])
        """
        if norm not in (Norm.L2, Norm.LINF):
            raise InputError(f"The norm of a ball must be L2 or L∞; given {norm}.")
        # Python numbers are converted to the dtype of the samples directly, because single precision would round them.
        radius, low, high, scale = (_like(each, center) for each in (radius, low, high, scale))
        radius = radius.reshape(-1, *[1] * (center.ndim - 1))
        # A sample may lie outside of the box by rounding: then the box is extended to contain it.
        lowest, highest = torch.minimum(low, center), torch.maximum(high, center)
        if norm is Norm.LINF:
            lowest, highest = lowest.maximum(center - radius * scale), highest.minimum(center + radius * scale)
        else:
            lowest, highest = torch.where(scale == 0, center, lowest), torch.where(scale == 0, center, highest)
        return cls(center, norm, radius, lowest, highest, scale)

    def project(self, x: Tensor) -> Tensor:
        """Project each x onto its ball: return the nearest point in the L2 norm of (…)/scale, exact up to rounding.

        By the Karush-Kuhn-Tucker conditions, the L2 projection is center + clamp(t (x − center)) with the largest t ≤ 1
        for which the clamped perturbation lies within the radius. Scaling before clamping would not use the entire
        radius.

        >>> ball = Ball.around(torch.zeros(1, 2), Norm.L2, 5.0, low=-3, high=3)
        >>> ball.project(torch.tensor([[9.0, 9.0]])), ball.project(torch.tensor([[90.0, 9.0]]))
        (tensor([[3., 3.]]), tensor([[3., 3.]]))
        """
        if self.norm is Norm.LINF:
            return x.clamp(self.lowest, self.highest)
        moved = self.center + self._share(x) * (x - self.center)
        return moved.clamp(self.lowest, self.highest)

    def steepest(self, gradient: Tensor) -> Tensor:
        """Return the step of length 1 along which a function with this gradient grows most.

        The step is scale · sign(gradient · scale) in L∞, and scale · (gradient · scale) / ‖gradient · scale‖₂ in L2. It
        is 0 for a sample whose gradient is 0.

        >>> Ball.around(torch.zeros(1, 2), Norm.L2, 1.0, scale=torch.tensor([1.0, 2.0])).steepest(
        ...     torch.tensor([[3.0, 2.0]])
        ... )
        tensor([[0.6000, 1.6000]])
        """
        gain = (gradient * self.scale).flatten(1)
        return steepest(gain, self.norm).reshape(gradient.shape) * self.scale

    def random_start(self, draws: Tensor) -> Tensor:
        """Return a point for each sample that is uniform in its ball and clamped to the box.

        `draws` are the random numbers of `draws_for`.

        >>> ball = Ball.around(torch.full((1, 2), 0.5), Norm.LINF, 0.25, low=0, high=0.6)
        >>> ball.random_start(torch.tensor([[-1.0, 1.0]]))
        tensor([[0.2500, 0.6000]])
        """
        if self.norm is Norm.LINF:
            delta = draws.reshape(self.center.shape)
        else:
            # The first d coordinates of a uniform point on the sphere in d + 2 dimensions are uniform in the ball.
            features = draws.shape[1] - 2
            free = (self.scale != 0).expand(self.center.shape[1:]).flatten()
            draws = torch.cat([draws[:, :features] * free, draws[:, features:]], dim=1)
            delta = steepest(draws, Norm.L2)[:, :features].reshape(self.center.shape)
        return (self.center + self.radius * delta * self.scale).clamp(self.lowest, self.highest)

    def admissible(self, x: Tensor) -> Tensor:
        """Return the points nearest to x that lie in the ball exactly and have the dtype of x; the ball is in float64.

        Guarantee: where the result differs from the center in that dtype, it lies in the box, and the length of its
        perturbation, computed in double precision with sums in any order, is at most the radius. Where x is NaN or
        infinite, the result is the center.
        """
        seen = self.center.to(x.dtype)  # the sample in the precision of the model
        x = torch.where(torch.isfinite(x), x, seen)
        delta = self._step_to(x.double())
        rounded = (self.center + delta).to(x.dtype)
        for _ in range(2):
            # A value that was rounded away from the sample is replaced by the next number towards the sample.
            rounded = torch.where(self._beyond(rounded, delta), torch.nextafter(rounded, seen), rounded)
        # Next to 0 the next number is so near that the difference to the sample is the same: a shorter step is not.
        shorter = (self.center + delta * (1 - _SHORTER)).to(x.dtype)
        rounded = torch.where(self._beyond(rounded, delta), shorter, rounded)
        return torch.where(self._beyond(rounded, delta), seen, rounded)

    def _step_to(self, x: Tensor) -> Tensor:
        """Return the perturbations to the points nearest to x, in L2 shortened by the rounding error of a sum."""
        delta = self.project(x) - self.center
        if self.norm is Norm.LINF:
            return delta
        inside = x.clamp(self.lowest, self.highest) - self.center
        most = self.radius.flatten() * (1 - (delta[0].numel() + 4) * _ROUNDING)
        sizes = (length(each.flatten(1), self.norm, self._scale_of_rows()) for each in (inside, delta))
        whole, size = (each.reshape(-1, *[1] * (x.ndim - 1)) for each in sizes)
        most = most.reshape(-1, *[1] * (x.ndim - 1))
        return torch.where(whole <= most, inside, delta * (most / torch.where(size > 0, size, 1.0)).clamp(max=1))

    def _beyond(self, x: Tensor, delta: Tensor) -> Tensor:
        """Return which features of x lie outside of the box, or too far from the sample."""
        wide = x.double()
        away = (wide - self.center).abs()
        far = in_units(away, self.scale) > self.radius if self.norm is Norm.LINF else away > delta.abs()
        return far | (wide > self.highest) | (wide < self.lowest)

    def _share(self, x: Tensor) -> Tensor:
        """Compute the factor t of `project`.

        ‖clamp(t δ)‖² is a concave function of t², so Newton's method approaches the solution from below.
        """
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
            if torch.equal(longer, share):  # converged for every sample
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
    """Draw the random numbers from which `Ball.random_start` computes points.

    In L∞ they are uniform in [−1, 1), one per feature. In L2 they are normal, two more than there are features.

    >>> draws_for(torch.zeros(3, 1, 4, 4), Norm.L2, torch.Generator().manual_seed(0)).shape
    torch.Size([3, 18])
    """
    rows, features = len(center), math.prod(center.shape[1:])
    if norm is Norm.LINF:
        uniform = torch.rand(rows, features, generator=generator, dtype=center.dtype, device=center.device)
        return 2 * uniform - 1
    return torch.randn(rows, features + 2, generator=generator, dtype=center.dtype, device=center.device)
