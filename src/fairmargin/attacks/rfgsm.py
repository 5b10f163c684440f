"""R+FGSM: a random step followed by gradient steps, in the two variants known by this name."""

from dataclasses import dataclass

from torch import Tensor

from fairmargin.attacks.ascent import search_by_ascent
from fairmargin.attacks.losses import Loss, log_odds
from fairmargin.attacks.survivors import BallAttack, Survivors
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count, check_share
from fairmargin.errors import InputError
from fairmargin.perturbation.tiles import by_tiles

_STARTS = {"tramer": 0.5, "projected": 0.25}


@dataclass(frozen=True)
class RFGSM(BallAttack):
    """Random step x′ = x + α sign(N(0, I)), followed by steps that increase the cross-entropy ℓ.

    The published variant ("tramer") takes one step of the remaining radius, x′ + (ε − α) sign(∇ℓ(x′)). The variant of
    the library Torchattacks ("projected") takes several steps of length α, each projected onto the ball, which is PGD
    with a special start. In L2 the signs are replaced by vectors of length 1.

    Guarantee: every result is within the radius and the domain, and success means that the original model misclassifies
    it.

    Parameters
    ----------
    norm
        Norm of the radius: L∞ or L2.
    variant
        Variant of the attack: "tramer" or "projected".
    start
        Length α of the random step as a fraction of the radius; by default ½ for "tramer" and ¼ for "projected".
    steps
        Number of steps after the random step in the variant "projected"; the other variant takes one step.

    References
    ----------
    F. Tramèr, A. Kurakin, N. Papernot, I. Goodfellow, D. Boneh, P. McDaniel, "Ensemble adversarial training: attacks
    and defenses", ICLR 2018. Projected: H. Kim, "Torchattacks: a PyTorch repository for adversarial attacks",
    arXiv:2010.01950.

    >>> import numpy as np
    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> found = RFGSM(variant="projected")(([3.0, 4.0], -5.0), x, y, radius=0.75, keys=keys)
    >>> bool(np.abs(found).max() <= 0.75), bool(found @ [3.0, 4.0] > 5.0)
    (True, True)
    """

    norm: Norm = Norm.LINF
    variant: str = "tramer"
    start: float | None = None
    steps: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant not in _STARTS:
            raise InputError(f"must be one of {', '.join(_STARTS)}", field="variant", given=self.variant, of="RFGSM")
        check_count(self, steps=self.steps)
        if self.start is not None:
            check_share(self, start=self.start)

    @property
    def objective(self) -> Loss:
        """Loss that orders inputs that are not misclassified."""
        return log_odds

    def search(self, survivors: Survivors) -> None:
        """Take the random step and the gradient steps for the remaining samples."""
        if not len(survivors.remaining):
            return
        first = _STARTS[self.variant] if self.start is None else self.start
        begin = _random_step(survivors, first)
        if self.variant == "tramer":
            search_by_ascent(survivors, begin, step=1 - first, steps=1)
        else:
            search_by_ascent(survivors, begin, step=first, steps=self.steps)


def _random_step(survivors: Survivors, share: float) -> Tensor:
    """Take a random step of this fraction of the radius for each remaining sample."""

    def step(center: Tensor, radius: Tensor, draws: Tensor) -> tuple[Tensor]:
        ball = survivors.ball(center, radius)
        # Signs of uniform and of normal numbers have the same distribution. In L2 the two additional numbers are not
        # used.
        away = ball.steepest(draws[:, : center.shape[1]])
        return (ball.project(center + share * ball.radius * away),)

    which = survivors.remaining
    samples = survivors.samples
    draws = survivors.draws(which, 0)
    (begin,) = by_tiles(survivors.network, step, samples.x[which], survivors.radius[which], draws)
    return begin
