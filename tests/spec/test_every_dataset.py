"""What every dataset in the catalog keeps. Those that need files are asked only where the files are."""

import numpy as np
import pytest

from fairmargin.data.catalog import DATASETS, load
from fairmargin.data.dataset import Dataset
from fairmargin.errors import InputError


@pytest.fixture(params=sorted(DATASETS))
def name(request: pytest.FixtureRequest) -> str:
    try:
        load(request.param)
    except InputError as error:
        if request.param == "digits":
            raise
        pytest.skip(str(error))
    return str(request.param)


def rows(dataset: Dataset) -> list[bytes]:
    return [row.tobytes() + str(label).encode() for row, label in zip(np.asarray(dataset.x[:]), dataset.y, strict=True)]


def test_has_as_many_labels_and_attribute_values_as_samples(name: str) -> None:
    dataset = load(name)
    assert len(dataset) == len(dataset.y) > 0
    assert all(len(column) == len(dataset) for column in dataset.attributes.values())


def test_lies_inside_its_domain(name: str) -> None:
    dataset = load(name)
    assert dataset.domain.contains(np.asarray(dataset.x[:]), slack=0.0).all()


def test_has_the_same_fingerprint_whenever_it_is_loaded(name: str) -> None:
    assert load(name).fingerprint == load(name).fingerprint
    assert load(name, split="train").fingerprint != load(name, split="test").fingerprint


def test_has_attributes_by_which_groups_can_be_formed(name: str) -> None:
    dataset = load(name)
    assert dataset.attributes
    for attribute in (*dataset.attributes, "class"):
        partition = dataset.partition(attribute)
        assert len(partition) == len(dataset)
        assert len(partition.labels) > 1


def test_is_called_by_its_name(name: str) -> None:
    assert load(name).name == name


def test_is_cut_by_its_splits_without_loss_or_overlap(name: str) -> None:
    whole, train, test = (load(name, split=split) for split in ("all", "train", "test"))
    assert len(train) + len(test) == len(whole)
    assert sorted(rows(train) + rows(test)) == sorted(rows(whole))


def test_refuses_a_split_it_does_not_have(name: str) -> None:
    with pytest.raises(InputError, match="split"):
        load(name, split="tset")
