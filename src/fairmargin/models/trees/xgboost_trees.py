"""Reading XGBoost's boosted trees through the user's own installation of XGBoost."""

import json
import sys
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
    positions_of,
    sets_of_codes,
)

_EPSILON = float(np.finfo(np.float32).eps)
# The sigmoid of a smaller score is exactly 0.5 in float32.
_LEAD = 1.5 * 2.0**-24
_SUPPORTED = "Supported are binary:logistic, multi:softprob and multi:softmax"


def is_xgboost(model: object) -> bool:
    """Return whether the model is an XGBClassifier, XGBRFClassifier or Booster, without importing XGBoost."""
    kind = type(model)
    names = ("XGBClassifier", "XGBRFClassifier", "Booster")
    return kind.__module__.split(".")[0] == "xgboost" and kind.__name__ in names


def from_xgboost(model: Any, domain: Domain | None = None, classes: Any = None) -> TreeClassifier:
    """Convert a fitted XGBClassifier or XGBRFClassifier, or a Booster with an objective of classification."""
    name = type(model).__name__
    native = name == "Booster"
    booster = model if native else _booster_of(model)
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    ensemble = _ensemble(learner, name)
    found = range(len(ensemble.start)) if native else np.asarray(model.classes_)
    labels = as_classes(found if classes is None else classes, len(ensemble.start))
    features = int(learner["learner_model_param"]["num_feature"])
    names = tuple(map(str, booster.feature_names or ()))
    return TreeClassifier(
        ensemble,
        model,
        labels,
        features,
        domain or Domain(),
        names,
        accepts_missing=True,
        positions=_decided if native else positions_of,
        reads_categories="c" in (booster.feature_types or ()),
    )


def _booster_of(model: Any) -> Any:
    """Return the trees that a wrapper predicts with, which are those up to the best iteration."""
    name = type(model).__name__
    try:
        booster = model.get_booster()
    except Exception as error:  # of a type of scikit-learn or XGBoost, depending on the version
        raise ModelError(f"The {name} is not fitted. Call its method `fit` first.") from error
    missing = getattr(model, "missing", np.nan)
    if missing is not None and not np.isnan(missing):
        raise ModelError(f"The {name} treats {missing:g} as missing (`missing`). Use NaN for missing values.")
    try:
        best = model.best_iteration  # raises without early stopping
    except AttributeError:
        return booster
    return booster[: best + 1] if name == "XGBClassifier" else booster


def _ensemble(learner: Any, name: str) -> TreeEnsemble:
    """Return the sum of the trees in XGBoost's own JSON."""
    objective = learner["objective"]["name"]
    if objective not in ("binary:logistic", "multi:softprob", "multi:softmax"):
        raise ModelError(f"The {name} has the objective {objective}. {_SUPPORTED}.")
    kind = learner["gradient_booster"]["name"]
    if kind != "gbtree":
        raise ModelError(f"The {name} was trained with the booster {kind}, which cannot be read. Use gbtree.")
    parameters = learner["learner_model_param"]
    classes = max(2, int(parameters["num_class"]))
    content = learner["gradient_booster"]["model"]
    for tree in content["trees"]:
        if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
            raise ModelError(
                f"The trees of the {name} have several outputs (`multi_strategy`). Use one_output_per_tree."
            )
    # Wider than all codes that categories of a data frame have, also that of an unknown category.
    listed = [len(each.get("offsets", each["values"])) for each in content.get("cats", {}).get("enc", ())]
    codes = max([-1, *(code for tree in content["trees"] for code in tree.get("categories", ()))])
    width = max([codes + 2, *(length + 1 for length in listed)])
    trees = [
        _tree(tree, 1 if objective == "binary:logistic" else int(group), classes, width)
        for tree, group in zip(content["trees"], content["tree_info"], strict=True)
    ]
    base = np.ravel(json.loads(parameters["base_score"])).astype(np.float32)
    if objective == "binary:logistic":
        # XGBoost computes -log(1 / p - 1) in single precision.
        odds = (np.float32(1) / base[0] - np.float32(1)).astype(np.float64)
        start = np.array([0.0, np.float32(-np.log(odds))])
    else:
        start = np.broadcast_to(base, classes).astype(np.float64)
    rounding = _EPSILON * (len(trees) + 1) * largest_score(trees, start)
    return joined(trees, start, rounding, single=True, lead=_LEAD if objective == "binary:logistic" else 0.0)


def _tree(tree: Any, group: int, classes: int, width: int) -> Tree:
    """Read one tree, which converts samples to float32. It compares them with `<`, or finds codes in sets."""
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    inner = left >= 0
    condition = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
    categorical = np.array(tree.get("split_type", np.zeros(len(left)))).astype(bool) & inner
    limits = np.where(inner & ~categorical & np.isfinite(condition), condition, 0.0)

    def goes_right(values: Floats) -> Bools:
        return values.astype(np.float32).astype(np.float64) >= limits

    value = np.zeros((len(left), classes))
    value[:, group] = np.where(inner, 0.0, condition)
    sets, set_of = _sets(tree, len(left), width)
    read = Tree(
        np.where(inner, np.array(tree["split_indices"]), LEAF),
        np.where(np.isfinite(condition), first_right_of_float32(goes_right, limits), condition),
        np.array(tree["default_left"]).astype(bool),
        np.where(inner, left, 0),
        np.where(inner, right, 0),
        value,
        sets,
        set_of,
    )
    return _others_left(read, width)


def _sets(tree: Any, nodes: int, width: int) -> tuple[Bools, Ints]:
    """Return the codes that go left. XGBoost lists those that go right."""
    codes = tree.get("categories", ())
    parts = zip(
        tree.get("categories_nodes", ()),
        tree.get("categories_segments", ()),
        tree.get("categories_sizes", ()),
        strict=True,
    )
    sets, set_of = sets_of_codes({node: codes[start : start + size] for node, start, size in parts}, nodes, width)
    return ~sets, set_of


def _others_left(tree: Tree, width: int) -> Tree:
    """Return the tree in which numbers that are no codes go left at sets, as in XGBoost, and not where NaN goes.

    Two nodes come before a set at which NaN goes right: one sends numbers below 0 to the left, and the other those from
    `width` on.
    """
    asked = np.flatnonzero((tree.set_of != NO_SET) & ~tree.missing_left)
    if not len(asked):
        return tree
    count, more = len(tree.feature), len(asked)
    beyond, there = count + np.arange(more), count + more + np.arange(more)

    def extended(values: Any, at_asked: Any, at_beyond: Any, at_there: Any) -> Any:
        result = np.concatenate([values, np.broadcast_to(at_beyond, more), np.broadcast_to(at_there, more)])
        result[asked] = at_asked
        return result

    # The node itself now asks for numbers below 0, so that its parent finds it.
    return Tree(
        extended(tree.feature, tree.feature[asked], tree.feature[asked], tree.feature[asked]),
        extended(tree.first_right, 0.0, float(width), 0.0),
        extended(tree.missing_left, False, True, False),
        extended(tree.left, tree.left[asked], there, tree.left[asked]),
        extended(tree.right, beyond, tree.left[asked], tree.right[asked]),
        np.concatenate([tree.value, np.zeros((2 * more, tree.value.shape[1]))]),
        tree.sets,
        extended(tree.set_of, NO_SET, NO_SET, tree.set_of[asked]),
    )


def _decided(booster: Any, table: Any) -> Ints:
    """Return the positions of the most probable classes by a Booster."""
    # An array does not say which features are categories, but a data frame does.
    types = None if hasattr(table, "columns") or "c" not in (booster.feature_types or ()) else booster.feature_types
    matrix = sys.modules["xgboost"].DMatrix(
        table, feature_names=booster.feature_names, feature_types=types, enable_categorical=True
    )
    scores = np.asarray(booster.predict(matrix, output_margin=True))
    decided: Ints = (scores > _LEAD).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
    return decided
