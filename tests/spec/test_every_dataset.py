"""Properties of every dataset in the catalog. Datasets with files are tested only if ../shared holds their files."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from fairmargin.data.card import SPLITS, Card
from fairmargin.data.catalog import DATASETS, load
from fairmargin.data.dataset import Dataset
from fairmargin.data.fetch.cache import FOLDER_VARIABLE
from fairmargin.data.samples import Pixels
from fairmargin.errors import InputError

SHARED = Path(__file__).parents[3] / "shared" / "data"
WHERE_FILES_ARE = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not beside the project"),
]
Loaded = Callable[..., Dataset]


def needs_files(name: str) -> bool:
    return bool(DATASETS[name].card.files)


@pytest.fixture(params=[pytest.param(n, marks=WHERE_FILES_ARE if needs_files(n) else ()) for n in sorted(DATASETS)])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def card(name: str) -> Card:
    return DATASETS[name].card


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """Return a function that loads each split of a task once; files are decoded once for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "every-dataset"
    folder.mkdir(exist_ok=True)
    known: dict[Any, Dataset] = {}

    def of(name: str, split: str = "all", task: str | None = None, *, again: bool = False) -> Dataset:
        key = (name, split, task or next(iter(DATASETS[name].card.tasks), ""))
        if again or key not in known:
            with FileLock(folder / f"{name}.lock"):
                dataset = load(name, root=SHARED if needs_files(name) else None, split=split, task=task)
            known[key] = dataset
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(folder))
        yield of


def rows(dataset: Dataset) -> Counter[bytes]:
    """Return a hash of each sample with its label; images are hashed as they are stored."""
    x: Any = dataset.x
    if isinstance(x, Pixels):
        stored, positions = x.stored, np.arange(len(x.stored)) if x.rows is None else x.rows
        samples = (stored[position] for position in positions)
    else:
        samples = iter(np.asarray(x))
    return Counter(
        blake2b(np.ascontiguousarray(sample).tobytes() + str(label).encode(), digest_size=16).digest()
        for sample, label in zip(samples, dataset.y, strict=True)
    )


def some_rows(dataset: Dataset) -> Any:
    """Return all samples of a table, and the first images, since bytes cannot leave the domain."""
    return np.asarray(dataset.x[:256] if isinstance(dataset.x, Pixels) else dataset.x[:])


def test_has_as_many_labels_and_attribute_values_as_samples(name: str, loaded: Loaded) -> None:
    dataset = loaded(name)
    assert len(dataset) == len(dataset.y) > 0
    assert all(len(column) == len(dataset) for column in dataset.attributes.values())


@pytest.mark.parametrize("split", SPLITS)
def test_lies_inside_its_domain_which_is_the_same_for_all_splits(name: str, split: str, loaded: Loaded) -> None:
    dataset = loaded(name, split)
    assert dataset.domain.contains(some_rows(dataset), slack=0.0).all()
    assert dataset.domain.fingerprint() == loaded(name).domain.fingerprint()
    assert dataset.feature_names == loaded(name).feature_names


def test_has_the_same_fingerprint_each_time_it_is_loaded(name: str, loaded: Loaded) -> None:
    assert loaded(name, "test").fingerprint == loaded(name, "test", again=True).fingerprint


def test_has_another_fingerprint_for_every_split_and_task(name: str, card: Card, loaded: Loaded) -> None:
    prints = [loaded(name, split, task).fingerprint for split in SPLITS for task in card.tasks or (None,)]
    assert len(set(prints)) == len(prints)


def test_has_groups_that_can_be_compared(name: str, card: Card, loaded: Loaded) -> None:
    dataset = loaded(name)
    partitions = [dataset.partition(group) for group in card.groups]
    assert all(len(partition) == len(dataset) for partition in partitions)
    # Some attributes may have a single value in a part of the data, such as one fold.
    assert any(len(partition.labels) > 1 for partition in partitions)
    assert len(dataset.partition("class").labels) > 1


def test_names_its_classes_for_every_task(name: str, card: Card, loaded: Loaded) -> None:
    for task in card.tasks or (None,):
        dataset = loaded(name, "all", task)
        assert dataset.y.dtype.kind in "iu"
        assert len(set(dataset.class_names)) == len(dataset.class_names) > 1
        assert dataset.y.min() >= 0
        assert dataset.y.max() < len(dataset.class_names)
        assert set(dataset.partition("class").labels) <= set(dataset.class_names)
        assert all(loaded(name, split, task).class_names == dataset.class_names for split in SPLITS)


def test_has_the_name_of_the_catalog(name: str, loaded: Loaded) -> None:
    assert loaded(name).name == name


def test_splits_divide_the_samples_without_loss_or_overlap(name: str, loaded: Loaded) -> None:
    whole, train, test = (loaded(name, split) for split in ("all", "train", "test"))
    assert min(len(train), len(test)) > 0
    assert len(train) + len(test) == len(whole)
    assert rows(train) + rows(test) == rows(whole)


def test_has_a_complete_card(name: str, card: Card) -> None:
    for sentence in (card.title, card.classes, card.split, card.licence, card.ethics, card.citation):
        assert len(sentence.split()) > 1, sentence
    assert "\n" not in card.title
    assert len({file.name for file in card.files}) == len(card.files)


def test_has_the_attributes_that_its_card_names_and_no_others(name: str, card: Card, loaded: Loaded) -> None:
    # Every dataset has groups by class, for which it needs no column.
    assert tuple(group for group in card.groups if group != "class") == tuple(loaded(name).attributes)


def test_refuses_a_split_or_a_task_it_does_not_have(name: str) -> None:
    with pytest.raises(InputError, match="split"):
        load(name, split="tset")
    with pytest.raises(InputError, match="task"):
        load(name, task="no such task")


@pytest.mark.parametrize("without", [n for n in sorted(DATASETS) if needs_files(n)])
def test_names_the_missing_files_and_their_folder(
    without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    for root in (None, tmp_path):
        with pytest.raises(InputError) as error:
            load(without, root=root)
        assert str(tmp_path) in str(error.value)
        assert all(file.name in str(error.value) for file in DATASETS[without].card.files)
        assert f"fairmargin data {without}" in str(error.value)
