"""Switches of categories that bring a row nearer to another class, alone and together."""

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.distances.on_tables.candidates import Candidates, Table, best, joined, nearest_of
from fairmargin.distances.on_tables.schedule import SCHEDULE
from fairmargin.distances.on_tables.values import limits
from fairmargin.models.tables.network import product

_NEVER = 1e6  # length, per unit of the scores, that stands for a lead that no number can change


def switched(table: Table, along: Candidates, found: Candidates) -> tuple[Candidates, Floats]:
    """Return promising sets of switches of each row, the most promising first, and the length expected with each.

    Sets grow by one switch at a time. Of all sets of one size, the gradient chooses some, which are evaluated; the most
    promising of these are extended. A set is promising if its own cost, together with what the numbers still have to
    change, is small. Sets that cannot be nearer than a row already found are left out.

    Parameters
    ----------
    table
        The rows and the model.
    along
        Rows found by changes of numbers alone. They show how far numbers have to change for a given lead, where slopes
        at the row itself are misleading.
    found
        All rows found so far.
    """
    parents, nearest = table.start(), nearest_of(found, len(table.rows))
    way = np.minimum(_way_per_lead(table), nearest_of(along, len(table.rows)) / parents.lead)
    every, expected = [], []
    for _ in range(min(SCHEDULE.switches, len(table.categories))):
        some = _extended(table, parents, way, nearest)
        if not len(some):
            break
        length, met = _expected(table, some, way), some.lead < 0
        chosen = best(some.of, length, SCHEDULE.combinations)
        every.append(some.take(chosen))
        expected.append(length[chosen])
        np.minimum.at(nearest, some.of[met], some.length[met])
        parents = some.take(best(some.of, np.where(met, np.inf, length), SCHEDULE.extended))
        parents = parents.take((parents.lead >= 0) & (parents.length < nearest[parents.of]))
    if not every:
        return parents.take(slice(0, 0)), np.empty(0)
    sets, lengths = joined(*every), np.concatenate(expected)
    order = best(sets.of, lengths, len(sets))
    return sets.take(order), lengths[order]


def _extended(table: Table, parents: Candidates, way: Floats, nearest: Floats) -> Candidates:
    """Return candidates with one more switch each, as many as are evaluated."""
    slopes = table.slopes(parents.of, parents.sums)
    parent, column, place, key = [], [], [], []
    for at in table.categories:
        own, reachable = parents.rows[:, at], np.array(table.columns[at].reachable, dtype=np.float64)
        unchanged = np.flatnonzero((own == table.rows[parents.of, at]) & ~np.isnan(own))
        if not len(unchanged) or not len(reachable):
            continue
        who, to = np.repeat(unchanged, len(reachable)), np.tile(reachable, len(unchanged))
        there = product(slopes[unchanged], table.layer.of_places(at, reachable).T.copy())
        here = (slopes[unchanged] * table.layer.of_places(at, own[unchanged])).sum(axis=1, keepdims=True)
        lead = parents.lead[who] + (there - here).ravel()  # if the scores were linear
        cost = table.columns[at].cost_of(own[who], to)
        length = table.norm.length(np.stack([parents.length[who], cost], axis=1))
        worth = (cost > 0) & (length < nearest[parents.of[who]])
        parent.append(who[worth])
        place.append(to[worth])
        column.append(np.full(int(worth.sum()), at))
        ahead = way[parents.of[who]] * np.maximum(lead, 0.0)
        key.append(table.norm.length(np.stack([length, ahead], axis=1))[worth])
    if not parent:
        return parents.take(np.empty(0, dtype=np.int64))
    who, which, to, keys = (np.concatenate(each) for each in (parent, column, place, key))
    chosen = best(parents.of[who], keys, SCHEDULE.looked_at)
    return _distinct(_set(table, parents, who[chosen], which[chosen], to[chosen]))


def _set(table: Table, parents: Candidates, who: Ints, which: Ints, to: Floats) -> Candidates:
    """Return parents with one column each set to a place."""
    some = parents.take(who)
    rows, sums = some.rows.copy(), some.sums.copy()
    for at in table.categories:
        here = which == at
        rows[here, at] = to[here]
        sums[here] += table.layer.change(at, some.rows[here, at], to[here])
    return table.candidates(some.of, rows, sums)


def _distinct(some: Candidates) -> Candidates:
    """Return candidates without those that an earlier one equals: a set can be reached in several orders."""
    rows = np.ascontiguousarray(np.column_stack([some.of, some.rows]))
    _, first = np.unique(rows.view(f"V{rows.shape[1] * 8}").ravel(), return_index=True)
    return some.take(np.sort(first))


def _expected(table: Table, some: Candidates, way: Floats) -> Floats:
    """Return the length of candidates, with what numbers still have to change if the scores were linear."""
    ahead = way[some.of] * np.maximum(some.lead, 0.0)
    return table.norm.length(np.stack([some.length, ahead], axis=1))


def _way_per_lead(table: Table) -> Floats:
    """Return how far the numbers of each row have to change to reduce the lead by 1, by its mean slope over a unit."""
    own = np.arange(len(table.rows))
    slopes, falls = table.slopes(own, table.sums), np.zeros((len(own), 1 + len(table.numbers)))
    for i, at in enumerate(table.numbers):
        column, before = table.columns[at], table.rows[:, at]
        for end, toward in zip(limits(column, before), (-1, 1), strict=True):
            to = before + toward * np.minimum(np.abs(end - before), column.unit)
            room = np.abs(to - before) / column.unit
            fall = -(slopes * table.layer.change(at, before, to)).sum(axis=1)
            falls[:, i] = np.maximum(falls[:, i], np.where(room > 0, fall / np.where(room > 0, room, 1.0), 0.0))
    slope = table.norm.dual.length(falls)
    return np.where(slope * _NEVER > 1, 1 / np.where(slope > 0, slope, 1.0), _NEVER)
