"""DDN: separate updates of the direction, by the gradient, and of the norm, by success."""

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
    evaluate,
    farthest_corner,
    placed,
    positive,
    unit,
)
from fairmargin.distances.protocol import accepted_norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units, norm_of

_LAST_STEP = 0.01  # as a share of the first


@dataclass(frozen=True)
class DDN(TileSearch):
    """Distance to a misclassified input found on spheres that shrink after success and grow after failure.

    In each step, δ ← δ + α ∇ℓ/‖∇ℓ‖ with the cross-entropy ℓ, then δ ← ρ δ/‖δ‖, then clipped to the domain. The radius
    ρ becomes (1 − γ)ρ where the model was fooled and (1 + γ)ρ where not; α falls along half a cosine. At the end the
    boundary is searched on the straight line back to the sample. Where no misclassified input was found, it is searched
    on the line to a reference, an input of another class (see `references` of `fm.measure`).

    Guarantee: an upper bound; the model itself confirmed every input. `inf` where nothing was found; then `tried` says
    how far the search went.

    Parameters
    ----------
    norm
        L2.
    steps
        Number of forward and backward passes.
    radius
        Initial radius ρ.
    radius_change
        Relative change γ of the radius per step.
    step_size
        Initial step size α; a hundredth of it at the end.

    References
    ----------
    J. Rony, L. G. Hafemann, L. S. Oliveira, I. Ben Ayed, R. Sabourin, E. Granger, "Decoupling direction and norm for
    efficient gradient-based L2 adversarial attacks and defenses", CVPR 2019.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], DDN(steps=20))
    >>> bool(1.0 <= found.values[0] <= 1.001)
    True
    """

    norm: Norm = Norm.L2
    steps: int = 100
    radius: float = 1.0
    radius_change: float = 0.05
    step_size: float = 1.0

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps)
        check_size(self, radius=self.radius, step_size=self.step_size)
        check_share(self, radius_change=self.radius_change)

    def descend(self, network: Network, start: Tensor, y: Tensor, keys: Tensor) -> Best:
        """Run the search for one tile; the keys give random directions where a gradient is 0."""
        x, best = start, Best.of(start)
        limit = farthest_corner(network, start, self.norm)
        radius = torch.full_like(limit, self.radius).minimum(limit)
        for step in range(self.steps):
            seen = evaluate(network, x, y, rivals_ahead)
            delta = in_units(x - start, network.scale)
            best.update(x, norm_of(delta, self.norm), seen.fooled)
            radius = radius * torch.where(seen.fooled, 1 - self.radius_change, 1 + self.radius_change)
            # Where scores are not finite, the search has gone too far.
            radius = torch.where(seen.finite, radius, radius / 2).minimum(limit)
            size = cosine(step, self.steps, self.step_size, self.step_size * _LAST_STEP)
            delta = delta + size * unit(network, seen.gain, keys, step)
            length = norm_of(delta, self.norm)
            x = placed(network, start, delta * (radius / positive(length))[:, None])
        return best


def rivals_ahead(scores: Tensor, y: Tensor) -> Tensor:
    """Return f_y − log Σ over k ≠ y of exp f_k; its gradient is parallel to the cross-entropy's and cannot underflow.

    The cross-entropy is log(1 + exp(−this)); that of a confident model is exactly 0, without any gradient.

    >>> rivals_ahead(torch.tensor([[100.0, 0.0]]), torch.tensor([0]))
    tensor([100.])
    """
    own = scores.gather(1, y[:, None])[:, 0]
    return own - scores.scatter(1, y[:, None], -torch.inf).logsumexp(dim=1)
