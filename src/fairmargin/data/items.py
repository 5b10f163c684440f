"""One item of a PyTorch dataset after the other, as numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.suggestion import there_are
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The inputs of a PyTorch dataset as samples: an item is read when it is asked for, and forgotten after.

    Parameters
    ----------
    dataset
        Has a length and yields (x, y) or (x, y, attributes) by index.
    shape, dtype
        Of all of them, as numpy says it; an item that differs is refused.
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
                f"{self.shape[1:]}. All inputs must be alike: resize or convert them in the dataset's transform."
            )
        return x


def item_at(dataset: Any, place: int) -> tuple[Any, ...]:
    """(x, y) or (x, y, attributes), or a sentence that says what is there instead."""
    try:
        item = dataset[place]
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever the user's own code raises
        raise InputError(f"Item {place:,} of the dataset cannot be read ({type(error).__name__}: {error}).") from error
    if not isinstance(item, tuple | list) or len(item) not in (2, 3):
        given = f"a {type(item).__name__}" + (f" of {len(item)}" if isinstance(item, tuple | list) else "")
        keys = f" {there_are(item)}" if isinstance(item, Mapping) else ""
        raise InputError(
            f"Item {place:,} of the dataset is {given}; expected (x, y) or (x, y, attributes).{keys} Wrap the dataset "
            "in one that yields these."
        )
    return tuple(item)


def as_array(value: Any) -> npt.NDArray[Any]:
    """A tensor of any device, or whatever else, as an array."""
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)


def input_of(x: Any, place: int) -> npt.NDArray[Any]:
    """The x of an item as an array of numbers."""
    if type(x).__module__.startswith("PIL."):
        raise InputError(
            f"Item {place:,} of the dataset holds a picture ({type(x).__name__}), not numbers. Give the dataset a "
            "transform that makes a tensor of it, such as torchvision's ToTensor, as the model is used to."
        )
    try:
        array = as_array(x)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"The input of item {place:,} of the dataset is no array of numbers ({error}).") from error
    if array.dtype.kind not in "fiub" or array.ndim == 0:
        raise InputError(
            f"The input of item {place:,} of the dataset must be an array of numbers; it is {array.dtype} of shape "
            f"{array.shape}."
        )
    return array


def one_value(what: str, value: Any, place: int) -> Any:
    """A label or an attribute as a plain number or text; None if it is missing."""
    if value is None or isinstance(value, str):
        return value
    array = as_array(value)
    if array.size != 1 or array.dtype.kind not in "fiubUO":
        raise InputError(
            f"The {what} of item {place:,} of the dataset must be one value; it is {type(value).__name__} of shape "
            f"{array.shape}."
        )
    return array.item()
