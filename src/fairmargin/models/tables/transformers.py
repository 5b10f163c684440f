"""How the features after each fitted step of a pipeline follow from the columns of the table.

Nothing here computes a value: the fitted steps do. What is read is which feature depends on which column, and how.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.errors import ModelError
from fairmargin.models.tables.features import SEVERAL, Shape

_REFUSED = (
    "Put this step before the table that is audited, and audit the rest of the model; or use steps that treat each "
    "column separately."
)
_MIXES = "mixes columns, so that changes of single columns have no separate effect"
# Natural domains of numpy's functions of one number that never fall, and of those that never rise.
_WHOLE, _LARGEST = (-np.inf, np.inf), float(np.finfo(np.float64).max)
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_RISING: dict[str, tuple[float, float]] = {
    **dict.fromkeys(
        ("positive", "cbrt", "arctan", "arcsinh", "tanh", "floor", "ceil", "rint", "trunc", "fix", "round", "around"),
        _WHOLE,
    ),
    **dict.fromkeys(("sign", "clip", "nan_to_num", "deg2rad", "rad2deg", "radians", "degrees"), _WHOLE),
    **dict.fromkeys(("exp", "expm1"), (-np.inf, float(np.log(_LARGEST)))),
    "exp2": (-np.inf, float(np.nextafter(1024.0, 0.0))),
    "sinh": (-710.0, 710.0),
    "sqrt": (0.0, np.inf),
    **dict.fromkeys(("log", "log2", "log10"), (_LEAST, np.inf)),
    "log1p": (float(np.nextafter(-1.0, 0.0)), np.inf),
    "arcsin": (-1.0, 1.0),
    "arccosh": (1.0, np.inf),
    "arctanh": (float(np.nextafter(-1.0, 0.0)), float(np.nextafter(1.0, 0.0))),
}
_FALLING: dict[str, tuple[float, float]] = {"negative": _WHOLE, "arccos": (-1.0, 1.0)}
_AFFINE = ("positive", "negative", "deg2rad", "rad2deg", "radians", "degrees")


@dataclass(frozen=True, slots=True)
class Level:
    """A whole number per row, 0 … count − 1, which rises or falls with the number of one column, such as its bin."""

    step: Any
    before: "Step"
    place: int
    count: int

    def table(self, table: Any) -> Any:
        """Return a table with the numbers of all rows in the column `place`."""
        return self.step.transform(self.before.compute(table))


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature after a step, as a function of the table's columns.

    Parameters
    ----------
    source
        Position of its column in the table; or `SEVERAL`.
    shape
        How it depends on a column of numbers, as in `FeatureMap`.
    affine
        Whether it is an affine function of a number.
    level
        The feature is constant while this is constant; None if it may change with every change of its number.
    is_raw
        Whether it still has the values of its column, but for missing ones.
    is_filled
        Whether missing values have been replaced.
    refusal
        Why the feature cannot be read if its column holds numbers; "" if it can.
    """

    source: int
    shape: Shape = "rising"
    affine: bool = True
    level: Level | None = None
    is_raw: bool = True
    is_filled: bool = False
    refusal: str = ""


Compute = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Step:
    """A table inside a pipeline: its features, and the function that computes it from the table of the user."""

    features: tuple[Feature, ...]
    compute: Compute


@dataclass(frozen=True, slots=True)
class Limit:
    """The values for which a function is defined; its input is the feature at `place` of the table `before`."""

    before: Step
    place: int
    low: float
    high: float
    function: str

    def table(self, table: Any) -> Any:
        """Return a table with the input of the function in the column `place`."""
        return self.before.compute(table)


@dataclass(slots=True)
class Findings:
    """What the steps of a pipeline say about the columns of the table, by their positions.

    Parameters
    ----------
    categorical
        Columns that a step reads as categories.
    known
        Values that an encoder knows.
    closed
        Columns in which a step raises for a value that it does not know.
    filled
        Columns in which a step raises for a missing value.
    read
        Columns that some step reads.
    native
        Columns that the last step takes as categories of pandas.
    none
        Columns whose missing values an encoder knows as None, as in frames of polars.
    limits
        Natural domains of functions.
    """

    categorical: set[int] = field(default_factory=set)
    known: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    filled: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    native: set[int] = field(default_factory=set)
    none: set[int] = field(default_factory=set)
    limits: list[Limit] = field(default_factory=list)

    def knows(self, source: int, values: Sequence[Any]) -> None:
        """Add values that the model knows in a column."""
        present = pd.Series(list(values), dtype=object).dropna().tolist()
        self.known[source] = tuple(dict.fromkeys([*self.known.get(source, ()), *present]))


@dataclass(frozen=True, slots=True)
class Same:
    """The function that returns the table of the user as it is."""

    def __call__(self, table: Any) -> Any:
        """Return the table."""
        return table


@dataclass(frozen=True, slots=True)
class _Transformed:
    """The function from the table of the user to the one after a step."""

    step: Any
    compute: Compute

    def __call__(self, table: Any) -> Any:
        return self.step.transform(self.compute(table))


@dataclass(frozen=True, slots=True)
class _Selected:
    """The function from the table of the user to some columns of the one before a step."""

    places: tuple[int, ...]
    names: tuple[str, ...] | None
    compute: Compute

    def __call__(self, table: Any) -> Any:
        whole = self.compute(table)
        if hasattr(whole, "columns") and self.names is not None:
            return whole[list(self.names)]
        return whole.iloc[:, list(self.places)] if hasattr(whole, "iloc") else whole[:, list(self.places)]


def after(step: Any, before: Step, where: str, found: Findings) -> Step:
    """Return the table after a fitted step of any kind.

    Parameters
    ----------
    step
        A fitted transformer, or "passthrough".
    before
        The table that it transforms.
    where
        Name of the step, for error messages.
    found
        What is found about the columns is added to it.
    """
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return before
    if isinstance(step, type):
        raise ModelError(f"Step '{where}' is the class {step.__name__}, not an object of it: write {step.__name__}().")
    reader = _reader(step)
    if reader is None:
        raise ModelError(f"{described(where, step)} {_MIXES}, or is not known. {_REFUSED}")
    check_fitted(step, where)
    return reader(step, before, where, found)


def described(where: str, step: Any) -> str:
    """Return a step as error messages name it."""
    return f"Step '{where}' ({type(step).__name__})" if where else f"The model ({type(step).__name__})"


def check_fitted(step: Any, where: str) -> None:
    """Refuse a step that has not been fitted."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(step)
    except NotFittedError:
        raise ModelError(f"{described(where, step)} has not been fitted. Call `.fit(x, y)` before the audit.") from None


def inside(where: str, name: str) -> str:
    """Return the name of a step inside another."""
    return f"{where}.{name}" if where else name


def _result(step: Any, features: Sequence[Feature], before: Step, found: Findings) -> Step:
    """Return the table after a step that is not a selection; all columns of its input are read."""
    found.read.update(each.source for each in before.features if each.source >= 0)
    return Step(tuple(features), _Transformed(step, before.compute))


def _separate(step: Any, before: Step, where: str) -> tuple[Feature, ...]:
    """Return the features before a step that is not affine; refuse those that mix columns."""
    if any(each.source == SEVERAL for each in before.features):
        raise ModelError(
            f"{described(where, step)} is not affine, and it comes after a step that mixes columns. Put it before "
            "that step."
        )
    return before.features


# --- steps that consist of others ---


def _pipeline(step: Any, before: Step, where: str, found: Findings) -> Step:
    for name, each in step.steps:
        before = after(each, before, inside(where, name), found)
    return before


def _column_transformer(step: Any, before: Step, where: str, found: Findings) -> Step:
    features: list[Feature] = []
    names = getattr(step, "feature_names_in_", None)
    for name, each, _ in step.transformers_:
        places = tuple(step._transformer_to_input_indices[name])
        if not places or (isinstance(each, str) and each == "drop"):
            continue
        chosen = None if names is None else tuple(names[i] for i in places)
        part = Step(tuple(before.features[i] for i in places), _Selected(places, chosen, before.compute))
        features += after(each, part, inside(where, name), found).features
        found.read.update(each.source for each in part.features if each.source >= 0)
    return Step(tuple(features), _Transformed(step, before.compute))


def _union(step: Any, before: Step, where: str, found: Findings) -> Step:
    features: list[Feature] = []
    for name, each in step.transformer_list:
        if not (isinstance(each, str) and each == "drop"):
            features += after(each, before, inside(where, name), found).features
    return _result(step, features, before, found)


# --- steps with one output for each input ---


def _affine(step: Any, before: Step, where: str, found: Findings) -> Step:
    return _result(step, [replace(each, is_raw=False) for each in before.features], before, found)


def _clipped(step: Any, before: Step, where: str, found: Findings) -> Step:
    return (_monotone if getattr(step, "clip", False) else _affine)(step, before, where, found)


def _monotone(step: Any, before: Step, where: str, found: Findings) -> Step:
    features = [replace(each, affine=False, is_raw=False) for each in _separate(step, before, where)]
    return _result(step, features, before, found)


def _threshold(step: Any, before: Step, where: str, found: Findings) -> Step:
    features = [
        replace(each, affine=False, is_raw=False, level=each.level or Level(step, before, place, 2))
        for place, each in enumerate(_separate(step, before, where))
    ]
    return _result(step, features, before, found)


def _identity(step: Any, before: Step, where: str, found: Findings) -> Step:
    return _result(step, before.features, before, found)


def _function(step: Any, before: Step, where: str, found: Findings) -> Step:
    from sklearn.utils import check_array

    if step.func is None or (isinstance(step.func, partial) and step.func.func is check_array):
        return _identity(step, before, where, found)
    name = getattr(step.func, "__name__", str(step.func))
    is_numpy = getattr(np, name, None) is step.func
    if not is_numpy or (name not in _RISING and name not in _FALLING):
        raise ModelError(
            f"{described(where, step)} applies `{name}`, which is not one of numpy's functions that never fall or "
            "never rise, such as np.log1p. Compute its columns before the table that is audited."
        )
    features = []
    low, high = (_RISING | _FALLING)[name]
    for place, each in enumerate(before.features if name in _AFFINE else _separate(step, before, where)):
        turned = replace(each, affine=each.affine and name in _AFFINE, is_raw=False)
        if name in _FALLING and each.shape != "pieces":
            turned = replace(turned, shape="rising" if each.shape == "falling" else "falling")
        features.append(turned)
        if each.source >= 0 and (low, high) != _WHOLE:
            found.limits.append(Limit(before, place, low, high, name))
    return _result(step, features, before, found)


# --- missing values ---


def _imputer(step: Any, before: Step, where: str, found: Findings) -> Step:
    features = [_marked(step, each, where, found) for each in _separate(step, before, where)]
    # Unlike NaN, None is a value for SimpleImputer, which can be the most frequent one.
    nan = np.array([isinstance(each, float | np.floating) and np.isnan(each) for each in step.statistics_])
    empty = nan & (not step.keep_empty_features)
    kept = [replace(each, is_filled=True) for each, is_empty in zip(features, empty, strict=True) if not is_empty]
    if step.add_indicator:
        kept += [replace(features[i], shape="rising", is_raw=False) for i in step.indicator_.features_]
    return _result(step, kept, before, found)


def _indicator(step: Any, before: Step, where: str, found: Findings) -> Step:
    features = [_marked(step, each, where, found) for each in _separate(step, before, where)]
    if step.error_on_new and step.features == "missing-only":
        others = set(range(len(features))) - set(step.features_.tolist())
        found.filled.update(features[i].source for i in others if features[i].source >= 0)
    # Present numbers all have the same value, so that the feature neither rises nor falls.
    return _result(step, [replace(features[i], shape="rising", is_raw=False) for i in step.features_], before, found)


def _marked(step: Any, feature: Feature, where: str, found: Findings) -> Feature:
    """Return a feature whose missing values a step recognises; a number that means missing needs a category."""
    if feature.source < 0 or pd.isna(step.missing_values):
        return feature
    if feature.is_raw and feature.source in found.known:
        found.knows(feature.source, [step.missing_values])
    return replace(
        feature,
        is_raw=False,
        refusal=f"{described(where, step)} replaces the number {step.missing_values!r} as missing. Replace it by NaN "
        "in the table and in the step, or give its columns an fm.Column(kind='category').",
    )


# --- encoders ---


def _encoded(step: Any, before: Step, where: str, found: Findings) -> list[Feature]:
    """Return the features before an encoder. Their columns are read as categories, unless they are bins of numbers."""
    features = []
    for place, each in enumerate(_separate(step, before, where)):
        pieces = each.level is not None and each.source not in found.categorical
        features.append(replace(each, shape="pieces" if pieces else each.shape, affine=False, is_raw=False))
        if each.source < 0 or pieces:
            continue
        found.categorical.add(each.source)
        if each.is_raw:
            values = pd.Series(step.categories_[place]).astype(object)
            found.knows(each.source, values.tolist())
            if any(value is None for value in step.categories_[place]):
                found.none.add(each.source)
            if getattr(step, "handle_unknown", "") == "error":
                found.closed.add(each.source)
                if not each.is_filled and not values.isna().any():
                    found.filled.add(each.source)
    return features


def _one_hot(step: Any, before: Step, where: str, found: Findings) -> Step:
    features: list[Feature] = []
    count = len(step.categories_)
    infrequent = getattr(step, "infrequent_categories_", None) or [None] * count
    dropped = [None] * count if step.drop_idx_ is None else step.drop_idx_
    for place, each in enumerate(_encoded(step, before, where, found)):
        rare = infrequent[place]
        merged = 0 if rare is None else len(rare) - 1
        features += [each] * (len(step.categories_[place]) - merged - (dropped[place] is not None))
    return _result(step, features, before, found)


def _ordinal(step: Any, before: Step, where: str, found: Findings) -> Step:
    return _result(step, _encoded(step, before, where, found), before, found)


def _target(step: Any, before: Step, where: str, found: Findings) -> Step:
    features = _encoded(step, before, where, found)
    each_has = len(step.classes_) if step.target_type_ == "multiclass" else 1
    return _result(step, [each for each in features for _ in range(each_has)], before, found)


def _bins(step: Any, before: Step, where: str, found: Findings) -> Step:
    ordinal = copy.copy(step)
    ordinal.encode = "ordinal"
    ordinal._sklearn_output_config = {"transform": "default"}  # names of columns would be those of the original
    features: list[Feature] = []
    for place, each in enumerate(_separate(step, before, where)):
        count = int(step.n_bins_[place])
        level = each.level or Level(ordinal, before, place, count)
        binned = replace(each, affine=False, is_raw=False, level=level)
        if step.encode == "ordinal":
            features.append(binned)
        else:
            features += [replace(binned, shape="pieces")] * count
    return _result(step, features, before, found)


# --- selections and mixtures ---


def _selection(step: Any, before: Step, where: str, found: Findings) -> Step:
    kept = [before.features[i] for i in np.flatnonzero(step.get_support())]
    return _result(step, kept, before, found)


def _components(step: Any, before: Step, where: str, found: Findings) -> Step:
    # Sums of contributions of categories need no lines: only numbers have to enter affinely.
    affine = all(each.affine or each.source in found.categorical for each in before.features)
    for each in before.features:
        if each.refusal:
            raise ModelError(each.refusal)
    mixed = Feature(SEVERAL, affine=affine, is_raw=False)
    return _result(step, [mixed] * len(step.components_), before, found)


Reader = Callable[[Any, Step, str, Findings], Step]


def _reader(step: Any) -> Reader | None:
    """Return the reader of a step by its exact type, because a subclass may transform in another way."""
    from sklearn.feature_selection import SelectorMixin

    kind = type(step)
    if isinstance(step, SelectorMixin) and kind.__module__.startswith("sklearn."):
        return _selection
    return _READERS.get(kind.__name__) if kind.__module__.startswith("sklearn.") else None


_READERS: dict[str, Reader] = {
    "Pipeline": _pipeline,
    "ColumnTransformer": _column_transformer,
    "FeatureUnion": _union,
    "StandardScaler": _affine,
    "RobustScaler": _affine,
    "MaxAbsScaler": _clipped,
    "MinMaxScaler": _clipped,
    "PowerTransformer": _monotone,
    "QuantileTransformer": _monotone,
    "Binarizer": _threshold,
    "FunctionTransformer": _function,
    "SimpleImputer": _imputer,
    "MissingIndicator": _indicator,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "TargetEncoder": _target,
    "KBinsDiscretizer": _bins,
    "PCA": _components,
    "TruncatedSVD": _components,
}
