"""Branch and bound over boxes of atoms. The package's docstring is its pseudo-code."""

from typing import Any, NamedTuple

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.distances.exact_tree.atoms import Atoms
from fairmargin.distances.exact_tree.boxes import Box, Parts, bound_of, enlarged, margins_at, reached, shrink, widest
from fairmargin.distances.exact_tree.cells import Forest
from fairmargin.distances.exact_tree.compiled import L2, LINF, Places, compiled
from fairmargin.distances.exact_tree.decision import Decision, leaves

_GROWTH = 1.3  # of the radius from one round to the next, in L1 and L2
_SPARE = 10  # one part in so many of the budget is for finding any point, if the search could not be finished
_ENTRIES = 64  # number of boxes for which there is room at first


class Margins(NamedTuple):
    """The margins of a rival over the row's own class.

    Parameters
    ----------
    value
        Of each leaf: score of the rival minus score of the row's own class.
    most
        Of each node: the largest margin of the leaves below it.
    start
        The margin before the first tree.
    limit
        The rival cannot win unless the margin exceeds this number.
    """

    value: Floats
    most: Floats
    start: float
    limit: float


class Problem(NamedTuple):
    """The search for the nearest point of one row and one rival."""

    atoms: Atoms
    forest: Forest
    decision: Decision
    margins: Margins
    norm: int
    budget: int


@compiled
def search(problem: Problem, costs: Floats, parts: Parts, best: float) -> tuple[float, float, Places, int, Parts]:
    """Find the nearest point with another class than the row's, among those where the rival's margin is large enough.

    Distances are squared in L2. `costs` holds the distinct costs of all atoms but the row's own ones, ascending. Only
    distances below `best` are of interest.

    Returns
    -------
    tuple
        (lower, upper, point, boxes, parts): bounds of the distance, equal if the search was finished; the atom of each
        column at the upper bound; the number of boxes that were examined; and the room for parts of trees. If nothing
        was found, upper is `best`.
    """
    limit, count = problem.margins.limit, len(costs)
    roots = np.empty(len(problem.forest.roots), np.int32)
    none_built = roots[:0]
    while count and costs[count - 1] >= best:
        count -= 1
    point, boxes = _own(problem.atoms), 0
    if not count:
        return best, best, point, boxes, parts
    # The smallest radius within which the trees, each for itself, could let the rival win: costs[some].
    none, some = -1, count
    while none + 1 < some:
        probe = min(2 * none + 2, count - 1) if some == count else (none + some) // 2
        goal = np.nextafter(costs[probe], np.inf)
        parts, bound = _reached(problem, parts, _around(problem, costs[probe]), goal, none_built)
        none, some = (none, probe) if bound > limit else (probe, some)
    farthest = costs[count - 1] * (1 if problem.norm == LINF else len(point))
    radius, proven = costs[min(some, count - 1)], costs[max(none, 0)]
    spare, step, last = problem.budget // _SPARE, 1, False
    while True:
        everything = radius >= min(best, farthest)
        # Farther points than the radius are left to the next round.
        goal = best if everything else min(best, np.nextafter(radius, np.inf))
        lower = found = goal
        box = _around(problem, radius)
        parts, bound = _reached(problem, parts, box, goal, none_built)
        if bound > limit:
            parts, _ = _reached(problem, parts, box, goal, roots)
            budget = problem.budget - boxes - (0 if last else spare)
            lower, found, place, used, parts = _within(problem, parts, roots, box, goal, budget)
            boxes += used
            if found < goal:
                best, point = found, place
        if lower < found:  # the budget is used up
            proven = max(proven, lower)
        if found < goal or everything:
            return proven if lower < found else best, best, point, boxes, parts
        if lower < found:  # the spare part of it is for any point at all
            radius, last = farthest, True
            continue
        while none + 1 < count and costs[none + 1] <= radius:
            none += 1
        proven = radius
        if problem.norm == LINF:
            # Switches of many categories have the same cost and reach large parts of trees: look below it first.
            switch, probe = _next_switch(problem.atoms, costs[none + 1]), min(none + step, count - 1)
            while probe > none + 1 and costs[probe] >= switch:
                probe -= 1
            radius, step = costs[probe], 2 * step
        else:
            growth = _GROWTH**2 if problem.norm == L2 else _GROWTH
            radius = max(radius * growth, costs[min(none + 1, count - 1)])


@compiled
def _reached(problem: Problem, parts: Parts, box: Box, goal: float, roots: Places) -> tuple[Parts, float]:
    """Return the largest margin that the trees allow, each for itself, in a box at a distance below `goal`.

    If there is room for `roots`, the parts of the trees that are reached are kept.
    """
    while True:
        bound = reached(
            problem.forest,
            problem.atoms,
            _copy(box),
            problem.norm != LINF,
            goal,
            problem.margins.most,
            problem.decision.value,
            parts,
            roots,
        )
        if not np.isnan(bound):
            return parts, problem.margins.start + bound
        parts = enlarged(parts)


@compiled
def _own(atoms: Atoms) -> Places:
    """Return the atoms of the row's own values."""
    point = np.empty(len(atoms.places), np.int32)
    for f in range(len(point)):
        point[f] = atoms.places[f]["own"]
    return point


@compiled
def _next_switch(atoms: Atoms, cost: float) -> float:
    """Return the smallest cost of a switch of categories above a cost."""
    smallest = np.inf
    for f in range(len(atoms.places)):
        place = atoms.places[f]
        for k in range(1, place["count"] if place["words"] else 0):
            this = atoms.atoms[place["offset"] + atoms.atoms[place["offset"] + k]["order"]]["cost"]
            if this > cost:
                smallest = min(smallest, this)
                break
    return smallest


@compiled
def _around(problem: Problem, radius: float) -> Box:
    """Return the box of all atoms that cost at most `radius`."""
    places, atoms = problem.atoms.places, problem.atoms.atoms
    low = _own(problem.atoms)
    high, words = low.copy(), 1
    for f in range(len(low)):
        words += places[f]["words"]
    mask = np.zeros(words, np.uint64)
    for f in range(len(low)):
        at, count = places[f]["offset"], places[f]["count"]
        if places[f]["words"]:
            for k in range(count):
                atom = atoms[at + k]["order"]
                if not atoms[at + atom]["cost"] <= radius:
                    break
                mask[places[f]["word"] + (atom >> 6)] |= np.uint64(1) << np.uint64(atom & 63)
        else:
            while low[f] > 0 and atoms[at + low[f] - 1]["cost"] <= radius:
                low[f] -= 1
            while high[f] < count - 1 and atoms[at + high[f] + 1]["cost"] <= radius:
                high[f] += 1
    return Box(low, high, mask)


@compiled
def _within(
    problem: Problem, parts: Parts, first: Places, whole: Box, best: float, budget: int
) -> tuple[float, float, Places, int, Parts]:
    """Find the nearest point of a box with a distance below `best`.

    `first` holds the roots of the parts of trees that the box reaches. The result is that of `search`.
    """
    atoms, limit, norm, every = problem.atoms, problem.margins.limit, problem.norm, problem.decision.value
    point, boxes = _own(atoms), 0
    if budget <= 0:
        return 0.0, best, point, boxes, parts
    size, near, roots, parent = parts.used[0], point.copy(), first.copy(), _copy(whole)
    margins, box, stack, depth = np.empty(len(first)), _copy(whole), _stack(whole, len(first)), 1
    _push(stack, depth - 1, whole, np.uint64(0), size, first, len(first))
    stack.sums[0, _DISTANCE], stack.sums[0, _DECIDED], stack.sums[0, _BEST] = 0.0, problem.margins.start, best
    while True:
        while depth and stack.sums[depth - 1, _DISTANCE] >= best:
            depth -= 1
        if not depth:
            return best, best, point, boxes, parts
        if boxes >= budget:
            lower = best
            for k in range(depth):
                lower = min(lower, stack.sums[k, _DISTANCE])
            return lower, best, point, boxes, parts
        depth -= 1
        count = _pop(stack, depth, parent, parts, roots)
        while parts.used[0] + size > len(parts.nodes):
            parts = enlarged(parts)
        count, decided = shrink(parts, atoms, every, parent, stack.bits[depth, 0], roots, count)
        if not count:
            continue
        decided += stack.sums[depth, _DECIDED]
        # A part of the box at the same distance has no more atoms to lose, unless a nearer point was found since.
        tight = stack.sums[depth, _DISTANCE] if stack.sums[depth, _BEST] == best else -1.0
        if norm != LINF:
            _distance(atoms, norm, parent, near)
            margins_at(parts, atoms, roots, count, near, margins)
        used, split = parts.used[0], widest(parts, roots, count, margins, norm != LINF)
        before = depth
        for child in range(2):
            boxes += 1
            distance, smaller = _restrict(atoms, norm, parts, parent, split, child == 0, best, tight, box, near)
            if distance >= best:
                continue
            bound = decided + bound_of(parts, atoms, box, smaller, roots, count)
            if bound <= limit:
                continue
            margin = decided + margins_at(parts, atoms, roots, count, near, margins)
            if margin > limit and leaves(problem.decision, problem.forest, atoms, near):
                best = distance
                for f in range(len(point)):
                    point[f] = near[f]
                continue
            if depth == len(stack.places):
                stack = _with_room(stack)
            _push(stack, depth, box, smaller, used, roots, count)
            stack.sums[depth, _DISTANCE], stack.sums[depth, _BOUND], stack.sums[depth, _DECIDED] = (
                distance,
                bound,
                decided,
            )
            depth += 1
        if depth == before + 2 and stack.sums[before, _BOUND] > stack.sums[before + 1, _BOUND]:
            # The child whose trees let the rival win more easily is examined first.
            _swap(stack, before, before + 1)


class Stack(NamedTuple):
    """Boxes to be examined, one per row, with the undecided trees of the larger boxes that they were split from.

    Parameters
    ----------
    places
        First atoms and last atoms of a box, number of the trees, nodes in use, and roots of the parts of the trees that
        the larger box reaches.
    bits
        Bits of the columns in which the box is smaller than the larger one, and of atoms.
    sums
        Distance of the nearest point, largest margin that the trees allow, margin of the decided trees, and distance of
        the nearest point found when the box was made.
    """

    places: Any
    bits: Any
    sums: Any


_DISTANCE, _BOUND, _DECIDED, _BEST = 0, 1, 2, 3


@compiled
def _stack(box: Box, trees: int) -> Stack:
    """Return an empty stack."""
    return Stack(
        np.empty((_ENTRIES, 2 * len(box.low) + 2 + trees), np.int32),
        np.empty((_ENTRIES, 1 + len(box.mask)), np.uint64),
        np.empty((_ENTRIES, 4), np.float64),
    )


@compiled
def _push(stack: Stack, depth: int, box: Box, smaller: Any, used: int, roots: Places, trees: int) -> None:
    """Write a box to the stack."""
    places, bits, features = stack.places[depth], stack.bits[depth], len(box.low)
    for f in range(features):
        places[f], places[features + f] = box.low[f], box.high[f]
    places[2 * features], places[2 * features + 1] = trees, used
    for t in range(trees):
        places[2 * features + 2 + t] = roots[t]
    bits[0] = smaller
    for k in range(len(box.mask)):
        bits[1 + k] = box.mask[k]


@compiled
def _pop(stack: Stack, depth: int, box: Box, parts: Parts, roots: Places) -> int:
    """Read a box from the stack; return the number of undecided trees."""
    places, bits, features = stack.places[depth], stack.bits[depth], len(box.low)
    for f in range(features):
        box.low[f], box.high[f] = places[f], places[features + f]
    trees, parts.used[0] = places[2 * features], places[2 * features + 1]
    for t in range(trees):
        roots[t] = places[2 * features + 2 + t]
    for k in range(len(box.mask)):
        box.mask[k] = bits[1 + k]
    return int(trees)


@compiled
def _with_room(stack: Stack) -> Stack:
    """Return the stack with room for twice as many boxes."""
    larger = Stack(
        np.empty((2 * len(stack.places), stack.places.shape[1]), np.int32),
        np.empty((2 * len(stack.bits), stack.bits.shape[1]), np.uint64),
        np.empty((2 * len(stack.sums), 4), np.float64),
    )
    for depth in range(len(stack.places)):
        for k in range(stack.places.shape[1]):
            larger.places[depth, k] = stack.places[depth, k]
        for k in range(stack.bits.shape[1]):
            larger.bits[depth, k] = stack.bits[depth, k]
        for k in range(4):
            larger.sums[depth, k] = stack.sums[depth, k]
    return larger


@compiled
def _swap(stack: Stack, one: int, other: int) -> None:
    """Swap two boxes that were split from the same one."""
    for k in range(stack.places.shape[1]):
        stack.places[one, k], stack.places[other, k] = stack.places[other, k], stack.places[one, k]
    for k in range(stack.bits.shape[1]):
        stack.bits[one, k], stack.bits[other, k] = stack.bits[other, k], stack.bits[one, k]
    for k in range(4):
        stack.sums[one, k], stack.sums[other, k] = stack.sums[other, k], stack.sums[one, k]


@compiled
def _copy(box: Box) -> Box:
    return Box(box.low.copy(), box.high.copy(), box.mask.copy())


@compiled
def _restrict(
    atoms: Atoms,
    norm: int,
    parts: Parts,
    parent: Box,
    node: int,
    left: bool,
    best: float,
    tight: float,
    box: Box,
    near: Places,
) -> tuple[float, Any]:
    """Write the part of a box that goes to one side of a node to `box`, and its nearest point to `near`.

    Atoms that would make the distance of a point at least `best` are removed; there are none if the distance is
    `tight`. Return the distance, and the bits of the columns that lost atoms.
    """
    for f in range(len(near)):
        box.low[f], box.high[f] = parent.low[f], parent.high[f]
    for k in range(len(box.mask)):
        box.mask[k] = parent.mask[k]
    feature, cut = parts.nodes[node]["feature"], parts.nodes[node]["cut"]
    wide, first = atoms.places[feature]["words"], atoms.places[feature]["word"]
    if not wide:
        if left:
            box.high[feature] = cut - 1
        else:
            box.low[feature] = cut
    for k in range(wide):
        box.mask[first + k] &= parts.sides[cut + k] if left else parts.sides[cut + wide + k]
    distance, smaller = _distance(atoms, norm, box, near), np.uint64(1) << np.uint64(feature & 63)
    if tight < distance < best:
        smaller |= _tighten(atoms, norm, box, near, distance, best)
    return distance, smaller


@compiled
def _distance(atoms: Atoms, norm: int, box: Box, near: Places) -> float:
    """Return the distance of the nearest point of a box, and write the point to `near`."""
    total = 0.0
    for f in range(len(near)):
        place = atoms.places[f]
        at, own = place["offset"], place["own"]
        near[f] = own
        if place["missing"]:
            continue
        if place["words"]:
            for k in range(place["count"]):
                atom = atoms.atoms[at + k]["order"]
                if box.mask[place["word"] + (atom >> 6)] & (np.uint64(1) << np.uint64(atom & 63)):
                    near[f] = atom
                    break
        elif own < box.low[f]:
            near[f] = box.low[f]
        elif own > box.high[f]:
            near[f] = box.high[f]
        if near[f] != own:
            cost = atoms.atoms[at + near[f]]["cost"]
            total = max(total, cost) if norm == LINF else total + cost
    return total


@compiled
def _tighten(atoms: Atoms, norm: int, box: Box, near: Places, distance: float, best: float) -> Any:
    """Remove atoms that would make the distance of a point at least `best`; return bits of the columns that lost some.

    `near` is the nearest point of the box.
    """
    changed, room = np.uint64(0), best
    for f in range(len(near)):
        place = atoms.places[f]
        if place["missing"]:
            continue
        at, smaller, last = place["offset"], False, near[f]
        if norm != LINF:  # rounding must not remove an atom that is just below the best distance
            room = (best - (distance - atoms.atoms[at + last]["cost"])) * (1 + 1e-12)
        if not place["words"]:
            while box.low[f] < last and atoms.atoms[at + box.low[f]]["cost"] >= room:
                box.low[f] += 1
                smaller = True
            while box.high[f] > last and atoms.atoms[at + box.high[f]]["cost"] >= room:
                box.high[f] -= 1
                smaller = True
        else:
            for k in range(place["count"] - 1, 0, -1):
                atom = atoms.atoms[at + k]["order"]
                if atom == last or atoms.atoms[at + atom]["cost"] < room:
                    break
                word, bit = place["word"] + (atom >> 6), np.uint64(1) << np.uint64(atom & 63)
                smaller = smaller or (box.mask[word] & bit) != 0
                box.mask[word] &= ~bit
        if smaller:
            changed |= np.uint64(1) << np.uint64(f & 63)
    return changed
