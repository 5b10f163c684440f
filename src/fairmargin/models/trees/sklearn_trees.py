"""Reading scikit-learn's decision trees, forests and boosted trees."""

from typing import Any

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError
from fairmargin.models.protocol import as_classes
from fairmargin.models.trees.ensemble import (
    LEAF,
    NO_SET,
    Tree,
    TreeClassifier,
    TreeEnsemble,
    first_right_of_float32,
    joined,
    largest_score,
)

_EPSILON = float(np.finfo(np.float64).eps)

# Exact types only, because a subclass may override `predict`.
_TREES = {
    "sklearn.tree": ("DecisionTreeClassifier", "ExtraTreeClassifier"),
    "sklearn.ensemble": (
        "RandomForestClassifier",
        "ExtraTreesClassifier",
        "GradientBoostingClassifier",
        "HistGradientBoostingClassifier",
    ),
}


def is_sklearn_tree(model: object) -> bool:
    """Return whether the model is one of scikit-learn's tree classifiers, without importing scikit-learn."""
    kind = type(model)
    package = ".".join(kind.__module__.split(".")[:2])
    return kind.__name__ in _TREES.get(package, ())


def from_sklearn_trees(model: Any, domain: Domain | None = None, classes: Any = None) -> TreeClassifier:
    """Convert a fitted tree, forest or boosted ensemble of scikit-learn.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0]], ["no", "yes"])
    >>> from_sklearn_trees(tree).predict(np.array([[0.2], [0.8]])).tolist()
    [0, 1]
    """
    name = type(model).__name__
    if not hasattr(model, "classes_"):
        raise ModelError(f"The {name} is not fitted. Call its method `fit` first.")
    if getattr(model, "n_outputs_", 1) != 1:
        raise ModelError(f"The {name} predicts {model.n_outputs_} outputs; give a model with one.")
    if name == "HistGradientBoostingClassifier":
        ensemble = _histogram(model)
    elif name == "GradientBoostingClassifier":
        ensemble = _boosted(model)
    else:
        ensemble = _forest(list(getattr(model, "estimators_", [model])))
    names = tuple(map(str, getattr(model, "feature_names_in_", ())))
    return TreeClassifier(
        ensemble,
        model,
        as_classes(np.asarray(model.classes_) if classes is None else classes, len(ensemble.start)),
        int(model.n_features_in_),
        domain or Domain(),
        names,
        _accepts_missing(model),
        reads_categories=getattr(model, "is_categorical_", None) is not None,
    )


def _forest(members: list[Any]) -> TreeEnsemble:
    """Return the mean of the class shares in the leaves of several trees."""
    trees = []
    for member in members:
        share = member.tree_.value[:, 0, :]
        trees.append(_tree(member.tree_, share / share.sum(axis=1, keepdims=True)))
    whole = all(np.isin(tree.value[tree.feature == LEAF], (0.0, 1.0)).all() for tree in trees)
    rounding = 0.0 if whole else 4 * _EPSILON * len(trees) ** 2
    return joined(trees, np.zeros(trees[0].value.shape[1]), rounding, divisor=len(trees))


def _boosted(model: Any) -> TreeEnsemble:
    """Return the sum of a GradientBoostingClassifier; a binary model scores its second class only."""
    if type(model.init_).__name__ != "DummyClassifier":
        raise ModelError(
            f"The GradientBoostingClassifier starts from a model of type {type(model.init_).__name__} (`init`), whose "
            "scores are not constant. Leave `init` out."
        )
    probe = np.zeros((1, model.n_features_in_), dtype=np.float32)
    start = _start(model._raw_predict_init(probe), len(model.classes_))
    trees = [
        _tree(member.tree_, model.learning_rate * _of_class(place, member.tree_.value[:, 0, 0], len(model.classes_)))
        for stage in model.estimators_
        for place, member in enumerate(stage)
    ]
    rounding = 4 * _EPSILON * (len(trees) + 1) * largest_score(trees, start)
    return joined(trees, start, rounding, last_wins_ties=len(model.classes_) == 2)


def _tree(tree: Any, value: Floats) -> Tree:
    """Read scikit-learn's type `Tree`, which converts samples to float32 and compares them with `<=`."""
    inner = tree.children_left >= 0
    limits = np.where(inner, tree.threshold, 0.0)
    limits = np.where(np.isfinite(limits), limits, 0.0)
    right = first_right_of_float32(lambda values: values.astype(np.float32).astype(np.float64) > limits, limits)
    return Tree(
        np.where(inner, tree.feature, LEAF),
        np.where(np.isfinite(tree.threshold), right, np.where(tree.threshold > 0, np.inf, -np.inf)),
        np.asarray(getattr(tree, "missing_go_to_left", np.zeros(len(inner)))).astype(bool),
        np.where(inner, tree.children_left, 0),
        np.where(inner, tree.children_right, 0),
        value,
    )


def _histogram(model: Any) -> TreeEnsemble:
    """Return the sum of a HistGradientBoostingClassifier, which compares doubles with `<=`.

    If it has categorical features, its preprocessor moves them before the others and gives them codes. The features of
    the trees are those after it.
    """
    start = _start(model._baseline_prediction, len(model.classes_))
    known, known_of = model._bin_mapper.make_known_categories_bitsets()
    trees = []
    for stage in model._predictors:
        for place, predictor in enumerate(stage):
            nodes = predictor.nodes
            inner = ~nodes["is_leaf"].astype(bool)
            sets, set_of = _sets(predictor, nodes, inner, _members(known), known_of)
            trees.append(
                Tree(
                    np.where(inner, nodes["feature_idx"], LEAF),
                    # A split at +inf separates missing from present values: all numbers go left.
                    np.nextafter(np.where(inner, nodes["num_threshold"], 0.0), np.inf),
                    nodes["missing_go_to_left"].astype(bool),
                    np.where(inner, nodes["left"], 0).astype(np.int64),
                    np.where(inner, nodes["right"], 0).astype(np.int64),
                    _of_class(place, np.where(inner, 0.0, nodes["value"]), len(model.classes_)),
                    sets,
                    set_of,
                )
            )
    return joined(trees, start, 4 * _EPSILON * (len(trees) + 1) * largest_score(trees, start))


def _sets(predictor: Any, nodes: Any, inner: Bools, known: Bools, known_of: Any) -> tuple[Bools, Ints]:
    """Return the codes that go left at the nodes with categories, and the set of each node.

    Codes that the feature did not have in the training data go where missing values go.
    """
    has = inner & nodes["is_categorical"].astype(np.bool_)
    asked = nodes[has]
    left = _members(predictor.raw_left_cat_bitsets)[asked["bitset_idx"]]
    unknown = ~known[known_of[asked["feature_idx"]]]
    missing_left = asked["missing_go_to_left"].astype(np.bool_)[:, None]
    return left | (unknown & missing_left), np.where(has, np.cumsum(has) - 1, NO_SET)


def _members(bitsets: Any) -> Bools:
    """Return sets of codes below 256, which are stored as bits of eight integers, as rows of booleans."""
    words = np.asarray(bitsets, dtype="<u4").reshape(-1, 8)
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(np.bool_)


def _start(scores: Any, classes: int) -> Floats:
    """Return the score of each class before the first tree; a binary model has a score of its second class only."""
    begin = np.asarray(scores, dtype=np.float64).ravel()
    return np.array([0.0, begin[0]]) if classes == 2 else begin


def _of_class(place: int, values: Floats, classes: int) -> Floats:
    """Return the values of the nodes of a tree that scores one class; a binary model scores its second class."""
    scores = np.zeros((len(values), classes))
    scores[:, 1 if classes == 2 else place] = values
    return scores


def _accepts_missing(model: Any) -> bool:
    """Return whether scikit-learn allows missing values in the samples that the model predicts."""
    if getattr(model, "monotonic_cst", None) is not None and not hasattr(model, "_predictors"):
        return False
    if hasattr(model, "__sklearn_tags__"):
        return bool(model.__sklearn_tags__().input_tags.allow_nan)
    return bool(model._get_tags()["allow_nan"])  # before scikit-learn 1.6
