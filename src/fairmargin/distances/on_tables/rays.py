"""Search for the boundary along rays: numbers that move in a fixed direction, by steps that the rules allow."""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.norm import Norm
from fairmargin.distances.on_tables.candidates import Candidates, Table, joined, nearest_of
from fairmargin.distances.on_tables.schedule import SCHEDULE
from fairmargin.distances.on_tables.values import beyond, limits, within


@dataclass(frozen=True, slots=True, eq=False)
class Rays:
    """Rays from candidates, along which numbers move together, each to the last number that the rules allow.

    Parameters
    ----------
    table
        The rows and the model.
    start
        The candidates.
    ways
        For each of them and each movable number, by how many units it moves while t grows by 1.
    reach
        The largest t that is looked at.
    """

    table: Table
    start: Candidates
    ways: Floats
    reach: Floats

    def at(self, which: Ints, t: Floats) -> Candidates:
        """Return the rows at t of some rays."""
        some = self.start.take(which)
        rows, sums = some.rows.copy(), some.sums.copy()
        for i, at in enumerate(self.table.numbers):
            moves = np.flatnonzero(self.ways[which, i])
            rows[moves, at] = self._value(which[moves], i, at, t[moves])
            sums[moves] += self.table.layer.change(at, some.rows[moves, at], rows[moves, at])
        return self.table.candidates(some.of, rows, sums)

    def lead(self, which: Ints, t: Floats) -> Floats:
        """Return the leads of some rays at t."""
        of, sums = self.start.of[which], self.start.sums[which]
        for i, at in enumerate(self.table.numbers):
            moves = np.flatnonzero(self.ways[which, i])
            after = self._value(which[moves], i, at, t[moves])
            sums[moves] += self.table.layer.change(at, self.start.rows[which[moves], at], after)
        return self.table.lead(of, sums)

    def _value(self, which: Ints, i: int, at: int, t: Floats) -> Floats:
        """Return the number of the column `at`, the i-th that may move."""
        column, own = self.table.columns[at], self.table.rows[self.start.of[which], at]
        return within(column, own, own + t * self.ways[which, i] * column.unit)


def along_rays(table: Table, start: Candidates, nearest: Floats) -> Candidates:
    """Return rows that leave the classes to keep, found along rays from candidates that do not.

    A ray moves one number; in L∞, also all numbers by the same cost, each as the gradient says.

    Parameters
    ----------
    table
        The rows and the model.
    start
        Rows with switched categories and unchanged numbers.
    nearest
        For each row of the table, a distance that is to be undercut.
    """
    room = _room(table.norm, start.length, nearest[start.of])
    if table.norm is Norm.LINF:
        found = crossings(_steepest(table, start, table.slopes(start.of, start.sums), room))
        shorter = nearest_of(joined(found, start.found()), len(table.rows))
        return joined(found, crossings(_axes(table, start, np.minimum(room, shorter[start.of]))))
    return crossings(_axes(table, start, room))


def along_slopes(table: Table, some: Candidates) -> Candidates:
    """Return rows found in L∞ with the same switches as rows found before, by moving as the slopes at those say."""
    rows, sums = some.rows.copy(), some.sums.copy()
    for at in table.numbers:
        own = table.rows[some.of, at]
        sums += table.layer.change(at, rows[:, at], own)
        rows[:, at] = own
    start = table.candidates(some.of, rows, sums)
    return crossings(_steepest(table, start, table.slopes(some.of, some.sums), some.length))


def along_ways(table: Table, start: Candidates, points: Floats, nearest: Floats) -> Candidates:
    """Return rows found on the ways from candidates to points, or beyond them.

    They may be somewhat longer than the distances `nearest`, since they will be shortened. Between the steps of
    columns, numbers that move by few steps lag behind, and the others have to move farther. `points` holds the value of
    each movable number.
    """
    units = np.array([table.columns[at].unit for at in table.numbers])
    ways = np.nan_to_num((points - table.rows[start.of][:, list(table.numbers)]) / units, nan=0.0)
    length = table.norm.length(ways)
    room = _room(table.norm, start.length, SCHEDULE.slack * nearest[start.of])
    able = np.flatnonzero((length > 0) & (room > 0))
    reach = np.minimum(room[able] / length[able], SCHEDULE.beyond)
    return crossings(Rays(table, start.take(able), ways[able], reach))


def crossings(rays: Rays) -> Candidates:
    """Return the first row of each ray that leaves the classes to keep, for the rays on which one is found."""
    count = len(rays.start)
    low, high = np.zeros(count), np.full(count, np.nan)
    even = np.linspace(0, 1, SCHEDULE.ray_points // 2 + 1)[1:]
    for share in np.unique(np.concatenate([even, even**2])).tolist():
        open_ = np.flatnonzero(np.isnan(high))
        if not len(open_):
            break
        t = share * rays.reach[open_]
        met = rays.lead(open_, t) < 0
        high[open_[met]] = t[met]
        low[open_[~met]] = t[~met]
    which = np.flatnonzero(~np.isnan(high))
    low, high = low[which], high[which]
    for _ in range(SCHEDULE.halvings):
        if not len(which):
            break
        middle = (low + high) / 2
        met = rays.lead(which, middle) < 0
        low, high = np.where(met, low, middle), np.where(met, middle, high)
    return rays.at(which, high).found()


def allowed(table: Table, start: Candidates, numbers: Floats) -> Candidates:
    """Return candidates with numbers that the rules allow, at least as far away as those given, if they are found.

    Parameters
    ----------
    table
        The rows and the model.
    start
        Candidates whose numbers are to be replaced.
    numbers
        For each candidate, the value of each movable number.
    """
    rows, sums = start.rows.copy(), start.sums.copy()
    for i, at in enumerate(table.numbers):
        own = table.rows[start.of, at]
        value = beyond(table.columns[at], own, numbers[:, i])
        rows[:, at] = np.where(np.isnan(own), own, value)
        lost = np.isnan(value) & ~np.isnan(own)
        sums += table.layer.change(at, start.rows[:, at], np.where(lost, own, rows[:, at]))
    valid = (np.isnan(rows) == np.isnan(table.rows[start.of])).all(axis=1)
    return table.candidates(start.of[valid], rows[valid], sums[valid]).found()


def _room(norm: Norm, length: Floats, nearest: Floats) -> Floats:
    """Return how far numbers can change, in addition to a length, before the distance `nearest` is reached."""
    if norm is Norm.L1:
        return np.maximum(nearest - length, 0.0)
    if norm is Norm.L2:
        with np.errstate(invalid="ignore"):
            return np.where(np.isinf(nearest), np.inf, np.sqrt(np.maximum(nearest**2 - length**2, 0.0)))
    return np.where(length < nearest, nearest, 0.0)


def _axes(table: Table, start: Candidates, room: Floats) -> Rays:
    """Return the rays that move one number each, in both directions, as far as there is room."""
    parts, ways, reaches = [], [], []
    for i, at in enumerate(table.numbers):
        column, before = table.columns[at], start.rows[:, at]
        for end, toward in zip(limits(column, table.rows[start.of, at]), (-1.0, 1.0), strict=True):
            reach = np.minimum(np.abs(end - before) / column.unit, room)
            able = np.flatnonzero((reach > 0) & np.isfinite(reach))
            way = np.zeros((len(able), len(table.numbers)))
            way[:, i] = toward
            parts.append(start.take(able))
            ways.append(way)
            reaches.append(reach[able])
    if not parts:
        return Rays(table, start.take(slice(0, 0)), np.empty((0, 0)), np.empty(0))
    return Rays(table, joined(*parts), np.concatenate(ways), np.concatenate(reaches))


def _steepest(table: Table, start: Candidates, slopes: Floats, room: Floats) -> Rays:
    """Return the rays on which every number moves so that the lead falls, with these slopes of the lead."""
    ways, reach = np.zeros((len(start), len(table.numbers))), np.zeros(len(start))
    for i, at in enumerate(table.numbers):
        column, before = table.columns[at], start.rows[:, at]
        falls, ends = np.zeros((len(start), 2)), limits(column, before)
        for side, (end, toward) in enumerate(zip(ends, (-1, 1), strict=True)):
            to = before + toward * np.minimum(np.abs(end - before), column.unit)
            falls[:, side] = -(slopes * table.layer.change(at, before, to)).sum(axis=1)
        most = falls.max(axis=1)
        ways[:, i] = np.where(most > 0, np.where(falls[:, 1] == most, 1.0, -1.0), 0.0)
        far = np.abs(np.where(ways[:, i] > 0, ends[1], ends[0]) - before) / column.unit
        reach = np.maximum(reach, np.where(ways[:, i] == 0, 0.0, far))
    reach = np.minimum(reach, room)
    able = np.flatnonzero((reach > 0) & np.isfinite(reach))
    return Rays(table, start.take(able), ways[able], reach[able])
