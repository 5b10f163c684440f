"""Mean of DeepFool's last two radii, a measure used by one paper."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import started
from fairmargin.distances.protocol import accepted_norm
from fairmargin.distances.searches.deepfool import DeepFool, search
from fairmargin.models.protocol import Differentiable


@dataclass(frozen=True)
class LastTwoRadii:
    """Mean of published DeepFool's last two radii, (r_m + r_{m−1}) / 2, where step m first met another class.

    Guarantee: none: neither bound. On a linear model one step is enough, so that the value is half of DeepFool's
    1.05·d. It is offered for comparisons with the paper that used it, not for measuring. `inf` where DeepFool found
    nothing.

    Parameters
    ----------
    norm
        L2 or L∞.
    steps
        Maximum number of steps.
    rivals
        Number of the strongest other classes that are considered; None for all.

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
    not_on_tables: ClassVar[str] = "averages steps of a search that moves all features as numbers"
    bound: ClassVar[Bound] = Bound.NEITHER

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        self._deepfool()  # refuses invalid fields

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return proxies. Nothing is random, so `keys` is not read."""
        with model.network(tuple(x.shape[1:])) as network:
            state = search(self._deepfool(), network, started(network, x, y))
            mean = (state.radius + state.radius_before) / 2
            values = torch.where(torch.isfinite(state.closest.distance), mean, torch.inf)
            return state.begun.distances(values, self.bound, self.norm, tried=state.farthest)

    def _deepfool(self) -> DeepFool:
        """Return the search whose radii are averaged."""
        return DeepFool(self.norm, self.steps, self.rivals, published=True)
