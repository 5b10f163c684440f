"""Descent of the lead, column by column, for rows for which nothing else is found."""

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.distances.on_tables.candidates import Candidates, Table
from fairmargin.distances.on_tables.schedule import SCHEDULE
from fairmargin.distances.on_tables.values import limits, within

_ROUNDS = 2  # how often each column can change, on average


def lowered(table: Table, start: Candidates) -> Candidates:
    """Return candidates whose lead is as low as changes of one column after the other make it.

    Each turn makes the change of a single column that lowers the lead most, until no change does or the classes to keep
    are left. Costs are ignored: what is found is shortened later.
    """
    some = start
    for _ in range(_ROUNDS * len(table.columns)):
        nearest = some
        for at in (*table.categories, *table.numbers):
            for values in _values(table, some, at):
                tried = some.set(table, at, values)
                better = np.flatnonzero((tried.lead < nearest.lead) & (some.lead >= 0))
                nearest = nearest.replaced(better, tried.take(better))
        if (nearest.lead == some.lead).all():
            break
        some = nearest
    return some


def _values(table: Table, some: Candidates, at: int) -> list[Floats]:
    """Return the values to which a column may be set, each for all candidates."""
    column, own = table.columns[at], table.rows[some.of, at]
    if column.is_number:
        low, high = limits(column, own)
        width = np.where(np.isfinite(high - low), high - low, 0.0)
        shares = np.linspace(0, 1, SCHEDULE.grid + 1)
        return [within(column, own, np.where(np.isfinite(low), low, own) + share * width) for share in shares]
    return [
        np.where(column.allows(own, np.full(len(own), place)), place, own) for place in map(float, column.reachable)
    ]
