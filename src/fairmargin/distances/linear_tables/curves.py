"""Values that a number with a contribution that is not affine can take, as lists for the search."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.column import TableColumn
from fairmargin.distances.linear_tables.values import limits_of, rounding_of, stepped
from fairmargin.errors import ModelError
from fairmargin.models.tables.additive import Additive, Curve

_LISTED = 4096  # numbers of values up to which all of them are listed
_CELLS, _PARTS = 128, 16  # cells of a range at first, and parts into which a cell is split
_ANY_GAIN = 1e6  # of cells of which nothing is known, relative to the size of scores
_CLOSE = 1e-15  # relative width of cells that are not split
_LEAST = 1e-13  # cost of values next to the row's own one, which must not be 0


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Some of the values that a column can take.

    Parameters
    ----------
    anchor
        A value from which all values are some steps away, if the column has a step.
    values
        Sorted values that the rules allow, except those of the direction.
    scores
        Their contributions to each class.
    terms
        The same for each feature: values × features × classes; empty if nothing is known between the values.
    between
        For each pair of neighbours whether there are more allowed values between them, at which contributions may
        differ from both.
    """

    anchor: float
    values: Floats
    scores: Floats
    terms: Floats
    between: Bools


Listed = tuple[Floats, list[tuple[Floats, Bools]]]
"""The anchors of some grids, and for each its values, and whether there are more between neighbours."""


def grids_of(model: Additive, places: Iterable[int], rows: Floats) -> dict[int, list[Grid]]:
    """Return a first grid of each of some columns for each row; rows whose values are some steps apart share it."""
    listed, grid_of = {}, {}
    for place in places:
        column, values = model.features.coding.columns[place], rows[:, place]
        anchors = np.zeros(len(values))
        if column.step:
            # The smallest value that is not negative and some steps away. It does not depend on other rows.
            present = np.where(np.isnan(values), 0.0, values)
            anchors = stepped(column, present, -np.floor(present / column.step))
        distinct, grid_of[place] = np.unique(anchors, return_inverse=True)
        listed[place] = distinct, [_first(_curve(model, place), column, anchor) for anchor in distinct]
    return {place: [grids[j] for j in grid_of[place]] for place, grids in _filled(model, listed).items()}


def split(model: Additive, cells: Mapping[int, list[tuple[Grid, Ints]]]) -> dict[int, list[Grid]]:
    """Return the grids of some columns with more values in some of their cells."""
    listed: dict[int, Listed] = {}
    for place, pairs in cells.items():
        column, added = model.features.coding.columns[place], []
        for grid, chosen in pairs:
            more = [np.empty(0)]
            for j in chosen:
                more.append(_inside(column, grid.anchor, grid.values[j], grid.values[j + 1], _PARTS))
            added.append((np.setdiff1d(np.concatenate(more), grid.values), np.empty(0, dtype=np.bool_)))
        listed[place] = np.array([grid.anchor for grid, _ in pairs]), added
    return {
        place: [
            _merged(model.features.coding.columns[place], old, finer)
            for (old, _), finer in zip(cells[place], grids, strict=True)
        ]
        for place, grids in _filled(model, listed).items()
    }


def _merged(column: TableColumn, old: Grid, finer: Grid) -> Grid:
    """Return a grid with the values of two; cells of the old one that are closed stay closed."""
    values = np.concatenate([old.values, finer.values])
    order = np.argsort(values, kind="stable")
    values = values[order]
    cell = np.searchsorted(old.values, values[:-1], side="right") - 1
    between = old.between[cell] & _has_more(column, values)
    scores, terms = np.concatenate([old.scores, finer.scores]), np.concatenate([old.terms, finer.terms])
    return Grid(old.anchor, values, scores[order], terms[order] if len(terms) else terms, between)


def _curve(model: Additive, place: int) -> Curve:
    part = model.parts[place]
    assert isinstance(part, Curve)
    return part


def _first(part: Curve, column: TableColumn, anchor: float) -> tuple[Floats, Bools]:
    """Return the values of the first grid of a column, and whether there are more between neighbours."""
    low, high, gap = limits_of(column)
    if column.allowed is not None:
        kept = column.allowed[(column.allowed >= low) & (column.allowed <= high)]
        kept = kept[(kept == 0) | (np.abs(kept) >= gap)]
        if column.single:
            kept = kept[kept == kept.astype(np.float32)]
        if column.step:
            steps = np.rint((kept - anchor) / column.step)
            kept = kept[np.abs(anchor + steps * column.step - kept) <= rounding_of(column, np.abs(kept) + abs(anchor))]
        return kept, _closed(kept)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ModelError(
            f"Column {column.name!r} enters the model by a function that is not affine, and its range is not limited, "
            "so its values cannot be searched. Give `low` and `high` in its `fm.Column`."
        )
    if column.step and (high - low) / column.step <= _LISTED and not part.constant:
        values = _inside(column, anchor, low, high, _LISTED)
        return values, _closed(values)
    parts = [_around(column, anchor, each) for each in part.breaks if low < each <= high]
    parts += [_around(column, anchor, each) for each in (0.0, -gap, gap) if gap and low <= each <= high]
    parts += [_around(column, anchor, low), _around(column, anchor, high)]
    if not part.constant:
        parts.append(_inside(column, anchor, low, high, _CELLS))
    values = np.unique(np.concatenate(parts))
    return values, _closed(values) if part.constant else _has_more(column, values)


def _closed(values: Floats) -> Bools:
    return np.zeros(max(0, len(values) - 1), dtype=np.bool_)


def bounds_of(grid: Grid, column: TableColumn, value: float, own: int, size: float) -> tuple[Floats, Floats]:
    """Return the values of a grid and the near ends of its cells, and upper bounds of contributions there.

    Contributions are relative to the class of the row. A feature that rises or falls is between its values at both ends
    of a cell.
    """
    begin, end = grid.values[:-1][grid.between], grid.values[1:][grid.between]
    if len(grid.terms):
        terms = grid.terms - grid.terms[:, :, own : own + 1]
        most = np.maximum(terms[:-1][grid.between], terms[1:][grid.between]).sum(axis=1)
    else:
        most = np.full((len(begin), grid.scores.shape[1]), _ANY_GAIN * size)
        most[:, own] = 0.0
    near = np.where(begin > value, begin, np.where(end < value, end, value))
    # The row's own value is in a cell, too: both sides of it cost almost nothing.
    here = near == value
    up, down = here & (end > value), here & (begin < value)
    least = max(_LEAST * column.unit, float(np.spacing(abs(value))))
    above, below = np.minimum(value + least, end[up]), np.maximum(value - least, begin[down])
    values = np.concatenate([grid.values, near[~here], above, below])
    scores = np.concatenate([grid.scores - grid.scores[:, own : own + 1], most[~here], most[up], most[down]])
    order = np.argsort(values, kind="stable")
    return values[order], scores[order]


def cells_at(grid: Grid, value: float, bounded: float, found: float) -> Ints:
    """Return the open cells that decide about the distance of a row with a value of this column.

    These are the cell with the near end `bounded`, if bounds are known, and those on both sides of the value found.
    """
    last = len(grid.between) - 1
    j = int(np.searchsorted(grid.values, found))
    cells = [j - 1, j] if found != value else []
    if len(grid.terms) and bounded != value:
        cells.append(int(np.searchsorted(grid.values, bounded, side="right" if bounded > value else "left")) - 1)
    return np.array(sorted({j for j in cells if 0 <= j <= last and grid.between[j]}), dtype=np.int64)


def _filled(model: Additive, listed: Mapping[int, Listed]) -> dict[int, list[Grid]]:
    """Return grids with contributions, which are computed for all of them at once."""
    values = {place: np.concatenate([np.empty(0), *(own for own, _ in grids)]) for place, (_, grids) in listed.items()}
    known = {place for place in listed if _curve(model, place).monotone}
    terms = model.terms_at({place: values[place] for place in known})
    scores = model.at({place: values[place] for place in values if place not in known})
    scores |= {place: each.sum(axis=1) for place, each in terms.items()}
    nothing = np.empty((0, 0, len(model.start)))
    found = {}
    for place, (anchors, grids) in listed.items():
        usable = np.isfinite(scores[place]).all(axis=1)
        if not usable.all():
            raise ModelError(
                "The model cannot compute with some values in the range of column "
                f"{model.features.coding.columns[place].name!r}, such as {values[place][~usable][0]:g}. Give `low` and "
                "`high` in its `fm.Column`."
            )
        ends = np.cumsum([len(own) for own, _ in grids])[:-1]
        each_scores = np.split(scores[place], ends)
        each_terms = np.split(terms[place], ends) if place in known else [nothing] * len(grids)
        found[place] = [
            Grid(float(anchor), own, score, term, between)
            for anchor, (own, between), score, term in zip(anchors, grids, each_scores, each_terms, strict=True)
        ]
    return found


def _inside(column: TableColumn, anchor: float, begin: float, end: float, count: int) -> Floats:
    """Return up to about so many values between two numbers, both included, that the rules allow."""
    low, high, gap = limits_of(column)
    begin, end = max(begin, low), min(end, high)
    if column.step:
        slack = float(rounding_of(column, np.array(max(abs(begin), abs(end)) + abs(anchor))))
        first, last = np.ceil((begin - anchor - slack) / column.step), np.floor((end - anchor + slack) / column.step)
        if last < first:
            return np.empty(0)
        steps = np.unique(np.rint(np.linspace(first, last, int(min(last - first, count)) + 1)))
        found = stepped(column, np.full(len(steps), anchor), steps)
    else:
        found = np.linspace(begin, end, count + 1)
        found = found.astype(np.float32).astype(np.float64) if column.single else found
    found = np.unique(np.clip(found, low, high) if column.step else found[(found >= low) & (found <= high)])
    return np.asarray(found[(found == 0) | (np.abs(found) >= gap)])


def _around(column: TableColumn, anchor: float, number: float) -> Floats:
    """Return the last allowed value below a number and the first one from it on."""
    low, high, gap = limits_of(column)
    if column.step:
        steps = np.floor((number - anchor) / column.step) + np.arange(-1.0, 3.0)
        found = stepped(column, np.full(len(steps), anchor), steps)
    elif column.single:
        near = np.float32(number)
        found = np.array([np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))])
        found = found.astype(np.float64)
    else:
        found = np.array([np.nextafter(number, -np.inf), number])
    found = found[(found >= low) & (found <= high)]
    found = found[(found == 0) | (np.abs(found) >= gap)]
    return np.concatenate([found[found < number][-1:], found[found >= number][:1]])


def _has_more(column: TableColumn, values: Floats) -> Bools:
    """Return for each pair of neighbours whether there are more allowed values between them."""
    begin, end = values[:-1], values[1:]
    wide = end - begin > _CLOSE * np.maximum(np.abs(begin), np.abs(end))
    if column.step:
        wide = end - begin > 1.5 * column.step
    elif column.single:
        wide = np.nextafter(begin.astype(np.float32), np.float32(np.inf)) < end
    _, _, gap = limits_of(column)
    return np.asarray(wide & ~((begin >= -gap) & (end <= gap))) if gap else np.asarray(wide)
