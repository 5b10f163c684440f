"""A user's own images, with a table or in subfolders. Tables that are refused are in `tests/spec/refusals/data.py`."""

import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.data.formats.image_folder import load_images
from fairmargin.errors import InputError
from tests.data.files import noise, noise_as_numbers, pack, picture, write

FILES = {"a.png": noise(0), "deep/b.png": noise(1), "c.png": noise(2)}
TABLE = "file,hired,sex\nc.png,yes,F\na.png,no,M\ndeep/b.png,yes,F\n"


def table(tmp_path: Path, text: str = TABLE) -> Path:
    return write(tmp_path, {"labels.csv": text}) / "labels.csv"


def test_samples_have_the_order_and_the_labels_of_the_table_and_stay_on_disk(tmp_path: Path) -> None:
    people = load_images(write(tmp_path / "faces", FILES), table(tmp_path), label="hired", attributes=["sex"])
    np.testing.assert_array_equal(people.x[:], np.stack([noise_as_numbers(seed) for seed in (2, 0, 1)]))
    assert (people.class_names, people.y.tolist()) == (("no", "yes"), [1, 0, 1])
    assert people.attributes["sex"].tolist() == ["F", "M", "F"]
    assert (float(people.domain.low), float(people.domain.high)) == (0.0, 1.0)
    stored = people.x.stored  # type: ignore[attr-defined]
    assert isinstance(stored, np.memmap)
    assert stored.dtype == np.uint8


def test_a_folder_and_archives_with_or_without_a_folder_around_give_the_same_dataset(tmp_path: Path) -> None:
    roots = (
        write(tmp_path / "faces", FILES),
        pack(tmp_path / "plain.zip", FILES),
        pack(tmp_path / "around.zip", {f"faces/{name}": FILES[name] for name in reversed(FILES)}),
    )
    assert len({load_images(root, table(tmp_path), label="hired").fingerprint for root in roots}) == 1


def test_parquet_tables_and_windows_paths_are_read(tmp_path: Path) -> None:
    rows = pd.DataFrame({"file": ["a.png", "deep\\b.png", "./c.png"], "hired": [True, False, True]})
    rows.to_parquet(tmp_path / "labels.parquet")
    people = load_images(write(tmp_path / "faces", FILES), tmp_path / "labels.parquet", label="hired")
    assert people.labels.tolist() == ["True", "False", "True"]


def test_integers_stay_class_numbers_and_text_is_numbered_in_the_order_of_class_names(tmp_path: Path) -> None:
    faces, numbers = write(tmp_path / "faces", FILES), write(tmp_path, {"n.csv": "file,hired\na.png,3\nc.png,1\n"})
    people = load_images(faces, numbers / "n.csv", label="hired")
    assert (people.y.tolist(), people.class_names) == ([3, 1], ())
    assert people.notes == ("1 images of faces are not in n.csv and are left out.",)
    assert load_images(faces, numbers / "n.csv", label="hired", class_names=list("wxyz")).labels.tolist() == ["z", "x"]
    words = load_images(faces, table(tmp_path), label="hired", class_names=["yes", "maybe", "no"])
    assert words.y.tolist() == [0, 2, 0]


def test_without_a_table_the_class_is_the_subfolder(tmp_path: Path) -> None:
    files = {"cat/1.png": noise(1), "cat/old/2.png": noise(2), "ant/1.png": noise(3)}
    for root in (
        write(tmp_path / "animals", {**files, "readme.txt": "hello"}),
        pack(tmp_path / "animals.zip", {f"top/{name}": content for name, content in files.items()}),
    ):
        animals = load_images(root)
        assert (animals.class_names, animals.labels.tolist()) == (("ant", "cat"), ["ant", "cat", "cat"])
        np.testing.assert_array_equal(animals.x[0], noise_as_numbers(3))


@pytest.mark.parametrize(
    ("modes", "shades"),
    [
        (("L", "L"), [[100], [100]]),
        (("RGB", "L"), [[100, 155, 7], [100, 100, 100]]),
        (("L", "RGB"), [[100, 100, 100], [100, 155, 7]]),
        (("L", "RGBA"), [[100, 100, 100], [100, 155, 7]]),
    ],
    ids=["all grey", "colour first", "grey first", "transparent"],
)
def test_images_are_grey_only_if_all_of_them_are(
    tmp_path: Path, modes: tuple[str, str], shades: list[list[int]]
) -> None:
    files = {f"a/{place}.png": picture(100, mode=mode) for place, mode in enumerate(modes)}
    images = load_images(write(tmp_path / "images", files))
    np.testing.assert_array_equal(np.round(images.x[:][:, :, 0, 0] * 255), shades)


def test_images_are_resized_and_each_size_has_its_own_cache(tmp_path: Path) -> None:
    images = write(tmp_path / "images", {"a/1.png": picture(10, (4, 4)), "a/2.png": picture(200, (8, 6))})
    with pytest.raises(InputError, match=r"differ in size: a/1.png has 4 × 4 pixels, a/2.png has 8 × 6"):
        load_images(images)
    small, large = load_images(images, size=2), load_images(images, size=5)
    assert (small.x.shape, large.x.shape) == ((2, 3, 2, 2), (2, 3, 5, 5))
    assert np.round(large.x[1, 0] * 255).tolist() == [[200] * 5] * 5


# Files that are not what they seem

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n(%pipe%touch /tmp/owned) (w) file\nshowpage\n"
KINDS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF")


def one_image(folder: Path, content: bytes) -> Path:
    return write(folder, {"cat/a.jpg": content})


@pytest.mark.parametrize(
    ("content", "begins"),
    [
        (EPS, "%!PS-Adobe-3.0 EPSF"),
        (picture(kind="PCX"), r"\\n\\x05"),
        (picture(kind="PPM"), "P6"),
        (picture(kind="ICO"), r"\\x00\\x00\\x01"),
        (b"%PDF-1.7 ...", "%PDF-1.7"),
        (b"just text", "just text"),
    ],
    ids=["eps", "pcx", "ppm", "ico", "pdf", "text"],
)
def test_only_usual_formats_are_decoded_and_no_program_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, begins: str
) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("a program was started")

    monkeypatch.setattr("subprocess.Popen", started)
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", started)
    sentence = rf"Image cat/a\.jpg of .* not a JPEG, PNG, BMP, GIF, WebP or TIFF file \(it begins with .*{begins}"
    with pytest.raises(InputError, match=sentence):
        load_images(one_image(tmp_path, content))


@pytest.mark.parametrize("kind", [*KINDS, "MPO"])
def test_usual_formats_are_decoded_whatever_the_ending(tmp_path: Path, kind: str) -> None:
    assert load_images(one_image(tmp_path, picture(kind=kind))).x.shape == (1, 3, 4, 4)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "cannot be read: it is empty"),
        (picture(3_000, mode="I;16"), "more than 8 bits"),
        *((noise(0, 40, kind)[: int(share * len(noise(0, 40, kind)))], "") for kind in KINDS for share in (0.05, 0.9)),
    ],
)  # fmt: skip
def test_an_image_that_is_empty_deep_or_truncated_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=rf"Image cat/a\.jpg of .*{problem}"):
        load_images(one_image(tmp_path, content))


@pytest.mark.parametrize("side", [9_500, 14_000])  # where Pillow warns, and where it raises an error
def test_an_image_of_absurd_size_is_refused_before_it_is_decoded(tmp_path: Path, side: int) -> None:
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    bomb += struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    sentence = r"Image cat/a\.jpg of .* it has too many pixels \(Image size \(\d+ pixels\)"
    with warnings.catch_warnings(action="error"), pytest.raises(InputError, match=sentence):
        load_images(one_image(tmp_path, bomb), size=8)
