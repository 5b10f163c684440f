"""The mean of DeepFool's last two radii, as one paper measured."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.deepfool import DeepFool, found
from fairmargin.distances.protocol import accepted_norm
from fairmargin.distances.starting import started
from fairmargin.models.protocol import Differentiable


@dataclass(frozen=True)
class LastTwoRadii:
    """(r_m + r_{m−1}) / 2, r_m being the radius at which published DeepFool met a misclassified input.

    Guarantee: none: neither bound. On a linear model one step suffices, so that it is half of DeepFool's 1.05·d; it is
    offered to compare with the paper that used it, not to measure with. `inf` where DeepFool found nothing.

    Parameters
    ----------
    norm
        L2 or L∞.
    steps
        At most so many steps.
    rivals
        How many of the strongest other classes are considered; None for all.

    References
    ----------
    S. H. Mousavi et al., "FARMUR: fair adversarial retraining to mitigate unfairness in robustness", 2023, Eq. 8.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], LastTwoRadii())
    >>> round(float(found.values[0]), 3)
    0.525
    """

    norm: Norm = Norm.L2
    steps: int = 100
    rivals: int | None = 9

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = DeepFool.norms
    revision: ClassVar[int] = 1
    bound: ClassVar[Bound] = Bound.NEITHER

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        self._deepfool()  # says now if a field cannot be

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Proxies; nothing here is random, so `keys` is not read."""
        with model.network(tuple(x.shape[1:])) as network:
            walk = found(self._deepfool(), network, started(network, x, y))
            mean = (walk.radius + walk.radius_before) / 2
            values = torch.where(torch.isfinite(walk.closest.distance), mean, torch.inf)
            return walk.begun.distances(values, self.bound, self.norm, tried=walk.farthest)

    def _deepfool(self) -> DeepFool:
        return DeepFool(self.norm, self.steps, self.rivals, published=True)
