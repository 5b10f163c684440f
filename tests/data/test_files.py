from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.formats.files import load_file
from fairmargin.errors import InputError

CSV = """age,job,sex,member,site,hired
31,nurse,F,True,1,yes
54,cook,M,False,1,no
40,,F,True,1,yes
22, cook ,M,False,1,no
"""
FEATURES = ("age", "job=cook", "job=missing", "job=nurse", "member", "site")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return path


def saved(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "data.npz", **arrays)  # type: ignore[arg-type]
    return folder / "data.npz"


# Tables


def test_a_table_becomes_named_features(people: Path) -> None:
    dataset = load_file(people, label="hired", attributes=["sex"])
    assert dataset.feature_names == FEATURES
    expected = [[31, 0, 0, 1, 1, 1], [54, 1, 0, 0, 0, 1], [40, 0, 1, 0, 1, 1], [22, 1, 0, 0, 0, 1]]
    np.testing.assert_array_equal(np.asarray(dataset.x), expected)
    assert dataset.y.tolist() == ["yes", "no", "yes", "no"]
    assert dataset.attributes["sex"].tolist() == ["F", "M", "F", "M"]
    assert dataset.name == "people.csv"


def test_every_kind_of_table_reads_alike(people: Path) -> None:
    table = pd.read_csv(people)
    table.to_csv(people.with_suffix(".csv.gz"), index=False)
    table.to_csv(people.with_suffix(".tsv"), index=False, sep="\t")
    table.to_parquet(people.with_suffix(".parquet"))
    table.astype({"job": "category", "age": "Int64"}).to_parquet(people.with_suffix(".typed.parquet"))
    fingerprints = {
        load_file(people.with_suffix(suffix), label="hired").fingerprint
        for suffix in (".csv", ".csv.gz", ".tsv", ".parquet", ".typed.parquet")
    }
    assert len(fingerprints) == 1


def test_numbers_are_read_to_the_last_bit(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).normal(size=2_000) * 1e-7
    pd.DataFrame({"a": numbers, "y": 0}).to_csv(tmp_path / "a.csv", index=False)
    np.testing.assert_array_equal(np.asarray(load_file(tmp_path / "a.csv", label="y").x)[:, 0], numbers)


def test_an_attribute_is_a_feature_only_if_listed(people: Path) -> None:
    assert load_file(people, label="hired", attributes=["sex"], features=["age"]).feature_names == ("age",)
    both = load_file(people, label="hired", attributes=["sex"], features=["sex", "age"])
    assert both.feature_names == ("sex=F", "sex=M", "age")


def test_a_step_of_length_one_is_a_standard_deviation_by_default(people: Path) -> None:
    dataset = load_file(people, label="hired", attributes=["sex"])
    np.testing.assert_allclose(dataset.domain.scale, np.asarray(dataset.x).std(axis=0))
    assert load_file(people, label="hired", scale="none").domain.scale.shape == ()


def test_a_constant_column_is_immutable_whatever_rounding_says(tmp_path: Path) -> None:
    pd.DataFrame({"a": [0.1] * 3, "b": range(3), "y": 0}).to_csv(tmp_path / "a.csv", index=False)
    dataset = load_file(tmp_path / "a.csv", label="y")
    assert np.full((3, 2), 0.1).std(axis=0)[0] > 0  # the trap
    assert dataset.domain.movable(2).tolist() == [False, True]
    assert "Constant in this file, hence immutable: a." in dataset.notes


def test_notes_say_what_was_done(people: Path) -> None:
    words = " ".join(load_file(people, label="hired", attributes=["sex"]).notes)
    assert "standard deviations of each feature" in words
    assert "Categorical columns one-hot encoded: job." in words
    assert "immutable: site." in words
    assert "own units" in " ".join(load_file(people, label="hired", scale="none").notes)


def test_a_column_of_names_is_refused_as_a_category(tmp_path: Path) -> None:
    table = pd.DataFrame({"name": [f"person {i}" for i in range(101)], "age": range(101), "y": 0})
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match=r"Column 'name' has 101 distinct texts in 101 rows .* Leave it out"):
        load_file(tmp_path / "a.csv", label="y")
    assert load_file(tmp_path / "a.csv", label="y", attributes=["name"]).feature_names == ("age",)
    table[:100].to_csv(tmp_path / "b.csv", index=False)
    assert len(load_file(tmp_path / "b.csv", label="y").feature_names) == 101


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, r"Which column of .*people.csv is the label\? .*There are: age, job, sex"),
        ({"label": "hird"}, r"no column 'hird' \(label\)\. Did you mean 'hired'\?"),
        ({"label": "hired", "attributes": ["Sex"]}, r"no column 'Sex' \(attribute\)\. Did you mean 'sex'\?"),
        ({"label": "hired", "features": ["aeg"]}, r"no column 'aeg' \(feature\)\. Did you mean 'age'\?"),
        ({"label": "hired", "features": ["hired"]}, "is the label and cannot also be a feature"),
        ({"label": "hired", "features": []}, "no column for features"),
        ({"label": "hired", "attributes": "sex"}, "lists of column names"),
        ({"label": "hired", "scale": "iqr"}, "must be 'std' or 'none'; given 'iqr'"),
        ({"label": "hired", "bounds": (0, 50)}, r"1 of 4 samples are outside `bounds`, first the one at index 1"),
        ({"label": "hired", "bounds": ([0, 0], 99)}, "low end of `bounds` has 2 numbers but a sample has 8 features"),
    ],
)
def test_options_that_do_not_fit_are_explained(people: Path, options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_file(people, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("a,y\n", "a header but no rows"),
        ("a,y\n1,0\n,1\n,1\n", r"Column 'a' has no number in 2 of 3 rows\. Drop these rows, fill them in"),
        ("a,y\n1,0\ninf,1\n", "Column 'a' holds infinity, first in row 2"),
        ("a,y\n1,0\n1,\n", "label 'y' is missing in 1 of 2 rows"),
        ("a;y\n1;0\n", "separator seems to be another character"),
        ("a,y\n1,0\n1,2,3,4\n", "not a readable table"),
        ("a, a,y\n1,2,0\n", "two columns named 'a'"),
        (b"a,y\n\xff\xfe,0\n", "UTF-8"),
    ],
)
def test_a_table_that_cannot_be_used_is_explained(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    (tmp_path / "a.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=sentence):
        load_file(tmp_path / "a.csv", label="y")


def test_dates_are_refused_as_features(tmp_path: Path) -> None:
    pd.DataFrame({"born": pd.to_datetime(["2001-01-01", "2002-01-01"]), "y": [0, 1]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="Column 'born' holds dates"):
        load_file(tmp_path / "a.parquet", label="y")


# Arrays


def test_arrays_stay_as_they_are_and_others_become_attributes(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((5, 3, 4, 4)).astype("f4")
    path = saved(tmp_path, x=images, y=np.arange(5), race=np.array(list("abcab")), weights=np.ones((2, 2)))
    dataset = load_file(path)
    np.testing.assert_array_equal(np.asarray(dataset.x), images)
    assert np.asarray(dataset.x).dtype == np.float32
    assert list(dataset.attributes) == ["race"]
    assert not dataset.domain.is_bounded
    assert float(dataset.domain.scale) == 1
    assert dataset.notes == ("Arrays without one value per sample were left out: weights.",)
    assert load_file(path, bounds=(0, 1)).domain.is_bounded
    assert load_file(path, scale="std").domain.scale.shape == (3, 4, 4)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"X": np.zeros((2, 2)), "y": np.zeros(2)}, r"no array 'x'\. Did you mean 'X'\?"),
        ({"x": np.zeros((2, 2)), "labels": np.zeros(2)}, r"no array 'y'\. There are: x, labels"),
        ({"x": np.zeros((2, 2)), "y": np.zeros(3)}, r"data\.npz: `y` has 3 labels but `x` has 2 samples"),
        ({"x": np.zeros(2), "y": np.zeros(2)}, "one row per sample"),
        ({"x": np.full((2, 2), np.nan), "y": np.zeros(2)}, "NaN or infinity"),
        ({"x": np.zeros((2, 2)), "y": np.array(["a", None], dtype=object)}, r"Array 'y' .* Python objects"),
    ],
)
def test_arrays_that_cannot_be_used_are_explained(tmp_path: Path, arrays: dict[str, np.ndarray], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_file(saved(tmp_path, **arrays))


def test_arrays_have_no_feature_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds arrays"):
        load_file(saved(tmp_path, x=np.zeros((2, 2)), y=np.zeros(2)), features=["x"])


# Any file


@pytest.mark.parametrize("name", ["a.npz", "a.parquet", "a.csv.gz"])
def test_a_file_that_is_not_what_its_name_says_is_explained(tmp_path: Path, name: str) -> None:
    for content in (b"nonsense, not an archive", b"PK\x03\x04 broken", b"\x93NUMPY", b"PAR1 PAR1"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="not a readable"):
            load_file(tmp_path / name, label="y")


def test_a_file_that_is_not_there_is_said_not_to_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .*nowhere\.csv"):
        load_file(tmp_path / "nowhere.csv", label="y")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a folder; expected a file"):
        load_file(tmp_path / "folder.csv", label="y")
    (tmp_path / "a.xlsx").write_text("x")
    with pytest.raises(InputError, match=r"unknown file type\. Expected one of \.csv"):
        load_file(tmp_path / "a.xlsx", label="y")


# The catalog


def test_a_path_is_loaded_as_a_file(people: Path) -> None:
    assert load(str(people), label="hired").name == "people.csv"
    with pytest.raises(InputError, match="A file has no splits, but split 'test'"):
        load(people, label="hired", split="test")
    with pytest.raises(InputError, match=r"There is no file .*gone\.csv"):
        load(people.with_name("gone.csv"))


def test_a_name_that_is_neither_dataset_nor_file_is_explained() -> None:
    with pytest.raises(InputError, match=r"Unknown dataset 'digit'\. Did you mean 'digits'\?"):
        load("digit")


def test_options_for_files_are_refused_for_datasets_of_the_catalog() -> None:
    with pytest.raises(InputError, match="these options are for files"):
        load("digits", label="y")
