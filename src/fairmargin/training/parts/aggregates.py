"""Aggregates: they combine the losses of a batch's samples to one number.

Groups without samples in the batch are ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fairmargin.training.parts.batch import Losses

State = Mapping[str, Tensor]
"""The state that a controller keeps between steps."""
LOG_WEIGHTS = "log_weights"
"""Name of the logarithms of the groups' weights in the state."""


class Aggregate(Protocol):
    """A function of the samples' losses and of the state that the controller keeps."""

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """Return one differentiable number."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over samples; 0 if there is none.

    >>> Mean()(Losses(torch.tensor([1.0, 3.0]), torch.tensor([0, 1]), ("a", "b")), {}).item()
    2.0
    """

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """Return (1/n) Σ_i ℓ_i."""
        return losses.values.mean() if len(losses.values) else losses.values.sum()


@dataclass(frozen=True, slots=True)
class GapsToMean:
    """Distance of each group's mean from the mean of all samples, Σ_a |L_a − L| (accuracy parity, relaxed to losses).

    References
    ----------
    C. Tran et al., "On the effects of fairness to adversarial vulnerability", 2024, Eq. 3.

    >>> GapsToMean()(Losses(torch.tensor([1.0, 3.0]), torch.tensor([0, 1]), ("a", "b")), {}).item()
    2.0
    """

    compares_groups: ClassVar[bool] = True

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """Return the sum over the groups in the batch."""
        means, counts = losses.by_group()
        return ((means - Mean()(losses, state)).abs() * (counts > 0)).sum()


@dataclass(frozen=True, slots=True)
class VarianceOfGroups:
    """Population variance of the groups' means, over the groups in the batch.

    Parameters
    ----------
    slots
        0: the variance over the groups in the batch. Otherwise as in the published code of Ma et al.: the variance over
        this number of values, of which most are 0 whatever the number of groups, so that it mostly penalises the mean.

    References
    ----------
    X. Ma, Z. Wang, W. Liu, "On the tradeoff between robustness and fairness", NeurIPS 2022.

    >>> losses = Losses(torch.tensor([1.0, 3.0]), torch.tensor([0, 1]), ("a", "b", "c"))
    >>> VarianceOfGroups()(losses, {}).item(), round(VarianceOfGroups(slots=100)(losses, {}).item(), 4)
    (1.0, 0.0984)
    """

    compares_groups: ClassVar[bool] = True

    slots: int = 0

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """Return (1/G) Σ_a (L_a − mean of L_a)²."""
        means, counts = losses.by_group()
        if not self.slots:
            present = means[counts > 0]
            return present.var(correction=0) if len(present) else means.sum()
        filled = means.new_zeros(max(self.slots, len(losses.names)))
        return torch.cat([means, filled[len(losses.names) :]]).var(correction=0)


@dataclass(frozen=True, slots=True)
class WeightedGroups:
    """Weighted sum Σ_a q_a L_a of the groups' means; the controller keeps the logarithms of the weights q.

    >>> losses = Losses(torch.tensor([1.0, 3.0]), torch.tensor([0, 1]), ("a", "b"))
    >>> WeightedGroups()(losses, {"log_weights": torch.tensor([0.25, 0.75]).log()}).item()
    2.5
    """

    compares_groups: ClassVar[bool] = True

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """Return the weighted sum; the weights are constants for the gradient, since the controller changes them."""
        means, _ = losses.by_group()
        return (state[LOG_WEIGHTS].exp().to(means) * means).sum()


@dataclass(frozen=True, slots=True)
class GapToRest:
    """Gap |mean over all other groups − mean over the group|, for one group or summed over all of them.

    A group without samples in the batch, or without other samples, contributes 0.

    Parameters
    ----------
    group
        Its name in the partition, which `train` checks; None for every group.

    >>> losses = Losses(torch.tensor([1.0, 3.0, 7.0]), torch.tensor([0, 1, 1]), ("a", "b"))
    >>> GapToRest("a")(losses, {}).item(), GapToRest()(losses, {}).item()
    (4.0, 8.0)
    """

    compares_groups: ClassVar[bool] = True

    group: str | None = None

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """Return the gap of the group, or the sum over all groups."""
        means, counts = losses.by_group()
        sums, total = means * counts, losses.values.sum()
        others = counts.sum() - counts
        gaps = ((total - sums) / others.clamp(min=1) - means).abs() * ((counts > 0) & (others > 0))
        return gaps.sum() if self.group is None else gaps[losses.names.index(self.group)]
