"""Reading files that a user names: tables and arrays, or a sentence that says why not."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from fairmargin.errors import InputError

ARRAYS = (".npz",)
_TEXT_MARK = "'"
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
# Before pandas 3.1 the default parser could be off in the last digit; since then it is exact and the option deprecated.
_EXACT_BY_DEFAULT = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)


def is_readable(name: str) -> bool:
    """Whether a file of this name is of a kind that can be read here."""
    return name.lower().endswith((*ARRAYS, *TABLES))


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz file. Pickled content is refused: to load it is to run it."""
    _check_exists(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: _one_array(path, archive, name) for name in archive.files}
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError, TypeError) as error:
        # A file that is no archive makes numpy return an array, or suspect a pickle, instead of failing plainly.
        raise InputError(f"{path} is not a readable .npz file. Write it with `numpy.savez(path, x=…, y=…)`.") from error


def read_table(path: Path, *, as_text: str = "") -> pd.DataFrame:
    """The rows of a .csv, .tsv (also gzipped) or .parquet file.

    The column named `as_text` of a text file keeps its characters: 007 is not read as 7, nor NA as missing.
    """
    _check_exists(path)
    name = path.name.lower()
    if not name.endswith(TABLES):
        raise InputError(f"{path} is of an unknown kind. Expected one of {', '.join((*TABLES, *ARRAYS))}.")
    table = (
        _read_parquet(path) if name.endswith(".parquet") else _read_text(path, "\t" if ".tsv" in name else ",", as_text)
    )
    if table.empty:
        raise InputError(f"{path} has a header but no rows." if len(table.columns) else f"{path} is empty.")
    table.columns = pd.Index([str(column).strip() for column in table.columns])
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise InputError(f"{path} has two columns named {twice[0]!r}. Rename one of them.")
    return table


def _read_text(path: Path, separator: str, as_text: str) -> pd.DataFrame:
    try:
        header = pd.read_csv(path, sep=separator, nrows=0).columns if as_text else ()
        texts = [name for name in header if str(name).strip() == as_text]
        table = pd.read_csv(
            path,
            sep=separator,
            float_precision=None if _EXACT_BY_DEFAULT else "round_trip",
            low_memory=False,
            # The mark keeps pandas from taking NA, null and the like for missing values.
            converters=dict.fromkeys(texts, _TEXT_MARK.__add__),
        )
        for name in texts:
            table[name] = table[name].str.removeprefix(_TEXT_MARK)
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} is empty.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error.reason}). Save it as UTF-8.") from error
    except (pd.errors.ParserError, OSError, EOFError) as error:
        raise InputError(f"{path} is not a readable table: {str(error).strip().rstrip('.')}.") from error
    if len(table.columns) == 1 and any(mark in str(table.columns[0]) for mark in ";\t|"):
        raise InputError(
            f"{path} has a single column, {table.columns[0]!r}: it seems to be separated by another character. "
            "Save it with commas, or with tabs under the ending .tsv."
        )
    return table


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise InputError(f"{path} is not a readable Parquet file: {reason}.") from error


def _one_array(path: Path, archive: Any, name: str) -> npt.NDArray[Any]:
    try:
        return np.asarray(archive[name])
    except ValueError as error:
        if "pickle" not in str(error).lower():
            raise
        raise InputError(
            f"Array {name!r} of {path} holds Python objects, which only unpickling could read, and that can run "
            f"foreign code. Save it as numbers or text, for instance `{name}.astype(str)`."
        ) from None


def _check_exists(path: Path) -> None:
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; expected a file.")
        with open(path, "rb") as file:
            if not file.read(1):
                raise InputError(f"{path} is empty.")
    except OSError as error:
        what = "There is no file" if isinstance(error, FileNotFoundError) else "Cannot read the file"
        raise InputError(f"{what} {path} (looked in {Path.cwd()}). Check the path.") from None
