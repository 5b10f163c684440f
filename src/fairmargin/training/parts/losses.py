"""Losses of single samples, each a frozen dataclass: its fields are hyper-parameters, `__call__` is the formula."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from fairmargin.core.norm import Norm
from fairmargin.training.parts.batch import CLEAN, MOVED, Losses, Views

_TINY = 1e-12  # avoids a division by 0 where the gradient is 0


class SampleLoss(Protocol):
    """A function from the views of a batch to one loss per sample."""

    def __call__(self, views: Views) -> Losses:
        """Return losses that are differentiable in the network's parameters."""


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """The cross-entropy −log softmax_y(f(x)); the mean over the copies of a sample if there are several.

    Parameters
    ----------
    view
        The inputs: `CLEAN` or `MOVED`.
    """

    view: str = CLEAN

    def __call__(self, views: Views) -> Losses:
        """Return one value per sample."""
        scores = views.scores(self.view)
        return _each(functional.cross_entropy(scores, _labels(scores, views), reduction="none"), views)


@dataclass(frozen=True, slots=True)
class Ramp:
    """The ramp loss min(1, max(0, 1 − m)) with the margin m = f_y − max_{k≠y} f_k; it limits the influence of outliers.

    Parameters
    ----------
    view
        The inputs: `CLEAN` or `MOVED`.

    References
    ----------
    R. Collobert et al., "Trading convexity for scalability", ICML 2006; for fairness C. Tran et al. 2024, §7.
    """

    view: str = CLEAN

    def __call__(self, views: Views) -> Losses:
        """Return one value in [0, 1] per sample."""
        scores = views.scores(self.view)
        return _each((1 - margins(scores, _labels(scores, views))).clamp(0, 1), views)


@dataclass(frozen=True, slots=True)
class DivergenceFromClean:
    """KL(softmax f(x) ‖ softmax f(x′)) of a sample and its moved copy.

    References
    ----------
    H. Zhang et al., "Theoretically principled trade-off between robustness and accuracy" (TRADES), ICML 2019.
    """

    def __call__(self, views: Views) -> Losses:
        """Return one value per sample; the gradient flows through both arguments, as in TRADES."""
        moved, clean = (functional.log_softmax(views.scores(view), dim=1) for view in (MOVED, CLEAN))
        clean = clean.repeat(len(moved) // len(clean), 1)
        return _each(functional.kl_div(moved, clean, reduction="none", log_target=True).sum(dim=1), views)


@dataclass(frozen=True, slots=True)
class Withstanding:
    """Smoothed indicator s((d − τ) / T) that a correctly classified sample withstands a step of length τ.

    d = (f_y − f_k) / ‖∇(f_y − f_k)‖₂ is the linearised distance for the strongest rival k, with BatchNorm's running
    statistics: in training mode the gradient of a batch is not the sample's. Misclassified samples are left out.

    Parameters
    ----------
    radius
        Length τ of the step.
    temperature
        T of the sigmoid s. 0 is the indicator d > τ as Nanda et al. print it, whose gradient is zero.
    published
        Hold the norm of the gradient constant, as the published code does; otherwise it is trained too.

    References
    ----------
    V. Nanda et al., "Fairness through robustness: investigating robustness disparity in deep learning", 2020 (AdvERM).
    """

    radius: float
    temperature: float = 0.1
    published: bool = False
    norm: ClassVar[Norm] = Norm.L2

    def __call__(self, views: Views) -> Losses:
        """Return one value in [0, 1] for each correctly classified sample."""
        batch = views.batch
        with views.evaluating() as network, torch.enable_grad():
            x = batch.x.detach().clone().requires_grad_()
            lead = margins(network(x), batch.y)
            (slopes,) = torch.autograd.grad(lead.sum(), x, create_graph=not self.published, retain_graph=True)
        steepness = (slopes * views.space.scale).flatten(1).square().sum(dim=1).clamp(min=_TINY).sqrt()
        distance = lead / (steepness.detach() if self.published else steepness)
        correct = lead.detach() > 0
        beyond = distance[correct] - self.radius
        sure = torch.sigmoid(beyond / self.temperature) if self.temperature else (beyond > 0).to(beyond)
        return Losses(sure, batch.groups[correct], batch.names)


SAMPLE_LOSSES: dict[str, type[CrossEntropy | Ramp]] = {"cross_entropy": CrossEntropy, "ramp": Ramp}


def margins(scores: Tensor, y: Tensor) -> Tensor:
    """Return f_y − max_{k≠y} f_k of each sample.

    >>> margins(torch.tensor([[1.0, 3.0, 0.0]]), torch.tensor([1])).tolist()
    [2.0]
    """
    own = functional.one_hot(y, scores.shape[1]).bool()
    return scores[own] - scores.masked_fill(own, -torch.inf).amax(dim=1)


def _labels(scores: Tensor, views: Views) -> Tensor:
    """Return the class of each row, repeated for every copy of the batch."""
    copies = len(scores) // len(views.batch)
    return views.batch.y if copies == 1 else views.batch.y.repeat(copies)


def _each(values: Tensor, views: Views) -> Losses:
    """Return the losses of the samples, each the mean over its copies."""
    batch = views.batch
    means = values if len(values) == len(batch) else values.reshape(-1, len(batch)).mean(dim=0)
    return Losses(means, batch.groups, batch.names)
