"""Conversion of scikit-learn's linear models, also at the end of affine pipelines, to a `LinearClassifier`."""

from typing import Any

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError
from fairmargin.models.linear import LinearClassifier

# Exact types only, because a subclass may override `predict`, so that the coefficients do not determine predictions.
_CLASSIFIERS = {
    "sklearn.linear_model": (
        "LogisticRegression",
        "LogisticRegressionCV",
        "RidgeClassifier",
        "RidgeClassifierCV",
        "SGDClassifier",
        "Perceptron",
        "PassiveAggressiveClassifier",
    ),
    "sklearn.svm": ("LinearSVC",),
    "sklearn.discriminant_analysis": ("LinearDiscriminantAnalysis",),
}
_SUPPORTED = (
    "Supported are " + ", ".join(name for names in _CLASSIFIERS.values() for name in names) + ", alone or last in a "
    "Pipeline after StandardScaler, MinMaxScaler, MaxAbsScaler (without clip), RobustScaler, PCA, TruncatedSVD, "
    "feature selectors and 'passthrough'. For distances between the raw rows of a table, give `training_data`."
)


def is_sklearn(model: object) -> bool:
    """Return whether the class of the model is derived from a class of scikit-learn, without importing it."""
    return any(base.__module__.split(".")[0] == "sklearn" for base in type(model).__mro__)


def from_sklearn(model: Any, domain: Domain | None = None, classes: Any = None) -> LinearClassifier:
    """Convert a linear model or pipeline to a `LinearClassifier` of its *input*.

    Each affine step z = A x + c before the classifier turns its scores W z + b into (W A) x + (W c + b). Composing the
    steps backwards through the pipeline is exact up to rounding.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> x = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, ["low", "low", "high", "high"])
    >>> linear = from_sklearn(pipeline)
    >>> linear.classes, linear.predict(np.array([[4.4], [4.6]])).tolist()
    (('high', 'low'), [1, 0])
    """
    steps = _steps(model)
    weight, bias = scores_of(*steps[-1])
    for name, step in reversed(steps[:-1]):
        weight, bias = _before(name, step, weight, bias)
    names = getattr(steps[0][1], "feature_names_in_", ())  # known when it was fitted on a data frame
    return LinearClassifier(weight, bias, steps[-1][1].classes_ if classes is None else classes, domain, names)


def _steps(model: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Return (name, step) in order, with nested pipelines flattened and without steps that do nothing."""
    from sklearn.pipeline import Pipeline

    if type(model) is not Pipeline:
        return [(prefix, model)]
    steps = [
        inner
        for name, step in model.steps
        if step is not None and step != "passthrough"
        for inner in _steps(step, f"{prefix}.{name}".lstrip("."))
    ]
    if not steps and not prefix:
        raise ModelError(f"The Pipeline has no steps, or they all do nothing. {_SUPPORTED}")
    return steps


def is_linear(model: object) -> bool:
    """Return whether the model is one of scikit-learn's linear classifiers, without importing scikit-learn."""
    kind = type(model)
    return kind.__name__ in _CLASSIFIERS.get(".".join(kind.__module__.split(".")[:2]), ())


def scores_of(name: str, model: Any) -> tuple[Floats, Floats]:
    """Return weights and biases of a linear classifier, one row per class; `name` is its step in the pipeline."""
    if not is_linear(model):
        hint = " Pass its `.best_estimator_`." if hasattr(model, "best_estimator_") else ""
        raise ModelError(f"{_where(name, model)} is not known to be a linear classifier. {_SUPPORTED}{hint}")
    _check_fitted(name, model)
    coefficients = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_  # after `sparsify()`
    weight = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
    bias = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), weight.shape[:1])
    binarizer = getattr(model, "_label_binarizer", None)
    if str(getattr(binarizer, "y_type_", "")).startswith("multilabel"):
        raise ModelError(f"{_where(name, model)} predicts several labels per sample; only one is supported.")
    if len(weight) == 1:  # binary: class 1 if the score is above 0; with argmax, ties also go to class 0
        return np.vstack([np.zeros_like(weight), weight]), np.append(0.0, bias)
    return weight, bias


def _before(name: str, step: Any, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
    """Return the weights and biases for the input of a step, from those for its output."""
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.feature_selection import SelectorMixin
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    kind = type(step)
    known = kind in (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA, TruncatedSVD)
    if not known and not isinstance(step, SelectorMixin):
        raise ModelError(f"{_where(name, step)} is not known to be affine, so the model is not linear. {_SUPPORTED}")
    if getattr(step, "clip", False):
        raise ModelError(
            f"{_where(name, step)} clips (clip=True), so the model is not linear. Refit with clip=False and give the "
            "bounds of the inputs as `bounds`."
        )
    _check_fitted(name, step)
    if kind is StandardScaler:
        return _shifted(weight / step.scale_ if step.with_std else weight, bias, step.mean_ if step.with_mean else 0.0)
    if kind is RobustScaler:
        scaled = weight / step.scale_ if step.with_scaling else weight
        return _shifted(scaled, bias, step.center_ if step.with_centering else 0.0)
    if kind is MaxAbsScaler:
        return weight / step.scale_, bias
    if kind is MinMaxScaler:  # z = x · scale_ + min_
        return weight * step.scale_, bias + weight @ step.min_
    if kind is PCA:
        return _shifted((weight / _whitening(step)) @ step.components_, bias, step.mean_)
    if kind is TruncatedSVD:
        return weight @ step.components_, bias
    kept = step.get_support()
    spread = np.zeros((len(weight), len(kept)))
    spread[:, kept] = weight
    return spread, bias


def _shifted(weight: Floats, bias: Floats, origin: Any) -> tuple[Floats, Floats]:
    """Return weight and bias of ⟨w, x − origin⟩ + b as an affine function of x."""
    return weight, bias - weight @ np.broadcast_to(origin, weight.shape[1:])


def _whitening(pca: Any) -> Any:
    if not pca.whiten:
        return 1.0
    spread = np.sqrt(pca.explained_variance_)
    return np.maximum(spread, np.finfo(spread.dtype).eps)  # the same lower limit as in PCA.transform


def _check_fitted(name: str, step: Any) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(step)
    except NotFittedError:
        raise ModelError(f"{_where(name, step)} has not been fitted. Call `.fit(x, y)` before measuring it.") from None


def _where(name: str, step: Any) -> str:
    return f"Step '{name}' ({type(step).__name__})" if name else f"The model ({type(step).__name__})"
