"""One 64-bit key per sample, from which all its randomness comes; one hash of plain values, to name what is kept."""

import json
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints, Keys, same_length
from fairmargin.errors import InputError

_SEEDS = 2**127  # a key has room for so many, of either sign


def sample_keys(x: npt.NDArray[np.generic], y: Ints, seed: int = 0) -> Keys:
    """Hash (seed, bytes of x_i, y_i): the same sample has the same key in any batch, order, worker or restart.

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
    """Refuse a value that is not a seed.

    >>> check_seed("a")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: `seed` must be a whole number, such as 0; given 'a'.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not -_SEEDS <= seed < _SEEDS:
        raise InputError(f"`seed` must be a whole number, such as 0; given {seed!r}.")


def content_hash(content: Any, *, compact: bool = False) -> str:
    """Hash plain values, whatever the order of their names; the key under which a result is kept.

    Parameters
    ----------
    content
        Text, numbers, True, False, None, and lists, tuples and dicts (with text as names) of these. Anything else is
        refused: its `repr` may hold an address in memory, or hide what decides a result.
    compact
        Whether the hashed JSON has no spaces. The keys of shards have none, all others do; kept so that what earlier
        versions stored is still found.

    >>> content_hash({"a": 1, "b": (2, 3)}) == content_hash({"b": [2, 3], "a": 1})
    True
    >>> content_hash({"plan": {"rates": [0.1, 1j]}})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: A key is made from plain values ...; given 1j of type complex at plan.rates[1].
    """
    return sha256(canonical_json(content, compact=compact)).hexdigest()


def canonical_json(content: Any, *, compact: bool = False) -> bytes:
    """Write plain values as JSON, with one spelling for one content; see `content_hash`."""
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
