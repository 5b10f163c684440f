"""Load the case of a model that takes the raw rows of a table in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.partition import label_text
from fairmargin.core.suggestion import there_are
from fairmargin.data.formats.files import LABEL_NAME, check_columns, read_table
from fairmargin.data.loading import named_options, sampled_by
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import Overrides
from fairmargin.models.tables.pipeline import read_structure
from fairmargin.runner.cases import Case, binned, checked_case
from fairmargin.runner.tables import check_groups, coded_rows, given_rules, seen_rows, some_rows, taken_columns
from fairmargin.study.options import DataOptions, GroupOptions, ModelOptions
from fairmargin.study.study import Study

_NOT_FOR_ROWS = {
    "scale": "rules give the unit of each column ({columns})",
    "bounds": "rules give the range of each column ({columns})",
    "root": "a file needs none",
    "split": "a file has no splits",
    "task": "a file has no tasks",
    "size": "it is for images",
    "labels": "it is for folders of images",
    "image_column": "it is for folders of images",
}
"""Why an option of the data does not go with a model that takes raw rows."""


def table_case(study: Study, model: Any) -> Case:
    """Load the table that a study names, and code its rows as a model of scikit-learn, XGBoost or LightGBM takes them.

    Numbers, texts, booleans and missing values are given to the model as the file holds them. Columns that the model
    does not take can be groups.
    """
    data, groups = study.data, study.groups
    _refuse_others(data, study.model)
    rules = given_rules(data.columns, data.immutable)
    path = Path(data.data)
    table = read_table(path)
    table = table.loc[:, ~table.columns.duplicated()]  # repeated columns were found to be equal
    label, names = _columns_named(path, table, data, groups)
    raw = {"class": table[label], label: table[label], **{name: table[name] for name in names}}
    columns = binned(groups, raw, path.name)
    defining = tuple(dict.fromkeys((*groups.group, *(name for cross in groups.cross for name in cross))))
    for name in defining:
        if name in names and name not in dict(groups.bins):
            check_groups(name, table[name])
    structure = read_structure(model)
    table = _spelled_as(structure.names, table)
    taken = taken_columns(structure, table, path.name) if structure.named else ()
    beside = [label, *(name for name in names if name not in taken)]
    rows = _rows(table, data, beside, taken)
    training = _training_rows(data, structure, list(rows.columns))
    labels = _labels(label, _values(table[label]), data.class_names, structure.classes)
    classifier, dataset = coded_rows(
        model,
        rows,
        labels,
        rules=rules,
        training=training,
        fixed=defining,
        further=beside,
        classes=data.class_names if data.class_names and labels.dtype.kind == "O" else None,
        attributes={name: _values(columns[name]) for name in names},
        called=(path.name, Path(data.training_data).name),
        name=path.name,
    )
    if data.per_group:
        drawn = dataset.sample(data.per_group, sampled_by(data, groups), study.seed)
        dataset = dataset if drawn is dataset else some_rows(drawn, np.arange(len(drawn)))
    found: dict[str, Any] = {"class": dataset.labels, label: dataset.labels, **dataset.attributes}
    for name, _ in groups.bins:  # labels of bins are ordered by size, not by their text
        found[name] = pd.Series(pd.Categorical(found[name], categories=columns[name].cat.categories))
    return checked_case(
        groups,
        classifier,
        dataset,
        found,
        seed=study.seed,
        model_text=study.model.model,
        data_text=f"{path.name}: {len(dataset):,} samples",
        notes=dataset.notes,
        later=seen_rows(classifier, dataset, training, Path(data.training_data).name),
    )


def _refuse_others(data: DataOptions, model: ModelOptions) -> None:
    """Refuse options that are for other data, or for networks."""
    for field, why in _NOT_FOR_ROWS.items():
        value, default = getattr(data, field), DataOptions.model_fields[field].default
        if value != default and (field, value) not in (("split", "all"), ("scale", "std")):
            raise InputError(
                f"does not go with a model that takes the rows of a table: {why}. Leave it out",
                field=field,
                others=("columns",),
            )
    given = Overrides(
        mean=model.mean or None, std=model.std or None, device=model.device or None, tile=model.tile or None
    )
    given.without_torch("a model of tables")


def _columns_named(
    path: Path, table: pd.DataFrame, data: DataOptions, groups: GroupOptions
) -> tuple[str, tuple[str, ...]]:
    """Return the label and the other columns that options name, after checking that they exist."""
    if not data.label:
        raise InputError(
            f"Which column of {path} is the label? Specify it with {{label}}. {there_are(table.columns)}",
            others=("label",),
        )
    named = [name for name in dict.fromkeys((*groups.named_columns, data.by)) if name not in ("", data.label)]
    names = tuple(name for name in named if name != LABEL_NAME or name in table.columns)
    with named_options(data, groups):
        check_columns(path, table.columns, label=[data.label], attribute=names, feature=data.features)
    if data.label in data.features:
        raise InputError(
            f"Column {data.label!r} is the label and cannot also be a feature. Leave it out of `features`."
        )
    missing = int(table[data.label].isna().sum())
    if missing:
        raise InputError(
            f"{path}: label {data.label!r} is missing in {missing:,} of {len(table):,} rows. Drop these rows."
        )
    return data.label, names


def _spelled_as(wanted: Sequence[str], table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the names that the model knows, where they differ in surrounding spaces only."""
    spelled = {name.strip(): name for name in wanted if name not in table.columns}
    return table.rename(columns=spelled) if spelled else table


def _rows(table: pd.DataFrame, data: DataOptions, beside: Sequence[str], taken: Sequence[str]) -> pd.DataFrame:
    """Return the columns that the model may take."""
    if data.label in taken:
        raise InputError(
            f"The model takes the column {data.label!r}, which {{label}} names as the class. Name another column.",
            others=("label",),
        )
    if data.features:
        return table[list(dict.fromkeys(data.features))]
    return table.drop(columns=[name for name in beside if name in table.columns])


def _training_rows(data: DataOptions, structure: Any, names: Sequence[str]) -> pd.DataFrame | None:
    """Return the table that the model was trained on, if it is named."""
    if not data.training_data:
        return None
    table = _spelled_as(structure.names, read_table(Path(data.training_data)))
    if structure.named:
        return table
    check_columns(Path(data.training_data), table.columns, feature=names)
    return table[list(names)]


def _labels(
    name: str, labels: npt.NDArray[Any], class_names: Sequence[str], classes: Sequence[Any]
) -> npt.NDArray[Any]:
    """Return the labels in the type of the model's classes, if only their type differs."""
    distinct = list(dict.fromkeys(labels.tolist()))
    if class_names or any(each in classes for each in distinct):
        return labels
    known = {label_text(each): each for each in classes}
    if all(label_text(each) in known for each in distinct):
        converted = [known[label_text(each)] for each in labels.tolist()]
        return np.array(converted, dtype=object if isinstance(converted[0], str) else None)
    numbered = all(isinstance(each, int | float) for each in classes)
    if numbered and len(distinct) == len(classes) and all(isinstance(each, str) for each in distinct):
        texts = ",".join(sorted(distinct))
        raise InputError(
            f"Column {name!r} holds the labels {', '.join(map(repr, sorted(distinct)))}, but the classes of the model "
            f"are {', '.join(map(repr, classes))}. Name the labels in the order of its classes, for instance "
            f"{{class_names}} '{texts}'.",
            others=("class_names",),
        )
    return labels


def _values(column: "pd.Series[Any]") -> npt.NDArray[Any]:
    """Return a column as an array: numbers and booleans as they are, everything else as objects."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufb":
        return np.asarray(column)
    whole = pd.api.types.is_integer_dtype(column) and not column.isna().any()
    return column.to_numpy(dtype=np.int64 if whole else object)
