"""PGD with the margin loss of Carlini and Wagner."""

from dataclasses import dataclass
from functools import partial

from fairmargin.attacks.ascent import search_by_ascent
from fairmargin.attacks.losses import Loss, clipped_margin
from fairmargin.attacks.pgd import check_restarts, initial_points
from fairmargin.attacks.protocol import check_share_of_radius
from fairmargin.attacks.survivors import BallAttack, Survivors
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count, check_size


@dataclass(frozen=True)
class MarginPGD(BallAttack):
    """PGD that maximises −max(f_y − max over k ≠ y of f_k + confidence, 0), often called "C&W" at a fixed radius.

    Unlike the attack of Carlini and Wagner, it does not search for the nearest misclassified input. The estimator
    `carlini_wagner` does.

    Guarantee: every result is within the radius and the domain, and success means that the original model misclassifies
    it. With more restarts, every sample that was found with fewer is found again.

    Parameters
    ----------
    norm
        Norm of the radius: L∞ or L2.
    steps
        Maximum number of steps of each start. Each takes one forward and one backward pass.
    step
        Length of a step as a fraction of the radius.
    restarts
        Number of starts. A restart attacks the samples that earlier ones did not find.
    random_start
        Whether to begin at a random point of the ball, determined by the sample's key; otherwise at the sample, with a
        single start.
    confidence
        Margin of another class from which on the loss is constant.

    References
    ----------
    N. Carlini, D. Wagner, "Towards evaluating the robustness of neural networks", IEEE S&P 2017, for the loss; as an
    attack at a fixed radius with these settings X. Ma, Z. Wang, W. Liu, "On the tradeoff between robustness and
    fairness", NeurIPS 2022.

    >>> import numpy as np
    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> found = MarginPGD()(([3.0, 4.0], -5.0), x, y, radius=0.75, keys=keys)
    >>> bool(np.abs(found).max() <= 0.75), bool(found @ [3.0, 4.0] > 5.0)
    (True, True)
    """

    norm: Norm = Norm.LINF
    steps: int = 30
    step: float = 0.25
    restarts: int = 1
    random_start: bool = True
    confidence: float = 50.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, steps=self.steps, restarts=self.restarts)
        check_share_of_radius(self, step=self.step)
        check_size(self, confidence=self.confidence)
        check_restarts(self, self.restarts, self.random_start)

    @property
    def objective(self) -> Loss:
        """Loss that orders inputs that are not misclassified."""
        return partial(clipped_margin, confidence=self.confidence)

    def search(self, survivors: Survivors) -> None:
        """Run all restarts on the remaining samples."""
        for begin in initial_points(survivors, self.restarts, self.random_start):
            search_by_ascent(survivors, begin, step=self.step, steps=self.steps)
