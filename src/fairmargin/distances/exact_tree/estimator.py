"""The estimator `exact_tree`: exact distances of ensembles of decision trees."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.protocol import Found, accepted_norm
from fairmargin.errors import InputError, ModelError
from fairmargin.models.kept_classes import parted
from fairmargin.models.protocol import as_rows
from fairmargin.models.trees.ensemble import LEAF, TreeClassifier, TreeEnsemble

_PATTERNS = 64  # number of patterns of missing values that are kept in memory


@dataclass(frozen=True, slots=True)
class ExactTree:
    """Exact distances of decision trees, forests and boosted trees, by branch and bound.

    The distance is the norm of the change to the nearest row that the original model assigns to another class; every
    row found is confirmed by the model. A row that needs more than `boxes` boxes gets the distance of the nearest row
    found so far, an upper bound, and all distances of the measurement then count as upper bounds.

    Parameters
    ----------
    norm
        L1, L2 or L∞.
    boxes
        Maximum number of boxes that are examined per row and rival class. It is a count and not a time, so that
        results do not depend on the load of the machine.

    Guarantee: no row that the domain allows is nearer and gets another class, if `bound` is `EXACT`.

    References
    ----------
    H. Chen, H. Zhang, S. Si, Y. Li, D. Boning, C.-J. Hsieh, "Robustness Verification of Tree-based Models", NeurIPS
    2019, and L. Devos, W. Meert, J. Davis, "Versatile Verification of Tree Ensembles", ICML 2021, search boxes of cells
    for the same distance in L∞.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from fairmargin.distances.measure import measure
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0], [3.0]], ["no", "yes", "yes"])
    >>> measure(tree, [[0.0], [3.0]], ["no", "yes"], ExactTree()).values.round(6).tolist()
    [0.5, 2.5]
    """

    norm: Norm = Norm.LINF
    boxes: int = 1_000_000

    needs: ClassVar[str] = "trees"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L1, Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1
    keeps_several: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(ExactTree, self.norm))
        if self.boxes < 1:
            raise InputError(f"must be at least 1; given {self.boxes}", field="boxes", of="ExactTree")

    def __call__(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return one distance per sample; `y` holds class positions."""
        return self.find(model, x, y, keys=keys).distances

    def find(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the distances and the rows found."""
        classifier, kept = parted(model)
        if not isinstance(classifier, TreeClassifier):
            raise ModelError(f"`ExactTree` works on trees; given {type(classifier).__name__}.")
        rows, y = as_rows(x, missing=classifier.accepts_missing), np.asarray(y)
        own = classifier.predict(rows)
        correct = np.isin(own, kept) if kept else own == y
        values, points = np.zeros(len(rows)), rows.copy()
        lower = np.zeros(len(rows))
        search = _Search(classifier, self.norm, self.boxes)
        for i in sorted(np.flatnonzero(correct), key=lambda i: own[i]):
            lower[i], values[i], points[i] = search.nearest(rows[i], int(own[i]), kept, strict=False)
        doubtful = correct & np.isfinite(values)
        doubtful[doubtful] = model.predict(points[doubtful]) == y[doubtful]
        for i in sorted(np.flatnonzero(doubtful), key=lambda i: own[i]):
            # The margin is 0 up to rounding, and the model adds in another order than its trees have. The nearest
            # point with a margin that rounding cannot undo gives an upper bound.
            _, values[i], points[i] = search.nearest(rows[i], int(own[i]), kept, strict=True)
        found = doubtful & np.isfinite(values)
        wrong = np.flatnonzero(found)[model.predict(points[found]) == y[found]]
        if len(wrong):
            raise ModelError(
                f"The trees that were read from the {type(classifier.original).__name__} do not give the model's own "
                f"predictions (sample {wrong[0]}). Please report this model."
            )
        points[np.isinf(values)] = np.nan
        bound = Bound.EXACT if (lower >= values).all() else Bound.UPPER
        return Found(Distances(values, correct, bound, self.norm, tried=lower), points)


@dataclass(slots=True)
class _Search:
    """The search of one measurement, with the arrays that all rows share."""

    model: TreeClassifier
    norm: Norm
    boxes: int
    grid: Any = field(init=False)
    cells: dict[bytes, Ints] = field(init=False, default_factory=dict)
    margins: dict[tuple[int, int, bool], Any] = field(init=False, default_factory=dict)
    decisions: dict[tuple[tuple[int, ...], bool], Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        from fairmargin.distances.exact_tree.search import Grid

        trees, features, domain = self.model.ensemble, self.model.features, self.model.domain
        thresholds = trees.thresholds(features)
        low, high, scale = domain.flat(features)
        begins = np.concatenate([np.append(-np.inf, each) for each in thresholds])
        sizes = np.array([len(each) + 1 for each in thresholds])
        offset = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.grid = Grid(offset, sizes, begins, low, high, scale, domain.movable(features))
        cell = np.full(len(trees.feature), -1)
        for feature, limits in enumerate(thresholds):
            # No cell goes left of a threshold at -inf, and all go left of one at inf.
            here = (trees.feature == feature) & (trees.first_right > -np.inf)
            cell[here] = np.searchsorted(limits, trees.first_right[here])
        self.cells[np.zeros(features, dtype=bool).tobytes()] = cell

    def nearest(
        self, row: Floats, own: int, kept: tuple[int, ...] = (), *, strict: bool
    ) -> tuple[float, float, Floats]:
        """Return (lower bound, upper bound, point) of one row; `inf` and the row itself if no point was found.

        The point leaves the row's own class, or all classes of `kept`, of which it is one.
        """
        from fairmargin.distances.exact_tree import search as compiled

        norm = {Norm.LINF: compiled.LINF, Norm.L1: compiled.L1, Norm.L2: compiled.L2}[self.norm]
        cells, admissible = compiled.cells_of(row, self.grid, norm)
        cell = self._last_left(np.isnan(row))
        decision = self._decision(kept or (own,), strict)
        least, best, point = np.inf, np.inf, row
        for rival in range(len(self.model.classes)):
            if rival in kept or rival == own:
                continue
            # A rival that wins has a larger score than every kept class, hence also than the row's own class.
            margins = self._margins(own, rival, strict)._replace(cell=cell)
            lower, upper, place, _ = compiled.search(margins, decision, cells, norm, best, self.boxes)
            least = min(least, lower)
            if upper < best:
                best = upper
                moved = place != cells.own
                point = row.copy()
                point[moved] = admissible[cells.offset[moved] + place[moved]]
        if np.isfinite(best):
            moved = (point != row) & ~np.isnan(row)
            step = np.divide(point - row, self.grid.scale, out=np.zeros_like(row), where=moved)
            distance = float(self.norm.length(step))
            return distance if least >= best else _root(least, self.norm), distance, point
        return _root(least, self.norm), best, point

    def _last_left(self, missing: Bools) -> Ints:
        """Return the last cell that goes left at every node, for rows that lack the given features.

        A missing feature has cell 0 only, and goes left at nodes with a cell of at least 0.
        """
        key = missing.tobytes()
        if key not in self.cells:
            trees, present = self.model.ensemble, bytes(len(missing))
            cell = self.cells[present]
            if len(self.cells) > _PATTERNS:
                self.cells = {present: cell}
            lacking = (trees.feature != LEAF) & missing[trees.feature]
            self.cells[key] = np.where(lacking, np.where(trees.missing_left, 0, -1), cell)
        return self.cells[key]

    def _decision(self, kept: tuple[int, ...], strict: bool) -> Any:
        from fairmargin.distances.exact_tree.search import Decision

        if (kept, strict) not in self.decisions:
            trees = self.model.ensemble
            keeps = np.isin(np.arange(len(self.model.classes)), kept)
            surplus = 2 * trees.rounding if strict else 0.0
            how = trees.divisor, trees.single, trees.last_wins_ties, trees.lead, surplus
            self.decisions[kept, strict] = Decision(keeps, trees.value, trees.start, *how)
        return self.decisions[kept, strict]

    def _margins(self, own: int, rival: int, strict: bool) -> Any:
        """Return the trees with the margins of a rival over the own class.

        Margins within rounding of 0 count as won by the rival, or as lost if `strict`.
        """
        from fairmargin.distances.exact_tree.search import Margins, most_below

        key = (own, rival, strict)
        if key not in self.margins:
            if self.margins and next(iter(self.margins))[0] != own:
                self.margins.clear()  # rows come sorted by class, and all pairs of many classes need much memory
            trees = self.model.ensemble
            value = np.ascontiguousarray(trees.value[:, rival] - trees.value[:, own])
            self.margins[key] = Margins(
                trees.feature,
                np.empty(0, dtype=np.int64),  # depends on the row
                trees.left,
                trees.right,
                value,
                most_below(trees.feature, trees.left, trees.right, value),
                trees.roots,
                float(trees.start[rival] - trees.start[own]),
                _limit(trees, own, rival, strict),
            )
        return self.margins[key]


def _root(cost: float, norm: Norm) -> float:
    """Return the length that belongs to a cost, which is squared in L2."""
    return float(np.sqrt(cost)) if norm is Norm.L2 else cost


def _limit(trees: TreeEnsemble, own: int, rival: int, strict: bool) -> float:
    """Return the number that the margin of a rival must exceed."""
    wins_ties = (rival > own) == trees.last_wins_ties
    exactly = float(np.nextafter(0.0, -1.0)) if wins_ties else 0.0
    if trees.rounding == 0:
        return exactly
    return 2 * trees.rounding if strict else -2 * trees.rounding
