"""Categories that the last step of a model reads itself, as the trees of the libraries see them."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.core.arrays import Floats
from fairmargin.models.tables.transformers import Compute, Findings, Step, after
from fairmargin.models.trees.lightgbm_trees import is_lightgbm
from fairmargin.models.trees.xgboost_trees import is_xgboost

Categories = tuple[Any, ...] | None
"""The known values of a feature by their codes; () if the values are codes themselves; None if it is a number."""


def as_last_step_sees(model: Any, before: Step, where: str, found: Findings) -> Step:
    """Return the table that the trees of the last step read, with categories as codes.

    Missing values are NaN, and so are values that LightGBM and scikit-learn do not know. XGBoost raises for those, or
    takes them for others (version 3.2), so that they are refused.
    """
    if getattr(model, "is_categorical_", None) is not None:  # HistGradientBoosting, which moves categories first
        return after(model._preprocessor, before, where, found)
    by_type: tuple[tuple[Any, ...], ...] = ()
    if is_xgboost(model):
        categories = _of_xgboost(booster_of(model))
    elif is_lightgbm(model):
        categories = _of_lightgbm(booster_of(model))
        by_type = tuple(map(tuple, booster_of(model).pandas_categorical or ()))
    else:
        return before
    if all(each is None for each in categories) and not by_type:
        return before  # LightGBM also stores the values of ordered categories, which it reads as numbers: their places
    features = []
    for feature, values in zip(before.features, categories, strict=True):
        if values is None or feature.source < 0:
            features.append(feature)
            continue
        found.categorical.add(feature.source)
        if values and feature.is_raw:
            found.knows(feature.source, values)
            found.native.add(feature.source)
            if is_xgboost(model):
                found.closed.add(feature.source)
        features.append(replace(feature, affine=False, is_raw=False))
    return Step(tuple(features), Coded(before.compute, tuple(categories), by_type))


@dataclass(frozen=True, slots=True)
class Coded:
    """The function from the table of the user to numbers in which categories are codes.

    Parameters
    ----------
    compute
        Function from the table of the user to the one before the last step.
    categories
        The known values of each of its columns.
    by_type
        The known values of its columns of the type category, in their order, if the model stores them so.
    """

    compute: Compute
    categories: tuple[Categories, ...]
    by_type: tuple[tuple[Any, ...], ...]

    def __call__(self, table: Any) -> Any:
        """Return an array of numbers."""
        found = self.compute(table)
        if hasattr(found, "toarray"):
            return found
        frame = found.to_pandas() if hasattr(found, "to_pandas") else pd.DataFrame(found)
        values = list(self.categories)
        if self.by_type:
            typed = [i for i, kind in enumerate(frame.dtypes) if isinstance(kind, pd.CategoricalDtype)]
            for place, known in zip(typed, self.by_type, strict=False):
                values[place] = known
        return np.stack([self._codes(frame.iloc[:, i], known) for i, known in enumerate(values)], axis=1)

    def _codes(self, column: "pd.Series[Any]", values: Categories) -> Floats:
        if not values:
            if isinstance(column.dtype, pd.CategoricalDtype):  # of a model that stores no values: codes by position
                codes = column.cat.codes.to_numpy(dtype=np.float64)
                return np.where(codes < 0, np.nan, codes)
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        codes = pd.Index(list(values), dtype=object).get_indexer(pd.Index(column.astype(object), dtype=object))
        return np.where(codes < 0, np.nan, codes.astype(np.float64))


def booster_of(model: Any) -> Any:
    """Return the native object of a wrapper of XGBoost or LightGBM."""
    if type(model).__name__ == "Booster":
        return model
    return model.get_booster() if is_xgboost(model) else model.booster_


def _of_xgboost(booster: Any) -> Sequence[Categories]:
    types = booster.feature_types or ()
    if "c" not in types:
        return [None] * booster.num_features()
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    stored = learner["gradient_booster"].get("model", {}).get("cats", {}).get("enc", ())  # since version 3.1
    return [
        None if kind != "c" else _xgboost_values(stored[place]) if place < len(stored) else ()
        for place, kind in enumerate(types)
    ]


def _xgboost_values(stored: Any) -> tuple[Any, ...]:
    """Return the categories that XGBoost stores: numbers, or the bytes of all texts and where each begins."""
    values, offsets = stored["values"], stored.get("offsets")
    if offsets is None:
        return tuple(values)
    content = bytes(each % 256 for each in values)
    return tuple(content[start:end].decode() for start, end in pairwise(offsets))


def _of_lightgbm(booster: Any) -> Sequence[Categories]:
    """Return the categories of LightGBM, which stores the values of columns of the type category, in their order."""
    listed = re.search(r"\[categorical_feature: ([\d,]+)\]", booster.model_to_string(num_iteration=1))
    places = [] if listed is None else list(map(int, listed[1].split(",")))
    stored = booster.pandas_categorical or []
    # Where codes of numbers are listed too, only the types of the table tell which values belong to which column.
    values = stored if len(stored) == len(places) else [()] * len(places)
    of_place = dict(zip(places, map(tuple, values), strict=True))
    return [of_place.get(place) for place in range(booster.num_feature())]
