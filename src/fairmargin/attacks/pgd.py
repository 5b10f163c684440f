"""PGD: projected gradient descent, an iterative attack with projection onto the ball after each step."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from fairmargin.attacks.ascent import random_starts, search_by_ascent
from fairmargin.attacks.losses import Loss, loss_named
from fairmargin.attacks.protocol import check_share_of_radius
from fairmargin.attacks.survivors import BallAttack, Survivors
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count
from fairmargin.errors import InputError


@dataclass(frozen=True)
class PGD(BallAttack):
    """Steps x ← project(x + step·ε·steepest(∇ℓ(x))) that increase a loss ℓ, from one or more starts.

    The direction of a step is sign(∇ℓ) in L∞ and ∇ℓ/‖∇ℓ‖ in L2. All misclassified inputs on a path count, not only the
    last. Instead of the cross-entropy, the log-odds are maximised: they give the same steps, but their gradient does
    not underflow where the model is very confident.

    Guarantee: every result is within the radius and the domain, and success means that the original model misclassifies
    it. With more restarts, every sample that was found with fewer is found again.

    Parameters
    ----------
    norm
        Norm of the radius: L∞ or L2.
    steps
        Maximum number of steps of each start. Each takes one forward and one backward pass.
    step
        Length of a step as a fraction of the radius. Common values are 2.5/steps, 0.25 and 0.1.
    restarts
        Number of starts. A restart attacks the samples that earlier ones did not find.
    random_start
        Whether to begin at a random point of the ball, determined by the sample's key; otherwise at the sample, with a
        single start.
    loss
        Loss to maximise: "cross_entropy", "margin" (of the strongest other class) or "clipped_margin".

    References
    ----------
    A. Madry, A. Makelov, L. Schmidt, D. Tsipras, A. Vladu, "Towards deep learning models resistant to adversarial
    attacks", ICLR 2018.

    >>> import numpy as np
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, steps=self.steps, restarts=self.restarts)
        check_share_of_radius(self, step=self.step)
        check_restarts(self, self.restarts, self.random_start)
        loss_named(self, self.loss)

    @property
    def objective(self) -> Loss:
        """Loss that orders inputs that are not misclassified."""
        return loss_named(self, self.loss)

    def search(self, survivors: Survivors) -> None:
        """Run all restarts on the remaining samples."""
        for begin in initial_points(survivors, self.restarts, self.random_start):
            search_by_ascent(survivors, begin, step=self.step, steps=self.steps)


def initial_points(survivors: Survivors, restarts: int, random_start: bool) -> Iterator[Tensor]:
    """Yield the initial points of each start for the samples that remain at that time."""
    for turn in range(restarts):
        if len(survivors.remaining):
            yield random_starts(survivors, turn) if random_start else survivors.samples.x[survivors.remaining]


def check_restarts(attack: object, restarts: int, random_start: bool) -> None:
    """Raise an error for restarts without a random start, which would be identical."""
    if restarts > 1 and not random_start:
        raise InputError(
            f"is {restarts}, but without a random start all restarts are identical: set `random_start` to "
            "True, or `restarts` to 1",
            field="restarts",
            of=type(attack).__name__,
        )
