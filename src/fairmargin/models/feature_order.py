"""Tables whose columns have names, in the order of a model that knows the names of its features."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairmargin.core.arrays import Ints
from fairmargin.errors import InputError
from fairmargin.models.protocol import Classifier

_SHOWN = 20  # names in a sentence


def places_of(wanted: Sequence[str], given: Sequence[str]) -> Ints:
    """Return where each wanted feature is among the given ones, -1 for one that is missing.

    `job=nurse` and `job_nurse`, as `pandas.get_dummies` writes it, are the same name.

    >>> places_of(["b", "a", "c"], ["a", "b"]).tolist()
    [1, 0, -1]
    """
    exact, at = ({key(name): place for place, name in enumerate(given)} for key in (str, _key))
    return np.array([exact.get(name, at.get(_key(name), -1)) for name in wanted], dtype=np.int64)


def in_model_order(model: Classifier, x: Any, argument: str = "x") -> Any:
    """Return a table with its columns in the model's order; anything without named columns is returned as it is.

    Guarantee: a column is never taken for another. Columns that are missing, unknown or given twice are refused by
    name.

    Parameters
    ----------
    model
        A classifier; one with `feature_names` knows its features.
    x
        A frame of pandas or polars, a table of pyarrow, or samples without names.
    argument
        What `x` is called in a sentence.
    """
    wanted: tuple[str, ...] = getattr(model, "feature_names", ())
    columns = getattr(x, "column_names", getattr(x, "columns", None))
    own = [] if columns is None else list(columns)
    if not wanted or all(isinstance(name, (int, np.integer)) for name in own):  # numbers are no names
        return x
    given = list(map(str, own))
    missing, extra = differing(wanted, given)
    if len(given) < len(wanted) and not missing:  # one column cannot be two features whose names are spelled alike
        missing = [name for name in wanted if name not in given]
    # Two spellings of one name are the same column twice, unless the model has both.
    twice = [
        name for name, count in Counter(given if set(given) == set(wanted) else map(_key, given)).items() if count > 1
    ]
    if missing or extra or twice:
        raise InputError(
            f"`{argument}` has other columns than the model was trained on. "
            + (f"Missing: {_named(missing)}. " if missing else "")
            + (f"Unknown to the model: {_named(extra)}. " if extra else "")
            + (f"Given more than once: {_named(twice)}. " if twice else "")
            + f"Choose the columns that the model takes: {_named(wanted)}."
        )
    places = places_of(wanted, given)
    if np.array_equal(places, np.arange(len(given))):
        return x
    if any(part.ndim for part in (model.domain.low, model.domain.high, model.domain.scale)):
        raise InputError(
            f"The columns of `{argument}` are in another order than the model's, and the order of the domain's numbers "
            f"is not known. Give both in the model's order: {argument}[{[own[i] for i in places][:_SHOWN]}]."
        )
    ordered = [own[i] for i in places]
    return x[ordered] if hasattr(x, "iloc") else x.select(ordered)


def differing(wanted: Sequence[str], given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names that are missing, and those that are unknown to the model.

    >>> differing(["a", "b"], ["b", "c"])
    (['a'], ['c'])
    """
    known, there = set(map(_key, wanted)), set(map(_key, given))
    return [name for name in wanted if _key(name) not in there], [name for name in given if _key(name) not in known]


def _key(name: str) -> str:
    return name.replace("=", "_")


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
