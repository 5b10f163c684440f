"""How far the own class is ahead of its rivals, and along which direction that lead melts."""

from collections.abc import Iterator

import torch
from torch import Tensor

from fairmargin.errors import ModelError
from fairmargin.models.network import Network


def lead(scores: Tensor, y: Tensor) -> Tensor:
    """f_y − max over k ≠ y of f_k, a number a row; negative where another class is ahead.

    >>> lead(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]))
    tensor([1.])
    """
    own = scores.gather(1, y[:, None])
    return own[:, 0] - scores.scatter(1, y[:, None], -torch.inf).amax(dim=1)


def rivals_of(scores: Tensor, y: Tensor, count: int | None) -> Tensor:
    """The classes other than y with the highest scores, best first; all of them if `count` is None.

    >>> rivals_of(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]), 1)
    tensor([[2]])
    """
    others = scores.scatter(1, y[:, None], -torch.inf).argsort(dim=1, descending=True, stable=True)[:, :-1]
    return others if count is None else others[:, :count]


def slopes(network: Network, rows: Tensor, y: Tensor, rivals: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """For one tile and each column of `rivals`: the lead over that rival, and how fast a step of length 1 melts it.

    The second is −∂(f_y − f_rival)/∂x · scale, so that features that cannot move have 0. One forward pass, and one
    backward pass a rival.
    """
    with torch.enable_grad():
        x = rows.detach().requires_grad_(True)
        scores = network.scores(x)
        refuse_without_gradient(scores)
        own = scores.gather(1, y[:, None])[:, 0]
        for j in range(rivals.shape[1]):
            margin = own - scores.gather(1, rivals[:, j : j + 1])[:, 0]
            last = j == rivals.shape[1] - 1
            # A score that does not depend on the inputs has slope 0.
            gradient = gradient_of(margin, x, again=not last)
            yield margin.detach(), -gradient * network.scale


def gradient_of(values: Tensor, x: Tensor, *, again: bool = False) -> Tensor:
    """∂values/∂x, a row a sample; `again` if the same scores will be differentiated once more."""
    try:
        (gradient,) = torch.autograd.grad(values.sum(), x, retain_graph=again, materialize_grads=True)
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        first = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
        raise ModelError(
            f"The model's scores cannot be differentiated ({first}). Does it change tensors in place, or use a "
            "function without a backward pass? Mend that, or choose an estimator that needs predictions only."
        ) from error
    return gradient


def refuse_without_gradient(scores: Tensor) -> None:
    """Say so if the scores do not depend on the inputs in a way that can be differentiated."""
    if not scores.requires_grad:
        raise ModelError(
            "The model's scores have no gradient in its inputs: it works under `torch.no_grad()`, detaches, "
            "rounds, or does not look at its inputs. Remove that, or choose an estimator that needs predictions "
            "only."
        )
