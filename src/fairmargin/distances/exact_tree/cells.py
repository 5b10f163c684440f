"""Cells of columns, in which no tree changes its answer, and the nodes of an ensemble in terms of cells."""

from typing import NamedTuple

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.column import TableColumn
from fairmargin.core.domain import Domain
from fairmargin.distances.exact_tree.compiled import Places, Records, Words, compiled
from fairmargin.models.trees.ensemble import NO_SET, TreeEnsemble

_BITS = 64

COLUMN = np.dtype(
    [
        *((name, np.int64) for name in ("offset", "size", "word", "words", "listed", "last_listed", "switch")),
        *((name, np.float64) for name in ("low", "high", "unit", "step", "gap")),
        *((name, np.bool_) for name in ("is_number", "single", "up", "down")),
    ],
    align=True,
)
"""A column: where its entries of arrays over cells begin, and the number of its cells; where its bits begin in arrays
of bits, one for each cell, and their number of words, which is 0 if boxes are intervals of its cells; where its numbers
begin and end in the list of allowed numbers, which is empty if all are allowed; where its matrix of costs begins; and
the rules of `TableColumn`. A number that may neither rise nor fall does not move."""

NODE = np.dtype(
    [*((name, np.int32) for name in ("feature", "cut", "left", "right")), ("missing_left", np.bool_)], align=True
)
"""A node of the ensemble: as in `TreeEnsemble`, but `cut` is the number of cells that lie left if boxes are intervals
of the column's cells; otherwise it is where the bits of the cells that lie left begin."""


class Grid(NamedTuple):
    """The cells of all columns, numbered together, and the rules of the columns.

    The cells of a number are intervals between thresholds; those of a category are its places, and the place after the
    last one for unknown categories.

    Parameters
    ----------
    columns
        The columns, records of the type `COLUMN`.
    begins
        The smallest value of each cell, and after those of each column `inf`.
    allowed
        Allowed numbers.
    costs
        Cost of the switch from each category to each other, `inf` where the rules do not allow it.
    """

    columns: Records
    begins: Floats
    allowed: Floats
    costs: Floats


class Forest(NamedTuple):
    """The nodes of an ensemble in terms of cells.

    Parameters
    ----------
    nodes
        The nodes, records of the type `NODE`.
    roots
        The root of each tree.
    bits
        Bits of sets of cells.
    depth
        Number of nodes on the longest path.
    """

    nodes: Records
    roots: Places
    bits: Words
    depth: int


def cells_of(trees: TreeEnsemble, domain: Domain, features: int) -> tuple[Grid, Forest]:
    """Return the cells of the columns of rows, and the nodes of an ensemble in terms of them."""
    rules = domain.columns or _plain(domain, features)
    with_sets = np.isin(np.arange(features), trees.feature[trees.set_of != NO_SET])
    begins = []
    for rule, limits, has_set in zip(rules, trees.thresholds(features), with_sets, strict=True):
        if not rule.is_number:
            begins.append(np.arange(len(rule.categories) + 1.0))
            continue
        if has_set:
            limits = np.union1d(limits, np.arange(trees.sets.shape[1] + 1.0))
        begins.append(np.append(-np.inf, limits))
    grid = _grid(rules, begins, with_sets)
    return grid, _forest(trees, grid)


def _plain(domain: Domain, features: int) -> tuple[TableColumn, ...]:
    """Return the rules of features that are plain numbers."""
    movable = domain.movable(features)
    return tuple(
        TableColumn("", "number", unit=scale if moves else 1.0, low=low, high=high, immutable=not moves)
        for low, high, scale, moves in zip(*domain.flat(features), movable, strict=True)
    )


def _grid(rules: tuple[TableColumn, ...], begins: list[Floats], with_sets: Bools) -> Grid:
    columns = np.zeros(len(rules), dtype=COLUMN)
    for name in ("low", "high", "unit", "step", "gap", "is_number", "single"):
        columns[name] = [getattr(rule, name) for rule in rules]
    size = np.array([len(each) for each in begins], dtype=np.int64)
    columns["size"], columns["offset"] = size, _starts(size + 1)
    columns["words"] = np.where(~columns["is_number"] | with_sets, -(-size // _BITS), 0)
    columns["word"] = _starts(columns["words"])
    allowed = [np.zeros(0) if rule.allowed is None else rule.allowed for rule in rules]
    counts = np.array([len(each) for each in allowed])
    columns["listed"], columns["last_listed"] = _starts(counts), np.cumsum(counts)
    # A column of which no number is allowed does not move.
    fixed = np.array([rule.immutable or (rule.allowed is not None and not len(rule.allowed)) for rule in rules])
    columns["up"] = np.array([rule.direction != "down" for rule in rules]) & ~fixed
    columns["down"] = np.array([rule.direction != "up" for rule in rules]) & ~fixed
    costs = [np.zeros(0) if rule.is_number else _switches(rule) for rule in rules]
    columns["switch"] = _starts(np.array([len(each) for each in costs]))
    return Grid(
        columns,
        np.concatenate([np.append(each, np.inf) for each in begins]),
        np.concatenate(allowed),
        np.concatenate(costs),
    )


def _switches(rule: TableColumn) -> Floats:
    """Return the cost of the switch from each place to each other, `inf` where the rule does not allow it."""
    places = np.arange(len(rule.categories) + 1.0)
    before, after = np.meshgrid(places, places, indexing="ij")
    return np.where(rule.allows(before, after), rule.cost_of(before, after), np.inf).ravel()


def _starts(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _forest(trees: TreeEnsemble, grid: Grid) -> Forest:
    nodes = np.zeros(len(trees.feature), dtype=NODE)
    for name in ("feature", "left", "right", "missing_left"):
        nodes[name] = getattr(trees, name)
    bits: list[Words] = [np.zeros(1, dtype=np.uint64)]
    start = 1
    for feature, column in enumerate(grid.columns):
        here = np.flatnonzero(trees.feature == feature)
        begins = grid.begins[column["offset"] : column["offset"] + column["size"]]
        if not column["words"]:
            nodes["cut"][here] = np.searchsorted(begins, trees.first_right[here])
            continue
        sets, of = _distinct_sets(trees, here, begins)
        nodes["cut"][here] = start + column["words"] * of
        packed = np.zeros((len(sets), column["words"] * 8), dtype=np.uint8)
        eights = np.packbits(sets, axis=1, bitorder="little")
        packed[:, : eights.shape[1]] = eights
        bits.append(packed.view("<u8").astype(np.uint64).ravel())
        start += len(bits[-1])
    return Forest(nodes, trees.roots.astype(np.int32), np.concatenate(bits), _depth(nodes))


def _distinct_sets(trees: TreeEnsemble, nodes: Ints, begins: Floats) -> tuple[Bools, Ints]:
    """Return the distinct sets of cells that go left at some nodes of a column, and the set of each node."""
    by_set = trees.set_of[nodes] != NO_SET
    below = np.searchsorted(begins, trees.first_right[nodes])
    _, first, of = np.unique(
        np.where(by_set, 2 * trees.set_of[nodes] + trees.missing_left[nodes], -1 - below),
        return_index=True,
        return_inverse=True,
    )
    width = trees.sets.shape[1]
    known = (begins >= 0) & (begins < width)
    sets = np.zeros((len(first), len(begins)), dtype=bool)
    for row, i in enumerate(first):
        sets[row] = np.arange(len(begins)) < below[i]
        if by_set[i]:
            node = nodes[i]
            sets[row] = trees.missing_left[node]
            sets[row, known] = trees.sets[trees.set_of[node], begins[known].astype(np.int64)]
    return sets, of


@compiled
def _depth(nodes: Records) -> int:
    """Return the number of nodes on the longest path; children come after their parents."""
    depths = np.ones(len(nodes), np.int32)
    for at in range(len(nodes) - 1, -1, -1):
        if nodes[at]["feature"] >= 0:
            depths[at] = 1 + max(depths[nodes[at]["left"]], depths[nodes[at]["right"]])
    return int(depths.max()) if len(nodes) else 0
