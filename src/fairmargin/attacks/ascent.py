"""Steps up a loss that stay inside a ball: what attacks do tile by tile, and training with whole batches."""

from collections.abc import Callable

import torch
from torch import Tensor

from fairmargin.errors import ModelError
from fairmargin.perturbation.balls import Ball
from fairmargin.perturbation.margins import gradient_of


def ascend(loss: Callable[[Tensor], Tensor], begin: Tensor, *, ball: Ball, step: Tensor | float, steps: int) -> Tensor:
    """The points after so many projected steps: x ← project(x + step · steepest(∇loss(x))).

    Guarantee: inside the ball if `begin` is or if there is a step, but for rounding; the gradient is taken in x alone,
    so that nothing is added to a model's parameters. Where a gradient is 0 or no number the point stays.

    Parameters
    ----------
    loss
        Points to one value each; whoever calls says in which mode the model is.
    begin
        Where to begin, of the samples' shape (n, …).
    ball
        Around the samples.
    step
        The length of a step, in units of the ball's scale: a number, or one a sample.
    steps
        How many; each is one forward and one backward pass. The last point is not looked at.

    >>> from fairmargin.core.norm import Norm
    >>> ball = Ball.around(torch.zeros(1, 2), Norm.LINF, 0.5)
    >>> ascend(lambda x: x[:, 0] - x[:, 1], torch.zeros(1, 2), ball=ball, step=0.2, steps=3)
    tensor([[ 0.5000, -0.5000]])
    """
    length = torch.as_tensor(step, dtype=begin.dtype, device=begin.device).reshape(-1, *[1] * (begin.ndim - 1))
    x = begin.detach()
    for _ in range(steps):
        x = ball.project(x + length * ball.steepest(slope(loss, x)))
    return x


def slope(loss: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """∂loss/∂x of each sample; 0 where it is no number."""
    with torch.enable_grad():
        at = x.detach().requires_grad_(True)
        values = loss(at)
        if not values.requires_grad:
            raise ModelError(
                "The model's scores have no gradient in its inputs: it works under `torch.no_grad()`, detaches, "
                "rounds, or does not look at its inputs. Remove that, or choose an attack that needs predictions only."
            )
        gradient = gradient_of(values, at)
    sound = torch.isfinite(gradient).flatten(1).all(dim=1)
    return torch.where(sound.reshape(-1, *[1] * (x.ndim - 1)), gradient, 0.0)
