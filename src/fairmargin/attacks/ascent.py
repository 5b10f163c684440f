"""Projected gradient ascent on a loss inside a ball, as a function of tensors and as the search of an attack."""

from collections.abc import Callable

import torch
from torch import Tensor

from fairmargin.attacks.losses import Loss
from fairmargin.attacks.survivors import Survivors
from fairmargin.errors import ModelError
from fairmargin.perturbation.balls import Ball
from fairmargin.perturbation.margins import gradient_of, lead
from fairmargin.perturbation.tiles import by_tiles


def ascend(loss: Callable[[Tensor], Tensor], begin: Tensor, *, ball: Ball, step: Tensor | float, steps: int) -> Tensor:
    """Return the points after `steps` projected gradient steps, x ← project(x + step · steepest(∇loss(x))).

    Guarantee: the result lies in the ball, up to rounding, if `begin` does or if `steps` is at least 1. Gradients are
    computed with respect to x only and are not accumulated in the parameters of a model. A point does not move if its
    gradient is 0, NaN or infinite.

    Parameters
    ----------
    loss
        Function that returns one value for each point. The caller sets the mode of the model (training or evaluation).
    begin
        Points at which to begin, in the shape (n, …) of the samples.
    ball
        Balls around the samples.
    step
        Length of a step in units of the ball's scale: a number, or one number per sample.
    steps
        Number of steps. Each takes one forward and one backward pass. The loss is not evaluated at the last point.

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
    """Return ∂loss/∂x of each sample, and 0 for samples whose gradient is NaN or infinite."""
    with torch.enable_grad():
        at = x.detach().requires_grad_(True)
        values = loss(at)
        if not values.requires_grad:
            raise ModelError(
                "The model's scores have no gradient with respect to its inputs: it uses `torch.no_grad()`, detaches "
                "or rounds tensors, or does not depend on its inputs. Change that, or choose an attack that needs "
                "predictions only."
            )
        gradient = gradient_of(values, at)
    sound = torch.isfinite(gradient).flatten(1).all(dim=1)
    return torch.where(sound.reshape(-1, *[1] * (x.ndim - 1)), gradient, 0.0)


def search_by_ascent(survivors: Survivors, begin: Tensor, *, step: float, steps: int, loss: Loss | None = None) -> None:
    """Run projected gradient ascent for the remaining samples of an attack and offer the best inputs on each path.

    The steps are divided into rounds. After each round, samples that are misclassified leave, so an easy sample takes
    few passes. A hard one takes `steps` passes, and two more with the original model.

    Parameters
    ----------
    survivors
        Samples of the attack, of which those in `survivors.remaining` are searched.
    begin
        Points at which to begin, one row for each remaining sample.
    step
        Length of a step as a fraction of the radius.
    steps
        Number of steps. Each takes one forward and one backward pass.
    loss
        Loss to maximise; by default the loss by which `survivors` orders inputs.
    """
    which, x, done = survivors.remaining, begin, 0
    best, best_loss = begin, torch.full((len(which),), -torch.inf, dtype=begin.dtype, device=begin.device)
    while done < steps and len(which):
        count = min(max(1, done // 2), steps - done)
        x, adversarial, margin, best, best_loss = _ascend_round(
            survivors, which, x, best, best_loss, step, count, loss or survivors.loss
        )
        keep = survivors.offer_some(which, torch.isfinite(margin), adversarial)
        which, x, best, best_loss = which[keep], x[keep], best[keep], best_loss[keep]
        done += count
    keep = ~survivors.offer(which, x)
    survivors.offer(which[keep], best[keep])


def random_starts(survivors: Survivors, stream: int) -> Tensor:
    """Return a uniform random point of the ball of each remaining sample, by its key and the number of the stream."""
    which = survivors.remaining
    if not len(which):
        return survivors.samples.x[which]

    def start(x: Tensor, radius: Tensor, draws: Tensor) -> tuple[Tensor]:
        return (survivors.ball(x, radius).random_start(draws),)

    draws = survivors.draws(which, stream)
    (begin,) = by_tiles(survivors.network, start, survivors.samples.x[which], survivors.radius[which], draws)
    return begin


def _ascend_round(
    survivors: Survivors, which: Tensor, x: Tensor, best: Tensor, best_loss: Tensor, step: float, steps: int, loss: Loss
) -> tuple[Tensor, ...]:
    """Take some steps of the samples `which`.

    Returns the last point; the misclassified input with the smallest margin, and that margin, `inf` if there is none;
    the input with the largest loss, and that loss.
    """
    network, samples = survivors.network, survivors.samples

    def ascend_tile(
        x: Tensor, center: Tensor, y: Tensor, radius: Tensor, best: Tensor, best_loss: Tensor
    ) -> tuple[Tensor, ...]:
        adversarial, margin = center, torch.full_like(best_loss, torch.inf)

        def evaluate(at: Tensor) -> Tensor:
            nonlocal adversarial, margin, best, best_loss
            scores = network.scores(at)
            values = loss(scores, y)
            here, seen, height = at.detach(), scores.detach(), values.detach()
            sound, ahead = torch.isfinite(seen).all(dim=1), lead(seen, y)
            lower, higher = sound & (seen.argmax(dim=1) != y) & (ahead < margin), sound & (height > best_loss)
            adversarial, margin = torch.where(lower[:, None], here, adversarial), torch.where(lower, ahead, margin)
            best, best_loss = torch.where(higher[:, None], here, best), torch.where(higher, height, best_loss)
            return values

        x = ascend(evaluate, x, ball=survivors.ball(center, radius), step=step * radius, steps=steps)
        return x, adversarial, margin, best, best_loss

    rows = samples.x[which], samples.y[which], survivors.radius[which]
    return by_tiles(network, ascend_tile, x, *rows, best, best_loss)
