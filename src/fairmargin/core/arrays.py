"""Array types, and functions that validate arrays passed by users."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.errors import InputError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


def is_number(value: object) -> bool:
    """Return whether a value is a real number of Python or numpy; booleans are not numbers.

    >>> is_number(1), is_number(np.float32(0.5)), is_number("1"), is_number(True)
    (True, True, False, False)
    """
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def as_floats(values: npt.ArrayLike, name: str) -> Floats:
    """Return a one-dimensional float64 copy of `values`; raise an `InputError` that calls them `name` if that fails."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must hold numbers; {error}.") from None
    return _one_dimensional(array, name)


def as_bools(values: npt.ArrayLike, name: str) -> Bools:
    """Return a one-dimensional boolean array; accept booleans, 0 and 1, and refuse all other values."""
    array = np.array(values)
    if array.dtype != np.bool_:
        if not np.isin(array, (0, 1)).all():
            raise InputError(f"`{name}` must hold True and False (or 1 and 0); its dtype is {array.dtype}.")
        array = array.astype(np.bool_)
    return _one_dimensional(array, name)


def same_length(**arrays: Any) -> int:
    """Return the common length of the named arrays, or raise an error that names two arrays of different length."""
    lengths = {name: len(array) for name, array in arrays.items()}
    (first, expected), *rest = lengths.items()
    for name, given in rest:
        if given != expected:
            raise InputError(
                f"`{name}` has {given:,} entries but `{first}` has {expected:,}. "
                "Did you drop rows from only one of them?"
            )
    return expected


def some_index(which: npt.ArrayLike, where: str = "") -> npt.NDArray[Any]:
    """Return a mask or indices as an array; raise an error if no sample is selected."""
    chosen = np.asarray(which)
    if not (chosen.any() if chosen.dtype == np.bool_ else chosen.size):
        raise InputError(
            f"No sample {where}was selected: the mask is False everywhere, or the list of indices is empty."
        )
    return chosen


def grouped(codes: Ints, count: int) -> tuple[Ints, Ints]:
    """Return indices that sort codes 0 … count − 1, and the start of each code among them, followed by the end.

    Equal codes keep their order. The work does not grow with the number of codes, as that with one mask per code does.

    >>> [part.tolist() for part in grouped(np.array([2, 0, 2]), 3)]
    [[1, 0, 2], [0, 1, 1, 3]]
    """
    order = np.argsort(codes.astype(np.min_scalar_type(count)), kind="stable")  # small integers are sorted by radix
    return order, np.append(0, np.cumsum(np.bincount(codes, minlength=count)))


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view of an array that cannot be written to, for fields of frozen dataclasses."""
    view = array.view()
    view.flags.writeable = False
    return view


def _one_dimensional(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    if array.ndim != 1:
        raise InputError(f"`{name}` must be one-dimensional, with one entry per sample; its shape is {array.shape}.")
    return array
