"""MNIST and Fashion-MNIST: grey images of 28 by 28 pixels in idx files of the same names."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairmargin.data.cache import cached
from fairmargin.data.card import Card, Entry, OfficialFile, Request
from fairmargin.data.dataset import Dataset
from fairmargin.data.images import image_dataset, split_rows
from fairmargin.data.mnist_files import NAMES, PAIRS, SIDE, decode, members_of, plain_name
from fairmargin.data.resizing import resizing_note
from fairmargin.data.sources import locate
from fairmargin.errors import InputError

_REVISION = 1
_TRAIN, _TEST = 60_000, 10_000
_SPLIT = f"The official one: {_TRAIN:,} images for training, {_TEST:,} for testing."


@dataclass(frozen=True, slots=True)
class _Twin:
    """What tells one of the two datasets from the other: their files have the same names."""

    folders: tuple[str, ...]
    unpacked_md5: tuple[str, ...]  # of the four files without gzip, in the order of NAMES
    class_names: tuple[str, ...]


_TWINS = {
    "mnist": _Twin(
        ("mnist",),
        (
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
        tuple(map(str, range(10))),
    ),
    "fashion-mnist": _Twin(
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


def _files(address: str, sums: Mapping[str, tuple[str, str]]) -> tuple[OfficialFile, ...]:
    return tuple(OfficialFile(f"{name}.gz", f"{address}{name}.gz", *sums[name]) for name in NAMES)


MNIST = Card(
    title="MNIST, 70,000 handwritten digits of 28 by 28 grey pixels",
    classes="the digit, 0 to 9",
    groups=("class",),
    split=_SPLIT,
    licence="Commonly given as CC BY-SA 3.0 (LeCun, Cortes).",
    ethics="Digits of employees of the US Census Bureau and of school pupils; nothing is known of each writer.",
    citation="Y. LeCun, C. Cortes, C. Burges, The MNIST database of handwritten digits, 1998.",
    files=_files(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        {
            "train-images-idx3-ubyte": (
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            "train-labels-idx1-ubyte": (
                "d53e105ee54ea40749a09fcbcd1e9432",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            "t10k-images-idx3-ubyte": (
                "9fb629c4189551a2d022fa330f9573f3",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            "t10k-labels-idx1-ubyte": (
                "ec29112dd5afa0611ce80d1b7f02629c",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        },
    ),
    sized=True,
    samples=70_000,
    shape=(1, SIDE, SIDE),
)
FASHION_MNIST = Card(
    title="Fashion-MNIST, 70,000 pieces of clothing of 28 by 28 grey pixels",
    classes="the kind of clothing, 10 classes",
    groups=("class",),
    split=_SPLIT,
    licence="MIT (Zalando).",
    ethics="Pictures of goods of one shop; no people are on them.",
    citation="H. Xiao, K. Rasul, R. Vollgraf, Fashion-MNIST: a Novel Image Dataset, arXiv:1708.07747, 2017.",
    files=_files(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        {
            "train-images-idx3-ubyte": (
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            "train-labels-idx1-ubyte": (
                "25c81989df183df01b3e8a0aad5dffbe",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            "t10k-images-idx3-ubyte": (
                "bef4ecab320f06d8554ea6380940ec79",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            "t10k-labels-idx1-ubyte": (
                "bb300cfdad3c16e7a12a480ee83cd310",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        },
    ),
    sized=True,
    samples=70_000,
    shape=(1, SIDE, SIDE),
)


def load_mnist(request: Request) -> Dataset:
    """MNIST from a folder with the four idx files, gzipped or not, or from the folder around it."""
    return _load("mnist", MNIST, request)


def load_fashion_mnist(request: Request) -> Dataset:
    """Fashion-MNIST from a folder with the four idx files, gzipped or not, or from the folder around it."""
    return _load("fashion-mnist", FASHION_MNIST, request)


def _load(name: str, card: Card, request: Request) -> Dataset:
    twin = _TWINS[name]
    source = locate(name, card, request.root, folder=lambda place: _holds(place, twin, request.root))
    members = members_of(source)
    for split, pair in PAIRS.items():
        lacking = [file for file in pair if file not in members]
        if lacking and (request.split in (split, "all") or len(lacking) == 1):
            raise InputError(
                f"{source.path} lacks {' and '.join(lacking)} (also looked for with .gz). Put "
                f"{'it' if len(lacking) == 1 else 'them'} there, or ask for the split that is there."
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
        class_names=twin.class_names,
        notes=(*_notes(name, arrays["md5"].tolist()), *resizing_note(SIDE, request.size)),
    )


def _holds(place: Path, twin: _Twin, root: Path | None) -> bool:
    # Below the root only a folder of the right name will do: its neighbour may hold the files of the other dataset.
    own_name = place.name.lower().replace("-", "").replace("_", "") in twin.folders
    below = place.parent == root and not own_name
    inside = [place, place / "raw"]  # as torchvision lays them out: MNIST/raw
    return not below and any(plain_name(path.name) in NAMES for folder in inside for path in folder.glob("*ubyte*"))


def _notes(name: str, sums: list[str]) -> tuple[str, ...]:
    for other, twin in _TWINS.items():
        if other != name and set(sums) & set(twin.unpacked_md5):
            return (f"These are files of {other}, not of {name}: the class names are wrong. Check the folder.",)
    known = dict(zip(NAMES, _TWINS[name].unpacked_md5, strict=True))
    changed = [file for file, found in zip(NAMES, sums, strict=True) if found and found != known[file]]
    return (f"Not as published (checksum differs): {', '.join(changed)}.",) if changed else ()


MNIST_ENTRY = Entry(MNIST, load_mnist)
FASHION_MNIST_ENTRY = Entry(FASHION_MNIST, load_fashion_mnist)
