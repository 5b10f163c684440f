"""What an attack climbs and training descends: functions of scores, one value a sample."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from fairmargin.distances.ddn import rivals_ahead
from fairmargin.errors import InputError
from fairmargin.perturbation.margins import lead

Loss = Callable[[Tensor, Tensor], Tensor]
"""Scores and class positions to one value a sample: the larger, the less the sample is taken for what it is."""

_CONFIDENCE = 50.0


def cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """log Σ_k exp f_k − f_y, what training descends; its slope vanishes to the last bit where a model is confident.

    >>> cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([0]))
    tensor([0.6931])
    """
    return torch.nn.functional.cross_entropy(scores, y, reduction="none")


def log_odds(scores: Tensor, y: Tensor) -> Tensor:
    """log Σ_{k≠y} exp f_k − f_y, of which the cross-entropy is log(1 + exp(·)): the same order, the same directions.

    Unlike the cross-entropy's, its slope cannot underflow, so that a confident model is attacked like any other.

    >>> log_odds(torch.tensor([[200.0, 0.0]]), torch.tensor([0]))
    tensor([-200.])
    """
    return -rivals_ahead(scores, y)


def margin(scores: Tensor, y: Tensor) -> Tensor:
    """max over k ≠ y of f_k − f_y: positive where another class is ahead.

    >>> margin(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]))
    tensor([-1.])
    """
    return -lead(scores, y)


def clipped_margin(scores: Tensor, y: Tensor, confidence: float = _CONFIDENCE) -> Tensor:
    """−max(f_y − max over k ≠ y of f_k + confidence, 0): the margin, content with a rival that far ahead.

    >>> clipped_margin(torch.tensor([[3.0, 1.0], [0.0, 99.0]]), torch.tensor([0, 0]))
    tensor([-52.,  -0.])
    """
    return -(lead(scores, y) + confidence).clamp(min=0)


def divergence(reference: Tensor, scores: Tensor) -> Tensor:
    """KL(softmax(reference) ‖ softmax(scores)), differentiable in both.

    >>> divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 0.0]]))
    tensor([0.])
    """
    own, other = reference.log_softmax(dim=1), scores.log_softmax(dim=1)
    return (own.exp() * (own - other)).sum(dim=1)


def kl_to(reference: Tensor) -> Callable[[Tensor], Tensor]:
    """How far scores have gone from the reference scores, which stay as they are: what TRADES climbs.

    At the reference itself it is flat: begin elsewhere.

    >>> kl_to(torch.tensor([[0.0, 0.0]]))(torch.tensor([[100.0, 0.0]]))
    tensor([49.3069])
    """
    fixed = reference.detach()
    return lambda scores: divergence(fixed, scores)


# What an attack may be told to climb. For the cross-entropy its odds: every step is the same, none is lost.
LOSSES: Mapping[str, Loss] = {"cross_entropy": log_odds, "margin": margin, "clipped_margin": clipped_margin}


def loss_named(attack: object, name: str) -> Loss:
    """The loss of that name; attacks ask in their `__post_init__` too."""
    if name not in LOSSES:
        raise InputError(f"must be one of {', '.join(LOSSES)}", field="loss", given=name, of=type(attack).__name__)
    return LOSSES[name]
