"""Tables and arrays in files. What is refused is in `tests/spec/refusals/data.py`."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.formats.files import load_file, read_table
from fairmargin.errors import InputError

CSV = """age,job,sex,member,site,hired
31,nurse,F,True,1,yes
54,cook,M,False,1,no
40,,F,True,1,yes
22, cook ,M,False,1,no
"""


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return path


def test_a_table_becomes_named_features(people: Path) -> None:
    dataset = load(str(people), label="hired", attributes=["sex"])
    assert dataset.feature_names == ("age", "job=cook", "job=missing", "job=nurse", "member", "site")
    expected = [[31, 0, 0, 1, 1, 1], [54, 1, 0, 0, 0, 1], [40, 0, 1, 0, 1, 1], [22, 1, 0, 0, 0, 1]]
    np.testing.assert_array_equal(np.asarray(dataset.x), expected)
    assert dataset.y.tolist() == ["yes", "no", "yes", "no"]
    assert dataset.attributes["sex"].tolist() == ["F", "M", "F", "M"]
    assert dataset.name == "people.csv"


def test_all_formats_of_tables_give_the_same_dataset(people: Path) -> None:
    table = pd.read_csv(people)
    table.to_csv(people.with_suffix(".csv.gz"), index=False)
    table.to_csv(people.with_suffix(".tsv"), index=False, sep="\t")
    table.to_parquet(people.with_suffix(".parquet"))
    table.astype({"job": "category", "age": "Int64"}).to_parquet(people.with_suffix(".typed.parquet"))
    suffixes = (".csv", ".csv.gz", ".tsv", ".parquet", ".typed.parquet")
    assert len({load_file(people.with_suffix(suffix), label="hired").fingerprint for suffix in suffixes}) == 1


def test_numbers_are_read_to_the_last_bit(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=2_000) * 1e-7
    pd.DataFrame({"a": numbers, "y": 0}).to_csv(tmp_path / "a.csv", index=False)
    np.testing.assert_array_equal(np.asarray(load_file(tmp_path / "a.csv", label="y").x)[:, 0], numbers)


def test_an_attribute_is_a_feature_only_if_listed(people: Path) -> None:
    assert load_file(people, label="hired", attributes=["sex"], features=["age"]).feature_names == ("age",)
    both = load_file(people, label="hired", attributes=["sex"], features=["sex", "age"])
    assert both.feature_names == ("sex=F", "sex=M", "age")


def test_the_unit_of_length_of_a_table_is_the_standard_deviation_by_default(people: Path) -> None:
    dataset = load_file(people, label="hired", attributes=["sex"])
    np.testing.assert_allclose(dataset.domain.scale, np.asarray(dataset.x).std(axis=0))
    assert load_file(people, label="hired", scale="none").domain.scale.shape == ()


def test_a_constant_column_is_immutable_despite_rounding(tmp_path: Path) -> None:
    pd.DataFrame({"a": [0.1] * 3, "b": range(3), "y": 0}).to_csv(tmp_path / "a.csv", index=False)
    dataset = load_file(tmp_path / "a.csv", label="y")
    assert np.full((3, 2), 0.1).std(axis=0)[0] > 0  # rounding gives the constant column a deviation above 0
    assert dataset.domain.movable(2).tolist() == [False, True]
    assert "Constant in this file, hence immutable: a." in dataset.notes


def test_notes_say_how_the_features_were_processed(people: Path) -> None:
    notes = " ".join(load_file(people, label="hired", attributes=["sex"]).notes)
    assert "standard deviations of each feature" in notes
    assert "Categorical columns one-hot encoded: job." in notes
    assert "immutable: site." in notes
    assert "own units" in " ".join(load_file(people, label="hired", scale="none").notes)


def test_a_column_of_names_may_be_an_attribute_and_a_hundred_texts_are_categories(tmp_path: Path) -> None:
    table = pd.DataFrame({"name": [f"person {i}" for i in range(101)], "age": range(101), "y": 0})
    table.to_csv(tmp_path / "a.csv", index=False)
    table[:100].to_csv(tmp_path / "b.csv", index=False)
    assert load_file(tmp_path / "a.csv", label="y", attributes=["name"]).feature_names == ("age",)
    assert len(load_file(tmp_path / "b.csv", label="y").feature_names) == 101


def test_arrays_stay_unchanged_and_arrays_with_one_value_per_sample_become_attributes(tmp_path: Path) -> None:
    images, path = np.random.default_rng(0).random((5, 3, 4, 4)).astype("f4"), tmp_path / "data.npz"
    np.savez(path, x=images, y=np.arange(5), race=np.array(list("abcab")), weights=np.ones((2, 2)))
    dataset = load_file(path)
    np.testing.assert_array_equal(np.asarray(dataset.x), images)
    assert np.asarray(dataset.x).dtype == np.float32
    assert list(dataset.attributes) == ["race"]
    assert not dataset.domain.is_bounded
    assert float(dataset.domain.scale) == 1
    assert dataset.notes == ("Arrays without one value per sample were left out: weights.",)
    assert load_file(path, bounds=(0, 1)).domain.is_bounded
    assert load_file(path, scale="std").domain.scale.shape == (3, 4, 4)


def test_columns_without_a_name_may_repeat_and_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfid,sex.1,sex,,,y\n007,1,2,3,4,0\n1,3,2,4,4,1\n")
    table = read_table(tmp_path / "a.csv", as_text="id")
    assert list(table.columns)[:3] == ["id", "sex.1", "sex"]
    assert table["id"].tolist() == ["007", "1"]


def test_a_column_may_occur_twice_if_it_is_not_read_or_has_the_same_values(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,score,score,y\n1,2,3,0\n4,5,6,1\n", encoding="utf-8")
    assert load_file(tmp_path / "a.csv", label="y", features=["age"]).feature_names == ("age",)
    with pytest.raises(InputError, match="two columns named 'score'"):
        load_file(tmp_path / "a.csv", label="y", features=["age", "score"])
    (tmp_path / "b.csv").write_text("score,score,y\n2,2,0\n5,5,1\n", encoding="utf-8")
    assert load_file(tmp_path / "b.csv", label="y", features=["score"]).feature_names == ("score",)


def test_a_file_that_is_no_text_is_refused_even_if_its_first_row_could_be_read(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b"age,sex\n30,F,x\n" + bytes(range(256)) * 10)
    with pytest.raises(InputError, match=r"people\.csv is not (a readable table|text in UTF-8)"):
        read_table(path)
    path.write_bytes(bytes(range(256)) * 10)
    with pytest.raises(InputError, match=r"people\.csv is not (a readable table|text in UTF-8)"):
        read_table(path)
