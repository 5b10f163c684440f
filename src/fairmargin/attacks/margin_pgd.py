"""PGD on the margin of Carlini and Wagner."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fairmargin.attacks.climbing import climb
from fairmargin.attacks.losses import Loss, clipped_margin
from fairmargin.attacks.pgd import beginnings, check_restarts
from fairmargin.attacks.protocol import accepted_norm, check_share_of_radius
from fairmargin.attacks.survivors import Survivors, attacked
from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count, check_size


@dataclass(frozen=True)
class MarginPGD:
    """PGD that climbs −max(f_y − max over k ≠ y of f_k + confidence, 0); at a fixed radius often called "C&W".

    Unlike the attack of Carlini and Wagner it does not look for the nearest input; `carlini_wagner` among the
    estimators does.

    Guarantee: within the radius and the domain; what counts as success was misclassified by the model itself. More
    restarts never lose a sample that fewer found.

    Parameters
    ----------
    norm
        L∞ or L2.
    steps
        So many forward and backward passes at most, each start.
    step
        The length of a step, as a share of the radius.
    restarts
        How many starts, later ones for samples that earlier ones did not find.
    random_start
        Begin uniformly in the ball, by the sample's key; otherwise at the sample, and then once.
    confidence
        How far ahead a rival has to be before a step is no longer wanted.

    References
    ----------
    N. Carlini, D. Wagner, "Towards evaluating the robustness of neural networks", IEEE S&P 2017, for the loss; as an
    attack at a fixed radius with these settings X. Ma, Z. Wang, W. Liu, "On the tradeoff between robustness and
    fairness", NeurIPS 2022.

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

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps, restarts=self.restarts)
        check_share_of_radius(self, step=self.step)
        check_size(self, confidence=self.confidence)
        check_restarts(self, self.restarts, self.random_start)

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """The best input for each sample; its key says where it begins."""
        loss: Loss = partial(clipped_margin, confidence=self.confidence)
        return attacked(self, model, x, y, radius, keys, loss=loss, search=self.search)

    def search(self, survivors: Survivors) -> None:
        """All restarts."""
        for begin in beginnings(survivors, self.restarts, self.random_start):
            climb(survivors, begin, step=self.step, steps=self.steps)
