"""Image files, decoded into the cache one after the other."""

import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import islice

import numpy as np
import numpy.typing as npt

from fairmargin.core.progress import Progress
from fairmargin.data.cache import CacheWriter
from fairmargin.data.images import ImageShelf, allocate_images
from fairmargin.data.resizing import pillow
from fairmargin.data.sources import Source
from fairmargin.errors import InputError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
# Pillow knows many more formats, and some of its decoders start other programs (EPS: Ghostscript) or are hardly ever
# tested. What a file is called says nothing about what it contains.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF")
_THREADS, _AT_ONCE = 2, 32  # Pillow decodes outside of Python's lock; few at once, since photographs can be large
_GREY = ("1", "L", "LA")
_DEEP = ("I", "F")  # more than 8 bits a channel: Pillow would clip them, silently


@dataclass(frozen=True, slots=True)
class EncodedImages:
    """Files that hold images.

    Parameters
    ----------
    where
        The folder or archive, for sentences.
    count
        How many there are.
    read
        Yields (place, name, content) in any order, each place from 0 to count − 1 once; may be called again.
    """

    where: str
    count: int
    read: Callable[[], Iterator[tuple[int, str, bytes]]]


def is_image(name: str) -> bool:
    """Whether a member of a source looks like an image; the hidden files that macOS adds to archives do not.

    >>> is_image("faces/a.JPG"), is_image("__MACOSX/faces/._a.jpg"), is_image("labels.csv")
    (True, False, False)
    """
    return name.lower().endswith(ENDINGS) and not name.rpartition("/")[2].startswith(".")


def images_of(source: Source, places: Mapping[str, int]) -> EncodedImages:
    """Those members of a source that have a place, in whatever order the source yields them."""

    def read() -> Iterator[tuple[int, str, bytes]]:
        for name, content in source.members(places.__contains__):
            yield places[name], name, content

    return EncodedImages(str(source.path), len(places), read)


def decode_images(
    writer: CacheWriter, images: EncodedImages, *, size: int | None, tell: Progress, keep_grey: bool = False
) -> None:
    """Images to arrays in a cache that is being built; never more than a few of them are in memory.

    They become RGB; transparency is dropped and the orientation that a camera noted is ignored, as most training code
    does. Pixels are resized bilinearly with averaging, like torchvision's `Resize((size, size))`.

    Parameters
    ----------
    writer
        The cache.
    images
        What to decode.
    size
        Width and height; None if all images have one size and keep it.
    tell
        Told of progress.
    keep_grey
        Whether images that are all grey keep a single channel.
    """
    image = pillow()  # if it lacks, say so before anything is read
    with warnings.catch_warnings():
        # Above its limit of pixels Pillow warns, and refuses only above twice the limit. Both are refused here.
        warnings.simplefilter("error", image.DecompressionBombWarning)
        if not _decode_all(writer, images, size, tell, 1 if keep_grey else 3):
            _decode_all(writer, images, size, tell, 3)


def named(names: Collection[str], shown: int = 3) -> str:
    """The first few of some names, for a sentence.

    >>> named(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(islice(names, shown)) + more


def _decode_all(writer: CacheWriter, images: EncodedImages, size: int | None, tell: Progress, channels: int) -> bool:
    """Whether all images could be kept with this number of channels: a coloured one does not fit into one."""
    shelf: ImageShelf | None = None
    first = ""
    for done, (place, name, pixels) in enumerate(_decoded(images, size), 1):
        if shelf is None:
            channels = max(channels, len(pixels))
            shelf, first = allocate_images(writer, images.count, (channels, *pixels.shape[1:])), name
        if pixels.shape[1:] != shelf.pixels.shape[2:]:
            raise InputError(_differ(images.where, first, shelf.pixels, name, pixels))
        if len(pixels) > channels:
            return False
        shelf.put(place, np.broadcast_to(pixels, (1, channels, *pixels.shape[1:])))
        if done % _AT_ONCE == 0 or done == images.count:
            tell("Decoding images", done, images.count)
    return True


def _decoded(images: EncodedImages, size: int | None) -> Iterator[tuple[int, str, npt.NDArray[np.uint8]]]:
    """Place, name and pixels, in the order of `read`; a few are decoded ahead."""
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
    """(1 or 3, height, width)."""
    image = pillow()
    try:
        with image.open(BytesIO(content), formats=_FORMATS) as picture:
            if picture.mode.startswith(_DEEP):
                raise InputError(
                    f"Image {name} of {where} has more than 8 bits a channel (Pillow's mode {picture.mode}). Save it "
                    "with 8 bits, scaled as the model expects."
                )
            plain = picture.convert("L" if picture.mode in _GREY else "RGB")
            if size is not None and plain.size != (size, size):
                plain = plain.resize((size, size), image.Resampling.BILINEAR)
            pixels = np.asarray(plain, dtype=np.uint8)
    except InputError:
        raise
    except Exception as error:  # decoders of damaged files raise exceptions of any kind
        raise InputError(f"Image {name} of {where} {_problem(error, content)}") from error
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(np.moveaxis(pixels, 2, 0))


def _problem(error: Exception, content: bytes) -> str:
    """What is wrong with a file that was not decoded, and what to do, to follow its name in a sentence."""
    reason = (str(error) or type(error).__name__).splitlines()[0].split(" <_io")[0].rstrip(".")
    match type(error).__name__:  # by name, since Pillow is optional
        case _ if not content:
            return "cannot be read: it is empty. Fetch it again, or remove it."
        case "UnidentifiedImageError":
            begins = ascii(content[:20].decode("latin-1"))
            return (
                "cannot be read: it is damaged, or no JPEG, PNG, BMP, GIF, WebP or TIFF file (it begins with "
                f"{begins}). Fetch it again, convert it to PNG, or remove it."
            )
        case "DecompressionBombWarning" | "DecompressionBombError":
            return f"cannot be read: it has too many pixels ({reason}). Make it smaller, or remove it."
    return f"cannot be read ({reason}). It may be damaged: fetch it again, or remove it."


def _differ(where: str, first: str, kept: npt.NDArray[np.uint8], name: str, found: npt.NDArray[np.uint8]) -> str:
    (height, width), (other_height, other_width) = kept.shape[2:], found.shape[1:]
    return (
        f"The images of {where} differ in size: {first} has {width} × {height} pixels, {name} has {other_width} × "
        f"{other_height}. Say which size all of them shall have, for instance size={min(height, width)} (--size)."
    )
