"""Datasets that a program brings along: a PyTorch `Dataset` (a Hugging Face folder: see `huggingface`)."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.domain import Domain
from fairmargin.core.progress import Progress
from fairmargin.data.card import Request
from fairmargin.data.dataset import Dataset
from fairmargin.data.items import Items, as_array, input_of, item_at, one_value
from fairmargin.data.labelling import numbered
from fairmargin.data.samples import content_hash
from fairmargin.errors import InputError

_TOLD_EVERY = 64


def from_torch(
    dataset: Any,
    *,
    name: str = "",
    attribute_names: Sequence[str] = (),
    class_names: Sequence[str] = (),
    domain: Domain | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """A map-style PyTorch dataset that yields (x, y) or (x, y, attributes), as it is: inputs stay where they are.

    Every item is read twice here, once for its label and attributes, once for the fingerprint; a dataset that yields
    something else the second time (random augmentation) is refused, since a distance would be of an image that nobody
    has seen.

    Parameters
    ----------
    dataset
        Anything with `len(dataset)` and `dataset[i]`. Tensors, arrays and numbers will do. Attributes are a dict, a
        tuple (or vector), or a single value.
    name
        What the dataset is called in reports.
    attribute_names
        The names of the attributes, unless they come as a dict.
    class_names
        The classes in the order of the model's outputs.
    domain
        Where inputs may lie, such as `Domain(0, 1)` for pixels; by default anywhere that the model admits.
    progress
        Called with (what, done, total).

    >>> pairs = [(np.array([0.1, 0.2]), 0, {"sex": "F"}), (np.array([0.3, 0.4]), 1, {"sex": "M"})]
    >>> from_torch(pairs, name="pairs")
    Dataset('pairs', 2 samples of shape (2,), attributes: sex)
    """
    if isinstance(attribute_names, str) or isinstance(class_names, str):
        raise InputError("`attribute_names` and `class_names` are lists of names; given a single text.")
    count, request = _length(dataset), Request(progress=progress)
    first = input_of(item_at(dataset, 0)[0], 0)
    items = Items(dataset, (count, *first.shape), first.dtype)
    labels: list[Any] = []
    columns: dict[str, list[Any]] = {}
    checks = np.empty(count, dtype=np.uint32)
    for place in range(count):
        x, label, *attributes = item_at(dataset, place)
        checks[place] = _check(input_of(x, place))
        labels.append(one_value("label", label, place))
        found = _attributes(attributes[0], attribute_names, place) if attributes else {}
        if place and found.keys() != columns.keys():
            raise InputError(
                f"Item {place:,} of the dataset has the attributes {', '.join(found) or '(none)'}, item 0 has "
                f"{', '.join(columns) or '(none)'}. Every item must have the same."
            )
        for key, value in found.items():
            columns.setdefault(key, []).append(value)
        if (place + 1) % _TOLD_EVERY == 0 or place + 1 == count:
            request.tell("Reading labels", place + 1, count)
    y, names = numbered(name or "The dataset", np.array(labels), class_names)
    return Dataset(
        items,
        y,
        {key: np.array(values) for key, values in columns.items()},
        domain,
        name=name,
        fingerprint=content_hash(_SecondReading(items, checks, request), y),
        class_names=names,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _SecondReading:
    """Items that must be what they were before."""

    items: Items
    checks: npt.NDArray[np.uint32]
    request: Request

    @property
    def shape(self) -> tuple[int, ...]:
        return self.items.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.items.dtype

    def __getitem__(self, which: Any, /) -> npt.NDArray[Any]:
        places = np.arange(self.shape[0])[which]
        rows = self.items[which]
        for place, row in zip(places.tolist(), rows, strict=True):
            if _check(row) != self.checks[place]:
                raise InputError(
                    f"Item {place:,} of the dataset is another one each time it is read. Switch random augmentation "
                    "off: distances are of samples that stay what they are."
                )
        self.request.tell("Fingerprint", int(places[-1]) + 1, self.shape[0])
        return rows


def _check(row: npt.NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(row).tobytes())


def _length(dataset: Any) -> int:
    kinds = {kind.__name__ for kind in type(dataset).__mro__}
    if "DataLoader" in kinds:
        raise InputError("A DataLoader shuffles and batches; give the dataset behind it: `loader.dataset`.")
    if "IterableDataset" in kinds or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InputError(
            f"A {type(dataset).__name__} has no length, or cannot be asked for item i. Expected a map-style dataset "
            "with `len(dataset)` and `dataset[i]`; collect a stream into a list first."
        )
    count = len(dataset)
    if not count:
        raise InputError("The dataset is empty.")
    return count


def _attributes(value: Any, names: Sequence[str], place: int) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): one_value(f"attribute {key!r}", entry, place) for key, entry in value.items()}
    several = isinstance(value, tuple | list) or (not isinstance(value, str) and as_array(value).ndim == 1)
    values = list(value) if several else [value]
    known = list(names) or ([f"attribute {i}" for i in range(1, len(values) + 1)] if several else ["attribute"])
    if len(known) != len(values):
        raise InputError(
            f"Item {place:,} of the dataset has {len(values)} attributes, but `attribute_names` names {len(known)}: "
            f"{', '.join(known)}."
        )
    return {key: one_value(f"attribute {key!r}", entry, place) for key, entry in zip(known, values, strict=True)}
