"""A user's own images, with a table or by subfolder."""

import io
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fairmargin.data.formats.image_folder import load_images
from fairmargin.errors import InputError
from tests.data.pictures import noise, pack, picture, write

FILES = {"a.png": noise(0), "deep/b.png": noise(1), "c.png": noise(2)}
TABLE = "file,hired,sex\nc.png,yes,F\na.png,no,M\ndeep/b.png,yes,F\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(tmp_path / "cache"))


def table(tmp_path: Path, text: str = TABLE) -> Path:
    return write(tmp_path, {"labels.csv": text}) / "labels.csv"


def drawn(seed: int) -> np.ndarray:
    image = np.random.RandomState(seed).randint(0, 256, (16, 16, 3)).astype(np.uint8)
    return np.moveaxis(image, 2, 0).astype(np.float32) / np.float32(255)


def test_samples_come_in_the_order_of_the_table_with_their_own_labels(tmp_path: Path) -> None:
    people = load_images(write(tmp_path / "faces", FILES), table(tmp_path), label="hired", attributes=["sex"])
    np.testing.assert_array_equal(people.x[:], np.stack([drawn(2), drawn(0), drawn(1)]))
    assert (people.class_names, people.y.tolist()) == (("no", "yes"), [1, 0, 1])
    assert people.attributes["sex"].tolist() == ["F", "M", "F"]
    assert (float(people.domain.low), float(people.domain.high)) == (0.0, 1.0)


def test_folder_zip_and_zip_with_a_folder_around_are_the_same(tmp_path: Path) -> None:
    roots = (
        write(tmp_path / "faces", FILES),
        pack(tmp_path / "plain.zip", FILES),
        pack(tmp_path / "around.zip", {f"faces/{name}": FILES[name] for name in reversed(FILES)}),
    )
    assert len({load_images(root, table(tmp_path), label="hired").fingerprint for root in roots}) == 1


def test_parquet_and_windows_paths_are_read_too(tmp_path: Path) -> None:
    rows = pd.DataFrame({"file": ["a.png", "deep\\b.png", "./c.png"], "hired": [True, False, True]})
    rows.to_parquet(tmp_path / "labels.parquet")
    people = load_images(write(tmp_path / "faces", FILES), tmp_path / "labels.parquet", label="hired")
    assert people.labels.tolist() == ["True", "False", "True"]


def test_whole_numbers_stay_the_class_numbers_of_the_model(tmp_path: Path) -> None:
    numbers = table(tmp_path, "file,hired\na.png,3\nc.png,1\n")
    people = load_images(write(tmp_path / "faces", FILES), numbers, label="hired")
    assert (people.y.tolist(), people.class_names) == ([3, 1], ())
    assert people.notes == ("1 images of faces are not in labels.csv and are left out.",)
    named = load_images(tmp_path / "faces", numbers, label="hired", class_names=list("wxyz"))
    assert named.labels.tolist() == ["z", "x"]


def test_class_names_set_the_order_of_text_labels(tmp_path: Path) -> None:
    faces = write(tmp_path / "faces", FILES)
    people = load_images(faces, table(tmp_path), label="hired", class_names=["yes", "maybe", "no"])
    assert people.y.tolist() == [0, 2, 0]
    with pytest.raises(InputError, match=r"label 'no' is not in `class_names`\. .*yes, maybe"):
        load_images(faces, table(tmp_path), label="hired", class_names=["yes", "maybe"])


def test_without_a_table_the_class_is_the_subfolder(tmp_path: Path) -> None:
    files = {"cat/1.png": noise(1), "cat/old/2.png": noise(2), "ant/1.png": noise(3)}
    for root in (
        write(tmp_path / "animals", {**files, "readme.txt": "hello"}),
        pack(tmp_path / "animals.zip", {f"top/{name}": content for name, content in files.items()}),
    ):
        animals = load_images(root)
        assert (animals.class_names, animals.labels.tolist()) == (("ant", "cat"), ["ant", "cat", "cat"])
        np.testing.assert_array_equal(animals.x[0], drawn(3))


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


def test_sixteen_bits_are_refused_not_clipped(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Image a/1\.png of .* more than 8 bits"):
        load_images(write(tmp_path / "images", {"a/1.png": picture(3_000, mode="I;16")}))


def test_resizing_averages_and_is_kept_apart_in_the_cache(tmp_path: Path) -> None:
    images = write(tmp_path / "images", {"a/1.png": picture(10, (4, 4)), "a/2.png": picture(200, (8, 6))})
    with pytest.raises(InputError, match=r"differ in size: a/1.png has 4 × 4 pixels, a/2.png has 8 × 6"):
        load_images(images)
    small, large = load_images(images, size=2), load_images(images, size=5)
    assert (small.x.shape, large.x.shape) == ((2, 3, 2, 2), (2, 3, 5, 5))
    assert np.round(large.x[1, 0] * 255).tolist() == [[200] * 5] * 5


def test_images_stay_on_disk(tmp_path: Path) -> None:
    people = load_images(write(tmp_path / "faces", FILES), table(tmp_path), label="hired")
    stored = people.x.stored  # type: ignore[attr-defined]
    assert isinstance(stored, np.memmap)
    assert stored.dtype == np.uint8


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("file,hired\na.png,1\nx.png,1\ny.png,0\n", r"2 of 3 images listed in .* are not in .*: x\.png, y\.png"),
        ("file,hired\n../secret.png,1\n", r"1 of 1 images .* are not in .*: \.\./secret\.png"),
        ("file,hired\na.png,1\nc.png,0\na.png,1\n", r"lists 1 images more than once: a\.png"),
        ("file,hired\na.png,1\nc.png,\n", r"label 'hired' is missing in 1 of 2 rows, first in data row 2"),
        ("file,hired\n,1\nc.png,1\n", r"image 'file' is missing in 1 of 2 rows"),
        ("path,hired\na.png,1\n", r"no column 'file' \(image\)"),
        ("file,hire\na.png,1\n", r"no column 'hired' \(label\)\. Did you mean 'hire'"),
        ("file,hired\na.png,-1\n", r"must start at 0; found the label -1"),
    ],
)
def test_a_table_that_does_not_fit_is_explained(tmp_path: Path, text: str, sentence: str) -> None:
    write(tmp_path, {"secret.png": picture()})
    with pytest.raises(InputError, match=sentence):
        load_images(write(tmp_path / "faces", FILES), table(tmp_path, text), label="hired")


def test_what_was_asked_wrongly_is_explained(tmp_path: Path) -> None:
    faces = write(tmp_path / "faces", FILES)
    with pytest.raises(InputError, match=r"Which column .* is the label\? .* file, hired, sex"):
        load_images(faces, table(tmp_path))
    with pytest.raises(InputError, match=r"2 of 3 images .* are in no subfolder: a\.png, c\.png"):
        load_images(faces)
    with pytest.raises(InputError, match="no table was given"):
        load_images(faces, attributes=["sex"])
    with pytest.raises(InputError, match="a single text"):
        load_images(faces, table(tmp_path), label="hired", attributes="sex")
    with pytest.raises(InputError, match="holds no images"):
        load_images(write(tmp_path / "empty", {"a.txt": "x"}))
    with pytest.raises(InputError, match=r"broken\.zip cannot be read"):
        load_images(write(tmp_path, {"broken.zip": b"PK\x03\x04 cut"}) / "broken.zip")
    with pytest.raises(InputError, match="1 to 4,096; given 0"):
        load_images(faces, table(tmp_path), label="hired", size=0)


def test_a_corrupt_image_is_named(tmp_path: Path) -> None:
    faces = write(tmp_path / "faces", {**FILES, "deep/b.png": noise(1)[:200]})
    with pytest.raises(InputError, match=r"Image deep/b\.png of .* cannot be read"):
        load_images(faces, table(tmp_path), label="hired")


# Files that are not what they seem

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\n(%pipe%touch /tmp/owned) (w) file\nshowpage\n"


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
def test_only_the_formats_of_datasets_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, begins: str
) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("a program was started")

    monkeypatch.setattr("subprocess.Popen", started)
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", started)
    sentence = rf"Image cat/a\.jpg of .* not a JPEG, PNG, BMP, GIF, WebP or TIFF file \(it begins with .*{begins}"
    with pytest.raises(InputError, match=sentence):
        load_images(one_image(tmp_path, content))


@pytest.mark.parametrize("kind", ["JPEG", "MPO", "PNG", "BMP", "GIF", "WEBP", "TIFF"])
def test_the_formats_of_datasets_are_decoded_whatever_the_ending(tmp_path: Path, kind: str) -> None:
    assert load_images(one_image(tmp_path, picture(kind=kind))).x.shape == (1, 3, 4, 4)


def test_an_empty_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Image cat/a\.jpg of .* cannot be read: it is empty"):
        load_images(one_image(tmp_path, b""))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF"])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_an_image_that_is_cut_short_is_a_sentence(tmp_path: Path, kind: str, share: float) -> None:
    stream = io.BytesIO()
    Image.fromarray(np.random.RandomState(0).randint(0, 256, (40, 40, 3)).astype(np.uint8)).save(stream, kind)
    content = stream.getvalue()
    with pytest.raises(InputError, match=r"Image cat/a\.jpg of "):
        load_images(one_image(tmp_path, content[: int(share * len(content))]))


@pytest.mark.parametrize("side", [9_500, 14_000])  # where Pillow warns, and where it refuses
def test_an_image_of_absurd_size_is_refused_before_it_is_decoded(tmp_path: Path, side: int) -> None:
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    bomb += struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            InputError,
            match=r"Image cat/a\.jpg of .* it has too many pixels \(Image size \(\d+ pixels\)",
        ):
            load_images(one_image(tmp_path, bomb), size=8)
