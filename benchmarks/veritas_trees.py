"""A two-class ensemble over the columns of a table, written for Veritas, with every category fixed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmargin.models.trees.ensemble import LEAF, NO_SET

_FAR = 1e6  # a category is a feature that no radius of a search reaches


@dataclass(frozen=True)
class VeritasTrees:
    """The ensemble in Veritas. Numbers are divided by their units; each set of categories is a feature of its own."""

    trees: Any
    ensemble: Any
    unit: Any
    sets: dict[tuple[int, int, bool], int]

    def example(self, row: Any) -> Any:
        """Return a coded row as Veritas takes it."""
        values = np.zeros(len(row) + len(self.sets))
        values[: len(row)] = row / self.unit
        for (column, which, missing_left), place in self.sets.items():
            known = 0 <= row[column] < self.ensemble.sets.shape[1]
            left = self.ensemble.sets[which, int(row[column])] if known else missing_left
            values[len(row) + place] = -_FAR if left else _FAR
        return values

    def search(self, row: Any, own: int, start: float) -> Any:
        """Return Veritas' search for the nearest row in L∞, as its documentation shows; calling `search` runs it."""
        import veritas

        source, target = (None, self.trees) if own == 0 else (self.trees, None)
        return veritas.VeritasRobustnessSearch(self.example(row), start, source, target, silent=True)

    def can_change(self, row: Any, own: int, radius: float) -> bool:
        """Return whether Veritas finds a row of the other class within a radius, or cannot exclude one."""
        if radius <= 0:
            return False
        difference, _ = self.search(row, own, radius).get_max_output_difference(radius, 60.0)
        return bool(difference >= 0)


def veritas_trees(ensemble: Any, unit: Any) -> VeritasTrees:
    """Return an ensemble of two classes as trees of Veritas, which go left below a threshold, as ours do."""
    import veritas

    sets: dict[tuple[int, int, bool], int] = {}
    trees = veritas.AddTree(1, veritas.AddTreeType.REGR)
    trees.set_base_score(0, float(ensemble.start[1] - ensemble.start[0]))
    for root in ensemble.roots:
        tree = trees.add_tree()
        pending = [(int(root), tree.root())]
        while pending:
            node, place = pending.pop()
            column = int(ensemble.feature[node])
            if column == LEAF:
                tree.set_leaf_value(place, 0, float(ensemble.value[node, 1] - ensemble.value[node, 0]))
                continue
            if ensemble.set_of[node] == NO_SET:
                tree.split(place, column, float(ensemble.first_right[node] / unit[column]))
            else:
                key = (column, int(ensemble.set_of[node]), bool(ensemble.missing_left[node]))
                tree.split(place, len(unit) + sets.setdefault(key, len(sets)), 0.0)
            pending += [(int(ensemble.left[node]), tree.left(place)), (int(ensemble.right[node]), tree.right(place))]
    return VeritasTrees(trees, ensemble, unit, sets)
