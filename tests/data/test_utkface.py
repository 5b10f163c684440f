"""UTKFace in its official layout, written by the tests, and as it is in ../shared."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.catalog import DATASETS, load
from fairmargin.data.dataset import Dataset
from fairmargin.errors import InputError
from tests.data.pictures import noise, pack, picture, write

SHARED = Path(__file__).parents[3] / "shared" / "data" / "utkface-64x64.zip"
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


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(tmp_path / "cache"))


def described(faces: Dataset) -> set[tuple[str, ...]]:
    return set(zip(*(faces.attributes[name].tolist() for name in ("age5", "age9", "gender", "race")), strict=True))


@pytest.mark.parametrize("below", ["", "UTKFace/"])
def test_a_folder_is_read_by_its_file_names(tmp_path: Path, below: str) -> None:
    root = write(tmp_path / "files", {below + name: content for name, content in FILES.items()})
    faces = load("utkface", root=root)
    assert faces.x.shape == (len(FACES), 3, 16, 16)
    assert described(faces) == set(FACES.values())
    assert faces.class_names == ("0–14", "15–24", "25–39", "40–59", "60+")


def test_names_without_all_fields_are_left_out_and_listed(tmp_path: Path) -> None:
    faces = load("utkface", root=write(tmp_path / "files", FILES))
    (note,) = faces.notes
    assert "4 images (39_1_20170116174525125.jpg.chip.jpg, 61_1_5" in note
    assert "and 1 more" in note


@pytest.mark.parametrize("task", ["age5", "age9", "race", "gender"])
def test_every_task_labels_an_image_by_its_own_name(tmp_path: Path, task: str) -> None:
    faces = load("utkface", root=write(tmp_path / "files", FILES), task=task)
    assert faces.labels.tolist() == faces.attributes[task].tolist()
    assert faces.y.dtype == np.int64
    pixels = {row.tobytes(): label for row, label in zip(faces.x[:], faces.labels.tolist(), strict=True)}
    position = ("age5", "age9", "gender", "race").index(task)
    for place, meaning in enumerate(FACES.values()):
        drawn = np.random.RandomState(place).randint(0, 256, (16, 16, 3)).astype(np.uint8)
        image = np.moveaxis(drawn, 2, 0).astype(np.float32) / np.float32(255)
        assert pixels[image.tobytes()] == meaning[position]


def test_folder_zip_and_tar_give_the_same_samples_in_the_same_split(tmp_path: Path) -> None:
    folder = write(tmp_path / "files", FILES)
    backwards = pack(tmp_path / "utkface.zip", {f"UTKFace/{name}": FILES[name] for name in reversed(FILES)})
    beside = tmp_path / "official"
    beside.mkdir()
    with tarfile.open(beside / "UTKFace.tar.gz", "w:gz") as archive:
        archive.add(folder, "UTKFace")
    fingerprints = {load("utkface", root=root, split="test").fingerprint for root in (folder, backwards, beside)}
    assert len(fingerprints) == 1


def test_an_image_that_an_archive_holds_twice_counts_once(tmp_path: Path) -> None:
    files = {f"{top}/{name}": FILES[name] for top in ("UTKFace", "crop_part1") for name in FACES}
    faces = load("utkface", root=pack(tmp_path / "both.zip", {**files, f"__MACOSX/UTKFace/._1_1_1{END}": b"junk"}))
    assert len(faces) == len(FACES)
    assert f"{len(FACES)} images occur in several folders" in faces.notes[0]


def test_the_split_is_eighty_to_twenty_and_says_so(tmp_path: Path) -> None:
    root = write(tmp_path / "files", FILES)
    train, test = load("utkface", root=root, split="train"), load("utkface", root=root, split="test")
    assert (len(train), len(test)) == (10, 3)
    assert not {row.tobytes() for row in train.x[:]} & {row.tobytes() for row in test.x[:]}
    assert "seeded 80:20 by sample" in test.notes[-1]
    assert "seeded 80:20 by sample" in DATASETS["utkface"].card.split


def test_images_of_differing_size_need_a_size(tmp_path: Path) -> None:
    files = {f"1_0_0{END}": picture(size=(4, 4)), f"2_0_0{END}": picture(size=(6, 5))}
    root = write(tmp_path / "files", files)
    with pytest.raises(InputError, match=r"1_0_0.* has 4 × 4 pixels, 2_0_0.* has 6 × 5\. .* size=4"):
        load("utkface", root=root)
    assert load("utkface", root=root, size=8).x.shape == (2, 3, 8, 8)


def test_grey_and_transparent_images_become_rgb(tmp_path: Path) -> None:
    files = {f"1_0_0{END}": picture(50, mode="L"), f"2_0_0{END}": picture(50, mode="RGBA")}
    faces = load("utkface", root=write(tmp_path / "files", files))
    np.testing.assert_array_equal(np.round(faces.x[:][:, :, 0, 0] * 255), [[50, 50, 50], [50, 205, 7]])


@pytest.mark.parametrize(
    "damaged", [b"", b"no image at all", picture(size=(64, 64), kind="JPEG")[:500]], ids=["empty", "text", "cut"]
)
def test_a_corrupt_image_is_named(tmp_path: Path, damaged: bytes) -> None:
    name = f"30_1_1{END}"
    root = pack(tmp_path / "utkface.zip", {**FILES, name: damaged})
    with pytest.raises(InputError, match=rf"Image {name} of .*utkface.zip cannot be read"):
        load("utkface", root=root)
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_the_second_load_decodes_nothing_and_a_changed_file_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, told = write(tmp_path / "files", FILES), []
    load("utkface", root=root, progress=lambda *step: told.append(step))
    assert told[-1] == ("Decoding images", len(FACES), len(FACES))
    told.clear()
    before = load("utkface", root=root, progress=lambda *step: told.append(step))
    assert not told
    write(root, {f"0_0_0{END}": noise(99)})
    assert load("utkface", root=root).fingerprint != before.fingerprint


def test_images_that_are_named_otherwise_are_no_utkface(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no image with a name as in UTKFace, .* found 1 other images"):
        load("utkface", root=pack(tmp_path / "holidays.zip", {"beach.jpg": picture()}))
    with pytest.raises(InputError, match=r"Put UTKFace.tar.gz there"):
        load("utkface", root=write(tmp_path / "files", {"beach.jpg": picture()}))


def test_an_age_beyond_all_bounds_is_old(tmp_path: Path) -> None:
    root = write(tmp_path / "files", {f"99999999999999999999_0_0{END}": picture()})
    assert described(load("utkface", root=root)) == {("60+", "80+", "male", "White")}


def test_without_pillow_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match=r"pip install 'fairmargin\[image\]'"):
        load("utkface", root=write(tmp_path / "files", FILES))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if not SHARED.is_file():
        pytest.skip("../shared/data is not beside the project")
    return tmp_path_factory.mktemp("cache")


def sizes(faces: Dataset, by: str) -> dict[str, int]:
    partition = faces.partition(by)
    return dict(zip(partition.labels, partition.sizes.tolist(), strict=True))


@pytest.mark.shared
def test_the_real_files_have_the_published_counts(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(real))
    faces = load("utkface", root=SHARED)
    assert faces.x.shape == (23_705, 3, 64, 64)
    assert sizes(faces, "gender") == {"male": 12_391, "female": 11_314}
    races = ("White", "Black", "Asian", "Indian", "Others")
    assert sizes(faces, "race") == dict(zip(races, (10_078, 4_526, 3_434, 3_975, 1_692), strict=True))
    both = faces.partition("race") & faces.partition("gender")
    crossed = dict(zip(both.labels, both.sizes.tolist(), strict=True))
    assert [crossed[f"race={race} & gender=male"] for race in races] == [5_477, 2_318, 1_575, 2_261, 760]
    assert [crossed[f"race={race} & gender=female"] for race in races] == [4_601, 2_208, 1_859, 1_714, 932]
    assert np.bincount(faces.y).tolist() == [3_651, 3_252, 9_570, 4_544, 2_688]
    assert "3 images (39_1_20170116174525125" in faces.notes[0]
    assert {"61_1_20170109142408075", "61_1_20170109150557335"} <= set(
        faces.notes[0].replace(".jpg.chip.jpg", "").rstrip(").").replace(",", "").split()
    )


@pytest.mark.shared
def test_the_real_files_have_the_published_counts_by_decade_and_split(
    real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(real))
    decades = load("utkface", root=SHARED.parent, task="age9")
    assert np.bincount(decades.y).tolist() == [3_062, 1_531, 7_344, 4_536, 2_245, 2_299, 1_316, 699, 673]
    assert [len(load("utkface", root=SHARED, split=split)) for split in ("train", "test")] == [18_964, 4_741]
