"""Losses, which attacks maximise and training minimises: functions of scores with one value per sample."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from fairmargin.distances.gradient_search import positive
from fairmargin.distances.searches.ddn import rivals_ahead
from fairmargin.errors import InputError
from fairmargin.perturbation.margins import lead

Loss = Callable[[Tensor, Tensor], Tensor]
"""Function of scores and class positions that returns one value per sample, large if the class is not predicted."""

Towards = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Function of scores, class positions and target classes that returns one value per sample.

The value is large if the score of the target class exceeds the score of the sample's class.
"""

_CONFIDENCE = 50.0  # default of `clipped_margin`
_FEWEST, _FEWEST_TOWARDS = 3, 4  # minimum numbers of classes for the ratios


def cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy log Σ_k exp f_k − f_y. Its gradient underflows to 0 where the model is very confident.

    >>> cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([0]))
    tensor([0.6931])
    """
    return torch.nn.functional.cross_entropy(scores, y, reduction="none")


def log_odds(scores: Tensor, y: Tensor) -> Tensor:
    """Return the log-odds log Σ_{k≠y} exp f_k − f_y. The cross-entropy is log(1 + exp(log-odds)).

    Both losses have the same order and the same gradient directions, but the gradient of the log-odds does not
    underflow where the model is very confident.

    >>> log_odds(torch.tensor([[200.0, 0.0]]), torch.tensor([0]))
    tensor([-200.])
    """
    return -rivals_ahead(scores, y)


def margin(scores: Tensor, y: Tensor) -> Tensor:
    """Return max over k ≠ y of f_k − f_y, which is positive where another class has a higher score.

    >>> margin(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]))
    tensor([-1.])
    """
    return -lead(scores, y)


def clipped_margin(scores: Tensor, y: Tensor, confidence: float = _CONFIDENCE) -> Tensor:
    """Return −max(f_y − max over k ≠ y of f_k + confidence, 0).

    This loss is constant where the score of another class is higher by at least `confidence`.

    >>> clipped_margin(torch.tensor([[3.0, 1.0], [0.0, 99.0]]), torch.tensor([0, 0]))
    tensor([-52.,  -0.])
    """
    return -(lead(scores, y) + confidence).clamp(min=0)


def divergence(reference: Tensor, scores: Tensor) -> Tensor:
    """Return KL(softmax(reference) ‖ softmax(scores)), which is differentiable with respect to both arguments.

    >>> divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 0.0]]))
    tensor([0.])
    """
    own, other = reference.log_softmax(dim=1), scores.log_softmax(dim=1)
    return (own.exp() * (own - other)).sum(dim=1)


def kl_to(reference: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the loss that TRADES maximises: the divergence of scores from fixed reference scores.

    Its gradient is 0 at the reference, so an ascent must begin at another point.

    >>> kl_to(torch.tensor([[0.0, 0.0]]))(torch.tensor([[100.0, 0.0]]))
    tensor([49.3069])
    """
    fixed = reference.detach()
    return lambda scores: divergence(fixed, scores)


def difference_ratio(scores: Tensor, y: Tensor) -> Tensor:
    """Return the difference of logits ratio (max over k ≠ y of f_k − f_y) / (f_(1) − f_(3)).

    f_(i) is the i-th largest score. The ratio does not change if all scores are shifted or multiplied by a positive
    number. For two classes, which have no third score, the margin is returned.

    References: F. Croce, M. Hein, ICML 2020, equation 6.

    >>> difference_ratio(torch.tensor([[3.0, 1.0, 2.0], [3000.0, 1000.0, 2000.0]]), torch.tensor([0, 0]))
    tensor([-0.5000, -0.5000])
    """
    if scores.shape[1] < _FEWEST:
        return margin(scores, y)
    top = scores.topk(3, dim=1).values
    return margin(scores, y) / positive(top[:, 0] - top[:, 2])


def difference_ratio_towards(scores: Tensor, y: Tensor, rival: Tensor) -> Tensor:
    """Return the targeted ratio (f_rival − f_y) / (f_(1) − (f_(3) + f_(4))/2); f_rival − f_y for fewer than 4 classes.

    References: F. Croce, M. Hein, ICML 2020, equation 7.

    >>> difference_ratio_towards(torch.tensor([[3.0, 1.0, 2.0, 0.0]]), torch.tensor([0]), torch.tensor([1]))
    tensor([-0.8000])
    """
    ahead = margin_towards(scores, y, rival)
    if scores.shape[1] < _FEWEST_TOWARDS:
        return ahead
    top = scores.topk(4, dim=1).values
    return ahead / positive(top[:, 0] - (top[:, 2] + top[:, 3]) / 2)


def margin_towards(scores: Tensor, y: Tensor, rival: Tensor) -> Tensor:
    """Return f_rival − f_y, the margin of a target class.

    >>> margin_towards(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0]), torch.tensor([1]))
    tensor([-2.])
    """
    return (scores.gather(1, rival[:, None]) - scores.gather(1, y[:, None]))[:, 0]


# Losses that attacks can maximise. "cross_entropy" uses the log-odds, which give the same steps.
LOSSES: Mapping[str, Loss] = {"cross_entropy": log_odds, "margin": margin, "clipped_margin": clipped_margin}


def loss_named(attack: object, name: str) -> Loss:
    """Return the loss of this name, or raise an error. Attacks call it in `__post_init__` to check their field."""
    if name not in LOSSES:
        raise InputError(f"must be one of {', '.join(LOSSES)}", field="loss", given=name, of=type(attack).__name__)
    return LOSSES[name]
