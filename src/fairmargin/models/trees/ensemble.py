"""Ensembles of decision trees in a common representation, and the classifier that holds one with its original model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, read_only
from fairmargin.core.domain import Domain
from fairmargin.errors import InputError, ModelError
from fairmargin.models.protocol import as_rows, in_model_order

LEAF = -1
"""Feature of a leaf."""

NO_SET = -1
"""Place of the set of a node that compares numbers."""


def _no_sets() -> Bools:
    return np.zeros((0, 0), dtype=np.bool_)


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TreeEnsemble:
    """A sum of decision trees: score of class k = start_k + the sum over trees of the value of the sample's leaf.

    The nodes of all trees are numbered together, and a node comes before its children. Several nodes may share a child.

    A node either compares a number with `first_right`, or asks whether a category is in a set. At a set, a value v goes
    left if 0 ≤ v < width and `sets[set_of, int(v)]`; missing values and all other numbers go where missing values go.

    Parameters
    ----------
    feature
        Feature that a node looks at; -1 for a leaf.
    first_right
        Smallest number in double precision that goes to the right child; infinite if all numbers go left. Comparing
        doubles with it gives the decision of the library, which may convert samples to float32 first.
    missing_left
        Whether a missing value goes to the left child.
    left, right
        Children of each node; 0 for a leaf.
    value
        Values of shape (nodes, classes); used for leaves only.
    roots
        The root of each tree.
    start
        Score of each class before the first tree.
    rounding
        Upper limit of the rounding errors of a sum; 0 if all sums are exact.
    divisor
        Number by which the library divides the sums before it compares them.
    single
        Whether the library adds in float32.
    last_wins_ties
        Whether the last of several equal scores wins, as in scikit-learn's GradientBoostingClassifier, not the first.
    lead
        A class must be ahead of all classes before it by more than this number to win. It is not 0 if the library
        compares probabilities, which are equal for scores that are nearly equal.
    sets
        The sets of categories that go left, of shape (sets, width).
    set_of
        For each node its set, as a row of `sets`; -1 for a leaf and for a node that compares numbers. By default no
        node has a set.
    """

    feature: Ints
    first_right: Floats
    missing_left: Bools
    left: Ints
    right: Ints
    value: Floats
    roots: Ints
    start: Floats
    rounding: float
    divisor: float = 1.0
    single: bool = False
    last_wins_ties: bool = False
    lead: float = 0.0
    sets: Bools = field(default_factory=_no_sets)
    set_of: Ints = field(default_factory=_none)

    def __post_init__(self) -> None:
        if not len(self.set_of):
            object.__setattr__(self, "set_of", np.full(len(self.feature), NO_SET))
        for name in ("missing_left", "sets"):
            object.__setattr__(self, name, read_only(np.asarray(getattr(self, name), dtype=np.bool_)))
        for name in ("feature", "left", "right", "roots", "set_of"):
            object.__setattr__(self, name, read_only(np.asarray(getattr(self, name), dtype=np.int64)))
        for name in ("first_right", "value", "start"):
            object.__setattr__(self, name, read_only(np.asarray(getattr(self, name), dtype=np.float64)))
        inner = self.feature != LEAF
        place = np.arange(len(self.feature))
        if (self.left[inner] <= place[inner]).any() or (self.right[inner] <= place[inner]).any():
            raise ModelError("The nodes of a tree ensemble must be ordered so that children follow their parents.")
        if len(self.set_of) != len(place) or not (self.set_of < len(self.sets)).all():
            raise ModelError(f"The nodes of a tree ensemble name sets of categories, but there are {len(self.sets)}.")
        if not np.isfinite(self.value[~inner]).all() or not np.isfinite(self.start).all():
            raise ModelError("A leaf of the trees has a value that is not finite; did the training diverge?")

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities that trees give a classifier."""
        return frozenset({"predict", "trees"})

    @property
    def classes(self) -> int:
        """Number of classes, which is the number of scores per sample."""
        return len(self.start)

    def thresholds(self, features: int) -> list[Floats]:
        """Return the distinct finite values of `first_right` of every feature, ascending.

        All numbers go left at a node whose `first_right` is infinite; it only separates missing values from others.
        """
        of = [self.first_right[(self.feature == feature) & (self.set_of == NO_SET)] for feature in range(features)]
        return [np.unique(each[np.isfinite(each)]) for each in of]

    def scores(self, rows: Floats) -> Floats:
        """Return the score of every class for every row, summed in the order and the precision of the library."""
        scores = np.repeat(self.start[None], len(rows), axis=0)
        every = np.arange(len(rows))
        for root in self.roots:
            node = np.full(len(rows), root)
            inner = self.feature[node] != LEAF
            while inner.any():
                at = node[inner]
                values = rows[every[inner], self.feature[at]]
                goes_left = np.where(np.isnan(values), self.missing_left[at], values < self.first_right[at])
                if len(self.sets):
                    goes_left = np.where(self.set_of[at] == NO_SET, goes_left, self._in_set(at, values))
                node[inner] = np.where(goes_left, self.left[at], self.right[at])
                inner = self.feature[node] != LEAF
            scores += self.value[node]
            if self.single:
                scores = scores.astype(np.float32).astype(np.float64)
        return scores

    def decisions(self, rows: Floats) -> Ints:
        """Return the position of the class that wins at every row, by the rules of the library."""
        scores = self.scores(rows) / self.divisor
        winner = np.zeros(len(rows), dtype=np.int64)
        best = scores[:, 0].copy()
        for k in range(1, self.classes):
            wins = (scores[:, k] - best > self.lead) | (self.last_wins_ties & (scores[:, k] == best))
            winner, best = np.where(wins, k, winner), np.where(wins, scores[:, k], best)
        return winner

    def reached(self) -> "TreeEnsemble":
        """Return the ensemble without nodes that cannot be reached from a root."""
        keep = np.zeros(len(self.feature), dtype=np.bool_)
        nodes = np.unique(self.roots)
        while len(nodes):
            keep[nodes] = True
            inner = nodes[self.feature[nodes] != LEAF]
            below = np.unique(np.concatenate([self.left[inner], self.right[inner]]))
            nodes = below[~keep[below]]
        place = np.cumsum(keep) - 1
        inner = self.feature[keep] != LEAF
        return replace(
            self,
            feature=self.feature[keep],
            first_right=self.first_right[keep],
            missing_left=self.missing_left[keep],
            left=np.where(inner, place[self.left[keep]], 0),
            right=np.where(inner, place[self.right[keep]], 0),
            value=self.value[keep],
            roots=place[self.roots],
            set_of=self.set_of[keep],
        )

    def _in_set(self, nodes: Ints, values: Floats) -> Bools:
        """Return whether values go left at nodes with a set."""
        inside = (values >= 0) & (values < self.sets.shape[1])
        place = np.where(inside, values, 0.0).astype(np.int64)
        return np.where(inside, self.sets[self.set_of[nodes], place], self.missing_left[nodes])

    def fingerprint(self) -> str:
        """Return a hash of everything that determines scores."""
        numbers = (self.value.shape, self.rounding, self.divisor, self.single, self.last_wins_ties, self.lead)
        digest = sha256(repr(numbers).encode())
        names = ["feature", "first_right", "missing_left", "left", "right", "value", "roots", "start"]
        if len(self.sets):  # otherwise the hash is that of versions that knew no sets
            digest.update(repr(self.sets.shape).encode())
            names += ["sets", "set_of"]
        for name in names:
            digest.update(np.ascontiguousarray(getattr(self, name)).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One tree; its first node is the root. The fields are those of `TreeEnsemble`."""

    feature: Ints
    first_right: Floats
    missing_left: Bools
    left: Ints
    right: Ints
    value: Floats
    sets: Bools = field(default_factory=_no_sets)
    set_of: Ints = field(default_factory=_none)

    def __post_init__(self) -> None:
        if not len(self.set_of):
            object.__setattr__(self, "set_of", np.full(len(self.feature), NO_SET))

    def parents_first(self) -> "Tree":
        """Return the tree without nodes that are not reached, in an order in which parents come before children."""
        # A node is entered when all nodes below it have been left, also where several nodes share a child.
        left_last: list[int] = []
        seen = np.zeros(len(self.feature), dtype=np.bool_).tolist()
        inner = (self.feature != LEAF).tolist()
        left, right = self.left.tolist(), self.right.tolist()
        pending = [0]
        while pending:
            node = pending.pop()
            if node < 0:
                left_last.append(~node)
            elif not seen[node]:
                seen[node] = True
                pending.append(~node)
                if inner[node]:
                    pending += (left[node], right[node])  # the left subtree follows its parent, in memory
        order = np.array(left_last[::-1])
        place = np.zeros(len(self.feature), dtype=np.int64)
        place[order] = np.arange(len(order))
        return replace(
            self,
            feature=self.feature[order],
            first_right=self.first_right[order],
            missing_left=self.missing_left[order],
            left=place[self.left[order]],
            right=place[self.right[order]],
            value=self.value[order],
            set_of=self.set_of[order],
        )


def joined(trees: Sequence[Tree], start: Floats, rounding: float, **rest: Any) -> TreeEnsemble:
    """Return the ensemble of several trees; `rest` are the other fields of `TreeEnsemble`."""
    ordered = [tree.parents_first() for tree in trees]
    roots = np.cumsum([0, *(len(tree.feature) for tree in ordered)])[:-1]

    def all_of(name: str) -> Any:
        return np.concatenate([getattr(tree, name) for tree in ordered])

    def children(name: str) -> Ints:
        moved = [
            np.where(tree.feature != LEAF, getattr(tree, name) + root, 0)
            for tree, root in zip(ordered, roots, strict=True)
        ]
        return np.concatenate(moved)

    sets, set_of = _sets_of(ordered)
    return TreeEnsemble(
        all_of("feature"),
        all_of("first_right"),
        all_of("missing_left"),
        children("left"),
        children("right"),
        all_of("value"),
        roots,
        start,
        rounding,
        sets=sets,
        set_of=set_of,
        **rest,
    )


def _sets_of(trees: Sequence[Tree]) -> tuple[Bools, Ints]:
    """Return the sets of several trees, one for each node that has one, and the set of each node."""
    width = max(tree.sets.shape[1] for tree in trees)
    has = np.concatenate([tree.set_of for tree in trees]) != NO_SET
    rows = []
    for tree in trees:
        nodes = tree.set_of != NO_SET
        wide = np.repeat(tree.missing_left[nodes, None], width, axis=1)  # values outside go where missing values go
        wide[:, : tree.sets.shape[1]] = tree.sets[tree.set_of[nodes]]
        rows.append(wide)
    return np.concatenate(rows), np.where(has, np.cumsum(has) - 1, NO_SET)


def sets_of_codes(members: Mapping[int, Sequence[int]], nodes: int, width: int = 0) -> tuple[Bools, Ints]:
    """Return sets of codes as rows of booleans, at least `width` of them, and the set of each of the nodes."""
    largest = max((code for codes in members.values() for code in codes), default=-1)
    sets = np.zeros((len(members), max(largest + 1, width)), dtype=np.bool_)
    set_of = np.full(nodes, NO_SET)
    for place, (node, codes) in enumerate(members.items()):
        sets[place, codes] = True
        set_of[node] = place
    return sets, set_of


def largest_score(trees: Sequence[Tree], start: Floats) -> float:
    """Return an upper limit of the absolute value of all partial sums."""
    return float(np.abs(start).max() + sum(np.abs(tree.value).max() for tree in trees))


def positions_of(model: Any, rows: Floats) -> Ints:
    """Return the class positions that a model with scikit-learn's interface predicts."""
    names = getattr(model, "feature_names_in_", None)
    table: Any = rows
    if names is not None:
        import pandas as pd

        table = pd.DataFrame(rows, columns=names)
    place = {label: i for i, label in enumerate(np.asarray(model.classes_).tolist())}
    return np.array([place[label] for label in np.asarray(model.predict(table)).tolist()], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TreeClassifier:
    """A classifier of decision trees. The original model makes all predictions; searches read the ensemble.

    Parameters
    ----------
    ensemble
        The trees.
    original
        The model as the user gave it.
    classes
        Label values, in the order of the scores.
    features
        Number of features.
    domain
        Valid inputs, and the scale of each feature.
    feature_names
        Names of the features, if known, so that columns can be put in the model's order.
    accepts_missing
        Whether samples may have missing values, which are NaN. The model decides about them; they do not move.
    positions
        Function that returns the class positions which the original model predicts for some rows.
    reads_categories
        Whether the model was trained on categories. The trees then ask for their codes, and the distance of two codes
        means nothing.
    """

    ensemble: TreeEnsemble
    original: Any
    classes: tuple[Any, ...]
    features: int
    domain: Domain
    feature_names: tuple[str, ...] = ()
    accepts_missing: bool = False
    positions: Callable[[Any, Any], Ints] = positions_of
    reads_categories: bool = False

    def __post_init__(self) -> None:
        self.domain.flat(self.features)  # raises if the domain has another number of features

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of the model: predictions and trees."""
        return frozenset({"predict", "trees"})

    @property
    def tile(self) -> int:
        """The fixed batch size, 1: trees answer each row separately."""
        return 1

    def predict(self, x: Any) -> Ints:
        """Predict the position of the class of each sample, by the original model."""
        rows = as_rows(in_model_order(self, x), missing=self.accepts_missing)
        if rows.shape[1] != self.features:
            raise InputError(f"A sample of `x` has {rows.shape[1]:,} features but the model takes {self.features:,}.")
        if not len(rows):  # which scikit-learn refuses
            return np.zeros(0, dtype=np.int64)
        return self.positions(self.original, rows)

    def fingerprint(self) -> str:
        """Compute a hash of the trees, the classes and the domain."""
        parts = repr((type(self.original).__name__, self.classes, self.features, self.domain.fingerprint()))
        return sha256((parts + self.ensemble.fingerprint()).encode()).hexdigest()

    def __repr__(self) -> str:
        trees = f"{len(self.ensemble.roots):,} trees"
        return f"TreeClassifier({type(self.original).__name__}, {trees}, {len(self.classes)} classes, {self.domain!r})"


def first_right(goes_right: Callable[[Floats], Bools], low: Floats, high: Floats) -> Floats:
    """Return the smallest double in (low, high] for which a monotone decision is True, by bisection.

    Parameters
    ----------
    goes_right
        Function from one number per threshold to one decision each; False at `low`, True at `high`.
    low, high
        Limits, one number per threshold.

    >>> first_right(lambda x: np.float32(x) > np.float32(0.1), np.array([0.0]), np.array([1.0])).tolist()
    [0.10000000521540642]
    >>> first_right(lambda x: x >= 13, np.array([-1e308]), np.array([1e308])).tolist()
    [13.0]
    """
    left, right = ordered_integers(low), ordered_integers(high)
    while (right > left + 1).any():
        middle = (left & right) + ((left ^ right) >> 1)  # the mean rounded down, whose sum could overflow
        above = goes_right(doubles_of(middle))
        left, right = np.where(above, left, middle), np.where(above, middle, right)
    return doubles_of(right)


def first_right_of_float32(goes_right: Callable[[Floats], Bools], limits: Floats) -> Floats:
    """Return the smallest doubles that go right; decisions change within two single-precision steps of the limits."""
    below = above = limits.astype(np.float32)
    for _ in range(2):
        below, above = np.nextafter(below, np.float32(-np.inf)), np.nextafter(above, np.float32(np.inf))
    return first_right(goes_right, below.astype(np.float64), above.astype(np.float64))


def ordered_integers(values: Floats) -> Ints:
    """Return integers in the same order as the doubles; neighbouring doubles have neighbouring integers."""
    bits = np.asarray(values, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def doubles_of(ordered: Ints) -> Floats:
    """Return the doubles of `ordered_integers`."""
    return np.where(ordered < 0, np.int64(-(2**63)) - ordered, ordered).astype(np.int64).view(np.float64)
