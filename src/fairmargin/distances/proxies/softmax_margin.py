"""Lead in probability: how confident the model is, not how far the sample is from the boundary."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import started
from fairmargin.distances.protocol import accepted_norm
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.tiles import by_tiles


@dataclass(frozen=True)
class SoftmaxMargin:
    """Probability of the predicted class minus that of the strongest rival, p₍₁₎ − p₍₂₎.

    Guarantee: none. It is a substitute for the distance that needs no gradient and no search; it lies in [0, 1], has no
    unit of length, and changes with the temperature of the scores although the boundary does not. Of several classes to
    keep the one with the highest score counts, and the others are left out of the softmax.

    Parameters
    ----------
    norm
        A label only, for comparisons with distances in that norm: the value is the same for all norms.

    References
    ----------
    C. Tran et al., "On the Effects of Fairness to Adversarial Vulnerability", 2024, which proves statements about the
    distance and plots this.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([1.0], 0.0), np.array([[np.log(3.0)]]), [1], SoftmaxMargin())
    >>> round(float(found.values[0]), 6)
    0.5
    """

    norm: Norm = Norm.L2

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1
    moves: ClassVar[bool] = False
    bound: ClassVar[Bound] = Bound.NEITHER
    caution: ClassVar[str] = (
        "`softmax_margin` is a difference of probabilities: it has no unit of length, whatever norm tables and figures "
        "name beside it."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return proxies. Nothing is random, so `keys` is not read."""
        with model.network(tuple(x.shape[1:])) as network:
            begun = started(network, x, y)

            def margin(scores: Tensor) -> tuple[Tensor]:
                top = scores.double().softmax(dim=1).topk(2, dim=1).values
                return (top[:, 0] - top[:, 1],)

            (values,) = by_tiles(network, margin, begun.scores)
            return begun.distances(values, self.bound, self.norm)
