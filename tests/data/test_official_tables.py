"""Adult, COMPAS and German credit. Broken files are in `tests/spec/refusals/datasets.py`."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.dataset import Dataset
from tests.data.files import pack
from tests.data.official_layouts import ADULT_TRAIN, write_adult, write_compas, write_german


def feature(dataset: Dataset, name: str) -> list[float]:
    column: list[float] = np.asarray(dataset.x)[:, dataset.feature_names.index(name)].tolist()
    return column


def groups(dataset: Dataset, attribute: str) -> dict[str, int]:
    partition = dataset.partition(attribute)
    return dict(zip(partition.labels, partition.sizes.tolist(), strict=True))


def columns(dataset: Dataset) -> set[str]:
    return {name.partition("=")[0] for name in dataset.feature_names}


def test_adult_is_read_despite_its_comment_line_periods_and_question_marks(tmp_path: Path) -> None:
    adult = load("adult", root=write_adult(tmp_path))
    assert adult.y.tolist() == [0, 1, 0, 0, 1]
    assert adult.labels.tolist() == ["<=50K", ">50K", "<=50K", "<=50K", ">50K"]
    assert feature(adult, "age") == [39, 50, 22, 63, 25]
    assert feature(adult, "workclass=missing") == [0, 1, 0, 0, 0]
    assert feature(adult, "native-country=Cuba") == [1, 0, 1, 0, 1]
    assert adult.attributes["sex"].tolist() == ["Male", "Male", "Female", "Female", "Male"]
    assert adult.attributes["age_group"].tolist() == ["25–39", "40–59", "0–24", "60+", "25–39"]
    assert any("1 of 5 rows" in note and "missing" in note for note in adult.notes)
    assert sum("differs from the official file" in note for note in adult.notes) == 2
    assert columns(adult).isdisjoint({"sex", "race", "fnlwgt", "education", "income"})
    assert "education-num" in columns(adult)


def test_both_splits_of_adult_have_the_features_of_all_rows_and_the_scale_of_the_training_rows(tmp_path: Path) -> None:
    root = write_adult(tmp_path)
    whole, train, test = (load("adult", root=root, split=split) for split in ("all", "train", "test"))
    assert (len(train), len(test)) == (3, 2)
    # Peru occurs in the test file only; it is constant in training and hence immutable.
    assert "native-country=Peru" in train.feature_names
    assert train.feature_names == test.feature_names == whole.feature_names
    age, peru = (whole.feature_names.index(name) for name in ("age", "native-country=Peru"))
    for dataset in (whole, train, test):
        assert dataset.domain.scale[age] == pytest.approx(np.std([39, 50, 22]))
        assert dataset.domain.scale[peru] == 0
        assert any("native-country=Peru" in note and "immutable" in note for note in dataset.notes)


def test_people_of_unknown_sex_are_a_group_of_their_own(tmp_path: Path) -> None:
    adult = load("adult", root=write_adult(tmp_path, ADULT_TRAIN.replace("White, Female", "White, ?")))
    assert groups(adult, "sex") == {"Female": 1, "Male": 3, "missing": 1}


def test_compas_keeps_the_people_whom_propublica_kept(tmp_path: Path) -> None:
    (tmp_path / "dos").mkdir()
    compas, dos = (
        load("compas", root=root) for root in (write_compas(tmp_path), write_compas(tmp_path / "dos", end="\r\n"))
    )
    assert feature(compas, "age") == [69, 34, 24, 50, 51]
    assert feature(compas, "priors_count") == [7, 2, 4, 1, 1]  # the first of two columns with this name
    assert compas.y.tolist() == [0, 1, 1, 0, 0]
    assert groups(compas, "race") == {"Hispanic": 1, "Other": 3, "missing": 1}
    assert not [name for name in compas.feature_names if "score" in name or name.startswith(("sex", "race"))]
    assert compas.fingerprint == dos.fingerprint


def test_german_credit_replaces_codes_by_their_meanings(tmp_path: Path) -> None:
    credit = load("german-credit", root=write_german(tmp_path))
    assert credit.labels.tolist() == ["good", "bad", "good", "good", "good"]
    assert feature(credit, "duration_months") == [6, 48, 12, 24, 24]
    assert feature(credit, "purpose=other") == [0, 1, 0, 0, 0]
    assert feature(credit, "checking=none") == [0, 0, 1, 1, 0]
    assert credit.attributes["sex"].tolist() == ["male", "female", "male", "female", "male"]
    young, old = "25 or younger", "over 25"
    assert credit.attributes["age_group"].tolist() == [old, young, old, young, young]
    assert credit.attributes["foreign_worker"].tolist() == ["yes", "yes", "no", "yes", "yes"]
    assert columns(credit).isdisjoint({"sex", "age", "age_group", "foreign_worker", "risk"})
    assert len(columns(credit)) == 17


WRITERS: dict[str, Callable[[Path], Path]] = {
    "adult": write_adult,
    "compas": write_compas,
    "german-credit": write_german,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_root_may_be_the_folder_its_parent_a_table_or_an_archive(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "above" / name
    folder.mkdir(parents=True)
    WRITERS[name](folder)
    archive = pack(tmp_path / f"{name}.zip", {f"{name}/{file.name}": file.read_bytes() for file in folder.iterdir()})
    roots = (folder, folder.parent, archive, *folder.iterdir())
    assert len({load(name, root=root).fingerprint for root in roots}) == 1
