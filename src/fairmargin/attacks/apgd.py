"""APGD: projected steps that choose their own length."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fairmargin.attacks.adaptive_steps import Climber, begun_at, climbed
from fairmargin.attacks.climbing import random_starts
from fairmargin.attacks.dlr import Towards, difference_ratio, difference_ratio_towards, margin_towards
from fairmargin.attacks.losses import Loss, log_odds, margin
from fairmargin.attacks.protocol import accepted_norm
from fairmargin.attacks.survivors import Survivors, attacked
from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count
from fairmargin.errors import InputError
from fairmargin.perturbation.margins import rivals_of
from fairmargin.perturbation.tiles import by_tiles

_LOSSES: dict[str, Loss] = {"cross_entropy": log_odds, "margin": margin, "dlr": difference_ratio}
_TOWARDS: dict[str, Towards] = {"margin": margin_towards, "dlr": difference_ratio_towards}
_TURN = 1 << 32  # beginnings of their own for each loss and target: none is shared with another attack


@dataclass(frozen=True)
class APGD:
    """Projected steps with momentum, at first across the whole ball, shorter for a sample whose loss stops rising.

    z = project(x + η steepest(∇ℓ(x))), x ← project(x + ¾(z − x) + ¼(x − x_before)), from η = 2ε. After .22, .41, .57, …
    of all steps, η is halved and the search goes on from the best point so far where less than ¾ of the steps since the
    last such check rose, or where neither η nor the best point has changed since. There is no step size to choose.

    The cross-entropy is climbed by its odds: the same steps where it has a slope, and steps where a confident model's
    has underflown. The difference of logits ratio ("dlr") is defined for three classes and more, and for four and more
    towards a target; with fewer it is the margin.

    Guarantee: within the radius and the domain; what counts as success was misclassified by the model itself. More
    restarts or targets never lose a sample that fewer found.

    Parameters
    ----------
    norm
        L∞ or L2.
    steps
        So many steps at most, each start and each target: a forward and a backward pass each, and one at first.
    restarts
        How many random starts, later ones for samples that earlier ones did not find.
    loss
        "cross_entropy", "margin" (the strongest rival's lead) or "dlr".
    targets
        Climb towards so many rivals, one after the other, those of the highest scores first; fewer if the model has
        fewer. 0: towards whichever is ahead, and the only choice for the cross-entropy.

    References
    ----------
    F. Croce, M. Hein, "Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free
    attacks", ICML 2020.

    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> found = APGD(norm="l2")(([3.0, 4.0], -5.0), x, y, radius=1.01, keys=keys)
    >>> bool(np.linalg.norm(found) <= 1.01), bool(found @ [3.0, 4.0] > 5.0)
    (True, True)
    """

    norm: Norm = Norm.LINF
    steps: int = 100
    restarts: int = 1
    loss: str = "cross_entropy"
    targets: int = 0

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps, restarts=self.restarts)
        if self.loss not in _LOSSES:
            raise InputError(f"must be one of {', '.join(_LOSSES)}", field="loss", given=self.loss, of="APGD")
        if self.targets != 0:
            check_count(self, targets=self.targets)
            if self.loss not in _TOWARDS:
                raise InputError(
                    f"is {self.targets}, but the loss {self.loss!r} knows no target: choose {' or '.join(_TOWARDS)}, "
                    "or leave `targets` at 0",
                    field="targets",
                    of="APGD",
                )

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """The best input for each sample; its key says where it begins."""
        return attacked(self, model, x, y, radius, keys, loss=_LOSSES[self.loss], search=self.search)

    def search(self, survivors: Survivors) -> None:
        """All targets, and all restarts of each."""
        own = _LOSSES[self.loss]
        loss: Towards = _TOWARDS[self.loss] if self.targets else lambda scores, y, rival: own(scores, y)
        stream = (1 + list(_LOSSES).index(self.loss)) * _TURN
        for target in range(max(1, min(self.targets, survivors.network.classes - 1))):
            for restart in range(self.restarts):
                if len(survivors.left):
                    _climb(survivors, stream + (target << 16) + restart, target, loss, self.steps)


def _climb(survivors: Survivors, turn: int, target: int, loss: Towards, steps: int) -> None:
    """One climb of who is left, in legs; who is fooled leaves after the leg."""
    network, begun = survivors.network, survivors.begun
    which, begin = survivors.left, random_starts(survivors, turn)
    rival = rivals_of(begun.scores[which], begun.y[which], target + 1)[:, target]

    def started(begin: Tensor, y: Tensor, rival: Tensor) -> Climber:
        return begun_at(network, loss, begin, y, rival)

    def gone_on(turns: range) -> Callable[..., Climber]:
        def go_on(start: Tensor, y: Tensor, radius: Tensor, rival: Tensor, *parts: Tensor) -> Climber:
            ball = survivors.ball(start, radius)
            return climbed(network, loss, ball, y, rival, Climber(*parts), turns, steps)

        return go_on

    climber = Climber(*by_tiles(network, started, begin, begun.y[which], rival))
    for leg in _legs(steps):
        rows = (begun.x[which], begun.y[which], survivors.radius[which], rival)
        climber = Climber(*by_tiles(network, gone_on(leg), *rows, *climber))
        met = torch.nonzero(torch.isfinite(climber.ahead))[:, 0]
        onward = torch.ones(len(which), dtype=torch.bool, device=which.device)
        onward[met] = ~survivors.offer(which[met], climber.across[met])
        which, rival, climber = which[onward], rival[onward], Climber(*(part[onward] for part in climber))
        if not len(which):
            return
    survivors.offer(which, climber.peak)


def _legs(steps: int) -> Iterator[range]:
    """All steps in parts, each half as long as all before it: easy samples leave soon, hard ones are not held up."""
    done = 0
    while done < steps:
        leg = min(max(1, done // 2), steps - done)
        yield range(done, done + leg)
        done += leg
