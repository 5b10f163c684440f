"""The real files in ../shared have the numbers of samples that their authors published, or that their readme states."""

from functools import cache
from hashlib import md5

import numpy as np
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.dataset import Dataset
from fairmargin.data.sets import mnist
from tests.data.files import SHARED, shared, write
from tests.data.official_layouts import CIFAR_NAMES

pytestmark = [*shared, pytest.mark.usefixtures("kept_cache")]

CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
RACES = ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")
AGES = ("0–2", "4–6", "8–13", "15–20", "25–32", "38–43", "48–53", "60+")
FACES = ("White", "Black", "Asian", "Indian", "Others")
DECADES = ("0–9", "10–19", "20–29", "30–39", "40–49", "50–59", "60–69", "70–79", "80+")
PEOPLE = ("African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other")
DIGITS = tuple("0123456789")


def counts(names: tuple[str, ...] | list[str], *numbers: int) -> dict[str, int]:
    return dict(zip(names, numbers, strict=True))


@cache
def real(name: str, split: str, task: str | None) -> Dataset:
    return load(name, root=SHARED, split=split, task=task)


@pytest.mark.parametrize(
    ("name", "split", "task", "by", "expected"),
    [
        ("adult", "train", None, "sex", {"Female": 10_771, "Male": 21_790}),
        ("adult", "test", None, "sex", {"Female": 5_421, "Male": 10_860}),
        ("adult", "train", None, "race", counts(RACES, 311, 1_039, 3_124, 271, 27_816)),
        ("adult", "test", None, "race", counts(RACES, 159, 480, 1_561, 135, 13_946)),
        ("adult", "train", None, "class", {"<=50K": 24_720, ">50K": 7_841}),
        ("adult", "test", None, "class", {"<=50K": 12_435, ">50K": 3_846}),
        ("compas", "all", None, "sex", {"Female": 1_175, "Male": 4_997}),
        ("compas", "all", None, "race", counts(PEOPLE, 3_175, 31, 2_103, 509, 11, 343)),
        ("compas", "all", None, "class", {"new charge": 2_809, "no new charge": 3_363}),
        ("german-credit", "all", None, "class", {"bad": 300, "good": 700}),
        ("german-credit", "all", None, "sex", {"female": 310, "male": 690}),
        ("german-credit", "all", None, "age_group", {"25 or younger": 190, "over 25": 810}),
        ("german-credit", "all", None, "foreign_worker", {"no": 37, "yes": 963}),
        ("mnist", "train", None, "class", counts(DIGITS, 5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)),
        ("mnist", "test", None, "class", counts(DIGITS, 980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)),
        ("fashion-mnist", "train", None, "class", dict.fromkeys(CLOTHES, 6000)),
        ("fashion-mnist", "test", None, "class", dict.fromkeys(CLOTHES, 1000)),
        ("cifar10", "train", None, "class", dict.fromkeys(CIFAR_NAMES, 1500)),
        ("cifar10", "test", None, "class", dict.fromkeys(CIFAR_NAMES, 1000)),
        ("utkface", "all", "age5", "gender", {"male": 12_391, "female": 11_314}),
        ("utkface", "all", "age5", "race", counts(FACES, 10_078, 4_526, 3_434, 3_975, 1_692)),
        (
            *("utkface", "all", "age5", "class"),
            counts(("0–14", "15–24", "25–39", "40–59", "60+"), 3_651, 3_252, 9_570, 4_544, 2_688),
        ),
        (
            *("utkface", "all", "age9", "class"),
            counts(DECADES, 3_062, 1_531, 7_344, 4_536, 2_245, 2_299, 1_316, 699, 673),
        ),
        ("adience", "all", "age", "class", counts(AGES, 238, 258, 6, 10, 878 + 72, 71, 22, 30)),
        ("adience", "all", "age", "fold", {"0": 1_585}),
        ("adience", "all", "gender", "class", {"male": 949, "female": 636}),
    ],
)
def test_groups_have_the_published_sizes(name: str, split: str, task: str | None, by: str, expected: dict) -> None:
    partition = real(name, split, task).partition(by)
    assert dict(zip(partition.labels, partition.sizes.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mnist", ""),
        ("fashion-mnist", ""),
        ("compas", "differs from the official file"),  # this copy has its identifiers blanked
        ("cifar10", "Not the official archive: 15,000 of 50,000 training and 10,000 of 10,000 test images."),
        ("utkface", "61_1_20170109142408075.jpg.chip.jpg, 61_1_20170109150557335.jpg.chip.jpg"),
        ("adience", "1 of 1,586 faces are left out of task 'age'"),
    ],
)
def test_files_that_are_not_as_published_are_noted(name: str, words: str) -> None:
    notes = real(name, "all", None).notes
    assert any(words in note for note in notes) if words else notes == ()


@pytest.mark.parametrize(
    ("name", "split", "shape"),
    [
        ("adult", "all", (48_842, 84)),
        ("utkface", "all", (23_705, 3, 64, 64)),
        ("utkface", "train", (18_964, 3, 64, 64)),
        ("utkface", "test", (4_741, 3, 64, 64)),
        ("adience", "all", (1_585, 3, 128, 128)),
    ],
)
def test_samples_have_the_published_number_and_shape(name: str, split: str, shape: tuple[int, ...]) -> None:
    assert real(name, split, None).x.shape == shape


@pytest.mark.parametrize(("split", "incomplete"), [("train", 2_399), ("test", 1_221)])
def test_adult_has_the_published_number_of_incomplete_rows(split: str, incomplete: int) -> None:
    adult = real("adult", split, None)
    missing = [i for i, name in enumerate(adult.feature_names) if name.endswith("=missing")]
    assert int(np.asarray(adult.x)[:, missing].any(axis=1).sum()) == incomplete
    assert not [note for note in (*adult.notes, *real("german-credit", "all", None).notes) if "official" in note]


@pytest.mark.parametrize(("name", "floor"), [("adult", 0.84), ("compas", 0.64), ("german-credit", 0.7)])
def test_a_logistic_regression_of_the_training_split_predicts_the_test_split(name: str, floor: float) -> None:
    from sklearn.linear_model import LogisticRegression

    train, test = (real(name, split, None) for split in ("train", "test"))
    step = np.where(train.domain.scale > 0, train.domain.scale, 1.0)
    model = LogisticRegression(max_iter=500).fit(np.asarray(train.x) / step, train.y)
    assert model.score(np.asarray(test.x) / step, test.y) > floor


def test_cifar10_has_the_published_order_and_cifar100_five_classes_in_each_superclass() -> None:
    assert real("cifar10", "test", None).y[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]  # cat, ship, ship, airplane
    assert len(load("cifar10", root=SHARED / "cifar-10-python-subset.tar.xz")) == 25_000
    for split in ("train", "test"):
        fine, coarse = (real(name, split, None) for name in ("cifar100", "cifar100-super"))
        assert fine.partition("class").sizes.tolist() == [50] * 100
        assert fine.partition("superclass").sizes.tolist() == coarse.partition("class").sizes.tolist() == [250] * 20
        assert len({*zip(fine.labels.tolist(), coarse.labels.tolist(), strict=True)}) == 100
    assert {"people", "trees", "vehicles_1"} < set(coarse.class_names)


def test_the_people_of_adience_are_in_one_split_and_all_ages_in_both() -> None:
    train, test = (real("adience", split, "gender") for split in ("train", "test"))
    assert len(set(real("adience", "all", "gender").attributes["person"])) in (92, 93)
    assert not set(train.attributes["person"]) & set(test.attributes["person"])
    # A few people have hundreds of photographs each: a random draw tested 238 faces of an age without training samples.
    ages = [np.bincount(real("adience", split, "age").y, minlength=8) for split in ("train", "test")]
    assert (ages[1] <= ages[0]).all()


@pytest.mark.parametrize(("folder", "card"), [("mnist", mnist.MNIST), ("fashion-mnist", mnist.FASHION_MNIST)])
def test_the_checksums_of_mnist_on_the_cards_are_those_of_the_files(folder: str, card: mnist.Card, tmp_path) -> None:
    files = {file.name: (SHARED / folder / file.name).read_bytes() for file in card.files}
    assert [md5(content).hexdigest() for content in files.values()] == [file.md5 for file in card.files]
    other = {"mnist": "fashion-mnist", "fashion-mnist": "mnist"}[folder]
    (note,) = load(other, root=write(tmp_path / "mistaken", files), split="test").notes
    assert note.startswith(f"The files belong to {folder}, not to {other}")
