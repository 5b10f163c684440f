"""Reading scikit-learn's decision trees, forests and boosted trees."""

from typing import Any

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError
from fairmargin.models.trees.ensemble import LEAF, TreeClassifier, TreeEnsemble, first_right

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
    labels = np.asarray(model.classes_ if classes is None else classes)
    if getattr(model, "n_outputs_", 1) != 1:
        raise ModelError(f"The {name} predicts {model.n_outputs_} outputs; give a model with one.")
    if name == "HistGradientBoostingClassifier":
        ensemble = _histogram(model)
    elif name == "GradientBoostingClassifier":
        ensemble = _boosted(model)
    else:
        ensemble = _forest(list(getattr(model, "estimators_", [model])))
    names = tuple(map(str, getattr(model, "feature_names_in_", ())))
    return TreeClassifier(ensemble, model, tuple(labels.tolist()), int(model.n_features_in_), domain or Domain(), names)


def _forest(members: list[Any]) -> TreeEnsemble:
    """Return the mean of the class shares in the leaves of several trees."""
    parts = []
    for member in members:
        tree = member.tree_
        share = tree.value[:, 0, :]
        parts.append((tree, share / share.sum(axis=1, keepdims=True)))
    classes = parts[0][1].shape[1]
    whole = all(np.isin(share[tree.children_left < 0], (0.0, 1.0)).all() for tree, share in parts)
    rounding = 0.0 if whole else 4 * _EPSILON * len(parts) ** 2
    return _joined(parts, np.zeros(classes), rounding, divisor=len(parts))


def _boosted(model: Any) -> TreeEnsemble:
    """Return the sum of a GradientBoostingClassifier; a binary model scores its second class only."""
    if type(model.init_).__name__ != "DummyClassifier":
        raise ModelError(
            f"The GradientBoostingClassifier starts from a model of type {type(model.init_).__name__} (`init`), whose "
            "scores are not constant. Leave `init` out."
        )
    probe = np.zeros((1, model.n_features_in_), dtype=np.float32)
    binary = len(model.classes_) == 2
    begin = np.asarray(model._raw_predict_init(probe), dtype=np.float64).ravel()
    start = np.array([0.0, begin[0]]) if binary else begin
    parts = []
    for stage in model.estimators_:
        for place, member in enumerate(stage):
            value = np.zeros((member.tree_.node_count, len(model.classes_)))
            value[:, 1 if binary else place] = model.learning_rate * member.tree_.value[:, 0, 0]
            parts.append((member.tree_, value))
    largest = np.abs(start).max() + sum(np.abs(value).max() for _, value in parts)
    return _joined(parts, start, 4 * _EPSILON * (len(parts) + 1) * largest, last_wins_ties=binary)


def _joined(
    parts: list[tuple[Any, Floats]], start: Floats, rounding: float, divisor: float = 1.0, last_wins_ties: bool = False
) -> TreeEnsemble:
    """Join trees of scikit-learn's type `Tree`, which convert samples to float32 and compare them with `<=`."""
    feature, threshold, left, right, roots = [], [], [], [], []
    at = 0
    for tree, _ in parts:
        inner = tree.children_left >= 0
        feature.append(np.where(inner, tree.feature, LEAF))
        threshold.append(np.where(inner, tree.threshold, 0.0))
        left.append(np.where(inner, tree.children_left + at, 0))
        right.append(np.where(inner, tree.children_right + at, 0))
        roots.append(at)
        at += tree.node_count
    limits = np.concatenate(threshold)
    return TreeEnsemble(
        np.concatenate(feature),
        _right_of_float32(limits),
        np.concatenate(left),
        np.concatenate(right),
        np.concatenate([value for _, value in parts]),
        np.array(roots),
        start,
        rounding,
        divisor,
        last_wins_ties=last_wins_ties,
    )


def _right_of_float32(limits: Floats) -> Floats:
    """Return the smallest doubles that exceed the limits after conversion to float32."""
    above = np.nextafter(limits.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    above = np.nextafter(above.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    below = np.nextafter(limits.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
    below = np.nextafter(below.astype(np.float32), np.float32(-np.inf)).astype(np.float64)
    return first_right(lambda values: values.astype(np.float32).astype(np.float64) > limits, below, above)


def _histogram(model: Any) -> TreeEnsemble:
    """Return the sum of a HistGradientBoostingClassifier, which compares doubles with `<=`."""
    if getattr(model, "is_categorical_", None) is not None:
        raise ModelError(
            "The HistGradientBoostingClassifier has categorical features, which cannot be read yet. Encode them as "
            "numbers, or leave `categorical_features` out."
        )
    binary = len(model.classes_) == 2
    begin = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
    start = np.array([0.0, begin[0]]) if binary else begin
    feature, right_from, left, right, value, roots = [], [], [], [], [], []
    at, largest = 0, float(np.abs(start).max())
    for stage in model._predictors:
        for place, predictor in enumerate(stage):
            nodes = predictor.nodes[_parents_first(predictor.nodes)]
            inner = ~nodes["is_leaf"].astype(bool)
            moved = np.empty(len(nodes), dtype=np.int64)
            moved[_parents_first(predictor.nodes)] = np.arange(len(nodes))
            feature.append(np.where(inner, nodes["feature_idx"], LEAF))
            # A split at +inf separates missing from present values: all numbers go left.
            right_from.append(np.nextafter(np.where(inner, nodes["num_threshold"], 0.0), np.inf))
            left.append(np.where(inner, moved[nodes["left"]] + at, 0))
            right.append(np.where(inner, moved[nodes["right"]] + at, 0))
            values = np.zeros((len(nodes), len(model.classes_)))
            values[:, 1 if binary else place] = np.where(inner, 0.0, nodes["value"])
            value.append(values)
            largest += float(np.abs(values).max())
            roots.append(at)
            at += len(nodes)
    rounding = 4 * _EPSILON * (len(roots) + 1) * largest
    return TreeEnsemble(
        np.concatenate(feature),
        np.concatenate(right_from),
        np.concatenate(left),
        np.concatenate(right),
        np.concatenate(value),
        np.array(roots),
        start,
        rounding,
    )


def _parents_first(nodes: Any) -> Ints:
    """Return the order of nodes in which a parent comes before its children."""
    return np.argsort(nodes["depth"], kind="stable")
