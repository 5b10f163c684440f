"""Datasets from files: tables (.csv, .tsv, .parquet) and arrays (.npz)."""

import csv
import gzip
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from fairmargin.core.suggestion import suggest, there_are
from fairmargin.data.dataset import Dataset
from fairmargin.data.formats.features import Bounds, Features, Scale, domain_of, encode_columns, notes_on, outside
from fairmargin.data.samples import as_samples
from fairmargin.errors import InputError

LABEL_NAME = "class"
ARRAYS = (".npz",)
_TEXT_MARK = "'"
_WHERE = ("this file", "this file's rows")  # where standard deviations are computed
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
# Before pandas 3.1, the default parser could be wrong in the last digit; now it is exact and the option is deprecated.
_EXACT_BY_DEFAULT = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)


def load_file(
    path: Path | str,
    *,
    label: str | None = None,
    attributes: Sequence[str] = (),
    features: Sequence[str] | None = None,
    scale: Scale | None = None,
    bounds: Bounds | None = None,
) -> Dataset:
    r"""Load a dataset from an .npz file of arrays, or from a table: .csv, .tsv (also gzipped) or .parquet.

    Parameters
    ----------
    path
        Path of the file. In an .npz file, `x` holds the samples and `y` the labels; other arrays with one value per
        sample are attributes.
    label
        Name of the column (or array, by default "y") with the labels. Required for tables.
    attributes
        Names of the columns that define groups. They are not features unless `features` lists them.
    features
        Names of the columns that the model takes; by default all that are neither label nor attribute.
    scale
        Unit of length of each feature: "std", its standard deviation (default for tables), or "none", its own unit
        (default for arrays).
    bounds
        Smallest and largest valid input, as numbers or with one number per feature; by default unbounded.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.csv"
    ...     _ = file.write_text("age,job,sex,hired\n31,nurse,F,yes\n54,cook,M,no\n")
    ...     people = load_file(file, label="hired", attributes=["sex"])
    >>> people.feature_names, list(people.attributes)
    (('age', 'job=cook', 'job=nurse'), ['sex'])
    """
    path = Path(path)
    if scale not in ("std", "none", None):
        raise InputError(f"`scale` must be 'std' or 'none'; given {scale!r}.")
    if isinstance(attributes, str) or isinstance(features, str):
        raise InputError("`attributes` and `features` must be lists of column names; given a single text.")
    if path.name.lower().endswith(ARRAYS):
        if features is not None:
            raise InputError(f"`features` selects columns of a table, but {path} holds arrays. Leave it out.")
        return _from_arrays(path, label or "y", attributes, scale or "none", bounds)
    return _from_table(path, label, attributes, features, scale or "std", bounds)


def _from_arrays(path: Path, label: str, attributes: Sequence[str], scale: Scale, bounds: Bounds | None) -> Dataset:
    arrays = read_arrays(path)
    attributes = [name for name in attributes if name != LABEL_NAME or name in arrays]
    for name in ("x", label, *attributes):
        if name not in arrays:
            raise InputError(f"{path} has no array {name!r}. {suggest(name, arrays)}")
    x, others = arrays["x"], [name for name in arrays if name not in ("x", label)]
    fitting = [name for name in others if arrays[name].shape == x.shape[:1]]
    ignored = [name for name in others if name not in (*fitting, *attributes)]
    notes = [f"Arrays without one value per sample were left out: {', '.join(ignored)}."] if ignored else []
    columns = {name: arrays[name] for name in attributes or fitting}
    return _dataset(path, lambda: Features(x, (), ()), arrays[label], columns, scale, bounds, notes)


def _from_table(
    path: Path,
    label: str | None,
    attributes: Sequence[str],
    features: Sequence[str] | None,
    scale: Scale,
    bounds: Bounds | None,
) -> Dataset:
    # Published tables may repeat columns, as that of COMPAS does; those that are not read do not matter.
    table = read_table(path, distinct={str(label), *attributes, *features} if features else None)
    if label is None:
        raise InputError(
            f"Which column of {path} is the label? Specify it with --label (label=). {there_are(table.columns)}"
        )
    # "class" means the label, unless the table has a column with that name.
    attributes = [name for name in attributes if name != LABEL_NAME or name in table.columns]
    chosen = _feature_columns(path, table, label, attributes, features)
    missing = int(table[label].isna().sum())
    if missing:
        raise InputError(f"{path}: label {label!r} is missing in {missing:,} of {len(table):,} rows. Drop these rows.")
    columns = {name: table[name].to_numpy() for name in attributes}
    return _dataset(path, lambda: encode_columns(table, chosen), table[label].to_numpy(), columns, scale, bounds)


def _dataset(
    path: Path,
    encode: Callable[[], Features],
    y: npt.NDArray[Any],
    attributes: dict[str, npt.NDArray[Any]],
    scale: Scale,
    bounds: Bounds | None,
    notes: Sequence[str] = (),
) -> Dataset:
    """Make the dataset of a file; errors name the file, and samples outside of the bounds are refused."""
    try:
        features = encode()
        x = features.x
        as_samples(x)
        domain = domain_of(x, scale, bounds)
        described = (*notes_on(features, domain, scale, *_WHERE), *notes)
        dataset = Dataset(x, y, attributes, domain, path.name, feature_names=features.names, notes=described)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    beyond = outside(x, domain)
    if beyond.any():
        first = int(beyond.argmax())
        raise InputError(
            f"{path}: {beyond.sum():,} of {len(x):,} samples are outside `bounds`, first the one at index {first:,}, "
            f"whose numbers range from {x[first].min():g} to {x[first].max():g}. Widen the bounds, or scale the data "
            "as the model expects them."
        )
    return dataset


def _feature_columns(
    path: Path, table: pd.DataFrame, label: str, attributes: Sequence[str], features: Sequence[str] | None
) -> list[str]:
    check_columns(path, table.columns, label=[label], attribute=attributes, feature=features or ())
    if features is not None and label in features:
        raise InputError(f"Column {label!r} is the label and cannot also be a feature. Leave it out of `features`.")
    taken = {label, *attributes}
    remaining = [name for name in table.columns if name not in taken]
    chosen = remaining if features is None else list(dict.fromkeys(features))
    if not chosen:
        raise InputError(
            f"{path} has no column for features besides {', '.join(sorted(taken))}. Name fewer attributes."
        )
    return chosen


def check_columns(where: Path, known: Iterable[str], **named: Sequence[str]) -> None:
    """Refuse names of columns that do not exist; the keywords are the roles of the columns."""
    there = list(known)
    for role, names in named.items():
        for name in names:
            if name not in there:
                error = InputError(f"{where} has no column {name!r} ({role}). {suggest(name, there)}")
                error.column = name
                raise error


def is_readable(name: str) -> bool:
    """Return whether the name of a file has a supported ending."""
    return name.lower().endswith((*ARRAYS, *TABLES))


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of an .npz file; pickled objects are refused, because unpickling can run code."""
    _check_exists(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: _one_array(path, archive, name) for name in archive.files}
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError, TypeError) as error:
        # For a file that is not an archive, numpy may return an array or report a pickle instead of a clear error.
        raise InputError(f"{path} is not a readable .npz file. Write it with `numpy.savez(path, x=…, y=…)`.") from error


def read_table(path: Path, *, as_text: str = "", distinct: Collection[str] | None = None) -> pd.DataFrame:
    """Read a .csv, .tsv (also gzipped) or .parquet file as a data frame.

    The column `as_text` of a text file is read as text: 007 does not become 7, and NA does not become a missing value.
    The names in `distinct` must not belong to several columns; by default, no name may.
    """
    _check_exists(path)
    name = path.name.lower()
    if not name.endswith(TABLES):
        raise InputError(f"{path} has an unknown file type. Expected one of {', '.join((*TABLES, *ARRAYS))}.")
    table = (
        _read_parquet(path)
        if name.endswith(".parquet")
        else _read_text(path, "\t" if ".tsv" in name else ",", as_text, distinct)
    )
    if table.empty:
        raise InputError(f"{path} has a header but no rows." if len(table.columns) else f"{path} is empty.")
    table.columns = pd.Index([str(column).strip() for column in table.columns])
    _check_distinct(path, list(table.columns), table, distinct)
    return table


def _check_distinct(path: Path, names: Sequence[str], table: pd.DataFrame, distinct: Collection[str] | None) -> None:
    """Refuse two columns of one name with different values; `names` are the names in the file."""
    for place, name in enumerate(names):
        if not name or name not in names[:place] or (distinct is not None and name not in distinct):
            continue
        if not table.iloc[:, place].equals(table.iloc[:, names.index(name)]):
            raise InputError(f"{path} has two columns named {name!r}, with different values. Rename one of them.")


def _read_text(path: Path, separator: str, as_text: str, distinct: Collection[str] | None) -> pd.DataFrame:
    try:
        # Read as a row, because pandas renames the second of two columns `sex` to `sex.1`.
        first = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
        header = [str(name) for name in first.iloc[0]]
        texts = [name for name in header if as_text and name.strip() == as_text]
        table = pd.read_csv(
            path,
            sep=separator,
            float_precision=None if _EXACT_BY_DEFAULT else "round_trip",
            low_memory=False,
            # The prefix prevents pandas from reading NA, null and similar texts as missing values.
            converters=dict.fromkeys(texts, _TEXT_MARK.__add__),
        )
        for name in texts:
            table[name] = table[name].str.removeprefix(_TEXT_MARK)
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} is empty.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error.reason}). Save it as UTF-8.") from error
    except (pd.errors.ParserError, OSError, EOFError) as error:
        if isinstance(error, pd.errors.ParserError):
            _refuse_long_rows(path, separator)
        raise InputError(f"{path} is not a readable table: {str(error).strip().rstrip('.')}.") from error
    if not isinstance(table.index, pd.RangeIndex):  # pandas took the first cells of every row as an index
        _refuse_long_rows(path, separator)
    if len(table.columns) == 1 and any(mark in str(table.columns[0]) for mark in ";\t|"):
        raise InputError(
            f"{path} has a single column, {table.columns[0]!r}: its separator seems to be another character. "
            "Save it with commas, or with tabs and the ending .tsv."
        )
    _check_distinct(path, [name.strip() for name in header], table, distinct)
    return table


def _refuse_long_rows(path: Path, separator: str) -> None:
    """Raise an error that names the first row with more cells than the header, if there is one."""
    read = gzip.open if path.name.lower().endswith(".gz") else open
    with suppress(csv.Error, UnicodeDecodeError), read(path, "rt", encoding="utf-8-sig", newline="") as file:
        rows = filter(None, csv.reader(file, delimiter=separator))
        width = len(next(rows, ()))
        for number, row in enumerate(rows, start=1):
            if len(row) > width:
                raise InputError(
                    f"{path} is not a readable table: data row {number:,} has {len(row)} cells, the header has {width}."
                )


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
            f"Array {name!r} of {path} holds Python objects; reading them requires unpickling, which can run "
            f"untrusted code. Save it as numbers or text, for instance `{name}.astype(str)`."
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
