"""Labels as people write them, and the class numbers that a model gives out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError


def numbered(where: str, values: npt.NDArray[Any], class_names: Sequence[str] = ()) -> tuple[Ints, tuple[str, ...]]:
    """A class number for each label, and the names of the classes.

    Whole numbers are class numbers already and stay what they are: in a part of the data in which a class does not
    occur, numbering them anew would shift the rest. Text is numbered in the order of `class_names`, or sorted.

    >>> numbered("table", np.array(["no", "yes", "no"]))
    (array([0, 1, 0]), ('no', 'yes'))
    >>> numbered("table", np.array([0, 2]), ["a", "b", "c"])
    (array([0, 2]), ('a', 'b', 'c'))
    """
    names = tuple(map(str, class_names))
    if len(set(names)) < len(names):
        raise InputError(f"`class_names` names a class twice: {', '.join(names)}.")
    missing = [place for place, value in enumerate(values.tolist()) if value is None or value != value]
    if missing:
        raise InputError(
            f"{where} lacks the label of {len(missing):,} of {len(values):,} samples (first at index {missing[0]:,}). "
            "Drop these samples."
        )
    if _are_whole(values):
        numbers = values.astype(np.int64)
        if numbers.min() < 0:
            raise InputError(f"{where}: classes are numbered from 0; found the label {numbers.min()}.")
        return numbers, names
    _check_one_kind(where, values)
    text = np.array([str(value) for value in values.tolist()])
    order = names or tuple(np.unique(text).tolist())
    places = {name: place for place, name in enumerate(order)}
    for value in np.unique(text).tolist():
        if value not in places:
            raise InputError(f"{where}: label {value!r} is none of `class_names`. {suggest(value, order)}")
    return np.array([places[value] for value in text.tolist()], dtype=np.int64), order


def _check_one_kind(where: str, values: npt.NDArray[Any]) -> None:
    """One stray text among numbers would make texts of all, and sorted texts are not in the order of the numbers."""
    if values.dtype.kind == "f":
        odd = values[values != np.floor(values)]
        raise InputError(f"{where}: classes are whole numbers or names; found the label {odd[0]:g}.")
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
