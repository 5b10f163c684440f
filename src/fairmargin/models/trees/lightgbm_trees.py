"""Reading LightGBM's boosted trees through the user's own installation of LightGBM."""

from typing import Any

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError
from fairmargin.models.protocol import as_classes
from fairmargin.models.trees.ensemble import (
    LEAF,
    Tree,
    TreeClassifier,
    TreeEnsemble,
    joined,
    largest_score,
    positions_of,
    sets_of_codes,
)

_EPSILON = float(np.finfo(np.float64).eps)
# The sigmoid of a smaller score is exactly 0.5.
_LEAD = 1.5 * 2.0**-53
# LightGBM reads numbers up to this size as 0.
_ZERO = float(np.float32(1e-35))
# LightGBM writes this number for infinity, at splits that separate missing from present values.
_INFINITE = 1e300


def is_lightgbm(model: object) -> bool:
    """Return whether the model is an LGBMClassifier or a Booster, without importing LightGBM."""
    kind = type(model)
    return kind.__module__.split(".")[0] == "lightgbm" and kind.__name__ in ("LGBMClassifier", "Booster")


def from_lightgbm(model: Any, domain: Domain | None = None, classes: Any = None) -> TreeClassifier:
    """Convert a fitted LGBMClassifier, or a Booster with an objective of classification."""
    name = type(model).__name__
    native = name == "Booster"
    try:
        booster = model if native else model.booster_
    except Exception as error:  # LightGBM's own type
        raise ModelError(f"The {name} is not fitted. Call its method `fit` first.") from error
    content = booster.dump_model()  # up to the best iteration, as in its predictions
    ensemble = _ensemble(content, name)
    found = range(len(ensemble.start)) if native else np.asarray(model.classes_)
    names = tuple(map(str, getattr(model, "feature_names_in_", ()) if not native else booster.feature_name()))
    unnamed = names == tuple(f"Column_{i}" for i in range(len(names)))
    return TreeClassifier(
        ensemble,
        model,
        as_classes(found if classes is None else classes, len(ensemble.start)),
        int(content["max_feature_idx"]) + 1,
        domain or Domain(),
        () if unnamed else names,
        accepts_missing=True,
        positions=_decided if native else positions_of,
        reads_categories=bool(content.get("pandas_categorical")) or len(ensemble.sets) > 0,
    )


def _ensemble(content: Any, name: str) -> TreeEnsemble:
    """Return the sum of the trees in LightGBM's own JSON."""
    objective = str(content.get("objective", "of your own")).split(" ")
    if objective[0] not in ("binary", "multiclass"):
        raise ModelError(f"The {name} has the objective {objective[0]}. Supported are binary and multiclass.")
    binary, each = objective[0] == "binary", int(content["num_tree_per_iteration"])
    classes = 2 if binary else each
    trees = [
        _tree(tree["tree_structure"], 1 if binary else place % each, classes, name)
        for place, tree in enumerate(content["tree_info"])
    ]
    slope = float(dict(part.split(":") for part in objective[1:]).get("sigmoid", 1.0))
    start = np.zeros(classes)
    return joined(
        trees,
        start,
        4 * _EPSILON * (len(trees) + 1) * largest_score(trees, start),
        divisor=len(trees) // each if content.get("average_output") else 1.0,
        lead=_LEAD / slope if binary else 0.0,
    )


def _tree(root: Any, group: int, classes: int, name: str) -> Tree:
    """Read one tree, which compares doubles with `<=`, and asks whether the codes of categories are in sets."""
    nodes = [root]
    rows: list[tuple[int, float, bool, int, int, float]] = []
    members: dict[int, list[int]] = {}  # the codes that go left, for nodes with categories
    for node in nodes:  # which grows
        if "leaf_coeff" in node:
            raise ModelError(f"The {name} has linear models in its leaves (`linear_tree`), which cannot be read.")
        if "leaf_value" in node:
            rows.append((LEAF, 0.0, False, 0, 0, float(node["leaf_value"])))
            continue
        if node["decision_type"] == "==":
            # Missing values, negative codes and those beyond the listed ones go right.
            members[len(rows)] = [int(code) for code in str(node["threshold"]).split("||")]
            split = int(node["split_feature"]), 0.0, False
        else:
            split = _split(node, name)
        rows.append((*split, len(nodes), len(nodes) + 1, 0.0))
        nodes += [node["left_child"], node["right_child"]]
    feature, limit, missing_left, left, right, value = (np.array(column) for column in zip(*rows, strict=True))
    values = np.zeros((len(nodes), classes))
    values[:, group] = value
    sets, set_of = sets_of_codes(members, len(nodes))
    return Tree(feature, _first_right(limit), missing_left, left, right, values, sets, set_of)


def _split(node: Any, name: str) -> tuple[int, float, bool]:
    """Return the feature and the threshold of a split, and whether missing values go left."""
    if node["decision_type"] != "<=":
        raise ModelError(f"The {name} has splits of the type {node['decision_type']}, which cannot be read.")
    if node["missing_type"] == "Zero":
        raise ModelError(f"The {name} treats zeros as missing (`zero_as_missing`). Use NaN for missing values.")
    limit = float(node["threshold"])
    # Where no value was missing in the training data, LightGBM reads a missing value as 0.
    missing_left = bool(node["default_left"]) if node["missing_type"] == "NaN" else limit >= 0
    return int(node["split_feature"]), limit, missing_left


def _first_right(limits: Floats) -> Floats:
    """Return the smallest doubles that go right; those that count as 0 all go the same way."""
    ends = np.where(limits < 0, -_ZERO, np.nextafter(_ZERO, 1.0))
    right = np.where(np.abs(limits) <= _ZERO, ends, np.nextafter(limits, np.inf))
    return np.where(limits >= _INFINITE, np.inf, right)


def _decided(booster: Any, rows: Any) -> Ints:
    """Return the positions of the most probable classes by a Booster."""
    shares = np.asarray(booster.predict(rows))
    decided: Ints = (shares > 0.5).astype(np.int64) if shares.ndim == 1 else shares.argmax(axis=1)
    return decided
