"""Projected steps with momentum whose length is halved, sample by sample, where they no longer pay."""

from typing import NamedTuple

import torch
from torch import Tensor

from fairmargin.attacks.ascent import slope
from fairmargin.attacks.dlr import Towards
from fairmargin.models.network import Network
from fairmargin.perturbation.balls import Ball
from fairmargin.perturbation.margins import lead

_MOMENTUM = 0.75  # the weight of a new step against the last one
_PAYING = 0.75  # the share of steps that must rise, or the step is halved
_FIRST_STEP = 2.0  # radii: from one side of the ball to the other
_FIRST_CHECK, _SHORTER, _SHORTEST = 22, 3, 6  # hundredths of all steps: until the first check, then less by, at least


class Climber(NamedTuple):
    """Where each sample of a tile is on its way up; a row a sample.

    Parameters
    ----------
    at, slope, value
        Where it stands, the loss there and its gradient.
    before
        Where it stood a step ago.
    peak, peak_slope, height
        The best point so far.
    share
        The length of a step, in radii.
    rises, mark, halved
        Since the last check: how many steps rose; the height then; whether the step was halved then.
    across, ahead
        The misclassified input that the own class is furthest behind at, and its lead there; `inf` if there is none.
    """

    at: Tensor
    slope: Tensor
    value: Tensor
    before: Tensor
    peak: Tensor
    peak_slope: Tensor
    height: Tensor
    share: Tensor
    rises: Tensor
    mark: Tensor
    halved: Tensor
    across: Tensor
    ahead: Tensor


def checks(steps: int) -> dict[int, int]:
    """After which steps a step's length is questioned, and how many steps lie between it and the check before.

    w_j = ⌈p_j · steps⌉ with p_0 = 0, p_1 = .22 and p_{j+1} = p_j + max(p_j − p_{j−1} − .03, .06).

    >>> list(checks(100))
    [22, 41, 57, 70, 80, 87, 93, 99]
    >>> checks(5)
    {2: 2, 3: 1, 4: 1, 5: 1}
    """
    # In hundredths, since sums of such fractions are not exact and would be rounded up.
    hundredths, gap, last, found = _FIRST_CHECK, _FIRST_CHECK, 0, {}
    while hundredths <= 100:
        now = -(-hundredths * steps // 100)
        if now > last:
            found[now] = now - last
        last, gap = now, max(gap - _SHORTER, _SHORTEST)
        hundredths += gap
    return found


def begun_at(network: Network, loss: Towards, begin: Tensor, y: Tensor, rival: Tensor) -> Climber:
    """Climbers at the points where they begin."""
    nothing = torch.full_like(begin[:, 0], torch.inf)
    value, gradient, fooled, margin = _looked(network, loss, begin, y, rival)
    height = torch.where(torch.isfinite(value), value, -torch.inf)
    return Climber(
        at=begin,
        slope=gradient,
        value=height,
        before=begin,
        peak=begin,
        peak_slope=gradient,
        height=height,
        share=torch.full_like(nothing, _FIRST_STEP),
        rises=torch.zeros_like(nothing),
        mark=height,
        halved=torch.zeros_like(fooled),
        across=begin,
        ahead=torch.where(fooled, margin, nothing),
    )


def climbed(
    network: Network, loss: Towards, ball: Ball, y: Tensor, rival: Tensor, climber: Climber, turns: range, steps: int
) -> Climber:
    """The climbers after these of all steps."""
    gaps = checks(steps)
    for turn in turns:
        climber = _stepped(network, loss, ball, y, rival, climber, first=turn == 0)
        if turn + 1 in gaps:
            climber = _checked(climber, gaps[turn + 1])
    return climber


def _stepped(
    network: Network, loss: Towards, ball: Ball, y: Tensor, rival: Tensor, climber: Climber, *, first: bool
) -> Climber:
    """z = project(x + η steepest(∇ℓ)), and x ← project(x + α(z − x) + (1 − α)(x − x_before)); α = 1 at first."""
    at, weight = climber.at, 1.0 if first else _MOMENTUM
    new = ball.project(at + climber.share[:, None] * ball.radius * ball.steepest(climber.slope))
    if not first:
        new = ball.project(at + weight * (new - at) + (1 - weight) * (at - climber.before))
    value, gradient, fooled, margin = _looked(network, loss, new, y, rival)
    higher = value > climber.height
    deeper = fooled & (margin < climber.ahead)
    return climber._replace(
        at=new,
        slope=gradient,
        value=value,
        before=at,
        peak=torch.where(higher[:, None], new, climber.peak),
        peak_slope=torch.where(higher[:, None], gradient, climber.peak_slope),
        height=torch.where(higher, value, climber.height),
        rises=climber.rises + (value > climber.value).to(climber.rises),
        across=torch.where(deeper[:, None], new, climber.across),
        ahead=torch.where(deeper, margin, climber.ahead),
    )


def _checked(climber: Climber, gap: int) -> Climber:
    """Half the step, from the best point, where too few steps rose, or none beat the best with a step kept before."""
    stuck = ~climber.halved & (climber.height == climber.mark)
    halve = (climber.rises < _PAYING * gap) | stuck
    return climber._replace(
        at=torch.where(halve[:, None], climber.peak, climber.at),
        slope=torch.where(halve[:, None], climber.peak_slope, climber.slope),
        value=torch.where(halve, climber.height, climber.value),
        share=torch.where(halve, climber.share / 2, climber.share),
        rises=torch.zeros_like(climber.rises),
        mark=climber.height,
        halved=halve,
    )


def _looked(network: Network, loss: Towards, x: Tensor, y: Tensor, rival: Tensor) -> tuple[Tensor, ...]:
    """The loss, its gradient, whether another class is ahead, and the own class's lead."""
    seen: list[Tensor] = []

    def valued(at: Tensor) -> Tensor:
        scores = network.scores(at)
        values = loss(scores, y, rival)
        seen[:] = scores.detach(), values.detach()
        return values

    gradient = slope(valued, x)
    scores, values = seen
    sound = torch.isfinite(scores).all(dim=1)
    fooled = sound & (scores.argmax(dim=1) != y)
    return torch.where(sound, values, -torch.inf), gradient, fooled, lead(scores, y)
