"""What the datasets of the catalog refuse in their files. Every message names the file, and the line of a table."""

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairmargin.data.catalog import load
from fairmargin.errors import MissingDataError
from tests.data.files import noise, pack, picture, python2_pickle, write
from tests.data.official_layouts import (
    ADULT_TEST,
    ADULT_TRAIN,
    CIFAR_10,
    CIFAR_NAMES,
    COMPAS_HEADER,
    COMPAS_ROWS,
    FOLD_HEADER,
    GERMAN_ROWS,
    cifar10_records,
    cifar100_records,
    face_name,
    fold_file,
    fold_row,
    idx,
    mnist_files,
    write_adult,
    write_cifar,
    write_compas,
    write_german,
    zipped,
)
from tests.spec.refusals import Refusal

Call = Callable[[Path], object]

# Tables


def adult(train: str = ADULT_TRAIN, test: str = ADULT_TEST) -> Call:
    return lambda folder: load("adult", root=write_adult(folder, train, test))


def compas(rows: list[str], header: str = COMPAS_HEADER) -> Call:
    return lambda folder: load("compas", root=write_compas(folder, rows, header))


def german(old: str, new: str) -> Call:
    return lambda folder: load("german-credit", root=write_german(folder, [r.replace(old, new) for r in GERMAN_ROWS]))


def written(name: str, files: Mapping[str, bytes | str], **options: Any) -> Call:
    """Return a call that writes files and loads a dataset from their folder."""
    return lambda folder: load(name, root=write(folder / "files", files), **options)


first = COMPAS_ROWS[0]
TABLES = [
    Refusal(adult(ADULT_TRAIN.replace(", Cuba", "", 1)), "adult.data, line 1 has 14 columns; expected 15."),
    Refusal(adult(test=ADULT_TEST.replace("63", "old")), "adult.test, line 2: 'age' is 'old'; expected a number."),
    Refusal(adult(ADULT_TRAIN.replace("2174", "nan")), "adult.data, line 1: 'capital-gain' is 'nan'; expected"),
    Refusal(adult(ADULT_TRAIN.replace("22,", "?,")), "adult.data, line 3: 'age' is '?'; expected a number."),
    Refusal(adult(test=ADULT_TEST.replace(">50K.", "50K")), "adult.test, line 3: unknown value '50K' of 'income'."),
    Refusal(adult("\n", "\n"), "0 rows"),
    Refusal(written("adult", {"adult.data": ADULT_TRAIN}), "files has no adult.test of adult."),
    Refusal(written("adult", {"adult.zip": b"PK no more"}), "adult.zip cannot be read"),
    Refusal(compas([*COMPAS_ROWS, "11,Male"]), "compas-scores-two-years.csv, line 12 has 2 columns; expected 18."),
    Refusal(compas(COMPAS_ROWS, COMPAS_HEADER.replace("juv_fel", "fel")), "line 1: no column 'juv_fel_count'."),
    Refusal(compas([first.replace("69", "?")]), "line 2: 'age' is '?'; expected a number."),
    Refusal(compas([first[:-1] + "2"]), "line 2: unknown value '2' of 'two_year_recid'."),
    Refusal(compas([first.replace(",-1,F", ",soon,F")]), "line 2: 'days_b_screening_arrest' is 'soon'"),
    Refusal(compas(['1,"' + "x" * 140_000]), "compas-scores-two-years.csv; field larger than field limit"),
    Refusal(compas([], ""), "line 1: no column 'age'."),
    Refusal(compas([]), "0 rows"),
    Refusal(german("A11 ", ""), "german.data, line 1 has 20 columns; expected 21."),
    Refusal(german("A201 2", "A201 3"), "german.data, line 2: unknown value '3' of 'risk'."),
    Refusal(german("A92", "A99"), "german.data, line 2: unknown value 'A99' of 'sex'. There are: A91, A92"),
    Refusal(german("5951", "much"), "german.data, line 2: 'amount' is 'much'; expected a number."),
    Refusal(written("german-credit", {"german.data": "\n"}), "0 rows"),
    Refusal(written("german-credit", {"german.data": b"A11 \xff\xfe"}), "german.data is not text in UTF-8"),
]

# MNIST

MNIST = mnist_files()
TRAINING, LABELS, PICTURES = "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "t10k-images-idx3-ubyte"
packed = gzip.compress(MNIST[PICTURES])
changed = bytearray(packed)
changed[-6] ^= 0xFF  # in the checksum


def without(prefix: str, split: str = "all") -> Call:
    return written("mnist", {name: part for name, part in MNIST.items() if not name.startswith(prefix)}, split=split)


IDX = [
    *(
        Refusal(written("mnist", wrap({**MNIST, name: content})), words)  # type: ignore[operator]
        for wrap in (dict, zipped)
        for name, content, words in (
            (PICTURES, MNIST[LABELS], "not an idx file of images; magic number 2,051 but begins with 2,049"),
            (LABELS, MNIST[PICTURES], "not an idx file of labels; magic number 2,049 but begins with 2,051"),
            (PICTURES, b"<html>Not found</html>", "not an idx file of images"),
            (PICTURES, b"", "not an idx file of images; begins with nothing"),
            (PICTURES, MNIST[PICTURES][:10], "t10k-images; is truncated"),
            (PICTURES, MNIST[PICTURES][:-1], "t10k-images; truncated: it has 3,919 bytes; 5 × 28 × 28"),
            (PICTURES, MNIST[PICTURES] + b"!", "t10k-images; has more than the 3,920 bytes"),
            (PICTURES, idx(np.zeros((5, 27, 28))), "t10k-images; expected images of 28×28 pixels, found 27×28"),
            (PICTURES, idx(np.zeros((4, 28, 28))), "has 5 labels but; has 4 images"),
            (LABELS, idx(np.array([1, 2, 3, 10, 4])), "image 3 has the label 10; expected labels from 0 to 9"),
            (PICTURES, bytes([0, 0, 8, 3]) + b"\xff" * 12, "t10k-images; announces 79,"),
        )
    ),
    *(
        Refusal(written("mnist", {**zipped(MNIST), f"{PICTURES}.gz": content}), f"{PICTURES}.gz cannot be decompressed")
        for content in (packed[:5], packed[:40], packed[:-10], packed[:-4], bytes(changed))
    ),
    *(Refusal(without(name), f"files lacks {name} ") for name in MNIST),
    *(
        Refusal(without(prefix, split), f"lacks {prefix}-images-idx3-ubyte and {prefix}-labels-idx1-ubyte")
        for prefix, missing in (("train", "train"), ("t10k", "test"))
        for split in ("all", missing)
    ),
    Refusal(
        written("mnist", {**MNIST, PICTURES: idx(np.zeros((0, 28, 28))), LABELS: idx(np.zeros(0))}), "holds no images"
    ),
    Refusal(
        lambda folder: load("mnist", root=write(folder / "fashion-mnist", MNIST).parent),
        "No files of mnist at; Put train-images-idx3-ubyte.gz, ",
        error=MissingDataError,
    ),
]

# CIFAR


def cifar(name: str, key: str, value: object) -> Call:
    """Return a call that loads CIFAR-10 with one entry of a record replaced, or removed if the value is None."""

    def call(folder: Path) -> object:
        records = cifar10_records()
        records[name] = {k: v for k, v in {**records[name], key: value}.items() if v is not None}
        return load("cifar10", root=write_cifar(folder, "files", records))

    return call


def batches(*kept: str, split: str = "all", **changes: Any) -> Call:
    """Return a call that loads CIFAR-10 with some of its files."""
    return lambda folder: load(
        "cifar10",
        root=write_cifar(
            folder, CIFAR_10, {n: r for n, r in cifar10_records().items() if n.startswith(kept)} | changes
        ),
        split=split,
    )


def twice(folder: Path) -> object:
    files = {name: python2_pickle(record) for name, record in cifar10_records().items()}
    return load("cifar10", root=pack(folder / "x.tar", files | {"copy/test_batch": files["test_batch"]}))


def nameless(folder: Path) -> object:
    files = {name: python2_pickle(record) for name, record in cifar10_records().items() if "batch_" in name}
    return load("cifar10", root=pack(folder / "x.tar", files))


def of_another(folder: Path) -> object:
    files = {name: python2_pickle(record) for name, record in cifar100_records().items()}
    return load("cifar10", root=pack(folder / "cifar-100-python.tar.gz", files))


def cut(ending: str) -> Call:
    def call(folder: Path) -> object:
        path = pack(folder / f"cifar{ending}", {n: python2_pickle(r) for n, r in cifar10_records().items()})
        path.write_bytes(path.read_bytes()[:-5000])
        return load("cifar10", root=path)

    return call


CIFAR = [
    Refusal(cifar("data_batch_3", "labels", [1, 2]), "data_batch_3: 2 labels but 3 images"),
    Refusal(cifar("data_batch_3", "labels", [1, 2, 10]), "data_batch_3: image 2 has the label 10 in 'labels'; 0 to 9"),
    Refusal(cifar("test_batch", "labels", [1, -2, 3]), "test_batch: image 1 has the label -2"),
    Refusal(cifar("test_batch", "labels", ["a", "b", "c"]), "test_batch: 'labels' is not a list of integers"),
    Refusal(cifar("test_batch", "labels", None), "test_batch has no 'labels', only batch_label, data, filenames"),
    Refusal(cifar("test_batch", "data", None), "test_batch has no 'data'"),
    Refusal(cifar("test_batch", "data", [1, 2]), "test_batch: 'data' must be uint8 of shape (n, 3072); it is list"),
    Refusal(cifar("test_batch", "data", np.zeros((3, 3071), np.uint8)), "test_batch; it is uint8 of shape (3, 3071)"),
    Refusal(cifar("test_batch", "data", np.zeros((3, 3072), np.float32)), "test_batch; it is float32"),
    Refusal(cifar("batches.meta", "label_names", CIFAR_NAMES[:9]), "batches.meta: expected 10 label_names, found 9"),
    Refusal(cifar("batches.meta", "label_names", [1] * 10), "batches.meta: label_names is not a list of names"),
    Refusal(batches("", test_batch=python2_pickle([1])), "test_batch holds a list; expected a dictionary"),
    Refusal(batches("data", "batches", split="test"), f"{CIFAR_10} holds no test_batch; no test split of cifar10"),
    Refusal(batches("test", "batches", split="train"), f"{CIFAR_10} holds no data_batch_1; no train split of cifar10"),
    Refusal(twice, "holds test_batch twice (copy/test_batch is the second)"),
    Refusal(nameless, "has no batches.meta, which names the classes"),
    Refusal(of_another, "holds none of data_batch_1, ; Is it the archive of another dataset"),
    Refusal(cut(".tar.gz"), "cifar.tar.gz cannot be read; download it again"),
    Refusal(cut(".tar.xz"), "cifar.tar.xz cannot be read; download it again"),
    Refusal(
        lambda folder: load("cifar10", root=write_cifar(folder, "x", cifar100_records())),
        "No files of cifar10 at; Put cifar-10-python.tar.gz there",
        error=MissingDataError,
    ),
]

# Faces

FACE = ("1@N0", "a.jpg", 1)
END = "_20170116174525125.jpg.chip.jpg"


def folds(content: bytes | str, face: bytes | str = noise(0)) -> Call:
    return written("adience", {"fold_0_data.txt": content, face_name(*FACE): face})


def faces(files: Mapping[str, bytes | str]) -> Call:
    return lambda folder: load("utkface", root=pack(folder / "utkface.zip", files))


FACES = [
    Refusal(folds(FOLD_HEADER.replace("gender", "sex") + "\n"), "has no column 'gender'"),
    Refusal(folds(FOLD_HEADER + "\n1@N0\ta.jpg\n"), "truncated in line 2"),
    Refusal(folds(b"\xff\xfe"), "not text in UTF-8"),
    Refusal(folds(""), "has no column 'user_id'"),
    Refusal(folds(FOLD_HEADER + "\n"), "None of the 0 faces"),
    Refusal(folds(fold_file([fold_row(*FACE)]), b"junk"), f"Image {face_name(*FACE)} of; cannot be read"),
    Refusal(
        lambda folder: load("adience", root=pack(folder / "a.zip", {"x/fold_0_data.txt": "", "faces/a.jpg": "x"})),
        "expected fold_0_data.txt; beside them, faces/",
    ),
    *(
        Refusal(faces({f"30_1_1{END}": damaged}), f"Image 30_1_1{END} of; utkface.zip cannot be read")
        for damaged in (b"", b"no image at all", picture(size=(64, 64), kind="JPEG")[:500])
    ),
    Refusal(
        faces({f"1_0_0{END}": picture(size=(4, 4)), f"2_0_0{END}": picture(size=(6, 5))}),
        "1_0_0; has 4 × 4 pixels, 2_0_0; has 6 × 5.; size=4",
    ),
    Refusal(faces({"beach.jpg": picture()}), "holds no image with a name as in UTKFace, ; found 1 other images"),
    Refusal(written("utkface", {"a.jpg": picture()}), "Put UTKFace.tar.gz there", error=MissingDataError),
]

REFUSALS = [*TABLES, *IDX, *CIFAR, *FACES]
