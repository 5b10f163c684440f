"""CIFAR-10 and CIFAR-100. Broken files are in `tests/spec/refusals/datasets.py`."""

import pickle

import numpy as np
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.fetch.sources import data_folder
from fairmargin.data.sets import cifar
from fairmargin.errors import UntrustedError
from tests.data.files import pack, python2_pickle
from tests.data.official_layouts import (
    CIFAR_10,
    CIFAR_10_BATCHES,
    CIFAR_100,
    CIFAR_COARSE,
    CIFAR_FINE,
    CIFAR_NAMES,
    cifar10_records,
    cifar100_records,
    write_cifar,
)


@pytest.fixture
def folder10(tmp_path):
    return write_cifar(tmp_path / "ten", CIFAR_10, cifar10_records())


@pytest.fixture
def folder100(tmp_path):
    return write_cifar(tmp_path / "hundred", CIFAR_100, cifar100_records())


def packed(folder, path):
    return pack(path, {f"{folder.name}/{file.name}": file.read_bytes() for file in sorted(folder.iterdir())})


def test_images_and_labels_have_the_official_order(folder10):
    records, reports = cifar10_records(), []
    data = np.concatenate([records[name]["data"] for name in CIFAR_10_BATCHES]).reshape(-1, 3, 32, 32)
    labels = [label for name in CIFAR_10_BATCHES for label in records[name]["labels"]]
    for split, chosen in (("all", slice(None)), ("train", slice(0, 15)), ("test", slice(15, None))):
        dataset = load("cifar10", root=folder10, split=split, progress=lambda *step: reports.append(step))
        np.testing.assert_array_equal(np.asarray(dataset.x), data[chosen].astype(np.float32) / np.float32(255))
        assert dataset.y.tolist() == labels[chosen]
    assert dataset.class_names == tuple(CIFAR_NAMES)
    assert (dataset.domain.low, dataset.domain.high) == (0, 1)
    assert set(dataset.partition("class").labels) <= set(CIFAR_NAMES)
    assert reports[0] == ("Decoding batches.meta", 1, 7)
    assert reports[-1] == ("Writing the decoded images", 6, 6)


def test_the_planes_are_red_green_and_blue(tmp_path):
    records = cifar10_records(1)
    records["test_batch"]["data"] = np.repeat(np.array([255, 102, 0], dtype=np.uint8), 1024)[None]
    image = load("cifar10", root=write_cifar(tmp_path, "x", records), split="test").x[0]
    assert image.reshape(3, -1).mean(axis=1).tolist() == pytest.approx([1, 0.4, 0])


def test_folders_and_archives_give_the_same_fingerprint(folder10, tmp_path):
    roots = [
        folder10,
        folder10.parent,
        packed(folder10, tmp_path / "cifar-10-python.tar.gz"),
        packed(folder10, tmp_path / "renamed.tar"),
        packed(folder10, tmp_path / "beside" / "cifar-10-python-subset.tar.xz").parent,
    ]
    assert len({load("cifar10", root=root, split="test").fingerprint for root in roots}) == 1


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_pickles_of_python_2_and_3_give_the_same_dataset(tmp_path, protocol):
    new, old = (
        load("cifar10", root=write_cifar(tmp_path, name, cifar10_records(), dump))
        for name, dump in (("x", lambda value: pickle.dumps(value, protocol)), ("y", python2_pickle))
    )
    assert (new.fingerprint, new.class_names) == (old.fingerprint, tuple(CIFAR_NAMES))


def test_files_are_decoded_once_for_each_size_unless_they_change(folder10, tmp_path, monkeypatch):
    roots = (folder10, packed(folder10, tmp_path / "cifar-10-python.tar.xz"))
    first = [load("cifar10", root=root, split="test") for root in roots]
    small = load("cifar10", root=folder10, size=8, split="test")
    assert small.x.shape == (3, 3, 8, 8)
    assert "Images were resized from 32×32 to 8×8 pixels (bilinear)." in small.notes
    np.testing.assert_allclose(small.x[:].mean(axis=(2, 3)), first[0].x[:].mean(axis=(2, 3)), atol=0.02)

    def never(*_):
        raise AssertionError("decoded again")

    with monkeypatch.context() as patch:
        patch.setattr(cifar, "read_plain_pickle", never)
        again = [load("cifar10", root=root, split="test") for root in roots]
        with pytest.raises(AssertionError, match="decoded again"):
            load("cifar10", root=folder10, size=16)
    assert [dataset.fingerprint for dataset in again] == [dataset.fingerprint for dataset in first]
    (folder10 / "test_batch").write_bytes((folder10 / "data_batch_1").read_bytes())
    assert load("cifar10", root=folder10, split="test").fingerprint != first[0].fingerprint


def test_cifar100_has_classes_and_superclasses_of_the_same_images(folder100):
    fine, coarse = (load(name, root=folder100, split="test") for name in ("cifar100", "cifar100-super"))
    assert fine.class_names == tuple(CIFAR_FINE)
    assert coarse.class_names == tuple(CIFAR_COARSE)
    np.testing.assert_array_equal(np.asarray(fine.x), np.asarray(coarse.x))
    assert fine.attributes["superclass"].tolist() == coarse.labels.tolist()
    assert coarse.attributes["fine class"].tolist() == fine.labels.tolist()
    assert fine.y.tolist() == cifar100_records()["test"]["fine_labels"]
    assert fine.fingerprint != coarse.fingerprint
    assert len(load("cifar100", root=folder100)) == 12


def test_files_downloaded_for_one_of_the_two_serve_the_other():
    write_cifar(data_folder("cifar100-super"), CIFAR_100, cifar100_records())
    assert len(load("cifar100")) == 12
    write_cifar(data_folder("cifar100"), CIFAR_100, cifar100_records())
    (data_folder("cifar100-super") / CIFAR_100).rename(data_folder("cifar100-super").with_name("unused"))
    data_folder("cifar100-super").rmdir()
    assert len(load("cifar100-super")) == 12


def test_batches_that_exist_are_read_and_counted_in_a_note(folder10):
    for name in ("data_batch_2", "data_batch_5"):
        (folder10 / name).unlink()
    dataset = load("cifar10", root=folder10)
    assert len(dataset) == 12
    assert dataset.notes == ("Not the official files: 9 of 50,000 training and 3 of 10,000 test images.",)


def test_an_archive_with_an_official_name_and_other_content_is_read_with_a_note(folder10, tmp_path):
    notes = load("cifar10", root=packed(folder10, tmp_path / "cifar-10-python.tar.gz")).notes
    assert notes[0].startswith("cifar-10-python.tar.gz differs from the published checksum")
    assert notes[1] == "Not the official archive: 15 of 50,000 training and 3 of 10,000 test images."


def test_a_malicious_batch_is_refused_by_name_and_leaves_no_cache(tmp_path, cache):
    marker = tmp_path / "marker"
    evil = f"cos\nsystem\n(Vtouch {marker}\ntR.".encode()
    folder = write_cifar(tmp_path, "x", {**cifar10_records(), "data_batch_4": evil})
    for root in (folder, packed(folder, tmp_path / "cifar-10-python.tar.gz")):
        with pytest.raises(UntrustedError, match=r"data_batch_4 asks for os\.system"):
            load("cifar10", root=root)
    assert not marker.exists()
    assert list(cache.rglob("*.npy")) == []
