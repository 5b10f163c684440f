"""Random ensembles on the columns of a table, and their distances by asking about every value that could be nearest."""

import itertools
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from fairmargin.core.column import TableColumn
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.models.trees.ensemble import LEAF, NO_SET, TreeEnsemble


@dataclass(frozen=True, eq=False)
class Trees:
    """A classifier of coded rows that decides as its trees do, with the rules of the library."""

    ensemble: TreeEnsemble
    domain: Domain
    classes: tuple[Any, ...]
    accepts_missing = True
    offers = frozenset({"predict", "trees"})
    tile = 1
    original = None

    def predict(self, x: Any) -> Any:
        return self.ensemble.decisions(np.asarray(x, dtype=np.float64))

    def fingerprint(self) -> str:
        return self.ensemble.fingerprint() + self.domain.fingerprint()


def random_table(rng: np.random.Generator, classes: int = 2, shared: bool = False) -> tuple[Trees, np.ndarray]:
    """Return trees with random rules, and rows of which some lie outside of the rules or lack values.

    With `shared`, nodes share children.
    """
    columns = tuple(_column(rng, place) for place in range(rng.integers(1, 5)))
    limits = [_limits(rng, column) for column in columns]
    width = max([2, *(len(column.categories) + 1 for column in columns)]) - int(rng.random() < 0.5)
    nodes: list[list[Any]] = []
    value = _values(rng, classes)

    def tree(depth: int) -> int:
        place = len(nodes)
        nodes.append([LEAF, 0.0, False, 0, 0, value(), NO_SET])
        if depth and rng.random() < 0.9:
            f = int(rng.integers(len(columns)))
            nodes[place][0], nodes[place][2] = f, bool(rng.random() < 0.5)
            if columns[f].is_number:
                nodes[place][1] = rng.choice(limits[f])
            else:
                nodes[place][6] = int(rng.integers(6))
            nodes[place][3] = tree(depth - 1)
            again = shared and rng.random() < 0.3
            nodes[place][4] = nodes[nodes[place][3]][4] if again and nodes[nodes[place][3]][4] else tree(depth - 1)
        return place

    roots = [tree(int(rng.integers(1, 4))) for _ in range(rng.integers(1, 6))]
    of = [np.array([node[k] for node in nodes]) for k in range(7)]
    single = bool(rng.random() < 0.3)
    size = np.abs(of[5]).max() * (len(roots) + 1)
    whole = bool((of[5] == np.rint(of[5])).all())
    ensemble = TreeEnsemble(
        *of[:6],
        roots,
        np.zeros(classes),
        rounding=0.0 if whole else 4 * (2.0**-23 if single else 2.0**-52) * len(roots) * size,
        divisor=float(rng.integers(1, 4)),
        single=single,
        last_wins_ties=bool(rng.random() < 0.3),
        lead=float(rng.choice([0.0, 0.0, 1e-7])),
        sets=rng.random((6, width)) < 0.5,
        set_of=of[6],
    )
    rows = np.column_stack([_cells(rng, column, limits[f], 4) for f, column in enumerate(columns)])
    return Trees(ensemble, Domain.of_table(columns), tuple(range(classes))), rows


def distance_of_row(model: Trees, row: np.ndarray, kept: Any, norm: Norm) -> float:
    """Return the distance of a row from the nearest class not in `kept`, by asking about all combinations of values."""
    limits = model.ensemble.thresholds(len(row))
    choices = [_choices(*each) for each in zip(model.domain.columns, row, limits, strict=True)]
    grid = np.array(list(itertools.product(*choices)))
    other = ~np.isin(model.predict(grid), kept)
    columns = zip(model.domain.columns, row, grid.T, strict=True)
    costs = np.column_stack([column.cost_of(np.full(len(grid), own), new) for column, own, new in columns])
    return float(norm.length(costs[other]).min()) if other.any() else np.inf


def _choices(column: TableColumn, own: float, limits: np.ndarray) -> list[float]:
    """Return the row's own value and every value that could be the nearest one of a cell, as a user would write it."""
    if np.isnan(own):
        return [own]
    if not column.is_number:
        values = np.arange(len(column.categories) + 1.0)
    elif column.allowed is not None:
        values = column.allowed
    elif column.step:
        kind = np.float32 if column.single else np.float64
        start, step = Decimal(str(kind(own))), Decimal(repr(column.step))
        values = np.array([kind(start + k * step) for k in range(-90, 91)], dtype=np.float64)
    else:
        ends = np.array([0.0, column.low, column.high, column.gap, -column.gap])
        values = np.concatenate([limits, np.nextafter(limits, -np.inf), ends[np.isfinite(ends)]])
        if column.single:
            near = values.astype(np.float32)
            either = [np.nextafter(near, np.float32(sign)) for sign in (-np.inf, np.inf)]
            values = np.concatenate([near, *either]).astype(np.float64)
    values = np.unique(values[column.allows(np.full(len(values), own), values)])
    if column.is_number:  # only the nearest one of each cell
        cell, best = np.searchsorted(limits, values, side="right"), {}
        for place, new in zip(cell, values, strict=True):
            if place not in best or abs(new - own) < abs(best[place] - own):
                best[place] = new
        values = np.array(list(best.values()))
    return [own, *values[values != own]]


def _column(rng: np.random.Generator, place: int) -> TableColumn:
    immutable = bool(rng.random() < 0.1)
    if rng.random() < 0.45:
        count = int(rng.integers(2, 6))
        reachable = tuple(np.flatnonzero(rng.random(count) < 0.8).tolist())
        return TableColumn(
            f"c{place}",
            "category",
            categories=tuple("abcdef"[:count]),
            reachable=reachable,
            cost=float(rng.choice([1.0, 0.5, 2.0])),
            ordered=bool(rng.random() < 0.4),
            immutable=immutable,
        )
    low, high = sorted(rng.integers(-4, 5, 2).tolist())
    single = bool(rng.random() < 0.2)
    step = float(rng.choice([0.0, 1.0, 0.5])) if single else float(rng.choice([0.0, 0.0, 1.0, 0.1, 0.25]))
    listed = rng.random() < 0.2
    return TableColumn(
        f"c{place}",
        "number",
        unit=float(rng.choice([1.0, 2.0, 0.3])),
        low=low if rng.random() < 0.6 else -np.inf,
        high=high if rng.random() < 0.6 else np.inf,
        step=step,
        direction=str(rng.choice(["up", "down", "both", "both"])),  # type: ignore[arg-type]
        allowed=np.round(rng.normal(size=rng.integers(1, 6)), 1) if listed else None,
        gap=float(rng.choice([0.0, 0.0, 0.0, 0.5, 1.3])),
        single=single,
        immutable=immutable,
    )


def _limits(rng: np.random.Generator, column: TableColumn) -> np.ndarray:
    """Return thresholds, many of which are values that the column takes or numbers next to them."""
    values = np.concatenate([np.round(rng.normal(scale=2, size=4), 1), rng.integers(-3, 4, 3), [0.0]])
    return np.concatenate([values, np.nextafter(values, np.inf), [np.inf, -np.inf]])


def _cells(rng: np.random.Generator, column: TableColumn, limits: np.ndarray, rows: int) -> np.ndarray:
    if column.is_number:
        values = np.round(rng.normal(scale=2, size=rows), int(rng.integers(0, 3)))
        if not column.step:
            values = np.where(rng.random(rows) < 0.3, rng.choice(limits[np.isfinite(limits)], rows), values)
        values = values.astype(np.float32).astype(np.float64) if column.single else values
    else:
        values = rng.integers(0, len(column.categories) + 1, rows).astype(float)
    return np.where(rng.random(rows) < 0.12, np.nan, values)


def _values(rng: np.random.Generator, classes: int) -> Any:
    """Return a function that draws values of leaves: votes, shares with ties, or numbers that sums round."""
    kind = rng.integers(3)
    if kind == 0:
        return lambda: np.eye(classes)[rng.integers(classes)]
    if kind == 1:
        return lambda: rng.choice([0.1, 0.2, 0.3], classes)
    return lambda: rng.normal(size=classes) * rng.choice([1.0, 1e-3])
