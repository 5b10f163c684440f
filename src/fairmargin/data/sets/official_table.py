"""Datasets from published tables; error messages name the file and the line."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from fairmargin.data.formats.features import domain_of, encode_columns
from fairmargin.errors import InputError

Meaning = TypeVar("Meaning")


@dataclass(frozen=True, slots=True, eq=False)
class TextTable:
    """Cells as text, with the file and line of each row.

    Parameters
    ----------
    columns
        Names of the columns.
    cells
        Text of each cell, with shape (rows, columns).
    places
        File and line of each row, for error messages.

    >>> table = table_of(("age", "sex"), [("people.csv, line 1", ["31", "f"]), ("people.csv, line 2", ["?", "m"])])
    >>> table.meaning("sex", {"f": "female", "m": "male"})
    ['female', 'male']
    >>> table.numbers("age")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: people.csv, line 2: 'age' is '?'; expected a number. Download the file again.
    """

    columns: tuple[str, ...]
    cells: npt.NDArray[np.object_]
    places: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.places)

    def text(self, column: str) -> list[str]:
        """Return a column as text."""
        found: list[str] = self.cells[:, self.columns.index(column)].tolist()
        return found

    def numbers(self, column: str, *, empty: float | None = None) -> Floats:
        """Return a column as numbers; an empty cell becomes `empty`, or is an error if `empty` is None."""
        return np.array([self._number(column, row, cell, empty) for row, cell in enumerate(self.text(column))])

    def meaning(self, column: str, meanings: Mapping[str, Meaning]) -> list[Meaning]:
        """Replace the codes in a column by their meanings; an unknown code is an error."""
        for row, cell in enumerate(self.text(column)):
            if cell not in meanings:
                raise InputError(
                    f"{self.places[row]}: unknown value {cell!r} of {column!r}. {there_are(meanings)} Fetch the file "
                    "again."
                )
        return [meanings[cell] for cell in self.text(column)]

    def keep(self, which: npt.NDArray[np.bool_]) -> "TextTable":
        """Select rows by a mask."""
        places = tuple(place for place, kept in zip(self.places, which, strict=True) if kept)
        return TextTable(self.columns, self.cells[which], places)

    def _number(self, column: str, row: int, cell: str, empty: float | None) -> float:
        if not cell and empty is not None:
            return empty
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{self.places[row]}: {column!r} is {cell!r}; expected a number. Download the file again.")
        return number


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


def table_of(columns: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> TextTable:
    """Make a table of rows, each given by its place and its cells; a row with a wrong number of cells is an error."""
    places: list[str] = []
    cells: list[Sequence[str]] = []
    for place, row in rows:
        if len(row) != len(columns):
            raise InputError(f"{place} has {len(row)} columns; expected {len(columns)}. Is the file truncated?")
        places.append(place)
        cells.append(row)
    table = np.empty((len(cells), len(columns)), dtype=np.object_)
    table[:] = cells if cells else table
    return TextTable(tuple(columns), table, tuple(places))


def read_official(name: str, card: Card, root: Path | None, archives: Sequence[str]) -> OfficialTables:
    """Read the files on a card from a folder, from an archive, or from the folder of the file that `root` names."""
    wanted = [file.name for file in card.files]
    # The path of a table stands for its folder.
    start = root.parent if root is not None and root.is_file() and root.name in wanted else root
    source = locate(
        name, card, start, folder=lambda place: any((place / file).is_file() for file in wanted), archives=archives
    )
    members = {PurePosixPath(path).name: (path, content) for path, content in source.members(_named(wanted))}
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
    constant = [feature for feature, scale in zip(encoded.names, domain.scale.tolist(), strict=True) if scale == 0]
    return Dataset(
        encoded.x[rows],
        np.asarray(y, dtype=np.int64)[rows],
        {attribute: np.array(column, dtype=str)[rows] for attribute, column in attributes.items()},
        domain,
        name=name,
        feature_names=encoded.names,
        notes=(*_notes(encoded.categorical, constant), *notes),
        class_names=class_names,
    )


def _notes(categorical: tuple[str, ...], constant: list[str]) -> list[str]:
    notes = [
        "Distances are in standard deviations of each feature: a step of length 1 in one feature changes it by one "
        "standard deviation of the training split."
    ]
    if categorical:
        notes.append(
            f"Categorical columns one-hot encoded: {', '.join(categorical)}. A perturbation may give their indicators "
            "fractional values."
        )
    if constant:
        notes.append(f"Constant in the training split, hence immutable: {', '.join(constant)}.")
    return notes


def _named(wanted: Sequence[str]) -> Callable[[str], bool]:
    return lambda path: PurePosixPath(path).name in wanted


def _decoded(path: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error.reason}). Download it again.") from error


def _differences(card: Card, paths: Mapping[str, str], contents: Mapping[str, bytes]) -> tuple[str, ...]:
    notes: list[str] = []
    for file in card.files:
        content = contents[file.name]
        checks: list[tuple[str, str, Any]] = [("sha256", file.sha256, hashlib.sha256), ("md5", file.md5, _md5)]
        for kind, official, digest in checks:
            if official and digest(content).hexdigest() != official:
                notes.append(
                    f"{Path(paths[file.name]).name} differs from the official file (checksum {kind}): it may be an "
                    "edited or incomplete copy."
                )
                break
    return tuple(notes)


def _md5(content: bytes) -> Any:
    return hashlib.md5(content, usedforsecurity=False)
