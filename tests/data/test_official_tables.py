"""Adult, COMPAS and German credit: small files in the official layouts, broken ones, and the real ones."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.dataset import Dataset
from fairmargin.errors import InputError
from tests.data.official_layouts import (
    ADULT_TEST,
    ADULT_TRAIN,
    COMPAS_HEADER,
    COMPAS_ROWS,
    GERMAN_ROWS,
    write_adult,
    write_compas,
    write_german,
)

SHARED = Path(__file__).parents[3] / "shared" / "data"
shared = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not beside the project"),
]


def feature(dataset: Dataset, name: str) -> list[float]:
    column: list[float] = np.asarray(dataset.x)[:, dataset.feature_names.index(name)].tolist()
    return column


def groups(dataset: Dataset, attribute: str) -> dict[str, int]:
    partition = dataset.partition(attribute)
    return dict(zip(partition.labels, partition.sizes.tolist(), strict=True))


# Adult


def test_adult_is_read_with_its_comment_line_its_full_stops_and_its_question_marks(tmp_path: Path) -> None:
    adult = load("adult", root=write_adult(tmp_path))
    assert adult.y.tolist() == [0, 1, 0, 0, 1]
    assert adult.labels.tolist() == ["<=50K", ">50K", "<=50K", "<=50K", ">50K"]
    assert feature(adult, "age") == [39, 50, 22, 63, 25]
    assert feature(adult, "workclass=missing") == [0, 1, 0, 0, 0]
    assert feature(adult, "native-country=Cuba") == [1, 0, 1, 0, 1]
    assert adult.attributes["sex"].tolist() == ["Male", "Male", "Female", "Female", "Male"]
    assert adult.attributes["age_group"].tolist() == ["25–39", "40–59", "0–24", "60+", "25–39"]
    assert any("1 of 5 rows" in note and "missing" in note for note in adult.notes)


def test_adult_has_no_sensitive_feature_no_survey_weight_and_education_once(tmp_path: Path) -> None:
    columns = {name.split("=")[0] for name in load("adult", root=write_adult(tmp_path)).feature_names}
    assert columns.isdisjoint({"sex", "race", "fnlwgt", "education", "income"})
    assert "education-num" in columns


def test_adult_keeps_the_official_split_with_the_features_and_the_scale_of_the_training_rows(tmp_path: Path) -> None:
    root = write_adult(tmp_path)
    whole, train, test = (load("adult", root=root, split=split) for split in ("all", "train", "test"))
    assert (len(train), len(test)) == (3, 2)
    # Peru occurs in the test file only, and is a feature of either; it never varies in training, so it cannot move.
    assert "native-country=Peru" in train.feature_names
    assert train.feature_names == test.feature_names == whole.feature_names
    age, peru = (whole.feature_names.index(name) for name in ("age", "native-country=Peru"))
    for dataset in (whole, train, test):
        assert dataset.domain.scale[age] == pytest.approx(np.std([39, 50, 22]))
        assert dataset.domain.scale[peru] == 0
        assert any("native-country=Peru" in note and "immutable" in note for note in dataset.notes)


def test_adult_with_an_unknown_sex_keeps_the_row_in_a_group_of_its_own(tmp_path: Path) -> None:
    adult = load("adult", root=write_adult(tmp_path, ADULT_TRAIN.replace("White, Female", "White, ?")))
    assert groups(adult, "sex") == {"Female": 1, "Male": 3, "missing": 1}


def test_a_copy_that_is_not_the_official_file_is_read_with_a_note(tmp_path: Path) -> None:
    notes = load("adult", root=write_adult(tmp_path)).notes
    assert sum("differs from the official file" in note for note in notes) == 2


# COMPAS


def test_compas_keeps_whom_propublica_kept(tmp_path: Path) -> None:
    compas = load("compas", root=write_compas(tmp_path))
    assert feature(compas, "age") == [69, 34, 24, 50, 51]
    assert compas.y.tolist() == [0, 1, 1, 0, 0]
    assert groups(compas, "race") == {"Hispanic": 1, "Other": 3, "missing": 1}


def test_compas_reads_the_first_of_columns_that_occur_twice_and_no_score(tmp_path: Path) -> None:
    compas = load("compas", root=write_compas(tmp_path))
    assert feature(compas, "priors_count") == [7, 2, 4, 1, 1]
    assert not [name for name in compas.feature_names if "score" in name or name.startswith(("sex", "race"))]


def test_compas_does_not_care_how_lines_end(tmp_path: Path) -> None:
    (tmp_path / "dos").mkdir()
    unix, dos = write_compas(tmp_path), write_compas(tmp_path / "dos", end="\r\n")
    assert load("compas", root=unix).fingerprint == load("compas", root=dos).fingerprint


# German credit


def test_german_credit_spells_its_codes_out(tmp_path: Path) -> None:
    credit = load("german-credit", root=write_german(tmp_path))
    assert credit.labels.tolist() == ["good", "bad", "good", "good", "good"]
    assert feature(credit, "duration_months") == [6, 48, 12, 24, 24]
    assert feature(credit, "purpose=other") == [0, 1, 0, 0, 0]
    assert feature(credit, "checking=none") == [0, 0, 1, 1, 0]
    assert credit.attributes["sex"].tolist() == ["male", "female", "male", "female", "male"]
    assert credit.attributes["age_group"].tolist() == [
        "over 25",
        "25 or younger",
        "over 25",
        "25 or younger",
        "25 or younger",
    ]
    assert credit.attributes["foreign_worker"].tolist() == ["yes", "yes", "no", "yes", "yes"]


def test_german_credit_has_no_sensitive_feature(tmp_path: Path) -> None:
    columns = {name.split("=")[0] for name in load("german-credit", root=write_german(tmp_path)).feature_names}
    assert columns.isdisjoint({"sex", "age", "age_group", "foreign_worker", "risk"})
    assert len(columns) == 17


# All of them: where files may lie

WRITERS: dict[str, Callable[[Path], Path]] = {
    "adult": write_adult,
    "compas": write_compas,
    "german-credit": write_german,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_root_may_be_the_folder_the_one_above_a_table_itself_or_an_archive(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "above" / name
    folder.mkdir(parents=True)
    WRITERS[name](folder)
    archive = tmp_path / f"{name}.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in folder.iterdir():
            zipped.write(file, f"{name}/{file.name}")
    for file in folder.iterdir():
        roots = (folder, folder.parent, file, archive)
        assert len({load(name, root=root).fingerprint for root in roots}) == 1


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_of_too_few_rows_to_split_is_refused(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path)
    for file in tmp_path.iterdir():
        file.write_text(COMPAS_HEADER + "\n" if name == "compas" else "\n", encoding="utf-8")
    with pytest.raises(InputError, match="0 rows"):
        load(name, root=tmp_path)


# Complaints name the file, the line, and what is wrong


def complaint(name: str, root: Path) -> str:
    with pytest.raises(InputError) as raised:
        load(name, root=root)
    return str(raised.value)


@pytest.mark.parametrize(
    ("train", "test", "words"),
    [
        (ADULT_TRAIN.replace(", Cuba", "", 1), ADULT_TEST, "adult.data, line 1 has 14 columns; expected 15."),
        (ADULT_TRAIN, ADULT_TEST.replace("63", "old"), "adult.test, line 2: 'age' is 'old'; expected a number."),
        (ADULT_TRAIN.replace("2174", "nan"), ADULT_TEST, "adult.data, line 1: 'capital-gain' is 'nan'; expected"),
        (ADULT_TRAIN.replace("22,", "?,"), ADULT_TEST, "adult.data, line 3: 'age' is '?'; expected a number."),
        (ADULT_TRAIN, ADULT_TEST.replace(">50K.", "50K"), "adult.test, line 3: unknown value '50K' of 'income'."),
    ],
)
def test_a_broken_line_of_adult_is_named(train: str, test: str, words: str, tmp_path: Path) -> None:
    assert words in complaint("adult", write_adult(tmp_path, train, test))


@pytest.mark.parametrize(
    ("rows", "header", "words"),
    [
        ([*COMPAS_ROWS, "11,Male"], COMPAS_HEADER, "years.csv, line 12 has 2 columns; expected 18."),
        (COMPAS_ROWS, COMPAS_HEADER.replace("juv_fel", "fel"), "line 1: no column 'juv_fel_count'."),
        ([COMPAS_ROWS[0].replace("69", "?"), *COMPAS_ROWS], COMPAS_HEADER, "line 2: 'age' is '?'; expected a number."),
        ([COMPAS_ROWS[0][:-1] + "2", *COMPAS_ROWS], COMPAS_HEADER, "line 2: unknown value '2' of 'two_year_recid'."),
        ([], "", "line 1: no column 'age'."),
        ([COMPAS_ROWS[0].replace(",-1,F", ",soon,F")], COMPAS_HEADER, "line 2: 'days_b_screening_arrest' is 'soon'"),
        (['1,"' + "x" * 140_000], COMPAS_HEADER, "field larger than field limit"),
    ],
)
def test_a_broken_line_of_compas_is_named(rows: list[str], header: str, words: str, tmp_path: Path) -> None:
    text = complaint("compas", write_compas(tmp_path, rows, header))
    assert words in text
    assert "compas-scores-two-years.csv" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("A11 ", "", "german.data, line 1 has 20 columns; expected 21."),
        ("A201 2", "A201 3", "german.data, line 2: unknown value '3' of 'risk'."),
        ("A92", "A99", "german.data, line 2: unknown value 'A99' of 'sex'. There are: A91, A92"),
        ("5951", "much", "german.data, line 2: 'amount' is 'much'; expected a number."),
    ],
)
def test_a_broken_line_of_german_credit_is_named(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert words in complaint("german-credit", write_german(tmp_path, [row.replace(old, new) for row in GERMAN_ROWS]))


def test_the_file_that_is_missing_is_named(tmp_path: Path) -> None:
    (write_adult(tmp_path) / "adult.test").unlink()
    assert complaint("adult", tmp_path).startswith(f"{tmp_path} has no adult.test of adult.")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (write_german(tmp_path) / "german.data").write_bytes(b"A11 \xff\xfe")
    assert "german.data is not text in UTF-8" in complaint("german-credit", tmp_path)


def test_an_archive_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "adult.zip").write_bytes(b"PK no more")
    assert "adult.zip cannot be read" in complaint("adult", tmp_path)


# The real files


class TestReal:
    pytestmark = shared

    def test_adult_has_the_rows_groups_labels_and_gaps_that_are_published(self) -> None:
        train, test = (load("adult", root=SHARED, split=split) for split in ("train", "test"))
        assert groups(train, "sex") == {"Female": 10_771, "Male": 21_790}
        assert groups(test, "sex") == {"Female": 5_421, "Male": 10_860}
        names = ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")
        assert groups(train, "race") == dict(zip(names, (311, 1_039, 3_124, 271, 27_816), strict=True))
        assert groups(test, "race") == dict(zip(names, (159, 480, 1_561, 135, 13_946), strict=True))
        assert groups(train, "class") == {"<=50K": 24_720, ">50K": 7_841}
        assert groups(test, "class") == {"<=50K": 12_435, ">50K": 3_846}
        assert train.x.shape[1:] == test.x.shape[1:] == (84,)
        assert (train.domain.scale > 0).all()
        for dataset, incomplete in ((train, 2_399), (test, 1_221)):
            gaps = [i for i, name in enumerate(dataset.feature_names) if name.endswith("=missing")]
            assert int(np.asarray(dataset.x)[:, gaps].any(axis=1).sum()) == incomplete
        assert not [note for note in train.notes if "official" in note]

    def test_compas_has_the_people_whom_propublica_analysed(self) -> None:
        compas = load("compas", root=SHARED)
        assert len(compas) == 6_172
        assert groups(compas, "sex") == {"Female": 1_175, "Male": 4_997}
        assert groups(compas, "race") == {
            "African-American": 3_175,
            "Asian": 31,
            "Caucasian": 2_103,
            "Hispanic": 509,
            "Native American": 11,
            "Other": 343,
        }
        assert groups(compas, "class") == {"new charge": 2_809, "no new charge": 3_363}
        # This copy has its identifiers blanked.
        assert [note for note in compas.notes if "differs from the official file" in note]

    def test_german_credit_has_the_borrowers_of_the_document(self) -> None:
        credit = load("german-credit", root=SHARED)
        assert groups(credit, "class") == {"bad": 300, "good": 700}
        assert groups(credit, "sex") == {"female": 310, "male": 690}
        assert groups(credit, "age_group") == {"25 or younger": 190, "over 25": 810}
        assert groups(credit, "foreign_worker") == {"no": 37, "yes": 963}
        assert not [note for note in credit.notes if "official" in note]

    @pytest.mark.parametrize(("name", "floor"), [("adult", 0.84), ("compas", 0.64), ("german-credit", 0.7)])
    def test_a_logistic_regression_of_the_training_split_reads_the_test_split(self, name: str, floor: float) -> None:
        from sklearn.linear_model import LogisticRegression

        train, test = (load(name, root=SHARED, split=split) for split in ("train", "test"))
        step = np.where(train.domain.scale > 0, train.domain.scale, 1.0)
        model = LogisticRegression(max_iter=500).fit(np.asarray(train.x) / step, train.y)
        assert model.score(np.asarray(test.x) / step, test.y) > floor
