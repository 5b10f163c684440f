"""FMN: gradient steps, projected onto a ball whose radius follows the boundary."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import (
    Best,
    TileSearch,
    check_count,
    check_share,
    check_size,
    cosine,
    distance_to_plane,
    evaluate,
    farthest_corner,
    placed,
    positive,
    unit,
)
from fairmargin.distances.protocol import accepted_norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.planes import unblocked

_LAST_STEP, _LAST_CHANGE = 0.01, 0.001  # the step as a share of the first; the change of the radius


@dataclass(frozen=True)
class FMN(TileSearch):
    """Distance to a misclassified input found by gradient steps inside a ball that follows the boundary.

    In each step, δ ← δ + α ∇ℓ/‖∇ℓ‖₂ with the strongest rival's lead ℓ, rescaled to length ρ and clipped to the domain.
    Until the model is first fooled, ρ is the distance of the linearised boundary, ‖δ‖ + |ℓ|/‖∇ℓ‖_q; later it shrinks to
    (1 − γ)ρ where the model is fooled and grows to (1 + γ)ρ where not. α and γ fall along half a cosine. At the end the
    boundary is searched on the straight line back to the sample. Where no misclassified input was found, it is searched
    on the line to a reference, an input of another class (see `references` of `fm.measure`).

    Three things differ from the paper, whose steps can stay short of the boundary forever: ρ grows by γ before the
    first success too; features at a limit that could only move beyond it take no part in a step; and a δ shorter than ρ
    is stretched, which matters where gradients are small and distances large.

    Guarantee: an upper bound; the model itself confirmed every input. `inf` where nothing was found; then `tried` says
    how far the search went.

    Parameters
    ----------
    norm
        L1, L2 or L∞; q is the exponent of its dual norm.
    steps
        Number of forward and backward passes.
    step_size
        Initial step size α, a Euclidean length for every norm; a hundredth of it at the end.
    radius_change
        Initial relative change γ of the radius per step; 0.001 at the end.

    References
    ----------
    M. Pintor, F. Roli, W. Brendel, B. Biggio, "Fast minimum-norm adversarial attacks through adaptive norm
    constraints", NeurIPS 2021.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], FMN(steps=20))
    >>> bool(1.0 <= found.values[0] <= 1.001)
    True
    """

    norm: Norm = Norm.L2
    steps: int = 100
    step_size: float = 1.0
    radius_change: float = 0.05

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps)
        check_size(self, step_size=self.step_size)
        check_share(self, radius_change=self.radius_change)

    def descend(self, network: Network, start: Tensor, y: Tensor, keys: Tensor) -> Best:
        """Run the search for one tile; the keys give random directions where a gradient is 0."""
        x, best = start, Best.of(start)
        limit = farthest_corner(network, start, self.norm)
        radius = torch.zeros_like(limit)
        for step in range(self.steps):
            seen = evaluate(network, x, y, lead)
            gain = unblocked(network, x, seen.gain)
            delta = in_units(x - start, network.scale)
            length = norm_of(delta, self.norm)
            best.update(x, length, seen.fooled)
            ahead = radius.maximum(length + distance_to_plane(seen.value.abs(), norm_of(gain, self.norm.dual)))
            radius = torch.where(torch.isfinite(best.distance), radius, ahead)
            change = cosine(step, self.steps, self.radius_change, min(_LAST_CHANGE, self.radius_change))
            radius = torch.where(seen.fooled, (radius * (1 - change)).minimum(best.distance), radius * (1 + change))
            # Where scores are not finite, the search has gone too far.
            radius = torch.where(seen.finite, radius, length / 2).minimum(limit)
            size = cosine(step, self.steps, self.step_size, self.step_size * _LAST_STEP)
            x = placed(network, start, on_sphere(delta + size * unit(network, gain, keys, step), radius, self.norm))
        return best


def on_sphere(delta: Tensor, radius: Tensor, norm: Norm) -> Tensor:
    """Return the rows rescaled to the radius: longer ones are projected, shorter ones stretched."""
    inside = projected(delta, radius, norm)
    length = norm_of(inside, norm)
    known = (length > 0) & torch.isfinite(radius)
    return inside * torch.where(known, radius / torch.where(known, length, 1.0), 1.0)[:, None]


def projected(delta: Tensor, radius: Tensor, norm: Norm) -> Tensor:
    """Return the point of the ball of that radius that is nearest, in Euclidean length, to each row.

    >>> projected(torch.tensor([[3.0, -4.0]]), torch.tensor([2.0]), Norm.L1)
    tensor([[ 0.5000, -1.5000]])
    """
    if norm is Norm.LINF:
        return delta.clamp(-radius[:, None], radius[:, None])
    length = norm_of(delta, norm)
    if norm is Norm.L2:
        return delta * (radius / positive(length)).clamp(max=1)[:, None]
    # All entries move towards 0 by the same amount, computed from the sorted entries (J. Duchi et al., ICML 2008).
    sizes = delta.abs()
    falling = sizes.sort(dim=1, descending=True).values
    count = torch.arange(1, delta.shape[1] + 1, dtype=delta.dtype, device=delta.device)
    cuts = (falling.cumsum(dim=1) - radius[:, None]) / count
    cut = cuts.amax(dim=1).clamp(min=0)
    return delta.sign() * (sizes - cut[:, None]).clamp(min=0)
