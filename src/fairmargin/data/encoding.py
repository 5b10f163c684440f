"""Columns of a table as features: numbers as they are, categories one-hot."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairmargin.core.arrays import Floats
from fairmargin.core.partition import MISSING
from fairmargin.errors import InputError

_MANY_VALUES, _LARGE_SHARE = 100, 0.2  # beyond both, a text column looks like names or keys, not like categories


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """The encoded features of a table, and which columns were one-hot encoded."""

    x: Floats
    names: tuple[str, ...]
    categorical: tuple[str, ...]


def encode_columns(table: pd.DataFrame, columns: Iterable[str]) -> Features:
    """Numbers as they are, booleans as 0 and 1, categories as one indicator a value, named "column=value".

    Indicators are sorted, so that the same table gives the same features everywhere. A missing category is a value of
    its own, "column=missing"; a missing number is refused, for there is no honest guess.

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
            f"Column {name!r} lacks a number in {missing:,} of {len(column):,} rows. Drop these rows, fill them in "
            "(for instance with the median), or leave the column out of `features`."
        )
    if pd.api.types.is_complex_dtype(column):
        raise InputError(f"Column {name!r} holds complex numbers; features are real.")
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
            f"Column {name!r} holds dates or durations. Turn it into a number, such as days since a start, or leave it "
            "out of `features`."
        )
    text = column.astype(object).map(_spelled)
    values, codes = np.unique(text.to_numpy(dtype=str), return_inverse=True)
    if len(values) > _MANY_VALUES and len(values) > _LARGE_SHARE * len(column):
        numbers = pd.to_numeric(text, errors="coerce")
        if numbers.notna().mean() > 0.5:
            row = int(numbers.isna().to_numpy().argmax())
            raise InputError(
                f"Column {name!r} holds {text.iloc[row]!r} in data row {row + 1}, which is no number, while most of "
                "it is numbers. Mend or drop such rows."
            )
        raise InputError(
            f"Column {name!r} has {len(values):,} distinct texts in {len(column):,} rows and looks like a name or a "
            "key, not a category. Leave it out of `features`, group its values, or name it as an attribute."
        )
    return np.eye(len(values))[codes], values.tolist()


def _spelled(value: object) -> str:
    missing = value is None or value is pd.NA or value is pd.NaT or value != value
    return (MISSING if missing else str(value).strip()) or MISSING
