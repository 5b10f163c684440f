"""Distances that were measured elsewhere: by another tool, or by an earlier run."""

import json
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
from fairmargin.data.formats.files import ARRAYS, read_arrays, read_table
from fairmargin.errors import InputError, StoreError
from fairmargin.store.folder import Store
from fairmargin.store.plain_files import read_plain
from fairmargin.study.run_folder import OLD_MANIFEST, RunFolder

_VALUE_NAMES = ("distance", "value", "values", "r")
_CORRECT_NAMES = ("correct", "is_correct")
_LABEL_NAMES, _PREDICTION_NAME = ("y", "label"), "prediction"
_TRIED_NAME = "tried"


@dataclass(frozen=True, slots=True, eq=False)
class DistanceTable:
    """Distances with the attributes of their samples.

    Parameters
    ----------
    distances
        One distance per sample.
    attributes
        The remaining columns, which can define groups.
    name
        Name of the file or folder.
    notes
        Sentences for the report about what was assumed when reading.
    fingerprint
        Hash of the file, or of the keys of the distances in a run folder.
    ids
        One unique text per sample, used to pair two tables; None if no id column was given.
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
        """Return the groups defined by an attribute."""
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
    r"""Load distances from a table (.csv, .tsv, .parquet) or from one-dimensional arrays in an .npz file.

    A distance is a number, `inf` if no misclassified input was found, and 0 for misclassified samples. An optional
    column "tried" contains the radius up to which the search looked. All further columns are attributes.

    Parameters
    ----------
    path
        Path of the file.
    value
        Name of the column with the distances; by default the first that exists of "distance", "value", "values", "r".
    correct
        Name of the column that says whether a sample is classified correctly; by default "correct" or "is_correct",
        else whether "y" (or "label") equals "prediction", else whether the distance is above 0.
    bound
        Kind of the distances: upper bounds, lower bounds or exact; by default "upper", as measured by attacks.
    norm
        Norm in which the distances were measured; by default "l2".
    subject
        Name of the model whose decision boundary was measured.
    id
        Name of the column with one id per sample. Ids are compared as text: 7, 7.0 and 007 differ.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "measured.csv"
    ...     _ = file.write_text("distance,correct,sex\n0.5,1,F\n0,0,M\ninf,1,F\n")
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
            f"{path} has no column of distances: tried {', '.join(_VALUE_NAMES)}. Specify it with `value`. "
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
    """Return the ids as text, after checking that they are complete and unique."""
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
            f"{int(missing.argmax()) + 1:,}. Give every sample a unique id."
        )
    known, counts = np.unique(texts, return_counts=True)
    twice = known[counts > 1]
    if len(twice):
        rows = np.flatnonzero(texts == twice[0]) + 1
        raise InputError(
            f"{path}: column {name!r} holds {len(twice):,} ids more than once, such as {str(twice[0])!r} in data rows "
            f"{rows[0]:,} and {rows[1]:,}. Give every sample a unique id."
        )
    return texts


def _text(cell: object) -> str:
    """Convert a cell to text without surrounding spaces."""
    return (cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)).strip()


def _columns(path: Path, as_text: str) -> pd.DataFrame:
    if not path.name.lower().endswith(ARRAYS):
        return read_table(path, as_text=as_text)
    arrays = read_arrays(path)
    shapes = {name: array.shape for name, array in arrays.items()}
    if not shapes or len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        given = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "none"
        raise InputError(f"{path}: expected arrays with one value per sample, all of the same length; given {given}.")
    return pd.DataFrame(arrays)


def _named(path: Path, columns: pd.DataFrame, given: str | None, usual: Sequence[str]) -> str | None:
    """Return the column given by the user, or the first default name that exists."""
    if given is not None and given not in columns:
        raise InputError(f"{path} has no column {given!r}. {suggest(given, columns.columns)}")
    return given or next((name for name in usual if name in columns), None)


def _assumed(bound: Bound | str | None, norm: Norm | str | None) -> list[str]:
    notes = []
    if bound is None:
        notes.append("The bound was not given: the distances are assumed to be upper bounds (attacks).")
    if norm is None:
        notes.append("The norm was not given: the distances are assumed to be L2.")
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
            f"{path}: column {name!r} holds {column.iloc[row]!r} in data row {row + 1:,}; expected a number. {advice}."
        )
    return numbers


def _numbers_or_empty(path: Path, column: "pd.Series[Any]") -> Floats:
    """Return the column "tried"; its cells may be empty where the distance is finite."""
    if not pd.api.types.is_numeric_dtype(column):
        raise InputError(f"{path}: column {_TRIED_NAME!r} must hold numbers or empty cells; it holds text.")
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
        note = "No column says which samples are classified correctly: a distance above 0 is taken to mean correct."
        return values > 0, note
    truth, guess = columns[label], columns[_PREDICTION_NAME]
    if pd.api.types.is_numeric_dtype(truth) != pd.api.types.is_numeric_dtype(guess):
        raise InputError(
            f"{path}: one of the columns {label!r} and {_PREDICTION_NAME!r} holds numbers and the other text, so they "
            "cannot be compared. Use the same type in both, or add a column `correct`."
        )
    if truth.isna().any() or guess.isna().any():
        raise InputError(f"{path}: {label!r} or {_PREDICTION_NAME!r} has an empty cell. Fill it, or drop the row.")
    return (truth.to_numpy() == guess.to_numpy()).astype(np.bool_), f"Correct means that {label!r} equals 'prediction'."


def load_run_distances(
    path: Path, *, estimator: str | None = None, bound: str | None = None, norm: str | None = None
) -> DistanceTable:
    """Load the distances that an earlier run measured, with the group columns of its samples.

    Folders that version 0.1 wrote can be read too.

    Parameters
    ----------
    path
        The run folder.
    estimator
        Name of the estimator, if the run used several.
    bound, norm
        The expected bound and norm; an error is raised if those of the run differ.
    """
    folder = RunFolder(path)
    Store.open(path, create=False)
    measurements, notes = _measurements(folder)
    if not measurements:
        raise InputError(f"{path} holds no audit, so it has no distances of all samples. Give the folder of an audit.")
    if estimator is None and len(measurements) > 1:
        raise InputError(
            f"is missing: {path} holds the distances of several estimators. Choose one. {there_are(measurements)}",
            field="distance_column",
        )
    name = estimator or next(iter(measurements))
    if name not in measurements:
        raise InputError(f"{path} holds no distances by {name!r}. {suggest(name, measurements)}")
    distances = folder.distances(measurements[name])
    for field, given, known in (("bound", bound, distances.bound), ("norm", norm, distances.norm)):
        kind: Any = Bound if field == "bound" else Norm.parse
        if given and kind(given) is not known:
            raise InputError(f"differs from that of the run, {known.value}", field=field, given=given)
    columns: Mapping[str, Any] = folder.columns()
    if columns and len(next(iter(columns.values()))) != len(distances):
        raise StoreError(f"The files in {path} do not match: the numbers of samples and distances differ.")
    return DistanceTable(
        distances=distances,
        attributes=columns,
        name=path.name,
        notes=(f"Distances by {name}, measured by the run in {path}.", *notes),
        fingerprint=sha256(" ".join(measurements[name]).encode()).hexdigest(),
        ids=folder.ids(),
    )


def _measurements(folder: RunFolder) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the shards of each estimator of a run, and the run's notes."""
    record = folder.record()
    if record is None:
        return _old_measurements(folder)
    if record.status != "finished":
        raise StoreError(f"The run in {folder.path} did not finish. Run the same command again.")
    if record.study.grid is not None:
        raise InputError(
            f"{folder.path} holds a study of several models. Name the run folder of an audit of one model, or a table."
        )
    folder.check_seal(record)
    return {each.about.estimator: each.shards[0] for each in record.results if each.kind == "audit"}, record.notes


def _old_measurements(folder: RunFolder) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    path = folder.path / OLD_MANIFEST
    try:
        content = json.loads(read_plain(path))
        found = {str(each["estimator"]): tuple(map(str, each["keys"])) for each in content["measurements"]}
        return found, tuple(map(str, content.get("notes", ())))
    except FileNotFoundError:
        return {}, ()
    except StoreError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}).") from None
