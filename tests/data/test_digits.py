import subprocess
import sys

import numpy as np
import pytest

from fairmargin.data.catalog import load
from fairmargin.data.sets.digits import load_digits_dataset
from fairmargin.errors import InputError

TRAIN_LABELS = [1, 2, 4, 5, 6, 8, 9, 0, 3, 4, 5, 6]
TEST_LABELS = [0, 3, 7, 1, 2, 0, 1, 3, 4, 5, 6, 8]


def test_the_digits_are_the_bundled_images_scaled_to_one() -> None:
    from sklearn.datasets import load_digits

    digits, original = load_digits_dataset(), load_digits()
    np.testing.assert_array_equal(np.asarray(digits.x) * 16, original.data)
    np.testing.assert_array_equal(digits.y, original.target)


def test_the_split_is_sixty_to_forty_and_always_the_same() -> None:
    train, test = load_digits_dataset("train"), load_digits_dataset("test")
    assert (len(train), len(test)) == (1078, 719)
    # Frozen on purpose: published numbers of the demonstration hang on it.
    assert train.y[:12].tolist() == TRAIN_LABELS
    assert test.y[:12].tolist() == TEST_LABELS


def test_ink_cuts_the_samples_into_three_of_like_size_and_does_not_depend_on_the_split() -> None:
    digits = load_digits_dataset()
    assert all(abs(size - 599) < 15 for size in digits.partition("ink").sizes)
    amount = np.asarray(digits.x).sum(axis=1)
    ink = digits.attributes["ink"]
    assert amount[ink == "light"].max() <= amount[ink == "medium"].min()
    assert amount[ink == "medium"].max() <= amount[ink == "heavy"].min()
    known = {row.tobytes(): word for row, word in zip(np.asarray(digits.x), ink, strict=True)}
    test = load_digits_dataset("test")
    assert all(
        known[row.tobytes()] == word for row, word in zip(np.asarray(test.x), test.attributes["ink"], strict=True)
    )


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(InputError, match=r"Unknown split 'validation' .* all, train, test"):
        load("digits", split="validation")


def test_neither_data_nor_engine_nor_store_load_torch_or_scikit_learn() -> None:
    program = (
        "import sys, fairmargin.data.catalog, fairmargin.data.distance_table, fairmargin.engine.catalog, "
        "fairmargin.store.folder; print({'torch', 'sklearn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
