"""Samples that need not fit into memory: they are checked, hashed and selected slice by slice."""

import math
import mmap
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.errors import InputError

_ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 4096, 2**22  # the second limits the block size for large images


class Samples(Protocol):
    """Interface that `x` must have; numpy arrays, memory maps and h5py datasets have it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of samples, followed by the shape of one sample."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the numbers."""
        ...

    def __getitem__(self, which: Any, /) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Pixels:
    """Images stored as bytes, on disk or in memory; slices are float32 numbers in [0, 1].

    Parameters
    ----------
    stored
        Array of uint8 with shape (n, channels, height, width); usually a memory map.
    rows
        Positions of the images, in order; all images if omitted. Nothing is copied.

    >>> images = Pixels(np.array([[[[0, 255]]], [[[51, 102]]]], dtype=np.uint8))
    >>> images.shape, images[1:].round(3).tolist()
    ((2, 1, 1, 2), [[[[0.20000000298023224, 0.4000000059604645]]]])
    """

    stored: npt.NDArray[np.uint8]
    rows: Ints | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of images, followed by channels, height and width."""
        count = len(self.stored) if self.rows is None else len(self.rows)
        return (count, *self.stored.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of slices, float32."""
        return np.dtype(np.float32)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest possible value."""
        return 0.0, 1.0

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any, /) -> npt.NDArray[np.float32]:
        pixels = self.stored[which] if self.rows is None else self.stored[self.rows[which]]
        numbers = np.asarray(np.asarray(pixels, dtype=np.float32) / np.float32(255))
        mapping = getattr(self.stored, "_mmap", None)
        if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapping.madvise(mmap.MADV_DONTNEED)  # release the pages from this process; the system still caches them
        return numbers

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle the path of the file instead of its content, so that another process can map the same file. A slice of
        # a memory map does not know its offset in the file, so this works only for whole maps.
        if isinstance(self.stored, np.memmap) and isinstance(self.stored.base, mmap.mmap):
            place = (str(self.stored.filename), self.stored.offset, self.stored.shape)
            return _remapped, (*place, self.rows)
        return Pixels, (np.asarray(self.stored), self.rows)

    def take(self, positions: Ints) -> "Pixels":
        """Select images by position, without copying or reading them."""
        return Pixels(self.stored, positions if self.rows is None else self.rows[positions])


def _remapped(file: str, offset: int, shape: tuple[int, ...], rows: Ints | None) -> Pixels:
    return Pixels(np.memmap(file, dtype=np.uint8, mode="r", offset=offset, shape=shape), rows)


def as_samples(x: Any, argument: str = "x") -> Samples:
    """Return `x` if it has a numpy dtype, else as an array; check that it holds one row of numbers per sample.

    Error messages call it `argument`.
    """
    # Tensors and data frames become arrays here; memory maps and h5py datasets are kept and not loaded.
    has_numpy_dtype = isinstance(getattr(x, "dtype", None), np.dtype) and not hasattr(x, "iloc")
    try:
        samples: Samples = x if has_numpy_dtype else np.asarray(x)
    except ValueError:
        raise InputError("must hold rows of numbers of the same length", field=argument) from None
    if samples.dtype.kind not in "fiub":
        raise InputError(
            f"`{argument}` must hold numbers; its dtype is {samples.dtype}. Encode text and categories first."
        )
    if len(samples.shape) < 2:
        raise InputError(
            f"`{argument}` must hold one row per sample; its shape is {samples.shape}. "
            f"For one feature, use `{argument}.reshape(-1, 1)`."
        )
    if 0 in samples.shape:
        raise InputError(f"`{argument}` is empty: its shape is {samples.shape}.")
    return samples


def take_rows(x: Samples, positions: Ints) -> Samples:
    """Return the samples at these positions, in this order; only these are loaded, and `Pixels` not until sliced."""
    if isinstance(x, Pixels):
        return x.take(positions)
    if isinstance(x, np.ndarray):
        return np.asarray(x[positions])
    # h5py requires ascending positions without repetition.
    distinct, back = np.unique(positions, return_inverse=True)
    return np.asarray(x[distinct])[back]


def content_hash(x: Samples, y: npt.NDArray[Any], *, missing: bool = False) -> str:
    """Compute the sha256 hash of dtype, shape and content; it does not depend on byte order or on how `x` is stored.

    This is the only pass over all numbers, so numbers that are not finite are rejected here, except NaN with `missing`.
    """
    digest = sha256(f"{x.dtype.newbyteorder('<').str} {tuple(map(int, x.shape))}".encode())
    at_once = min(_ROWS_AT_ONCE, max(1, _NUMBERS_AT_ONCE // max(1, math.prod(x.shape[1:]))))
    for start in range(0, x.shape[0], at_once):
        rows = np.asarray(x[start : start + at_once])
        _check_finite(rows, start, missing)
        digest.update(_bytes(rows))
    digest.update(f"{y.dtype.kind} {len(y)}".encode())
    digest.update(_bytes(y))
    return digest.hexdigest()


def _bytes(array: npt.NDArray[Any]) -> bytes:
    if array.dtype.kind in "US":
        # numpy pads text to the longest entry; hash the entries themselves, so that padding does not matter.
        entries = (text if isinstance(text, bytes) else text.encode() for text in array.tolist())
        return b"".join(len(entry).to_bytes(8, "little") + entry for entry in entries)
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _check_finite(rows: npt.NDArray[Any], start: int, missing: bool) -> None:
    finite = ~np.isinf(rows) if missing else np.isfinite(rows)
    if not finite.all():
        sample = start + int(np.argwhere(~finite)[0][0])
        raise InputError(
            f"`x` holds NaN or infinity, first in the sample at index {sample:,}. Drop such samples or fill them in."
        )
