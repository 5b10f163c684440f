"""scikit-learn's linear models, also at the end of affine pipelines, as one exact `LinearClassifier`."""

from typing import Any

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.domain import Domain
from fairmargin.errors import ModelError
from fairmargin.models.linear import LinearClassifier

# Exact types, not subclasses: a subclass may override `predict`, and then coefficients no longer tell what it does.
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
    "feature selectors and 'passthrough'."
)


def is_sklearn(model: object) -> bool:
    """Whether the model's class is derived from scikit-learn's, asked without importing it."""
    return any(base.__module__.split(".")[0] == "sklearn" for base in type(model).__mro__)


def from_sklearn(model: Any, domain: Domain | None = None, classes: Any = None) -> LinearClassifier:
    """The same decisions as a `LinearClassifier` of the pipeline's *input*.

    Each affine step z = A x + c before the classifier turns its scores W z + b into (W A) x + (W c + b); walking back
    through the pipeline composes them in algebra, with no approximation beyond rounding.

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
    weight, bias = _scores(*steps[-1])
    for name, step in reversed(steps[:-1]):
        weight, bias = _before(name, step, weight, bias)
    names = getattr(steps[0][1], "feature_names_in_", ())  # known when it was fitted on a data frame
    return LinearClassifier(weight, bias, steps[-1][1].classes_ if classes is None else classes, domain, names)


def _steps(model: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """(name, step) in order, nested pipelines unfolded, steps that do nothing left out."""
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
        raise ModelError(f"The Pipeline has no step that does anything. {_SUPPORTED}")
    return steps


def _scores(name: str, model: Any) -> tuple[Floats, Floats]:
    """Weights and biases, one row per class, of the classifier itself."""
    if type(model) not in _types(_CLASSIFIERS):
        hint = " Pass its `.best_estimator_`." if hasattr(model, "best_estimator_") else ""
        raise ModelError(f"{_where(name, model)} is not known to be a linear classifier. {_SUPPORTED}{hint}")
    _check_fitted(name, model)
    coefficients = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_  # after `sparsify()`
    weight = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
    bias = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), weight.shape[:1])
    binarizer = getattr(model, "_label_binarizer", None)
    if str(getattr(binarizer, "y_type_", "")).startswith("multilabel"):
        raise ModelError(f"{_where(name, model)} predicts several labels a sample; only one a sample is supported.")
    if len(weight) == 1:  # binary: class 1 if the score is above 0, which is how argmax breaks the tie too
        return np.vstack([np.zeros_like(weight), weight]), np.append(0.0, bias)
    return weight, bias


def _before(name: str, step: Any, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
    """Weights and biases as seen before this step, from those after it."""
    from sklearn.decomposition import PCA, TruncatedSVD
    from sklearn.feature_selection import SelectorMixin
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    kind = type(step)
    known = kind in (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA, TruncatedSVD)
    if not known and not isinstance(step, SelectorMixin):
        raise ModelError(f"{_where(name, step)} is not known to be affine, so the whole is not linear. {_SUPPORTED}")
    if getattr(step, "clip", False):
        raise ModelError(
            f"{_where(name, step)} clips (clip=True), so the whole is not linear. Refit with clip=False and give the "
            "limits of the inputs as `bounds` instead."
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
    """⟨w, x − origin⟩ + b as an affine function of x."""
    return weight, bias - weight @ np.broadcast_to(origin, weight.shape[1:])


def _whitening(pca: Any) -> Any:
    if not pca.whiten:
        return 1.0
    spread = np.sqrt(pca.explained_variance_)
    return np.maximum(spread, np.finfo(spread.dtype).eps)  # the same floor as PCA.transform


def _check_fitted(name: str, step: Any) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(step)
    except NotFittedError:
        raise ModelError(f"{_where(name, step)} has not been fitted. Call `.fit(x, y)` before measuring it.") from None


def _types(names: dict[str, tuple[str, ...]]) -> set[type]:
    from importlib import import_module

    found = (getattr(import_module(module), name, None) for module, group in names.items() for name in group)
    return {kind for kind in found if kind is not None}  # later versions may drop a deprecated one


def _where(name: str, step: Any) -> str:
    return f"Step '{name}' ({type(step).__name__})" if name else f"The model ({type(step).__name__})"
