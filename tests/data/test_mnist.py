"""MNIST and Fashion-MNIST. Broken files are in `tests/spec/refusals/datasets.py`."""

import gzip

import numpy as np
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.sets import mnist
from fairmargin.data.sets.mnist import read_idx
from fairmargin.errors import InputError
from tests.data.files import pack, write
from tests.data.official_layouts import MNIST_TEST, MNIST_TRAIN, idx, mnist_files, zipped

CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_training_images_come_before_test_images_and_each_has_its_label(name, tmp_path):
    files, reports = mnist_files(), []
    folder = write(tmp_path / "files", zipped(files))
    images = [
        np.frombuffer(files[file][16:], np.uint8).reshape(-1, 1, 28, 28).astype(np.float32) / np.float32(255)
        for file in ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte")
    ]
    both = load(name, root=folder, progress=lambda *step: reports.append(step))
    train, test = (load(name, root=folder, split=split) for split in ("train", "test"))
    np.testing.assert_array_equal(np.asarray(train.x), images[0])
    np.testing.assert_array_equal(np.asarray(test.x), images[1])
    np.testing.assert_array_equal(np.asarray(both.x), np.concatenate(images))
    assert train.y.tolist() == [*range(10), 0, 1]
    assert test.y.tolist() == [4, 3, 2, 1, 0]
    assert both.y.tolist() == [*train.y, *test.y]
    assert test.class_names == (CLOTHES if name == "fashion-mnist" else tuple("0123456789"))
    assert (test.domain.low, test.domain.high) == (0, 1)
    assert test.notes[0].startswith("Not as published (checksum differs): train-images-idx3-ubyte, train-labels-idx1")
    assert ("Decompressing t10k-images-idx3-ubyte", 1, 4) in reports
    assert reports[-1] == ("Writing the decoded images", MNIST_TRAIN + MNIST_TEST, MNIST_TRAIN + MNIST_TEST)


def test_all_spellings_of_the_files_give_the_same_fingerprint(tmp_path):
    files = mnist_files()
    dotted = {name.replace("-idx", ".idx"): content for name, content in files.items()}
    roots = [write(tmp_path / str(i), each) for i, each in enumerate((files, zipped(files), dotted, zipped(dotted)))]
    roots.append(pack(tmp_path / "mnist.zip", {f"anything/{name}": content for name, content in files.items()}))
    assert len({load("mnist", root=root).fingerprint for root in roots}) == 1


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("mnist", "mnist"),
        ("mnist", "MNIST/raw"),
        ("mnist", "MNIST"),
        ("fashion-mnist", "fashion-mnist"),
        ("fashion-mnist", "fashion_mnist"),
        ("fashion-mnist", "FashionMNIST/raw"),
    ],
)
def test_each_dataset_finds_its_own_files_beside_those_of_others(name, place, tmp_path):
    other = {"mnist": "FashionMNIST/raw", "fashion-mnist": "mnist"}[name]
    own = write(tmp_path / "data" / place, mnist_files(1))
    write(tmp_path / "data" / other, mnist_files(2))
    write(tmp_path / "data" / "KMNIST", mnist_files(3))
    expected = load(name, root=own, split="test").fingerprint
    assert load(name, root=tmp_path / "data", split="test").fingerprint == expected
    if place.endswith("raw"):
        assert load(name, root=own.parent, split="test").fingerprint == expected


def test_files_at_the_root_are_preferred_to_files_below_it(tmp_path):
    root = write(tmp_path / "data", mnist_files(1))
    write(root / "fashion-mnist", mnist_files(2))
    expected = load("mnist", root=write(tmp_path / "alone", mnist_files(1)), split="test").fingerprint
    assert load("mnist", root=root, split="test").fingerprint == expected


def test_files_are_decoded_once_for_each_size(tmp_path, monkeypatch):
    folder = write(tmp_path / "files", mnist_files())
    small, first = load("mnist", root=folder, size=14, split="test"), load("mnist", root=folder)
    assert small.x.shape == (MNIST_TEST, 1, 14, 14)
    assert "Images were resized from 28×28 to 14×14 pixels (bilinear)." in small.notes

    def never(*_):
        raise AssertionError("decoded again")

    monkeypatch.setattr(mnist, "read_idx", never)
    assert load("mnist", root=folder).fingerprint == first.fingerprint
    with pytest.raises(AssertionError, match="decoded again"):
        load("mnist", root=folder, size=15)


def test_the_files_of_one_split_are_enough_for_that_split(tmp_path):
    for prefix, split, count in (("train", "train", MNIST_TRAIN), ("t10k", "test", MNIST_TEST)):
        files = {name: content for name, content in mnist_files().items() if name.startswith(prefix)}
        assert len(load("mnist", root=write(tmp_path / split, files), split=split)) == count


def test_a_gz_file_is_decompressed_no_further_than_its_header_announces():
    bomb = gzip.compress(idx(np.arange(3)) + bytes(50_000_000))
    with pytest.raises(InputError, match="labels has more than the 3 bytes"):
        read_idx(bomb, "labels", 1)
