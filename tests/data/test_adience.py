"""Adience in its official layout, written by the tests, and the part of it in ../shared."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.dataset import Dataset
from fairmargin.data.sets.adience import age_class
from fairmargin.errors import InputError
from tests.data.pictures import noise, pack, picture, write

SHARED = Path(__file__).parents[3] / "shared" / "data" / "adience-partial-128x128.zip"
HEADER = "user_id\toriginal_image\tface_id\tage\tgender\tx\ty\tdx\tdy\ttilt_ang\tfiducial_yaw_angle\tfiducial_score"
AGES = ("(0, 2)", "(4, 6)", "(8, 12)", "(15, 20)", "(25, 32)", "(38, 43)", "(48, 53)", "(60, 100)", "(25, 23)", "None")


def row(user: str, image: str, face: int, age: str = "(25, 32)", gender: str = "f") -> str:
    return f"{user}\t{image}\t{face}\t{age}\t{gender}\t0\t414\t1086\t1383\t-115\t30\t17"


def image_name(user: str, image: str, face: int) -> str:
    return f"faces/{user}/coarse_tilt_aligned_face.{face}.{image}"


def fold_file(rows: list[str]) -> str:
    return "\n".join([HEADER, *rows, ""])


def five_folds() -> dict[str, bytes | str]:
    """Ten faces a fold, two of each of five people, one of each kind of age."""
    files: dict[str, bytes | str] = {}
    for fold in range(5):
        faces = [(f"{fold}@N0{face % 5}", f"{fold}{face}_o.jpg", face % 5) for face in range(10)]
        rows = [row(*face, age, "mfu"[place % 3]) for place, (face, age) in enumerate(zip(faces, AGES, strict=True))]
        files[f"fold_{fold}_data.txt"] = fold_file(rows)
        files |= {image_name(*face): noise(10 * fold + place) for place, face in enumerate(faces)}
    return files


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(tmp_path / "cache"))


def sizes(faces: Dataset, by: str) -> dict[str, int]:
    partition = faces.partition(by)
    return dict(zip(partition.labels, partition.sizes.tolist(), strict=True))


def test_ages_become_eight_classes_and_none_is_left_out(tmp_path: Path) -> None:
    faces = load("adience", root=write(tmp_path / "files", five_folds()))
    assert faces.class_names == ("0–2", "4–6", "8–13", "15–20", "25–32", "38–43", "48–53", "60+")
    assert np.bincount(faces.y).tolist() == [5, 5, 5, 5, 10, 5, 5, 5]
    assert "5 of 50 faces are left out of task 'age'" in " ".join(faces.notes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(age, place) for place, age in enumerate(AGES[:8])],
        ("(25, 23)", 4),
        ("(27, 32)", 4),
        ("(38, 42)", 5),
        *[("2", 0), ("13", 2), ("29", 4), ("32", 4), ("42", 5)],
        *[(odd, -1) for odd in ("None", "", "3", "22", "23", "34", "35", "36", "45", "46", "55", "58", "(38, 48)")],
        *[(odd, -1) for odd in ("(8, 23)", "(43, 38)", "age", "-1", "(0, 2", "9999999999999999999999")],
    ],
)
def test_an_age_counts_where_it_lies_within_one_class(text: str, expected: int) -> None:
    assert age_class(text) == expected


def test_an_unknown_gender_is_a_group_of_its_own_and_no_class(tmp_path: Path) -> None:
    root = write(tmp_path / "files", five_folds())
    assert sizes(load("adience", root=root), "gender") == {"male": 15, "female": 15, "unknown": 15}
    genders = load("adience", root=root, task="gender")
    assert (len(genders), genders.class_names) == (35, ("male", "female"))
    assert "15 of 50 faces are left out of task 'gender'" in " ".join(genders.notes)
    assert sizes(genders, "age")["unknown"] == 5


def test_every_face_has_the_label_of_its_own_row(tmp_path: Path) -> None:
    faces = load("adience", root=write(tmp_path / "files", five_folds()))
    known = {row.tobytes(): label for row, label in zip(faces.x[:], faces.labels.tolist(), strict=True)}
    for fold in range(5):
        for place in range(9):
            drawn = np.random.RandomState(10 * fold + place).randint(0, 256, (16, 16, 3)).astype(np.uint8)
            image = np.moveaxis(drawn, 2, 0).astype(np.float32) / np.float32(255)
            assert known[image.tobytes()] == faces.class_names[age_class(AGES[place])]


def test_with_all_folds_the_fourth_tests(tmp_path: Path) -> None:
    root = write(tmp_path / "files", five_folds())
    train, test = load("adience", root=root, split="train"), load("adience", root=root, split="test")
    assert set(train.attributes["fold"].tolist()) == {0, 1, 2, 3}
    assert set(test.attributes["fold"].tolist()) == {4}
    assert "folds 0–3 for training, fold 4 for testing" in test.notes[-1]


def test_with_fewer_folds_nobody_is_on_both_sides_whatever_the_task(tmp_path: Path) -> None:
    files = {name: content for name, content in five_folds().items() if not name.startswith("fold_4")}
    root = write(tmp_path / "files", files)
    train, test = (set(load("adience", root=root, split=split).attributes["person"]) for split in ("train", "test"))
    assert (len(train), len(test)) == (16, 4)
    assert not train & test
    genders = load("adience", root=root, split="test", task="gender")
    assert set(genders.attributes["person"]) <= test
    assert "by identity" in genders.notes[-1]
    assert genders.notes[0] == "Faces of folds 0, 1, 2, 3: 40."


def test_the_index_of_all_folds_beside_a_part_of_the_images_is_no_fold(tmp_path: Path) -> None:
    files = five_folds()
    part = {f"{top}/{name}": files[name] for top in ("full_folds",) for name in files if name.startswith("fold_")}
    part |= {name: content for name, content in files.items() if name.startswith(("fold_0", "faces/0@"))}
    for root in (pack(tmp_path / "adience.zip", part), write(tmp_path / "files", part)):
        faces = load("adience", root=root)
        assert sizes(faces, "fold") == {"0": 9}
        assert not any("no image" in note for note in faces.notes)


def test_rows_without_an_image_and_rows_given_twice_are_counted_not_refused(tmp_path: Path) -> None:
    there, missing = ("1@N0", "a.jpg", 1), ("1@N0", "b.jpg", 2)
    files = {image_name(*there): picture(), "fold_2_data.txt": fold_file([row(*there), row(*missing), row(*there)])}
    faces = load("adience", root=write(tmp_path / "files", files))
    assert len(faces) == 1
    assert "1 of 2 listed faces have no image" in " ".join(faces.notes)
    assert "1 rows of the fold files repeat another row" in " ".join(faces.notes)


def test_the_official_tar_beside_the_fold_files_is_read_in_place(tmp_path: Path) -> None:
    files = five_folds()
    root = write(tmp_path / "official", {name: content for name, content in files.items() if name.startswith("fold_")})
    with tarfile.open(root / "faces.tar.gz", "w:gz") as archive:
        for name, content in files.items():
            if isinstance(content, bytes):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    expected = load("adience", root=write(tmp_path / "files", files))
    assert load("adience", root=root).fingerprint == expected.fingerprint


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (HEADER.replace("gender", "sex") + "\n", "has no column 'gender'"),
        (HEADER + "\n1@N0\ta.jpg\n", "truncated in line 2"),
        ("\xff\xfe", "has no column|not text in UTF-8"),
        ("", "has no column 'user_id'"),
        (HEADER + "\n", "None of the 0 faces"),
    ],
    ids=["column", "cut", "binary", "empty", "no rows"],
)
def test_a_damaged_fold_file_is_named(tmp_path: Path, content: str, sentence: str) -> None:
    files = {"fold_0_data.txt": content, image_name("1@N0", "a.jpg", 1): picture()}
    with pytest.raises(InputError, match=sentence):
        load("adience", root=write(tmp_path / "files", files))


def test_a_corrupt_face_is_named(tmp_path: Path) -> None:
    face = ("1@N0", "a.jpg", 1)
    files = {"fold_0_data.txt": fold_file([row(*face)]), image_name(*face): b"junk"}
    with pytest.raises(InputError, match=r"Image faces/1@N0/coarse_tilt_aligned_face\.1\.a\.jpg of .* cannot be read"):
        load("adience", root=write(tmp_path / "files", files))


def test_faces_without_fold_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected fold_0_data.txt .* beside them, faces/"):
        load("adience", root=pack(tmp_path / "adience.zip", {"full_folds/fold_0_data.txt": HEADER, "faces/a.jpg": "x"}))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not SHARED.is_file():
        pytest.skip("../shared/data is not beside the project")
    return tmp_path_factory.mktemp("cache")


@pytest.mark.shared
def test_the_real_part_has_the_counts_that_its_readme_states(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(real))
    faces = load("adience", root=SHARED)
    assert faces.x.shape == (1_585, 3, 128, 128)
    assert np.bincount(faces.y, minlength=8).tolist() == [238, 258, 6, 10, 878 + 72, 71, 22, 30]
    assert sizes(faces, "fold") == {"0": 1_585}
    assert "1 of 1,586 faces are left out of task 'age'" in " ".join(faces.notes)
    youngest = faces.take(faces.labels == "0–2")
    assert sizes(youngest, "gender") == {"male": 238}
    assert sizes(faces.take(faces.labels == "4–6"), "gender") == {"female": 251, "male": 7}


@pytest.mark.shared
def test_the_real_part_has_its_genders_and_splits_by_person(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(real))
    everyone = load("adience", root=SHARED.parent, task="gender")
    assert np.bincount(everyone.y).tolist() == [949, 636]
    assert len(set(everyone.attributes["person"])) in (92, 93)
    train, test = (load("adience", root=SHARED, task="gender", split=split) for split in ("train", "test"))
    assert len(train) + len(test) == 1_585
    assert not set(train.attributes["person"]) & set(test.attributes["person"])
    # Of 93 people a few have hundreds of photographs each: a draw at random tested 238 faces of an age it never saw.
    ages = [load("adience", root=SHARED, split=split) for split in ("train", "test")]
    assert set(ages[1].labels) <= set(ages[0].labels)
    assert (np.bincount(ages[1].y, minlength=8) <= np.bincount(ages[0].y, minlength=8)).all()
