"""One 64-bit key per sample, from which all its randomness comes."""

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints, Keys, same_length
from fairmargin.errors import InputError

_SEEDS = 2**127  # a key has room for so many, of either sign


def sample_keys(x: npt.NDArray[np.generic], y: Ints, seed: int = 0) -> Keys:
    """A hash of (seed, bytes of x_i, y_i): the same sample has the same key in any batch, order, worker or restart.

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
    """Refuse what is no seed.

    >>> check_seed("a")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: `seed` must be a whole number, such as 0; given 'a'.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not -_SEEDS <= seed < _SEEDS:
        raise InputError(f"`seed` must be a whole number, such as 0; given {seed!r}.")
