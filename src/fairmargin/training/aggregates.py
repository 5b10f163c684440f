"""How the losses of a batch's samples become one number. Groups that a batch does not hold take no part in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.training.batch import Losses

State = Mapping[str, Tensor]  # what a controller remembers
LOG_WEIGHTS = "log_weights"  # of groups


class Aggregate(Protocol):
    """A function of the samples' losses; one that depends on more than the batch finds that in the state."""

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """One number, differentiable."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean over samples; 0 if there is none.

    >>> Mean()(Losses(torch.tensor([1.0, 3.0]), torch.tensor([0, 1]), ("a", "b")), {}).item()
    2.0
    """

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """(1/n) Σ_i ℓ_i."""
        return losses.values.mean() if len(losses.values) else losses.values.sum()


@dataclass(frozen=True, slots=True)
class GapsToMean:
    """Σ_a |L_a − L|: how far each group's mean is from that of all samples (accuracy parity, relaxed to losses).

    References
    ----------
    C. Tran et al., "On the effects of fairness to adversarial vulnerability", 2024, Eq. 3.

    >>> GapsToMean()(Losses(torch.tensor([1.0, 3.0]), torch.tensor([0, 1]), ("a", "b")), {}).item()
    2.0
    """

    compares_groups: ClassVar[bool] = True

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """The sum over the groups in the batch."""
        means, counts = losses.by_group()
        return ((means - Mean()(losses, state)).abs() * (counts > 0)).sum()


@dataclass(frozen=True, slots=True)
class VarianceOfGroups:
    """The population variance of the groups' means, over the groups that the batch holds.

    Parameters
    ----------
    slots
        0: of the groups present. Otherwise the published code of Ma et al.: the variance over so many slots, whatever
        the number of groups, most of them 0, so that it mostly penalises the mean.

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
        """(1/G) Σ_a (L_a − mean of L_a)²."""
        means, counts = losses.by_group()
        if not self.slots:
            present = means[counts > 0]
            return present.var(correction=0) if len(present) else means.sum()
        filled = means.new_zeros(max(self.slots, len(losses.names)))
        return torch.cat([means, filled[len(losses.names) :]]).var(correction=0)


@dataclass(frozen=True, slots=True)
class WeightedGroups:
    """Σ_a q_a L_a with the weights q whose logarithms the controller keeps.

    >>> losses = Losses(torch.tensor([1.0, 3.0]), torch.tensor([0, 1]), ("a", "b"))
    >>> WeightedGroups()(losses, {"log_weights": torch.tensor([0.25, 0.75]).log()}).item()
    2.5
    """

    compares_groups: ClassVar[bool] = True

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """The weights are constants: they are moved by the controller, not by the gradient."""
        means, _ = losses.by_group()
        return (state[LOG_WEIGHTS].exp().to(means) * means).sum()


@dataclass(frozen=True, slots=True)
class GapToRest:
    """|mean over all other groups − mean over the group|, for one group or summed over all of them.

    A group that has no sample here, or whose rest has none, contributes nothing.

    Parameters
    ----------
    group
        Its name in the partition; None for every group.

    >>> losses = Losses(torch.tensor([1.0, 3.0, 7.0]), torch.tensor([0, 1, 1]), ("a", "b"))
    >>> GapToRest("a")(losses, {}).item(), GapToRest()(losses, {}).item()
    (4.0, 8.0)
    """

    compares_groups: ClassVar[bool] = True

    group: str | None = None

    def __call__(self, losses: Losses, state: State) -> Tensor:
        """The sum of the gaps asked for."""
        means, counts = losses.by_group()
        sums, total = means * counts, losses.values.sum()
        others = counts.sum() - counts
        gaps = ((total - sums) / others.clamp(min=1) - means).abs() * ((counts > 0) & (others > 0))
        if self.group is None:
            return gaps.sum()
        if self.group not in losses.names:
            raise InputError(f"The partition has no group {self.group!r}. {suggest(self.group, losses.names)}")
        return gaps[losses.names.index(self.group)]
