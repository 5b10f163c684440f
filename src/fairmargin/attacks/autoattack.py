"""AutoAttack: four attacks in a row, each on who withstood those before."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fairmargin.attacks.apgd import APGD
from fairmargin.attacks.losses import margin
from fairmargin.attacks.nearest import offer_nearest
from fairmargin.attacks.protocol import accepted_norm
from fairmargin.attacks.square import Square
from fairmargin.attacks.survivors import Survivors, attacked
from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count


@dataclass(frozen=True)
class AutoAttack:
    """APGD on the cross-entropy, APGD towards the strongest rivals, a minimum-norm search, and Square.

    They fail for different reasons, and the last needs no gradient. A sample is fooled if and only if one of them alone
    would fool it, so that robust accuracy is never higher than by any member.

    Not as published: the minimum-norm search is `plumb`, this package's own estimator, where the paper has targeted
    FAB; what it finds is brought into the ball. Any misclassified input on the way counts, not only the last. With
    fewer than four classes the targeted loss, a ratio of four scores, is the plain difference.

    Guarantee: within the radius and the domain; what counts as success was misclassified by the model itself.

    Parameters
    ----------
    norm
        L∞ or L2.
    steps
        Of each climb and of the minimum-norm search.
    restarts
        Random starts of each climb and of Square.
    targets
        How many rivals are climbed towards, those of the highest scores first; fewer if the model has fewer.
    queries
        Of Square, each start.

    References
    ----------
    F. Croce, M. Hein, "Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free
    attacks", ICML 2020.

    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> found = AutoAttack(norm="l2")(([3.0, 4.0], -5.0), x, y, radius=1.001, keys=keys)
    >>> bool(np.linalg.norm(found) <= 1.001), bool(found @ [3.0, 4.0] > 5.0)
    (True, True)
    """

    norm: Norm = Norm.LINF
    steps: int = 100
    restarts: int = 1
    targets: int = 9
    queries: int = 5000

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps, restarts=self.restarts, targets=self.targets, queries=self.queries)

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """The best input for each sample; its key says where climbs begin and which squares are tried."""
        return attacked(self, model, x, y, radius, keys, loss=margin, search=self.search)

    def search(self, survivors: Survivors) -> None:
        """All four, each for those who are left."""
        for member in self.members:
            member(survivors)

    @property
    def members(self) -> tuple[Callable[[Survivors], None], ...]:
        """What is run, in this order."""
        return (
            APGD(self.norm, self.steps, self.restarts).search,
            APGD(self.norm, self.steps, self.restarts, "dlr", self.targets).search,
            lambda survivors: offer_nearest(survivors, self.steps),
            Square(self.norm, self.queries, restarts=self.restarts).search,
        )
