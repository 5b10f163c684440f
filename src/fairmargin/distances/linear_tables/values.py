"""Numbers that keep the rules of their columns exactly."""

from decimal import Decimal

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.column import TableColumn
from fairmargin.core.norm import Norm


def lengths(columns: tuple[TableColumn, ...], norm: Norm, before: Floats, after: Floats) -> Floats:
    """Return the norm of the costs of all columns for each row."""
    costs = np.empty(before.shape)
    for place, column in enumerate(columns):
        costs[:, place] = column.cost_of(before[:, place], after[:, place])
    return norm.length(costs)


def settled(columns: tuple[TableColumn, ...], before: Floats, after: Floats) -> Floats:
    """Return rows whose numbers keep the rules of their columns exactly, from numbers that keep them up to rounding."""
    found = after.copy()
    for place, column in enumerate(columns):
        if not column.is_number or column.immutable:
            continue
        moved = np.flatnonzero(before[:, place] != after[:, place])
        moved = moved[~np.isnan(before[moved, place])]
        if len(moved):
            found[moved, place] = _settled(column, before[moved, place], after[moved, place])
    return found


def _settled(column: TableColumn, before: Floats, after: Floats) -> Floats:
    """Return the values of one column, all of which have changed."""
    low, high, gap = limits_of(column)
    if column.allowed is not None:
        place = np.searchsorted(column.allowed, after).clip(1, max(1, len(column.allowed) - 1))
        below, above = column.allowed[place - 1], column.allowed[np.minimum(place, len(column.allowed) - 1)]
        return np.asarray(np.where(after - below < above - after, below, above))
    found = after
    if column.step:
        found = stepped(column, before, np.rint((after - before) / column.step))
    elif column.single:
        near = found.astype(np.float32)
        # Away from the row, so that the gain is not smaller.
        way = np.where(found > before, np.float32(np.inf), np.float32(-np.inf))
        short = (found - near) * np.sign(found - before) > 0
        found = np.where(short, np.nextafter(near, way), near).astype(np.float64)
    found = np.clip(found, low, high)
    if gap:
        inside = np.abs(found) < gap
        found = np.where(inside, np.where(np.abs(found) < gap / 2, 0.0, np.copysign(gap, found)), found)
    return found + 0.0  # no -0.0


def stepped(column: TableColumn, before: Floats, steps: Floats) -> Floats:
    """Return numbers after some steps, as numbers with few decimals: 0.1 and two steps of 0.1 give 0.3."""
    found = before + steps * column.step
    digits = _digits(column.step)
    if digits is not None:
        rounded, clean = np.round(before, digits), np.round(found, digits)
        if column.single:
            rounded = rounded.astype(np.float32).astype(np.float64)
        found = np.where(rounded == before, clean, found)
    return np.asarray(found.astype(np.float32).astype(np.float64) if column.single else found)


def _digits(step: float) -> int | None:
    """Return the number of decimals of a step; None if it has more than a rounded number keeps.

    >>> _digits(0.25), _digits(10.0), _digits(1 / 3)
    (2, 0, None)
    """
    exponent = Decimal(repr(step)).normalize().as_tuple().exponent
    digits = max(0, -int(exponent))
    return digits if digits <= 12 else None


def neighbours(column: TableColumn, before: float, number: float) -> tuple[float, float]:
    """Return the last value up to a number and the first one from it on to which a value may change, or stay.

    `-inf` or `inf` if there is none.
    """
    tried = np.array([before, number])
    if column.allowed is not None:
        tried = np.append(tried, column.allowed)
    else:
        low, high, gap = limits_of(column)
        near = np.array([number, low, high, *((0.0, gap, -gap) if gap else ())])
        near = near[np.isfinite(near)]
        if column.step:
            steps = np.floor((near - before) / column.step)[:, None] + np.arange(-1.0, 3.0)
            near = stepped(column, np.full(steps.size, before), steps.ravel())
        elif column.single:
            single = near.astype(np.float32)
            sides = [np.nextafter(single, np.float32(way)) for way in (-np.inf, np.inf)]
            near = np.concatenate([single, *sides]).astype(np.float64)
        tried = np.append(tried, near)
    tried = tried[column.allows(np.full(len(tried), before), tried)]
    return float(tried[tried <= number].max(initial=-np.inf)), float(tried[tried >= number].min(initial=np.inf))


def rounding_of(column: TableColumn, sizes: Floats) -> Floats:
    """Return by how much sums and differences of numbers of some sizes may miss a multiple of the step."""
    return np.asarray(1e-9 * column.step + (2.0**-22 if column.single else 2.0**-50) * sizes)


def limits_of(column: TableColumn) -> tuple[float, float, float]:
    """Return low, high and gap of a column of numbers, for single precision the nearest such numbers inside."""
    if not column.single:
        return column.low, column.high, column.gap
    return _upwards(column.low), -_upwards(-column.high), _upwards(column.gap)


def _upwards(number: float) -> float:
    """Return the smallest number in single precision that is not below a number."""
    near = np.float32(number)
    return float(near if near >= number else np.nextafter(near, np.float32(np.inf)))
