import io
import pickle
import tarfile
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.card import OfficialFile
from fairmargin.data.catalog import load
from fairmargin.data.fetch.cache import FOLDER_VARIABLE
from fairmargin.data.fetch.sources import data_folder
from fairmargin.data.sets import cifar
from fairmargin.errors import InputError, UntrustedError
from tests.data.python2_pickle import python2_pickle

SHARED = Path(__file__).parents[3] / "shared" / "data"
NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
FINE, COARSE = [f"fine_{i}" for i in range(100)], [f"coarse_{i}" for i in range(20)]
FOLDER_10, FOLDER_100 = "cifar-10-batches-py", "cifar-100-python"


def pixels(count: int, seed: int) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, 256, (count, 3072), dtype=np.uint8)


def cifar10_files(per_batch: int = 3) -> dict[str, dict]:
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    files = {
        name: {
            "batch_label": name,
            "labels": [(seed + i) % 10 for i in range(per_batch)],
            "data": pixels(per_batch, seed),
            "filenames": ["x.png"] * per_batch,
        }
        for seed, name in enumerate(names)
    }
    return {"batches.meta": {"num_cases_per_batch": per_batch, "label_names": NAMES, "num_vis": 3072}, **files}


def cifar100_files() -> dict[str, dict]:
    def batch(count: int, seed: int) -> dict:
        fine = [(7 * i + seed) % 100 for i in range(count)]
        coarse = [label % 20 for label in fine]
        return {"data": pixels(count, seed), "fine_labels": fine, "coarse_labels": coarse}

    meta = {"fine_label_names": FINE, "coarse_label_names": COARSE}
    return {"meta": meta, "train": batch(8, 1), "test": batch(4, 2)}


def write(root: Path, folder: str, files: dict[str, dict], dump=python2_pickle) -> Path:
    (root / folder).mkdir(parents=True)
    for name, record in files.items():
        content = record if isinstance(record, bytes) else dump(record)
        (root / folder / name).write_bytes(content)
    return root / folder


def pack(folder: Path, path: Path, mode: str) -> Path:
    with tarfile.open(path, mode) as tar:
        for file in sorted(folder.iterdir()):
            info = tarfile.TarInfo(f"{folder.name}/{file.name}")
            info.size = file.stat().st_size
            tar.addfile(info, io.BytesIO(file.read_bytes()))
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def folder10(tmp_path):
    return write(tmp_path / "ten", FOLDER_10, cifar10_files())


@pytest.fixture
def folder100(tmp_path):
    return write(tmp_path / "hundred", FOLDER_100, cifar100_files())


def test_train_comes_before_test_with_every_image_and_label_in_the_official_order(folder10):
    files = cifar10_files()
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    data = np.concatenate([files[name]["data"] for name in names]).reshape(-1, 3, 32, 32)
    labels = [label for name in names for label in files[name]["labels"]]
    for split, chosen in (("all", slice(None)), ("train", slice(0, 15)), ("test", slice(15, None))):
        dataset = load("cifar10", root=folder10, split=split)
        np.testing.assert_array_equal(np.asarray(dataset.x), data[chosen].astype(np.float32) / np.float32(255))
        assert dataset.y.tolist() == labels[chosen]
    assert dataset.class_names == tuple(NAMES)
    assert (dataset.domain.low, dataset.domain.high) == (0, 1)
    assert set(dataset.partition("class").labels) <= set(NAMES)


def test_the_planes_are_red_green_and_blue(tmp_path):
    files = cifar10_files(1)
    files["test_batch"]["data"] = np.repeat(np.array([255, 102, 0], dtype=np.uint8), 1024)[None]
    image = load("cifar10", root=write(tmp_path, "x", files), split="test").x[0]
    assert image.reshape(3, -1).mean(axis=1).tolist() == pytest.approx([1, 0.4, 0])


def test_folder_parent_and_archives_give_the_same_fingerprint(folder10, tmp_path):
    beside = tmp_path / "beside"
    beside.mkdir()
    roots = [
        folder10,
        folder10.parent,
        pack(folder10, tmp_path / "cifar-10-python.tar.gz", "w:gz"),
        pack(folder10, tmp_path / "renamed.tar", "w"),
        pack(folder10, beside / "cifar-10-python-subset.tar.xz", "w:xz").parent,
    ]
    datasets = [load("cifar10", root=root, split="test") for root in roots]
    assert len({dataset.fingerprint for dataset in datasets}) == 1
    for dataset in datasets:
        np.testing.assert_array_equal(np.asarray(dataset.x), np.asarray(datasets[0].x))


@pytest.mark.parametrize("dump", [python2_pickle, *(lambda v, p=p: pickle.dumps(v, p) for p in (0, 2, 4))])
def test_pickles_of_python_2_and_3_are_read_alike(tmp_path, dump):
    dataset = load("cifar10", root=write(tmp_path, "x", cifar10_files(), dump))
    reference = load("cifar10", root=write(tmp_path, "y", cifar10_files()))
    assert dataset.fingerprint == reference.fingerprint
    assert dataset.class_names == tuple(NAMES)


def test_the_second_load_decodes_nothing(folder10, tmp_path, monkeypatch):
    archive = pack(folder10, tmp_path / "cifar-10-python.tar.xz", "w:xz")
    first = [load("cifar10", root=root, split="test") for root in (folder10, archive)]

    def never(*_):
        raise AssertionError("decoded again")

    monkeypatch.setattr(cifar, "read_plain_pickle", never)
    again = [load("cifar10", root=root, split="test") for root in (folder10, archive)]
    assert [dataset.fingerprint for dataset in again] == [dataset.fingerprint for dataset in first]
    with pytest.raises(AssertionError, match="decoded again"):  # another size is another cache
        load("cifar10", root=folder10, size=16)


def test_a_changed_file_is_decoded_anew(folder10):
    before = load("cifar10", root=folder10, split="test")
    write(folder10.parent, "changed", {**cifar10_files(), "test_batch": cifar10_files()["data_batch_1"]})
    (folder10 / "test_batch").write_bytes((folder10.parent / "changed" / "test_batch").read_bytes())
    assert load("cifar10", root=folder10, split="test").fingerprint != before.fingerprint


def test_cifar100_has_classes_and_superclasses_of_the_same_images(folder100):
    fine, coarse = (load(name, root=folder100, split="test") for name in ("cifar100", "cifar100-super"))
    assert fine.class_names == tuple(FINE)
    assert coarse.class_names == tuple(COARSE)
    np.testing.assert_array_equal(np.asarray(fine.x), np.asarray(coarse.x))
    assert fine.attributes["superclass"].tolist() == coarse.labels.tolist()
    assert coarse.attributes["fine class"].tolist() == fine.labels.tolist()
    assert fine.y.tolist() == cifar100_files()["test"]["fine_labels"]
    assert fine.fingerprint != coarse.fingerprint
    assert len(load("cifar100", root=folder100)) == 12


def test_files_fetched_for_cifar100_serve_its_superclasses_too(tmp_path):
    write(data_folder("cifar100").parent, "cifar100", {})
    write(data_folder("cifar100"), FOLDER_100, cifar100_files())
    assert len(load("cifar100-super")) == len(load("cifar100")) == 12


def test_files_fetched_for_the_superclasses_serve_cifar100_too():
    write(data_folder("cifar100-super"), FOLDER_100, cifar100_files())
    assert len(load("cifar100")) == 12


def test_images_are_resized_on_load(folder10):
    small = load("cifar10", root=folder10, size=8, split="test")
    assert small.x.shape == (3, 3, 8, 8)
    assert "Images were resized from 32×32 to 8×8 pixels (bilinear)." in small.notes
    means = np.asarray(load("cifar10", root=folder10, split="test").x).mean(axis=(2, 3))
    np.testing.assert_allclose(np.asarray(small.x).mean(axis=(2, 3)), means, atol=0.02)


def test_whichever_batches_are_there_are_read_and_counted_in_a_note(folder10):
    for name in ("data_batch_2", "data_batch_5"):
        (folder10 / name).unlink()
    dataset = load("cifar10", root=folder10)
    assert len(dataset) == 12
    assert dataset.notes == ("Not the official files: 9 of 50,000 training and 3 of 10,000 test images.",)


@pytest.mark.parametrize(("lost", "split"), [("test_batch", "test"), ("data_batch", "train")])
def test_a_split_without_its_files_is_a_sentence(folder10, lost, split):
    for file in folder10.glob(f"{lost}*"):
        file.unlink()
    with pytest.raises(InputError, match=rf"{FOLDER_10} holds no {lost}.* no {split} split of cifar10"):
        load("cifar10", root=folder10, split=split)
    assert len(load("cifar10", root=folder10)) in (3, 15)


def test_an_official_name_with_another_content_is_noted_and_read_all_the_same(folder10, tmp_path, monkeypatch):
    archive = pack(folder10, tmp_path / "cifar-10-python.tar.gz", "w:gz")
    notes = load("cifar10", root=archive).notes
    assert notes[0].startswith("cifar-10-python.tar.gz differs from the published checksum")
    assert notes[1] == "Not the official archive: 15 of 50,000 training and 3 of 10,000 test images."
    genuine = OfficialFile("cifar-10-python.tar.gz", sha256=sha256(archive.read_bytes()).hexdigest())
    assert (
        cifar._notes(cifar.Source(archive), genuine.sha256, genuine, {"test": np.array([1]), "official": [1]}, 32) == ()
    )


def damaged(files: dict[str, dict], name: str, key: str, value: object) -> dict[str, dict]:
    files[name] = {k: v for k, v in {**files[name], key: value}.items() if v is not None}
    return files


@pytest.mark.parametrize(
    ("name", "key", "value", "sentence"),
    [
        ("data_batch_3", "labels", [1, 2], r"data_batch_3: 2 labels but 3 images"),
        ("data_batch_3", "labels", [1, 2, 10], r"data_batch_3: image 2 has the label 10 in 'labels'; .* 0 to 9"),
        ("test_batch", "labels", [1, -2, 3], r"test_batch: image 1 has the label -2"),
        ("test_batch", "labels", ["a", "b", "c"], r"test_batch: 'labels' is not a list of integers"),
        ("test_batch", "labels", None, r"test_batch has no 'labels', only batch_label, data, filenames"),
        ("test_batch", "data", None, r"test_batch has no 'data'"),
        ("test_batch", "data", [1, 2], r"test_batch: 'data' must be uint8 of shape \(n, 3072\); it is list"),
        ("test_batch", "data", np.zeros((3, 3071), np.uint8), r"test_batch: .* it is uint8 of shape \(3, 3071\)"),
        ("test_batch", "data", np.zeros((3, 3072), np.float32), r"test_batch: .* it is float32"),
        ("batches.meta", "label_names", NAMES[:9], r"batches.meta: expected 10 label_names, found 9"),
        ("batches.meta", "label_names", [1] * 10, r"batches.meta: label_names is not a list of names"),
    ],
)
def test_what_does_not_fit_is_named_with_its_file(tmp_path, name, key, value, sentence):
    folder = write(tmp_path, "x", damaged(cifar10_files(), name, key, value))
    with pytest.raises(InputError, match=sentence):
        load("cifar10", root=folder)


def test_a_batch_that_is_no_dictionary_is_named(tmp_path):
    with pytest.raises(InputError, match="test_batch holds a list; expected a dictionary"):
        load("cifar10", root=write(tmp_path, "x", {**cifar10_files(), "test_batch": python2_pickle([1])}))


def test_a_malicious_batch_is_refused_by_name_and_leaves_no_cache(tmp_path):
    marker = tmp_path / "marker"
    evil = f"cos\nsystem\n(Vtouch {marker}\ntR.".encode()
    folder = write(tmp_path, "x", {**cifar10_files(), "data_batch_4": evil})
    for root in (folder, pack(folder, tmp_path / "cifar-10-python.tar.gz", "w:gz")):
        with pytest.raises(UntrustedError, match=r"data_batch_4 asks for os\.system"):
            load("cifar10", root=root)
    assert not marker.exists()
    assert list((tmp_path / "cache").rglob("*.npy")) == []


@pytest.mark.parametrize("mode", ["w:gz", "w:xz"])
def test_an_archive_that_is_cut_short_is_named(folder10, tmp_path, mode):
    path = pack(folder10, tmp_path / "cifar-10-python.tar.gz", mode)
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(InputError, match=r"cifar-10-python\.tar\.gz cannot be read .*download it again"):
        load("cifar10", root=path)


def test_an_archive_of_another_dataset_is_a_sentence(folder100, tmp_path):
    path = pack(folder100, tmp_path / "cifar-100-python.tar.gz", "w:gz")
    with pytest.raises(InputError, match=r"holds none of data_batch_1, .* Is it the archive of another dataset"):
        load("cifar10", root=path)
    with pytest.raises(InputError, match=r"No files of cifar10 at .* Put cifar-10-python\.tar\.gz there"):
        load("cifar10", root=tmp_path / "hundred")


def test_a_lacking_list_of_names_and_a_file_twice_are_sentences(folder10, tmp_path):
    archive = tmp_path / "twice.tar"
    pack(folder10, archive, "w")
    with tarfile.open(archive, "a") as tar:
        tar.add(folder10 / "test_batch", "copy/test_batch")
    with pytest.raises(InputError, match=r"holds test_batch twice \(copy/test_batch is the second\)"):
        load("cifar10", root=archive)
    (folder10 / "batches.meta").unlink()
    with pytest.raises(InputError, match=r"has no batches\.meta, which names the classes"):
        load("cifar10", root=pack(folder10, tmp_path / "nameless.tar", "w"))


def test_progress_is_told(folder10):
    told = []
    load("cifar10", root=folder10, progress=lambda *step: told.append(step))
    assert told[0] == ("Decoding batches.meta", 1, 7)
    assert told[-1] == ("Writing the decoded images", 6, 6)


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cifar")


shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not beside the project")


@pytest.mark.shared
@shared
def test_the_shared_cifar10_has_the_counts_that_its_readme_states(shared_cache, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(shared_cache))
    train, test = (load("cifar10", root=SHARED, split=split) for split in ("train", "test"))
    assert dict(zip(*np.unique(train.labels, return_counts=True), strict=True)) == dict.fromkeys(NAMES, 1500)
    assert dict(zip(*np.unique(test.labels, return_counts=True), strict=True)) == dict.fromkeys(NAMES, 1000)
    assert test.notes == ("Not the official archive: 15,000 of 50,000 training and 10,000 of 10,000 test images.",)
    assert test.y[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]  # cat, ship, ship, airplane, …: as published
    assert len(load("cifar10", root=SHARED / "cifar-10-python-subset.tar.xz")) == 25_000


@pytest.mark.shared
@shared
def test_the_shared_cifar100_has_the_counts_that_its_readme_states(shared_cache, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(shared_cache))
    for split in ("train", "test"):
        fine, coarse = (load(name, root=SHARED, split=split) for name in ("cifar100", "cifar100-super"))
        assert fine.partition("class").sizes.tolist() == [50] * 100
        assert fine.partition("superclass").sizes.tolist() == coarse.partition("class").sizes.tolist() == [250] * 20
        assert len({*zip(fine.labels.tolist(), coarse.labels.tolist(), strict=True)}) == 100
    assert {"people", "trees", "vehicles_1"} < set(coarse.class_names)
