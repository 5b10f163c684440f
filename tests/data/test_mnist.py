import gzip
import re
import shutil
import struct
import zipfile
from hashlib import md5
from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.fetch.cache import FOLDER_VARIABLE
from fairmargin.data.sets import mnist
from fairmargin.data.sets.mnist import read_idx
from fairmargin.errors import InputError

SHARED = Path(__file__).parents[3] / "shared" / "data"
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
DIGITS_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
DIGITS_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
TRAIN, TEST = 12, 5


def idx(array: np.ndarray) -> bytes:
    axes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + axes + array.astype(np.uint8).tobytes()


def four(seed: int = 0) -> dict[str, bytes]:
    rng = np.random.RandomState(seed)
    return {
        "train-images-idx3-ubyte": idx(rng.randint(0, 256, (TRAIN, 28, 28))),
        "train-labels-idx1-ubyte": idx(np.arange(TRAIN) % 10),
        "t10k-images-idx3-ubyte": idx(rng.randint(0, 256, (TEST, 28, 28))),
        "t10k-labels-idx1-ubyte": idx(np.arange(TEST)[::-1]),
    }


def write(folder: Path, files: dict[str, bytes], zipped: bool = True) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / (f"{name}.gz" if zipped else name)).write_bytes(gzip.compress(content) if zipped else content)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_train_comes_before_test_and_every_image_bears_its_label(name, tmp_path):
    files = four()
    folder = write(tmp_path / "files", files)
    images = [
        np.frombuffer(files[file][16:], np.uint8).reshape(-1, 1, 28, 28).astype(np.float32) / np.float32(255)
        for file in ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte")
    ]
    train, test, both = (load(name, root=folder, split=split) for split in ("train", "test", "all"))
    np.testing.assert_array_equal(np.asarray(train.x), images[0])
    np.testing.assert_array_equal(np.asarray(test.x), images[1])
    np.testing.assert_array_equal(np.asarray(both.x), np.concatenate(images))
    assert train.y.tolist() == [*range(10), 0, 1]
    assert test.y.tolist() == [4, 3, 2, 1, 0]
    assert both.y.tolist() == [*train.y, *test.y]
    assert test.class_names == (CLOTHES if name == "fashion-mnist" else tuple("0123456789"))
    assert (test.domain.low, test.domain.high) == (0, 1)


def test_gzipped_plain_dotted_and_packed_files_give_the_same_fingerprint(tmp_path):
    files = four()
    dotted = {name.replace("-idx", ".idx"): content for name, content in files.items()}
    packed = tmp_path / "mnist.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"anything/{name}", content)
    roots = [
        write(tmp_path / "a", files),
        write(tmp_path / "b", files, zipped=False),
        write(tmp_path / "c", dotted, zipped=False),
        write(tmp_path / "d", dotted),
        packed,
    ]
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
def test_each_finds_its_own_files_beside_those_of_the_other(name, place, tmp_path):
    other = {"mnist": "FashionMNIST/raw", "fashion-mnist": "mnist"}[name]
    own = write(tmp_path / "data" / place, four(1))
    write(tmp_path / "data" / other, four(2))
    write(tmp_path / "data" / "KMNIST", four(3))
    expected = load(name, root=own, split="test").fingerprint
    assert load(name, root=tmp_path / "data", split="test").fingerprint == expected
    if place.endswith("raw"):
        assert load(name, root=own.parent, split="test").fingerprint == expected


def test_files_of_another_dataset_below_the_root_are_not_taken(tmp_path):
    write(tmp_path / "data" / "fashion-mnist", four())
    with pytest.raises(InputError, match=r"No files of mnist at .* Put train-images-idx3-ubyte\.gz, "):
        load("mnist", root=tmp_path / "data")


def test_files_at_the_root_go_before_files_below_it(tmp_path):
    root = write(tmp_path / "data", four(1), zipped=False)
    write(root / "fashion-mnist", four(2))
    expected = load("mnist", root=write(tmp_path / "alone", four(1)), split="test").fingerprint
    assert load("mnist", root=root, split="test").fingerprint == expected


def test_the_second_load_decodes_nothing(tmp_path, monkeypatch):
    folder = write(tmp_path / "files", four())
    first = load("mnist", root=folder)

    def never(*_):
        raise AssertionError("decoded again")

    monkeypatch.setattr(mnist, "read_idx", never)
    assert load("mnist", root=folder).fingerprint == first.fingerprint
    with pytest.raises(AssertionError, match="decoded again"):
        load("mnist", root=folder, size=14)


def test_images_are_resized_on_load(tmp_path):
    dataset = load("mnist", root=write(tmp_path / "files", four()), size=14, split="test")
    assert dataset.x.shape == (TEST, 1, 14, 14)
    assert "Images were resized from 28×28 to 14×14 pixels (bilinear)." in dataset.notes


def test_files_that_are_not_as_published_are_noted(tmp_path):
    notes = load("mnist", root=write(tmp_path / "files", four())).notes
    assert notes[0].startswith("Not as published (checksum differs): train-images-idx3-ubyte, train-labels-idx1-ubyte")


def test_the_files_of_the_other_dataset_are_noted(tmp_path, monkeypatch):
    files = four()
    sums = tuple(md5(content).hexdigest() for content in files.values())
    variants = {**mnist._VARIANTS, "fashion-mnist": mnist._Variant(("fashionmnist",), sums, CLOTHES)}
    monkeypatch.setattr(mnist, "_VARIANTS", variants)
    folder = write(tmp_path / "files", files)
    assert load("mnist", root=folder).notes[0].startswith("The files belong to fashion-mnist, not to mnist")
    assert load("fashion-mnist", root=folder).notes == ()


@pytest.mark.parametrize("kept", ["train", "test"])
def test_one_split_is_enough_for_itself_only(kept, tmp_path):
    prefix, other = {"train": ("train", "t10k"), "test": ("t10k", "train")}[kept]
    folder = write(tmp_path / "x", {name: content for name, content in four().items() if name.startswith(prefix)})
    assert len(load("mnist", root=folder, split=kept)) == (TRAIN if kept == "train" else TEST)
    for split in ({"train", "test"} - {kept}) | {"all"}:
        with pytest.raises(InputError, match=rf"x lacks {other}-images-idx3-ubyte and {other}-labels-idx1-ubyte"):
            load("mnist", root=folder, split=split)


@pytest.mark.parametrize("lost", four())
def test_a_missing_file_is_named(lost, tmp_path):
    folder = write(tmp_path / "x", {name: content for name, content in four().items() if name != lost})
    with pytest.raises(InputError, match=rf"x lacks {lost} "):
        load("mnist", root=folder)


@pytest.mark.parametrize("length", [5, 40, -10, -4])
def test_a_gz_file_that_is_cut_short_is_named(length, tmp_path):
    folder = write(tmp_path / "x", four())
    file = folder / "t10k-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(InputError, match=r"t10k-images-idx3-ubyte\.gz cannot be decompressed .*download it again"):
        load("mnist", root=folder)


def test_a_gz_file_with_a_changed_byte_is_named(tmp_path):
    folder = write(tmp_path / "x", four())
    file = folder / "t10k-images-idx3-ubyte.gz"
    content = bytearray(file.read_bytes())
    content[-6] ^= 0xFF  # in the checksum
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"t10k-images-idx3-ubyte\.gz cannot be decompressed \(CRC"):
        load("mnist", root=folder)


IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        (
            IMAGES,
            four()[LABELS],
            rf"{IMAGES} is not an idx file of images: .* magic number 2,051 but begins with 2,049",
        ),
        (
            LABELS,
            four()[IMAGES],
            rf"{LABELS} is not an idx file of labels: .* magic number 2,049 but begins with 2,051",
        ),
        (IMAGES, b"<html>Not found</html>", rf"{IMAGES} is not an idx file of images"),
        (IMAGES, b"", rf"{IMAGES} is not an idx file of images: .* begins with nothing"),
        (IMAGES, four()[IMAGES][:10], rf"{IMAGES} is truncated"),
        (IMAGES, four()[IMAGES][:-1], rf"{IMAGES} is truncated: it has 3,919 bytes .* 5 × 28 × 28"),
        (IMAGES, four()[IMAGES] + b"!", rf"{IMAGES} has more than the 3,920 bytes"),
        (IMAGES, idx(np.zeros((TEST, 27, 28))), rf"{IMAGES}: expected images of 28×28 pixels, found 27×28"),
        (IMAGES, idx(np.zeros((4, 28, 28))), rf"{LABELS} has 5 labels but .*{IMAGES} has 4 images"),
        (LABELS, idx(np.array([1, 2, 3, 10, 4])), rf"{LABELS}: image 3 has the label 10; expected labels from 0 to 9"),
        (IMAGES, bytes([0, 0, 8, 3]) + b"\xff" * 12, rf"{IMAGES} announces 79,\d"),
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_what_does_not_fit_is_named_with_its_file(file, content, sentence, zipped, tmp_path):
    folder = write(tmp_path / "x", {**four(), file: content}, zipped)
    with pytest.raises(InputError) as refusal:
        load("mnist", root=folder)
    assert re.search(sentence, str(refusal.value).replace(".gz", ""))


def test_no_images_at_all_are_named(tmp_path):
    files = {**four(), IMAGES: idx(np.zeros((0, 28, 28))), LABELS: idx(np.zeros(0))}
    with pytest.raises(InputError, match="holds no images"):
        load("mnist", root=write(tmp_path / "x", files))


def test_a_gz_file_that_swells_is_unpacked_no_further_than_it_announces():
    bomb = gzip.compress(idx(np.arange(3)) + bytes(50_000_000))
    with pytest.raises(InputError, match="labels has more than the 3 bytes"):
        read_idx(bomb, "labels", 1)


def test_progress_is_told(tmp_path):
    told = []
    load("mnist", root=write(tmp_path / "x", four()), progress=lambda *step: told.append(step))
    assert ("Decompressing t10k-images-idx3-ubyte", 1, 4) in told
    assert told[-1] == ("Writing the decoded images", TRAIN + TEST, TRAIN + TEST)


shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not beside the project")


@pytest.mark.shared
@shared
def test_the_shared_mnist_is_complete_and_official():
    for split, counts in (("train", DIGITS_TRAIN), ("test", DIGITS_TEST)):
        dataset = load("mnist", root=SHARED, split=split)
        assert np.bincount(dataset.y).tolist() == counts
        assert dataset.notes == ()


@pytest.mark.shared
@shared
def test_the_shared_fashion_mnist_is_complete_and_official(tmp_path):
    for split, count in (("train", 6000), ("test", 1000)):
        dataset = load("fashion-mnist", root=SHARED, split=split)
        assert dict(zip(*np.unique(dataset.labels, return_counts=True), strict=True)) == dict.fromkeys(CLOTHES, count)
        assert dataset.notes == ()
    folder = tmp_path / "mistaken"
    shutil.copytree(SHARED / "fashion-mnist", folder)
    assert "not to mnist" in load("mnist", root=folder, split="test").notes[0]


@pytest.mark.shared
@shared
@pytest.mark.parametrize("card", [mnist.MNIST, mnist.FASHION_MNIST])
def test_the_published_checksums_are_those_of_the_shared_files(card):
    folder = SHARED / ("mnist" if card is mnist.MNIST else "fashion-mnist")
    for file in card.files:
        assert md5((folder / file.name).read_bytes()).hexdigest() == file.md5
