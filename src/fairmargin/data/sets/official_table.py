"""Datasets from published tables; error messages name the file and the line."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.suggestion import there_are
from fairmargin.data.card import Card
from fairmargin.data.dataset import Dataset
from fairmargin.data.fetch.sources import locate
from fairmargin.data.formats.features import domain_of, encode_columns, notes_on
from fairmargin.errors import InputError

Meaning = TypeVar("Meaning")
Texts = Iterable[tuple[str, Sequence[str]]]  # file and line of each row, and its cells


@dataclass(frozen=True, slots=True)
class OfficialTables:
    """The text files of a dataset.

    Parameters
    ----------
    texts
        Content of each file by its official name.
    paths
        Path of each file, for error messages.
    notes
        A sentence for each file that differs from the published file.
    """

    texts: Mapping[str, str]
    paths: Mapping[str, str]
    notes: tuple[str, ...]


def text_table(columns: Sequence[str], rows: Texts) -> pd.DataFrame:
    """Return a data frame of texts whose index is the file and line of each row.

    >>> table = text_table(("age", "sex"), [("people.csv, line 1", ["31", "f"]), ("people.csv, line 2", ["?", "m"])])
    >>> meanings(table["sex"], {"f": "female", "m": "male"})
    ['female', 'male']
    >>> numbers(table["age"])
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: people.csv, line 2: 'age' is '?'; expected a number. Download the file again.
    """
    cells: dict[str, Sequence[str]] = {}
    for place, row in rows:
        if len(row) != len(columns):
            raise InputError(f"{place} has {len(row)} columns; expected {len(columns)}. Is the file truncated?")
        cells[place] = row
    return pd.DataFrame(list(cells.values()), index=list(cells), columns=list(columns), dtype=object)


def numbers(column: "pd.Series[Any]", *, empty: float | None = None) -> Floats:
    """Return a column of a text table as numbers; an empty cell becomes `empty`, or is an error if `empty` is None."""
    found = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    is_empty = (column == "").to_numpy(dtype=np.bool_) & (empty is not None)
    wrong = ~np.isfinite(found) & ~is_empty
    if wrong.any():
        place, cell = column.index[wrong][0], column[wrong].iloc[0]
        raise InputError(f"{place}: {column.name!r} is {cell!r}; expected a number. Download the file again.")
    return np.where(is_empty, np.float64(empty or 0), found)


def meanings(column: "pd.Series[Any]", codes: Mapping[str, Meaning]) -> list[Meaning]:
    """Replace the codes in a column of a text table by their meanings; an unknown code is an error."""
    for place, cell in column.items():
        if cell not in codes:
            raise InputError(
                f"{place}: unknown value {cell!r} of {column.name!r}. {there_are(codes)} Download the file again."
            )
    return [codes[cell] for cell in column]


def read_official(name: str, card: Card, root: Path | None, archives: Sequence[str]) -> OfficialTables:
    """Read the files on a card from a folder, from an archive, or from the folder of the file that `root` names."""
    wanted = [file.name for file in card.files]
    # The path of a table stands for its folder.
    start = root.parent if root is not None and root.is_file() and root.name in wanted else root
    source = locate(
        name, card, start, folder=lambda place: any((place / file).is_file() for file in wanted), archives=archives
    )
    found = source.members(lambda path: PurePosixPath(path).name in wanted)
    members = {PurePosixPath(path).name: (path, content) for path, content in found}
    for file in wanted:
        if file not in members:
            raise InputError(f"{source.path} has no {file} of {name}. Put it there; see `fairmargin data {name}`.")
    paths = {file: str(source.path / members[file][0]) for file in wanted}
    texts = {file: _decoded(paths[file], members[file][1]) for file in wanted}
    return OfficialTables(texts, paths, _differences(card, paths, {file: members[file][1] for file in wanted}))


def table_dataset(
    name: str,
    features: pd.DataFrame,
    y: npt.ArrayLike,
    attributes: Mapping[str, Sequence[str]],
    *,
    class_names: tuple[str, ...],
    train: Ints,
    rows: Ints,
    notes: Sequence[str],
) -> Dataset:
    """Make the dataset of a split, encoded and scaled in the same way for every split.

    Guarantee: the features and their order are those of the whole table, and the unit of length of a feature is its
    standard deviation over the training split. Models of one split can be used on another, and distances of both can be
    compared.
    """
    if not len(train) or not len(rows):
        raise InputError(f"The files of {name} have {len(features)} rows, too few for a split. Download them again.")
    try:
        encoded = encode_columns(features, features.columns)
        domain = domain_of(encoded.x[train], "std", None)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return Dataset(
        encoded.x[rows],
        np.asarray(y, dtype=np.int64)[rows],
        {attribute: np.array(column, dtype=str)[rows] for attribute, column in attributes.items()},
        domain,
        name=name,
        feature_names=encoded.names,
        notes=(*notes_on(encoded, domain, "std", "the training split", "the training split"), *notes),
        class_names=class_names,
    )


def _decoded(path: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error.reason}). Download it again.") from error


def _differences(card: Card, paths: Mapping[str, str], contents: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return a note for each file whose checksum is not the published one."""
    notes = []
    for file in card.files:
        kind, official = ("sha256", file.sha256) if file.sha256 else ("md5", file.md5)
        if official and hashlib.new(kind, contents[file.name], usedforsecurity=False).hexdigest() != official:
            notes.append(
                f"{Path(paths[file.name]).name} differs from the official file (checksum {kind}): it may be an edited "
                "or incomplete copy."
            )
    return tuple(notes)
