"""FGSM: one step of the whole radius."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fairmargin.attacks.climbing import climb, random_starts
from fairmargin.attacks.losses import log_odds
from fairmargin.attacks.protocol import accepted_norm
from fairmargin.attacks.survivors import Survivors, attacked
from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm


@dataclass(frozen=True)
class FGSM:
    """One step as long as the radius, up the cross-entropy: x + ε sign(∇ℓ(x)), inside the domain.

    In L2 the step is ε ∇ℓ/‖∇ℓ‖. Where the cross-entropy is flat to the last bit its odds say the direction.

    Guarantee: within the radius and the domain; what counts as success was misclassified by the model itself. On a
    linear model of two classes in L∞ no input within the radius has a larger loss.

    Parameters
    ----------
    norm
        L∞ or L2.
    random_start
        Step from a point uniform in the ball instead, and come back into it: what one published study of class-wise
        robustness calls FGSM.

    References
    ----------
    I. J. Goodfellow, J. Shlens, C. Szegedy, "Explaining and harnessing adversarial examples", ICLR 2015. Random start:
    X. Ma, Z. Wang, W. Liu, "On the tradeoff between robustness and fairness", NeurIPS 2022.

    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> FGSM()(([3.0, 4.0], -5.0), x, y, radius=1.0, keys=keys).tolist()
    [[1.0, 1.0]]
    """

    norm: Norm = Norm.LINF
    random_start: bool = False

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """The best input for each sample; keys are read if the start is random."""
        return attacked(self, model, x, y, radius, keys, loss=log_odds, search=self.search)

    def search(self, survivors: Survivors) -> None:
        """One step for each survivor."""
        begin = random_starts(survivors, 0) if self.random_start else survivors.begun.x[survivors.left]
        climb(survivors, begin, step=1.0, steps=1)
