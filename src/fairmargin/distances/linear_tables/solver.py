"""The search of some rows: their arrays for the compiled search, and finer grids where these decide."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.column import TableColumn
from fairmargin.core.norm import Norm
from fairmargin.distances.linear_tables.curves import Grid, bounds_of, cells_at, grids_of, split
from fairmargin.distances.linear_tables.values import limits_of
from fairmargin.models.tables.additive import ROUNDING, Additive, Curve, Line, Places

NODES = 100_000
"""Maximum number of nodes of the search that are examined per row."""
_AT_ONCE = 1024  # rows with grids of their own, which take memory
_EXACT, _TINY = 1e-9, 1e-12  # relative and absolute difference between bounds that counts as rounding
_ROUNDS, _ROUNDS_BLIND = 24, 8  # in which cells are split, if there are bounds of contributions in them or not


def is_exact(lower: Floats, upper: Floats) -> Bools:
    """Return whether bounds differ by rounding only."""
    return np.asarray(lower >= upper * (1 - _EXACT) - _TINY)


@dataclass(slots=True)
class Search:
    """The search of some rows.

    Parameters
    ----------
    model, norm
        The scores, and the norm of costs.
    rows, own
        Coded rows, and the class that each must leave.
    terms
        Contributions of each column to each class.
    grids
        For columns of numbers with a contribution that is not affine: the values that are searched, of each row.
    """

    model: Additive
    norm: Norm
    rows: Floats
    own: Ints
    terms: Floats
    grids: dict[int, list[Grid]]
    rules: Any = field(repr=False)

    @classmethod
    def of(cls, model: Additive, rows: Floats, own: Ints, norm: Norm) -> "Search":
        """Return the search of rows."""
        columns = model.features.coding.columns
        curved = [
            place
            for place, (column, part) in enumerate(zip(columns, model.parts, strict=True))
            if isinstance(part, Curve) and not column.immutable and len(rows)
        ]
        grids = grids_of(model, curved, rows)
        return cls(model, norm, rows, own, model.contributions(rows), grids, _rules(model))

    def take(self, which: Bools | Ints) -> "Search":
        """Return the search of some of the rows."""
        places = np.arange(len(self.rows))[which]
        grids = {column: [each[i] for i in places] for column, each in self.grids.items()}
        return replace(self, rows=self.rows[which], own=self.own[which], terms=self.terms[which], grids=grids)

    def nearest(self, lead: float) -> tuple[Floats, Floats, Floats]:
        """Return the rows found, lower bounds, and costs, if a rival must lead by a multiple of rounding errors."""
        if self.grids and len(self.rows) > _AT_ONCE:
            parts = [
                self.take(np.arange(start, min(start + _AT_ONCE, len(self.rows)))).nearest(lead)
                for start in range(0, len(self.rows), _AT_ONCE)
            ]
            found, least, cost = (np.concatenate(each) for each in zip(*parts, strict=True))
            return found, least, cost
        found, least, cost = self._solved(lead)
        if not any(grid.between.any() for grids in self.grids.values() for grid in grids):
            return found, least, cost
        # There are better values between those of a grid. Bounds of contributions there give lower bounds of distances,
        # and where a bound is reached, the grid becomes finer.
        least, active = np.zeros(len(found)), np.arange(len(found))
        known = all(len(grid.terms) for grids in self.grids.values() for grid in grids if grid.between.any())
        for _ in range(_ROUNDS if known else _ROUNDS_BLIND):
            bounded, bounds, _ = self.take(active)._solved(lead, cells=True)
            least[active] = np.maximum(least[active], np.minimum(bounds, cost[active]))
            doubtful = ~is_exact(least[active], cost[active])
            active, bounded = active[doubtful], bounded[doubtful]
            if not len(active) or not self._split(active, bounded, found[active]):
                break
            again, _, costs = self.take(active)._solved(lead)
            better = costs < cost[active]
            found[active[better]], cost[active[better]] = again[better], costs[better]
        return found, least, cost

    def _split(self, which: Ints, bounded: Floats, found: Floats) -> bool:
        """Split the cells at the values of two solutions; return whether there are any."""
        cells: dict[int, list[tuple[Grid, Ints]]] = {}
        chosen: dict[int, list[int]] = {}
        for place, grids in self.grids.items():
            for i, value, near, far in zip(
                which, self.rows[which, place], bounded[:, place], found[:, place], strict=True
            ):
                some = cells_at(grids[i], value, near, far)
                if len(some):
                    cells.setdefault(place, []).append((grids[i], some))
                    chosen.setdefault(place, []).append(i)
        for place, finer in split(self.model, cells).items():
            for i, grid in zip(chosen[place], finer, strict=True):
                self.grids[place][i] = grid
        return bool(cells)

    def _solved(self, lead: float, *, cells: bool = False) -> tuple[Floats, Floats, Floats]:
        """Return the result of the search at the values of grids; with `cells`, with bounds between them."""
        search = _compiled()
        values, scores, first, last = self._lists(cells)
        size = self.model.sizes(self.terms)
        samples = search.Samples(
            rows=np.ascontiguousarray(self.rows),
            own=np.asarray(self.own, dtype=np.int64),
            terms=self.terms,
            scores=self.terms.sum(axis=1) + self.model.start,
            first=first,
            last=last,
            value=values,
            score=scores,
            lead=ROUNDING * lead * size,
            goal=ROUNDING * max(2 * lead, 1.0) * size,
            slack=ROUNDING / 4 * size,
        )
        number = {Norm.LINF: search.LINF, Norm.L1: search.L1, Norm.L2: search.L2}[self.norm]
        found: tuple[Floats, Floats, Floats] = search.nearest_rows(self.rules, samples, number, NODES)
        return found

    def _lists(self, cells: bool) -> tuple[Floats, Floats, Ints, Ints]:
        """Return the values of columns of lists, their contributions, and the part of each row and column."""
        model, columns = self.model, self.model.features.coding.columns
        values, scores = [np.empty(0)], [np.empty((0, len(model.start)))]
        first, last = np.zeros(self.rows.shape, dtype=np.int64), np.zeros(self.rows.shape, dtype=np.int64)
        count = 0

        def add(value: Floats, score: Floats) -> tuple[int, int]:
            nonlocal count
            values.append(value)
            scores.append(score)
            count += len(value)
            return count - len(value), count

        for place, (column, part) in enumerate(zip(columns, model.parts, strict=True)):
            if isinstance(part, Places) and not column.immutable:
                reachable = np.array(sorted(column.reachable), dtype=np.int64)
                reachable = reachable[np.isfinite(part.scores[reachable]).all(axis=1)]
                first[:, place], last[:, place] = add(reachable.astype(np.float64), part.scores[reachable])
        sizes = model.sizes(self.terms) if cells else np.empty(0)
        for place, grids in self.grids.items():
            known: dict[int, tuple[int, int]] = {}
            for i, grid in enumerate(grids):
                if cells and grid.between.any() and not np.isnan(self.rows[i, place]):
                    value, own = float(self.rows[i, place]), int(self.own[i])
                    part_of = add(*bounds_of(grid, columns[place], value, own, float(sizes[i])))
                else:
                    if id(grid) not in known:
                        known[id(grid)] = add(grid.values, grid.scores)
                    part_of = known[id(grid)]
                first[i, place], last[i, place] = part_of
        return np.concatenate(values), np.ascontiguousarray(np.concatenate(scores)), first, last


# --- the arrays of the search ---


def _compiled() -> Any:
    """Return the compiled search. It is imported when it is used, because loading numba takes a second."""
    from fairmargin.distances.linear_tables import search

    return search


def _rules(model: Additive) -> Any:
    """Return the rules of all columns as arrays."""
    search, columns = _compiled(), model.features.coding.columns
    kinds, units, limits, slopes = [], [], [], []
    for column, part in zip(columns, model.parts, strict=True):
        slopes.append(part.slope if isinstance(part, Line) else np.zeros(len(model.start)))
        limits.append(limits_of(column) if column.is_number else (-math.inf, math.inf, 0.0))
        units.append(column.unit if column.is_number else 1 / column.cost)
        if column.immutable:
            kinds.append(search.FIXED)
        elif isinstance(part, Line):
            kinds.append(search.LINE)
        else:
            kinds.append(search.SWITCH if isinstance(part, Places) and not column.ordered else search.LIST)
    listed = [_allowed(column) for column in columns]
    low, high, gap = np.array(limits).reshape(-1, 3).T
    ends = np.cumsum([len(each) for each in listed])
    return search.Rules(
        kind=np.array(kinds, dtype=np.int64),
        unit=np.array(units, dtype=np.float64),
        low=low.copy(),
        high=high.copy(),
        step=np.array([column.step for column in columns], dtype=np.float64),
        gap=gap.copy(),
        rounding=np.array([2.0**-22 if column.single else 2.0**-50 for column in columns]),
        up=np.array([column.direction != "down" for column in columns]),
        down=np.array([column.direction != "up" for column in columns]),
        allowed=np.concatenate(listed).astype(np.float64),
        first_allowed=np.append(0, ends[:-1]).astype(np.int64),
        last_allowed=ends.astype(np.int64),
        slope=np.array(slopes, dtype=np.float64),
    )


def _allowed(column: TableColumn) -> Floats:
    """Return the listed values to which a number may change; () for all values."""
    if column.allowed is None:
        return np.empty(0)
    kept = column.allowed[column.allowed == column.allowed.astype(np.float32)] if column.single else column.allowed
    return kept if len(kept) else np.array([np.inf])  # no value is allowed
