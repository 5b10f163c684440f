"""A hash of fitted objects that is the same in every process."""

from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd


def state_of(value: Any) -> str:
    """Return a hash of an object's content: numbers, texts, arrays, functions by name, and fields of other objects.

    >>> state_of({"a": [1.0, "x"]}) == state_of({"a": [1.0, "x"]}), state_of([1]) == state_of([2])
    (True, False)
    """
    digest = sha256()
    _add(digest, value, ())
    return digest.hexdigest()


def _add(digest: Any, value: Any, within: tuple[int, ...]) -> None:
    """Add an object to a hash; `within` are the identities of the objects that hold it."""
    digest.update(f"{type(value).__name__}:".encode())
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        digest.update(f"{value!r};".encode())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif id(value) in within:
        digest.update(b"itself;")
    elif isinstance(value, dict):
        _add_all(digest, sorted(value.items(), key=lambda item: str(item[0])), (*within, id(value)))
    elif isinstance(value, set | frozenset):
        _add_all(digest, sorted(value, key=str), (*within, id(value)))
    elif isinstance(value, list | tuple | np.ndarray | pd.Index | pd.Series):
        _add_all(digest, list(value), (*within, id(value)))
    elif isinstance(value, np.ufunc | np.dtype | slice | range):
        digest.update(f"{value!r};".encode())
    elif isinstance(value, partial):
        _add_all(digest, (value.func, value.args, value.keywords), (*within, id(value)))
    elif hasattr(value, "__qualname__"):
        digest.update(f"{value.__module__}.{value.__qualname__};".encode())
    elif hasattr(value, "__dict__"):
        _add(digest, vars(value), (*within, id(value)))


def _add_all(digest: Any, values: Any, within: tuple[int, ...]) -> None:
    for each in values:
        _add(digest, each, within)
    digest.update(b"end;")
