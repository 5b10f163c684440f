"""PGD: many small steps, each brought back into the ball."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fairmargin.attacks.climbing import climb, random_starts
from fairmargin.attacks.losses import loss_named
from fairmargin.attacks.protocol import accepted_norm, check_share_of_radius
from fairmargin.attacks.survivors import Survivors, attacked
from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count
from fairmargin.errors import InputError


@dataclass(frozen=True)
class PGD:
    """Steps up a loss from a random point, x ← project(x + step·ε·steepest(∇ℓ(x))), as often as restarts say.

    A step's direction is sign(∇ℓ) in L∞ and ∇ℓ/‖∇ℓ‖ in L2. Any misclassified input on the way counts, not only the
    last. The cross-entropy is climbed by its odds, which give the same steps where it has a slope, and steps where a
    confident model's has underflown.

    Guarantee: within the radius and the domain; what counts as success was misclassified by the model itself. More
    restarts never lose a sample that fewer found.

    Parameters
    ----------
    norm
        L∞ or L2.
    steps
        So many forward and backward passes at most, each start.
    step
        The length of a step, as a share of the radius: 2.5/steps, 0.25 and 0.1 are customary.
    restarts
        How many starts, later ones for samples that earlier ones did not find.
    random_start
        Begin uniformly in the ball, by the sample's key; otherwise at the sample, and then once.
    loss
        "cross_entropy", "margin" (the strongest rival's lead) or "clipped_margin".

    References
    ----------
    A. Madry, A. Makelov, L. Schmidt, D. Tsipras, A. Vladu, "Towards deep learning models resistant to adversarial
    attacks", ICLR 2018.

    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> found = PGD(norm="l2")(([3.0, 4.0], -5.0), x, y, radius=1.01, keys=keys)
    >>> bool(np.linalg.norm(found) <= 1.01), bool(found @ [3.0, 4.0] > 5.0)
    (True, True)
    """

    norm: Norm = Norm.LINF
    steps: int = 20
    step: float = 0.25
    restarts: int = 1
    random_start: bool = True
    loss: str = "cross_entropy"

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps, restarts=self.restarts)
        check_share_of_radius(self, step=self.step)
        check_restarts(self, self.restarts, self.random_start)
        loss_named(self, self.loss)

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """The best input for each sample; its key says where it begins."""
        return attacked(self, model, x, y, radius, keys, loss=loss_named(self, self.loss), search=self.search)

    def search(self, survivors: Survivors) -> None:
        """All restarts."""
        for begin in beginnings(survivors, self.restarts, self.random_start):
            climb(survivors, begin, step=self.step, steps=self.steps)


def beginnings(survivors: Survivors, restarts: int, random_start: bool) -> Iterator[Tensor]:
    """Where each restart begins, for those who are still left when it is asked for."""
    for turn in range(restarts):
        if len(survivors.left):
            yield random_starts(survivors, turn) if random_start else survivors.begun.x[survivors.left]


def check_restarts(attack: object, restarts: int, random_start: bool) -> None:
    """Refuse restarts that would all be the same."""
    if restarts > 1 and not random_start:
        raise InputError(
            f"is {restarts}, but without a random start all of them are the same: leave `random_start` on, or "
            "`restarts` at 1",
            field="restarts",
            of=type(attack).__name__,
        )
