"""R+FGSM: a random step first, in both meanings that the name has."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fairmargin.attacks.climbing import climb
from fairmargin.attacks.losses import log_odds
from fairmargin.attacks.protocol import accepted_norm
from fairmargin.attacks.survivors import Survivors, attacked
from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count, check_share
from fairmargin.errors import InputError
from fairmargin.perturbation.tiles import by_tiles

_STARTS = {"tramer": 0.5, "projected": 0.25}


@dataclass(frozen=True)
class RFGSM:
    """A step α in the direction of signs of noise, x′ = x + α sign(N(0, I)), then up the cross-entropy.

    As published ("tramer"), one step of what is left of the radius: x′ + (ε − α) sign(∇ℓ(x′)). As a widely used library
    has it under that name today ("projected"), several steps of α, each brought back into the ball: a PGD with a
    special start. In L2 the signs are unit vectors.

    Guarantee: within the radius and the domain; what counts as success was misclassified by the model itself.

    Parameters
    ----------
    norm
        L∞ or L2.
    variant
        "tramer" or "projected".
    start
        α as a share of the radius; by default ½ for "tramer" and ¼ for "projected".
    steps
        How many steps after the random one, in the projected variant; the other has one.

    References
    ----------
    F. Tramèr, A. Kurakin, N. Papernot, I. Goodfellow, D. Boneh, P. McDaniel, "Ensemble adversarial training: attacks
    and defenses", ICLR 2018. Projected: H. Kim, "Torchattacks: a PyTorch repository for adversarial attacks",
    arXiv:2010.01950.

    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> found = RFGSM(variant="projected")(([3.0, 4.0], -5.0), x, y, radius=0.75, keys=keys)
    >>> bool(np.abs(found).max() <= 0.75), bool(found @ [3.0, 4.0] > 5.0)
    (True, True)
    """

    norm: Norm = Norm.LINF
    variant: str = "tramer"
    start: float | None = None
    steps: int = 10

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        if self.variant not in _STARTS:
            raise InputError(f"must be one of {', '.join(_STARTS)}", field="variant", given=self.variant, of="RFGSM")
        check_count(self, steps=self.steps)
        if self.start is not None:
            check_share(self, start=self.start)

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """The best input for each sample; its key says where the random step goes."""
        return attacked(self, model, x, y, radius, keys, loss=log_odds, search=self.search)

    def search(self, survivors: Survivors) -> None:
        """The random step and what follows it."""
        if not len(survivors.left):
            return
        first = _STARTS[self.variant] if self.start is None else self.start
        begin = _stepped_at_random(survivors, first)
        if self.variant == "tramer":
            climb(survivors, begin, step=1 - first, steps=1)
        else:
            climb(survivors, begin, step=first, steps=self.steps)


def _stepped_at_random(survivors: Survivors, share: float) -> Tensor:
    """A step of that share of the radius along noise, for each survivor."""

    def stepped(start: Tensor, radius: Tensor, draws: Tensor) -> tuple[Tensor]:
        ball = survivors.ball(start, radius)
        # Signs of uniform numbers are those of normal ones; in L2 the two draws that a ball needs more are dropped.
        away = ball.steepest(draws[:, : start.shape[1]])
        return (ball.project(start + share * ball.radius * away),)

    which = survivors.left
    begun = survivors.begun
    draws = survivors.draws(which, 0)
    (begin,) = by_tiles(survivors.network, stepped, begun.x[which], survivors.radius[which], draws)
    return begin
