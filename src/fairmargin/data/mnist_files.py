"""The four idx files of MNIST and its like, decoded into the cache."""

from collections.abc import Mapping
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from fairmargin.data.cache import CacheWriter
from fairmargin.data.card import Request
from fairmargin.data.idx import Idx, read_idx
from fairmargin.data.images import allocate_images
from fairmargin.data.resizing import resized
from fairmargin.data.sources import Source
from fairmargin.errors import InputError

SIDE, CLASSES, _AT_ONCE = 28, 10, 10_000
PAIRS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
NAMES = tuple(name for pair in PAIRS.values() for name in pair)


def plain_name(file: str) -> str:
    """The official name without .gz; some copies have a dot where it has a hyphen."""
    return file.removesuffix(".gz").replace(".idx", "-idx")


def members_of(source: Source) -> dict[str, str]:
    """The member of each name: the least deep one, and the gzipped before the plain, for it has a checksum."""
    found = [path for path in source.names() if plain_name(PurePosixPath(path).name) in NAMES]
    found.sort(key=lambda path: (path.count("/"), not path.endswith(".gz"), path))
    members: dict[str, str] = {}
    for path in found:
        members.setdefault(plain_name(PurePosixPath(path).name), path)
    return members


def decode(source: Source, members: Mapping[str, str], request: Request, writer: CacheWriter) -> None:
    """Write images, `labels`, `test` (which images), and the `md5` of each of the four files once unpacked."""
    files: dict[str, Idx] = {}
    named = {path: name for name, path in members.items()}
    for path, content in source.members(named.__contains__):
        name = named[path]
        files[name] = read_idx(content, f"{source.path}, {path}", 3 if "images" in name else 1)
        request.tell(f"Unpacking {name}", len(files), len(named))
    pairs = {split: pair for split, pair in PAIRS.items() if pair[0] in files}
    for image_file, label_file in pairs.values():
        _check(
            files[image_file].array,
            files[label_file].array,
            f"{source.path}, {members[image_file]}",
            f"{source.path}, {members[label_file]}",
        )
    labels = [files[label_file].array for _, label_file in pairs.values()]
    writer.keep("labels", np.concatenate(labels).astype(np.int64))
    writer.keep("test", np.repeat([split == "test" for split in pairs], list(map(len, labels))))
    writer.keep("md5", np.array([files[name].md5 if name in files else "" for name in NAMES]))
    _put([files[image_file].array for image_file, _ in pairs.values()], request, writer)


def _put(stacks: list[npt.NDArray[np.uint8]], request: Request, writer: CacheWriter) -> None:
    count, side = sum(map(len, stacks)), request.size or SIDE
    shelf, start = allocate_images(writer, count, (1, side, side)), 0
    for stack in stacks:
        for first in range(0, len(stack), _AT_ONCE):
            some = resized(stack[first : first + _AT_ONCE, None], request.size)
            shelf.put(start, some)
            start += len(some)
            request.tell("Writing the decoded images", start, count)


def _check(images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8], image_file: str, label_file: str) -> None:
    if images.shape[1:] != (SIDE, SIDE):
        height, width = images.shape[1:]
        raise InputError(f"{image_file}: images of {height}×{width} pixels where {SIDE}×{SIDE} were expected.")
    if len(images) != len(labels):
        raise InputError(
            f"{label_file} has {len(labels):,} labels but {image_file} has {len(images):,} images. Are they of the "
            "same release?"
        )
    if not len(images):
        raise InputError(f"{image_file} holds no images. Fetch it again.")
    outside = np.flatnonzero(labels >= CLASSES)
    if outside.size:
        raise InputError(
            f"{label_file}: image {outside[0]:,} bears the label {labels[outside[0]]}; labels go from 0 to "
            f"{CLASSES - 1}."
        )
