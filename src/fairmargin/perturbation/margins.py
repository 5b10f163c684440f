"""Margins between the score of the true class and the scores of other classes, and their gradients."""

from collections.abc import Iterator

import torch
from torch import Tensor

from fairmargin.errors import ModelError, reason_of
from fairmargin.models.network import Network


def lead(scores: Tensor, y: Tensor) -> Tensor:
    """Return the margin f_y − max over k ≠ y of f_k of each row. It is negative where another class has a higher score.

    >>> lead(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]))
    tensor([1.])
    """
    own = scores.gather(1, y[:, None])
    return own[:, 0] - scores.scatter(1, y[:, None], -torch.inf).amax(dim=1)


def rivals_of(scores: Tensor, y: Tensor, count: int | None) -> Tensor:
    """Return the `count` classes other than y with the highest scores, highest first; all of them if `count` is None.

    >>> rivals_of(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]), 1)
    tensor([[2]])
    """
    others = scores.scatter(1, y[:, None], -torch.inf).argsort(dim=1, descending=True, stable=True)[:, :-1]
    return others if count is None else others[:, :count]


def slopes(network: Network, rows: Tensor, y: Tensor, rivals: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield, for one tile and each column of `rivals`, the margin f_y − f_rival and its rate of decrease.

    The rate of decrease is −∂(f_y − f_rival)/∂x · scale, which is 0 for immutable features. Takes one forward pass, and
    one backward pass per rival.
    """
    with torch.enable_grad():
        x = rows.detach().requires_grad_(True)
        scores = network.scores(x)
        refuse_without_gradient(scores)
        own = scores.gather(1, y[:, None])[:, 0]
        for j in range(rivals.shape[1]):
            margin = own - scores.gather(1, rivals[:, j : j + 1])[:, 0]
            last = j == rivals.shape[1] - 1
            # The gradient of a score that does not depend on the inputs is 0.
            gradient = gradient_of(margin, x, again=not last)
            yield margin.detach(), -gradient * network.scale


def gradient_of(values: Tensor, x: Tensor, *, again: bool = False) -> Tensor:
    """Return ∂values/∂x with one row per sample. Set `again` if the same scores will be differentiated once more."""
    try:
        (gradient,) = torch.autograd.grad(values.sum(), x, retain_graph=again, materialize_grads=True)
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        raise ModelError(
            f"The model's scores cannot be differentiated ({reason_of(error)}). Check whether it changes tensors in "
            "place or uses a function without a backward pass. Correct that, or choose an estimator that needs "
            "predictions only."
        ) from error
    return gradient


def refuse_without_gradient(scores: Tensor) -> None:
    """Raise a `ModelError` if the scores cannot be differentiated with respect to the inputs."""
    if not scores.requires_grad:
        raise ModelError(
            "The model's scores have no gradient with respect to its inputs: it uses `torch.no_grad()`, detaches or "
            "rounds tensors, or does not depend on its inputs. Change that, or choose an estimator that needs "
            "predictions only."
        )
