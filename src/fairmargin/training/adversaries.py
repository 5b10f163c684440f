"""What moves a batch's inputs before the network learns from them: attacks and noise. Crafted in evaluation mode."""

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
from fairmargin.training.batch import Batch, Space
from fairmargin.training.checking import among

_NEARBY = 0.001  # where TRADES starts: at the sample itself the divergence is flat


@dataclass(frozen=True, slots=True)
class Ascent:
    """So many projected steps up a loss inside a ball.

    Parameters
    ----------
    radius, norm
        Of the ball, in L2 or L∞.
    steps, step
        How many, and how long as a share of the radius.
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
        among(self, ("uniform", "gaussian"), start=self.start)
        among(self, ("cross_entropy", "kl"), loss=self.loss)

    def __call__(
        self, scores: Callable[[Tensor], Tensor], batch: Batch, space: Space, random: torch.Generator
    ) -> Tensor:
        """One copy of each sample, moved."""
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
        # The odds have the cross-entropy's directions, and a slope where that underflows.
        return ascend(
            lambda z: log_odds(scores(z), batch.y), begin, ball=ball, step=self.step * self.radius, steps=self.steps
        )


@dataclass(frozen=True, slots=True)
class Noise:
    """Gaussian noise, one draw a sample; it may leave the box, as the noise of smoothing does.

    Parameters
    ----------
    spread
        Its standard deviation in units of the domain's scale.
    """

    spread: float

    def __call__(
        self, scores: Callable[[Tensor], Tensor], batch: Batch, space: Space, random: torch.Generator
    ) -> Tensor:
        """One noisy copy of each sample."""
        return batch.x + self.spread * space.scale * _normal(batch.x, random)


@dataclass(frozen=True, slots=True)
class SmoothedAscent:
    """Steps up −log of the mean softmax over noisy copies, the same noise at every step; then all of these copies.

    Parameters
    ----------
    spread, draws
        Of the noise, and how many copies of each sample.
    radius, steps, step
        Of the attack, in L2; a step is a share of the radius.
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
        """`draws` noisy copies of each moved sample, one whole batch after the other."""
        x = batch.x
        noise = self.spread * space.scale * _normal(x.repeat(self.draws, *[1] * (x.ndim - 1)), random)

        def surprise(z: Tensor) -> Tensor:
            each = -cross_entropy(scores(_copies(z, noise)), batch.y.repeat(self.draws))
            return math.log(self.draws) - each.reshape(self.draws, -1).logsumexp(dim=0)

        ball = _ball(x, self.norm, self.radius, space)
        moved = ascend(surprise, x, ball=ball, step=self.step * self.radius, steps=self.steps)
        return _copies(moved, noise)


def _ball(x: Tensor, norm: Norm, radius: float, space: Space) -> Ball:
    # A tensor of the samples' own kind: as a plain number the radius would pass through single precision.
    return Ball.around(x, norm, x.new_tensor(radius), space.low, space.high, space.scale)


def _copies(x: Tensor, noise: Tensor) -> Tensor:
    return x.repeat(len(noise) // len(x), *[1] * (x.ndim - 1)) + noise


def _normal(like: Tensor, random: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=random, dtype=like.dtype).to(like.device)
