"""Folders of images that the package `datasets` of Hugging Face saved."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairmargin.data.formats.huggingface import from_huggingface
from fairmargin.errors import InputError
from tests.data.files import noise, noise_as_numbers, picture


@pytest.fixture
def saved(tmp_path: Path) -> Any:
    """Return a function that saves a dataset of four images, or of the given ones, and returns its folder."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()

    def save(images: list[bytes] | None = None, splits: bool = False, **columns: Any) -> Path:
        content = images or [noise(place) for place in range(4)]
        features = datasets.Features(
            image=datasets.Image(),
            label=datasets.ClassLabel(names=["ant", "bee", "cat"]),
            sex=datasets.ClassLabel(names=["F", "M"]),
            word=datasets.Value("string"),
        )
        data = datasets.Dataset.from_dict(
            {
                "image": [{"bytes": image, "path": None} for image in content],
                "label": [2, 0, 2, 0][: len(content)],
                "sex": [0, 1, -1, 0][: len(content)],
                "word": ["x", "z", "x", "y"][: len(content)],
            }
            | columns,
            features=features,
        )
        whole = datasets.DatasetDict(train=data, test=data.select([1])) if splits else data
        whole.save_to_disk(str(tmp_path / "saved"))
        return tmp_path / "saved"

    return save


def test_a_saved_folder_is_read_with_its_class_names(saved: Any) -> None:
    animals = from_huggingface(saved(), attributes=["sex", "word"])
    assert animals.class_names == ("ant", "bee", "cat")
    assert animals.labels.tolist() == ["cat", "ant", "cat", "ant"]
    assert animals.partition("sex").labels == ("F", "M", "missing")
    np.testing.assert_array_equal(animals.x[3], noise_as_numbers(3))
    assert isinstance(animals.x.stored, np.memmap)  # type: ignore[attr-defined]
    assert from_huggingface(saved(), label="word").class_names == ("x", "y", "z")


def test_one_of_several_splits_is_named(saved: Any) -> None:
    folder = saved(splits=True)
    assert [len(from_huggingface(folder, split=split)) for split in ("test", "train")] == [1, 4]
    with pytest.raises(InputError, match=r"holds several splits\. .* train, test"):
        from_huggingface(folder)
    with pytest.raises(InputError, match=r"no split 'tests'\. Did you mean 'test'"):
        from_huggingface(folder, split="tests")


def test_images_are_resized_if_their_sizes_differ(saved: Any) -> None:
    folder = saved([picture(size=(4, 4)), picture(size=(6, 5))])
    with pytest.raises(InputError, match=r"differ in size: in row 0 has 4 × 4 pixels, in row 1 has 6 × 5"):
        from_huggingface(folder)
    assert from_huggingface(folder, size=3).x.shape == (2, 3, 3, 3)


def test_only_usual_formats_of_images_are_decoded(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("Ghostscript was started")

    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", started)
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n"
    with pytest.raises(InputError, match=r"Image in row 1 of .* not a JPEG, PNG, .* \(it begins with '%!PS-Adobe"):
        from_huggingface(saved([picture(), eps]))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"label": "wrod"}, r"no column 'wrod' \(label\)\. Did you mean 'word'"),
        ({"image": "word"}, r"Column 'word' of .* holds no images"),
        ({"label": "image"}, r"Column 'image' of .* holds files"),
        ({"attributes": ["image"]}, r"Column 'image' of .* holds files"),
        ({"attributes": "sex"}, "a single text"),
        ({"split": "test"}, "holds a single split"),
        ({}, r"label 'label' is missing in 2 of 4 rows, first in row 1"),
    ],
)
def test_options_and_labels_that_do_not_fit_are_refused(saved: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_huggingface(saved(label=[2, -1, 0, -1]), **options)


def test_a_folder_that_is_missing_or_damaged_is_refused(saved: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no folder"):
        from_huggingface(tmp_path / "nothing")
    (saved() / "state.json").write_text("{")
    with pytest.raises(InputError, match="or it is damaged"):
        from_huggingface(tmp_path / "saved")


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'fairmargin\[huggingface\]'"):
        from_huggingface(tmp_path)
