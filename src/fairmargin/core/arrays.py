"""Array types, and the checks that turn what a user passes into arrays that the rest can trust."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.errors import InputError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


def is_number(value: object) -> bool:
    """Whether this is a real number, of Python or numpy, and no truth value.

    >>> is_number(1), is_number(np.float32(0.5)), is_number("1"), is_number(True)
    (True, True, False, False)
    """
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def as_floats(values: npt.ArrayLike, name: str) -> Floats:
    """A one-dimensional float64 copy of `values`, or a sentence that says what is wrong with it."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must hold numbers; {error}.") from None
    return _one_dimensional(array, name)


def as_bools(values: npt.ArrayLike, name: str) -> Bools:
    """A one-dimensional boolean array; 0 and 1 are accepted, anything else is not."""
    array = np.array(values)
    if array.dtype != np.bool_:
        if not np.isin(array, (0, 1)).all():
            raise InputError(f"`{name}` must hold True and False (or 1 and 0); its dtype is {array.dtype}.")
        array = array.astype(np.bool_)
    return _one_dimensional(array, name)


def same_length(**arrays: Any) -> int:
    """The common length of the named arrays, or an error that names the two that differ."""
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
    """A mask or indices that select at least one sample."""
    chosen = np.asarray(which)
    if not (chosen.any() if chosen.dtype == np.bool_ else chosen.size):
        raise InputError(
            f"No sample {where}was selected: the mask is False everywhere, or the list of indices is empty."
        )
    return chosen


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that cannot be written through: frozen values stay frozen."""
    view = array.view()
    view.flags.writeable = False
    return view


def _one_dimensional(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    if array.ndim != 1:
        raise InputError(f"`{name}` must be one-dimensional, one entry a sample; its shape is {array.shape}.")
    return array
