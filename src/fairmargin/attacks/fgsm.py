"""FGSM: a single gradient step of the length of the radius."""

from dataclasses import dataclass

from fairmargin.attacks.ascent import random_starts, search_by_ascent
from fairmargin.attacks.losses import Loss, log_odds
from fairmargin.attacks.survivors import BallAttack, Survivors
from fairmargin.core.norm import Norm


@dataclass(frozen=True)
class FGSM(BallAttack):
    """Single step x + ε sign(∇ℓ(x)) that increases the cross-entropy ℓ, inside the domain.

    In L2 the step is ε ∇ℓ/‖∇ℓ‖. The gradient is that of the log-odds, which has the same direction and does not
    underflow where the model is very confident.

    Guarantee: every result is within the radius and the domain, and success means that the original model misclassifies
    it. For a linear model of two classes in L∞, no input within the radius has a larger loss.

    Parameters
    ----------
    norm
        Norm of the radius: L∞ or L2.
    random_start
        Whether to begin at a random point of the ball and project the result onto the ball, as a study of class-wise
        robustness does under the name FGSM (Ma et al., 2022).

    References
    ----------
    I. J. Goodfellow, J. Shlens, C. Szegedy, "Explaining and harnessing adversarial examples", ICLR 2015. Random start:
    X. Ma, Z. Wang, W. Liu, "On the tradeoff between robustness and fairness", NeurIPS 2022.

    >>> import numpy as np
    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> FGSM()(([3.0, 4.0], -5.0), x, y, radius=1.0, keys=keys).tolist()
    [[1.0, 1.0]]
    """

    norm: Norm = Norm.LINF
    random_start: bool = False

    @property
    def objective(self) -> Loss:
        """Loss that orders inputs that are not misclassified."""
        return log_odds

    def search(self, survivors: Survivors) -> None:
        """Take one step for each remaining sample."""
        begin = random_starts(survivors, 0) if self.random_start else survivors.samples.x[survivors.remaining]
        search_by_ascent(survivors, begin, step=1.0, steps=1)
