"""PyTorch datasets and Hugging Face folders become datasets without being held in memory."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from fairmargin.core.domain import Domain
from fairmargin.data.dataset import Dataset
from fairmargin.data.formats.huggingface import from_huggingface
from fairmargin.data.formats.torch_dataset import Items, from_torch
from fairmargin.errors import InputError
from tests.data.pictures import noise, picture

X = np.random.RandomState(0).rand(10, 3, 4, 4).astype(np.float32)
Y = np.arange(10) % 3


class Faces(torch.utils.data.Dataset[Any]):
    """Yields what it is given, and counts how much of it is alive."""

    def __init__(self, attributes: Any = None, x: Any = X) -> None:
        self.x, self.attributes, self.asked = x, attributes, 0

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int) -> Any:
        self.asked += 1
        item = torch.as_tensor(self.x[place]), int(Y[place])
        return item if self.attributes is None else (*item, self.attributes(place))


def test_pairs_of_tensors_are_read_when_sliced() -> None:
    source = Faces()
    faces = from_torch(source, name="faces", domain=Domain(0, 1))
    assert isinstance(faces.x, Items)
    before = source.asked
    np.testing.assert_array_equal(faces.x[2:5], X[2:5])
    assert source.asked - before == 3
    np.testing.assert_array_equal(np.asarray(faces.x[[7, 1]]), X[[7, 1]])
    np.testing.assert_array_equal(faces.x[-1], X[-1])
    assert (faces.y.tolist(), faces.name, float(faces.domain.high)) == (Y.tolist(), "faces", 1.0)


def test_the_fingerprint_is_that_of_the_same_content_in_memory() -> None:
    assert from_torch(Faces()).fingerprint == Dataset(X, Y).fingerprint
    assert from_torch(TensorDataset(torch.tensor(X), torch.tensor(Y))).fingerprint == Dataset(X, Y).fingerprint


def test_taking_samples_keeps_labels_and_inputs_together() -> None:
    taken = from_torch(Faces(lambda i: {"row": i})).take([8, 2])
    np.testing.assert_array_equal(np.asarray(taken.x), X[[8, 2]])
    assert taken.attributes["row"].tolist() == [8, 2]


@pytest.mark.parametrize(
    ("attributes", "names", "expected"),
    [
        (lambda i: {"sex": "FM"[i % 2], "age": torch.tensor(i)}, (), {"sex": ["F", "M"], "age": [0, 1]}),
        (lambda i: ("FM"[i % 2], i), ("sex", "age"), {"sex": ["F", "M"], "age": [0, 1]}),
        (lambda i: torch.tensor([i, 7]), (), {"attribute 1": [0, 1], "attribute 2": [7, 7]}),
        (lambda i: "FM"[i % 2], ("sex",), {"sex": ["F", "M"]}),
        (np.int64, (), {"attribute": [0, 1]}),
        (lambda i: {"sex": None if i == 0 else "F"}, (), {"sex": [None, "F"]}),
    ],
    ids=["dict", "tuple", "vector", "text", "number", "missing"],
)
def test_attributes_come_as_dict_tuple_or_value(attributes: Any, names: tuple[str, ...], expected: Any) -> None:
    columns = from_torch(Faces(attributes), attribute_names=names).attributes
    assert {name: column.tolist()[:2] for name, column in columns.items()} == expected


def test_labels_may_be_text_or_tensors_and_classes_have_names() -> None:
    pairs = [(X[0], "dog"), (X[1], "ant"), (X[2], "dog")]
    assert from_torch(pairs).labels.tolist() == ["dog", "ant", "dog"]
    assert from_torch(pairs, class_names=["dog", "cat", "ant"]).y.tolist() == [0, 2, 0]
    assert from_torch(Faces(), class_names=["a", "b", "c"]).labels.tolist()[:4] == ["a", "b", "c", "a"]
    assert from_torch([(X[0], torch.tensor([2])), (X[1], torch.tensor([0]))]).y.tolist() == [2, 0]


def test_progress_is_told_for_both_readings() -> None:
    told: list[tuple[str, int, int]] = []
    from_torch(Faces(), progress=lambda *step: told.append(step))
    assert told == [("Reading labels", 10, 10), ("Fingerprint", 10, 10)]


def test_items_travel_to_another_process() -> None:
    faces = from_torch(TensorDataset(torch.tensor(X), torch.tensor(Y)))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(faces)).x[3:5], X[3:5])


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([(X[0], 0)])


class Random(Faces):
    def __getitem__(self, place: int) -> Any:
        return self.x[place] + (np.random.rand() if place == 6 else 0), 0


class Failing(Faces):
    def __getitem__(self, place: int) -> Any:
        if place == 4:
            raise KeyError("no such file")
        return self.x[place], 0


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (Stream(), "Stream has no length, or no items by index"),
        (iter([(X[0], 0)]), "Expected a map-style dataset"),
        (DataLoader(TensorDataset(torch.tensor(X))), r"Pass `loader\.dataset`"),
        ([], "The dataset is empty"),
        (TensorDataset(torch.tensor(X)), r"Item 0 of the dataset is a tuple of 1; expected \(x, y\)"),
        ([(X[0], 0, 1, 2)], "a tuple of 4"),
        ([{"image": X[0], "label": 0}], "is a dict; .* There are: image, label"),
        ([X[0]], "is a ndarray"),
        ([(X[0], 0), (X[1][:, :2], 0)], r"Item 1 .* shape \(3, 2, 4\), item 0 .* \(3, 4, 4\)"),
        ([(X[0], 0), (X[1].astype(float), 0)], "Item 1 .* holds float64"),
        ([(X[0], 0), (X[1] * np.nan, 0)], "NaN or infinity, first in the sample at index 1"),
        ([(X[0], [0, 1])], "The label of item 0 .* must be one value"),
        ([(X[0], 0), (X[1], None)], r"has no label for 1 of 2 samples \(first at index 1\)"),
        ([("text", 0)], "must be an array of numbers"),
        ([(Image.new("RGB", (4, 4)), 0)], "holds an image .* ToTensor"),
        ([(X[0], 0, {"a": 1}), (X[1], 0, {"b": 1})], "Item 1 .* has the attributes b, but item 0 has a"),
        ([(X[0], 0, {"a": 1}), (X[1], 0)], r"attributes \(none\), but item 0 has a"),
        ([(X[0], 0, {"a": [1, 2]})], "The attribute 'a' of item 0 .* must be one value"),
        (Random(), "Item 6 .* changes each time it is read"),
        (Failing(), r"Item 4 of the dataset cannot be read \(KeyError: 'no such file'\)"),
    ],
)
def test_what_is_no_such_dataset_is_explained(source: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_torch(source)


def test_attribute_names_must_fit() -> None:
    with pytest.raises(InputError, match="has 2 attributes, but `attribute_names` has 1 names: sex"):
        from_torch(Faces(lambda i: ("F", 3)), attribute_names=["sex"])
    with pytest.raises(InputError, match="a single text"):
        from_torch(Faces(), attribute_names="sex")


# Hugging Face


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("FAIRMARGIN_CACHE", str(tmp_path / "cache"))
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
    drawn = np.random.RandomState(3).randint(0, 256, (16, 16, 3)).astype(np.uint8)
    np.testing.assert_array_equal(animals.x[3], np.moveaxis(drawn, 2, 0).astype(np.float32) / np.float32(255))
    assert isinstance(animals.x.stored, np.memmap)  # type: ignore[attr-defined]


def test_any_column_of_text_can_be_the_label(saved: Any) -> None:
    assert from_huggingface(saved(), label="word").class_names == ("x", "y", "z")


def test_of_several_splits_one_is_named(saved: Any) -> None:
    folder = saved(splits=True)
    assert len(from_huggingface(folder, split="test")) == 1
    assert len(from_huggingface(folder, split="train")) == 4
    with pytest.raises(InputError, match=r"holds several splits\. .* train, test"):
        from_huggingface(folder)
    with pytest.raises(InputError, match=r"no split 'tests'\. Did you mean 'test'"):
        from_huggingface(folder, split="tests")


def test_images_are_resized_and_corrupt_ones_named(saved: Any, tmp_path: Path) -> None:
    folder = saved([picture(size=(4, 4)), picture(size=(6, 5))])
    with pytest.raises(InputError, match=r"differ in size: in row 0 has 4 × 4 pixels, in row 1 has 6 × 5"):
        from_huggingface(folder)
    assert from_huggingface(folder, size=3).x.shape == (2, 3, 3, 3)


def test_a_corrupt_image_is_named(saved: Any) -> None:
    with pytest.raises(InputError, match=r"Image in row 1 of .*saved cannot be read"):
        from_huggingface(saved([picture(), b"junk"]))


def test_only_the_formats_of_datasets_are_decoded(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        pytest.fail("Ghostscript was started")

    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", started)
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n"
    folder = saved([picture(), eps])
    with pytest.raises(InputError, match=r"Image in row 1 of .* not a JPEG, PNG, .* \(it begins with '%!PS-Adobe"):
        from_huggingface(folder)
    for columns in ({"label": "image"}, {"attributes": ["image"]}):
        with pytest.raises(InputError, match=r"Column 'image' of .* holds files"):
            from_huggingface(folder, **columns)


def test_what_is_missing_in_a_saved_folder_is_explained(saved: Any, tmp_path: Path) -> None:
    folder = saved(label=[2, -1, 0, -1])
    with pytest.raises(InputError, match=r"label 'label' is missing in 2 of 4 rows, first in row 1"):
        from_huggingface(folder)
    with pytest.raises(InputError, match=r"no column 'wrod' \(label\)\. Did you mean 'word'"):
        from_huggingface(folder, label="wrod")
    with pytest.raises(InputError, match=r"Column 'word' of .* holds no images"):
        from_huggingface(folder, image="word")
    with pytest.raises(InputError, match="holds a single split"):
        from_huggingface(folder, split="test")
    with pytest.raises(InputError, match="There is no folder"):
        from_huggingface(tmp_path / "nothing")
    (folder / "state.json").write_text("{")
    with pytest.raises(InputError, match="or it is damaged"):
        from_huggingface(folder)


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'fairmargin\[huggingface\]'"):
        from_huggingface(tmp_path)
