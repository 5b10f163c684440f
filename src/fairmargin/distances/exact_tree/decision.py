"""The decision of the library at a point: its own sums, in its order and precision."""

from typing import NamedTuple

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.distances.exact_tree.atoms import Atoms
from fairmargin.distances.exact_tree.cells import Forest
from fairmargin.distances.exact_tree.compiled import Places, compiled


class Decision(NamedTuple):
    """How the library decides.

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


@compiled
def leaves(decision: Decision, forest: Forest, atoms: Atoms, point: Places) -> bool:
    """Return whether the library predicts a class at a point of atoms that is not kept."""
    scores = decision.start.copy()
    for t in range(len(forest.roots)):
        leaf = _leaf(forest, atoms, point, forest.roots[t])
        for k in range(len(scores)):
            scores[k] += decision.value[leaf, k]
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
def _leaf(forest: Forest, atoms: Atoms, point: Places, root: int) -> int:
    """Return the leaf of a tree that a point reaches."""
    at = np.int64(root)
    while True:
        node = forest.nodes[at]
        f = node["feature"]
        if f < 0:
            return int(at)
        place = atoms.places[f]
        if place["missing"]:
            goes_left = node["missing_left"]
        else:
            cell = atoms.atoms[place["offset"] + point[f]]["cell"]
            if place["words"]:
                bit = np.uint64(1) << np.uint64(cell & 63)
                goes_left = (forest.bits[node["cut"] + (cell >> 6)] & bit) != 0
            else:
                goes_left = cell < node["cut"]
        at = np.int64(node["left"] if goes_left else node["right"])
