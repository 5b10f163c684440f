"""The difference of logits ratio: a margin that does not change when all scores are shifted or stretched."""

from collections.abc import Callable

import torch
from torch import Tensor

from fairmargin.attacks.losses import margin

_FEWEST, _FEWEST_TOWARDS = 3, 4  # classes for which the ratios are defined

Towards = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Scores, class positions and a rival each to one value a sample: the larger, the more the rival is ahead."""


def difference_ratio(scores: Tensor, y: Tensor) -> Tensor:
    """(max over k ≠ y of f_k − f_y) / (f_(1) − f_(3)), where f_(i) is the i-th largest score.

    A model whose scores are a thousand times as large has the same ratio and the same direction to climb. Two classes
    have no third score: for them it is the margin.

    References: F. Croce, M. Hein, ICML 2020, equation 6.

    >>> difference_ratio(torch.tensor([[3.0, 1.0, 2.0], [3000.0, 1000.0, 2000.0]]), torch.tensor([0, 0]))
    tensor([-0.5000, -0.5000])
    """
    if scores.shape[1] < _FEWEST:
        return margin(scores, y)
    top = scores.topk(3, dim=1).values
    return margin(scores, y) / _safe(top[:, 0] - top[:, 2])


def difference_ratio_towards(scores: Tensor, y: Tensor, rival: Tensor) -> Tensor:
    """(f_rival − f_y) / (f_(1) − (f_(3) + f_(4))/2); with fewer than four classes, the difference itself.

    References: F. Croce, M. Hein, ICML 2020, equation 7.

    >>> difference_ratio_towards(torch.tensor([[3.0, 1.0, 2.0, 0.0]]), torch.tensor([0]), torch.tensor([1]))
    tensor([-0.8000])
    """
    ahead = margin_towards(scores, y, rival)
    if scores.shape[1] < _FEWEST_TOWARDS:
        return ahead
    top = scores.topk(4, dim=1).values
    return ahead / _safe(top[:, 0] - (top[:, 2] + top[:, 3]) / 2)


def margin_towards(scores: Tensor, y: Tensor, rival: Tensor) -> Tensor:
    """f_rival − f_y.

    >>> margin_towards(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]), torch.tensor([1]))
    tensor([-2.])
    """
    return (scores.gather(1, rival[:, None]) - scores.gather(1, y[:, None]))[:, 0]


def _safe(width: Tensor) -> Tensor:
    # Where the largest scores are all the same there is nothing to relate to.
    return torch.where(width > 0, width, 1.0)
