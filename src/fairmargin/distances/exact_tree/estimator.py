"""The estimator `exact_tree`: exact distances of ensembles of decision trees."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fairmargin.core.arrays import Floats, Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_tree.atoms import ATOM, PLACE, Atoms, find_atoms
from fairmargin.distances.exact_tree.boxes import Parts, most_below, room
from fairmargin.distances.exact_tree.cells import Forest, Grid, cells_of
from fairmargin.distances.exact_tree.compiled import L1, L2, LINF
from fairmargin.distances.exact_tree.decision import Decision
from fairmargin.distances.exact_tree.search import Margins, Problem, search
from fairmargin.distances.protocol import Found, accepted_norm
from fairmargin.errors import InputError, ModelError
from fairmargin.models.kept_classes import parted
from fairmargin.models.protocol import as_rows
from fairmargin.models.trees.ensemble import TreeEnsemble

_NORMS = {Norm.LINF: LINF, Norm.L1: L1, Norm.L2: L2}
_ROOM = 2**16  # number of nodes for which there is room at first


@dataclass(frozen=True, slots=True)
class ExactTree:
    """Exact distances of decision trees, forests and boosted trees, by branch and bound.

    The distance is the norm of the change to the nearest row that the original model assigns to another class; every
    row found is confirmed by the model. On tables, a row changes by the rules of the columns. A row that needs more
    than `boxes` boxes gets the distance of the nearest row found so far, an upper bound, and all distances of the
    measurement then count as upper bounds; `tried` holds lower bounds.

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
    revision: ClassVar[int] = 2
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
        inner, kept = parted(model)
        classifier: Any = inner
        if "trees" not in classifier.offers:
            raise ModelError(f"`ExactTree` works on trees; given {type(classifier).__name__}.")
        rows, y = as_rows(x, missing=getattr(classifier, "accepts_missing", False)), np.asarray(y)
        own = classifier.predict(rows)
        correct = np.isin(own, kept) if kept else own == y
        values, points = np.zeros(len(rows)), rows.copy()
        lower = np.zeros(len(rows))
        search = _Search(classifier, rows.shape[1], self.norm, self.boxes)
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

    model: Any
    features: int
    norm: Norm
    boxes: int
    grid: Grid = field(init=False)
    forest: Forest = field(init=False)
    atoms: Atoms = field(init=False)
    costs: Floats = field(init=False)
    parts: Parts = field(init=False)
    used: int = 0
    margins: dict[tuple[int, int, bool], Margins] = field(init=False, default_factory=dict)
    decisions: dict[tuple[tuple[int, ...], bool], Decision] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.grid, self.forest = cells_of(self.model.ensemble, self.model.domain, self.features)
        self.atoms = Atoms(np.zeros(self.features, dtype=PLACE), np.zeros(len(self.grid.begins), dtype=ATOM))
        self.costs = np.empty(len(self.grid.begins))
        self.parts = room(_ROOM, self.forest.depth, int(self.grid.columns["words"].max()))

    def nearest(
        self, row: Floats, own: int, kept: tuple[int, ...] = (), *, strict: bool
    ) -> tuple[float, float, Floats]:
        """Return (lower bound, upper bound, point) of one row; `inf` and the row itself if no point was found.

        The point leaves the row's own class, or all classes of `kept`, of which it is one.
        """
        norm, atoms = _NORMS[self.norm], self.atoms
        costs = np.unique(self.costs[: find_atoms(row, self.grid, norm, atoms, self.costs)])
        decision = self._decision(kept or (own,), strict)
        least, best, point = np.inf, np.inf, row
        for rival in range(len(self.model.classes)):
            if rival in kept or rival == own:
                continue
            # A rival that wins has a larger score than every kept class, hence also than the row's own class.
            margins = self._margins(own, rival, strict)
            problem = Problem(atoms, self.forest, decision, margins, norm, self.boxes)
            lower, upper, place, self.used, self.parts = search(problem, costs, self.parts, best)
            least = min(least, lower)
            if upper < best:
                best = upper
                moved = (place != atoms.places["own"]) & ~atoms.places["missing"]
                point = row.copy()
                point[moved] = atoms.atoms["value"][atoms.places["offset"][moved] + place[moved]]
        if np.isfinite(best):
            distance = self._length(row, point)
            return distance if least >= best else min(_root(least, self.norm), distance), distance, point
        return _root(least, self.norm), best, point

    def _length(self, row: Floats, point: Floats) -> float:
        """Return the distance of two rows."""
        columns = self.grid.columns
        moved = (point != row) & ~np.isnan(row)
        costs = np.abs(point - row) / columns["unit"]
        for f in np.flatnonzero(moved & ~columns["is_number"]):
            place = min(int(row[f]), int(columns["size"][f]) - 1) * columns["size"][f] + int(point[f])
            costs[f] = self.grid.costs[columns["switch"][f] + place]
        return float(self.norm.length(np.where(moved, costs, 0.0)))

    def _decision(self, kept: tuple[int, ...], strict: bool) -> Decision:
        if (kept, strict) not in self.decisions:
            trees = self.model.ensemble
            keeps = np.isin(np.arange(len(self.model.classes)), kept)
            surplus = 2 * trees.rounding if strict else 0.0
            how = float(trees.divisor), trees.single, trees.last_wins_ties, float(trees.lead), surplus
            self.decisions[kept, strict] = Decision(keeps, _fixed(trees.value), _fixed(trees.start), *how)
        return self.decisions[kept, strict]

    def _margins(self, own: int, rival: int, strict: bool) -> Margins:
        """Return the margins of a rival over the own class.

        Margins within rounding of 0 count as won by the rival, or as lost if `strict`.
        """
        key = (own, rival, strict)
        if key not in self.margins:
            if self.margins and next(iter(self.margins))[0] != own:
                self.margins.clear()  # rows come sorted by class, and all pairs of many classes need much memory
            trees = self.model.ensemble
            value = np.ascontiguousarray(trees.value[:, rival] - trees.value[:, own])
            self.margins[key] = Margins(
                value,
                most_below(self.forest, value),
                float(trees.start[rival] - trees.start[own]),
                _limit(trees, own, rival, strict),
            )
        return self.margins[key]


def _fixed(array: Floats) -> Floats:
    """Return a read-only view, since numba would compile anew for the writable arrays of a model sent to a worker."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _root(cost: float, norm: Norm) -> float:
    """Return the length that belongs to a cost, which is squared in L2."""
    return float(np.sqrt(cost)) if norm is Norm.L2 else cost


def _limit(trees: TreeEnsemble, own: int, rival: int, strict: bool) -> float:
    """Return the number that the margin of a rival must exceed."""
    wins_ties = (rival > own) == trees.last_wins_ties
    exactly = float(np.nextafter(0.0, -1.0)) if wins_ties else 0.0
    # A class before the own one wins unless the own one is ahead by more than `lead`.
    ahead = trees.lead * trees.divisor if rival < own else 0.0
    if trees.rounding == 0 and ahead == 0:
        return exactly
    return 2 * trees.rounding if strict else -2 * trees.rounding - ahead
