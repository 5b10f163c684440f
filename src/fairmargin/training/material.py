"""The data of a training as tensors: samples, class positions, groups."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairmargin.core.arrays import Ints
from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.data.samples import Samples, take_rows
from fairmargin.errors import InputError
from fairmargin.models.network import space
from fairmargin.training.batch import Batch, Space

_BYTES_IN_MEMORY = 4 * 2**30  # data of more are read batch by batch


@dataclass(frozen=True, slots=True, eq=False)
class Material:
    """What batches are made of.

    Parameters
    ----------
    x
        All samples as a tensor, or samples that are read when a batch needs them.
    y, groups
        Positions of classes and of groups.
    names
        Of the groups.
    room
        Where inputs may lie.
    """

    x: Tensor | Samples
    y: Tensor
    groups: Tensor
    names: tuple[str, ...]
    room: Space

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, which: Tensor) -> Batch:
        """The samples at these positions."""
        held = self.x
        x = held[which] if isinstance(held, Tensor) else as_tensor(take_rows(held, which.numpy()), self.room.scale)
        return Batch(x, self.y[which], self.groups[which], self.names)


def as_tensor(rows: Any, like: Tensor) -> Tensor:
    """Samples however they are stored, of the kind of number and on the device of another tensor.

    >>> as_tensor(np.array([[1, 2]], dtype=">i2")[:, ::-1], torch.empty(0))
    tensor([[2., 1.]])
    """
    exact = np.float64 if like.dtype is torch.float64 else np.float32
    with np.errstate(over="ignore"):  # too large for single precision becomes infinity, which is looked for
        held = np.ascontiguousarray(rows, dtype=exact)
    # Torch warns of tensors that share read-only memory, a map of a file, say.
    return torch.from_numpy(held if held.flags.writeable else held.copy()).to(like)


def as_material(
    dataset: Dataset, positions: Ints, partition: Partition, dtype: torch.dtype, device: torch.device
) -> Material:
    """The tensors of a dataset, whole in memory where that is not too much."""
    shape = tuple(dataset.x.shape[1:])
    low, high, scale = (part.reshape(shape) for part in space(dataset.domain, shape, dtype, device))
    x: Any = dataset.x
    if len(dataset) * math.prod(shape) * dtype.itemsize <= _BYTES_IN_MEMORY:
        x = as_tensor(dataset.x[:], scale)
        if not torch.isfinite(x).all():
            raise InputError(f"`x` holds numbers that are too large for the network's {dtype}. Scale the features.")
    return Material(
        x,
        torch.as_tensor(positions, device=device),
        torch.as_tensor(np.array(partition.membership), device=device),
        partition.labels,
        Space(low, high, scale),
    )


def class_values(dataset: Dataset, outputs: int) -> tuple[Any, ...]:
    """The label values in the order of the network's scores.

    Whole numbers below the number of scores are positions themselves, whichever of them occur; other labels are sorted.

    >>> class_values(Dataset([[0.0], [1.0]], ["yes", "no"]), 2)
    ('no', 'yes')
    """
    values = np.unique(dataset.y)
    if len(values) < 2:
        raise InputError(
            f"The data have one class only, {values.tolist()}: there is nothing to tell apart. Check the label column."
        )
    if values.dtype.kind in "iu" and values.min() >= 0 and values.max() < outputs:
        return tuple(range(outputs))
    if len(values) != outputs:
        raise InputError(
            f"The data have {len(values):,} classes but the network gives {outputs:,} scores. Build it for as many "
            "classes as there are."
        )
    return tuple(values.tolist())
