"""Rules of the columns of a table: what the user says, completed by what the data and the model say."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.core.arrays import Floats
from fairmargin.core.column import Column, Kind, TableColumn
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.models.tables.coding import NONE_OF_PARTS, Coding, Layout, as_numbers, check_single, check_types, parsed

_LISTED = 10_000  # maximum number of values of a column that the model ignores
_FOR_NUMBERS = {
    **dict.fromkeys(("unit", "low", "high", "step")),
    "direction": "both",
    "label": "",
    "plausible": "any",
}  # parts of a rule that do not concern categories, and their defaults
_DECIMALS = 6  # a column of numbers with more decimals may change by any amount


def coding_of(
    frame: pd.DataFrame,
    rules: Mapping[str, Column],
    *,
    names: Sequence[str],
    categorical: Collection[str] = (),
    unused: Collection[str] = (),
    fixed: Collection[str] = (),
    further: pd.DataFrame | None = None,
    known: Mapping[str, Sequence[Any]] | None = None,
    closed: Collection[str] = (),
    filled: Collection[str] = (),
    native: Collection[str] = (),
    none: Collection[str] = (),
    named: bool = True,
    trained: bool = True,
    called: str = "X",
) -> Coding:
    """Return the coding of a table whose columns have these rules.

    Parameters
    ----------
    frame
        The training data, or the data at hand, from which units, steps, ranges and categories are taken.
    rules
        What the user says about columns.
    names
        The columns that the model takes, in its order.
    categorical
        Columns that the model reads as categories, whatever their type.
    unused
        Columns that the model takes but does not use; they do not move.
    fixed
        Columns that do not move unless a rule says so: those that define the groups.
    further
        More rows, whose categories are coded too; a row does not switch to a category that occurs only there.
    known
        Categories that the model knows, by column; they are coded, but only those of `frame` can be switched to.
    closed
        Columns in which the model raises for categories that it does not know; no others are coded.
    filled
        Columns in which the model raises for missing values.
    native
        Columns that the model takes in the type category; other types are converted to it.
    none
        Columns whose missing values the model knows as None.
    named
        Whether the model takes a data frame; otherwise it takes an array.
    trained
        Whether `frame` is the training data, for the description of units.
    called
        Name of `frame` in error messages.
    """
    groups = _one_hot_groups(rules, names)
    for name in rules:
        if name not in names and name not in groups:
            raise InputError(
                f"has a rule for {name!r}, but the table has no such column. {suggest(name, names)}", field="columns"
            )
    parts = {part: name for name, several in groups.items() for part in several}
    where = "the training data" if trained else "the data at hand"
    layouts, columns = [], []
    for name in names:
        more = None if further is None else further[name]
        if name not in unused:
            check_single(frame[name], called)
        extra = tuple((known or {}).get(name, ()))
        layout = replace(
            _layout(frame[name], more, extra if name in native else (), name in none),
            unused=name in unused,
            closed=name in closed,
            filled=name in filled,
        )
        layouts.append(layout)
        group = parts.get(name)
        if group is not None:
            if name == groups[group][0]:
                columns.append(_one_hot_column(group, groups[group], frame, rules[group], group in fixed))
            continue
        rule = rules.get(name, Column())
        if name in unused:
            column = _ignored(name, frame[name])
        elif (kind := _kind(name, frame[name], rule, name in categorical, called)) == "number":
            column = _number(name, frame[name], rule, where, called)
        else:
            _check_one_missing(frame[name], called)
            if not frame[name].isin(list(extra)).any():
                check_types(name, frame[name], extra, called)
            only = extra if name in closed else None
            if name not in categorical and pd.api.types.is_numeric_dtype(frame[name]):
                layouts[-1] = replace(layout, counted=True)
            column = _category(name, frame[name], rule, more, extra, only, f"categories of {where}", kind)
        if rule.immutable is None and name in fixed:
            column = replace(column, immutable=True, source=f"{column.source}; defines groups".strip("; "))
        columns.append(column)
    return Coding(tuple(columns), tuple(layouts), named)


def _layout(column: "pd.Series[Any]", further: "pd.Series[Any] | None", native: Sequence[Any], none: bool) -> Layout:
    """Return how a column is written back.

    Parameters
    ----------
    column, further
        The column in the table from which rules are taken, and in further rows.
    native
        The categories of a model that takes the type category.
    none
        Whether the model knows missing values as None.
    """
    name, dtype = str(column.name), column.dtype
    if none:
        return Layout(name, np.dtype(object), None)
    if further is not None and further.dtype != dtype and not isinstance(dtype, pd.CategoricalDtype):
        dtype = pd.concat([column.iloc[:0], further.iloc[:0]]).dtype
    if native and not isinstance(dtype, pd.CategoricalDtype):
        dtype = pd.CategoricalDtype(list(native))
    if not pd.api.types.is_object_dtype(dtype):
        return Layout(name, dtype)
    lacking = [each for part in (column, further) if part is not None for each in part[part.isna()]]
    return Layout(name, dtype, lacking[0] if lacking else np.nan)


def _check_one_missing(column: "pd.Series[Any]", called: str) -> None:
    """Refuse texts in which both None and NaN are missing, which encoders of scikit-learn tell apart."""
    if column.dtype == object:
        kinds = sorted({str(each) for each in column[column.isna()]})
        if len(kinds) > 1:
            raise InputError(
                f"Column {column.name!r} of `{called}` holds both {' and '.join(kinds)} as missing values, which the "
                "model may tell apart. Use one of them."
            )


def _ignored(name: str, column: "pd.Series[Any]") -> TableColumn:
    """Return a column that the model ignores. Its values only tell rows apart, so that very many are not listed."""
    try:
        values = column.dropna().head(1).astype(object).tolist() if column.nunique() > _LISTED else _distinct(column)
    except TypeError:  # lists and others that cannot be compared
        values = []
    return TableColumn(name, "category", categories=tuple(values), immutable=True, source="not used by the model")


def _kind(name: str, column: "pd.Series[Any]", rule: Column, categorical: bool, called: str) -> Kind:
    """Return the kind of a column: what the rule says, else what the model reads it as, else its type."""
    if rule.kind is not None:
        if rule.kind == "number" and categorical:
            raise InputError(
                f"says that {name!r} is a number, but the model reads it as a category. Leave `kind` out.",
                field="columns",
            )
        return rule.kind
    if pd.api.types.is_bool_dtype(column) or _are_booleans(column):
        return "boolean"
    if categorical or isinstance(column.dtype, pd.CategoricalDtype) or rule.cost is not None or rule.ordered:
        return "category"
    if pd.api.types.is_numeric_dtype(column):
        return "number"
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise InputError(
            f"Column {name!r} holds dates or durations, which cannot be moved. Convert it to numbers, such as days "
            "since a start, before the model."
        )
    text = parsed(column, called)
    if text.notna().mean() > 0.5:  # numbers as text, or one text among numbers
        as_numbers(column, called)
        return "number"
    return "category"


def _are_booleans(column: "pd.Series[Any]") -> bool:
    """Return whether a column of objects holds True and False only, beside missing values."""
    if column.dtype != object:
        return False
    present = column.dropna()
    return len(present) > 0 and all(isinstance(value, bool | np.bool_) for value in present)


def _number(name: str, column: "pd.Series[Any]", rule: Column, where: str, called: str) -> TableColumn:
    """Return the rules of a column of numbers."""
    for field in ("cost", "ordered"):
        if getattr(rule, field) is not None:
            raise InputError(
                f"gives `{field}` for {name!r}, which holds numbers; it is for categories.", field="columns"
            )
    numbers = as_numbers(column, called)
    numbers = np.unique(numbers[~np.isnan(numbers)])
    low, high = (float(numbers[0]), float(numbers[-1])) if len(numbers) else (-math.inf, math.inf)
    low, high = rule.low if rule.low is not None else low, rule.high if rule.high is not None else high
    if low > high:
        raise InputError(
            f"leaves no value for {name!r}: its range is {low:g} to {high:g}. The data hold "
            f"{numbers[0]:g} to {numbers[-1]:g}.",
            field="columns",
        )
    spread = float(np.nanstd(as_numbers(column, called))) if len(numbers) > 1 else 0.0
    source = f"unit: standard deviation in {where}" if rule.unit is None else ""
    unit = rule.unit if rule.unit is not None else spread
    if not math.isfinite(unit):
        raise InputError(f"The numbers of column {name!r} are too large for a standard deviation. Give a `unit`.")
    constant = unit <= 0
    step = rule.step if rule.step is not None else resolution(numbers, column.dtype)
    allowed = None
    if rule.values is not None:
        try:
            allowed = np.asarray(rule.values, dtype=np.float64)
        except (TypeError, ValueError):
            allowed = None
        if allowed is None or not np.isfinite(allowed).all():
            raise InputError(f"gives {name!r} the values {rule.values!r}, which must be numbers.", field="columns")
    elif rule.plausible == "observed":
        allowed = numbers
    sizes = np.abs(numbers[numbers != 0])
    gap = float(sizes.min()) if rule.plausible == "zero_or_at_least" and len(sizes) else 0.0
    return TableColumn(
        name,
        "number",
        unit=1.0 if constant else unit,
        low=low,
        high=high,
        step=0.0 if rule.values is not None and rule.step is None else step,
        direction=rule.direction,
        allowed=allowed,
        gap=gap,
        immutable=bool(rule.immutable) or constant,
        label=rule.label,
        single=column.dtype == np.float32,
        source="constant" if constant else source,
    )


def resolution(numbers: Floats, dtype: Any = None) -> float:
    """Return the largest of 1, 0.1, 0.01, … of which all numbers are multiples; 0 if there is none.

    >>> resolution(np.array([17.0, 90.0])), resolution(np.array([1.5, 2.25])), resolution(np.array([2**0.5]))
    (1.0, 0.01, 0.0)
    """
    if not len(numbers):
        return 0.0
    for decimals in range(_DECIMALS + 1):
        rounded = np.round(numbers, decimals)
        if dtype == np.float32:
            rounded = rounded.astype(np.float32).astype(np.float64)
        if (rounded == numbers).all():
            return float(10.0**-decimals)
    return 0.0


def _category(
    name: str,
    column: "pd.Series[Any]",
    rule: Column,
    further: "pd.Series[Any] | None",
    known: Sequence[Any],
    only: Sequence[Any] | None,
    source: str,
    kind: Kind = "category",
) -> TableColumn:
    """Return the rules of a column of categories or booleans; with `only`, no other categories are coded."""
    _check_for_categories(name, rule)
    source = source if rule.values is None else "a rule"
    present = [each for each in _distinct(column) if only is None or each in only]
    ordered = bool(rule.ordered) if rule.ordered is not None else bool(getattr(column.dtype, "ordered", False))
    order: list[Any] = []
    if ordered and rule.values is None and isinstance(column.dtype, pd.CategoricalDtype):
        # Categories between those in the data count as places, also if the data have none of them.
        order = [each for each in column.dtype.categories.tolist() if only is None or each in only]
        present = [each for each in order if each in set(present)]
    elif ordered and rule.values is None:
        raise InputError(
            f"says that {name!r} is ordered: give its categories in their order as `values`.", field="columns"
        )
    if kind == "boolean":
        wrong = [each for each in present if each not in (False, True)]
        if wrong:
            raise InputError(f"says that {name!r} is boolean, but it holds {wrong[0]!r}.", field="columns")
        present = [False, True] if all(isinstance(each, bool) for each in present) else [0, 1]
    targets = present
    if rule.values is not None:
        for each in rule.values:
            if each not in present:
                raise InputError(
                    f"gives {name!r} the category {each!r}, which the data do not have. "
                    f"{suggest(str(each), map(str, present))}",
                    field="columns",
                )
        targets = list(dict.fromkeys(rule.values))
    others = _distinct(further) if further is not None and only is None else []
    categories = list(dict.fromkeys([*order, *targets, *present, *known, *others]))
    place = {value: i for i, value in enumerate(categories)}
    return TableColumn(
        name,
        kind,
        categories=tuple(categories),
        reachable=tuple(place[value] for value in targets),
        cost=1.0 if rule.cost is None else rule.cost,
        ordered=ordered,
        immutable=bool(rule.immutable),
        source=source,
    )


def _check_for_categories(name: str, rule: Column) -> None:
    """Refuse a rule for categories that gives what concerns numbers only."""
    for field, default in _FOR_NUMBERS.items():
        if getattr(rule, field) != default:
            raise InputError(
                f"gives `{field}` for {name!r}, which holds categories; it is for numbers.", field="columns"
            )


def _distinct(column: "pd.Series[Any]") -> list[Any]:
    """Return the distinct values of a column that are not missing, sorted."""
    values = column.dropna().astype(object).unique().tolist()
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda value: (str(type(value)), str(value)))


def _one_hot_groups(rules: Mapping[str, Column], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns "job_cook", "job_nurse" (or "job=cook", …) that a rule for "job" describes together."""
    groups = {}
    for name in rules:
        if name in names:
            continue
        parts = tuple(each for each in names if each.startswith((f"{name}_", f"{name}=")))
        if len(parts) > 1:
            groups[name] = parts
    return groups


def _one_hot_column(name: str, parts: tuple[str, ...], frame: pd.DataFrame, rule: Column, fixed: bool) -> TableColumn:
    """Return the rules of a category that several columns of zeros and ones encode."""
    if rule.kind not in (None, "category"):
        raise InputError(
            f"says that {name!r} is a {rule.kind}, but the columns {', '.join(parts)} encode it.", field="columns"
        )
    _check_for_categories(name, rule)
    empty = bool((np.stack([as_numbers(frame[part]) for part in parts], axis=1).sum(axis=1) == 0).any())
    categories = [part[len(name) + 1 :] for part in parts] + ([NONE_OF_PARTS] if empty else [])
    targets = categories if rule.values is None else list(map(str, rule.values))
    for each in targets:
        if each not in categories:
            raise InputError(
                f"gives {name!r} the category {each!r}, which the data do not have. {suggest(each, categories)}",
                field="columns",
            )
    if rule.ordered and targets != categories[: len(targets)]:
        raise InputError(f"The order of {name!r} must be that of its columns: {', '.join(parts)}.")
    return TableColumn(
        name,
        "category",
        categories=tuple(categories),
        reachable=tuple(categories.index(each) for each in targets),
        cost=1.0 if rule.cost is None else rule.cost,
        ordered=bool(rule.ordered),
        immutable=fixed if rule.immutable is None else rule.immutable,
        parts=parts,
        source=f"encoded by {len(parts)} columns",
    )
