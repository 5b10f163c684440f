"""The domain of data that bring none: bounds that the user gives, and what a step of length 1 is."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.domain import Domain
from fairmargin.errors import InputError

Scale = Literal["std", "none"]
Bounds = tuple[npt.ArrayLike, npt.ArrayLike]


def domain_of(x: npt.NDArray[Any], scale: Scale, bounds: Bounds | None) -> Domain:
    """The box of `bounds`, with the standard deviation of each feature as its scale or without any.

    A constant feature has no spread to measure a step by: under "std" its scale is 0, which makes it immutable.

    >>> domain_of(np.array([[1.0, 7.0], [3.0, 7.0]]), "std", None).scale
    array([1., 0.])
    """
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    if scale == "none":
        return Domain(low, high)
    numbers = np.asarray(x, dtype=np.float64)
    # Asked by comparison: rounding gives a constant column such as 0.1, 0.1, 0.1 a tiny deviation that is not 0.
    constant = numbers.min(axis=0) == numbers.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.where(constant, 0.0, numbers.std(axis=0))
    if not np.isfinite(spread).all():
        where = int((~np.isfinite(spread)).argmax())
        raise InputError(f"Feature {where} (counted from 0) holds numbers too large to have a standard deviation.")
    return Domain(_per_feature(low, "low", spread), _per_feature(high, "high", spread), spread)


def outside(x: npt.NDArray[Any], domain: Domain) -> Bools:
    """Which samples leave the domain; asked in slices, since the answer is reckoned in float64."""
    if not domain.is_bounded:
        return np.zeros(len(x), dtype=np.bool_)
    return np.concatenate([~domain.contains(x[start : start + 4096]) for start in range(0, len(x), 4096)])


def _per_feature(limit: npt.ArrayLike, end: str, spread: Floats) -> Floats:
    given = np.asarray(limit, dtype=np.float64)
    if given.ndim and given.size != spread.size:
        raise InputError(
            f"The {end} end of `bounds` has {given.size:,} numbers but a sample has {spread.size:,} features (after "
            "one-hot encoding). Give a single number, or one a feature."
        )
    return np.broadcast_to(given if given.ndim == 0 else given.reshape(spread.shape), spread.shape)
