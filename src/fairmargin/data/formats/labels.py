"""Conversion of labels to class numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError


def class_numbers(
    where: str, values: npt.NDArray[Any], class_names: Sequence[str] = ()
) -> tuple[Ints, tuple[str, ...]]:
    """Convert labels to class numbers, and return them with the names of the classes.

    Integers are class numbers and stay unchanged: renumbering them would shift classes if one does not occur in this
    part of the data. Text is numbered in the order of `class_names`, or in sorted order.

    >>> class_numbers("table", np.array(["no", "yes", "no"]))
    (array([0, 1, 0]), ('no', 'yes'))
    >>> class_numbers("table", np.array([0, 2]), ["a", "b", "c"])
    (array([0, 2]), ('a', 'b', 'c'))
    """
    names = tuple(map(str, class_names))
    if len(set(names)) < len(names):
        raise InputError(f"`class_names` has a name more than once: {', '.join(names)}. Give each class one name.")
    missing = [place for place, value in enumerate(values.tolist()) if value is None or value != value]
    if missing:
        raise InputError(
            f"{where} has no label for {len(missing):,} of {len(values):,} samples (first at index {missing[0]:,}). "
            "Drop these samples."
        )
    if _are_whole(values):
        numbers = values.astype(np.int64)
        if numbers.min() < 0:
            raise InputError(f"{where}: class numbers must start at 0; found the label {numbers.min()}.")
        return numbers, names
    _check_one_kind(where, values)
    text = np.array([str(value) for value in values.tolist()])
    order = names or tuple(np.unique(text).tolist())
    places = {name: place for place, name in enumerate(order)}
    for value in np.unique(text).tolist():
        if value not in places:
            raise InputError(f"{where}: label {value!r} is not in `class_names`. {suggest(value, order)}")
    return np.array([places[value] for value in text.tolist()], dtype=np.int64), order


def _check_one_kind(where: str, values: npt.NDArray[Any]) -> None:
    """Refuse a mixture of numbers and text: all would be sorted as text, which is not the order of the numbers."""
    if values.dtype.kind == "f":
        odd = values[values != np.floor(values)]
        raise InputError(f"{where}: labels must be integers or names; found the label {odd[0]:g}.")
    written = [str(value).strip() for value in values.tolist()]
    stray = [text for text in written if not _is_number(text)]
    if stray and len(stray) < len(written):
        raise InputError(
            f"{where}: {len(written) - len(stray):,} labels are numbers and {len(stray):,} are not (first "
            f"{stray[0]!r}). Write all of them as numbers, or all as names."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _are_whole(values: npt.NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" or (values.dtype.kind == "f" and bool((values == np.floor(values)).all()))
