"""Reading of fitted models of tables: what they do with each column, and their last step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.errors import ModelError, reason_of
from fairmargin.models.sklearn_model import is_linear, scores_of
from fairmargin.models.tables.classifier import LinearHead
from fairmargin.models.tables.coding import Coding
from fairmargin.models.tables.features import SEVERAL, FeatureMap
from fairmargin.models.tables.native import as_last_step_sees
from fairmargin.models.tables.network import read_mlp
from fairmargin.models.tables.preimages import breaks_of, middle, narrowed, quietly
from fairmargin.models.tables.state import state_of
from fairmargin.models.tables.transformers import (
    Feature,
    Findings,
    Level,
    Same,
    Step,
    after,
    check_fitted,
    described,
    inside,
)
from fairmargin.models.tables.wrappers import Head, decided_by, decides_otherwise, inner_of
from fairmargin.models.trees.ensemble import TreeClassifier
from fairmargin.models.trees.lightgbm_trees import from_lightgbm, is_lightgbm
from fairmargin.models.trees.sklearn_trees import from_sklearn_trees, is_sklearn_tree
from fairmargin.models.trees.xgboost_trees import from_xgboost, is_xgboost

_FAR = float(np.finfo(np.float64).max)
_SHOWN = 20


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """What a fitted model does with the columns of a table. Columns are given by their positions.

    Parameters
    ----------
    names
        Names of the columns that the model takes; "column 0", … if it was trained on an array.
    named
        Whether the model takes a data frame; otherwise it takes an array.
    classes
        The label values, in the order of the scores.
    found
        What the steps say about columns.
    step
        The table that the last step takes.
    where, last
        The name of the last step in the model, and the step.
    states
        The steps before the last.
    trees
        The trees of the last step, if it is of XGBoost or LightGBM.
    around
        The model, if it has a threshold or a calibrator of its own; otherwise None.
    """

    names: tuple[str, ...]
    named: bool
    classes: tuple[Any, ...]
    found: Findings
    step: Step
    where: str
    last: Any
    states: tuple[Any, ...]
    trees: TreeClassifier | None = None
    around: Any = None

    @property
    def unused(self) -> frozenset[int]:
        """Columns that the model takes but does not use."""
        used = self.found.read | {each.source for each in self.step.features}
        return frozenset(range(len(self.names))) - used

    def limited(self, coding: Coding) -> Coding:
        """Return a coding whose numbers move only where the functions of the model are defined."""
        place = _places(coding)
        limits = self.found.limits
        return narrowed(coding, [(place[each.before.features[each.place].source], each) for each in limits])

    def feature_map(self, coding: Coding) -> FeatureMap:
        """Return how the features of the last step follow from the columns of a coding."""
        place = _places(coding)
        features = self.step.features
        sources = [place[each.source] if each.source >= 0 else each.source for each in features]
        if SEVERAL in sources and not is_linear(self.last):
            raise ModelError(
                f"A step that mixes columns, such as PCA, comes before {described(self.where, self.last)}. Only linear "
                "classifiers can be read after it: leave it out, or apply it before the table that is audited."
            )
        levels: dict[int, tuple[int, Level]] = {}
        for each, source in zip(features, sources, strict=True):
            is_number = source >= 0 and coding.columns[source].is_number
            if each.refusal and is_number:
                raise ModelError(each.refusal)
            if each.shape == "pieces" and is_number and each.level is not None:
                levels[id(each.level)] = source, each.level
        breaks, found = breaks_of(coding, levels), self.found
        return FeatureMap(
            coding,
            np.array(sources, dtype=np.int64),
            tuple(each.shape for each in features),
            np.array([each.affine for each in features], dtype=np.bool_),
            tuple(breaks.get(id(each.level) if each.shape == "pieces" else 0, np.empty(0)) for each in features),
            _Transform(
                coding,
                self.step,
                is_xgboost(self.last),
                frozenset(place[i] for i in found.closed),
                frozenset(place[i] for i in found.filled),
                np.array(sources, dtype=np.int64),
            ),
            is_xgboost(self.last) and self._is_sparse(coding),
            state_of(self.states),
        )

    def head(self) -> Head:
        """Return the last step, with the threshold or the calibrator around it."""
        return self._last_head() if self.around is None else decided_by(self.around, self.last, self._last_head())

    def _last_head(self) -> Head:
        where, model = self.where, self.last
        if is_linear(model):
            return LinearHead(*scores_of(where, model))
        if is_sklearn_tree(model):
            return from_sklearn_trees(model).ensemble
        if self.trees is not None:
            return self.trees.ensemble
        if type(model).__name__ == "MLPClassifier":
            return read_mlp(model)
        raise ModelError(
            f"{described(where, model)} cannot be read. Supported are linear classifiers, trees, forests, boosted "
            "trees and MLPClassifier, alone or last in a Pipeline."
        )

    @property
    def positions(self) -> Callable[[Any, Any], Ints]:
        """The function that returns the positions of the classes which the original model predicts for a table."""
        native = self.trees.positions if self.trees is not None and type(self.last).__name__ == "Booster" else None
        return Positions(self.classes, native)

    def _is_sparse(self, coding: Coding) -> bool:
        row = coding.decode(middle(coding)[None])
        return hasattr(quietly(self.step.compute, row), "toarray")


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """The function from a model and a table to the positions of the predicted classes.

    Parameters
    ----------
    classes
        The label values.
    native
        Function that asks a model which predicts no labels; None for others.
    """

    classes: tuple[Any, ...]
    native: Callable[[Any, Any], Ints] | None = None

    def __call__(self, original: Any, table: Any) -> Ints:
        """Return one position per row; an error of the model names the first row for which it is raised."""
        try:
            return self._asked(original, table)
        except ModelError:
            raise
        except Exception as error:  # the user's model can raise anything
            row = self._first_failing(original, table)
            where = "" if row is None else f" for the row {_shown(table, row)}"
            raise ModelError(
                f"The model raised {type(error).__name__} in `predict`{where}: {reason_of(error)}. Correct or drop "
                "such rows, or refit the model so that it accepts them."
            ) from error

    def _asked(self, original: Any, table: Any) -> Ints:
        if self.native is not None:
            return self.native(original, table)
        predicted = np.asarray(original.predict(table))
        if predicted.shape != (len(table),):
            raise ModelError(
                f"`predict` of the {type(original).__name__} must return one label per row; for {len(table):,} rows it "
                f"returned the shape {predicted.shape}. Give a model with one label per row."
            )
        positions: Ints = pd.Index(np.array(self.classes)).get_indexer(pd.Index(predicted)).astype(np.int64)
        if (positions < 0).any():
            raise ModelError(
                f"The {type(original).__name__} predicted {predicted[positions < 0].tolist()[0]!r}, which is not among "
                f"its classes {', '.join(map(repr, self.classes[:20]))}. Fit it again."
            )
        return positions

    def _first_failing(self, original: Any, table: Any) -> int | None:
        """Return the first row for which the model raises, by bisection; None if it only raises for several rows."""
        low, high = 0, len(table)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fails(original, table[low:middle]) else (middle, high)
        return low if self._fails(original, table[low:high]) else None

    def _fails(self, original: Any, table: Any) -> bool:
        try:
            self._asked(original, table)
        except Exception:
            return True
        return False


def _shown(table: Any, row: int) -> str:
    """Return a row of a table in words."""
    if isinstance(table, pd.DataFrame):
        values = [f"{name}={value!r}" for name, value in table.iloc[row].astype(object).to_dict().items()]
    else:
        values = [repr(value) for value in table[row].tolist()]
    return "(" + ", ".join(values[:_SHOWN]) + (", …)" if len(values) > _SHOWN else ")")


@dataclass(frozen=True, slots=True, eq=False)
class _Transform:
    """The function from coded rows to the features of the last step, by the fitted steps themselves."""

    coding: Coding
    step: Step
    zeros_are_missing: bool
    closed: frozenset[int]
    filled: frozenset[int]
    source: Ints

    def __call__(self, rows: Floats) -> Floats:
        rows, refused = self._accepted(np.asarray(rows, dtype=np.float64))
        features = np.empty((len(rows), len(self.source)))
        for part in self.coding.alike(rows):
            table = self.coding.decode(rows[part])
            features[part] = _numbers(quietly(self.step.compute, table), self.zeros_are_missing)
        for column, at in refused.items():
            features[np.ix_(at, np.isin(self.source, (column, SEVERAL)))] = np.nan
        return features

    def _accepted(self, rows: Floats) -> tuple[Floats, dict[int, Bools]]:
        """Return rows without the values that a step refuses, and in which rows of which columns they were."""
        refused: dict[int, Bools] = {}
        for column in self.closed | self.filled:
            unknown = (rows[:, column] >= len(self.coding.columns[column].categories)) & (column in self.closed)
            at = unknown | (np.isnan(rows[:, column]) & (column in self.filled))
            if at.any():
                refused[column] = at
        if refused:
            rows, usual = rows.copy(), middle(self.coding)
            for column, at in refused.items():
                rows[at, column] = usual[column]
        return rows, refused


def read_structure(model: Any) -> Structure:
    """Return what a fitted classifier or pipeline does with the columns of a table."""
    steps, layers = _flat(model)
    where, last = steps[-1]
    _check_classifier(where, last)
    trees = from_xgboost(last) if is_xgboost(last) else from_lightgbm(last) if is_lightgbm(last) else None
    width, names = _input_of(model, steps, trees)
    found = Findings()
    step = Step(tuple(map(Feature, range(width))), Same())
    for name, each in steps[:-1]:
        step = after(each, step, name, found)
    step = as_last_step_sees(last, step, where, found)
    outermost = layers[0] if layers else last  # calibrators may train the last step on positions of classes
    native = trees is not None and type(last).__name__ == "Booster"
    classes = trees.classes if trees is not None and native else tuple(np.asarray(outermost.classes_).tolist())
    named = bool(names)
    names = names or tuple(f"column {i}" for i in range(width))
    around = model if any(map(decides_otherwise, layers)) else None
    states = tuple(each for _, each in steps[:-1])
    return Structure(names, named, classes, found, step, where, last, states, trees, around)


def _flat(model: Any, where: str = "") -> tuple[list[tuple[str, Any]], list[Any]]:
    """Return (name, step) in order, with last steps flattened, and the models around the last one."""
    from sklearn.pipeline import Pipeline

    if type(model) is Pipeline:
        *first, (name, last) = model.steps
        steps, layers = _flat(last, inside(where, name))
        return [*((inside(where, each), step) for each, step in first), *steps], layers
    inner = inner_of(model, where)
    if inner is None:
        return [(where, model)], []
    steps, layers = _flat(inner, where)
    return steps, [model, *layers]


def _check_classifier(where: str, model: Any) -> None:
    """Refuse a last step that is not a fitted classifier."""
    if isinstance(model, str) or not hasattr(model, "predict"):
        raise ModelError(f"The last step must be a classifier; step {where!r} is {model!r}. Add one, and fit again.")
    from sklearn.base import is_classifier

    if type(model).__name__ != "Booster" and not is_classifier(model):
        raise ModelError(f"{described(where, model)} is not a classifier, so it has no classes. Give a classifier.")
    if type(model).__module__.startswith("sklearn."):
        check_fitted(model, where)
    if isinstance(getattr(model, "classes_", None), list):
        raise ModelError(f"{described(where, model)} predicts several labels per row. Fit a model for each of them.")


def _input_of(model: Any, steps: list[tuple[str, Any]], trees: TreeClassifier | None) -> tuple[int, tuple[str, ...]]:
    """Return the number and the names of the columns that a model takes; () if it knows no names."""
    if trees is not None and len(steps) == 1:
        return trees.features, trees.feature_names
    found = [model, *(each for _, each in steps if not isinstance(each, str) and each is not None)]
    counts = [int(each.n_features_in_) for each in found if hasattr(each, "n_features_in_")]
    if not counts and hasattr(steps[-1][1], "coef_"):  # put together by hand, from stored weights
        counts = [np.atleast_2d(steps[-1][1].coef_).shape[1]]
    if not counts:
        raise ModelError("No step of the model has n_features_in_, the number of its columns. Fit it again.")
    for each in found:
        names = getattr(each, "feature_names_in_", None)
        if names is not None:
            return len(names), tuple(map(str, names))
        if hasattr(each, "n_features_in_"):  # later steps may know names that earlier ones have given
            break
    return counts[0], ()


def _numbers(table: Any, zeros_are_missing: bool) -> Floats:
    """Return the table before the last step as numbers."""
    if hasattr(table, "toarray"):
        if not zeros_are_missing:
            return np.asarray(table.toarray(), dtype=np.float64)
        entries = table.tocoo()
        features = np.full(table.shape, np.nan)
        features[entries.row, entries.col] = entries.data
        return features
    if hasattr(table, "iloc"):
        return np.asarray(table.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(table, dtype=np.float64)


def _places(coding: Coding) -> dict[int, int]:
    """Return the column of a coding for each column of the table."""
    of_name = {name: i for i, column in enumerate(coding.columns) for name in (column.parts or (column.name,))}
    return {i: of_name[name] for i, name in enumerate(coding.names)}
