"""MNIST and Fashion-MNIST: grey images of 28 by 28 pixels in idx files with the same names."""

import gzip
import io
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import md5
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairmargin.data.card import Card, Entry, OfficialFile, Request
from fairmargin.data.dataset import Dataset
from fairmargin.data.fetch.cache import CacheWriter, cached
from fairmargin.data.fetch.sources import Source, locate
from fairmargin.data.formats.images import allocate_images, image_dataset, resized, resizing_note, split_rows
from fairmargin.errors import InputError

_GZIP = b"\x1f\x8b"
_UNSIGNED_BYTE = 8
_LARGEST = 2**31
SIDE, CLASSES, _AT_ONCE = 28, 10, 10_000
PAIRS = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
NAMES = tuple(name for pair in PAIRS.values() for name in pair)
_REVISION = 1
_TRAIN, _TEST = 60_000, 10_000


class Idx(NamedTuple):
    """An array, and the md5 sum of its uncompressed file, which does not depend on gzip."""

    array: npt.NDArray[np.uint8]
    md5: str


def read_idx(content: bytes, where: str, axes: int) -> Idx:
    """Read an idx file, gzipped or not: a magic number, the lengths of the axes, then bytes.

    Guarantee: not more bytes are decompressed than the header of the file announces.

    `axes` is the expected number of axes: 3 for images, 1 for labels. `where` names the file in error messages.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]), "labels", 1).array.tolist()
    [7, 8, 9]
    """
    unpack = content.startswith(_GZIP)
    try:
        with gzip.open(io.BytesIO(content)) if unpack else io.BytesIO(content) as stream:
            head = stream.read(4 + 4 * axes)
            lengths = _lengths(head, where, axes)
            expected = math.prod(lengths)
            body = stream.read(expected + 1)  # one more byte to detect the end, where gzip verifies its checksum
    except (OSError, EOFError, zlib.error) as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise InputError(
            f"{where} cannot be decompressed ({reason}). It may be truncated: download it again."
        ) from error
    if len(body) < expected:
        raise InputError(
            f"{where} is truncated: it has {len(body):,} bytes of data, but its header announces "
            f"{' × '.join(f'{length:,}' for length in lengths)}. Download it again."
        )
    if len(body) > expected:
        raise InputError(f"{where} has more than the {expected:,} bytes that its header announces. Download it again.")
    digest = md5(head + body, usedforsecurity=False).hexdigest()
    return Idx(np.frombuffer(body, dtype=np.uint8).reshape(lengths), digest)


def _lengths(head: bytes, where: str, axes: int) -> list[int]:
    """Check the header and return the lengths of the axes."""
    expected, given = bytes([0, 0, _UNSIGNED_BYTE, axes]), head[:4]
    if given != expected:
        begins = f"{int.from_bytes(given, 'big'):,}" if len(given) == len(expected) else "nothing"
        raise InputError(
            f"{where} is not an idx file of {'images' if axes == 3 else 'labels'}: it should begin with the magic "
            f"number {int.from_bytes(expected, 'big'):,} but begins with {begins}."
        )
    if len(head) < 4 + 4 * axes:
        raise InputError(f"{where} is truncated within its header. Download it again.")
    lengths = [int(length) for length in np.frombuffer(head[4:], dtype=">u4")]
    if math.prod(lengths) > _LARGEST:
        raise InputError(
            f"{where} announces {math.prod(lengths):,} bytes; at most {_LARGEST:,} are supported. Download it again."
        )
    return lengths


def plain_name(file: str) -> str:
    """Return the official name without .gz; some copies have a dot in place of the hyphen."""
    return file.removesuffix(".gz").replace(".idx", "-idx")


def members_of(source: Source) -> dict[str, str]:
    """Return the path of each file: the one in the fewest folders, preferably gzipped, since gzip has a checksum."""
    found = [path for path in source.names() if plain_name(PurePosixPath(path).name) in NAMES]
    found.sort(key=lambda path: (path.count("/"), not path.endswith(".gz"), path))
    members: dict[str, str] = {}
    for path in found:
        members.setdefault(plain_name(PurePosixPath(path).name), path)
    return members


def decode(source: Source, members: Mapping[str, str], request: Request, writer: CacheWriter) -> None:
    """Write images, `labels`, `test` (mask), and the `md5` sum of each of the four uncompressed files."""
    files: dict[str, Idx] = {}
    named = {path: name for name, path in members.items()}
    for path, content in source.members(named.__contains__):
        name = named[path]
        files[name] = read_idx(content, f"{source.path}, {path}", 3 if "images" in name else 1)
        request.progress(f"Decompressing {name}", len(files), len(named))
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
            images = resized(stack[first : first + _AT_ONCE, None], request.size)
            shelf.put(start, images)
            start += len(images)
            request.progress("Writing the decoded images", start, count)


def _check(images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8], image_file: str, label_file: str) -> None:
    if images.shape[1:] != (SIDE, SIDE):
        height, width = images.shape[1:]
        raise InputError(f"{image_file}: expected images of {SIDE}×{SIDE} pixels, found {height}×{width}.")
    if len(images) != len(labels):
        raise InputError(
            f"{label_file} has {len(labels):,} labels but {image_file} has {len(images):,} images. Are they from the "
            "same release?"
        )
    if not len(images):
        raise InputError(f"{image_file} holds no images. Download it again.")
    outside = np.flatnonzero(labels >= CLASSES)
    if outside.size:
        raise InputError(
            f"{label_file}: image {outside[0]:,} has the label {labels[outside[0]]}; expected labels from 0 to "
            f"{CLASSES - 1}."
        )


@dataclass(frozen=True, slots=True)
class _Variant:
    """What distinguishes the two datasets, whose files have the same names."""

    folders: tuple[str, ...]
    uncompressed_md5: tuple[str, ...]  # of the four files without gzip, in the order of NAMES
    class_names: tuple[str, ...]


_VARIANTS = {
    "mnist": _Variant(
        ("mnist",),
        (
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
        tuple(map(str, range(10))),
    ),
    "fashion-mnist": _Variant(
        ("fashionmnist", "fashion"),
        (
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
        (
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
    ),
}


def _files(address: str, *sums: tuple[str, str]) -> tuple[OfficialFile, ...]:
    """Return the four files with their checksums (md5, sha256), in the order of `NAMES`."""
    return tuple(
        OfficialFile(f"{name}.gz", f"{address}{name}.gz", *each) for name, each in zip(NAMES, sums, strict=True)
    )


MNIST = Card(
    title="MNIST, 70,000 handwritten digits of 28 by 28 grey pixels",
    classes="the digit, 0 to 9",
    groups=("class",),
    split=f"The official one: {_TRAIN:,} images for training, {_TEST:,} for testing.",
    licence="Commonly given as CC BY-SA 3.0 (LeCun, Cortes).",
    ethics="Digits by employees of the US Census Bureau and by school pupils; individual writers are unknown.",
    citation="Y. LeCun, C. Cortes, C. Burges, The MNIST database of handwritten digits, 1998.",
    files=_files(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        ("d53e105ee54ea40749a09fcbcd1e9432", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        ("9fb629c4189551a2d022fa330f9573f3", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        ("ec29112dd5afa0611ce80d1b7f02629c", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
    sized=True,
    samples=_TRAIN + _TEST,
    shape=(1, SIDE, SIDE),
)
FASHION_MNIST = replace(
    MNIST,
    title="Fashion-MNIST, 70,000 pieces of clothing of 28 by 28 grey pixels",
    classes="the kind of clothing, 10 classes",
    licence="MIT (Zalando).",
    ethics="Pictures of products of one shop; they show no people.",
    citation="H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST: a Novel Image Dataset, arXiv:1708.07747, 2017.",
    files=_files(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        ("25c81989df183df01b3e8a0aad5dffbe", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        ("bef4ecab320f06d8554ea6380940ec79", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        ("bb300cfdad3c16e7a12a480ee83cd310", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
)


def _load(name: str, card: Card, request: Request) -> Dataset:
    """Load a dataset from the folder with the four idx files, gzipped or not, or from its parent folder."""
    variant = _VARIANTS[name]
    source = locate(name, card, request.root, folder=lambda place: _holds(place, variant, request.root))
    members = members_of(source)
    for split, pair in PAIRS.items():
        missing = [file for file in pair if file not in members]
        if missing and (request.split in (split, "all") or len(missing) == 1):
            raise InputError(
                f"{source.path} lacks {' and '.join(missing)} (with or without .gz). Put "
                f"{'it' if len(missing) == 1 else 'them'} there, or request the split that exists."
            )
    arrays = cached(
        name,
        {"source": source.checksum(), "size": request.size, "revision": _REVISION},
        lambda writer: decode(source, members, request, writer),
    )
    return image_dataset(
        name,
        arrays,
        split_rows(arrays["test"], request.split),
        np.asarray(arrays["labels"]),
        class_names=variant.class_names,
        notes=(*_notes(name, arrays["md5"].tolist()), *resizing_note(SIDE, request.size)),
    )


def _holds(place: Path, variant: _Variant, root: Path | None) -> bool:
    # Below the root, only a folder with the right name counts: others may hold the files of the other dataset.
    own_name = place.name.lower().replace("-", "").replace("_", "") in variant.folders
    below = place.parent == root and not own_name
    inside = [place, place / "raw"]  # the layout of torchvision: MNIST/raw
    return not below and any(plain_name(path.name) in NAMES for folder in inside for path in folder.glob("*ubyte*"))


def _notes(name: str, sums: list[str]) -> tuple[str, ...]:
    for other, variant in _VARIANTS.items():
        if other != name and set(sums) & set(variant.uncompressed_md5):
            return (f"The files belong to {other}, not to {name}: the class names are wrong. Check the folder.",)
    known = dict(zip(NAMES, _VARIANTS[name].uncompressed_md5, strict=True))
    changed = [file for file, found in zip(NAMES, sums, strict=True) if found and found != known[file]]
    return (f"Not as published (checksum differs): {', '.join(changed)}.",) if changed else ()


MNIST_ENTRY = Entry(MNIST, lambda request: _load("mnist", MNIST, request))
FASHION_MNIST_ENTRY = Entry(FASHION_MNIST, lambda request: _load("fashion-mnist", FASHION_MNIST, request))
