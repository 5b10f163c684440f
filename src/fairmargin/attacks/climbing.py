"""One climb of the survivors of an attack: steps up a loss in legs, after each of which the fooled leave."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairmargin.attacks.ascent import ascend
from fairmargin.attacks.losses import Loss
from fairmargin.attacks.survivors import Survivors
from fairmargin.models.network import Network
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.tiles import by_tiles


@dataclass(slots=True, eq=False)
class _Watch:
    """What a tile's climb has met, by the scores it climbs on: the input furthest across, and the one of largest loss.

    Parameters
    ----------
    network, loss, y
        What is asked.
    across, ahead
        The misclassified input that the own class is furthest behind at, and its lead there; `inf` if there is none.
    peak, height
        The input of largest loss, and its loss.
    """

    network: Network
    loss: Loss
    y: Tensor
    across: Tensor
    ahead: Tensor
    peak: Tensor
    height: Tensor

    def value(self, x: Tensor) -> Tensor:
        """The loss, after noting what was seen on the way."""
        scores = self.network.scores(x)
        values = self.loss(scores, self.y)
        self._note(x.detach(), scores.detach(), values.detach())
        return values

    def _note(self, x: Tensor, scores: Tensor, values: Tensor) -> None:
        sound = torch.isfinite(scores).all(dim=1)
        margin = lead(scores, self.y)
        deeper = sound & (scores.argmax(dim=1) != self.y) & (margin < self.ahead)
        higher = sound & (values > self.height)
        self.across, self.ahead = torch.where(deeper[:, None], x, self.across), torch.where(deeper, margin, self.ahead)
        self.peak, self.height = torch.where(higher[:, None], x, self.peak), torch.where(higher, values, self.height)


def climb(survivors: Survivors, begin: Tensor, *, step: float, steps: int, loss: Loss | None = None) -> None:
    """Climb from `begin`, a row for each survivor, and offer what is met; who is fooled leaves after the leg.

    So an easy sample costs a few passes, and a hard one `steps` and two more that ask the plain model.

    Parameters
    ----------
    survivors
        Who climbs, in `survivors.left`.
    begin
        Where each begins.
    step
        The length of a step, as a share of the radius.
    steps
        How many, each a forward and a backward pass.
    loss
        What is climbed; if left out, the one that orders what is found.
    """
    which, at, done = survivors.left, begin, 0
    peak, height = begin, torch.full((len(which),), -torch.inf, dtype=begin.dtype, device=begin.device)
    while done < steps and len(which):
        leg = min(max(1, done // 2), steps - done)
        at, across, ahead, peak, height = _leg(survivors, which, at, peak, height, step, leg, loss or survivors.loss)
        met = torch.nonzero(torch.isfinite(ahead))[:, 0]
        onward = torch.ones(len(which), dtype=torch.bool, device=which.device)
        onward[met] = ~survivors.offer(which[met], across[met])
        which, at, peak, height = which[onward], at[onward], peak[onward], height[onward]
        done += leg
    onward = ~survivors.offer(which, at)
    survivors.offer(which[onward], peak[onward])


def _leg(
    survivors: Survivors,
    which: Tensor,
    at: Tensor,
    peak: Tensor,
    height: Tensor,
    step: float,
    steps: int,
    loss: Loss,
) -> tuple[Tensor, ...]:
    """Some steps: where they lead to, what was met across the boundary and its lead, and the peak so far."""

    def climbed(
        at: Tensor, start: Tensor, y: Tensor, radius: Tensor, peak: Tensor, height: Tensor
    ) -> tuple[Tensor, ...]:
        watch = _Watch(survivors.network, loss, y, start, torch.full_like(height, torch.inf), peak, height)
        ball = survivors.ball(start, radius)
        at = ascend(watch.value, at, ball=ball, step=step * radius, steps=steps)
        return at, watch.across, watch.ahead, watch.peak, watch.height

    begun = survivors.begun
    return by_tiles(
        survivors.network, climbed, at, begun.x[which], begun.y[which], survivors.radius[which], peak, height
    )


def random_starts(survivors: Survivors, turn: int) -> Tensor:
    """A point uniform in each survivor's ball, by its key and the turn."""
    which = survivors.left
    if not len(which):
        return survivors.begun.x[which]

    def started(start: Tensor, radius: Tensor, draws: Tensor) -> tuple[Tensor]:
        return (survivors.ball(start, radius).random_start(draws),)

    draws = survivors.draws(which, turn)
    (begin,) = by_tiles(survivors.network, started, survivors.begun.x[which], survivors.radius[which], draws)
    return begin
