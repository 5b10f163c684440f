"""Coding of raw table rows as numbers: numbers as they are, categories by their places, missing values as NaN."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.column import TableColumn
from fairmargin.errors import InputError
from fairmargin.models.tables.frames import as_frame, columns_named

NONE_OF_PARTS = "none of these"
_SMALL = 2  # bytes of integers that single precision holds exactly
_EXACT = 2**53  # doubles hold all whole numbers up to this one


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """How one column of the user's table is written back from numbers.

    Parameters
    ----------
    name
        Name of the column in the user's table.
    dtype
        Type of the column in a data frame of pandas.
    missing
        The value that stands for a missing one.
    unused
        Whether the model ignores the column; then any of its values may be written back.
    closed
        Whether the model raises for a category that it does not know.
    filled
        Whether the model raises for a missing value.
    counted
        Whether the model reads the values of a category as numbers, so that every other value is an input of its own.
    """

    name: str
    dtype: Any
    missing: Any = np.nan
    unused: bool = False
    closed: bool = False
    filled: bool = False
    counted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Coding:
    """The columns of a table, and how its rows are coded as numbers and written back.

    A coded row holds one number per column: numbers as they are, categories by their places in `categories`, missing
    values as NaN. A category that is not among `categories` has the place after the last one; the original value is not
    kept.

    Parameters
    ----------
    columns
        The columns with their rules, in the order of coded rows.
    layouts
        The columns of the user's table, in the order that the model takes. There are more of them than of `columns` if
        several of them encode one category.
    named
        Whether the model takes a data frame; otherwise it takes an array.
    """

    columns: tuple[TableColumn, ...]
    layouts: tuple[Layout, ...]
    named: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the user's table."""
        return tuple(each.name for each in self.layouts)

    def encode(self, x: Any, argument: str = "X") -> Floats:
        """Return the coded rows of a table; columns are matched by name, and others are ignored."""
        frame = columns_named(as_frame(x, argument, self.names), self.names, argument)
        layouts = {each.name: each for each in self.layouts}
        rows = np.empty((len(frame), len(self.columns)))
        for place, column in enumerate(self.columns):
            if column.parts:
                rows[:, place] = _joined(frame, column, argument)
                continue
            layout = layouts[column.name]
            given = frame[column.name]
            if layout.unused and not column.categories:
                rows[:, place] = np.nan
                continue
            check_single(given, argument)
            if column.is_number:
                rows[:, place] = as_numbers(given, argument)
            else:
                rows[:, place] = _places(given, column)
                if not (rows[:, place] < len(column.categories)).any():
                    check_types(column.name, given, column.categories, argument)
            _check_accepted(given, column, layout, rows[:, place], argument)
        return rows

    def decode(self, rows: Floats) -> Any:
        """Return coded rows as the table that the model takes: a data frame, or an array."""
        coded = {column.name: (column, rows[:, place]) for place, column in enumerate(self.columns) if not column.parts}
        parts = {
            part: (rows[:, place], value)
            for place, column in enumerate(self.columns)
            for value, part in enumerate(column.parts)
        }
        found: dict[str, Any] = {}
        for layout in self.layouts:
            if layout.name in parts:
                codes, value = parts[layout.name]
                found[layout.name] = pd.Series((codes == value).astype(np.int64)).astype(layout.dtype)
            else:
                found[layout.name] = _written(*coded[layout.name], layout)
        frame = pd.DataFrame(found)
        if self.named:
            return frame
        if all(map(pd.api.types.is_numeric_dtype, frame.dtypes)):  # booleans are numeric too
            return frame.to_numpy(np.float64)
        return frame.to_numpy(object)

    def alike(self, rows: Floats) -> tuple[Ints, ...]:
        """Return the positions of the rows that keep the types of all columns, and of the others.

        Fractions and missing values turn a column of small integers to double precision, and with it the computations
        of other columns in single precision. So that the result of a row does not depend on the other rows, such rows
        must not share a table.
        """
        every, turned = np.arange(len(rows)), np.zeros(len(rows), dtype=np.bool_)
        for each in self.turned(dict(enumerate(rows.T))).values():
            turned |= each
        return tuple(part for part in (every[~turned], every[turned]) if len(part)) or (every,)

    def turned(self, values: Mapping[int, Floats]) -> dict[int, Bools]:
        """Return which coded values of columns change the types of a table, see `alike`.

        Columns in which no value does are left out.
        """
        types = {each.name: each.dtype for each in self.layouts}
        if not any(kind in (np.float32, np.float16) for kind in types.values()):
            return {}
        found = {}
        for place, codes in values.items():
            column = self.columns[place]
            kind = types.get(column.name)
            # Larger integers are computed in double precision anyway.
            if isinstance(kind, np.dtype) and kind.kind in "iub" and kind.itemsize <= _SMALL:
                found[place] = ~_fits(codes, kind) if column.is_number else np.isnan(codes)
        return found

    def with_changes(self, x: Any, before: Floats, after: Floats) -> pd.DataFrame:
        """Return the rows of a table with the values that differ between two sets of coded rows.

        A row whose new codes are all missing is returned unchanged.
        """
        frame = as_frame(x, "X", self.names)
        lost = np.isnan(after).all(axis=1, keepdims=True) & ~np.isnan(before).all(axis=1, keepdims=True)
        rows = np.where(lost, before, after)
        written = self.decode(rows)
        if not self.named:
            written = pd.DataFrame(written, columns=list(self.names))
        found = frame.copy()
        for place, column in enumerate(self.columns):
            changed = (rows[:, place] != before[:, place]) & ~np.isnan(rows[:, place])
            if not changed.any():
                continue
            for name in column.parts or (column.name,):
                values = frame[name].astype(object).to_numpy(copy=True)
                values[changed] = written[name].astype(object).to_numpy()[changed]
                kind = frame[name].dtype
                found[name] = pd.Series(values, index=frame.index, dtype=object).astype(_wide_enough(kind, values))
        return found

    def fingerprint(self) -> str:
        """Return a text that tells codings of different tables apart."""
        return repr([(each.name, str(each.dtype), each.unused) for each in self.layouts]) + repr(self.named)


def _wide_enough(kind: Any, values: Any) -> Any:
    """Return the type of a column, or a wider one: integers that take fractions, categories that it does not list."""
    held = [each for each in values if not pd.isna(each)]
    if pd.api.types.is_integer_dtype(kind) and any(each != round(each) for each in held):
        return np.float64
    if isinstance(kind, pd.CategoricalDtype):
        return pd.CategoricalDtype(list(dict.fromkeys([*kind.categories, *held])), ordered=kind.ordered)
    return kind


def as_numbers(column: "pd.Series[Any]", argument: str = "X") -> Floats:
    """Return a column as numbers; missing values are NaN."""
    if pd.api.types.is_complex_dtype(column):
        raise InputError(f"Column {column.name!r} of `{argument}` holds complex numbers. Give their parts as columns.")
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        numbers = parsed(column, argument).to_numpy(dtype=np.float64, na_value=np.nan)
        wrong = np.isnan(numbers) & column.notna().to_numpy()
        if wrong.any():
            first = int(wrong.argmax())
            raise InputError(
                f"Column {column.name!r} of `{argument}` must hold numbers; row {first:,} holds "
                f"{column.iloc[first]!r}. Correct or drop such rows."
            )
    if np.isinf(numbers).any():
        first = int(np.isinf(numbers).argmax())
        raise InputError(f"Column {column.name!r} of `{argument}` holds infinity in row {first:,}. Drop such rows.")
    return numbers


def parsed(column: "pd.Series[Any]", argument: str) -> "pd.Series[Any]":
    """Return texts and other objects as numbers; what is no number is missing."""
    try:
        return pd.to_numeric(column.astype(object), errors="coerce")
    except OverflowError:
        raise InputError(
            f"Column {column.name!r} of `{argument}` holds integers that are too large for any type of numbers. "
            "Divide them, or correct or drop such rows."
        ) from None


def check_single(column: "pd.Series[Any]", argument: str) -> None:
    """Refuse a column in which a row holds several values: a list, a dict or an array."""
    if column.dtype != object or not pd.api.types.infer_dtype(column, skipna=True).startswith("mixed"):
        return
    for row, value in enumerate(column):
        if isinstance(value, list | dict | set | np.ndarray):
            raise InputError(
                f"Column {column.name!r} of `{argument}` must hold one value per row; row {row:,} holds {value!r}. "
                "Give each value a column of its own, or leave the column out."
            )


def _places(column: "pd.Series[Any]", rule: TableColumn) -> Floats:
    """Return the place of each value among the categories; unknown values have the place after the last one."""
    codes, present = pd.factorize(column)
    places = pd.Index(list(rule.categories), dtype=object).get_indexer(pd.Index(present, dtype=object))
    found = np.append(np.where(places < 0, len(rule.categories), places).astype(np.float64), np.nan)
    return found[codes]  # the code of a missing value is -1


def check_types(name: str, column: "pd.Series[Any]", categories: Sequence[Any], argument: str) -> None:
    """Refuse a column in which all values are of another type than the categories that are known."""
    present = column.dropna()
    known, given = (sorted({_type_of(each) for each in values}) for values in (categories, present.unique()))
    numeric = {"numbers", "booleans"}  # True equals 1
    alike = set(known) & set(given) or (numeric & set(known) and numeric & set(given))
    if known and given and not alike:
        raise InputError(
            f"Column {name!r} of `{argument}` holds {' and '.join(given)} such as {_plain(present.iloc[0])!r}, but "
            f"its categories are {' and '.join(known)} such as {_plain(categories[0])!r}. Give the raw rows of the "
            "table, not encoded ones, with the types of the training data."
        )


def _type_of(value: Any) -> str:
    kinds = {"texts": str, "booleans": bool | np.bool_, "numbers": int | float | np.number}
    return next((name for name, kind in kinds.items() if isinstance(value, kind)), f"values of {type(value).__name__}")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _check_accepted(column: "pd.Series[Any]", rule: TableColumn, layout: Layout, codes: Floats, argument: str) -> None:
    """Refuse values for which the model raises, and those that their code does not tell apart."""
    unknown = (codes >= len(rule.categories)) & ((layout.closed or layout.counted) and not rule.is_number)
    missing = np.isnan(codes) & layout.filled
    if layout.counted and unknown.any():
        row = int(unknown.argmax())
        raise InputError(
            f"Column {rule.name!r} of `{argument}` holds {column.astype(object).iloc[row]!r} in row {row:,}, which is "
            "none of its categories in the training data, and the model reads its numbers. Drop such rows, or do not "
            f"call it a {rule.kind}."
        )
    if not (unknown | missing).any():
        return
    row = int((unknown | missing).argmax())
    what = "is missing" if missing[row] else f"holds {column.astype(object).iloc[row]!r}"
    raise InputError(
        f"Column {rule.name!r} of `{argument}` {what} in row {row:,}. The model was not trained on such rows and "
        "refuses them. Drop them, or refit the model (encoders of scikit-learn: with handle_unknown='ignore')."
    )


def _joined(frame: pd.DataFrame, rule: TableColumn, argument: str) -> Floats:
    """Return the category that several columns of zeros and ones encode."""
    parts = np.stack([as_numbers(frame[part], argument) for part in rule.parts], axis=1)
    rest = len(rule.categories) > len(rule.parts)  # a row of zeros is a category too
    counts = parts.sum(axis=1)
    wrong = ~np.isin(parts, (0.0, 1.0)).all(axis=1) | (counts > 1) | ((counts == 0) & (not rest))
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(
            f"The columns {', '.join(rule.parts[:10])} encode {rule.name!r} and must hold a single 1 per row; row "
            f"{first:,} of `{argument}` holds {parts[first].tolist()}."
        )
    return np.where(counts == 0, float(len(rule.parts)), parts.argmax(axis=1).astype(np.float64))


def _written(rule: TableColumn, codes: Floats, layout: Layout) -> "pd.Series[Any]":
    """Return the values of a column in the type of the user's table."""
    missing = np.isnan(codes)
    kind = layout.dtype
    if layout.unused:
        one: pd.Series[Any] = pd.Series([rule.categories[0] if rule.categories else layout.missing], dtype=kind)
        return one.repeat(len(codes)).reset_index(drop=True)
    if rule.is_number:
        if pd.api.types.is_integer_dtype(kind) and _fits(codes[~missing], kind).all():
            if not missing.any():
                return pd.Series(codes.astype(np.int64)).astype(kind)
            if isinstance(kind, pd.api.extensions.ExtensionDtype):
                whole: pd.Series[Any] = pd.Series(np.where(missing, 0, codes).astype(np.int64)).astype(kind)
                return whole.mask(missing)
        return pd.Series(codes).astype(kind if pd.api.types.is_float_dtype(kind) else np.float64)
    if pd.api.types.is_bool_dtype(kind):  # which has no unknown values
        codes = np.fmin(codes, len(rule.categories) - 1)
    used, places = np.unique(np.where(missing, -1.0, codes), return_inverse=True)
    unknown = unknown_value(rule.categories)
    values = [layout.missing if code < 0 else (*rule.categories, unknown)[int(code)] for code in used]
    if len(used) and used[0] < 0 and isinstance(kind, np.dtype) and kind.kind in "iub":  # without missing values
        kind = np.dtype(np.float64)
    if isinstance(kind, pd.CategoricalDtype):  # which drops values that it does not know
        further = [
            value for code, value in zip(used, values, strict=True) if code >= 0 and value not in kind.categories
        ]
        kind = pd.CategoricalDtype([*kind.categories, *further], ordered=kind.ordered) if further else kind
    # Each value is converted once, because there are much fewer of them than rows.
    return pd.Series(values, dtype=object).astype(kind).take(places).reset_index(drop=True)


def _fits(numbers: Floats, kind: Any) -> Bools:
    """Return which numbers a type of integers holds exactly."""
    limits = np.iinfo(getattr(kind, "numpy_dtype", kind))
    low, high = max(int(limits.min), -_EXACT), min(int(limits.max), _EXACT)
    return np.asarray((numbers == np.rint(numbers)) & (numbers >= low) & (numbers <= high))


def unknown_value(categories: Sequence[Any]) -> Any:
    """Return a value that is not among the categories and has their type.

    >>> unknown_value(["a", "b"]), unknown_value([1, 2])
    ('unknown value', 3)
    """
    if categories and all(isinstance(each, int | float | np.number) for each in categories):
        return max(categories) + 1
    if categories and all(isinstance(each, pd.Timestamp) for each in categories):
        return max(categories) + pd.Timedelta(days=1)
    name = "unknown value"
    while name in categories:
        name += "_"
    return name
