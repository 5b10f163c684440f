"""CIFAR-10 and CIFAR-100: small colour photographs of things and animals (Krizhevsky 2009)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import md5
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.progress import Progress
from fairmargin.data.card import Card, Entry, OfficialFile, Request
from fairmargin.data.dataset import Dataset
from fairmargin.data.fetch.cache import CacheWriter, cached
from fairmargin.data.fetch.sources import Source, data_folder, locate
from fairmargin.data.formats.images import allocate_images, image_dataset, resized, resizing_note, split_rows
from fairmargin.data.formats.plain_pickle import read_plain_pickle
from fairmargin.errors import InputError

_SHAPE = (3, 32, 32)  # red, green, blue planes, row by row
_PIXELS = 3 * 32 * 32
_REVISION = 1
_ENDINGS = (".tar.gz", ".tgz", ".tar.xz", ".tar", ".tar.bz2", ".zip")
_SUPER = "-super"
_TRAIN, _TEST, _SIDE = 50_000, 10_000, 32


@dataclass(frozen=True, slots=True)
class LabelKind:
    """One set of labels: its keys in the batches and in the meta file, and the number of its classes."""

    in_batch: str
    in_meta: str
    count: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of CIFAR-10 or CIFAR-100, with their published md5 sums."""

    train: Mapping[str, str]
    test: Mapping[str, str]
    meta: tuple[str, str]
    kinds: tuple[LabelKind, ...]

    @property
    def files(self) -> dict[str, str]:
        """All files with their md5 sums."""
        return {**self.train, **self.test, self.meta[0]: self.meta[1]}


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    images: npt.NDArray[np.uint8]
    labels: Ints  # (n, kinds)


def decode(source: Source, layout: Layout, size: int | None, writer: CacheWriter, progress: Progress) -> None:
    """Write images, `labels` (one column per kind), `names_0` … (class names), `test` (mask) and `official` (flag).

    Training images come first, in the official order, even if batches are missing.
    """
    batches, meta, genuine = _read(source, layout, progress)
    missing = [name for name in (*layout.train, *layout.test) if name not in batches]
    order = [name for name in (*layout.train, *layout.test) if name in batches]
    if not order:
        raise InputError(f"{source.path} holds none of {', '.join(missing)}. Is it the archive of another dataset?")
    if meta is None:
        raise InputError(f"{source.path} has no {layout.meta[0]}, which names the classes. Download it again.")
    for kind, names in zip(layout.kinds, meta, strict=True):
        if len(names) != kind.count:
            raise InputError(
                f"{source.path}, {layout.meta[0]}: expected {kind.count} {kind.in_meta}, found {len(names)}."
            )
    for column, names in enumerate(meta):
        writer.keep(f"names_{column}", np.array(names))
    labels = np.concatenate([batches[name].labels for name in order])
    writer.keep("labels", labels)
    writer.keep("test", np.repeat([name in layout.test for name in order], [len(batches[n].labels) for n in order]))
    writer.keep("official", np.array([genuine and not missing]))
    side = size or _SHAPE[1]
    shelf, start = allocate_images(writer, len(labels), (_SHAPE[0], side, side)), 0
    for done, name in enumerate(order, 1):
        batch = batches.pop(name)
        shelf.put(start, resized(batch.images, size))
        start += len(batch.images)
        progress("Writing the decoded images", done, len(order))


def _read(source: Source, layout: Layout, progress: Progress) -> tuple[dict[str, _Batch], list[list[str]] | None, bool]:
    """Return the batches by file name, the class names of each kind, and whether every file is as published."""
    batches: dict[str, _Batch] = {}
    meta, genuine, seen = None, True, set[str]()
    for path, name, content in _wanted(source, layout):
        if name in seen:
            raise InputError(
                f"{source.path} holds {name} twice ({path} is the second). Give the folder of one of them."
            )
        seen.add(name)
        where = f"{source.path}, {path}"
        genuine = genuine and md5(content, usedforsecurity=False).hexdigest() == layout.files[name]
        record = _record(content, where)
        if name == layout.meta[0]:
            meta = [_names(record, kind, where) for kind in layout.kinds]
        else:
            batches[name] = _batch(record, layout.kinds, where)
        progress(f"Decoding {name}", len(seen), len(layout.files))
    return batches, meta, genuine


def _wanted(source: Source, layout: Layout) -> Iterator[tuple[str, str, bytes]]:
    for path, content in source.members(lambda path: PurePosixPath(path).name in layout.files):
        yield path, PurePosixPath(path).name, content


def _record(content: bytes, where: str) -> dict[str, Any]:
    record = read_plain_pickle(content, where)
    if not isinstance(record, dict):
        raise InputError(f"{where} holds a {type(record).__name__}; expected a dictionary.")
    # Python 2 wrote the keys as bytes.
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in record.items()}


def _entry(record: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in record:
        raise InputError(f"{where} has no {key!r}, only {', '.join(sorted(record)) or 'nothing'}.")
    return record[key]


def _names(record: Mapping[str, Any], kind: LabelKind, where: str) -> list[str]:
    names = _entry(record, kind.in_meta, where)
    if not isinstance(names, list) or not all(isinstance(name, (str, bytes)) for name in names):
        raise InputError(f"{where}: {kind.in_meta} is not a list of names.")
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names]


def _batch(record: Mapping[str, Any], kinds: tuple[LabelKind, ...], where: str) -> _Batch:
    data = _entry(record, "data", where)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != _PIXELS:
        given = f"{data.dtype} of shape {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise InputError(f"{where}: 'data' must be uint8 of shape (n, {_PIXELS}); it is {given}.")
    columns = [_labels(record, kind, len(data), where) for kind in kinds]
    return _Batch(np.asarray(data).reshape(-1, *_SHAPE), np.stack(columns, axis=1))


def _labels(record: Mapping[str, Any], kind: LabelKind, count: int, where: str) -> Ints:
    labels = _entry(record, kind.in_batch, where)
    if not isinstance(labels, (list, np.ndarray)) or any(not isinstance(label, (int, np.integer)) for label in labels):
        raise InputError(f"{where}: {kind.in_batch!r} is not a list of integers.")
    if len(labels) != count:
        raise InputError(f"{where}: {len(labels):,} {kind.in_batch} but {count:,} images.")
    column = np.array(labels, dtype=np.int64)
    outside = np.flatnonzero((column < 0) | (column >= kind.count))
    if outside.size:
        raise InputError(
            f"{where}: image {outside[0]:,} has the label {column[outside[0]]} in {kind.in_batch!r}; expected labels "
            f"from 0 to {kind.count - 1}."
        )
    return column


_CITATION = "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009."
_LICENCE = "No explicit licence; research use, cite Krizhevsky 2009."
_ETHICS = (
    "Part of 80 Million Tiny Images, which its authors withdrew because of offensive images and images of people "
    "without their consent. For testing methods, not for decisions about people."
)
_SPLIT = f"The official one: {_TRAIN:,} images for training, {_TEST:,} for testing."
_ADDRESS = "https://www.cs.toronto.edu/~kriz/"
_ARCHIVE_10 = OfficialFile(
    "cifar-10-python.tar.gz",
    _ADDRESS + "cifar-10-python.tar.gz",
    md5="c58f30108f718f92721af3b95e74349a",
    sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
)
_ARCHIVE_100 = OfficialFile(
    "cifar-100-python.tar.gz",
    _ADDRESS + "cifar-100-python.tar.gz",
    md5="eb9058c3a382ffc7106e4002c42a8d85",
    sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
)

CIFAR10 = Card(
    title="CIFAR-10, 60,000 colour photographs of 32 by 32 pixels",
    classes="the thing or animal shown, 10 classes",
    groups=("class",),
    split=_SPLIT,
    licence=_LICENCE,
    ethics=_ETHICS,
    citation=_CITATION,
    files=(_ARCHIVE_10,),
    sized=True,
    samples=_TRAIN + _TEST,
    shape=(3, _SIDE, _SIDE),
)
CIFAR100 = replace(
    CIFAR10,
    title="CIFAR-100, 60,000 colour photographs of 32 by 32 pixels",
    classes="the thing, animal or person shown, 100 classes",
    groups=("class", "superclass"),
    ethics=_ETHICS + " Five of its classes are people by age and sex, as judged by annotators.",
    files=(_ARCHIVE_100,),
)
CIFAR100_SUPER = replace(
    CIFAR100,
    title="CIFAR-100 by superclass, the same 60,000 photographs",
    classes="the kind of thing shown, 20 superclasses of five classes each",
    groups=("class", "fine class"),
)

_LAYOUT_10 = Layout(
    train={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    test={"test_batch": "40351d587109b95175f43aff81a1287e"},
    meta=("batches.meta", "5ff9c542aee3614f3951f8cda6e48888"),
    kinds=(LabelKind("labels", "label_names", 10),),
)
_LAYOUT_100 = Layout(
    train={"train": "16019d7e3df5f24257cddd939b257f8d"},
    test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    meta=("meta", "7973b15100ade9c7d40fb424638fde48"),
    kinds=(
        LabelKind("fine_labels", "fine_label_names", 100),
        LabelKind("coarse_labels", "coarse_label_names", 20),
    ),
)


def _load(name: str, card: Card, layout: Layout, kind: int, attributes: Mapping[str, int], request: Request) -> Dataset:
    """Load a dataset from the folder of its files, its parent folder, or the archive.

    `kind` is the number of the labels that are `y`; `attributes` are the names and numbers of the others.
    """
    arrays, notes = _decoded(name, card, layout, request)
    labels = np.asarray(arrays["labels"])
    return image_dataset(
        name,
        arrays,
        split_rows(arrays["test"], request.split),
        labels[:, kind],
        attributes={
            key: np.asarray(arrays[f"names_{column}"])[labels[:, column]] for key, column in attributes.items()
        },
        class_names=tuple(arrays[f"names_{kind}"].tolist()),
        notes=notes,
    )


def _decoded(
    name: str, card: Card, layout: Layout, request: Request
) -> tuple[Mapping[str, npt.NDArray[Any]], tuple[str, ...]]:
    """Return the arrays of all images, and notes for the report."""
    prefix = card.files[0].name.removesuffix("python.tar.gz")
    patterns = (card.files[0].name, *(f"{prefix}*{ending}" for ending in _ENDINGS))
    root = _shared_folder(name) if request.root is None else request.root
    source = locate(name, card, root, folder=lambda place: _holds(place, layout), archives=patterns)
    checksum = source.checksum()
    arrays = cached(
        name.removesuffix(_SUPER),
        {"source": checksum, "size": request.size, "revision": _REVISION},
        lambda writer: decode(source, layout, request.size, writer, request.progress),
    )
    wanted = {"train": layout.train, "test": layout.test}.get(request.split, {})
    if wanted and not np.any(arrays["test"] == (request.split == "test")):
        raise InputError(
            f"{source.path} holds no {' or '.join(wanted)}, so there is no {request.split} split of {name}. Add the "
            "file, or request the other split."
        )
    return arrays, _notes(source, checksum, card.files[0], arrays, request.size)


def _shared_folder(name: str) -> Path | None:
    """Return the download folder of the other dataset with the same files, if only that folder exists."""
    other = name.removesuffix(_SUPER) if name.endswith(_SUPER) else name + _SUPER
    return data_folder(other) if data_folder(other).is_dir() and not data_folder(name).is_dir() else None


def _holds(place: Path, layout: Layout) -> bool:
    # The files of CIFAR-100 are named `train`, `test` and `meta`; a single such name does not identify the dataset.
    batches = any((place / name).is_file() for name in (*layout.train, *layout.test))
    return batches and (place / layout.meta[0]).is_file()


def _notes(
    source: Source, checksum: str, official: OfficialFile, arrays: Mapping[str, npt.NDArray[Any]], size: int | None
) -> tuple[str, ...]:
    notes, test = [], arrays["test"]
    if source.path.name == official.name and source.kind != "folder" and checksum != official.sha256:
        notes.append(f"{official.name} differs from the published checksum (md5 {official.md5}).")
    if not arrays["official"][0]:
        what = "files" if source.kind == "folder" else "archive"
        notes.append(
            f"Not the official {what}: {np.sum(~test):,} of {_TRAIN:,} training and {np.sum(test):,} of {_TEST:,} "
            "test images."
        )
    return (*notes, *resizing_note(_SIDE, size))


CIFAR10_ENTRY = Entry(CIFAR10, partial(_load, "cifar10", CIFAR10, _LAYOUT_10, 0, {}))
CIFAR100_ENTRY = Entry(CIFAR100, partial(_load, "cifar100", CIFAR100, _LAYOUT_100, 0, {"superclass": 1}))
CIFAR100_SUPER_ENTRY = Entry(
    CIFAR100_SUPER, partial(_load, "cifar100-super", CIFAR100_SUPER, _LAYOUT_100, 1, {"fine class": 0})
)
