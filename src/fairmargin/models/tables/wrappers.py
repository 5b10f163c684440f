"""Models around other models: searches of parameters, tuned thresholds, and calibration of one classifier.

The decision of a threshold or of a calibrator on two classes is a threshold on the score of the last step. It is found
by bisection through the fitted objects themselves, and becomes a part of the head.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.errors import ModelError
from fairmargin.models.sklearn_model import is_linear
from fairmargin.models.tables.classifier import LinearHead
from fairmargin.models.tables.network import NetworkHead
from fairmargin.models.tables.transformers import check_fitted, described
from fairmargin.models.trees.ensemble import TreeEnsemble, first_right
from fairmargin.models.trees.lightgbm_trees import is_lightgbm
from fairmargin.models.trees.xgboost_trees import is_xgboost

_SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "HalvingRandomSearchCV")
_THRESHOLDS = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")
_CALIBRATED, _FROZEN = "CalibratedClassifierCV", "FrozenEstimator"
_SEVERAL = (
    "StackingClassifier",
    "VotingClassifier",
    "BaggingClassifier",
    "AdaBoostClassifier",
    "OneVsRestClassifier",
    "OneVsOneClassifier",
    "OutputCodeClassifier",
    "MultiOutputClassifier",
    "ClassifierChain",
    "SelfTrainingClassifier",
)
# Classifiers whose scores are sums of shares of classes.
_SHARES = ("DecisionTreeClassifier", "ExtraTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier")
_FAR = 1e300  # scores beyond are not tried

Head = LinearHead | TreeEnsemble | NetworkHead


def inner_of(model: Any, where: str) -> Any | None:
    """Return the model inside a search, a threshold or a calibrator; None for other models."""
    name = _name(model)
    if name in _SEVERAL:
        raise ModelError(f"{described(where, model)} combines several models, which cannot be read. Audit one of them.")
    if name in _SEARCHES:
        if not hasattr(model, "best_estimator_"):
            hint = "Call `.fit(x, y)`" if getattr(model, "refit", True) else "Fit it with refit=True"
            raise ModelError(f"{described(where, model)} has no `best_estimator_`. {hint} before the audit.")
        return model.best_estimator_
    if name == _FROZEN:
        return model.estimator
    if name in _THRESHOLDS:
        inner = getattr(model, "estimator_", model.estimator)
        check_fitted(inner, where)
        return inner
    if name == _CALIBRATED:
        check_fitted(model, where)
        if len(model.calibrated_classifiers_) > 1:
            raise ModelError(
                f"{described(where, model)} averages {len(model.calibrated_classifiers_)} calibrated models, which "
                "cannot be read. Fit it with ensemble=False."
            )
        return model.calibrated_classifiers_[0].estimator
    return None


def decides_otherwise(model: Any) -> bool:
    """Return whether a model around another may decide otherwise than that one does."""
    name = _name(model)
    if name == _CALIBRATED and len(model.classes_) > 2:
        method = model.calibrated_classifiers_[0].method
        if method != "temperature":
            raise ModelError(
                f"The {name} calibrates {len(model.classes_)} classes one by one, so that their scores are not "
                "comparable any more. It can be read for two classes, or with method='temperature'."
            )
        return False  # it is a rising function of all scores
    return name in _THRESHOLDS or name == _CALIBRATED


def decided_by(model: Any, last: Any, head: Head) -> Head:
    """Return the head that decides between two classes as a model around it does.

    Parameters
    ----------
    model
        The outermost model.
    last
        The classifier inside, whose score of the second class is that of the head.
    head
        The head of this classifier.
    """
    outer = _around(model, _standing_in(last, head))

    def is_second(scores: Floats) -> Bools:
        with np.errstate(all="ignore"):
            return np.asarray(outer.predict(scores.reshape(-1, 1)) == model.classes_[1])

    low, high = _range(head)
    begins, ends = is_second(np.array([low, high]))
    if begins == ends:
        return _constant(head, bool(begins))
    threshold = float(_first(lambda scores: is_second(scores) == ends, low, high))
    if isinstance(head, TreeEnsemble) and head.single:  # sums are in single precision
        threshold = float(_single_at_least(threshold))
    if isinstance(head, TreeEnsemble) and not head.rounding:  # sums are whole numbers
        threshold = float(np.ceil(threshold))
    return _thresholded(head, threshold) if ends else _reversed(head, threshold)


def _name(model: Any) -> str:
    """Return the name of a class of scikit-learn; "" for others."""
    kind = type(model)
    return kind.__name__ if kind.__module__.startswith("sklearn.") else ""


def _around(model: Any, stand_in: Any) -> Any:
    """Return a model with the classifier inside replaced, and without steps before it."""
    name = _name(model)
    if name == "Pipeline":
        return _around(model.steps[-1][1], stand_in)
    inner = inner_of(model, "")
    if inner is None:
        return stand_in
    if name in _THRESHOLDS:
        changed = copy.copy(model)
        changed.estimator_ = _around(inner, stand_in)
        return changed
    if name == _CALIBRATED:
        changed, part = copy.copy(model), copy.copy(model.calibrated_classifiers_[0])
        part.estimator = _around(inner, stand_in)
        changed.calibrated_classifiers_ = [part]
        return changed
    return _around(inner, stand_in)


def _standing_in(last: Any, head: Head) -> Any:
    """Return a classifier of one feature, the score, with the responses of the last step."""
    if is_linear(last):
        stand_in = copy.copy(last)
        stand_in.coef_, stand_in.intercept_, stand_in.n_features_in_ = np.ones((1, 1)), np.zeros(1), 1
        if hasattr(stand_in, "feature_names_in_"):
            del stand_in.feature_names_in_
        return stand_in
    from sklearn.base import BaseEstimator, ClassifierMixin

    shares = _shares_of(last, head)

    class Responses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """Probabilities of the second class, by its score."""

        def fit(self, x: Any, y: Any) -> "Responses":
            return self

        def predict_proba(self, x: Floats) -> Floats:
            return shares(np.asarray(x)[:, 0])

    class Decisions(Responses):
        """Scores and probabilities of the second class, by its score."""

        def decision_function(self, x: Floats) -> Floats:
            return np.asarray(x)[:, 0]

    responses = Decisions() if hasattr(last, "decision_function") else Responses()
    responses.classes_ = last.classes_
    return responses


def _shares_of(last: Any, head: Head) -> Callable[[Floats], Floats]:
    """Return the function from the score of the second class to the probabilities of both."""
    if isinstance(head, TreeEnsemble) and type(last).__name__ in _SHARES:
        trees = head.divisor
        return lambda scores: np.clip(np.stack([trees - scores, scores], axis=1) / trees, 0.0, 1.0)
    from scipy.special import expit

    slope = float(last.booster_.params.get("sigmoid", 1.0)) if is_lightgbm(last) else 1.0

    def shares(scores: Floats) -> Floats:
        second = expit(scores.astype(np.float32) if is_xgboost(last) else slope * scores)
        return np.stack([1 - second, second], axis=1)

    return shares


def _range(head: Head) -> tuple[float, float]:
    if isinstance(head, TreeEnsemble) and head.single:
        return float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)
    return -_FAR, _FAR


def _first(decides: Callable[[Floats], Bools], low: float, high: float) -> float:
    """Return the smallest number from which on a monotone decision is True."""
    at_zero = bool(decides(np.zeros(1))[0])
    low, high = (low, 0.0) if at_zero else (0.0, high)
    return float(first_right(decides, np.array([low]), np.array([high]))[0])


def _single_at_least(number: float) -> np.float32:
    """Return the smallest number in single precision that is at least a number."""
    near = np.float32(number)
    return near if float(near) >= number else np.nextafter(near, np.float32(np.inf))


def _thresholded(head: Head, threshold: float) -> Head:
    """Return the head that chooses the second class where its score is at least a threshold."""
    if isinstance(head, TreeEnsemble):
        value = head.value.copy()
        value[:, 0] = 0.0
        start = np.array([threshold, head.start[1]])
        return replace(head, value=value, start=start, divisor=1.0, lead=0.0, last_wins_ties=True)
    below = float(np.nextafter(threshold, -np.inf))
    if isinstance(head, LinearHead):
        return LinearHead(head.weight, head.bias + np.array([below, 0.0]))
    return replace(head, biases=(*head.biases[:-1], head.biases[-1] - below))


def _reversed(head: Head, threshold: float) -> Head:
    """Return the head that chooses the second class where its score is below a threshold."""
    below = float(np.nextafter(threshold, -np.inf))
    if isinstance(head, TreeEnsemble):
        below = float(np.nextafter(np.float32(threshold), np.float32(-np.inf))) if head.single else below
        value = np.stack([head.value[:, 1], np.zeros(len(head.value))], axis=1)
        start = np.array([head.start[1], below])
        return replace(head, value=value, start=start, divisor=1.0, lead=0.0, last_wins_ties=True)
    if isinstance(head, LinearHead):
        return LinearHead(head.weight[::-1], head.bias[::-1] + np.array([0.0, threshold]))
    weights = (*head.weights[:-1], -head.weights[-1])
    return replace(head, weights=weights, biases=(*head.biases[:-1], threshold - head.biases[-1]))


def _constant(head: Head, is_second: bool) -> Head:
    """Return the head that always chooses the same class."""
    scores = np.array([0.0, 1.0]) if is_second else np.array([1.0, 0.0])
    if isinstance(head, TreeEnsemble):
        return replace(head, value=np.zeros_like(head.value), start=scores)
    if isinstance(head, LinearHead):
        return LinearHead(np.zeros_like(head.weight), scores)
    last = np.zeros_like(head.weights[-1])
    return replace(head, weights=(*head.weights[:-1], last), biases=(*head.biases[:-1], scores[1:] - scores[:1]))
