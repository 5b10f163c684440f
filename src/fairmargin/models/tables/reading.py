"""Reading of models that take raw table rows: preprocessing, last step and rules of columns in one classifier."""

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from fairmargin.core.column import Column
from fairmargin.errors import InputError
from fairmargin.models.protocol import as_classes
from fairmargin.models.tables.classifier import TableClassifier
from fairmargin.models.tables.coding import as_numbers, check_single, check_types
from fairmargin.models.tables.frames import as_frame, columns_named, is_frame
from fairmargin.models.tables.pipeline import Structure, read_structure
from fairmargin.models.tables.schema import coding_of

_LIBRARIES = ("sklearn", "xgboost", "lightgbm")


def is_tabular(model: object) -> bool:
    """Return whether a model is of a library for tables: scikit-learn, XGBoost or LightGBM.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> is_tabular(DecisionTreeClassifier()), is_tabular("model.pkl")
    (True, False)
    """
    return any(base.__module__.split(".")[0] in _LIBRARIES for base in type(model).__mro__)


def read_table_model(
    model: Any,
    rules: Mapping[str, Column] | None = None,
    *,
    training_data: Any = None,
    data: Any = None,
    fixed: Collection[str] = (),
    classes: Any = None,
    called: tuple[str, str] = ("X", "training_data"),
) -> TableClassifier:
    """Return a classifier of raw rows with the decisions of a fitted model.

    Parameters
    ----------
    model
        A fitted classifier or pipeline of scikit-learn, or a boosted ensemble of XGBoost or LightGBM.
    rules
        Rules of columns, by name; everything else is chosen from the data.
    training_data
        The table that the model was trained on, from which units, steps, ranges and categories are taken.
    data
        The rows that will be measured. Without `training_data` they take its place.
    fixed
        Columns that do not move unless a rule says so: those that define the groups.
    classes
        Label values; by default those of the model.
    called
        Names of `data` and `training_data` in error messages.
    """
    rules = checked_rules({} if rules is None else rules)
    if training_data is None and data is None:
        raise InputError(
            "Distances between rows of a table need a unit for every column of numbers: give the `training_data` of "
            "the model, from which units, steps and categories are taken."
        )
    structure = read_structure(model)
    name = called[0] if training_data is None else called[1]
    frame = _columns(data if training_data is None else training_data, structure, name)
    further = None
    if training_data is not None and data is not None:
        further = _columns(data, structure, called[0])
        further = further.set_axis(frame.columns, axis="columns")
        for place, each in enumerate(further):
            if place not in structure.unused:
                check_single(further[each], called[0])
            if place in structure.found.categorical:
                check_single(frame[each], name)
                if not further[each].isin(frame[each]).any():
                    check_types(str(each), further[each], frame[each].dropna().unique().tolist(), called[0])
    names = tuple(frame.columns)
    found = structure.found
    for place, each in enumerate(names):
        if place not in found.categorical | structure.unused and each not in rules:
            _check_numbers(frame[each], name)
    coding = coding_of(
        frame,
        rules,
        names=names,
        categorical={names[i] for i in found.categorical},
        unused={names[i] for i in structure.unused},
        fixed=fixed,
        further=further,
        known={names[i]: values for i, values in found.known.items()},
        closed={names[i] for i in found.closed},
        filled={names[i] for i in found.filled},
        native={names[i] for i in found.native},
        none={names[i] for i in found.none},
        named=structure.named,
        trained=training_data is not None,
        called=name,
    )
    coding = structure.limited(coding)
    given = structure.classes
    return TableClassifier(
        model,
        as_classes(given if classes is None else classes, len(given)),
        structure.feature_map(coding),
        structure.head(),
        structure.positions,
        _notes(data if data is not None else training_data, names),
    )


def _check_numbers(column: "pd.Series[Any]", argument: str) -> None:
    """Refuse texts in a column of which no step reads categories."""
    if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
        check_single(column, argument)
        as_numbers(column, argument)


def checked_rules(rules: Any) -> Mapping[str, Column]:
    """Return rules of columns; refuse anything that is not a dict from names to `Column`."""
    if not isinstance(rules, Mapping):
        raise InputError("must be a dict from the name of a column to an `fm.Column`", field="columns", given=rules)
    for name, rule in rules.items():
        if not isinstance(name, str):
            raise InputError(f"must have names as keys; given {name!r}.", field="columns")
        if not isinstance(rule, Column):
            raise InputError(
                f"must give an `fm.Column` for {name!r}, such as fm.Column(unit=10); given {rule!r}.", field="columns"
            )
    return rules


def _columns(x: Any, structure: Structure, argument: str) -> pd.DataFrame:
    """Return the columns that the model takes, in its order; without names, as many columns as it was trained on."""
    if not is_frame(x):
        return as_frame(x, argument, structure.names)
    frame = as_frame(x, argument)
    if structure.named:
        return columns_named(frame, structure.names, argument)
    if frame.shape[1] != len(structure.names):
        raise InputError(
            f"`{argument}` has {frame.shape[1]:,} columns, but the model was trained on an array with "
            f"{len(structure.names):,}. Select its columns, in its order."
        )
    return frame


def _notes(x: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a sentence about columns that the model does not take."""
    if not is_frame(x):
        return ()
    extra = [name for name in map(str, as_frame(x).columns) if name not in names]
    if not extra:
        return ()
    shown = ", ".join(extra[:10]) + (", …" if len(extra) > 10 else "")
    return (f"Columns that the model does not take were ignored: {shown}.",)
