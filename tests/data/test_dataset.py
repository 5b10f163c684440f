import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmargin.core.domain import Domain
from fairmargin.data.dataset import Dataset
from fairmargin.errors import InputError

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 2, 2])


class OnDisk:
    """As strict as h5py: slices, or positions that ascend without repetition; counts what is loaded."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows, self.shape, self.dtype, self.largest = rows, rows.shape, rows.dtype, 0

    def __getitem__(self, which: slice | np.ndarray) -> np.ndarray:
        if isinstance(which, np.ndarray):
            assert (np.diff(which) > 0).all()
        found: np.ndarray = self._rows[which]
        self.largest = max(self.largest, len(found))
        return found


def people() -> Dataset:
    return Dataset(X, Y, {"sex": np.array(["F", "M", "F", "F", None, "M"], dtype=object)}, Domain(0, 20), name="people")


def test_samples_are_neither_copied_nor_loaded(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "x", dtype="f4", mode="w+", shape=(6, 2))
    assert Dataset(mapped, Y).x is mapped
    disk = OnDisk(np.zeros((10_000, 2)))
    assert Dataset(disk, np.zeros(10_000, dtype=int)).x is disk
    assert disk.largest <= 4096


def test_lists_and_frames_become_arrays() -> None:
    assert isinstance(Dataset([[1, 2], [3, 4]], [0, 1]).x, np.ndarray)
    assert isinstance(Dataset(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series(["x", "y"])).x, np.ndarray)


def test_text_labels_of_any_kind_are_one_kind() -> None:
    fingerprints = {
        Dataset([[1.0], [2.0]], labels).fingerprint
        for labels in (
            ["a", "b"],
            np.array(["a", "b"], dtype=object),
            pd.Series(["a", "b"]),
            np.array(["a", "b"], "U9"),
        )
    }
    assert len(fingerprints) == 1


def test_the_fingerprint_is_of_the_content_not_of_its_storage() -> None:
    expected = Dataset(X, Y).fingerprint
    assert Dataset(np.asfortranarray(X), Y).fingerprint == expected
    assert Dataset(X.astype(">f8"), Y.astype(">i8")).fingerprint == expected
    assert Dataset(OnDisk(X), Y).fingerprint == expected
    assert Dataset(X, Y, {"sex": list("FMFMFM")}, Domain(0, 20), name="other").fingerprint == expected


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X + np.eye(6, 2), Y),
        (X.astype("f4"), Y),
        (X.reshape(6, 1, 2), Y),
        (X, Y[::-1].copy()),
        (X, Y.astype(str)),
        (X[:5], Y[:5]),
    ],
    ids=["a value", "the dtype", "the shape", "the labels", "the kind of label", "a sample less"],
)
def test_the_fingerprint_changes_with(x: np.ndarray, y: np.ndarray) -> None:
    assert Dataset(x, y).fingerprint != Dataset(X, Y).fingerprint


def test_the_fingerprint_sees_the_last_sample_of_large_data() -> None:
    large = np.zeros((9_000, 1))
    other = large.copy()
    other[-1] = 1
    labels = np.zeros(9_000, dtype=int)
    assert Dataset(large, labels).fingerprint != Dataset(other, labels).fingerprint


def test_a_given_fingerprint_is_kept() -> None:
    assert Dataset(X, Y, fingerprint="known").fingerprint == "known"


def test_groups_are_formed_by_attribute_or_class() -> None:
    assert people().partition("sex").labels == ("F", "M", "missing")
    assert people().partition("class").sizes.tolist() == [2, 2, 2]
    assert people().partition("label").name == "label"


def test_an_attribute_goes_before_the_label_of_the_same_name() -> None:
    assert Dataset(X, Y, {"class": list("aabbcd")}).partition("class").labels == ("a", "b", "c", "d")


def test_an_unknown_attribute_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no attribute 'Sexx'. Did you mean 'sex'\? There are: sex, class\."):
        people().partition("Sexx")


@given(st.lists(st.integers(-6, 5), min_size=1, max_size=12))
def test_taking_samples_keeps_everything_together_in_the_order_asked(which: list[int]) -> None:
    for x in (X, OnDisk(X)):
        taken = Dataset(x, Y, {"row": np.arange(6)}, Domain(0, 20), name="rows").take(which)
        np.testing.assert_array_equal(np.asarray(taken.x), X[which])
        np.testing.assert_array_equal(taken.y, Y[which])
        np.testing.assert_array_equal(taken.attributes["row"], np.arange(6)[which])
        assert (len(taken), taken.name, float(taken.domain.high)) == (len(which), "rows", 20.0)


def test_taking_samples_works_by_mask_and_makes_a_new_fingerprint() -> None:
    taken = people().take(people().y == 1)
    assert len(taken) == 2
    assert taken.fingerprint == Dataset(X[[1, 3]], Y[[1, 3]]).fingerprint
    assert people().take(np.ones(6, dtype=bool)).fingerprint == people().fingerprint


@pytest.mark.parametrize(
    ("which", "sentence"),
    [([6], "no sample at index 6: the data have 6"), ([True], "one entry for each of"), ([0.5], "mask or by a list")],
)
def test_taking_what_is_not_there_is_refused(which: list[float], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        people().take(which)


def test_a_dataset_travels_to_another_process() -> None:
    back = pickle.loads(pickle.dumps(people()))
    assert back.fingerprint == people().fingerprint
    assert back.partition("sex").sizes.tolist() == people().partition("sex").sizes.tolist()


def test_attributes_cannot_be_written_through() -> None:
    column = np.arange(6)
    dataset = Dataset(X, Y, {"row": column})
    with pytest.raises(ValueError, match="read-only"):
        dataset.attributes["row"][0] = 9


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: Dataset(np.zeros((10_000, 1)), np.zeros(9_990)),
            r"`y` has 9,990 labels but `x` has 10,000 samples",
        ),
        (lambda: Dataset(X, Y, {"sex": ["F"]}), r"Attribute 'sex' has 1 values but `x` has 6 samples"),
        (lambda: Dataset(X, Y, {"sex": X}), r"`sex` must have one value per sample; its shape is \(6, 2\)"),
        (lambda: Dataset(X[:, 0], Y), r"one row per sample; its shape is \(6,\)"),
        (lambda: Dataset(X[:0], Y[:0]), "`x` is empty"),
        (lambda: Dataset(X.astype(str), Y), "`x` must hold numbers"),
        (lambda: Dataset(np.where(X == 5, np.nan, X), Y), "NaN or infinity, first in the sample at index 2"),
        (lambda: Dataset(X, [0, 1, None, 1, 0, None]), r"lacks the label of 2 of 6 samples \(first at index 2\)"),
        (lambda: Dataset(X, [0, 1, np.nan, 1, 0, 1]), r"lacks the label of 1 of 6"),
        (lambda: Dataset(X, Y, domain=Domain(scale=[1.0, 1.0, 1.0])), "has 3 entries but a sample has 2 features"),
        (lambda: Dataset(X, Y, feature_names=("a",)), "has 1 names but `x` has 2 features"),
    ],
)
def test_what_does_not_fit_together_is_explained(build: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        build()  # type: ignore[operator]
