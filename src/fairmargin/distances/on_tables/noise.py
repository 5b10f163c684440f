"""Random rows around the rows of a table, which show whether a search missed nearer ones."""

import numpy as np

from fairmargin.core.arrays import Floats, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.on_tables.candidates import Candidates, Table
from fairmargin.distances.on_tables.values import limits, within

_SWITCHED = 0.5  # share of the categories that are switched, as far as the length allows


def random_rows(table: Table, keys: Keys, turn: int, longest: Floats) -> Candidates:
    """Return a random row for each row of the table, as the rules allow, at most as long as given.

    Columns are changed in a random order: a number by a random part of what is left of the length, a category half of
    the time. The result for a row depends on its key and the turn only.
    """
    movable = (*table.numbers, *table.categories)
    draws = np.stack([_draws(int(key), turn, 4 * len(movable)) for key in keys]).reshape(len(keys), 4, len(movable))
    order, some = np.argsort(draws[:, 0], axis=1), table.start()
    for place in range(len(movable)):
        for i, at in enumerate(movable):
            which = np.flatnonzero(order[:, place] == i)
            if not len(which):
                continue
            size, side, kind = draws[which, 1, i], draws[which, 2, i], draws[which, 3, i]
            column, own = table.columns[at], table.rows[which, at]
            if column.is_number:
                low, high = limits(column, own)
                left = np.nan_to_num(_left(table.norm, some.length[which], longest[which]), posinf=0.0)
                ends = np.where(np.isinf(longest[which]), high - low, left * column.unit)
                wanted = own + np.where(side < 0.5, -1.0, 1.0) * size * np.where(np.isfinite(ends), ends, 0.0)
                value = within(column, own, np.clip(wanted, low, high))
            else:
                places = np.array([*column.reachable, 0], dtype=np.float64)
                there = places[(side * len(column.reachable)).astype(np.int64)]
                value = np.where((kind < _SWITCHED) & column.allows(own, there), there, own)
            moved = some.take(which).set(table, at, value)
            short = moved.length <= longest[which]
            some = some.replaced(which[short], moved.take(short))
    return some


def _draws(key: int, turn: int, count: int) -> Floats:
    return np.random.Generator(np.random.Philox(key=[key, turn])).uniform(size=count)


def _left(norm: Norm, length: Floats, longest: Floats) -> Floats:
    """Return how much one more column can cost."""
    if norm is Norm.L1:
        return np.maximum(longest - length, 0.0)
    if norm is Norm.L2:
        return np.asarray(np.sqrt(np.maximum(longest**2 - length**2, 0.0)))
    return longest
