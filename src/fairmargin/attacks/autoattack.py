"""AutoAttack: four attacks, each applied to the samples that the earlier ones did not find."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from fairmargin.attacks.apgd import APGD
from fairmargin.attacks.losses import Loss, margin
from fairmargin.attacks.square import Square
from fairmargin.attacks.survivors import BallAttack, Survivors
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import Started, check_count
from fairmargin.distances.plumb.estimator import Plumb


@dataclass(frozen=True)
class AutoAttack(BallAttack):
    """APGD on the cross-entropy, targeted APGD, a minimum-norm search, and Square, one after the other.

    These attacks fail for different reasons, and the last one needs no gradient. A sample is misclassified if and only
    if one of them alone misclassifies it, so robust accuracy is at most that of every single attack.

    Differences from the publication: the minimum-norm search is `plumb`, an estimator of this package, instead of
    targeted FAB, and its result is moved into the ball. All misclassified inputs on a path count, not only the last.
    With fewer than four classes, the targeted loss is the difference of two scores instead of a ratio of four.

    Guarantee: every result is within the radius and the domain, and success means that the original model misclassifies
    it.

    Parameters
    ----------
    norm
        Norm of the radius: L∞ or L2.
    steps
        Number of steps of each run of APGD and of the minimum-norm search.
    restarts
        Number of random starts of APGD and of Square.
    targets
        Number of target classes of targeted APGD, in the order of their scores; at most the number of other classes.
    queries
        Number of queries of Square in each start.

    References
    ----------
    F. Croce, M. Hein, "Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free
    attacks", ICML 2020.

    >>> import numpy as np
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, steps=self.steps, restarts=self.restarts, targets=self.targets, queries=self.queries)

    @property
    def objective(self) -> Loss:
        """Loss that orders inputs that are not misclassified."""
        return margin

    def search(self, survivors: Survivors) -> None:
        """Run the four attacks, each on the samples that remain."""
        for member in self.members:
            member(survivors)

    @property
    def members(self) -> tuple[Callable[[Survivors], None], ...]:
        """Searches of the four attacks, in the order in which they run."""
        return (
            APGD(self.norm, self.steps, self.restarts).search,
            APGD(self.norm, self.steps, self.restarts, "dlr", self.targets).search,
            lambda survivors: search_nearest(survivors, self.steps),
            Square(self.norm, self.queries, restarts=self.restarts).search,
        )


def search_nearest(survivors: Survivors, steps: int) -> None:
    """Offer each remaining sample the nearest misclassified input that `plumb` finds, moved into its ball.

    An ascent follows the gradient to large values of the loss and can miss a boundary that is nearby. This search looks
    for the boundary, without a fixed radius.
    """
    which, samples = survivors.remaining, survivors.samples
    if not len(which):
        return
    every = torch.arange(len(which), device=which.device)
    own = Started(samples.x[which], samples.y[which], samples.scores[which], every)
    search = Plumb(survivors.norm, steps).searched(survivors.network, own, survivors.keys[which])
    found = torch.isfinite(search.closest.distance)
    survivors.offer(which[found], search.closest.point[found])
