"""Boxes of atoms, and the parts of trees that a box reaches."""

from typing import Any, NamedTuple

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.distances.exact_tree.atoms import Atoms
from fairmargin.distances.exact_tree.cells import Forest
from fairmargin.distances.exact_tree.compiled import Places, Records, Words, compiled

PART = np.dtype(
    [
        *((name, np.int32) for name in ("feature", "cut", "left", "right")),
        ("most", np.float64),
        ("below", np.uint64),
    ],
    align=True,
)
"""A node of the reachable part of a tree: its column, -1 for a leaf; the first atom that goes right, or where the bits
of the atoms that go left begin, which those of the atoms that go right follow, or of a leaf its node in the ensemble;
its children; the largest margin of the leaves below it; and bits of the columns, modulo 64, of it and all below it."""


class Box(NamedTuple):
    """A box of atoms.

    Parameters
    ----------
    low, high
        First and last atom of each column whose boxes are intervals.
    mask
        Bits of the atoms of the other columns.
    """

    low: Places
    high: Places
    mask: Words


class Parts(NamedTuple):
    """The nodes of reachable parts of trees. Parts of a smaller box share what they can with those of a larger one.

    Parameters
    ----------
    nodes
        Records of the type `PART`.
    sides
        Bits of sets of atoms that go to the sides of nodes, only of atoms that reach the node.
    used
        Number of nodes, and number of words of `sides`, that are in use.
    path
        Room for the nodes on a path.
    masks, totals
        Room for what is known at the nodes on a path: bits of atoms, and distances.
    """

    nodes: Records
    sides: Words
    used: Ints
    path: Places
    masks: Words
    totals: Floats


def room(size: int, depth: int, words: int) -> Parts:
    """Return room for parts of trees of a certain depth."""
    return Parts(
        np.zeros(size, dtype=PART),
        np.zeros(size, dtype=np.uint64),
        np.zeros(2, dtype=np.int64),
        np.zeros((depth + 1, 6), dtype=np.int32),
        np.zeros((depth + 1, max(1, words)), dtype=np.uint64),
        np.zeros((depth + 2, 3)),
    )


@compiled
def enlarged(parts: Parts) -> Parts:
    """Return the same parts with twice the room."""
    nodes, sides = np.empty(2 * len(parts.nodes), parts.nodes.dtype), np.empty(2 * len(parts.sides), np.uint64)
    for k in range(parts.used[0]):
        nodes[k] = parts.nodes[k]
    for k in range(parts.used[1]):
        sides[k] = parts.sides[k]
    return Parts(nodes, sides, parts.used, parts.path, parts.masks, parts.totals)


@compiled
def most_below(forest: Forest, margin: Floats) -> Floats:
    """Return the largest margin of the leaves below each node; children come after their parents."""
    most = margin.copy()
    for at in range(len(most) - 1, -1, -1):
        node = forest.nodes[at]
        if node["feature"] >= 0:
            most[at] = max(most[node["left"]], most[node["right"]])
    return most


@compiled
def reached(
    forest: Forest,
    atoms: Atoms,
    box: Box,
    by_sum: bool,
    limit: float,
    most: Floats,
    every: Floats,
    parts: Parts,
    roots: Places,
) -> float:
    """Return the sum over trees of the largest margin that a box reaches, at a distance below a limit.

    The parts of the trees that are reached are written to `parts`, and their roots to `roots`, unless that is empty;
    NaN means that there was no room.

    Parameters
    ----------
    box
        The box. The constraints of the way down a tree are applied to it, so that no path contradicts itself, and are
        removed afterwards.
    by_sum
        Whether costs are added. Then a way down is not taken if the sum of the costs of its steps aside is too large.
    most
        Of each node: the largest margin of the leaves below it.
    every
        Of each leaf: its contribution to the score of every class.
    """
    nodes, sides, path, masks, totals = parts.nodes, parts.sides, parts.path, parts.masks, parts.totals
    low, high, mask, bits = box.low, box.high, box.mask, forest.bits
    # Rounding must not exclude a point that is just below the limit.
    limit *= 1 + 1e-12
    bound, build = 0.0, len(roots) > 0
    if build:
        parts.used[0] = parts.used[1] = 0
    for t in range(len(forest.roots)):
        deep, at, result, best = 0, np.int64(forest.roots[t]), -1, -np.inf
        totals[0, 0] = 0.0
        while True:
            # Down to a leaf.
            while build or most[at] > best:
                node = forest.nodes[at]
                f, cut = node["feature"], node["cut"]
                if f < 0:
                    best = max(best, most[at])
                    if build:
                        if parts.used[0] + 2 > len(nodes):
                            return np.nan
                        result = parts.used[0]
                        leaf = nodes[result]
                        leaf["feature"], leaf["cut"], leaf["most"], leaf["below"] = -1, at, most[at], 0
                        parts.used[0] += 1
                    break
                place = atoms.places[f]
                if place["missing"]:
                    at = np.int64(node["left"] if node["missing_left"] else node["right"])
                    continue
                first, wide, own, offset = place["word"], place["words"], place["own"], place["offset"]
                # The nearest point of the box goes to one side; `aside` is the nearest atom that goes to the other.
                if not wide:
                    c = atoms.atoms[offset + cut]["below"]
                    if high[f] < c:
                        at = np.int64(node["left"])
                        continue
                    if low[f] >= c:
                        at = np.int64(node["right"])
                        continue
                    near = min(max(own, low[f]), high[f])
                    goes_left = near < c
                    aside = c if goes_left else c - 1
                else:
                    c, near, aside, goes_left = cut, -1, -1, False
                    for k in range(place["count"]):
                        atom = atoms.atoms[offset + k]["order"]
                        word, bit = atom >> 6, np.uint64(1) << np.uint64(atom & 63)
                        if mask[first + word] & bit:
                            left = (bits[cut + word] & bit) != 0
                            if near < 0:
                                near, goes_left = atom, left
                            elif left != goes_left:
                                aside = atom
                                break
                    if aside < 0:
                        at = np.int64(node["left"] if goes_left else node["right"])
                        continue
                here = totals[deep, 0]
                if by_sum:
                    further = here - atoms.atoms[offset + near]["cost"] + atoms.atoms[offset + aside]["cost"]
                    if further >= limit:
                        at = np.int64(node["left"] if goes_left else node["right"])
                        continue
                    totals[deep, 1] = here if goes_left else further
                    totals[deep, 2] = further if goes_left else here
                if build and wide:
                    c = parts.used[1]
                    if c + 2 * wide > len(sides):
                        return np.nan
                    parts.used[1] += 2 * wide
                    for k in range(wide):
                        sides[c + k], sides[c + wide + k] = (
                            mask[first + k] & bits[cut + k],
                            mask[first + k] & ~bits[cut + k],
                        )
                left = build or most[node["left"]] >= most[node["right"]]
                path[deep, 0], path[deep, 1], path[deep, 2] = at, c, -1
                path[deep, 3], path[deep, 4], path[deep, 5] = low[f], high[f], left
                for k in range(wide):
                    masks[deep, k] = mask[first + k]
                    mask[first + k] &= bits[cut + k] if left else ~bits[cut + k]
                if not wide and left:
                    high[f] = c - 1
                elif not wide:
                    low[f] = c
                totals[deep + 1, 0] = totals[deep, 1 if left else 2]
                at = np.int64(node["left"] if left else node["right"])
                deep += 1
            # Up to a node whose other side is still to be visited.
            while deep:
                i = deep - 1
                node = forest.nodes[path[i, 0]]
                f, cut, c, left = node["feature"], node["cut"], path[i, 1], path[i, 5] != 0
                first, wide = atoms.places[f]["word"], atoms.places[f]["words"]
                low[f], high[f] = path[i, 3], path[i, 4]
                for k in range(wide):
                    mask[first + k] = masks[i, k]
                if path[i, 2] < 0:
                    path[i, 2] = result if build else 0
                    for k in range(wide):
                        mask[first + k] &= ~bits[cut + k] if left else bits[cut + k]
                    if not wide and left:
                        low[f] = c
                    elif not wide:
                        high[f] = c - 1
                    totals[deep, 0] = totals[i, 2 if left else 1]
                    at = np.int64(node["right"] if left else node["left"])
                    break
                deep -= 1
                if build:
                    if parts.used[0] + 2 > len(nodes):
                        return np.nan
                    result = _joined(parts, every, f, c, path[i, 2], result)
            else:
                break
        bound += best
        if build:
            roots[t] = result
    return bound


@compiled
def _joined(parts: Parts, every: Floats, feature: int, cut: int, left: int, right: Any) -> int:
    """Return a node with these children, or one of them if they are leaves with the same values."""
    nodes = parts.nodes
    one, other = nodes[left], nodes[right]
    if one["feature"] < 0 and other["feature"] < 0:
        same = True
        for k in range(every.shape[1]):
            same = same and every[one["cut"], k] == every[other["cut"], k]
        if same:
            return left
    new = parts.used[0]
    parts.used[0] += 1
    node = nodes[new]
    node["feature"], node["cut"], node["left"], node["right"] = feature, cut, left, right
    node["most"] = max(one["most"], other["most"])
    node["below"] = one["below"] | other["below"] | (np.uint64(1) << np.uint64(feature & 63))
    return int(new)


@compiled
def shrink(
    parts: Parts, atoms: Atoms, every: Floats, box: Box, changed: np.uint64, roots: Places, count: int
) -> tuple[int, float]:
    """Replace the roots of parts of trees by those of the parts that a smaller box reaches, without decided trees.

    `changed` has the bits of the smaller columns. There must be room for as many nodes as the trees have. Return the
    number of undecided trees, and the sum of the margins of the trees that are decided now.
    """
    nodes, sides, path = parts.nodes, parts.sides, parts.path
    low, high, mask = box.low, box.high, box.mask
    left_over, decided = 0, 0.0
    for t in range(count):
        deep, at = 0, np.int64(roots[t])
        while True:
            while nodes[at]["below"] & changed:
                node = nodes[at]
                f, c = node["feature"], node["cut"]
                wide, first = atoms.places[f]["words"], atoms.places[f]["word"]
                if not wide:
                    some_left, some_right = low[f] < c, high[f] >= c
                else:
                    some_left = some_right = False
                    for k in range(wide):
                        some_left = some_left or (mask[first + k] & sides[c + k]) != 0
                        some_right = some_right or (mask[first + k] & sides[c + wide + k]) != 0
                if some_left and some_right:
                    path[deep, 0], path[deep, 2] = at, -1
                    deep += 1
                at = np.int64(node["left"] if some_left else node["right"])
            result = at
            while deep:
                i = deep - 1
                at = np.int64(path[i, 0])
                node = nodes[at]
                if path[i, 2] < 0:
                    path[i, 2] = result
                    at = np.int64(node["right"])
                    break
                deep -= 1
                if path[i, 2] == node["left"] and result == node["right"]:
                    result = at
                else:
                    result = np.int64(_joined(parts, every, node["feature"], node["cut"], path[i, 2], result))
            else:
                break
        if nodes[result]["feature"] < 0:
            decided += nodes[result]["most"]
        else:
            roots[left_over] = result
            left_over += 1
    return left_over, decided


@compiled
def bound_of(parts: Parts, atoms: Atoms, box: Box, changed: np.uint64, roots: Places, count: int) -> float:
    """Return the sum over parts of trees of the largest margin that a smaller box reaches.

    `changed` has the bits of the smaller columns.
    """
    nodes, sides, path = parts.nodes, parts.sides, parts.path
    low, high, mask = box.low, box.high, box.mask
    bound = 0.0
    for t in range(count):
        best, deep = -np.inf, 1
        path[0, 0] = roots[t]
        while deep:
            deep -= 1
            at = np.int64(path[deep, 0])
            while nodes[at]["most"] > best:
                node = nodes[at]
                if not node["below"] & changed:
                    best = node["most"]
                    break
                f, c = node["feature"], node["cut"]
                wide, first = atoms.places[f]["words"], atoms.places[f]["word"]
                if not wide:
                    some_left, some_right = low[f] < c, high[f] >= c
                else:
                    some_left = some_right = False
                    for k in range(wide):
                        some_left = some_left or (mask[first + k] & sides[c + k]) != 0
                        some_right = some_right or (mask[first + k] & sides[c + wide + k]) != 0
                left, right = np.int64(node["left"]), np.int64(node["right"])
                if some_left and some_right:
                    if nodes[left]["most"] < nodes[right]["most"]:
                        left, right = right, left
                    path[deep, 0] = right
                    deep += 1
                    at = left
                else:
                    at = left if some_left else right
        bound += best
    return bound


@compiled
def margins_at(parts: Parts, atoms: Atoms, roots: Places, count: int, point: Places, margins: Floats) -> float:
    """Write the margins of parts of trees at a point of atoms, and return their sum."""
    nodes, sides, places = parts.nodes, parts.sides, atoms.places
    total = 0.0
    for t in range(count):
        at = np.int64(roots[t])
        while nodes[at]["feature"] >= 0:
            node = nodes[at]
            f, c = node["feature"], node["cut"]
            atom = point[f]
            if places[f]["words"]:
                bit = np.uint64(1) << np.uint64(atom & 63)
                goes_left = (sides[c + (atom >> 6)] & bit) != 0
            else:
                goes_left = atom < c
            at = np.int64(node["left"] if goes_left else node["right"])
        margins[t] = nodes[at]["most"]
        total += margins[t]
    return total


@compiled
def widest(parts: Parts, roots: Places, count: int, margins: Floats, by_sum: bool) -> int:
    """Return the part of a tree whose root is split.

    If costs are added, it is the one whose largest margin is farthest above that at the nearest point, of which
    `margins` are given. Otherwise the nearest point means little, and it is the one whose sides together have the
    smallest margins.
    """
    nodes, found, best = parts.nodes, -1, -1.0
    for t in range(count):
        node = nodes[roots[t]]
        if by_sum:
            gap = node["most"] - margins[t]
        else:
            gap = 2 * node["most"] - nodes[node["left"]]["most"] - nodes[node["right"]]["most"]
        if gap > best:
            found, best = roots[t], gap
    return int(found)
