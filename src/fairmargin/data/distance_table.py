"""Distances that were measured elsewhere: another tool's attack, a certificate, a spreadsheet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.suggestion import suggest, there_are
from fairmargin.data.reading import ARRAYS, read_arrays, read_table
from fairmargin.errors import InputError

_VALUE_NAMES = ("distance", "value", "values", "r")
_CORRECT_NAMES = ("correct", "is_correct")
_LABEL_NAMES, _PREDICTION_NAME = ("y", "label"), "prediction"
_TRIED_NAME = "tried"


@dataclass(frozen=True, slots=True, eq=False)
class DistanceTable:
    """Distances with the attributes that stood beside them.

    Parameters
    ----------
    distances
        One number a sample.
    attributes
        The other columns, by which groups can be formed.
    name
        The name of the file.
    notes
        What was assumed in reading, in sentences for the report.
    fingerprint
        The sha256 of the file.
    ids
        A text per sample by which two tables are paired, each different; None if no column of ids was named.
    """

    distances: Distances
    attributes: Mapping[str, npt.NDArray[Any]]
    name: str
    notes: tuple[str, ...]
    fingerprint: str
    ids: npt.NDArray[np.str_] | None = None

    def __len__(self) -> int:
        return len(self.distances)

    def partition(self, name: str) -> Partition:
        """Groups by an attribute."""
        if name not in self.attributes:
            raise InputError(f"{self.name} has no attribute {name!r}. {suggest(name, self.attributes)}")
        return Partition.by(name, self.attributes[name])


def load_distances(
    path: Path | str,
    *,
    value: str | None = None,
    correct: str | None = None,
    bound: Bound | str | None = None,
    norm: Norm | str | None = None,
    subject: str = "model",
    id: str | None = None,
) -> DistanceTable:
    """Distances from a table (.csv, .tsv, .parquet) or from the one-dimensional arrays of an .npz file.

    A distance is a number, or `inf` where no misclassified input was found; of a misclassified sample it is 0. A column
    "tried" says how far the search looked. All further columns are attributes.

    Parameters
    ----------
    path
        The file.
    value
        The column with the distances; by default "distance", "value", "values" or "r", whichever is there first.
    correct
        The column that says whether the sample is classified correctly; by default "correct" or "is_correct", else
        whether "y" (or "label") equals "prediction", else whether the distance is above 0.
    bound
        On which side of the truth the distances lie; by default "upper", as attacks measure them.
    norm
        The norm they were measured in; by default "l2".
    subject
        Whose boundary was measured.
    id
        The column with an id per sample, for `ids`. Ids are texts: 7, 7.0 and 007 differ.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "measured.csv"
    ...     _ = file.write_text("distance,correct,sex\\n0.5,1,F\\n0,0,M\\ninf,1,F\\n")
    ...     table = load_distances(file, bound="upper", norm="linf")
    >>> table.distances, list(table.attributes), table.notes
    (Distances(3 samples, 2 correct, 1 unreached, upper, L∞), ['sex'], ())
    """
    path = Path(path)
    columns = _columns(path, id or "")
    notes = _assumed(bound, norm)
    value_name = _named(path, columns, value, _VALUE_NAMES)
    if value_name is None:
        raise InputError(
            f"{path} has no column of distances: tried {', '.join(_VALUE_NAMES)}. Name it with `value`. "
            + there_are(columns.columns)
        )
    values = _numbers(path, value_name, columns[value_name], "Write inf where no misclassified input was found")
    correct_name = _named(path, columns, correct, _CORRECT_NAMES)
    if correct_name is None:
        hits, note = _deduced_correct(path, columns, values)
        notes.append(note)
    else:
        hits = _truths(path, correct_name, columns[correct_name])
    tried = _numbers_or_empty(path, columns[_TRIED_NAME]) if _TRIED_NAME in columns else None
    used = {value_name, correct_name, _TRIED_NAME}
    if id is not None and id in used:
        raise InputError(f"{path}: column {id!r} cannot be both the id and a distance, `correct` or `tried`.")
    ids = _ids(path, columns, id)
    try:
        distances = Distances(values, hits, _bound(bound), norm or Norm.L2, subject, tried)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return DistanceTable(
        distances=distances,
        attributes={str(name): columns[name].to_numpy() for name in columns.columns if name not in {*used, id}},
        name=path.name,
        notes=tuple(notes),
        fingerprint=sha256(path.read_bytes()).hexdigest(),
        ids=ids,
    )


def _ids(path: Path, columns: pd.DataFrame, name: str | None) -> npt.NDArray[np.str_] | None:
    """The ids as texts, after checking that none is missing and none occurs twice."""
    if name is None:
        return None
    if name not in columns:
        raise InputError(f"{path} has no column {name!r}. {suggest(name, columns.columns)}")
    missing = columns[name].isna().to_numpy()
    texts = np.array(["" if gone else _text(cell) for gone, cell in zip(missing, columns[name], strict=True)])
    missing = texts == ""
    if missing.any():
        raise InputError(
            f"{path}: column {name!r} has no id in {missing.sum():,} of {len(texts):,} rows, first in data row "
            f"{int(missing.argmax()) + 1:,}. Give every sample an id of its own."
        )
    known, counts = np.unique(texts, return_counts=True)
    twice = known[counts > 1]
    if len(twice):
        rows = np.flatnonzero(texts == twice[0]) + 1
        raise InputError(
            f"{path}: column {name!r} holds {len(twice):,} ids more than once, such as {str(twice[0])!r} in data rows "
            f"{rows[0]:,} and {rows[1]:,}. Give every sample an id of its own."
        )
    return texts


def _text(cell: object) -> str:
    """A cell as text, without surrounding spaces."""
    return (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)).strip()


def _columns(path: Path, as_text: str) -> pd.DataFrame:
    if not path.name.lower().endswith(ARRAYS):
        return read_table(path, as_text=as_text)
    arrays = read_arrays(path)
    shapes = {name: array.shape for name, array in arrays.items()}
    if not shapes or len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        given = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "none"
        raise InputError(f"{path}: expected arrays with one value a sample, all of one length; given {given}.")
    return pd.DataFrame(arrays)


def _named(path: Path, columns: pd.DataFrame, given: str | None, usual: Sequence[str]) -> str | None:
    """The column that the user named, or the first usual one that is there."""
    if given is not None and given not in columns:
        raise InputError(f"{path} has no column {given!r}. {suggest(given, columns.columns)}")
    return given or next((name for name in usual if name in columns), None)


def _assumed(bound: Bound | str | None, norm: Norm | str | None) -> list[str]:
    notes = []
    if bound is None:
        notes.append("Nothing was said about the bound: the distances are taken for upper bounds (attacks).")
    if norm is None:
        notes.append("Nothing was said about the norm: the distances are taken to be L2.")
    return notes


def _bound(given: Bound | str | None) -> Bound:
    try:
        return Bound.UPPER if given is None else Bound(given)
    except ValueError:
        names = [bound.value for bound in Bound]
        raise InputError(f"Unknown bound {given!r}. {suggest(str(given), names)}") from None


def _numbers(path: Path, name: str, column: "pd.Series[Any]", advice: str) -> Floats:
    empty = column.isna().to_numpy()
    if empty.any():
        raise InputError(
            f"{path}: column {name!r} has no number in {empty.sum():,} of {len(column):,} rows, first in data row "
            f"{int(empty.argmax()) + 1:,}. {advice}."
        )
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    strange = np.isnan(numbers)
    if strange.any():
        row = int(strange.argmax())
        raise InputError(
            f"{path}: column {name!r} holds {column.iloc[row]!r} in data row {row + 1:,}, which is no number. {advice}."
        )
    return numbers


def _numbers_or_empty(path: Path, column: "pd.Series[Any]") -> Floats:
    """Where a distance is finite, nothing need be said of how far the search looked."""
    if not pd.api.types.is_numeric_dtype(column):
        raise InputError(f"{path}: column {_TRIED_NAME!r} must hold numbers (or nothing); it holds text.")
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _truths(path: Path, name: str, column: "pd.Series[Any]") -> Bools:
    words = {"true": True, "1": True, "1.0": True, "yes": True, "false": False, "0": False, "0.0": False, "no": False}
    truths = column.map(lambda cell: words.get(str(cell).strip().lower()))
    strange = truths.isna().to_numpy()
    if strange.any():
        row = int(strange.argmax())
        raise InputError(
            f"{path}: column {name!r} must hold true and false (or 1 and 0); data row {row + 1:,} holds "
            f"{column.iloc[row]!r}."
        )
    return truths.to_numpy(dtype=np.bool_)


def _deduced_correct(path: Path, columns: pd.DataFrame, values: Floats) -> tuple[Bools, str]:
    label = next((name for name in _LABEL_NAMES if name in columns), None)
    if label is None or _PREDICTION_NAME not in columns:
        note = "No column says which samples are classified correctly: those with a distance above 0 are taken to be."
        return values > 0, note
    truth, guess = columns[label], columns[_PREDICTION_NAME]
    if pd.api.types.is_numeric_dtype(truth) != pd.api.types.is_numeric_dtype(guess):
        raise InputError(
            f"{path}: one of the columns {label!r} and {_PREDICTION_NAME!r} holds numbers and the other text: they "
            "cannot be compared. Write both alike, or add a column `correct`."
        )
    if truth.isna().any() or guess.isna().any():
        raise InputError(f"{path}: {label!r} or {_PREDICTION_NAME!r} is empty in some row. Fill it, or drop the row.")
    return (truth.to_numpy() == guess.to_numpy()).astype(np.bool_), f"Correct is where {label!r} equals 'prediction'."
