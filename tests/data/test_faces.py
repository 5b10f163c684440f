"""UTKFace and Adience in their official layouts. Broken files are in `tests/spec/refusals/datasets.py`."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.dataset import Dataset
from fairmargin.data.sets.adience import age_class
from fairmargin.errors import InputError
from tests.data.files import noise, noise_as_numbers, pack, picture, write
from tests.data.official_layouts import FOLD_AGES, face_name, five_folds, fold_file, fold_row

END = "_20170116174525125.jpg.chip.jpg"
# Names with the age at the edges of the bins, and what they mean.
FACES = {
    f"0_0_0{END}": ("0–14", "0–9", "male", "White"),
    f"14_1_1{END}": ("0–14", "10–19", "female", "Black"),
    f"15_0_2{END}": ("15–24", "10–19", "male", "Asian"),
    f"24_1_3{END}": ("15–24", "20–29", "female", "Indian"),
    f"25_0_4{END}": ("25–39", "20–29", "male", "Others"),
    f"39_1_0{END}": ("25–39", "30–39", "female", "White"),
    f"40_0_1{END}": ("40–59", "40–49", "male", "Black"),
    f"59_1_2{END}": ("40–59", "50–59", "female", "Asian"),
    f"60_0_3{END}": ("60+", "60–69", "male", "Indian"),
    f"79_0_3{END}": ("60+", "70–79", "male", "Indian"),
    f"116_1_4{END}": ("60+", "80+", "female", "Others"),
    "24_0_1_20170116220224657 .jpg.chip.jpg": ("15–24", "20–29", "male", "Black"),
    "55_0_0_20170116232725357jpg.chip.jpg": ("40–59", "50–59", "male", "White"),
}
IRREGULAR = ("39_1_20170116174525125.jpg.chip.jpg", f"61_3_0{END}", f"61_1_5{END}", f"a_1_1{END}")
FILES = {name: noise(place) for place, name in enumerate((*FACES, *IRREGULAR))}


def described(faces: Dataset) -> set[tuple[str, ...]]:
    return set(zip(*(faces.attributes[name].tolist() for name in ("age5", "age9", "gender", "race")), strict=True))


def sizes(faces: Dataset, by: str) -> dict[str, int]:
    partition = faces.partition(by)
    return dict(zip(partition.labels, partition.sizes.tolist(), strict=True))


def label_of_image(faces: Dataset) -> dict[bytes, str]:
    return {row.tobytes(): label for row, label in zip(faces.x[:], faces.labels.tolist(), strict=True)}


# UTKFace


@pytest.mark.parametrize("below", ["", "UTKFace/"])
def test_faces_are_described_by_their_file_names(tmp_path: Path, below: str) -> None:
    faces = load("utkface", root=write(tmp_path / "files", {below + name: FILES[name] for name in FILES}))
    assert faces.x.shape == (len(FACES), 3, 16, 16)
    assert described(faces) == set(FACES.values())
    assert faces.class_names == ("0–14", "15–24", "25–39", "40–59", "60+")
    (note,) = faces.notes
    assert "4 images (39_1_20170116174525125.jpg.chip.jpg, 61_1_5" in note
    assert "and 1 more" in note


@pytest.mark.parametrize("task", ["age5", "age9", "race", "gender"])
def test_each_task_labels_an_image_by_its_own_name(tmp_path: Path, task: str) -> None:
    faces = load("utkface", root=write(tmp_path / "files", FILES), task=task)
    assert faces.labels.tolist() == faces.attributes[task].tolist()
    assert faces.y.dtype == np.int64
    position, labels = ("age5", "age9", "gender", "race").index(task), label_of_image(faces)
    for place, meaning in enumerate(FACES.values()):
        assert labels[noise_as_numbers(place).tobytes()] == meaning[position]


def test_a_folder_a_zip_and_a_tar_give_the_same_samples_in_the_same_split(tmp_path: Path) -> None:
    below = {f"UTKFace/{name}": FILES[name] for name in reversed(FILES)}
    roots = (
        write(tmp_path / "files", FILES),
        pack(tmp_path / "utkface.zip", below),
        pack(tmp_path / "official" / "UTKFace.tar.gz", below).parent,
    )
    assert len({load("utkface", root=root, split="test").fingerprint for root in roots}) == 1


def test_an_image_that_an_archive_holds_twice_counts_once(tmp_path: Path) -> None:
    files = {f"{top}/{name}": FILES[name] for top in ("UTKFace", "crop_part1") for name in FACES}
    faces = load("utkface", root=pack(tmp_path / "both.zip", {**files, f"__MACOSX/UTKFace/._1_1_1{END}": b"junk"}))
    assert len(faces) == len(FACES)
    assert f"{len(FACES)} images occur in several folders" in faces.notes[0]


def test_images_are_resized_and_become_rgb(tmp_path: Path) -> None:
    files = {f"1_0_0{END}": picture(50, (4, 4), mode="L"), f"2_0_0{END}": picture(50, (6, 5), mode="RGBA")}
    faces = load("utkface", root=write(tmp_path / "files", files), size=8)
    assert faces.x.shape == (2, 3, 8, 8)
    np.testing.assert_array_equal(np.round(faces.x[:][:, :, 0, 0] * 255), [[50, 50, 50], [50, 205, 7]])


def test_the_second_load_decodes_nothing_unless_a_file_changed(tmp_path: Path) -> None:
    root = write(tmp_path / "files", FILES)
    reports: list[tuple[str, int, int]] = []
    load("utkface", root=root, progress=lambda *step: reports.append(step))
    assert reports[-1] == ("Decoding images", len(FACES), len(FACES))
    reports.clear()
    before = load("utkface", root=root, progress=lambda *step: reports.append(step))
    assert not reports
    write(root, {f"0_0_0{END}": noise(99)})
    assert load("utkface", root=root).fingerprint != before.fingerprint


def test_an_age_of_many_digits_is_in_the_last_bin(tmp_path: Path) -> None:
    root = write(tmp_path / "files", {f"99999999999999999999_0_0{END}": picture()})
    assert described(load("utkface", root=root)) == {("60+", "80+", "male", "White")}


def test_a_failed_decoding_leaves_no_cache_and_a_missing_package_is_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"30_1_1.* cannot be read"):
        load("utkface", root=write(tmp_path / "files", {**FILES, f"30_1_1{END}": b"junk"}))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match=r"pip install 'fairmargin\[image\]'"):
        load("utkface", root=write(tmp_path / "others", FILES))
    assert not list(cache.rglob("*.npy"))


# Adience


def test_ages_become_eight_classes_and_unknown_ages_are_left_out(tmp_path: Path) -> None:
    faces = load("adience", root=write(tmp_path / "files", five_folds()))
    assert faces.class_names == ("0–2", "4–6", "8–13", "15–20", "25–32", "38–43", "48–53", "60+")
    assert np.bincount(faces.y).tolist() == [5, 5, 5, 5, 10, 5, 5, 5]
    assert "5 of 50 faces are left out of task 'age'" in " ".join(faces.notes)
    labels = label_of_image(faces)
    for fold in range(5):
        for place, age in enumerate(FOLD_AGES[:9]):
            image = noise_as_numbers(10 * fold + place)
            assert labels[image.tobytes()] == faces.class_names[age_class(age)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(age, place) for place, age in enumerate(FOLD_AGES[:8])],
        ("(25, 23)", 4),
        ("(27, 32)", 4),
        ("(38, 42)", 5),
        *[("2", 0), ("13", 2), ("29", 4), ("32", 4), ("42", 5)],
        *[(odd, -1) for odd in ("None", "", "3", "22", "23", "34", "35", "36", "45", "46", "55", "58", "(38, 48)")],
        *[(odd, -1) for odd in ("(8, 23)", "(43, 38)", "age", "-1", "(0, 2", "9999999999999999999999")],
    ],
)
def test_an_age_counts_if_it_lies_within_one_class(text: str, expected: int) -> None:
    assert age_class(text) == expected


def test_an_unknown_gender_is_a_group_and_no_class(tmp_path: Path) -> None:
    root = write(tmp_path / "files", five_folds())
    assert sizes(load("adience", root=root), "gender") == {"male": 15, "female": 15, "unknown": 15}
    genders = load("adience", root=root, task="gender")
    assert (len(genders), genders.class_names) == (35, ("male", "female"))
    assert "15 of 50 faces are left out of task 'gender'" in " ".join(genders.notes)
    assert sizes(genders, "age")["unknown"] == 5


def test_with_all_folds_the_last_one_is_for_testing(tmp_path: Path) -> None:
    root = write(tmp_path / "files", five_folds())
    train, test = (load("adience", root=root, split=split) for split in ("train", "test"))
    assert set(train.attributes["fold"].tolist()) == {0, 1, 2, 3}
    assert set(test.attributes["fold"].tolist()) == {4}
    assert "folds 0–3 for training, fold 4 for testing" in test.notes[-1]


def test_with_fewer_folds_nobody_is_in_both_splits_whatever_the_task(tmp_path: Path) -> None:
    files = {name: content for name, content in five_folds().items() if not name.startswith("fold_4")}
    root = write(tmp_path / "files", files)
    train, test = (set(load("adience", root=root, split=split).attributes["person"]) for split in ("train", "test"))
    assert (len(train), len(test)) == (16, 4)
    assert not train & test
    genders = load("adience", root=root, split="test", task="gender")
    assert set(genders.attributes["person"]) <= test
    assert "by identity" in genders.notes[-1]
    assert genders.notes[0] == "Faces of folds 0, 1, 2, 3: 40."


def test_fold_files_without_images_beside_them_do_not_count(tmp_path: Path) -> None:
    files = five_folds()
    part = {f"full_folds/{name}": files[name] for name in files if name.startswith("fold_")}
    part |= {name: content for name, content in files.items() if name.startswith(("fold_0", "faces/0@"))}
    for root in (pack(tmp_path / "adience.zip", part), write(tmp_path / "files", part)):
        faces = load("adience", root=root)
        assert sizes(faces, "fold") == {"0": 9}
        assert not any("no image" in note for note in faces.notes)


def test_rows_without_an_image_and_repeated_rows_are_counted_in_notes(tmp_path: Path) -> None:
    present, absent = ("1@N0", "a.jpg", 1), ("1@N0", "b.jpg", 2)
    rows = [fold_row(*face) for face in (present, absent, present)]
    files = {face_name(*present): picture(), "fold_2_data.txt": fold_file(rows)}
    faces = load("adience", root=write(tmp_path / "files", files))
    assert len(faces) == 1
    assert "1 of 2 listed faces have no image" in " ".join(faces.notes)
    assert "1 rows of the fold files repeat another row" in " ".join(faces.notes)


def test_the_published_archive_of_faces_is_read_beside_the_fold_files(tmp_path: Path) -> None:
    files = five_folds()
    root = write(tmp_path / "official", {name: files[name] for name in files if name.startswith("fold_")})
    pack(root / "faces.tar.gz", {name: files[name] for name in files if name.startswith("faces/")})
    expected = load("adience", root=write(tmp_path / "files", files))
    assert load("adience", root=root).fingerprint == expected.fingerprint
