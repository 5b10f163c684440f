"""Datasets of PyTorch are read item by item. What is refused is in `tests/spec/refusals/data.py`."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from fairmargin.core.domain import Domain
from fairmargin.data.dataset import Dataset
from fairmargin.data.formats.torch_dataset import Items, from_torch

X = np.random.RandomState(0).rand(10, 3, 4, 4).astype(np.float32)
Y = np.arange(10) % 3


class Faces(torch.utils.data.Dataset[Any]):
    """Returns tensors, labels and attributes, and counts how many items are read."""

    def __init__(self, attributes: Any = None) -> None:
        self.attributes, self.read = attributes, 0

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, place: int) -> Any:
        self.read += 1
        item = torch.as_tensor(X[place]), int(Y[place])
        return item if self.attributes is None else (*item, self.attributes(place))


def test_inputs_are_read_when_they_are_sliced() -> None:
    source = Faces()
    faces = from_torch(source, name="faces", domain=Domain(0, 1))
    assert isinstance(faces.x, Items)
    before = source.read
    np.testing.assert_array_equal(faces.x[2:5], X[2:5])
    assert source.read - before == 3
    np.testing.assert_array_equal(np.asarray(faces.x[[7, 1]]), X[[7, 1]])
    np.testing.assert_array_equal(faces.x[-1], X[-1])
    assert (faces.y.tolist(), faces.name, float(faces.domain.high)) == (Y.tolist(), "faces", 1.0)


def test_the_fingerprint_is_that_of_the_same_content_in_memory() -> None:
    tensors = TensorDataset(torch.tensor(X), torch.tensor(Y))
    assert from_torch(Faces()).fingerprint == from_torch(tensors).fingerprint == Dataset(X, Y).fingerprint


def test_taking_samples_keeps_attributes_and_inputs_together() -> None:
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
def test_attributes_may_be_a_dict_a_tuple_or_a_value(attributes: Any, names: tuple[str, ...], expected: Any) -> None:
    columns = from_torch(Faces(attributes), attribute_names=names).attributes
    assert {name: column.tolist()[:2] for name, column in columns.items()} == expected


def test_labels_may_be_text_or_tensors_and_classes_may_have_names() -> None:
    pairs = [(X[0], "dog"), (X[1], "ant"), (X[2], "dog")]
    assert from_torch(pairs).labels.tolist() == ["dog", "ant", "dog"]
    assert from_torch(pairs, class_names=["dog", "cat", "ant"]).y.tolist() == [0, 2, 0]
    assert from_torch(Faces(), class_names=["a", "b", "c"]).labels.tolist()[:4] == ["a", "b", "c", "a"]
    assert from_torch([(X[0], torch.tensor([2])), (X[1], torch.tensor([0]))]).y.tolist() == [2, 0]


def test_both_readings_report_their_progress() -> None:
    reports: list[tuple[str, int, int]] = []
    from_torch(Faces(), progress=lambda *step: reports.append(step))
    assert reports == [("Reading labels", 10, 10), ("Fingerprint", 10, 10)]


def test_items_can_be_sent_to_another_process() -> None:
    faces = from_torch(TensorDataset(torch.tensor(X), torch.tensor(Y)))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(faces)).x[3:5], X[3:5])
