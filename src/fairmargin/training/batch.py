"""What one step of training looks at."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Samples, their labels and their groups.

    Parameters
    ----------
    x
        (n, *shape).
    y
        (n,) positions of classes.
    groups
        (n,) positions of groups in the partition.
    names
        The partition's groups; a batch need not hold all of them.
    """

    x: Tensor
    y: Tensor
    groups: Tensor
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Where inputs may lie and how long a step of length 1 is in each feature: tensors of a sample's shape."""

    low: Tensor
    high: Tensor
    scale: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """One number a sample, for all samples of a batch or for some.

    Parameters
    ----------
    values
        (m,), differentiable.
    groups
        (m,) the group of the sample that each belongs to.
    names
        Of all groups.
    """

    values: Tensor
    groups: Tensor
    names: tuple[str, ...]

    def by_group(self) -> tuple[Tensor, Tensor]:
        """The mean of each group, 0 where there is none of it, and how many there are of each.

        >>> losses = Losses(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]), ("a", "b", "c"))
        >>> [part.tolist() for part in losses.by_group()]
        [[2.0, 0.0, 5.0], [2.0, 0.0, 1.0]]
        """
        nothing = self.values.new_zeros(len(self.names))
        counts = nothing.index_add(0, self.groups, torch.ones_like(self.values))
        return nothing.index_add(0, self.groups, self.values) / counts.clamp(min=1), counts
