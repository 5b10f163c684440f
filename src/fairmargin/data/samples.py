"""Samples that need not fit into memory: checked, hashed and taken slice by slice."""

import math
import mmap
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.errors import InputError

_ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 4096, 2**22  # large images come in fewer rows


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


@dataclass(frozen=True, slots=True, eq=False)
class Pixels:
    """Images kept as bytes, on disk or in memory, and seen as numbers in [0, 1] of single precision when sliced.

    Parameters
    ----------
    stored
        (n, channels, height, width) of uint8; usually a memory map.
    rows
        Which of them, in which order; all if left out. Nothing is copied for that.

    >>> images = Pixels(np.array([[[[0, 255]]], [[[51, 102]]]], dtype=np.uint8))
    >>> images.shape, images[1:].round(3).tolist()
    ((2, 1, 1, 2), [[[[0.20000000298023224, 0.4000000059604645]]]])
    """

    stored: npt.NDArray[np.uint8]
    rows: Ints | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of images, then channels, height, width."""
        count = len(self.stored) if self.rows is None else len(self.rows)
        return (count, *self.stored.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Single precision."""
        return np.dtype(np.float32)

    @property
    def limits(self) -> tuple[float, float]:
        """Between which all numbers lie."""
        return 0.0, 1.0

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any, /) -> npt.NDArray[np.float32]:
        pixels = self.stored[which] if self.rows is None else self.stored[self.rows[which]]
        numbers = np.asarray(np.asarray(pixels, dtype=np.float32) / np.float32(255))
        mapping = getattr(self.stored, "_mmap", None)
        if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapping.madvise(mmap.MADV_DONTNEED)  # what was read stays in the system's cache, not in this process
        return numbers

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process maps the same file, instead of being sent its content.
        # A slice of a map does not know its place in the file, so only the whole of one travels that way.
        if isinstance(self.stored, np.memmap) and isinstance(self.stored.base, mmap.mmap):
            place = (str(self.stored.filename), self.stored.offset, self.stored.shape)
            return _mapped_again, (*place, self.rows)
        return Pixels, (np.asarray(self.stored), self.rows)

    def take(self, positions: Ints) -> "Pixels":
        """Some of the images, still as bytes where they lie."""
        return Pixels(self.stored, positions if self.rows is None else self.rows[positions])


def _mapped_again(file: str, offset: int, shape: tuple[int, ...], rows: Ints | None) -> Pixels:
    return Pixels(np.memmap(file, dtype=np.uint8, mode="r", offset=offset, shape=shape), rows)


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


def take_rows(x: Samples, positions: Ints) -> Samples:
    """The samples at some positions, in that order; only these are loaded, and images not even they."""
    if isinstance(x, Pixels):
        return x.take(positions)
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
    at_once = min(_ROWS_AT_ONCE, max(1, _NUMBERS_AT_ONCE // max(1, math.prod(x.shape[1:]))))
    for start in range(0, x.shape[0], at_once):
        rows = np.asarray(x[start : start + at_once])
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
