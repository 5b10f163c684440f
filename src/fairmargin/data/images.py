"""Decoded images in the cache, and the dataset they make: what every loader of images shares."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.domain import Domain
from fairmargin.data.cache import CacheWriter
from fairmargin.data.card import Split
from fairmargin.data.dataset import Dataset
from fairmargin.data.samples import Pixels
from fairmargin.errors import InputError

PIXELS, DIGESTS = "pixels", "digests"  # the arrays that every cache of images holds
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class ImageShelf:
    """Room on disk for a known number of images, filled in any order; each is hashed as it is put down.

    The hashes are why a dataset of images has a fingerprint without its pixels being read at every load, and why that
    fingerprint is the same whether the images came from a folder or an archive.
    """

    pixels: npt.NDArray[np.uint8]
    digests: npt.NDArray[np.uint8]

    def put(self, start: int, images: npt.NDArray[np.uint8]) -> None:
        """(n, channels, height, width) of uint8, to the places from `start` on."""
        self.pixels[start : start + len(images)] = images
        for place, image in enumerate(images, start):
            self.digests[place] = np.frombuffer(_digest(image), dtype=np.uint8)


def allocate_images(writer: CacheWriter, count: int, shape: tuple[int, int, int]) -> ImageShelf:
    """Room for `count` images of (channels, height, width) in a cache that is being built.

    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> with TemporaryDirectory() as folder:
    ...     shelf = allocate_images(CacheWriter(Path(folder)), 2, (1, 2, 2))
    ...     shelf.put(0, np.full((2, 1, 2, 2), 7, dtype=np.uint8))
    ...     shelf.pixels.sum()
    np.uint64(56)
    """
    pixels = writer.allocate(PIXELS, (count, *shape), np.uint8)
    return ImageShelf(pixels, writer.allocate(DIGESTS, (count, _DIGEST_BYTES), np.uint8))


def split_rows(is_test: npt.NDArray[np.bool_], split: Split) -> Ints | None:
    """The rows of an official split, by which of all images are for testing; None for all.

    >>> split_rows(np.array([False, False, True]), "train").tolist()
    [0, 1]
    """
    return None if split == "all" else np.flatnonzero(np.asarray(is_test) == (split == "test"))


def image_dataset(
    name: str,
    arrays: Mapping[str, npt.NDArray[Any]],
    rows: Ints | None,
    labels: npt.NDArray[Any],
    *,
    attributes: Mapping[str, npt.NDArray[Any]] | None = None,
    class_names: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Dataset:
    """Cached images as a dataset with pixels in [0, 1]; they stay on disk until they are sliced.

    Guarantee: the fingerprint depends on the pixels and labels of the chosen images in their order, and on nothing
    else: not on where they came from, nor on which others lie beside them.

    Parameters
    ----------
    name
        What the dataset is called in reports.
    arrays
        What `cached` returned for a build that used `allocate_images`.
    rows
        The chosen images, by position in the cache; None for all.
    labels
        One class number for *each cached* image.
    attributes
        Columns with one value for *each cached* image.
    class_names, notes
        As of `Dataset`.
    """
    stored, digests = arrays[PIXELS], arrays[DIGESTS]
    chosen = np.arange(len(stored)) if rows is None else np.asarray(rows, dtype=np.int64)
    if not len(chosen):
        raise InputError(f"{name} has no images here that were asked for. Ask for another split, or for all.")
    y = np.asarray(labels)[chosen]
    first, last = int(chosen[0]), int(chosen[-1])
    # Neighbours are a slice: cheaper to read than scattered rows.
    neighbours = np.array_equal(chosen, np.arange(first, last + 1))
    return Dataset(
        x=Pixels(stored[first : last + 1]) if neighbours else Pixels(stored, chosen),
        y=y,
        attributes={key: np.asarray(column)[chosen] for key, column in (attributes or {}).items()},
        domain=Domain(0, 1),
        name=name,
        fingerprint=_fingerprint(stored.shape[1:], np.asarray(digests)[chosen], y),
        notes=notes,
        class_names=class_names,
    )


def _digest(image: npt.NDArray[np.uint8]) -> bytes:
    return blake2b(np.ascontiguousarray(image).tobytes(), digest_size=_DIGEST_BYTES).digest()


def _fingerprint(shape: tuple[int, ...], digests: npt.NDArray[np.uint8], y: npt.NDArray[Any]) -> str:
    whole = sha256(f"images {tuple(map(int, shape))} {len(digests)}".encode())
    whole.update(digests.tobytes())
    whole.update(y.astype("<i8").tobytes())
    return whole.hexdigest()
