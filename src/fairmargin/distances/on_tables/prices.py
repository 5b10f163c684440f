"""Changes of all columns together, numbers and categories, each worth its price by the slopes of the lead."""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.norm import Norm
from fairmargin.distances.on_tables.candidates import Candidates, Table, joined
from fairmargin.distances.on_tables.schedule import SCHEDULE
from fairmargin.distances.on_tables.values import beyond, limits

_NEAR, _FAR = 1e-4, 100.0  # smallest change of a number without steps, largest one without limits, in units


def priced(table: Table, at: Candidates) -> Candidates:
    """Return rows found by changes that are worth their cost, if the network were linear after its first layer.

    With slopes g of the lead with respect to the sums of the first layer, a change of one column lowers the lead by
    −⟨g, change of its contribution⟩, whatever the other columns do. At a price λ, each column takes the change for
    which this is most above λ times its cost. The price falls until the network itself is left; the slopes are then
    computed again at the row found. In L∞ costs do not add up, and nothing is returned.

    Parameters
    ----------
    table
        The rows and the model.
    at
        Changed or unchanged rows where slopes are computed first.
    """
    found: list[Candidates] = []
    for _ in range(SCHEDULE.price_rounds if table.norm is not Norm.LINF else 0):
        if not len(at):
            break
        at = _crossing(table, at)
        found.append(at)
    return joined(*found) if found else at.take(slice(0, 0))


@dataclass(frozen=True, slots=True, eq=False)
class _Choices:
    """The values that one column may take: for each candidate, how much each of them lowers the lead, and its cost."""

    column: int
    values: Floats
    falls: Floats
    costs: Floats

    def at(self, which: Ints, prices: Floats) -> Floats:
        """Return the value of some candidates at a price."""
        worth = self.falls[which] - prices[:, None] * self.costs[which]
        return np.asarray(self.values[which, worth.argmax(axis=1)])


def _crossing(table: Table, at: Candidates) -> Candidates:
    """Return the rows at the highest price at which the classes to keep are left, for the candidates that have one."""
    slopes = table.slopes(at.of, at.sums)
    choices = [_choices(table, at.of, slopes, column) for column in (*table.categories, *table.numbers)]
    if not choices:
        return at.take(slice(0, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.concatenate([np.where(each.costs > 0, each.falls / each.costs, 0.0) for each in choices], axis=1)
    high = worth.max(axis=1)
    low = np.where(worth > 0, worth, np.inf).min(axis=1)
    every = np.flatnonzero(high > 0)
    high, low = np.log(high[every]), np.log(low[every]) - 1.0  # at the lowest price every useful change is made
    met = np.full(len(every), np.nan)
    before = high.copy()
    for share in np.linspace(0, 1, SCHEDULE.prices):
        left = np.flatnonzero(np.isnan(met))
        if not len(left):
            break
        price = high[left] + share * (low[left] - high[left])
        lost = _at_prices(table, at, choices, every[left], np.exp(price)).lead < 0
        met[left[lost]] = price[lost]
        before[left[~lost]] = price[~lost]
    left = np.flatnonzero(~np.isnan(met))
    every, high, low = every[left], before[left], met[left]
    for _ in range(SCHEDULE.halvings):
        if not len(every):
            break
        middle = (high + low) / 2
        lost = _at_prices(table, at, choices, every, np.exp(middle)).lead < 0
        high, low = np.where(lost, high, middle), np.where(lost, middle, low)
    return _at_prices(table, at, choices, every, np.exp(low)).found()


def _at_prices(table: Table, at: Candidates, choices: list[_Choices], which: Ints, prices: Floats) -> Candidates:
    """Return the rows that some candidates lead to at these prices."""
    of = at.of[which]
    rows, sums = table.rows[of], table.sums[of]
    for each in choices:
        own, value = rows[:, each.column].copy(), each.at(which, prices)
        sums += table.layer.change(each.column, own, value)
        rows[:, each.column] = value
    return table.candidates(of, rows, sums)


def _choices(table: Table, of: Ints, slopes: Floats, at: int) -> _Choices:
    """Return the values that a column may take, first the unchanged one."""
    column, own = table.columns[at], table.rows[of, at]
    if column.is_number:
        values = _sizes(table, of, at)
    else:
        places = np.array(column.reachable, dtype=np.float64)
        values = np.broadcast_to(places, (len(own), len(places)))
        values = np.where(np.isnan(own)[:, None], own[:, None], values)
    values = np.column_stack([own, values])
    falls, costs = np.zeros_like(values), np.zeros_like(values)
    for i in range(1, values.shape[1]):
        falls[:, i] = -(slopes * table.layer.change(at, own, values[:, i])).sum(axis=1)
        costs[:, i] = column.cost_of(own, values[:, i])
    return _Choices(at, values, falls, costs**2 if table.norm is Norm.L2 else costs)


def _sizes(table: Table, of: Ints, at: int) -> Floats:
    """Return numbers in both directions, from a step away to the limits, each a fixed factor farther than the last."""
    column, own = table.columns[at], table.rows[of, at]
    found = []
    for end, toward in zip(limits(column, own), (-1.0, 1.0), strict=True):
        far = np.minimum(np.nan_to_num(np.abs(end - own), nan=0.0), _FAR * column.unit)
        least = np.minimum(column.step or _NEAR * column.unit, far)
        times = np.where(least > 0, far / np.where(least > 0, least, 1.0), 1.0)
        for share in np.linspace(0, 1, SCHEDULE.sizes):
            wanted = np.clip(own + toward * least * times**share, np.minimum(own, end), np.maximum(own, end))
            value = beyond(column, own, wanted)
            found.append(np.where(np.isnan(value), own, value))
    return np.stack(found, axis=1)
