"""Numbers to which the rules of a column allow a value to change."""

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.column import TableColumn

# By how much a number may miss a multiple of the step, as in `TableColumn.allows`: in steps, relative to the number.
_ROUNDING, _SINGLE_ROUNDING = 1e-9, 2.0**-22
_DECIMALS = 9  # a value with at most so many decimals changes to values with at most so many
_ROUNDS = 4  # corrections after which range, gap and step agree, if they can
_NEXT = 16  # listed numbers that are tried, where other rules refuse the nearest one


def limits(column: TableColumn, before: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and the highest number to which each value may change; the value itself if it is missing.

    >>> limits(TableColumn("age", "number", low=17, high=90, direction="up"), np.array([30.0, 95.0]))
    (array([30., 95.]), array([90., 95.]))
    """
    low, high = column.low, column.high
    if column.allowed is not None:
        low, high = max(low, column.allowed.min()), min(high, column.allowed.max())
    lowest = before if column.direction == "up" else np.minimum(before, low)
    highest = before if column.direction == "down" else np.maximum(before, high)
    still = np.isnan(before) | column.immutable
    return np.where(still, before, lowest), np.where(still, before, highest)


def beyond(column: TableColumn, before: Floats, wanted: Floats) -> Floats:
    """Return the allowed numbers nearest to `wanted` that are at least as far away from `before`; NaN without any.

    >>> age = TableColumn("age", "number", low=17, high=90, step=1)
    >>> beyond(age, np.array([30.5, 30.5, 88.5]), np.array([32.0, 15.0, 90.0])).tolist()
    [32.5, nan, nan]
    """
    return _allowed(column, before, wanted, farther=True)


def within(column: TableColumn, before: Floats, wanted: Floats) -> Floats:
    """Return the allowed numbers nearest to `wanted` that are not farther away from `before`, else `before`.

    >>> age = TableColumn("age", "number", low=17, high=90, step=1)
    >>> within(age, np.array([30.5, 30.5, 88.5]), np.array([32.0, 15.0, 90.0])).tolist()
    [31.5, 17.5, 89.5]
    """
    found = _allowed(column, before, wanted, farther=False)
    return np.where(np.isnan(found), before, found)


def _allowed(column: TableColumn, before: Floats, wanted: Floats, *, farther: bool) -> Floats:
    up, still = wanted > before, ~(wanted != before) | np.isnan(wanted)
    if column.allowed is not None:
        value = _listed(column, before, wanted, up, farther=farther)
    else:
        value = wanted
        for _ in range(_ROUNDS):
            rounded = _outside_gap(column, _in_range(column, value, up, farther=farther), up == farther)
            rounded = _single(column, _on_step(column, before, rounded, up, farther=farther), up == farther)
            if np.array_equal(rounded, value, equal_nan=True):
                break
            value = rounded
    away = np.where(up, value - before, before - value)
    return np.where(still, before, np.where(column.allows(before, value) & (away >= 0), value, np.nan))


def _in_range(column: TableColumn, value: Floats, up: Bools, *, farther: bool) -> Floats:
    """Return the numbers moved to the range of the column, if this is the way in which they are rounded."""
    if farther:
        return np.where(up, np.maximum(value, column.low), np.minimum(value, column.high))
    return np.where(up, np.minimum(value, column.high), np.maximum(value, column.low))


def _outside_gap(column: TableColumn, value: Floats, rises: Bools) -> Floats:
    """Return the numbers; those inside the gap are moved up or down to 0 or to its end."""
    if not column.gap:
        return value
    above, below = (value > 0) & (value < column.gap), (value < 0) & (value > -column.gap)
    value = np.where(above, np.where(rises, column.gap, 0.0), value)
    return np.where(below, np.where(rises, 0.0, -column.gap), value)


def _on_step(column: TableColumn, before: Floats, value: Floats, up: Bools, *, farther: bool) -> Floats:
    """Return the numbers moved to a multiple of the step away from `before`."""
    if not column.step:
        return value
    steps = np.abs(value - before) / column.step
    near = _SINGLE_ROUNDING * np.maximum(1.0, np.abs(value) / column.step) if column.single else _ROUNDING
    whole = np.ceil(steps - near) if farther else np.floor(steps + near)
    moved = np.where(up, before + whole * column.step, before - whole * column.step)
    if column.single:
        return moved.astype(np.float32).astype(np.float64)
    # 0.3 instead of 0.1 + 2 · 0.1
    return np.where(np.round(before, _DECIMALS) == before, np.round(moved, _DECIMALS), moved)


def _single(column: TableColumn, value: Floats, rises: Bools) -> Floats:
    """Return the numbers rounded up or down to single precision, if the column holds any number of that precision."""
    if not column.single or column.step:
        return value
    rounded = value.astype(np.float32)
    toward = np.where(rises, np.inf, -np.inf).astype(np.float32)
    wrong = np.where(rises, rounded < value, rounded > value)
    return np.where(wrong, np.nextafter(rounded, toward), rounded).astype(np.float64)


def _listed(column: TableColumn, before: Floats, wanted: Floats, up: Bools, *, farther: bool) -> Floats:
    """Return the nearest of the listed numbers that all other rules allow too; NaN if there is none among the next."""
    listed = np.asarray(column.allowed)
    rises = up == farther
    first = np.searchsorted(listed, wanted, side="left")
    last = np.searchsorted(listed, wanted, side="right") - 1
    found = np.full(len(before), np.nan)
    for turn in range(min(_NEXT, len(listed))):
        place = np.where(rises, first + turn, last - turn)
        there = (place >= 0) & (place < len(listed)) & np.isnan(found)
        value = listed[np.clip(place, 0, len(listed) - 1)]
        good = there & (value != before) & column.allows(before, value)
        found = np.where(good, value, found)
    return found
