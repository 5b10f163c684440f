"""FMN: gradient steps, projected on a ball whose radius follows the boundary."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import (
    Best,
    check_count,
    check_share,
    check_size,
    cosine,
    farthest_corner,
    look,
    placed,
    search,
    unit,
)
from fairmargin.distances.protocol import Found, accepted_norm
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.planes import unblocked

_LAST_STEP, _LAST_CHANGE = 0.01, 0.001


@dataclass(frozen=True)
class FMN:
    """The distance to a misclassified input found by gradient steps inside a ball that follows the boundary.

    In each step, δ ← δ + α ∇ℓ/‖∇ℓ‖₂ with the strongest rival's lead ℓ, brought to length ρ and back into the domain.
    Until the model is first fooled, ρ is where the boundary would be if it were straight, ‖δ‖ + |ℓ|/‖∇ℓ‖_q; later it
    shrinks to (1 − γ)ρ where the model is fooled and grows to (1 + γ)ρ where not. α and γ fall along half a cosine. At
    last the boundary is searched on the straight way back, and samples that were not fooled fall back on a reference.

    Three things are not as in the paper, whose steps can stay short of the boundary for ever: ρ grows by γ before the
    first success too; features at a limit that could only move beyond it take no part in a step; and a δ shorter than
    ρ is stretched, which matters where slopes are small and distances large.

    Guarantee: an upper bound; every input was checked by the model itself. `inf` where nothing was found; then `tried`
    says how far it went.

    Parameters
    ----------
    norm
        L1, L2 or L∞; q is its dual.
    steps
        So many forward and backward passes.
    step_size
        α at first, in Euclidean length whatever the norm; a hundredth of it at last.
    radius_change
        γ at first; .001 at last.

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

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Upper bounds; a sample's key says where it goes where there is no gradient to follow."""
        return self.find(model, x, y, keys=keys).distances

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """The distances and the inputs found."""
        return search(model, x, y, keys, self.norm, self.descend)

    def descend(self, network: Network, start: Tensor, y: Tensor, keys: Tensor) -> Best:
        """The search for one tile."""
        x, best = start, Best.of(start)
        limit = farthest_corner(network, start, self.norm)
        radius = torch.zeros_like(limit)
        for step in range(self.steps):
            seen = look(network, x, y, lead)
            gain = unblocked(network, x, seen.gain)
            delta = in_units(x - start, network.scale)
            length = norm_of(delta, self.norm)
            best.see(x, length, seen.fooled)
            ahead = radius.maximum(length + _way(seen.value, norm_of(gain, self.norm.dual)))
            radius = torch.where(torch.isfinite(best.distance), radius, ahead)
            change = cosine(step, self.steps, self.radius_change, min(_LAST_CHANGE, self.radius_change))
            radius = torch.where(seen.fooled, (radius * (1 - change)).minimum(best.distance), radius * (1 + change))
            # Where the scores are no numbers one has gone too far.
            radius = torch.where(seen.sound, radius, length / 2).minimum(limit)
            size = cosine(step, self.steps, self.step_size, self.step_size * _LAST_STEP)
            x = placed(network, start, on_sphere(delta + size * unit(network, gain, keys, step), radius, self.norm))
        return best


def _way(value: Tensor, slope: Tensor) -> Tensor:
    """How far the boundary is if it is straight; `inf` if there is no slope."""
    return torch.where(slope > 0, value.abs() / torch.where(slope > 0, slope, 1.0), torch.inf)


def on_sphere(delta: Tensor, radius: Tensor, norm: Norm) -> Tensor:
    """The rows at exactly that length: longer ones projected, shorter ones stretched."""
    inside = projected(delta, radius, norm)
    length = norm_of(inside, norm)
    known = (length > 0) & torch.isfinite(radius)
    return inside * torch.where(known, radius / torch.where(known, length, 1.0), 1.0)[:, None]


def projected(delta: Tensor, radius: Tensor, norm: Norm) -> Tensor:
    """The point of the ball of that radius nearest, in Euclidean length, to each row.

    >>> projected(torch.tensor([[3.0, -4.0]]), torch.tensor([2.0]), Norm.L1)
    tensor([[ 0.5000, -1.5000]])
    """
    if norm is Norm.LINF:
        return delta.clamp(-radius[:, None], radius[:, None])
    length = norm_of(delta, norm)
    if norm is Norm.L2:
        return delta * (radius / torch.where(length > 0, length, 1.0)).clamp(max=1)[:, None]
    # All entries come nearer to 0 by the same amount (J. Duchi et al., ICML 2008): by how much, the sorted ones tell.
    sizes = delta.abs()
    falling = sizes.sort(dim=1, descending=True).values
    count = torch.arange(1, delta.shape[1] + 1, dtype=delta.dtype, device=delta.device)
    cuts = (falling.cumsum(dim=1) - radius[:, None]) / count
    cut = cuts.amax(dim=1).clamp(min=0)
    return delta.sign() * (sizes - cut[:, None]).clamp(min=0)
