"""Keys: one 64-bit key per sample that seeds its random numbers, and content hashes that name stored results."""

import json
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints, Keys, same_length
from fairmargin.errors import InputError

_SEEDS = 2**127  # a seed is hashed as 16 signed bytes


def sample_keys(x: npt.NDArray[np.generic], y: Ints, seed: int = 0) -> Keys:
    """Return a 64-bit key for each sample, a hash of (seed, bytes of x_i, y_i).

    A sample has the same key in any batch, in any order, in any worker process and after a restart.

    >>> x = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> keys = sample_keys(x, np.array([0, 1]))
    >>> bool(keys[1] == sample_keys(x[1:], np.array([1]))[0])
    True
    """
    if same_length(x=x, y=y) == 0:
        return np.empty(0, dtype=np.uint64)
    rows = np.ascontiguousarray(x).astype(x.dtype.newbyteorder("<"), copy=False).reshape(len(x), -1)
    prefix = int(seed).to_bytes(16, "little", signed=True)
    labels = np.asarray(y, dtype="<i8")
    digests = (
        blake2b(prefix + row.tobytes() + label.tobytes(), digest_size=8).digest()
        for row, label in zip(rows, labels, strict=True)
    )
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def check_seed(seed: object) -> None:
    """Raise an `InputError` if a value is not a valid seed, which is an integer below 2**127 in absolute value.

    >>> check_seed("a")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: `seed` must be a whole number, such as 0; given 'a'.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not -_SEEDS <= seed < _SEEDS:
        raise InputError(f"`seed` must be a whole number, such as 0; given {seed!r}.")


def content_hash(content: Any, *, compact: bool = False) -> str:
    """Return a hash of plain values, the key under which a result is stored. The order of names has no effect.

    Parameters
    ----------
    content
        Texts, numbers, True, False, None, and lists, tuples and dicts (with texts as names) of these. Other values are
        refused, because their `repr` may contain a memory address or omit content on which a result depends.
    compact
        Whether to hash the JSON without spaces. Keys of shards are hashed without spaces and all other keys with
        spaces, so that results stored by earlier versions are still found.

    >>> content_hash({"a": 1, "b": (2, 3)}) == content_hash({"b": [2, 3], "a": 1})
    True
    >>> content_hash({"plan": {"rates": [0.1, 1j]}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: A key is made from plain values ...; given 1j of type complex at plan.rates[1].
    """
    return sha256(canonical_json(content, compact=compact)).hexdigest()


def canonical_json(content: Any, *, compact: bool = False) -> bytes:
    """Return plain values as JSON in a canonical form: equal content gives equal bytes. See `content_hash`."""
    _check_plain(content, "")
    return json.dumps(content, sort_keys=True, separators=(",", ":") if compact else None).encode()


def _check_plain(content: object, place: str) -> None:
    if content is None or isinstance(content, str | int | float):
        return
    if isinstance(content, list | tuple):
        for number, each in enumerate(content):
            _check_plain(each, f"{place}[{number}]")
        return
    if isinstance(content, dict):
        for name, each in content.items():
            if not isinstance(name, str):
                raise _not_plain(name, f"a name in {place}" if place else "a name")
            _check_plain(each, f"{place}.{name}" if place else name)
        return
    raise _not_plain(content, place)


def _not_plain(value: object, place: str) -> InputError:
    return InputError(
        "A key is made from plain values (text, numbers, True, False, None, lists and dicts with text as names); "
        f"given {value!r} of type {type(value).__name__}{f' at {place}' if place else ''}."
    )
