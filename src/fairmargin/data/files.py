"""A dataset from a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.domain import Domain
from fairmargin.core.suggestion import suggest, there_are
from fairmargin.data.dataset import Dataset
from fairmargin.data.encoding import encode_columns
from fairmargin.data.reading import ARRAYS, read_arrays, read_table
from fairmargin.data.samples import as_samples
from fairmargin.data.scaling import Bounds, Scale, domain_of, outside
from fairmargin.errors import InputError

LABEL_NAME = "class"


def load_file(
    path: Path | str,
    *,
    label: str | None = None,
    attributes: Sequence[str] = (),
    features: Sequence[str] | None = None,
    scale: Scale | None = None,
    bounds: Bounds | None = None,
) -> Dataset:
    """A dataset from an .npz file of arrays, or from a table: .csv, .tsv (also gzipped) or .parquet.

    Parameters
    ----------
    path
        In an .npz file `x` are the samples and `y` the labels; other arrays with one value a sample are attributes.
    label
        The column (or array; "y" if left out) with the labels. A table needs it.
    attributes
        The columns by which groups can be formed. They are no features unless `features` lists them.
    features
        The columns that the model sees; by default all that are neither label nor attribute.
    scale
        What a step of length 1 is: "std", the standard deviation of each feature (what tables default to), or "none",
        the unit of the feature itself (what arrays default to).
    bounds
        The lowest and the highest admissible input, as numbers or as one number a feature; by default none.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "people.csv"
    ...     _ = file.write_text("age,job,sex,hired\\n31,nurse,F,yes\\n54,cook,M,no\\n")
    ...     people = load_file(file, label="hired", attributes=["sex"])
    >>> people.feature_names, list(people.attributes)
    (('age', 'job=cook', 'job=nurse'), ['sex'])
    """
    path = Path(path)
    if scale not in ("std", "none", None):
        raise InputError(f"`scale` must be 'std' or 'none'; given {scale!r}.")
    if isinstance(attributes, str) or isinstance(features, str):
        raise InputError("`attributes` and `features` are lists of column names; given a single text.")
    if path.name.lower().endswith(ARRAYS):
        if features is not None:
            raise InputError(f"`features` names columns of a table; {path} holds arrays. Leave it out.")
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
    notes = [f"Arrays that do not hold one value a sample were left out: {', '.join(ignored)}."] if ignored else []
    try:
        as_samples(x)
        domain = domain_of(x, scale, bounds)
        columns = {name: arrays[name] for name in attributes or fitting}
        dataset = Dataset(
            x, arrays[label], columns, domain, name=path.name, notes=(*_notes((), (), domain, scale), *notes)
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    _check_inside(path, x, domain)
    return dataset


def _from_table(
    path: Path,
    label: str | None,
    attributes: Sequence[str],
    features: Sequence[str] | None,
    scale: Scale,
    bounds: Bounds | None,
) -> Dataset:
    table = read_table(path)
    if label is None:
        raise InputError(
            f"Which column of {path} is the label? Name it with --label (label=). {there_are(table.columns)}"
        )
    # "class" is another word for the label, unless the table has a column of that name.
    attributes = [name for name in attributes if name != LABEL_NAME or name in table.columns]
    chosen = _feature_columns(path, table, label, attributes, features)
    missing = int(table[label].isna().sum())
    if missing:
        raise InputError(f"{path}: label {label!r} is missing in {missing:,} of {len(table):,} rows. Drop these rows.")
    try:
        encoded = encode_columns(table, chosen)
        domain = domain_of(encoded.x, scale, bounds)
        dataset = Dataset(
            encoded.x,
            table[label].to_numpy(),
            {name: table[name].to_numpy() for name in attributes},
            domain,
            name=path.name,
            feature_names=encoded.names,
            notes=_notes(encoded.categorical, encoded.names, domain, scale),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    _check_inside(path, encoded.x, domain)
    return dataset


def _feature_columns(
    path: Path, table: pd.DataFrame, label: str, attributes: Sequence[str], features: Sequence[str] | None
) -> list[str]:
    for role, names in (("label", [label]), ("attribute", attributes), ("feature", features or ())):
        for name in names:
            if name not in table.columns:
                raise InputError(f"{path} has no column {name!r} ({role}). {suggest(name, table.columns)}")
    if features is not None and label in features:
        raise InputError(f"Column {label!r} is the label and cannot be a feature too. Leave it out of `features`.")
    taken = {label, *attributes}
    remaining = [name for name in table.columns if name not in taken]
    chosen = remaining if features is None else list(dict.fromkeys(features))
    if not chosen:
        raise InputError(f"{path} has no column left to be a feature besides {', '.join(sorted(taken))}.")
    return chosen


def _notes(categorical: tuple[str, ...], names: tuple[str, ...], domain: Domain, scale: Scale) -> tuple[str, ...]:
    """What was done to the features, in plain words; `names` are those of a table, and none for arrays."""
    notes = []
    if scale == "std":
        notes.append(
            "Distances are in standard deviations of each feature: a step of length 1 in one feature changes it by one "
            "standard deviation of this file's rows."
        )
    elif names:  # that pixels are measured as they are goes without saying
        notes.append("Distances are in the features' own units: features with large numbers outweigh the others.")
    if categorical:
        notes.append(
            f"Categorical columns one-hot encoded: {', '.join(categorical)}. A perturbation may give their indicators "
            "fractional values."
        )
    still = np.atleast_1d(domain.scale).ravel() == 0
    if still.any():
        frozen = [name for name, is_still in zip(names, still, strict=True) if is_still] if names else []
        notes.append(f"Constant in this file, hence immutable: {', '.join(frozen) or f'{still.sum():,} features'}.")
    return tuple(notes)


def _check_inside(path: Path, x: npt.NDArray[Any], domain: Domain) -> None:
    beyond = outside(x, domain)
    if beyond.any():
        first = int(beyond.argmax())
        raise InputError(
            f"{path}: {beyond.sum():,} of {len(x):,} samples lie outside `bounds`, first the one at index {first:,}, "
            f"whose numbers range from {x[first].min():g} to {x[first].max():g}. Widen the bounds, or scale the data "
            "as the model expects them."
        )
