"""Adversaries: attacks and noise that move a batch's inputs before the network is trained on them.

They evaluate the network in evaluation mode.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairmargin.attacks.ascent import ascend
from fairmargin.attacks.losses import cross_entropy, kl_to, log_odds
from fairmargin.core.norm import Norm
from fairmargin.perturbation.balls import Ball, draws_for
from fairmargin.training.parts.batch import Batch, Space
from fairmargin.training.parts.checks import check_choice

_NEARBY = 0.001  # spread of the start of TRADES: at the sample itself the gradient of the divergence is 0


@dataclass(frozen=True, slots=True)
class Ascent:
    """Projected gradient ascent on a loss inside a ball.

    Parameters
    ----------
    radius, norm
        The ball, in L2 or L∞.
    steps, step
        Number of steps, and their length as a share of the radius.
    start
        "uniform" in the ball, or "gaussian": 0.001·N(0, 1) beside the sample.
    loss
        "cross_entropy", or "kl": the divergence from the answer to the clean sample.
    """

    radius: float
    steps: int
    step: float
    norm: Norm = Norm.LINF
    start: str = "uniform"
    loss: str = "cross_entropy"

    def __post_init__(self) -> None:
        check_choice(self, ("uniform", "gaussian"), start=self.start)
        check_choice(self, ("cross_entropy", "kl"), loss=self.loss)

    def __call__(
        self, scores: Callable[[Tensor], Tensor], batch: Batch, space: Space, random: torch.Generator
    ) -> Tensor:
        """Return one moved copy of each sample."""
        x = batch.x
        ball = _ball(x, self.norm, self.radius, space)
        if self.start == "uniform":
            begin = ball.random_start(draws_for(x.cpu(), self.norm, random).to(x.device))
        else:
            begin = ball.project(x + _NEARBY * space.scale * _normal(x, random))
        if self.loss == "kl":
            with torch.no_grad():
                away = kl_to(scores(x))
            return ascend(lambda z: away(scores(z)), begin, ball=ball, step=self.step * self.radius, steps=self.steps)
        # The gradient of the log odds is parallel to the cross-entropy's and does not underflow.
        return ascend(
            lambda z: log_odds(scores(z), batch.y), begin, ball=ball, step=self.step * self.radius, steps=self.steps
        )


@dataclass(frozen=True, slots=True)
class Noise:
    """Gaussian noise, one draw per sample; noisy inputs may leave the box, as those of smoothing do.

    Parameters
    ----------
    spread
        Standard deviation in units of the domain's scale.
    """

    spread: float

    def __call__(
        self, scores: Callable[[Tensor], Tensor], batch: Batch, space: Space, random: torch.Generator
    ) -> Tensor:
        """Return one noisy copy of each sample."""
        return batch.x + self.spread * space.scale * _normal(batch.x, random)


@dataclass(frozen=True, slots=True)
class SmoothedAscent:
    """Gradient ascent on −log of the mean softmax over noisy copies, with the same noise at every step.

    Parameters
    ----------
    spread, draws
        Standard deviation of the noise, and number of copies of each sample.
    radius, steps, step
        Radius of the attack in L2, number of its steps, and their length as a share of the radius.
    """

    spread: float
    draws: int
    radius: float
    steps: int
    step: float
    norm: ClassVar[Norm] = Norm.L2

    def __call__(
        self, scores: Callable[[Tensor], Tensor], batch: Batch, space: Space, random: torch.Generator
    ) -> Tensor:
        """Return `draws` noisy copies of each moved sample, one whole batch after the other."""
        x = batch.x
        noise = self.spread * space.scale * _normal(x.repeat(self.draws, *[1] * (x.ndim - 1)), random)

        def surprise(z: Tensor) -> Tensor:
            """Return −log of the mean softmax of the label over the noisy copies."""
            each = -cross_entropy(scores(_copies(z, noise)), batch.y.repeat(self.draws))
            return math.log(self.draws) - each.reshape(self.draws, -1).logsumexp(dim=0)

        ball = _ball(x, self.norm, self.radius, space)
        moved = ascend(surprise, x, ball=ball, step=self.step * self.radius, steps=self.steps)
        return _copies(moved, noise)


def _ball(x: Tensor, norm: Norm, radius: float, space: Space) -> Ball:
    """Return the ball around each sample inside the domain."""
    # A tensor of the samples' own dtype: a Python number would pass through single precision.
    return Ball.around(x, norm, x.new_tensor(radius), space.low, space.high, space.scale)


def _copies(x: Tensor, noise: Tensor) -> Tensor:
    """Return the samples repeated once for each copy of the noise, with the noise added."""
    return x.repeat(len(noise) // len(x), *[1] * (x.ndim - 1)) + noise


def _normal(like: Tensor, random: torch.Generator) -> Tensor:
    """Return standard normal numbers of the same shape, drawn on the CPU."""
    return torch.randn(like.shape, generator=random, dtype=like.dtype).to(like.device)
