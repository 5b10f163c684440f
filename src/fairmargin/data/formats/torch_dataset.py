"""Datasets from map-style PyTorch datasets, read item by item."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.domain import Domain
from fairmargin.core.progress import Progress, silent
from fairmargin.core.suggestion import there_are
from fairmargin.data.dataset import Dataset
from fairmargin.data.formats.labels import class_numbers
from fairmargin.data.samples import content_hash
from fairmargin.errors import InputError

_REPORT_EVERY = 64  # items between two reports of progress


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The inputs of a PyTorch dataset as samples; each item is read when it is needed and not kept.

    Parameters
    ----------
    dataset
        Dataset with a length that returns (x, y) or (x, y, attributes) for an index.
    shape, dtype
        Shape and dtype of all inputs together, as for an array; an item that differs raises an error.
    """

    dataset: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any, /) -> npt.NDArray[Any]:
        places = np.arange(self.shape[0])[which]
        if places.ndim == 0:
            return self._one(int(places))
        rows = np.empty((len(places), *self.shape[1:]), dtype=self.dtype)
        for row, place in enumerate(places.tolist()):
            rows[row] = self._one(place)
        return rows

    def _one(self, place: int) -> npt.NDArray[Any]:
        x = input_of(item_at(self.dataset, place)[0], place)
        if x.shape != self.shape[1:] or x.dtype != self.dtype:
            raise InputError(
                f"Item {place:,} of the dataset holds {x.dtype} of shape {x.shape}, item 0 holds {self.dtype} of shape "
                f"{self.shape[1:]}. All inputs must have the same shape and type: convert them in the dataset's "
                "transform."
            )
        return x


def item_at(dataset: Any, place: int) -> tuple[Any, ...]:
    """Return the item (x, y) or (x, y, attributes), or raise an `InputError` that describes what was returned."""
    try:
        item = dataset[place]
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the user's code can raise anything
        raise InputError(f"Item {place:,} of the dataset cannot be read ({type(error).__name__}: {error}).") from error
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        given = f"a {type(item).__name__}" + (f" of {len(item)}" if isinstance(item, tuple | list) else "")
        keys = f" {there_are(item)}" if isinstance(item, Mapping) else ""
        raise InputError(
            f"Item {place:,} of the dataset is {given}; expected (x, y) or (x, y, attributes).{keys} Wrap the dataset "
            "in one that returns these."
        )
    return tuple(item)


def as_array(value: Any) -> npt.NDArray[Any]:
    """Convert a value, which can be a tensor on any device, to an array."""
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def input_of(x: Any, place: int) -> npt.NDArray[Any]:
    """Convert the input of an item to an array of numbers."""
    if type(x).__module__.startswith("PIL."):
        raise InputError(
            f"Item {place:,} of the dataset holds an image ({type(x).__name__}), not numbers. Give the dataset a "
            "transform that converts it to a tensor as the model expects, such as torchvision's ToTensor."
        )
    try:
        array = as_array(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"The input of item {place:,} of the dataset is not an array of numbers ({error}).") from error
    if array.dtype.kind not in "fiub" or array.ndim == 0:
        raise InputError(
            f"The input of item {place:,} of the dataset must be an array of numbers; it is {array.dtype} of shape "
            f"{array.shape}."
        )
    return array


def one_value(what: str, value: Any, place: int) -> Any:
    """Convert a label or an attribute to a plain number or text; None means missing."""
    if value is None or isinstance(value, str):
        return value
    array = as_array(value)
    if array.size != 1 or array.dtype.kind not in "fiubUO":
        raise InputError(
            f"The {what} of item {place:,} of the dataset must be one value; it is {type(value).__name__} of shape "
            f"{array.shape}."
        )
    return array.item()


def from_torch(
    dataset: Any,
    *,
    name: str = "",
    attribute_names: Sequence[str] = (),
    class_names: Sequence[str] = (),
    domain: Domain | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Make a dataset from a map-style PyTorch dataset of (x, y) or (x, y, attributes), without copying the inputs.

    Every item is read twice, once for its label and attributes and once for the fingerprint. A dataset whose items
    differ between two reads (random augmentation) is refused, because distances would belong to unknown inputs.

    Parameters
    ----------
    dataset
        Any object with `len(dataset)` and `dataset[i]`, whose items hold tensors, arrays or numbers. Attributes are a
        dict, a tuple (or vector), or a single value.
    name
        Name of the dataset in reports.
    attribute_names
        Names of the attributes, unless they are given as a dict.
    class_names
        Names of the classes in the order of the model's outputs.
    domain
        Valid inputs, such as `Domain(0, 1)` for pixels; by default unbounded.
    progress
        Called with (description, done, total).

    >>> pairs = [(np.array([0.1, 0.2]), 0, {"sex": "F"}), (np.array([0.3, 0.4]), 1, {"sex": "M"})]
    >>> from_torch(pairs, name="pairs")
    Dataset('pairs', 2 samples of shape (2,), attributes: sex)
    """
    if isinstance(attribute_names, str) or isinstance(class_names, str):
        raise InputError("`attribute_names` and `class_names` must be lists of names; given a single text.")
    count, report = _length(dataset), progress or silent
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
                f"Item {place:,} of the dataset has the attributes {', '.join(found) or '(none)'}, but item 0 has "
                f"{', '.join(columns) or '(none)'}. All items must have the same attributes."
            )
        for key, value in found.items():
            columns.setdefault(key, []).append(value)
        if (place + 1) % _REPORT_EVERY == 0 or place + 1 == count:
            report("Reading labels", place + 1, count)
    y, names = class_numbers(name or "The dataset", np.array(labels), class_names)
    return Dataset(
        items,
        y,
        {key: np.array(values) for key, values in columns.items()},
        domain,
        name=name,
        fingerprint=content_hash(_SecondReading(items, checks, report), y),
        class_names=names,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _SecondReading:
    """Items that raise an error if they differ from the first reading."""

    items: Items
    checks: npt.NDArray[np.uint32]
    progress: Progress

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
                    f"Item {place:,} of the dataset changes each time it is read. Disable random augmentation: "
                    "distances are defined for fixed samples."
                )
        self.progress("Fingerprint", int(places[-1]) + 1, self.shape[0])
        return rows


def _check(row: npt.NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(row).tobytes())


def _length(dataset: Any) -> int:
    kinds = {kind.__name__ for kind in type(dataset).__mro__}
    if "DataLoader" in kinds:
        raise InputError("Expected a dataset, given a DataLoader, which shuffles and batches. Pass `loader.dataset`.")
    if "IterableDataset" in kinds or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InputError(
            f"A {type(dataset).__name__} has no length, or no items by index. Expected a map-style dataset "
            "with `len(dataset)` and `dataset[i]`; convert a stream to a list first."
        )
    count = len(dataset)
    if not count:
        raise InputError("The dataset is empty; expected at least one item.")
    return count


def _attributes(value: Any, names: Sequence[str], place: int) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): one_value(f"attribute {key!r}", entry, place) for key, entry in value.items()}
    several = isinstance(value, tuple | list) or (not isinstance(value, str) and as_array(value).ndim == 1)
    values = list(value) if several else [value]
    known = list(names) or ([f"attribute {i}" for i in range(1, len(values) + 1)] if several else ["attribute"])
    if len(known) != len(values):
        raise InputError(
            f"Item {place:,} of the dataset has {len(values)} attributes, but `attribute_names` has {len(known)} "
            f"names: {', '.join(known)}."
        )
    return {key: one_value(f"attribute {key!r}", entry, place) for key, entry in zip(known, values, strict=True)}
