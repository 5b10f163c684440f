"""Tables as users hold them: data frames of pandas, polars and pyarrow, and arrays, as data frames of pandas."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError


def is_frame(x: object) -> bool:
    """Return whether a value is a data frame or a table with named columns.

    >>> is_frame(pd.DataFrame({"age": [31]})), is_frame(np.zeros((1, 1)))
    (True, False)
    """
    return nw.dependencies.is_into_dataframe(x) or isinstance(x, nw.DataFrame)


def as_frame(x: Any, argument: str = "X", names: Sequence[str] = ()) -> pd.DataFrame:
    """Return a table as a data frame of pandas with distinct names of columns.

    Parameters
    ----------
    x
        A data frame of pandas, polars or pyarrow, or an array with one row per sample.
    argument
        Name of `x` in error messages.
    names
        Names of the columns of an array; "column 0", "column 1", … if omitted.
    """
    if isinstance(x, pd.DataFrame):
        frame = x
    elif is_frame(x):
        frame = nw.from_native(x, eager_only=True).to_pandas()
    else:
        frame = _of_array(x, argument, names)
    sparse = {name: kind.subtype for name, kind in frame.dtypes.items() if isinstance(kind, pd.SparseDtype)}
    if sparse:
        frame = frame.astype(sparse)
    twice = [str(name) for name, count in Counter(map(str, frame.columns)).items() if count > 1]
    if twice:
        raise InputError(f"`{argument}` has several columns of the name {twice[0]!r}. Rename or drop all but one.")
    if not len(frame):
        raise InputError(f"`{argument}` is empty. Give at least one row.")
    return (
        frame
        if isinstance(frame.columns, pd.Index) and all(isinstance(c, str) for c in frame.columns)
        else (frame.set_axis(list(map(str, frame.columns)), axis="columns"))
    )


def columns_named(frame: pd.DataFrame, wanted: Sequence[str], argument: str = "X") -> pd.DataFrame:
    """Return the wanted columns in their order; an error names the first one that is missing.

    LightGBM stores names with underscores for spaces, so a name that is missing may also be found with spaces.
    """
    with_underscores = {"_".join(name.split(" ")): name for name in frame.columns}
    found = []
    for name in wanted:
        same = name if name in frame.columns else with_underscores.get(name)
        if same is None:
            raise InputError(
                f"`{argument}` has no column {name!r}, which the model was trained on. {suggest(name, frame.columns)}"
            )
        found.append(same)
    return frame[found]


def _of_array(x: Any, argument: str, names: Sequence[str]) -> pd.DataFrame:
    if hasattr(x, "toarray"):
        raise InputError(f"`{argument}` is a sparse matrix; pass `{argument}.toarray()`.")
    if x is None or isinstance(x, str | Mapping) or hasattr(x, "collect"):
        advice = " Collect it first." if hasattr(x, "collect") else ""
        given = repr(x) if x is None or isinstance(x, str) else f"a {type(x).__name__}"
        raise InputError(
            f"`{argument}` must be a data frame or an array with one row per sample; given {given}.{advice}"
        )
    try:
        array: npt.NDArray[Any] = np.asarray(x)
    except ValueError:
        raise InputError("must hold rows of the same length", field=argument) from None
    if array.ndim != 2:
        raise InputError(f"`{argument}` must hold one row per sample; its shape is {array.shape}.")
    if names and len(names) != array.shape[1]:
        raise InputError(
            f"`{argument}` has {array.shape[1]:,} columns, but the model was trained on {len(names):,}: "
            f"{', '.join(names[:20])}."
        )
    return pd.DataFrame(array, columns=list(names) or [f"column {i}" for i in range(array.shape[1])])
