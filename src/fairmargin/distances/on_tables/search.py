"""Estimators by gradients on the rows of a table; the package's docstring describes the search."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.on_tables.candidates import Candidates, Table, best, joined, nearest_of, shortest
from fairmargin.distances.on_tables.descent import lowered
from fairmargin.distances.on_tables.displaced import Displaced
from fairmargin.distances.on_tables.noise import random_rows
from fairmargin.distances.on_tables.prices import priced
from fairmargin.distances.on_tables.rays import allowed, along_rays, along_ways
from fairmargin.distances.on_tables.schedule import SCHEDULE
from fairmargin.distances.on_tables.shortening import shortened
from fairmargin.distances.on_tables.switches import switched
from fairmargin.distances.on_tables.values import limits, within
from fairmargin.distances.protocol import DistanceEstimator, Finder, Found, Search, finder
from fairmargin.errors import ModelError
from fairmargin.models.kept_classes import Kept, parted
from fairmargin.models.protocol import Classifier
from fairmargin.models.references import Referenced
from fairmargin.models.tables.classifier import TableClassifier
from fairmargin.models.tables.first_layer import FirstLayer

REVISION = 1
"""Raised when distances on tables change; it is part of the keys of stored results."""


@dataclass(frozen=True, slots=True)
class OnTable(Search):
    """An estimator by gradients, on the rows of a table.

    Parameters
    ----------
    estimator
        The estimator, which searches the numbers.
    """

    estimator: DistanceEstimator

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = REVISION

    @property
    def norm(self) -> Norm:
        """The norm of the estimator."""
        return self.estimator.norm

    def __call__(self, model: Classifier, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return the distances of the rows found, or what an estimator that moves nothing says about the scores."""
        if getattr(type(self.estimator), "moves", True):
            return self.find(model, x, y, keys=keys).distances
        displaced, samples = unmoved(model, x, y, self.norm)
        return self.estimator(displaced, samples, y, keys=keys)

    def find(self, model: Classifier, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the distances and the rows found, each confirmed by the original model."""
        rows, y = np.asarray(x, dtype=np.float64), np.asarray(y)
        correct = model.predict(rows) == y
        values, points, tried = np.zeros(len(rows)), rows.copy(), np.zeros(len(rows))
        table, which = _table(model, rows, y, self.norm), np.flatnonzero(correct)
        for start in range(0, len(which), SCHEDULE.rows):
            some = which[start : start + SCHEDULE.rows]
            search = _Search(finder(self.estimator), model, table.take(some), y[some], keys[some])
            points[some], values[some], tried[some] = search.run()
        found = Distances(values, correct, Bound.UPPER, self.norm, tried=tried if np.isinf(values).any() else None)
        return Found(found, points)


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """The search of some rows."""

    estimator: Finder
    model: Classifier
    table: Table
    y: Ints
    keys: Keys

    def run(self) -> tuple[Floats, Floats, Floats]:
        """Return the row found for each row, its distance, and how far the search went; NaN and `inf` without any."""
        start = self.table.start()
        along = along_rays(self.table, start, np.full(len(start), np.inf))
        some = joined(along, priced(self.table, start))
        sets, expected = switched(self.table, along, some)
        # The unchanged row is the most promising, because it costs nothing.
        expected = np.concatenate([np.zeros(len(start)), expected])
        order = best(np.concatenate([start.of, sets.of]), expected, len(expected))
        sets, expected = joined(start, sets).take(order), expected[order]
        some = shortest(self._along_rays(sets, some), SCHEDULE.kept)
        by_gradient, tried = self._by_gradient(sets, expected, some)
        some = shortest(joined(some, by_gradient), SCHEDULE.kept)
        tried = np.maximum(tried, self._farthest(sets))
        lost = ~np.isin(np.arange(len(self.y)), some.of)
        if lost.any():
            reached = self._from_references(np.flatnonzero(lost))
            lowest = reached.take(best(reached.of, reached.lead, SCHEDULE.descents))
            reached = joined(reached, lowered(self.table, joined(start.take(lost), lowest)))
            tried[lost] = np.maximum(tried, _largest(reached, len(lost)))[lost]
            some = joined(some, reached.found())
        nearest = some.take(best(some.of, some.length, SCHEDULE.refined))
        some = shortest(joined(some, priced(self.table, nearest)), SCHEDULE.kept)
        first = some.take(best(some.of, some.length, SCHEDULE.refined))
        some = shortest(joined(shortened(self.table, joined(first, by_gradient)), some), SCHEDULE.kept)
        rows, lengths = self._confirmed(some)
        return rows, lengths, np.where(np.isinf(lengths), tried, 0.0)

    def _along_rays(self, sets: Candidates, some: Candidates) -> Candidates:
        """Add rows found by switches alone, and along rays from them; each turn only looks for nearer ones."""
        some = joined(some, sets.found())
        left = sets.take(sets.lead >= 0)
        turns = _turns(left.of)
        for first, last in itertools.pairwise((0, 2, 6, 1 + SCHEDULE.combinations * SCHEDULE.switches)):
            now = left.take((turns >= first) & (turns < last))
            now = now.take(now.length < nearest_of(some, len(self.y))[now.of])
            if len(now):
                some = joined(some, along_rays(self.table, now, nearest_of(some, len(self.y))))
        return some

    def _by_gradient(self, sets: Candidates, expected: Floats, some: Candidates) -> tuple[Candidates, Floats]:
        """Return rows found by the estimator from the most promising sets of switches, and how far it went."""
        able = (sets.lead >= 0) & (sets.length < nearest_of(some, len(self.y))[sets.of])
        left, expected = sets.take(able), expected[able]
        chosen = np.sort(best(left.of, expected, SCHEDULE.searched))
        left, tried = left.take(chosen), np.zeros(len(self.y))
        if not len(left) or not self.table.numbers:
            return left.take(slice(0, 0)), tried
        displaced = Displaced(self.table, left)
        _, kept = parted(self.model)
        model: Classifier = Kept(displaced, kept) if kept else displaced
        found = self.estimator.find(model, displaced.samples(), self.y[left.of], keys=self.keys[left.of])
        if found.distances.tried is not None:
            reached = np.minimum(found.distances.tried, self._room(left.of))
            went = self.table.norm.length(np.stack([left.length, reached], axis=1))
            np.maximum.at(tried, left.of, went)
        met = np.isfinite(found.distances.values)
        displaced = Displaced(self.table, left.take(met))
        points = np.asarray(found.points[met], dtype=np.float64)
        numbers = displaced.numbers(points)
        rounded = allowed(self.table, displaced.start, numbers)
        nearest = nearest_of(joined(some, rounded), len(self.y))
        return joined(rounded, along_ways(self.table, displaced.start, numbers, nearest)), tried

    def _room(self, of: Ints) -> Floats:
        """Return the length of the largest change of numbers that the limits of the columns allow."""
        reach = np.zeros((len(of), 1 + len(self.table.numbers)))
        for i, at in enumerate(self.table.numbers):
            own = self.table.rows[of, at]
            far = [np.abs(end - own) / self.table.columns[at].unit for end in limits(self.table.columns[at], own)]
            reach[:, i] = np.nan_to_num(np.maximum(*far), nan=0.0)
        return self.table.norm.length(reach)

    def _farthest(self, sets: Candidates) -> Floats:
        return _largest(sets, len(self.y))

    def _from_references(self, lost: Ints) -> Candidates:
        """Return the rows that are as similar to references as the rules allow, for rows without any found."""
        whole, _ = parted(self.model)
        given = whole.references if isinstance(whole, Referenced) else _drawn(self.table)
        some = self.table.start().take(np.repeat(lost, len(given)))
        rows, sums = some.rows.copy(), some.sums.copy()
        for at in (*self.table.numbers, *self.table.categories):
            column, own, there = self.table.columns[at], rows[:, at].copy(), np.tile(given[:, at], len(lost))
            if column.is_number:
                low, high = limits(column, own)
                to = within(column, own, np.clip(np.where(np.isnan(there), own, there), low, high))
            else:
                to = np.where(column.allows(own, there) & ~np.isnan(there), there, own)
            rows[:, at] = np.where(np.isnan(own), own, to)
            sums += self.table.layer.change(at, own, rows[:, at])
        return self.table.candidates(some.of, rows, sums)

    def _confirmed(self, some: Candidates) -> tuple[Floats, Floats]:
        """Return the shortest row of each that the original model confirms, and its length."""
        count = len(self.y)
        rows, lengths = np.full_like(self.table.rows, np.nan), np.full(count, np.inf)
        for stretch in (None, *SCHEDULE.stretches):
            now = some if stretch is None else self._stretched(some.take(np.isinf(lengths[some.of])), stretch)
            turns = _turns(now.of)
            for turn in range(SCHEDULE.kept):
                next_ = now.take((turns == turn) & np.isinf(lengths[now.of]))
                if not len(next_):
                    break
                good = self._leaves(next_)
                rows[next_.of[good]], lengths[next_.of[good]] = next_.rows[good], next_.length[good]
            if not np.isinf(lengths[some.of]).any():
                break
        return rows, lengths

    def _leaves(self, some: Candidates) -> Bools:
        """Return whether the original model confirms that rows leave the classes to keep, and keep all rules."""
        before = self.table.rows[some.of]
        valid = [c.allows(before[:, at], some.rows[:, at]) for at, c in enumerate(self.table.columns)]
        named = self.model.predict(some.rows) != self.y[some.of]
        return np.asarray(named & np.stack(valid, axis=1).all(axis=1))

    def _stretched(self, some: Candidates, factor: float) -> Candidates:
        own = self.table.rows[some.of][:, list(self.table.numbers)]
        now = some.rows[:, list(self.table.numbers)]
        farther = own + factor * (now - own)
        for i, at in enumerate(self.table.numbers):
            farther[:, i] = np.clip(farther[:, i], *limits(self.table.columns[at], own[:, i]))
        return shortest(allowed(self.table, some, farther), SCHEDULE.kept)


def searches_table(model: Classifier) -> bool:
    """Return whether a model takes rows of a table and offers gradients."""
    base = _base(model)
    return isinstance(base, TableClassifier) and "gradient" in base.offers


def unmoved(model: Classifier, x: Any, y: Ints, norm: Norm) -> tuple[Classifier, Floats]:
    """Return a classifier of displacements of the numbers of rows, and the samples that are not displaced."""
    table, (_, kept) = _table(model, np.asarray(x, dtype=np.float64), np.asarray(y), norm), parted(model)
    displaced = Displaced(table, table.start())
    return Kept(displaced, kept) if kept else displaced, displaced.samples()


def noise_on_table(
    model: Classifier, norm: Norm, x: Any, y: Ints, keys: Keys, longest: Sequence[Floats], turns: range
) -> Distances:
    """Return the distances of random rows that leave their class, confirmed by the model; `inf` where there is none.

    For each turn, a random row is drawn within each of the lengths that are given for every row.
    """
    rows, y = np.asarray(x, dtype=np.float64), np.asarray(y)
    correct = model.predict(rows) == y
    which, values = np.flatnonzero(correct), np.where(correct, np.inf, 0.0)
    if len(which):
        table = _table(model, rows, y, norm).take(which)
        for turn, most in itertools.product(turns, longest):
            some = random_rows(table, keys[which], turn, most[which]).found()
            some = some.take(some.length < values[which[some.of]])
            if len(some):
                some = some.take(model.predict(some.rows) != y[which[some.of]])
                values[which[some.of]] = some.length
    return Distances(values, correct, Bound.UPPER, norm)


def on_table(estimator: DistanceEstimator, model: Classifier) -> DistanceEstimator:
    """Return the estimator in the form in which it measures a model: by `OnTable` for networks on rows of a table."""
    return OnTable(estimator) if estimator.needs == "gradient" and searches_table(model) else estimator


def check_on_table(estimator: DistanceEstimator, model: Classifier, name: str) -> None:
    """Refuse estimators that cannot measure rows of a table, if the model takes such rows."""
    if not isinstance(_base(model), TableClassifier):
        return
    for each in getattr(estimator, "estimators", (estimator,)):  # of `Tightest`
        why = getattr(type(each), "not_on_tables", "")
        if not why and each.needs == "predict":
            why = "does not know the rules of columns"
        if not why and each.needs == "gradient" and getattr(type(each), "moves", True) and not isinstance(each, Finder):
            why = "does not return the inputs that it finds (it has no method `find`), so they cannot be confirmed"
        if why:
            raise ModelError(
                f"`{name}` cannot measure the rows of a table: it {why}. Choose an estimator that keeps the rules of "
                "columns: `exact_linear`, `exact_tree`, or a search such as `fmn`, whichever the model allows."
            )


def _base(model: Classifier) -> Classifier:
    """Return the original classifier, without classes to keep and references."""
    whole, _ = parted(model)
    return whole.model if isinstance(whole, Referenced) else whole


def _table(model: Classifier, rows: Floats, y: Ints, norm: Norm) -> Table:
    """Return rows in the form in which they are searched."""
    (_, kept), base = parted(model), _base(model)
    assert isinstance(base, TableClassifier)
    layer, classes = FirstLayer.of(base, rows), np.arange(len(base.classes))
    keep = np.isin(classes, kept)[None] if kept else classes == y[:, None]
    return Table(layer, norm, rows, np.broadcast_to(keep, (len(rows), len(classes))), layer.sums(rows))


def _turns(of: Ints) -> Ints:
    """Return for each entry how many entries of the same row come before it; entries of a row follow each other."""
    return np.asarray(np.arange(len(of)) - np.searchsorted(of, of), dtype=np.int64)


def _largest(some: Candidates, count: int) -> Floats:
    found = np.zeros(count)
    np.maximum.at(found, some.of, some.length)
    return found


def _drawn(table: Table) -> Floats:
    """Return random rows within the rules, always the same for a model."""
    source = np.random.Generator(np.random.Philox(key=[0, len(table.columns)]))
    rows = np.empty((SCHEDULE.references, len(table.columns)))
    for at, column in enumerate(table.columns):
        drawn = source.uniform(size=len(rows))
        if column.is_number:
            low, high = (end if np.isfinite(end) else 0.0 for end in (column.low, column.high))
            rows[:, at] = low + drawn * (high - low)
        else:
            places = np.array([*column.reachable, 0], dtype=np.float64)
            rows[:, at] = places[(drawn * max(1, len(column.reachable))).astype(np.int64)]
    return rows
