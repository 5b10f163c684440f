"""The pickled batches of CIFAR-10 and CIFAR-100, decoded into the cache."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import md5
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.progress import Progress
from fairmargin.data.cache import CacheWriter
from fairmargin.data.images import allocate_images
from fairmargin.data.plain_pickle import read_plain_pickle
from fairmargin.data.resizing import resized
from fairmargin.data.sources import Source
from fairmargin.errors import InputError

_SHAPE = (3, 32, 32)  # red, green, blue planes, row by row
_PIXELS = 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class LabelKind:
    """One way in which the images are labelled: where a batch and the meta file keep it, and how many there are."""

    in_batch: str
    in_meta: str
    count: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one of the two datasets, with their published md5 sums."""

    train: Mapping[str, str]
    test: Mapping[str, str]
    meta: tuple[str, str]
    kinds: tuple[LabelKind, ...]

    @property
    def files(self) -> dict[str, str]:
        """Every file with its md5 sum."""
        return {**self.train, **self.test, self.meta[0]: self.meta[1]}


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    images: npt.NDArray[np.uint8]
    labels: Ints  # (n, kinds)


def decode(source: Source, layout: Layout, size: int | None, writer: CacheWriter, tell: Progress) -> None:
    """Write images, `labels` (a column a kind), `names_0` … of each kind, `test` (which images), and `official`.

    Training images come first, in the official order, whichever of the batches are there.
    """
    batches, meta, genuine = _read(source, layout, tell)
    missing = [name for name in (*layout.train, *layout.test) if name not in batches]
    order = [name for name in (*layout.train, *layout.test) if name in batches]
    if not order:
        raise InputError(f"{source.path} holds none of {', '.join(missing)}. Is it the archive of another dataset?")
    if meta is None:
        raise InputError(f"{source.path} lacks {layout.meta[0]}, which names the classes. Fetch it again.")
    for kind, names in zip(layout.kinds, meta, strict=True):
        if len(names) != kind.count:
            raise InputError(
                f"{source.path}, {layout.meta[0]}: {len(names)} {kind.in_meta} where there should be {kind.count}."
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
        tell("Writing the decoded images", done, len(order))


def _read(source: Source, layout: Layout, tell: Progress) -> tuple[dict[str, _Batch], list[list[str]] | None, bool]:
    """Batches by file name, the class names of each kind, and whether every file is as published."""
    batches: dict[str, _Batch] = {}
    meta, genuine, seen = None, True, set[str]()
    for path, name, content in _wanted(source, layout):
        if name in seen:
            raise InputError(f"{source.path} holds {name} twice ({path} is the second). Name the folder that is meant.")
        seen.add(name)
        where = f"{source.path}, {path}"
        genuine = genuine and md5(content, usedforsecurity=False).hexdigest() == layout.files[name]
        record = _record(content, where)
        if name == layout.meta[0]:
            meta = [_names(record, kind, where) for kind in layout.kinds]
        else:
            batches[name] = _batch(record, layout.kinds, where)
        tell(f"Decoding {name}", len(seen), len(layout.files))
    return batches, meta, genuine


def _wanted(source: Source, layout: Layout) -> Iterator[tuple[str, str, bytes]]:
    for path, content in source.members(lambda path: PurePosixPath(path).name in layout.files):
        yield path, PurePosixPath(path).name, content


def _record(content: bytes, where: str) -> dict[str, Any]:
    record = read_plain_pickle(content, where)
    if not isinstance(record, dict):
        raise InputError(f"{where} holds a {type(record).__name__}; a dictionary was expected.")
    # Python 2 wrote the keys as bytes.
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in record.items()}


def _entry(record: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in record:
        raise InputError(f"{where} has no {key!r}, only {', '.join(sorted(record)) or 'nothing'}.")
    return record[key]


def _names(record: Mapping[str, Any], kind: LabelKind, where: str) -> list[str]:
    names = _entry(record, kind.in_meta, where)
    if not isinstance(names, list) or not all(isinstance(name, (str, bytes)) for name in names):
        raise InputError(f"{where}: {kind.in_meta} is no list of names.")
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
        raise InputError(f"{where}: {kind.in_batch!r} is no list of whole numbers.")
    if len(labels) != count:
        raise InputError(f"{where}: {len(labels):,} {kind.in_batch} but {count:,} images.")
    column = np.array(labels, dtype=np.int64)
    outside = np.flatnonzero((column < 0) | (column >= kind.count))
    if outside.size:
        raise InputError(
            f"{where}: image {outside[0]:,} bears the label {column[outside[0]]} in {kind.in_batch!r}; labels go from "
            f"0 to {kind.count - 1}."
        )
    return column
