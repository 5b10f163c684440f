"""Numbers at which monotone functions of columns reach a value, found by bisection through the fitted steps."""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.column import TableColumn
from fairmargin.errors import ModelError
from fairmargin.models.tables.coding import Coding
from fairmargin.models.tables.transformers import Compute, Level, Limit
from fairmargin.models.tables.varied import varied_rows
from fairmargin.models.trees.ensemble import first_right

_FAR = float(np.finfo(np.float64).max)
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _Targets:
    """Values that a function of one column of numbers reaches, from its smallest number on or below it.

    Parameters
    ----------
    column
        The column, by its position in the coding.
    function
        The function.
    falls
        Whether it never rises; then a number reaches a target if the function is below it.
    values
        The targets.
    """

    column: int
    function: Level | Limit
    falls: bool
    values: Floats


def breaks_of(coding: Coding, levels: Mapping[Key, tuple[int, Level]]) -> dict[Key, Floats]:
    """Return the smallest number of each level but the first, given the columns of levels."""
    targets = {
        key: _Targets(column, level, _falls(level), np.arange(1, level.count, dtype=np.float64))
        for key, (column, level) in levels.items()
    }
    return {key: np.unique(found) for key, found in _first_reaching(coding, targets).items()}


def narrowed(coding: Coding, limits: Sequence[tuple[int, Limit]]) -> Coding:
    """Return a coding whose numbers move only where some functions are defined, each given with its column."""
    targets, ends = {}, {}
    for key, (column, limit) in enumerate(limits):
        rule = coding.columns[column]
        if rule.is_number and limit.before.features[limit.place].shape != "pieces":
            beyond, falls = float(np.nextafter(limit.high, np.inf)), _falls(limit)
            values = np.array([beyond, limit.low] if falls else [limit.low, beyond])
            targets[key], ends[key] = _Targets(column, limit, falls, values), np.array([rule.low, rule.high])
    # Most ranges are inside, which their ends show; a bisection computes more than a hundred numbers.
    reached = _reached(coding, targets, {key: np.where(np.isfinite(each), each, 0.0) for key, each in ends.items()})
    outside = {key: (each != [True, False]) | np.isinf(ends[key]) for key, each in reached.items()}
    doubtful = {key: each for key, each in targets.items() if (outside[key] & np.isfinite(each.values)).any()}
    columns = list(coding.columns)
    for key, (first, beyond) in _first_reaching(coding, doubtful).items():
        column, limit = limits[key]
        begins, stops = np.isfinite(doubtful[key].values)
        low = float(first) if begins else -np.inf
        high = float(np.nextafter(beyond, -np.inf)) if stops else np.inf
        columns[column] = _within(columns[column], low, high, limit.function)
    return replace(coding, columns=tuple(columns))


def _within(column: TableColumn, low: float, high: float, function: str) -> TableColumn:
    """Return a column of numbers whose range is within limits, the natural domain of a function."""
    low, high = max(column.low, low), min(column.high, high)
    if (low, high) == (column.low, column.high):
        return column
    of = f"the numbers for which `{function}` is defined"
    if low > high:
        raise ModelError(f"The range of {column.name!r} is {column.low:g} to {column.high:g}, outside of {of}.")
    return replace(column, low=low, high=high, source=f"{column.source}; range: {of}".lstrip("; "))


def _falls(function: Level | Limit) -> bool:
    return function.before.features[function.place].shape == "falling"


def _first_reaching(coding: Coding, targets: Mapping[Key, _Targets]) -> dict[Key, Floats]:
    """Return the smallest numbers that reach each target, all of which are searched together."""
    cuts = np.cumsum([len(each.values) for each in targets.values()])[:-1]

    def parted(numbers: Floats) -> dict[Key, Floats]:
        return dict(zip(targets, np.split(numbers, cuts), strict=True))

    def reached(numbers: Floats) -> Bools:
        found = _reached(coding, targets, parted(numbers))
        return np.concatenate([found[key] for key in targets])

    if not targets:
        return {}
    at_zero = reached(np.zeros(sum(len(each.values) for each in targets.values())))
    # The bisection needs a range that does not exceed 2⁶³ doubles.
    return parted(first_right(reached, np.where(at_zero, -_FAR, 0.0), np.where(at_zero, 0.0, _FAR)))


def _reached(coding: Coding, targets: Mapping[Key, _Targets], numbers: Mapping[Key, Floats]) -> dict[Key, Bools]:
    """Return for each number whether it reaches its target."""
    reference = middle(coding)
    found = {}
    for group in _groups(targets):
        function = targets[next(iter(group.values()))].function
        values = {column: numbers[key] for column, key in group.items()}
        computed = {column: np.empty(len(each)) for column, each in values.items()}
        for rows, segments in varied_rows(coding, reference, values, len(function.before.features)):
            table = quietly(function.table, coding.decode(rows))
            for column, where, chosen in segments:
                computed[column][chosen] = _column(table, targets[group[column]].function.place)[where]
        for column, key in group.items():
            each = targets[key]
            below = computed[column] < each.values
            found[key] = below if each.falls else np.asarray(computed[column] >= each.values)
    return found


def _groups(targets: Mapping[Key, _Targets]) -> list[dict[int, Key]]:
    """Return groups of functions of different columns that one table holds: keys of functions by columns."""
    groups: dict[Any, list[dict[int, Key]]] = {}
    for key, each in targets.items():
        function = each.function
        step = function.step if isinstance(function, Level) else None
        same = groups.setdefault((id(step), id(function.before)), [])
        group = next((group for group in same if each.column not in group), None)
        if group is None:
            same.append({each.column: key})
        else:
            group[each.column] = key
    return [group for same in groups.values() for group in same]


def _column(table: Any, place: int) -> Floats:
    """Return one column of any kind of table as numbers."""
    if hasattr(table, "toarray"):
        return np.asarray(table[:, [place]].toarray(), dtype=np.float64)[:, 0]
    column = table.iloc[:, place].to_numpy() if hasattr(table, "iloc") else np.asarray(table)[:, place]
    return np.asarray(column, dtype=np.float64)


def quietly(compute: Compute, table: Any) -> Any:
    """Return the result of fitted steps, which may be infinite where a search tries extreme numbers."""
    from sklearn import config_context

    with config_context(assume_finite=True), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as unknown categories, which are tried on purpose
        return compute(table)


def middle(coding: Coding) -> Floats:
    """Return a coded row of valid values."""
    return np.array([_valid(each) for each in coding.columns], dtype=np.float64)


def _valid(column: TableColumn) -> float:
    if not column.is_number:
        return 0.0
    return column.low if np.isfinite(column.low) else column.high if np.isfinite(column.high) else 0.0
