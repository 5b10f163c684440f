"""The data of a training: tensors, groups, the order of the batches, and augmentation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fairmargin.core.arrays import Ints
from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.data.samples import Samples, take_rows
from fairmargin.errors import InputError
from fairmargin.models.network import space as space_of
from fairmargin.training.loop.reproducibility import generator_of
from fairmargin.training.parts.batch import Batch, Space

_BYTES_IN_MEMORY = 4 * 2**30  # larger data are read batch by batch
_REACH = 4  # maximum number of pixels that an image is moved, as is usual for 32 × 32


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTensors:
    """Samples, positions of classes and groups as tensors, and names of the groups.

    Data that are too large for memory are not converted to a tensor, but read for each batch.
    """

    x: Tensor | Samples
    y: Tensor
    groups: Tensor
    names: tuple[str, ...]
    space: Space

    def __len__(self) -> int:
        return len(self.y)

    def batch(self, which: Tensor) -> Batch:
        """Return the samples at these positions."""
        held = self.x
        x = held[which] if isinstance(held, Tensor) else as_tensor(take_rows(held, which.numpy()), self.space.scale)
        return Batch(x, self.y[which], self.groups[which], self.names)


def as_tensor(rows: Any, like: Tensor) -> Tensor:
    """Return samples as a tensor with the dtype and on the device of another tensor.

    >>> as_tensor(np.array([[1, 2]], dtype=">i2")[:, ::-1], torch.empty(0))
    tensor([[2., 1.]])
    """
    exact = np.float64 if like.dtype is torch.float64 else np.float32
    with np.errstate(over="ignore"):  # values too large for single precision become infinity, which is checked
        held = np.ascontiguousarray(rows, dtype=exact)
    # Torch warns about tensors that share read-only memory, for instance that of a memory map.
    return torch.from_numpy(held if held.flags.writeable else held.copy()).to(like)


def as_tensors(
    dataset: Dataset, positions: Ints, partition: Partition, dtype: torch.dtype, device: torch.device
) -> TrainingTensors:
    """Return the tensors of a dataset; samples that do not fit into memory are read for each batch."""
    shape = tuple(dataset.x.shape[1:])
    low, high, scale = (part.reshape(shape) for part in space_of(dataset.domain, shape, dtype, device))
    x: Any = dataset.x
    if len(dataset) * math.prod(shape) * dtype.itemsize <= _BYTES_IN_MEMORY:
        x = as_tensor(dataset.x[:], scale)
        if not torch.isfinite(x).all():
            raise InputError(f"`x` holds values that are too large for the network's {dtype}. Scale the features.")
    return TrainingTensors(
        x,
        torch.as_tensor(positions, device=device),
        torch.as_tensor(np.array(partition.membership), device=device),
        partition.labels,
        Space(low, high, scale),
    )


def class_values(dataset: Dataset, outputs: int) -> tuple[Any, ...]:
    """Return the label values in the order of the network's scores.

    Whole numbers below the number of scores are positions themselves, whichever of them occur; other labels are sorted.

    >>> class_values(Dataset([[0.0], [1.0]], ["yes", "no"]), 2)
    ('no', 'yes')
    """
    values = np.unique(dataset.y)
    if len(values) < 2:
        raise InputError(f"The data have one class only, {values.tolist()}. Check the label column.")
    if values.dtype.kind in "iu" and values.min() >= 0 and values.max() < outputs:
        return tuple(range(outputs))
    if len(values) != outputs:
        raise InputError(
            f"The data have {len(values):,} classes but the network gives {outputs:,} scores. Build it with one "
            "score per class."
        )
    return tuple(values.tolist())


def groups_of(dataset: Dataset, partition: Partition | str | None) -> Partition:
    """Return the partition, or that of the named attribute; by default that of the classes."""
    if isinstance(partition, Partition):
        if len(partition) != len(dataset):
            raise InputError(
                f"The partition has {len(partition):,} samples but the data have {len(dataset):,}. Did you drop rows "
                "from only one of them?"
            )
        return partition
    return dataset.partition(partition or "class")


def groups_of_validation(
    validation: Dataset, partition: Partition | str | None, groups: Partition, given: Partition | None
) -> Partition:
    """Return the same groups of the validation data."""
    if given is None:
        name = groups.name if isinstance(partition, Partition) else partition or "class"
        try:
            own = validation.partition(name)
        except InputError as error:
            raise InputError(
                f"Validation data: {error} Training and validation data must have the same groups; for a partition "
                "of your own, pass that of the validation data as `validation_partition`."
            ) from None
    else:
        own = groups_of(validation, given)
    unknown = [label for label in own.labels if label not in groups.labels]
    if unknown:
        raise InputError(
            f"The validation data have a group {unknown[0]!r} of {groups.name!r} that the training data do not have. "
            "Leave it out, or merge it with another in both."
        )
    return own


def orders_of(pools: Sequence[Tensor], batch: int, place: tuple[int, ...]) -> list[list[Tensor]]:
    """Return for each part of a method the positions of each step's samples; all parts have the same number of steps.

    Guarantee: every sample of the largest pool is drawn once; a smaller pool is used repeatedly, each time in another
    order, and an empty one stays empty. Batches have nearly the same size, at most `batch`. None has a single sample,
    which BatchNorm could not be trained on, unless `batch` is 1 or the pool has no more: 3 samples in batches of 2 make
    one batch.

    A pool is a mask of the samples of a part; all randomness is derived from the place in the training.

    >>> [len(step) for step in orders_of([torch.ones(10, dtype=torch.bool)], 4, (0, 0))[0]]
    [4, 3, 3]
    """
    positions = [pool.nonzero().flatten() for pool in pools]
    largest = max(map(len, positions))
    if not largest:
        raise InputError("The method needs samples of a kind of which the data have none. Use another partition.")
    steps = math.ceil(largest / batch) if batch == 1 else min(math.ceil(largest / batch), max(largest // 2, 1))
    orders = []
    for number, own in enumerate(positions):
        if not len(own):
            orders.append([own] * steps)
            continue
        wanted = largest if len(own) == largest else steps * min(batch, len(own))
        random = generator_of("order", *place, number)
        rounds = (own[torch.randperm(len(own), generator=random)] for _ in range(math.ceil(wanted / len(own))))
        orders.append(list(torch.cat(list(rounds))[:wanted].tensor_split(steps)))
    return orders


def augmented(x: Tensor, kind: str, random: torch.Generator) -> Tensor:
    """Return the images, each flipped or not and moved by some pixels; pixels that enter at the edge are 0.

    >>> x = torch.arange(4.0).reshape(1, 1, 1, 4)
    >>> augmented(x, "none", torch.Generator()) is x
    True
    """
    if kind == "none":
        return x
    if x.ndim != 4:
        raise InputError(
            f"is for images (channels, height, width), not for samples of shape {tuple(x.shape[1:])}",
            field="augmentation",
            given=kind,
        )
    flip = torch.rand(len(x), generator=random) < 0.5
    x = torch.where(flip.to(x.device)[:, None, None, None], x.flip(-1), x)
    return x if kind == "flip" else _moved(x, random)


def _moved(x: Tensor, random: torch.Generator) -> Tensor:
    """Return the images, each moved by a random number of pixels in both directions."""
    height, width = x.shape[-2:]
    padded = functional.pad(x, (_REACH,) * 4)
    down, right = torch.randint(0, 2 * _REACH + 1, (2, len(x)), generator=random).to(x.device)
    rows = down[:, None] + torch.arange(height, device=x.device)
    columns = right[:, None] + torch.arange(width, device=x.device)
    each = torch.arange(len(x), device=x.device)[:, None, None]
    # The indexed dimensions come first in the result: (n, height, width, channels).
    return padded[each, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
