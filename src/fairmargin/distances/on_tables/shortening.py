"""Shortening of rows found: changes are taken back or made smaller, one column after the other."""

import itertools
from collections.abc import Iterator

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.norm import Norm
from fairmargin.distances.on_tables.candidates import Candidates, Table, best, joined
from fairmargin.distances.on_tables.rays import along_slopes
from fairmargin.distances.on_tables.schedule import SCHEDULE
from fairmargin.distances.on_tables.values import beyond, limits

_FARTHER = (0.1, 0.4)  # shares of the length by which a number moves farther
_ENOUGH = 1e-6  # a change of a number is known well enough if it is known to this share


def shortened(table: Table, some: Candidates) -> Candidates:
    """Return shorter rows from rows found, besides others; every one still leaves the classes to keep."""
    if not len(some):
        return some
    if table.norm is Norm.LINF:
        return _small(table, joined(some, along_slopes(table, some)))
    some = _small(table, some)
    return joined(some, *_exchanged(table, some.take(best(some.of, some.length, 1))))


def _small(table: Table, some: Candidates) -> Candidates:
    """Return candidates with as few and as small changes as are found.

    Changes that are not needed are taken back before others are made smaller. In L2, where large changes cost most, it
    can be better to make these smaller first: both are tried.
    """
    found = _smaller(table, _taken_back(table, some))
    return joined(found, _smaller(table, some)) if table.norm is Norm.L2 else found


def _smaller(table: Table, some: Candidates, last: int = -1) -> Candidates:
    """Return candidates with smaller changes of numbers, without those that are then not needed.

    The change of the column `last`, if any, is made smaller when those of all others have been.
    """
    worth = _worth(table, some)
    worth[:, [at == last for at in table.numbers]] = np.inf
    order = np.argsort(worth, axis=1, kind="stable")
    for turn in range(len(table.numbers)):
        for i, at in enumerate(table.numbers):
            which = np.flatnonzero((order[:, turn] == i) & (some.rows[:, at] != table.rows[some.of, at]))
            if len(which):
                some = some.replaced(which, _halved(table, some.take(which), at))
    return _taken_back(table, some)


def _exchanged(table: Table, some: Candidates) -> Iterator[Candidates]:
    """Yield candidates of which one number has moved farther, so that others could move less or switch back.

    Numbers with few steps rarely fit at once.
    """
    slopes = table.slopes(some.of, some.sums)
    for at, share in itertools.product(table.numbers, _FARTHER):
        column, own, now = table.columns[at], table.rows[some.of, at], some.rows[:, at]
        size = np.maximum(column.step, share * some.length * column.unit)
        falls = [-(slopes * table.layer.change(at, now, now + toward * size)).sum(axis=1) for toward in (-1, 1)]
        toward = np.where(now != own, np.sign(now - own), np.where(falls[1] > falls[0], 1.0, -1.0))
        low, high = limits(column, own)
        value = beyond(column, own, np.clip(now + toward * size, low, high))
        able = np.flatnonzero(~np.isnan(value) & (value != now))
        farther = some.take(able).set(table, at, value[able]).found()
        if len(farther):
            yield _smaller(table, _taken_back(table, farther, except_for=at), last=at)


def _taken_back(table: Table, some: Candidates, except_for: int = -1) -> Candidates:
    """Return candidates without the changes that can be taken back, the one that shortens most first."""
    every = np.arange(len(some))
    for _ in range(len(table.columns)):
        own, nearest, which = table.rows[some.of], some.length.copy(), np.full(len(some), -1)
        for at in (*table.categories, *table.numbers):
            if at == except_for:
                continue
            moved = np.flatnonzero((some.rows[:, at] != own[:, at]) & ~np.isnan(own[:, at]))
            if not len(moved):
                continue
            back = some.take(moved).set(table, at, own[moved, at])
            better = (back.lead < 0) & (back.length < nearest[moved])
            nearest[moved[better]], which[moved[better]] = back.length[better], at
        if (which < 0).all():
            break
        for at in np.unique(which[which >= 0]).tolist():
            some = some.replaced(every[which == at], some.take(which == at).set(table, at, own[which == at, at]))
    return some


def _worth(table: Table, some: Candidates) -> Floats:
    """Return for each movable number what its change is worth: the smallest is made smaller first.

    In L1 the number comes first whose change lowers the lead least for its cost, otherwise the one that costs most.
    """
    costs = table.costs(some.of, some.rows)[:, list(table.numbers)]
    if table.norm is not Norm.L1:
        return -costs
    slopes, falls = table.slopes(some.of, some.sums), np.zeros_like(costs)
    for i, at in enumerate(table.numbers):
        change = table.layer.change(at, some.rows[:, at], table.rows[some.of, at])
        falls[:, i] = (slopes * change).sum(axis=1)
    return np.where(costs > 0, falls / np.where(costs > 0, costs, 1.0), np.inf)


def _halved(table: Table, some: Candidates, at: int) -> Candidates:
    """Return candidates with the smallest change of a number that bisection finds."""
    column, own = table.columns[at], table.rows[some.of, at]
    low, high = np.zeros(len(some)), np.abs(some.rows[:, at] - own)
    toward, nearest = np.sign(some.rows[:, at] - own), some
    for _ in range(2 * SCHEDULE.halvings):
        wide = high - low > np.maximum(_ENOUGH * high, column.step / 2)
        if not wide.any():
            break
        middle = (low + high) / 2
        value = beyond(column, own, own + toward * middle)
        size = np.abs(value - own)
        able = np.flatnonzero(wide & (size < high))  # NaN is not
        low = np.where(wide & ~(size < high), middle, low)
        if not len(able):
            continue
        tried = nearest.take(able).set(table, at, value[able])
        good = tried.lead < 0
        high[able[good]] = size[able[good]]
        low[able[~good]] = np.maximum(middle, low)[able[~good]]
        nearest = nearest.replaced(able[good], tried.take(good))
    return nearest
