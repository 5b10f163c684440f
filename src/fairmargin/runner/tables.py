"""Models that take raw table rows: their rows coded as numbers, and the rules by which columns change."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.arrays import Floats
from fairmargin.core.column import Column, TableColumn
from fairmargin.core.domain import Domain
from fairmargin.core.partition import label_text
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.errors import InputError
from fairmargin.models.tables.classifier import TableClassifier
from fairmargin.models.tables.coding import check_single
from fairmargin.models.tables.frames import as_frame, columns_named, is_frame
from fairmargin.models.tables.pipeline import Structure, read_structure
from fairmargin.models.tables.reading import checked_rules, read_table_model
from fairmargin.study.rules_file import read_rules, rules_of

MOST_NUMBERS = 20
"""A column of groups with more different numbers needs edges between its groups."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """What a user says about the columns of a table.

    Parameters
    ----------
    columns
        Rules by name.
    immutable
        Further columns that do not change.
    place
        Where the rules are written, for errors: "rules.toml: ", or "".
    """

    columns: Mapping[str, Column]
    immutable: tuple[str, ...] = ()
    place: str = ""


def given_rules(columns: str | Mapping[str, Any], immutable: Sequence[str] = ()) -> Rules:
    """Return the rules of an option: the path of a file, or the rules as plain values."""
    if isinstance(columns, str):
        path = Path(columns)
        return Rules(read_rules(path) if columns else {}, tuple(immutable), f"{path.name}: " if columns else "")
    return Rules(rules_of(columns), tuple(immutable))


def coded_rows(
    model: Any,
    rows: Any,
    labels: npt.ArrayLike,
    *,
    rules: Rules,
    training: Any = None,
    fixed: Collection[str] = (),
    further: Collection[str] = (),
    classes: Sequence[Any] | None = None,
    attributes: Mapping[str, npt.ArrayLike] | None = None,
    called: tuple[str, str] = ("X", "training_data"),
    name: str = "",
) -> tuple[TableClassifier, Dataset]:
    """Return the classifier of raw rows that a model is, and the rows coded as it takes them.

    Parameters
    ----------
    model
        A model of scikit-learn, XGBoost or LightGBM.
    rows, labels
        The table, and one label per row.
    rules
        What the user says about columns. Rules for columns of the table that the model does not take are ignored.
    training
        The table that the model was trained on, from which units, steps, ranges and categories are taken.
    fixed
        Columns that do not move unless a rule says so: those that define the groups.
    further
        Columns of the table that are not among `rows`; rules for them are ignored too.
    classes
        Label values; by default those of the model.
    attributes
        Further columns of the samples.
    called
        Names of `rows` and `training` in error messages.
    name
        Name of the samples in reports.
    """
    taken = taken_columns(read_structure(model), rows, called[0])
    own = tuple(as_frame(rows, called[0]).columns) if is_frame(rows) else ()
    used, ignored = _rules_for(taken, {*own, *further}, rules)
    # A group may also be encoded by columns: "sex_F", "sex_M".
    still = {*fixed, *(each for each in taken for name in fixed if each.startswith((f"{name}_", f"{name}=")))}
    try:
        classifier = read_table_model(
            model, used, training_data=training, data=rows, fixed=still, classes=classes, called=called
        )
    except InputError as error:
        raise (error.at(rules.place) if rules.place and error.field == "columns" else error) from None
    notes = []
    if ignored:
        notes.append(f"Rules for columns that the model does not take were ignored: {_listed(ignored)}.")
    coded = classifier.encode(rows, called[0])
    columns = classifier.coding.columns
    dataset = Dataset(
        coded,
        labels,
        attributes,
        classifier.domain,
        name,
        rows_fingerprint(coded, columns, np.asarray(labels)),
        tuple(column.name for column in columns),
        (*classifier.notes, *notes),
        missing=True,
    )
    return classifier, dataset


def taken_columns(structure: Structure, rows: Any, called: str = "X") -> tuple[str, ...]:
    """Return the columns that a model takes, as the rows name them: all of them if the model knows no names."""
    if not is_frame(rows):
        return structure.names
    frame = as_frame(rows, called)
    return tuple((columns_named(frame, structure.names, called) if structure.named else frame).columns)


def some_rows(dataset: Dataset, which: npt.ArrayLike) -> Dataset:
    """Return some coded rows with the fingerprint that they have in every coding."""
    part = dataset.take(which)
    return replace(part, fingerprint=rows_fingerprint(np.asarray(part.x), dataset.domain.columns, part.y))


def seen_rows(classifier: TableClassifier, dataset: Dataset, training: Any, name: str) -> tuple[str, ...]:
    """Return a warning if coded rows are known to be training data, whose distances tend to be larger."""
    if training is None:
        return ()
    trained = classifier.encode(training, name)
    known = Dataset(trained, np.zeros(len(trained), dtype=np.int64), name="the training data", missing=True)
    warning = overlap_warning(overlap(dataset, known), table=True)
    return (warning,) if warning else ()


def rows_fingerprint(coded: Floats, columns: Sequence[TableColumn], labels: npt.NDArray[Any]) -> str:
    """Return a hash of rows that does not depend on how they are coded, so that runs of two models can be compared.

    Columns are hashed in the order of their names, categories by their values.
    """
    digest = sha256(f"{len(coded)} rows {labels.dtype.kind in 'iufb'}".encode())
    for place in sorted(range(len(columns)), key=lambda place: columns[place].name):
        column, values = columns[place], coded[:, place]
        digest.update(repr((column.name, column.is_number)).encode())
        if column.is_number:
            digest.update(np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8").tobytes())  # −0 becomes 0
            continue
        named = [*map(_digest, column.categories), _digest("an unknown value"), _digest(None)]
        codes = np.where(np.isnan(values), len(named) - 1, values).astype(np.int64)
        digest.update(np.array(named, dtype="<u8")[codes].tobytes())
    codes, texts = pd.factorize(labels.ravel(), use_na_sentinel=False)  # which does not sort: types may be mixed
    digest.update(np.array([_digest(label_text(each)) for each in texts.tolist()], dtype="<u8")[codes].tobytes())
    return digest.hexdigest()


def domain_fingerprint(domain: Domain) -> str:
    """Return a hash of bounds and units, or of the rules of columns; distances can be compared if it is the same.

    The hash of rules does not depend on the order of columns and of categories, which models may know in another one.
    """
    if not domain.columns:
        return domain.fingerprint()
    parts = []
    for column in sorted(domain.columns, key=lambda each: each.name):
        reachable = sorted(repr(column.categories[place]) for place in column.reachable)
        ordered = [repr(each) for each in column.categories] if column.ordered else []
        allowed = [] if column.allowed is None else column.allowed.tolist()
        numbers = (column.unit, column.low, column.high, column.step, column.gap, column.cost)
        rest = (column.direction, allowed, column.immutable, column.single)
        parts.append((column.name, column.kind, *map(float, numbers), *rest, reachable, ordered))
    return sha256(repr(parts).encode()).hexdigest()


def check_groups(name: str, column: Any) -> None:
    """Refuse a column of groups that holds many numbers, or two spellings of one group."""
    values = pd.Series(np.asarray(column)) if not isinstance(column, pd.Series) else column
    check_single(values.rename(name), "groups")
    present = values.dropna()
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        different = int(present.nunique())
        if different > MOST_NUMBERS:
            edges = ",".join(f"{edge:g}" for edge in _edges(present.to_numpy(dtype=np.float64)))
            raise InputError(
                f"Column {name!r} holds {different:,} different numbers, too many for groups. Give the edges between "
                f"groups, for instance {{bins}} {name}={edges}.",
                others=("bins",),
            )
        return
    spelled: dict[str, str] = {}
    for text in dict.fromkeys(map(label_text, present.unique().tolist())):
        other = spelled.setdefault(" ".join(text.casefold().split()), text)
        if other != text:
            counts = present.map(label_text).value_counts()
            raise InputError(
                f"Column {name!r} holds {other!r} ({counts[other]:,} rows) and {text!r} ({counts[text]:,} rows), which "
                "would be two groups. Spell them alike; if they are different groups, give them different names."
            )


def _rules_for(taken: Sequence[str], there: Collection[str], rules: Rules) -> tuple[dict[str, Column], list[str]]:
    """Return the rules for columns that the model takes, and the names of columns whose rules are ignored."""
    found = dict(checked_rules(rules.columns))
    for name in rules.immutable:
        if not _concerns(name, taken) and name not in there:
            raise InputError(
                f"names {name!r}, but the table has no such column. {suggest(name, dict.fromkeys((*taken, *there)))}",
                field="immutable",
            )
        found[name] = replace(found.get(name, Column()), immutable=True)
    ignored = [name for name in found if name in there and not _concerns(name, taken)]
    return {name: rule for name, rule in found.items() if name not in ignored}, ignored


def _concerns(name: str, taken: Sequence[str]) -> bool:
    """Return whether a rule is for a column that the model takes, or for several that encode one category."""
    return name in taken or sum(each.startswith((f"{name}_", f"{name}=")) for each in taken) > 1


def _edges(numbers: Floats) -> list[float]:
    """Return the quartiles of numbers, rounded where they stay different, as an example of edges.

    >>> _edges(np.arange(17.0, 91.0))
    [35.0, 54.0, 72.0]
    """
    quartiles = np.unique(np.quantile(numbers, [0.25, 0.5, 0.75]))
    size = math.floor(math.log10(max(np.abs(quartiles).max(), 1e-300)))
    for digits in range(1 - size, 12 - size):
        rounded = [float(round(each, digits)) for each in quartiles.tolist()]
        if all(low < high for low, high in pairwise(rounded)):
            return rounded
    return [float(each) for each in quartiles]


def _digest(value: Any) -> int:
    """Return a hash of a category of 64 bits; 1 and 1.0 are equal."""
    text = "" if value is None else f"={label_text(value)}"
    return int.from_bytes(sha256(text.encode()).digest()[:8], "little")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")


def takes_rows(x: Any) -> bool:
    """Return whether samples are rows of a table: a data frame, or an array of objects."""
    return is_frame(x) or getattr(getattr(x, "dtype", None), "kind", "") == "O"


def moves_categories(columns: Sequence[TableColumn]) -> bool:
    """Return whether a row may switch to another category, so that its distances are best measured in L1."""
    return any(not column.is_number and not column.immutable for column in columns)
