"""Samples that need not fit into memory: checked, hashed and taken slice by slice."""

from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.errors import InputError

_ROWS_AT_ONCE = 4096


class Samples(Protocol):
    """What `x` must offer: a numpy array, a memory map or an h5py dataset does."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of samples, then the shape of one."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The kind of number."""
        ...

    def __getitem__(self, which: Any, /) -> Any: ...


def as_samples(x: Any) -> Samples:
    """`x` itself if it speaks numpy, else an array of it; checked to hold one row of numbers a sample."""
    # A tensor or a frame becomes an array here; a memory map, say, stays what it is and is not loaded.
    speaks_numpy = isinstance(getattr(x, "dtype", None), np.dtype) and not hasattr(x, "iloc")
    samples: Samples = x if speaks_numpy else np.asarray(x)
    if samples.dtype.kind not in "fiub":
        raise InputError(f"`x` must hold numbers; its dtype is {samples.dtype}. Encode text and categories first.")
    if len(samples.shape) < 2:
        raise InputError(
            f"`x` must hold one row a sample; its shape is {samples.shape}. A single feature: `x.reshape(-1, 1)`."
        )
    if 0 in samples.shape:
        raise InputError(f"`x` is empty: its shape is {samples.shape}.")
    return samples


def take_rows(x: Samples, positions: Ints) -> npt.NDArray[Any]:
    """The samples at some positions, in that order; only these are loaded."""
    if isinstance(x, np.ndarray):
        return np.asarray(x[positions])
    # h5py wants positions ascending and without repetition.
    distinct, back = np.unique(positions, return_inverse=True)
    return np.asarray(x[distinct])[back]


def content_hash(x: Samples, y: npt.NDArray[Any]) -> str:
    """sha256 over dtype, shape and content; the same on machines of either byte order, and however `x` is stored.

    Since every number passes by, numbers that are not finite are refused here.
    """
    digest = sha256(f"{x.dtype.newbyteorder('<').str} {tuple(map(int, x.shape))}".encode())
    for start in range(0, x.shape[0], _ROWS_AT_ONCE):
        rows = np.asarray(x[start : start + _ROWS_AT_ONCE])
        _check_finite(rows, start)
        digest.update(_bytes(rows))
    digest.update(f"{y.dtype.kind} {len(y)}".encode())
    digest.update(_bytes(y))
    return digest.hexdigest()


def _bytes(array: npt.NDArray[Any]) -> bytes:
    if array.dtype.kind in "US":
        # Text is padded to the longest entry, an accident of storage: hash the entries instead.
        entries = (text if isinstance(text, bytes) else text.encode() for text in array.tolist())
        return b"".join(len(entry).to_bytes(8, "little") + entry for entry in entries)
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _check_finite(rows: npt.NDArray[Any], start: int) -> None:
    finite = np.isfinite(rows)
    if not finite.all():
        sample = start + int(np.argwhere(~finite)[0][0])
        raise InputError(
            f"`x` holds NaN or infinity, first in the sample at index {sample:,}. Drop such samples or fill them in."
        )
