"""The features of a table: how columns are encoded, and the domain in which distances are measured."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.domain import Domain
from fairmargin.core.partition import MISSING
from fairmargin.errors import InputError

_MANY_VALUES, _LARGE_SHARE = 100, 0.2  # above both, a text column holds names or keys rather than categories
Scale = Literal["std", "none"]
Bounds = tuple[npt.ArrayLike, npt.ArrayLike]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """The encoded features of a table, their names, and the names of the one-hot encoded columns."""

    x: Floats
    names: tuple[str, ...]
    categorical: tuple[str, ...]


def encode_columns(table: pd.DataFrame, columns: Iterable[str]) -> Features:
    """Encode columns as features: numbers unchanged, booleans as 0 and 1, categories one-hot as "column=value".

    Indicators are sorted, so that the same table always gives the same features. A missing category becomes the value
    "missing"; a missing number is an error, because imputation is left to the user.

    >>> people = pd.DataFrame({"age": [31, 54], "job": ["nurse", None]})
    >>> encode_columns(people, ["age", "job"]).names
    ('age', 'job=missing', 'job=nurse')
    """
    parts: list[Floats] = []
    names: list[str] = []
    categorical: list[str] = []
    for name in columns:
        column = table[name]
        if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
            parts.append(_numbers(name, column))
            names.append(name)
        else:
            indicators, values = _indicators(name, column)
            parts.append(indicators)
            names.extend(f"{name}={value}" for value in values)
            categorical.append(name)
    return Features(np.hstack(parts), tuple(names), tuple(categorical))


def _numbers(name: str, column: "pd.Series[float]") -> Floats:
    missing = int(column.isna().sum())
    if missing:
        raise InputError(
            f"Column {name!r} has no number in {missing:,} of {len(column):,} rows. Drop these rows, fill them in "
            "(for instance with the median), or leave the column out of `features`."
        )
    if pd.api.types.is_complex_dtype(column):
        raise InputError(f"Column {name!r} holds complex numbers; expected real numbers. Leave it out of `features`.")
    numbers = column.to_numpy(dtype=np.float64).reshape(-1, 1)
    if not np.isfinite(numbers).all():
        raise InputError(
            f"Column {name!r} holds infinity, first in row {int(np.isinf(numbers).argmax()) + 1:,}. "
            "Drop such rows, or leave the column out of `features`."
        )
    return np.asarray(numbers, dtype=np.float64)


def _indicators(name: str, column: "pd.Series[str]") -> tuple[Floats, list[str]]:
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise InputError(
            f"Column {name!r} holds dates or durations. Convert it to numbers, such as days since a start, or leave it "
            "out of `features`."
        )
    text = column.astype(object).map(_category)
    values, codes = np.unique(text.to_numpy(dtype=str), return_inverse=True)
    if len(values) > _MANY_VALUES and len(values) > _LARGE_SHARE * len(column):
        numbers = pd.to_numeric(text, errors="coerce")
        if numbers.notna().mean() > 0.5:
            row = int(numbers.isna().to_numpy().argmax())
            raise InputError(
                f"Column {name!r} holds {text.iloc[row]!r} in data row {row + 1}, which is not a number, while most of "
                "its entries are numbers. Correct or drop such rows."
            )
        raise InputError(
            f"Column {name!r} has {len(values):,} distinct texts in {len(column):,} rows and looks like a name or a "
            "key, not a category. Leave it out of `features`, group its values, or make it an attribute."
        )
    return np.eye(len(values))[codes], values.tolist()


def _category(value: object) -> str:
    missing = value is None or value is pd.NA or value is pd.NaT or value != value
    return (MISSING if missing else str(value).strip()) or MISSING


def domain_of(x: npt.NDArray[Any], scale: Scale, bounds: Bounds | None) -> Domain:
    """Return the domain with these bounds, scaled by the standard deviation of each feature if `scale` is "std".

    With "std", a constant feature has scale 0, which makes it immutable.

    >>> domain_of(np.array([[1.0, 7.0], [3.0, 7.0]]), "std", None).scale
    array([1., 0.])
    """
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    if scale == "none":
        return Domain(low, high)
    numbers = np.asarray(x, dtype=np.float64)
    # Compare minimum and maximum: rounding can give a constant column a tiny standard deviation that is not 0.
    constant = numbers.min(axis=0) == numbers.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.where(constant, 0.0, numbers.std(axis=0))
    if not np.isfinite(spread).all():
        where = int((~np.isfinite(spread)).argmax())
        raise InputError(
            f"The numbers of feature {where} (counted from 0) are too large to compute a standard deviation."
        )
    return Domain(_per_feature(low, "low", spread), _per_feature(high, "high", spread), spread)


def notes_on(features: Features, domain: Domain, scale: Scale, where: str, rows: str) -> tuple[str, ...]:
    """Describe for the report how features were processed; arrays have no names.

    Parameters
    ----------
    features, domain, scale
        The encoded features, and the domain that `domain_of` returned for this scale.
    where, rows
        The part of the data, and its rows, over which standard deviations were computed, for the sentences.
    """
    notes = []
    if scale == "std":
        notes.append(
            "Distances are in standard deviations of each feature: a step of length 1 in one feature changes it by one "
            f"standard deviation of {rows}."
        )
    elif features.names:  # not worth a note for arrays such as pixels
        notes.append("Distances are in the features' own units: features with large values dominate the others.")
    if features.categorical:
        notes.append(
            f"Categorical columns one-hot encoded: {', '.join(features.categorical)}. A perturbation may give their "
            "indicators fractional values."
        )
    constant = np.atleast_1d(domain.scale).ravel() == 0
    if constant.any():
        names = ", ".join(np.array(features.names)[constant]) if features.names else f"{constant.sum():,} features"
        notes.append(f"Constant in {where}, hence immutable: {names}.")
    return tuple(notes)


def outside(x: npt.NDArray[Any], domain: Domain) -> Bools:
    """Return which samples are outside the domain; computed in slices, because it needs float64 copies."""
    if not domain.is_bounded:
        return np.zeros(len(x), dtype=np.bool_)
    return np.concatenate([~domain.contains(x[start : start + 4096]) for start in range(0, len(x), 4096)])


def _per_feature(limit: npt.ArrayLike, end: str, spread: Floats) -> Floats:
    given = np.asarray(limit, dtype=np.float64)
    if given.ndim and given.size != spread.size:
        raise InputError(
            f"The {end} end of `bounds` has {given.size:,} numbers but a sample has {spread.size:,} features (after "
            "one-hot encoding). Give a single number, or one per feature."
        )
    return np.broadcast_to(given if given.ndim == 0 else given.reshape(spread.shape), spread.shape)
