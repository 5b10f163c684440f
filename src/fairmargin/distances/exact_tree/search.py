"""Branch and bound over boxes of cells, compiled by numba. The package's docstring is its pseudo-code."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit

from fairmargin.core.arrays import Bools, Floats, Ints

Function = TypeVar("Function", bound=Callable[..., Any])

LINF, L1, L2 = 0, 1, 2
_GROWTH = 1.5  # of the radius from one round to the next


def compiled(function: Function) -> Function:
    """Compile a function with numba and keep the machine code on disk, without losing its type."""
    return cast(Function, njit(cache=True)(function))


class Margins(NamedTuple):
    """The trees of an ensemble for one pair of classes.

    Parameters
    ----------
    feature, cell, left, right
        Of each node: its feature (-1 for a leaf), the last cell that goes left, and its children.
    value
        Of each leaf: score of the rival minus score of the row's own class.
    most
        Of each node: the largest value of the leaves below it.
    roots
        The root of each tree.
    start
        The margin before the first tree.
    limit
        The rival cannot win unless the margin exceeds this number.
    """

    feature: Ints
    cell: Ints
    left: Ints
    right: Ints
    value: Floats
    most: Floats
    roots: Ints
    start: float
    limit: float


class Decision(NamedTuple):
    """How the library decides: its own sums, in its order and precision.

    Parameters
    ----------
    kept
        Whether each class is one that the row must leave.
    value
        Of each leaf: its contribution to the score of every class.
    start
        Score of every class before the first tree.
    divisor
        Number by which the library divides the sums before it compares them.
    single
        Whether the library adds in float32.
    last_wins_ties
        Whether the last of several equal scores wins.
    lead
        A class must be ahead of all classes before it by more than this number to win.
    surplus
        The smallest lead over all kept classes that counts as leaving them; any if 0.
    """

    kept: Bools
    value: Floats
    start: Floats
    divisor: float
    single: bool
    last_wins_ties: bool
    lead: float
    surplus: float


class Grid(NamedTuple):
    """The cells of all features, numbered together, and the domain.

    Parameters
    ----------
    offset, sizes
        The first cell of each feature, and their number.
    begins
        The smallest value of each cell.
    low, high, scale, movable
        Of each feature: its bounds, the unit of its changes, and whether it may change.
    """

    offset: Ints
    sizes: Ints
    begins: Floats
    low: Floats
    high: Floats
    scale: Floats
    movable: Bools


class Cells(NamedTuple):
    """The cells of one row.

    Parameters
    ----------
    offset
        Index of the first cell of each feature in `cost`.
    own
        The cell of the row's own value of each feature.
    low, high
        First and last admissible cell of each feature.
    cost
        Cost of each cell: its distance from the row's value, squared in L2; `inf` if no value is admissible.
    """

    offset: Ints
    own: Ints
    low: Ints
    high: Ints
    cost: Floats


@compiled
def cells_of(row: Floats, grid: Grid, norm: int) -> tuple[Cells, Floats]:
    """Return the cells of a row, and the admissible value of each cell that is nearest to the row's value."""
    count = len(row)
    own, low, high = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    cost, value = np.full(len(grid.begins), np.inf), np.zeros(len(grid.begins))
    for f in range(count):
        at, size = grid.offset[f], grid.sizes[f]
        if np.isnan(row[f]):  # a missing value stays missing; see `_last_left`
            cost[at] = 0.0
            continue
        own[f] = np.searchsorted(grid.begins[at : at + size], row[f], side="right") - 1
        low[f] = high[f] = own[f]
        cost[at + own[f]], value[at + own[f]] = 0.0, row[f]
        if not grid.movable[f]:
            continue
        for c in range(size):
            if c == own[f]:
                continue
            # Above the own cell the first value of a cell is the nearest, below it the last one.
            near = grid.begins[at + c] if c > own[f] else np.nextafter(grid.begins[at + c + 1], -np.inf)
            if grid.low[f] <= near <= grid.high[f]:
                change = abs(near - row[f]) / grid.scale[f]
                cost[at + c] = change * change if norm == L2 else change
                value[at + c] = near
                low[f], high[f] = min(low[f], c), max(high[f], c)
    return Cells(grid.offset, own, low, high, cost), value


@compiled
def search(
    margins: Margins, decision: Decision, cells: Cells, norm: int, best: float, budget: int
) -> tuple[float, float, Ints, int]:
    """Find the nearest point with another class than the row's, among those where the rival's margin is large enough.

    Distances are squared in L2. Only distances below `best` are of interest.

    Returns
    -------
    tuple
        (lower, upper, point, boxes): bounds of the distance, equal if the search was finished; the cell of each feature
        at the upper bound; and the number of boxes that were examined. If nothing was found, upper is `best`.
    """
    count = len(cells.own)
    point = cells.own.copy()
    smallest, largest = np.inf, 0.0
    for f in range(count):
        for c in range(cells.low[f], cells.high[f] + 1):
            cost = cells.cost[cells.offset[f] + c]
            if c != cells.own[f] and cost < smallest:
                smallest = cost
            if cost < np.inf and cost > largest:
                largest = cost
    growth = _GROWTH**2 if norm == L2 else _GROWTH
    # With the cells up to the largest cost, all points are included.
    radius = max(smallest, 1e-300)
    proven, boxes = 0.0, 0
    while True:
        everything = radius >= largest or radius >= best
        # In a round that does not include everything, points beyond the radius are left to the next round.
        goal = best if everything else min(best, np.nextafter(radius, np.inf))
        lower, found, place, used = _within(margins, decision, cells, norm, goal, budget - boxes)
        boxes += used
        if lower < found:  # the budget is used up
            return max(lower, proven), found if found < goal else best, place if found < goal else point, boxes
        if found < goal:
            return found, found, place, boxes
        if everything:
            return best, best, point, boxes
        proven = radius
        radius *= growth


@compiled
def _within(
    margins: Margins, decision: Decision, cells: Cells, norm: int, best: float, budget: int
) -> tuple[float, float, Ints, int]:
    """Find the nearest point with a distance below `best`; return (lower, upper, point, boxes)."""
    count, trees = len(cells.own), len(margins.roots)
    point = cells.own.copy()
    lows, highs = np.empty((64, count), np.int64), np.empty((64, count), np.int64)
    roots = np.empty((64, trees), np.int64)
    lows[0], highs[0], roots[0] = cells.low, cells.high, margins.roots
    depth, boxes = 1, 0
    low, high, near = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    root = np.empty(trees, np.int64)
    pending = np.empty(len(margins.feature) + 1, np.int64)
    while depth:
        if boxes >= budget:
            least = best
            for k in range(depth):
                least = min(least, _distance(cells, norm, lows[k], highs[k]))
            return least, best, point, boxes
        boxes += 1
        depth -= 1
        low[:], high[:], root[:] = lows[depth], highs[depth], roots[depth]
        distance = _distance(cells, norm, low, high)
        if distance >= best or not _tighten(cells, norm, low, high, distance, best):
            continue
        for f in range(count):
            near[f] = min(max(cells.own[f], low[f]), high[f])
        bound = value = margins.start
        widest, widest_gap = -1, -1.0
        for t in range(trees):
            node = root[t]
            while margins.feature[node] >= 0:
                f, c = margins.feature[node], margins.cell[node]
                if high[f] <= c:
                    node = margins.left[node]
                elif low[f] > c:
                    node = margins.right[node]
                else:
                    break
            root[t] = node
            here = _at(margins, node, near)
            most = _most(margins, node, low, high, here, pending)
            bound += most
            value += here
            if margins.feature[node] >= 0 and most - here > widest_gap:
                widest, widest_gap = t, most - here
        if value > margins.limit and _left(margins, decision, near):
            best = distance
            point[:] = near
            continue
        if widest < 0 or bound <= margins.limit:
            continue
        if depth + 2 > len(lows):
            lows, highs, roots = _doubled(lows), _doubled(highs), _doubled(roots)
        node = root[widest]
        f, c = margins.feature[node], margins.cell[node]
        # The child whose leaves let the rival win more easily is examined first.
        kept = high[f]
        high[f] = c
        if_left = _most(margins, margins.left[node], low, high, -np.inf, pending)
        high[f] = kept
        kept = low[f]
        low[f] = c + 1
        if_right = _most(margins, margins.right[node], low, high, -np.inf, pending)
        low[f] = kept
        left_first = if_left > if_right or (if_left == if_right and near[f] <= c)
        for k in range(2):
            lows[depth], highs[depth], roots[depth] = low, high, root
            if (k == 0) == left_first:
                lows[depth, f] = c + 1
            else:
                highs[depth, f] = c
            depth += 1
    return best, best, point, boxes


@compiled
def _left(margins: Margins, decision: Decision, point: Ints) -> bool:
    """Return whether the library predicts a class at a point that is not kept."""
    scores = decision.start.copy()
    for root in margins.roots:
        node = root
        while margins.feature[node] >= 0:
            node = margins.left[node] if point[margins.feature[node]] <= margins.cell[node] else margins.right[node]
        for k in range(len(scores)):
            scores[k] += decision.value[node, k]
            if decision.single:
                scores[k] = np.float32(scores[k])
    winner = 0
    for k in range(1, len(scores)):
        score, leader = scores[k] / decision.divisor, scores[winner] / decision.divisor
        if score - leader > decision.lead or (decision.last_wins_ties and score == leader):
            winner = k
    if decision.kept[winner]:
        return False
    for k in range(len(scores)):
        if decision.kept[k] and decision.surplus > 0 and scores[winner] - scores[k] < decision.surplus:
            return False
    return True


@compiled
def _distance(cells: Cells, norm: int, low: Ints, high: Ints) -> float:
    """Return the distance of the nearest point of a box."""
    total = 0.0
    for f in range(len(low)):
        own = cells.own[f]
        if low[f] <= own <= high[f]:
            continue
        cost = cells.cost[cells.offset[f] + (low[f] if own < low[f] else high[f])]
        total = max(total, cost) if norm == LINF else total + cost
    return total


@compiled
def _tighten(cells: Cells, norm: int, low: Ints, high: Ints, distance: float, best: float) -> bool:
    """Remove cells that would make the distance of a point at least `best`; return whether the box is not empty."""
    for f in range(len(low)):
        own, at = cells.own[f], cells.offset[f]
        room = best
        if norm != LINF:
            nearest = 0.0
            if not low[f] <= own <= high[f]:
                nearest = cells.cost[at + (low[f] if own < low[f] else high[f])]
            # Rounding must not remove a cell that is just below the best distance.
            room = (best - (distance - nearest)) * (1 + 1e-12)
        while low[f] < own and low[f] <= high[f] and cells.cost[at + low[f]] >= room:
            low[f] += 1
        while high[f] > own and high[f] >= low[f] and cells.cost[at + high[f]] >= room:
            high[f] -= 1
        if low[f] > high[f]:
            return False
    return True


@compiled
def _at(margins: Margins, node: int, point: Ints) -> float:
    """Return the value of the leaf of a point, below a node."""
    while margins.feature[node] >= 0:
        node = margins.left[node] if point[margins.feature[node]] <= margins.cell[node] else margins.right[node]
    return float(margins.value[node])


@compiled
def _most(margins: Margins, node: int, low: Ints, high: Ints, most: float, pending: Ints) -> float:
    """Return the largest value of the leaves below a node that a box reaches, but at least `most`."""
    pending[0] = node
    count = 1
    while count:
        count -= 1
        node = pending[count]
        if margins.most[node] <= most:
            continue
        f = margins.feature[node]
        if f < 0:
            most = margins.value[node]
            continue
        c = margins.cell[node]
        if high[f] > c:
            pending[count] = margins.right[node]
            count += 1
        if low[f] <= c:
            pending[count] = margins.left[node]
            count += 1
    return most


@compiled
def most_below(feature: Ints, left: Ints, right: Ints, value: Floats) -> Floats:
    """Return the largest value of the leaves below each node; children come after their parents."""
    most = value.copy()
    for node in range(len(feature) - 1, -1, -1):
        if feature[node] >= 0:
            most[node] = max(most[left[node]], most[right[node]])
    return most


@compiled
def _doubled(array: Ints) -> Ints:
    """Return the array with room for twice as many rows."""
    larger = np.empty((2 * len(array), array.shape[1]), np.int64)
    larger[: len(array)] = array
    return larger
