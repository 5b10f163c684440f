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
    Tree,
    TreeClassifier,
    TreeEnsemble,
    first_right_of_float32,
    joined,
    largest_score,
    positions_of,
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
    trees = [
        _tree(tree, 1 if objective == "binary:logistic" else int(group), classes, name)
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


def _tree(tree: Any, group: int, classes: int, name: str) -> Tree:
    """Read one tree, which converts samples to float32 and compares them with `<`."""
    if tree.get("categories") or any(tree.get("split_type", ())):
        raise ModelError(
            f"The {name} has splits by categories, which cannot be read yet. Encode categories as numbers, without "
            "`enable_categorical`."
        )
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise ModelError(f"The trees of the {name} have several outputs (`multi_strategy`). Use one_output_per_tree.")
    left = np.array(tree["left_children"])
    inner = left >= 0
    condition = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
    limits = np.where(inner & np.isfinite(condition), condition, 0.0)

    def goes_right(values: Floats) -> Bools:
        return values.astype(np.float32).astype(np.float64) >= limits

    value = np.zeros((len(left), classes))
    value[:, group] = np.where(inner, 0.0, condition)
    return Tree(
        np.where(inner, np.array(tree["split_indices"]), LEAF),
        np.where(np.isfinite(condition), first_right_of_float32(goes_right, limits), condition),
        np.array(tree["default_left"]).astype(bool),
        np.where(inner, left, 0),
        np.where(inner, np.array(tree["right_children"]), 0),
        value,
    )


def _decided(booster: Any, rows: Floats) -> Ints:
    """Return the positions of the most probable classes by a Booster."""
    matrix = sys.modules["xgboost"].DMatrix(rows, feature_names=booster.feature_names)
    scores = np.asarray(booster.predict(matrix, output_margin=True))
    decided: Ints = (scores > _LEAD).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
    return decided
