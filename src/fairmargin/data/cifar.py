"""CIFAR-10 and CIFAR-100: small colour photographs of things and animals (Krizhevsky 2009)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.data.cache import cached
from fairmargin.data.card import Card, Entry, OfficialFile, Request
from fairmargin.data.cifar_batches import LabelKind, Layout, decode
from fairmargin.data.dataset import Dataset
from fairmargin.data.images import image_dataset, split_rows
from fairmargin.data.resizing import resizing_note
from fairmargin.data.sources import Source, data_folder, locate
from fairmargin.errors import InputError

_REVISION = 1
_ENDINGS = (".tar.gz", ".tgz", ".tar.xz", ".tar", ".tar.bz2", ".zip")
_SUPER = "-super"
_TRAIN, _TEST, _SIDE = 50_000, 10_000, 32

_CITATION = "A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009."
_LICENCE = "No explicit licence; research use, cite Krizhevsky 2009."
_ETHICS = (
    "Drawn from 80 Million Tiny Images, which its authors withdrew over offensive images and images of people who were "
    "not asked. For testing methods, not for deciding about people."
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
CIFAR100 = Card(
    title="CIFAR-100, 60,000 colour photographs of 32 by 32 pixels",
    classes="the thing, animal or person shown, 100 classes",
    groups=("class", "superclass"),
    split=_SPLIT,
    licence=_LICENCE,
    ethics=_ETHICS + " Five of its classes are people by age and sex, as annotators saw them.",
    citation=_CITATION,
    files=(_ARCHIVE_100,),
    sized=True,
    samples=_TRAIN + _TEST,
    shape=(3, _SIDE, _SIDE),
)
CIFAR100_SUPER = Card(
    title="CIFAR-100 by superclass, the same 60,000 photographs",
    classes="the kind of thing shown, 20 superclasses of five classes each",
    groups=("class", "fine class"),
    split=_SPLIT,
    licence=_LICENCE,
    ethics=CIFAR100.ethics,
    citation=_CITATION,
    files=(_ARCHIVE_100,),
    sized=True,
    samples=_TRAIN + _TEST,
    shape=(3, _SIDE, _SIDE),
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


def load_cifar10(request: Request) -> Dataset:
    """CIFAR-10 from `cifar-10-batches-py`, the folder around it, or the archive; groups by class."""
    arrays, notes = _decoded("cifar10", CIFAR10, _LAYOUT_10, "cifar-10-", request)
    return _dataset("cifar10", arrays, request, 0, {}, notes)


def load_cifar100(request: Request) -> Dataset:
    """CIFAR-100 with its 100 classes; groups by class or by superclass."""
    arrays, notes = _decoded("cifar100", CIFAR100, _LAYOUT_100, "cifar-100-", request)
    return _dataset("cifar100", arrays, request, 0, {"superclass": 1}, notes)


def load_cifar100_super(request: Request) -> Dataset:
    """CIFAR-100 with its 20 superclasses for classes; groups by superclass or by fine class."""
    arrays, notes = _decoded("cifar100-super", CIFAR100_SUPER, _LAYOUT_100, "cifar-100-", request)
    return _dataset("cifar100-super", arrays, request, 1, {"fine class": 0}, notes)


def _decoded(
    name: str, card: Card, layout: Layout, prefix: str, request: Request
) -> tuple[Mapping[str, npt.NDArray[Any]], tuple[str, ...]]:
    patterns = (card.files[0].name, *(f"{prefix}*{ending}" for ending in _ENDINGS))
    root = _shared_place(name) if request.root is None else request.root
    source = locate(name, card, root, folder=lambda place: _holds(place, layout), archives=patterns)
    checksum = source.checksum()
    arrays = cached(
        name.removesuffix(_SUPER),
        {"source": checksum, "size": request.size, "revision": _REVISION},
        lambda writer: decode(source, layout, request.size, writer, request.tell),
    )
    wanted = {"train": layout.train, "test": layout.test}.get(request.split, {})
    if wanted and not np.any(arrays["test"] == (request.split == "test")):
        raise InputError(
            f"{source.path} holds no {' or '.join(wanted)}, so that there is no {request.split} split of {name}. Put "
            "it there, or ask for the other split."
        )
    return arrays, _notes(source, checksum, card.files[0], arrays, request.size)


def _shared_place(name: str) -> Path | None:
    """Where the files lie if they were fetched under the name of the other dataset that is made of them."""
    other = name.removesuffix(_SUPER) if name.endswith(_SUPER) else name + _SUPER
    return data_folder(other) if data_folder(other).is_dir() and not data_folder(name).is_dir() else None


def _holds(place: Path, layout: Layout) -> bool:
    # The files of CIFAR-100 are called just `train`, `test` and `meta`: one of them alone says little.
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


def _dataset(
    name: str,
    arrays: Mapping[str, npt.NDArray[Any]],
    request: Request,
    kind: int,
    attributes: Mapping[str, int],
    notes: tuple[str, ...],
) -> Dataset:
    """The split that is asked for, with one kind of label for `y` and the others as attributes."""
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


CIFAR10_ENTRY = Entry(CIFAR10, load_cifar10)
CIFAR100_ENTRY = Entry(CIFAR100, load_cifar100)
CIFAR100_SUPER_ENTRY = Entry(CIFAR100_SUPER, load_cifar100_super)
