"""Conversion of the supported kinds of models to a `Classifier`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from os import PathLike
from typing import Any, cast

import numpy as np

from fairmargin.core.column import Column
from fairmargin.core.domain import Domain
from fairmargin.errors import InputError, ModelError
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.protocol import Classifier, as_classes
from fairmargin.models.sklearn_model import from_sklearn, is_sklearn
from fairmargin.models.tables.reading import is_tabular, read_table_model
from fairmargin.models.trees.ensemble import TreeClassifier
from fairmargin.models.trees.lightgbm_trees import from_lightgbm, is_lightgbm
from fairmargin.models.trees.sklearn_trees import from_sklearn_trees, is_sklearn_tree
from fairmargin.models.trees.xgboost_trees import from_xgboost, is_xgboost

Recognise = Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class Overrides:
    """The optional arguments of `as_classifier`."""

    domain: Domain | None = None
    classes: Any = None
    mean: Any = None
    std: Any = None
    device: Any = None
    tile: int | None = None

    def without_torch(self, kind: str) -> None:
        """Refuse arguments that only apply to torch modules."""
        unused = [name for name in ("mean", "std", "device", "tile") if getattr(self, name) is not None]
        if unused:
            raise InputError(f"`{unused[0]}` is for torch modules; given with {kind}. Leave it out.")


Convert = Callable[[Any, Overrides], Classifier]


def as_classifier(
    model: object,
    *,
    domain: Domain | None = None,
    bounds: tuple[Any, Any] | None = None,
    classes: Any = None,
    mean: Any = None,
    std: Any = None,
    device: Any = None,
    tile: int | None = None,
    columns: Mapping[str, Column] | None = None,
    training_data: Any = None,
) -> Classifier:
    """Convert a model to a `Classifier` with the same decisions.

    Parameters
    ----------
    model
        A `Classifier`; a `torch.nn.Module` that returns one score or probability per class, or one logit or
        probability of the second of two classes; a fitted linear scikit-learn model or affine Pipeline; a fitted tree,
        forest or boosted ensemble of scikit-learn, XGBoost or LightGBM; or `(weight, bias)`, with one row of weights
        per class, or a single row w and number b for a binary model (class 1 where ⟨w, x⟩ + b > 0). With `columns` or
        `training_data`: any of these of scikit-learn, XGBoost and LightGBM and `MLPClassifier`, also last in a Pipeline
        of steps that treat each column separately, and inside a search of parameters, a tuned threshold or a
        calibrator.
    domain
        Valid inputs, and the scale in which distances are measured. By default, a `Classifier` keeps its own domain, a
        torch module has pixels in [0, 1], and other models are unbounded.
    bounds
        `(low, high)`, short for `Domain(low, high)`.
    classes
        Label values; by default those of the model.
    mean, std
        For torch modules: the normalisation of inputs that the module expects. It becomes the first layer, so that
        distances are in pixels.
    device
        For torch modules: the device for computations; by default a GPU if available.
    tile
        For torch modules: the fixed batch size; 64 by default.
    columns
        For models of tables: a dict from names of columns to rules, each an `fm.Column`. With it, or with
        `training_data`, the classifier takes raw rows, and its distances are the norm of the costs of columns.
    training_data
        For models of tables: the table that the model was trained on, from which units, steps, ranges and categories
        are taken where `columns` does not give them.

    >>> as_classifier(([2.0, 0.0], -1.0), bounds=(0, 1))
    LinearClassifier(2 classes, 2 features, Domain(low=0, high=1, scale=1))
    """
    overrides = Overrides(_domain(domain, bounds), classes, mean, std, device, tile)
    if isinstance(model, type):
        raise ModelError(f"Expected a model; given the class `{model.__name__}`. Create an object of it, and fit it.")
    if columns is not None or training_data is not None:
        return _of_table(model, overrides, columns, training_data)
    for _, recognise, convert in _CONVERTERS:
        if recognise(model):
            return convert(model, overrides)
    supported = "; ".join(description for description, _, _ in _CONVERTERS)
    hint = " Load a file first, for instance with `joblib.load`." if isinstance(model, str | PathLike) else ""
    raise ModelError(f"Cannot read a model of type `{_type_name(model)}`. Supported are: {supported}.{hint}")


def _of_table(
    model: object, overrides: Overrides, columns: Mapping[str, Column] | None, training_data: Any
) -> Classifier:
    """Return a classifier of raw rows."""
    overrides.without_torch("`columns` or `training_data`")
    if overrides.domain is not None:
        raise InputError("Give `columns` or `domain`, not both: the rules of columns say how a row may change.")
    if not is_tabular(model):
        raise ModelError(
            f"`columns` and `training_data` are for models of scikit-learn, XGBoost and LightGBM; given a "
            f"`{_type_name(model)}`. Leave them out."
        )
    return read_table_model(model, columns, training_data=training_data, classes=overrides.classes)


def is_model(value: object) -> bool:
    """Return whether `as_classifier` accepts the value, except pairs of arrays, which can also be something else.

    >>> is_model(LinearClassifier([[1.0], [2.0]], [0.0, 0.0])), is_model("model.pt")
    (True, False)
    """
    return any(recognise(value) for _, recognise, _ in _CONVERTERS if recognise is not _is_weight_and_bias)


def _domain(domain: Domain | None, bounds: tuple[Any, Any] | None) -> Domain | None:
    if bounds is None:
        return domain
    if domain is not None:
        raise InputError("Give `bounds` or `domain`, not both: `bounds=(low, high)` is short for `Domain(low, high)`.")
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InputError("must be a pair (low, high), such as (0, 1)", field="bounds", given=bounds)
    return Domain(*bounds)


def _adapted(model: Any, overrides: Overrides) -> Classifier:
    """Return the classifier, with another domain or other label values if given."""
    overrides.without_torch("a `Classifier`")
    changes: dict[str, Any] = {}
    if overrides.domain is not None:
        changes["domain"] = overrides.domain
    if overrides.classes is not None:
        changes["classes"] = as_classes(overrides.classes, len(model.classes))
    if changes and not is_dataclass(model):
        raise ModelError(
            f"`{_type_name(model)}` defines its own {' and '.join(changes)} and is not a dataclass, so they cannot be "
            "replaced. Set them where the model is created."
        )
    return cast(Classifier, replace(model, **changes) if changes else model)


def _is_weight_and_bias(model: object) -> bool:
    return isinstance(model, (tuple, list)) and len(model) == 2


def _from_sklearn(model: Any, overrides: Overrides) -> Classifier:
    overrides.without_torch("a scikit-learn model")
    return from_sklearn(model, overrides.domain, overrides.classes)


def _from_sklearn_trees(model: Any, overrides: Overrides) -> Classifier:
    overrides.without_torch("a scikit-learn model")
    return _without_categories(from_sklearn_trees(model, overrides.domain, overrides.classes))


def _from_xgboost(model: Any, overrides: Overrides) -> Classifier:
    overrides.without_torch("an XGBoost model")
    return _without_categories(from_xgboost(model, overrides.domain, overrides.classes))


def _from_lightgbm(model: Any, overrides: Overrides) -> Classifier:
    overrides.without_torch("a LightGBM model")
    return _without_categories(from_lightgbm(model, overrides.domain, overrides.classes))


def _without_categories(classifier: TreeClassifier) -> TreeClassifier:
    """Refuse trees that read codes of categories, which can only be measured on raw rows."""
    if classifier.reads_categories:
        raise ModelError(
            f"The {type(classifier.original).__name__} was trained on categories. Give `training_data` or `columns`, "
            "so that distances are those of raw rows, in which a category is switched as a whole."
        )
    return classifier


def _from_arrays(model: Any, overrides: Overrides) -> Classifier:
    overrides.without_torch("a pair of arrays")
    try:
        weight, bias = (np.asarray(part, dtype=np.float64) for part in model)
    except (TypeError, ValueError) as error:
        raise ModelError(f"A pair must be (weight, bias), two arrays of numbers: {error}.") from None
    if weight.ndim == 1 or weight.shape[:1] == (1,):
        if bias.size != 1:
            raise ModelError(f"A model with one row of weights is binary and needs one bias; given {bias.size} biases.")
        row = weight.reshape(1, -1)
        weight, bias = np.vstack([np.zeros_like(row), row]), np.append(0.0, bias)
    return LinearClassifier(weight, bias, overrides.classes, overrides.domain)


def _is_torch(model: object) -> bool:
    # Compare names, because `isinstance` would import torch for every model.
    return any(base.__module__.split(".")[0] == "torch" for base in type(model).__mro__)


def _from_torch(model: Any, overrides: Overrides) -> Classifier:
    from torch import nn

    from fairmargin.models.network import TILE
    from fairmargin.models.torch_model import from_torch

    if not isinstance(model, nn.Module):
        hint = " Load its weights into a module first." if isinstance(model, dict) else ""
        raise ModelError(f"Expected a `torch.nn.Module`; given `{_type_name(model)}`, which cannot classify.{hint}")
    return from_torch(
        model,
        domain=overrides.domain,
        classes=overrides.classes,
        mean=overrides.mean,
        std=overrides.std,
        device=overrides.device,
        tile=TILE if overrides.tile is None else overrides.tile,
    )


def _type_name(model: object) -> str:
    kind = type(model)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _is_classifier(model: object) -> bool:
    return isinstance(model, Classifier) and not isinstance(model, type)


# Tried in order. To support a new kind of model, add one row.
_CONVERTERS: tuple[tuple[str, Recognise, Convert], ...] = (
    ("a Fairmargin `Classifier`", _is_classifier, _adapted),
    ("a tree, forest or boosted ensemble of scikit-learn", is_sklearn_tree, _from_sklearn_trees),
    ("an `XGBClassifier` or `Booster` of XGBoost", is_xgboost, _from_xgboost),
    ("an `LGBMClassifier` or `Booster` of LightGBM", is_lightgbm, _from_lightgbm),
    (
        "a linear model or Pipeline of scikit-learn, with `training_data` if it takes raw rows",
        is_sklearn,
        _from_sklearn,
    ),
    ("a `torch.nn.Module`", _is_torch, _from_torch),
    ("a pair `(weight, bias)` of arrays", _is_weight_and_bias, _from_arrays),
)
