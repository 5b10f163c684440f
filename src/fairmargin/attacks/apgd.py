"""APGD: projected gradient ascent with momentum and adaptive step sizes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fairmargin.attacks.ascent import random_starts, slope
from fairmargin.attacks.losses import (
    Loss,
    Towards,
    difference_ratio,
    difference_ratio_towards,
    log_odds,
    margin,
    margin_towards,
)
from fairmargin.attacks.survivors import BallAttack, Survivors
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count
from fairmargin.errors import InputError
from fairmargin.models.network import Network
from fairmargin.perturbation.balls import Ball
from fairmargin.perturbation.margins import lead, rivals_of
from fairmargin.perturbation.tiles import by_tiles

_LOSSES: dict[str, Loss] = {"cross_entropy": log_odds, "margin": margin, "dlr": difference_ratio}
_TOWARDS: dict[str, Towards] = {"margin": margin_towards, "dlr": difference_ratio_towards}
_STREAM = 1 << 32  # random streams per loss, so that no two losses, targets or attacks share random numbers

_MOMENTUM = 0.75  # weight of the new step; the previous step has weight 1 − _MOMENTUM
_MIN_INCREASING = 0.75  # the step size is halved if a smaller fraction of steps increased the loss
_FIRST_STEP = 2.0  # initial step size as a multiple of the radius
# Percent of all steps: first interval between checks, its decrease, minimum.
_FIRST_CHECK, _SHORTER, _SHORTEST = 22, 3, 6


@dataclass(frozen=True)
class APGD(BallAttack):
    """Projected gradient ascent with momentum, whose step size adapts to each sample.

    z = project(x + η steepest(∇ℓ(x))), x ← project(x + ¾(z − x) + ¼(x − x_before)), beginning with η = 2ε. After .22,
    .41, .57, … of all steps, η is halved and the search continues from the best point so far, if fewer than ¾ of the
    steps since the last check increased the loss, or if neither η nor the best point has changed since then. No step
    size has to be chosen.

    Instead of the cross-entropy, the log-odds are maximised: they give the same steps, but their gradient does not
    underflow where the model is very confident. The difference of logits ratio ("dlr") is defined for at least three
    classes, and the targeted ratio for at least four; with fewer classes the margin is used.

    Guarantee: every result is within the radius and the domain, and success means that the original model misclassifies
    it. With more restarts or targets, every sample that was found with fewer is found again.

    Parameters
    ----------
    norm
        Norm of the radius: L∞ or L2.
    steps
        Maximum number of steps of each start and each target. Each takes one forward and one backward pass, and each
        start takes one more.
    restarts
        Number of random starts. A restart attacks the samples that earlier ones did not find.
    loss
        Loss to maximise: "cross_entropy", "margin" (of the strongest other class) or "dlr".
    targets
        Number of target classes, which are attacked one after the other in the order of their scores, at most the
        number of other classes. 0 for an attack without target, the only choice for the cross-entropy.

    References
    ----------
    F. Croce, M. Hein, "Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free
    attacks", ICML 2020.

    >>> import numpy as np
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, steps=self.steps, restarts=self.restarts)
        if self.loss not in _LOSSES:
            raise InputError(f"must be one of {', '.join(_LOSSES)}", field="loss", given=self.loss, of="APGD")
        if self.targets != 0:
            check_count(self, targets=self.targets)
            if self.loss not in _TOWARDS:
                raise InputError(
                    f"is {self.targets}, but the loss {self.loss!r} has no targeted form: choose "
                    f"{' or '.join(_TOWARDS)}, or leave `targets` at 0",
                    field="targets",
                    of="APGD",
                )

    @property
    def objective(self) -> Loss:
        """Loss that orders inputs that are not misclassified."""
        return _LOSSES[self.loss]

    def search(self, survivors: Survivors) -> None:
        """Run all targets, and all restarts of each, on the remaining samples."""
        own = _LOSSES[self.loss]
        loss: Towards = _TOWARDS[self.loss] if self.targets else lambda scores, y, rival: own(scores, y)
        stream = (1 + list(_LOSSES).index(self.loss)) * _STREAM
        for target in range(max(1, min(self.targets, survivors.network.classes - 1))):
            for restart in range(self.restarts):
                if len(survivors.remaining):
                    _ascend(survivors, stream + (target << 16) + restart, target, loss, self.steps)


def _ascend(survivors: Survivors, stream: int, target: int, loss: Towards, steps: int) -> None:
    """Run one ascent for the remaining samples, in rounds after each of which misclassified samples leave."""
    network, samples = survivors.network, survivors.samples
    which, begin = survivors.remaining, random_starts(survivors, stream)
    rival = rivals_of(samples.scores[which], samples.y[which], target + 1)[:, target]

    def begin_tile(begin: Tensor, y: Tensor, rival: Tensor) -> AscentState:
        return initial_state(network, loss, begin, y, rival)

    def continue_tile(turns: range) -> Callable[..., AscentState]:
        def run(center: Tensor, y: Tensor, radius: Tensor, rival: Tensor, *parts: Tensor) -> AscentState:
            ball = survivors.ball(center, radius)
            return advance(network, loss, ball, y, rival, AscentState(*parts), turns, steps)

        return run

    state = AscentState(*by_tiles(network, begin_tile, begin, samples.y[which], rival))
    for turns in _rounds(steps):
        rows = (samples.x[which], samples.y[which], survivors.radius[which], rival)
        state = AscentState(*by_tiles(network, continue_tile(turns), *rows, *state))
        keep = survivors.offer_some(which, torch.isfinite(state.adversarial_margin), state.adversarial)
        which, rival, state = which[keep], rival[keep], AscentState(*(part[keep] for part in state))
        if not len(which):
            return
    survivors.offer(which, state.best)


def _rounds(steps: int) -> Iterator[range]:
    """Yield consecutive ranges of all steps, each half as long as all before it, so that easy samples leave early."""
    done = 0
    while done < steps:
        count = min(max(1, done // 2), steps - done)
        yield range(done, done + count)
        done += count


class AscentState(NamedTuple):
    """State of the ascent of a tile, with one row per sample.

    Parameters
    ----------
    x, gradient, loss
        Current point, and the gradient and value of the loss there.
    previous
        Point before the last step.
    best, best_gradient, best_loss
        Point with the largest loss so far, with its gradient and loss.
    step_size
        Step size as a multiple of the radius.
    increases, checked_loss, halved
        Number of steps since the last check that increased the loss; `best_loss` at that check; whether the step size
        was halved there.
    adversarial, adversarial_margin
        Misclassified input with the smallest margin, and that margin; `inf` if no input was misclassified.
    """

    x: Tensor
    gradient: Tensor
    loss: Tensor
    previous: Tensor
    best: Tensor
    best_gradient: Tensor
    best_loss: Tensor
    step_size: Tensor
    increases: Tensor
    checked_loss: Tensor
    halved: Tensor
    adversarial: Tensor
    adversarial_margin: Tensor


def check_intervals(steps: int) -> dict[int, int]:
    """Return the steps after which the step size is checked, with the number of steps since the check before.

    The checks are after w_j = ⌈p_j · steps⌉ steps, with p_0 = 0, p_1 = .22 and p_{j+1} = p_j + max(p_j − p_{j−1} − .03,
    .06).

    >>> list(check_intervals(100))
    [22, 41, 57, 70, 80, 87, 93, 99]
    >>> check_intervals(5)
    {2: 2, 3: 1, 4: 1, 5: 1}
    """
    # Computed in percent, because sums of fractions such as .22 are not exact and would be rounded up.
    percent, gap, last, found = _FIRST_CHECK, _FIRST_CHECK, 0, {}
    while percent <= 100:
        now = -(-percent * steps // 100)
        if now > last:
            found[now] = now - last
        last, gap = now, max(gap - _SHORTER, _SHORTEST)
        percent += gap
    return found


def initial_state(network: Network, loss: Towards, begin: Tensor, y: Tensor, rival: Tensor) -> AscentState:
    """Return the state of an ascent at its first points."""
    nothing = torch.full_like(begin[:, 0], torch.inf)
    value, gradient, fooled, margin = _evaluate(network, loss, begin, y, rival)
    finite = torch.where(torch.isfinite(value), value, -torch.inf)
    return AscentState(
        x=begin,
        gradient=gradient,
        loss=finite,
        previous=begin,
        best=begin,
        best_gradient=gradient,
        best_loss=finite,
        step_size=torch.full_like(nothing, _FIRST_STEP),
        increases=torch.zeros_like(nothing),
        checked_loss=finite,
        halved=torch.zeros_like(fooled),
        adversarial=begin,
        adversarial_margin=torch.where(fooled, margin, nothing),
    )


def advance(
    network: Network, loss: Towards, ball: Ball, y: Tensor, rival: Tensor, state: AscentState, turns: range, steps: int
) -> AscentState:
    """Return the state after the steps `turns`, which are a part of all `steps`."""
    intervals = check_intervals(steps)
    for turn in turns:
        state = _step(network, loss, ball, y, rival, state, first=turn == 0)
        if turn + 1 in intervals:
            state = _adapt_step_size(state, intervals[turn + 1])
    return state


def _step(
    network: Network, loss: Towards, ball: Ball, y: Tensor, rival: Tensor, state: AscentState, *, first: bool
) -> AscentState:
    """Take one step, z = project(x + η steepest(∇ℓ)), x ← project(x + α(z − x) + (1 − α)(x − x_before)).

    α is the momentum weight, and 1 in the first step.
    """
    x, weight = state.x, 1.0 if first else _MOMENTUM
    new = ball.project(x + state.step_size[:, None] * ball.radius * ball.steepest(state.gradient))
    if not first:
        new = ball.project(x + weight * (new - x) + (1 - weight) * (x - state.previous))
    value, gradient, fooled, margin = _evaluate(network, loss, new, y, rival)
    higher = value > state.best_loss
    lower = fooled & (margin < state.adversarial_margin)
    return state._replace(
        x=new,
        gradient=gradient,
        loss=value,
        previous=x,
        best=torch.where(higher[:, None], new, state.best),
        best_gradient=torch.where(higher[:, None], gradient, state.best_gradient),
        best_loss=torch.where(higher, value, state.best_loss),
        increases=state.increases + (value > state.loss).to(state.increases),
        adversarial=torch.where(lower[:, None], new, state.adversarial),
        adversarial_margin=torch.where(lower, margin, state.adversarial_margin),
    )


def _adapt_step_size(state: AscentState, interval: int) -> AscentState:
    """Halve the step size and return to the best point, for samples whose loss does not increase enough.

    These are samples for which too few steps increased the loss, or for which the best loss did not increase although
    the step size was not halved at the last check.
    """
    stuck = ~state.halved & (state.best_loss == state.checked_loss)
    halve = (state.increases < _MIN_INCREASING * interval) | stuck
    return state._replace(
        x=torch.where(halve[:, None], state.best, state.x),
        gradient=torch.where(halve[:, None], state.best_gradient, state.gradient),
        loss=torch.where(halve, state.best_loss, state.loss),
        step_size=torch.where(halve, state.step_size / 2, state.step_size),
        increases=torch.zeros_like(state.increases),
        checked_loss=state.best_loss,
        halved=halve,
    )


def _evaluate(network: Network, loss: Towards, x: Tensor, y: Tensor, rival: Tensor) -> tuple[Tensor, ...]:
    """Return the loss, its gradient, whether x is misclassified, and the margin of the sample's class."""
    evaluated: list[Tensor] = []

    def loss_at(at: Tensor) -> Tensor:
        scores = network.scores(at)
        values = loss(scores, y, rival)
        evaluated[:] = scores.detach(), values.detach()
        return values

    gradient = slope(loss_at, x)
    scores, values = evaluated
    sound = torch.isfinite(scores).all(dim=1)
    fooled = sound & (scores.argmax(dim=1) != y)
    return torch.where(sound, values, -torch.inf), gradient, fooled, lead(scores, y)
