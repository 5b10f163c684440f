"""Parameters of a closed form, one number or an array of them, which are checked when they are passed in."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Floats, read_only
from fairmargin.errors import InputError

Number = float | Floats


def as_number(values: npt.ArrayLike, name: str, *, infinite: bool = False) -> Floats:
    """Return a float64 array of any shape without NaN, and without infinity unless that is allowed."""
    array = np.array(values)
    if array.dtype.kind not in "iuf":
        text = repr(values)
        shown = text if len(text) <= 60 else text[:57] + "…"
        raise InputError(f"must be a number or an array of numbers; given {shown}", field=name)
    array = array.astype(np.float64)
    bad = np.isnan(array) if infinite else ~np.isfinite(array)
    if bad.any():
        wrong = "NaN" if infinite else "NaN or infinity"
        where = "" if array.ndim == 0 else f" in {bad.sum():,} of {array.size:,} entries"
        raise InputError(f"must be {'a number' if infinite else 'finite'}; it is {wrong}{where}", field=name)
    return read_only(array)


def not_negative(values: npt.ArrayLike, name: str, *, infinite: bool = False) -> Floats:
    """Return what `as_number` returns, and raise an error for a number below 0."""
    array = as_number(values, name, infinite=infinite)
    require(array >= 0, array, name, "must not be negative")
    return array


def require(holds: Bools, given: Floats, name: str, problem: str) -> None:
    """Raise an error about a field that shows the first number for which a condition does not hold."""
    if not holds.all():
        first = np.broadcast_to(given, holds.shape)[~holds].flat[0]
        where = "" if holds.ndim == 0 else f", the first of {(~holds).sum():,} in {holds.size:,} entries"
        raise InputError(f"{problem}; given {first:.6g}{where}", field=name)


def require_whole(value: object, name: str, least: int) -> None:
    """Raise an error if a value is not a whole number of at least `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise InputError(f"must be a whole number of at least {least}", field=name, given=value)


def together(numbers: Mapping[str, Floats]) -> list[Floats]:
    """Broadcast the arrays to their common shape, or raise an error that names the shapes."""
    try:
        return list(np.broadcast_arrays(*numbers.values()))
    except ValueError:
        shapes = ", ".join(f"`{name}` {array.shape}" for name, array in numbers.items() if array.ndim)
        raise InputError(
            f"These arrays do not fit together: {shapes}. Each dimension must be the same in all, or 1."
        ) from None


def plain(array: Floats) -> Number:
    """Return a Python float for one number, and an array for many."""
    return float(array) if array.ndim == 0 else array
