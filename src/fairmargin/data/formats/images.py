"""Images: decode and resize them, keep them in the cache, and make a dataset of them."""

import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b, sha256
from io import BytesIO
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.domain import Domain
from fairmargin.core.progress import Progress
from fairmargin.data.card import Split
from fairmargin.data.dataset import Dataset
from fairmargin.data.fetch.cache import CacheWriter
from fairmargin.data.fetch.sources import Source
from fairmargin.data.samples import Pixels
from fairmargin.errors import InputError

PIXELS, DIGESTS = "pixels", "digests"  # names of the arrays in every cache of images
_DIGEST_BYTES = 16
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
# Pillow supports many more formats, but some of its decoders start other programs (EPS: Ghostscript) or are rarely
# tested. The format is restricted here, because the name of a file does not determine its content.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF")
_THREADS, _AT_ONCE = 2, 32  # Pillow releases Python's lock; only a few images at once, since they can be large
_GREY = ("1", "L", "LA")
_DEEP = ("I", "F")  # modes with more than 8 bits per channel, which Pillow would clip silently


@dataclass(frozen=True, slots=True, eq=False)
class ImageShelf:
    """Arrays on disk for a known number of images and their hashes, filled in any order.

    Because of the hashes, a dataset of images has a fingerprint without reading all pixels at every load, and the
    fingerprint does not depend on whether the images come from a folder or an archive.
    """

    pixels: npt.NDArray[np.uint8]
    digests: npt.NDArray[np.uint8]

    def put(self, start: int, images: npt.NDArray[np.uint8]) -> None:
        """Store images, uint8 of shape (n, channels, height, width), at the positions from `start` on."""
        self.pixels[start : start + len(images)] = images
        for place, image in enumerate(images, start):
            self.digests[place] = np.frombuffer(_digest(image), dtype=np.uint8)


def allocate_images(writer: CacheWriter, count: int, shape: tuple[int, int, int]) -> ImageShelf:
    """Allocate arrays for `count` images of shape (channels, height, width) in a cache that is being built.

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
    """Return the rows of an official split, given a mask of the test images; None means all rows.

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
    """Make a dataset of cached images with pixels in [0, 1]; images stay on disk until they are sliced.

    Guarantee: the fingerprint depends only on the pixels and labels of the selected images in their order, not on their
    source or on other images in the cache.

    Parameters
    ----------
    name
        Name of the dataset in reports.
    arrays
        Arrays returned by `cached` for a build that used `allocate_images`.
    rows
        Positions of the selected images in the cache; None for all.
    labels
        One class number for *each cached* image.
    attributes
        Columns with one value for *each cached* image.
    class_names, notes
        See `Dataset`.
    """
    stored, digests = arrays[PIXELS], arrays[DIGESTS]
    chosen = np.arange(len(stored)) if rows is None else np.asarray(rows, dtype=np.int64)
    if not len(chosen):
        raise InputError(f"{name} has no images in the requested split. Choose another split, or all.")
    y = np.asarray(labels)[chosen]
    first, last = int(chosen[0]), int(chosen[-1])
    # Consecutive rows become a slice, which is faster to read than scattered rows.
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


def pillow() -> ModuleType:
    """Import `PIL.Image`, or raise an `InputError` that says how to install it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "To read or resize images, Fairmargin needs the package Pillow, which is not installed. Install it: "
            "pip install 'fairmargin[image]'"
        ) from error
    return Image


def resized(images: npt.NDArray[np.uint8], size: int | None) -> npt.NDArray[np.uint8]:
    """Resize images to size × size pixels with bilinear interpolation and antialiasing.

    Images are returned unchanged if they already have this size or if `size` is None.

    Parameters
    ----------
    images
        Array of uint8 with shape (n, channels, height, width).
    size
        New width and height.

    >>> resized(np.array([[[[0, 0, 200, 200]] * 4]], dtype=np.uint8), 2).tolist()
    [[[[29, 171], [29, 171]]]]
    """
    count, channels, height, width = images.shape
    if size is None or (height, width) == (size, size):
        return images
    image = pillow()
    result = np.empty((count, channels, size, size), dtype=np.uint8)
    for place in np.ndindex(count, channels):  # Pillow resizes channels independently, so any number of them works
        plane = image.fromarray(np.ascontiguousarray(images[place]))
        result[place] = np.asarray(plane.resize((size, size), image.Resampling.BILINEAR))
    return result


def resizing_note(original: int, size: int | None) -> tuple[str, ...]:
    """Return a note for the report if images were resized, else nothing.

    >>> resizing_note(32, 64)
    ('Images were resized from 32×32 to 64×64 pixels (bilinear).',)
    """
    if size in (None, original):
        return ()
    return (f"Images were resized from {original}×{original} to {size}×{size} pixels (bilinear).",)


@dataclass(frozen=True, slots=True)
class EncodedImages:
    """Encoded image files, to be read one at a time.

    `read` yields position, name and content in any order, each position once, and can be called repeatedly; `where` is
    the folder or archive, for error messages.
    """

    where: str
    count: int
    read: Callable[[], Iterator[tuple[int, str, bytes]]]


def is_image(name: str) -> bool:
    """Return whether the name of a file is that of an image; hidden files, as macOS adds to archives, are not images.

    >>> is_image("faces/a.JPG"), is_image("__MACOSX/faces/._a.jpg"), is_image("labels.csv")
    (True, False, False)
    """
    return name.lower().endswith(ENDINGS) and not name.rpartition("/")[2].startswith(".")


def images_of(source: Source, places: Mapping[str, int]) -> EncodedImages:
    """Return the image files of a source that have a position in `places`, in the order of the source."""

    def read() -> Iterator[tuple[int, str, bytes]]:
        for name, content in source.members(places.__contains__):
            yield places[name], name, content

    return EncodedImages(str(source.path), len(places), read)


def decode_images(
    writer: CacheWriter, images: EncodedImages, *, size: int | None, progress: Progress, keep_grey: bool = False
) -> None:
    """Decode images into a cache that is being built, with only a few images in memory at a time.

    Images are converted to RGB; transparency and the EXIF orientation are ignored, as in most training code. Images are
    resized with bilinear interpolation and antialiasing, as by torchvision's `Resize((size, size))`.

    All images get the given size, or keep their size, which must then be the same; `keep_grey` keeps one channel if all
    images are grey. `progress` is called with (description, done, total).
    """
    image = pillow()  # raise before anything is read if Pillow is missing
    with warnings.catch_warnings():
        # Pillow warns above its limit of pixels and raises above twice the limit. Both are errors here.
        warnings.simplefilter("error", image.DecompressionBombWarning)
        if not _decode_all(writer, images, size, progress, 1 if keep_grey else 3):
            _decode_all(writer, images, size, progress, 3)


def shortened(names: Collection[str], shown: int = 3) -> str:
    """Join the first few names for a message, with the number of the others.

    >>> shortened(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(islice(names, shown)) + more


def _decode_all(
    writer: CacheWriter, images: EncodedImages, size: int | None, progress: Progress, channels: int
) -> bool:
    """Decode all images; return False if a coloured image does not fit into this number of channels."""
    shelf: ImageShelf | None = None
    first = ""
    for done, (place, name, pixels) in enumerate(_decoded(images, size), 1):
        if shelf is None:
            channels = max(channels, len(pixels))
            shelf, first = allocate_images(writer, images.count, (channels, *pixels.shape[1:])), name
        if pixels.shape[1:] != shelf.pixels.shape[2:]:
            raise InputError(_size_mismatch(images.where, first, shelf.pixels, name, pixels))
        if len(pixels) > channels:
            return False
        shelf.put(place, np.broadcast_to(pixels, (1, channels, *pixels.shape[1:])))
        if done % _AT_ONCE == 0 or done == images.count:
            progress("Decoding images", done, images.count)
    return True


def _decoded(images: EncodedImages, size: int | None) -> Iterator[tuple[int, str, npt.NDArray[np.uint8]]]:
    """Yield position, name and pixels in the order of `read`; a few images are decoded ahead."""
    ahead: deque[tuple[int, str, Future[npt.NDArray[np.uint8]]]] = deque()
    with ThreadPoolExecutor(_THREADS) as pool:
        for place, name, content in images.read():
            ahead.append((place, name, pool.submit(_decode, images.where, size, name, content)))
            if len(ahead) == _AT_ONCE:
                place, name, pixels = ahead.popleft()
                yield place, name, pixels.result()
        for place, name, pixels in ahead:
            yield place, name, pixels.result()


def _decode(where: str, size: int | None, name: str, content: bytes) -> npt.NDArray[np.uint8]:
    """Decode one image to an array of shape (1 or 3, height, width)."""
    image = pillow()
    try:
        with image.open(BytesIO(content), formats=_FORMATS) as picture:
            if picture.mode.startswith(_DEEP):
                raise InputError(
                    f"Image {name} of {where} has more than 8 bits per channel (Pillow's mode {picture.mode}). Save it "
                    "with 8 bits, scaled as the model expects."
                )
            plain = picture.convert("L" if picture.mode in _GREY else "RGB")
            if size is not None and plain.size != (size, size):
                plain = plain.resize((size, size), image.Resampling.BILINEAR)
            pixels = np.asarray(plain, dtype=np.uint8)
    except InputError:
        raise
    except Exception as error:  # decoders can raise any exception on damaged files
        raise InputError(f"Image {name} of {where} {_problem(error, content)}") from error
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(np.moveaxis(pixels, 2, 0))


def _problem(error: Exception, content: bytes) -> str:
    """Describe why a file cannot be decoded and what to do; the text follows the name of the file in a message."""
    reason = (str(error) or type(error).__name__).splitlines()[0].split(" <_io")[0].rstrip(".")
    match type(error).__name__:  # by name, since Pillow is optional
        case _ if not content:
            return "cannot be read: it is empty. Download it again, or remove it."
        case "UnidentifiedImageError":
            begins = ascii(content[:20].decode("latin-1"))
            return (
                "cannot be read: it is damaged, or not a JPEG, PNG, BMP, GIF, WebP or TIFF file (it begins with "
                f"{begins}). Download it again, convert it to PNG, or remove it."
            )
        case "DecompressionBombWarning" | "DecompressionBombError":
            return f"cannot be read: it has too many pixels ({reason}). Make it smaller, or remove it."
    return f"cannot be read ({reason}). It may be damaged: download it again, or remove it."


def _size_mismatch(where: str, first: str, kept: npt.NDArray[np.uint8], name: str, found: npt.NDArray[np.uint8]) -> str:
    (height, width), (other_height, other_width) = kept.shape[2:], found.shape[1:]
    return (
        f"The images of {where} differ in size: {first} has {width} × {height} pixels, {name} has {other_width} × "
        f"{other_height}. Give one size to which all are resized, for instance size={min(height, width)} (--size)."
    )
