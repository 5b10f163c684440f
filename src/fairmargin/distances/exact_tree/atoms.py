"""The atoms of a row: in each cell of each column, the admissible value that costs least."""

from typing import Any, NamedTuple

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.distances.exact_tree.cells import Grid
from fairmargin.distances.exact_tree.compiled import L2, Records, compiled

_WHOLE = 2.0**53  # up to this size, all whole numbers are doubles
_DECIMALS = 15
_ON_GRID, _ROUNDING, _ROUNDING_SINGLE = 1e-9, 2.0**-50, 2.0**-22  # as in `TableColumn.allows`

ATOM = np.dtype(
    [("cost", np.float64), ("value", np.float64), *((name, np.int32) for name in ("cell", "below", "order"))],
    align=True,
)
"""An atom: its cost, squared in L2, `inf` if it is not admissible; its value; and its cell. The last two fields are of
something else at the same place: the number of atoms in the cells before a cell, and the atoms in the order of their
costs, the own one first, of a column whose boxes are sets."""

PLACE = np.dtype(
    [*((name, np.int32) for name in ("offset", "word", "words", "own", "count")), ("missing", np.bool_)], align=True
)
"""A column of a row: as in `COLUMN`; the atom of the own value; the number of atoms; whether the value is missing."""


class Atoms(NamedTuple):
    """The atoms of a row, in an array over the cells of all columns.

    If boxes are intervals of a column's cells, its atoms are numbered by size, and cells without an admissible value
    have none. Otherwise the number of an atom is that of its cell.

    Parameters
    ----------
    places
        The columns, records of the type `PLACE`.
    atoms
        The atoms, records of the type `ATOM`.
    """

    places: Records
    atoms: Records


@compiled
def find_atoms(row: Floats, grid: Grid, norm: int, found: Atoms, costs: Floats) -> int:
    """Write the atoms of a row to `found`, and the costs of all but the own ones to `costs`; return their number."""
    count = 0
    places, atoms = found.places, found.atoms
    for f in range(len(row)):
        column, place, own = grid.columns[f], places[f], row[f]
        at, size = column["offset"], column["size"]
        place["offset"], place["word"], place["words"] = at, column["word"], column["words"]
        place["own"], place["count"], place["missing"] = 0, 0, np.isnan(own)
        if place["missing"]:
            continue
        if not column["is_number"]:
            home = min(max(int(own), 0), size - 1)
            for c in range(size):
                atoms[at + c]["cost"] = grid.costs[column["switch"] + home * size + c]
                atoms[at + c]["value"], atoms[at + c]["cell"] = c, c
            place["own"], place["count"] = home, size
        else:
            home = _cell(grid.begins, at, size, own)
            _find_numbers(own, home, grid, f, found)
        if column["words"]:
            _sort(atoms, at, place["count"], place["own"])
        if norm == L2:
            for k in range(at, at + place["count"]):
                atoms[k]["cost"] *= atoms[k]["cost"]
        for k in range(place["count"]):
            if k != place["own"] and atoms[at + k]["cost"] < np.inf:
                costs[count] = atoms[at + k]["cost"]
                count += 1
    return count


@compiled
def _cell(begins: Floats, at: int, size: int, value: float) -> int:
    """Return the cell of a value."""
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if begins[at + middle] <= value:
            low = middle
        else:
            high = middle
    return low


@compiled
def _sort(atoms: Records, at: int, count: int, own: int) -> None:
    """Sort atoms by cost, the own one first."""
    atoms[at]["order"] = own
    filled = 1
    for k in range(count):
        if k == own:
            continue
        place = filled
        while place > 1 and atoms[at + atoms[at + place - 1]["order"]]["cost"] > atoms[at + k]["cost"]:
            atoms[at + place]["order"] = atoms[at + place - 1]["order"]
            place -= 1
        atoms[at + place]["order"] = k
        filled += 1


@compiled
def _find_numbers(own: float, home: int, grid: Grid, f: int, found: Atoms) -> None:
    """Write the atoms of a column of numbers."""
    column, place, atoms = grid.columns[f], found.places[f], found.atoms
    at, size, by_sets = column["offset"], column["size"], column["words"] > 0
    scale, start, stride = _decimals(own, column["step"], column["single"])
    count = 0
    for c in range(size):
        near = own
        if c != home:
            near = np.nan
            first = max(grid.begins[at + c], column["low"])
            last = min(np.nextafter(grid.begins[at + c + 1], -np.inf), column["high"])
            if first <= last and c > home and column["up"]:
                near = _first_admissible(column, grid.allowed, own, first, last, 1.0, scale, start, stride)
            elif first <= last and c < home and column["down"]:
                # Below the own value, the same is asked of the opposite numbers; 0 is not -0.
                below = _first_admissible(column, grid.allowed, -own, -last, -first, -1.0, scale, -start, stride)
                near = 0.0 - below
        atoms[at + c]["below"] = count
        cost = abs(near - own) / column["unit"]
        if by_sets:
            atoms[at + c]["cost"] = np.inf if np.isnan(near) else cost
            atoms[at + c]["value"], atoms[at + c]["cell"] = near, c
            count += 1
        elif not np.isnan(near):
            atoms[at + count]["cost"], atoms[at + count]["value"], atoms[at + count]["cell"] = cost, near, c
            if c == home:
                place["own"] = count
            count += 1
    atoms[at + size]["below"] = count
    place["count"] = count
    if by_sets:
        place["own"] = home


@compiled
def _first_admissible(
    column: Any,
    listed: Floats,
    own: float,
    low: float,
    high: float,
    sign: float,
    scale: float,
    start: float,
    stride: float,
) -> float:
    """Return the smallest number between `low` and `high`, above the own one, that the rules allow; NaN if none is.

    All numbers are multiplied by `sign`.
    """
    step, gap, single = column["step"], column["gap"], column["single"]
    first, last = column["listed"], column["last_listed"]
    if last > first:
        k = first + _count_below(listed, first, last, low) if sign > 0 else last - 1
        if sign < 0:
            k = first + _count_below(listed, first, last, np.nextafter(-low, np.inf)) - 1
        while first <= k < last:
            value = sign * listed[k]
            if value > high:
                return np.nan
            whole = not single or np.float64(np.float32(value)) == value
            if whole and (value == 0 or abs(value) >= gap) and _on_grid(own, value, step, single):
                return float(value)
            k += 1 if sign > 0 else -1
        return np.nan
    value = low
    while True:
        if 0 < abs(value) < gap:
            value = 0.0 if value < 0 else gap
        if step > 0:
            value = _first_on_grid(own, step, value, single, scale, start, stride)
        elif single:
            value = _first_single(value)
        if not value <= high:
            return np.nan
        if value == 0 or abs(value) >= gap:
            return float(value)


@compiled
def _count_below(listed: Floats, first: int, last: int, limit: float) -> int:
    """Return how many of some sorted numbers are smaller than a limit."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if listed[middle] < limit:
            low = middle + 1
        else:
            high = middle
    return low - first


@compiled
def _on_grid(own: float, value: float, step: float, single: bool) -> bool:
    """Return whether the difference of two numbers is a multiple of the step, as `TableColumn.allows` does."""
    if step == 0:
        return True
    steps = (value - own) / step
    size = max(abs(own), abs(value)) / step
    slack = _ON_GRID + (_ROUNDING_SINGLE if single else _ROUNDING) * size
    return bool(abs(steps - np.rint(steps)) <= slack and np.rint(steps) != 0)


@compiled
def _first_single(value: float) -> float:
    """Return the smallest number in single precision that is not below a number."""
    near = np.float32(value)
    if np.float64(near) < value:
        near = np.nextafter(near, np.float32(np.inf))
    return np.float64(near)


@compiled
def _decimals(own: float, step: float, single: bool) -> tuple[float, float, float]:
    """Return a power of 10, and the number and the step multiplied by it, if they then are whole numbers; else 1."""
    power = 1.0
    for _ in range(_DECIMALS + 1 if step > 0 else 0):
        start, stride = np.rint(own * power), np.rint(step * power)
        if abs(start) >= _WHOLE or stride >= _WHOLE:
            break
        same = np.float64(np.float32(start / power)) == own if single else start / power == own
        if same and stride / power == step:
            return power, start, stride
        power *= 10
    return 1.0, own, step


@compiled
def _first_on_grid(
    own: float, step: float, low: float, single: bool, scale: float, start: float, stride: float
) -> float:
    """Return the smallest number own + k · step that is not below `low`, for k ≥ 1; NaN beyond the precision.

    The number is (start + k · stride) / scale. So 0.3 + 3 · 0.1 is 0.6 and not 0.6000000000000001.
    """
    k = max(1.0, np.ceil((low - own) / step))
    for _ in range(4):
        if k > 1 and _at(start, stride, scale, k - 1, single) >= low:
            k -= 1
    for _ in range(8):
        value = _at(start, stride, scale, k, single)
        if value >= low:
            return value
        k += 1
    return np.nan


@compiled
def _at(start: float, stride: float, scale: float, k: float, single: bool) -> float:
    value = (start + k * stride) / scale
    return np.float64(np.float32(value)) if single else value
