"""The rows of a shard that are searched from, and the changed rows that a search considers."""

from dataclasses import dataclass, field

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.column import TableColumn
from fairmargin.core.norm import Norm
from fairmargin.models.tables.first_layer import FirstLayer

_CLEAR = 1e-9  # by how much another class must lead, relative to the scores, so that rounding cannot undo it
_FIELDS = ("of", "rows", "sums", "lead", "length")
_AT_ONCE = 4096  # rows whose scores are computed together; their numbers fit into the cache


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows whose distances are searched, all of a class to keep.

    Parameters
    ----------
    layer
        The network, as contributions of columns.
    norm
        Norm of the costs of columns.
    rows
        Coded rows.
    keep
        For each row and class, whether the row has to leave the class.
    sums
        Sums of the first layer of the network.
    numbers, categories
        Positions of the columns that may change.
    """

    layer: FirstLayer
    norm: Norm
    rows: Floats
    keep: Bools
    sums: Floats
    numbers: tuple[int, ...] = field(init=False)
    categories: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        moves = [(at, column) for at, column in enumerate(self.columns) if not column.immutable]
        object.__setattr__(self, "numbers", tuple(at for at, column in moves if column.is_number))
        object.__setattr__(self, "categories", tuple(at for at, column in moves if not column.is_number))

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """The columns with their rules."""
        return self.layer.model.coding.columns

    def take(self, which: Ints) -> "Table":
        """Return some of the rows."""
        return Table(self.layer, self.norm, self.rows[which], self.keep[which], self.sums[which])

    def start(self) -> "Candidates":
        """Return the unchanged rows."""
        own = np.arange(len(self.rows))
        return Candidates(own, self.rows, self.sums, self.lead(own, self.sums), np.zeros(len(own)))

    def lead(self, of: Ints, sums: Floats) -> Floats:
        """Return the lead of the classes to keep, of rows that come from the rows `of`; negative if clearly lost."""
        found = np.empty(len(of))
        for start in range(0, len(of), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            scores, keep = self.layer.head.scores_of_first(sums[block]), self.keep[of[block]]
            best, other = np.where(keep, scores, -np.inf).max(axis=1), np.where(keep, -np.inf, scores).max(axis=1)
            found[block] = best - other + _CLEAR * (1 + np.abs(scores).max(axis=1))
        return found

    def slopes(self, of: Ints, sums: Floats) -> Floats:
        """Return the gradient of the lead with respect to the sums of the first layer."""
        scores, keep = self.layer.head.scores_of_first(sums), self.keep[of]
        weight, every = np.zeros_like(scores), np.arange(len(of))
        weight[every, np.where(keep, scores, -np.inf).argmax(axis=1)] = 1.0
        weight[every, np.where(keep, -np.inf, scores).argmax(axis=1)] = -1.0
        return self.layer.head.slopes_of_first(sums, weight)

    def costs(self, of: Ints, rows: Floats) -> Floats:
        """Return the cost of the change of each column."""
        before = self.rows[of]
        each = [column.cost_of(before[:, at], rows[:, at]) for at, column in enumerate(self.columns)]
        return np.stack(each, axis=1)

    def candidates(self, of: Ints, rows: Floats, sums: Floats) -> "Candidates":
        """Return changed rows with their leads and lengths."""
        return Candidates(of, rows, sums, self.lead(of, sums), self.norm.length(self.costs(of, rows)))

    def moved(self, some: "Candidates", column: int, values: Floats) -> Floats:
        """Return the sums of candidates after a column is set to these values."""
        return some.sums + self.layer.change(column, some.rows[:, column], values)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Changed rows.

    Parameters
    ----------
    of
        The position of the row that was changed.
    rows
        The changed rows.
    sums
        Their sums of the first layer.
    lead
        Their lead of the classes to keep, negative if the row leaves them.
    length
        Their distance.
    """

    of: Ints
    rows: Floats
    sums: Floats
    lead: Floats
    length: Floats

    def __len__(self) -> int:
        return len(self.of)

    def take(self, which: Ints | Bools | slice) -> "Candidates":
        """Return some of them."""
        return Candidates(*(getattr(self, name)[which] for name in _FIELDS))

    def replaced(self, which: Ints, other: "Candidates") -> "Candidates":
        """Return these candidates, with others at the positions `which`."""
        made = []
        for name in _FIELDS:
            array = getattr(self, name).copy()
            array[which] = getattr(other, name)
            made.append(array)
        return Candidates(*made)

    def found(self) -> "Candidates":
        """Return those that leave the classes to keep."""
        return self.take(self.lead < 0)

    def set(self, table: Table, column: int, values: Floats) -> "Candidates":
        """Return candidates with other values in a column."""
        rows = self.rows.copy()
        rows[:, column] = values
        return table.candidates(self.of, rows, table.moved(self, column, values))


def joined(*several: Candidates) -> Candidates:
    """Return all candidates together."""
    return Candidates(*(np.concatenate([getattr(each, name) for each in several]) for name in _FIELDS))


def best(of: Ints, key: Floats, most: int) -> Ints:
    """Return the positions of the `most` entries with the smallest keys for each number in `of`, smallest first.

    Of equal keys the first comes first, so that the result for a row does not depend on other rows.

    >>> best(np.array([0, 0, 1, 0]), np.array([3.0, 1.0, 5.0, 2.0]), most=2).tolist()
    [1, 3, 2]
    """
    order = np.lexsort((key, of))
    ordered = of[order]
    turn = np.arange(len(of)) - np.searchsorted(ordered, ordered)
    return order[turn < most]


def nearest_of(some: Candidates, count: int) -> Floats:
    """Return the length of the shortest candidate of each of `count` rows, `inf` without any."""
    found = np.full(count, np.inf)
    np.minimum.at(found, some.of, some.length)
    return found


def shortest(some: Candidates, most: int) -> Candidates:
    """Return the shortest distinct candidates of each row."""
    some = some.take(best(some.of, some.length, len(some)))
    if not len(some):
        return some
    # Equal rows have equal lengths, so they follow each other unless others are equally long.
    same = (some.of[1:] == some.of[:-1]) & _equal(some.rows[1:], some.rows[:-1])
    some = some.take(np.append(True, ~same))
    return some.take(best(some.of, some.length, most))


def _equal(a: Floats, b: Floats) -> Bools:
    return np.asarray(((a == b) | (np.isnan(a) & np.isnan(b))).all(axis=1))
