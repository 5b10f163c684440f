"""Distance to the linearised decision boundary: one gradient, no search."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import distance_to_plane, started
from fairmargin.distances.protocol import accepted_norm
from fairmargin.errors import InputError
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.lengths import norm_of
from fairmargin.perturbation.margins import rivals_of, slopes
from fairmargin.perturbation.tiles import by_tiles


@dataclass(frozen=True)
class FirstOrder:
    """Distance to the boundary of the linearised scores: min over k of (f_y − f_k)(x) / ‖∇(f_y − f_k)(x)‖_q.

    Guarantee: none on a network: neither an upper nor a lower bound, but cheap, and well correlated with the distance
    where gradients are not saturated. On a linear model without limits, with all rivals and a single class to keep, it
    is exact. Limits of the domain are ignored, except that immutable features do not move; `inf` where the gradient is
    0.

    Parameters
    ----------
    norm
        L1, L2 or L∞; q is the exponent of its dual norm.
    rivals
        Number of the strongest other classes that are considered, one backward pass each; None for all.

    References
    ----------
    M. Hein, M. Andriushchenko, "Formal guarantees on the robustness of a classifier against adversarial manipulation",
    NeurIPS 2017, and V. Nanda et al., FAccT 2021, whose |f| / ‖∇f‖ with the largest score alone changes when a constant
    is added to all scores; the difference of two scores does not.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], FirstOrder()).values.tolist()
    [1.0]
    """

    norm: Norm = Norm.L2
    rivals: int | None = 1

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1
    not_on_tables: ClassVar[str] = "follows one gradient, and a switch of a category has none"
    bound: ClassVar[Bound] = Bound.NEITHER

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        if self.rivals is not None and self.rivals < 1:
            raise InputError("must be at least 1, or None for all", field="rivals", given=self.rivals, of="FirstOrder")

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return proxies. Nothing is random, so `keys` is not read."""
        with model.network(tuple(x.shape[1:])) as network:
            begun = started(network, x, y)
            values = torch.zeros(len(begun.y), dtype=torch.float64, device=network.device)
            if len(begun.correct_at):

                def nearest(rows: Tensor, y: Tensor, rivals: Tensor) -> tuple[Tensor]:
                    ways = [
                        distance_to_plane(margin.double().clamp(min=0), norm_of(gain.double(), self.norm.dual))
                        for margin, gain in slopes(network, rows, y, rivals)
                    ]
                    return (torch.stack(ways).amin(dim=0),)

                rivals = rivals_of(begun.scores, begun.y, self.rivals)
                chosen = begun.correct_at
                (values[chosen],) = by_tiles(network, nearest, begun.x[chosen], begun.y[chosen], rivals[chosen])
            return begun.distances(values, self.bound, self.norm)
