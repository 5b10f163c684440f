"""The handwritten digits that scikit-learn brings along: a demonstration that needs no download."""

from pathlib import Path
from typing import Literal

import numpy as np

from fairmargin.core.domain import Domain
from fairmargin.data.dataset import Dataset
from fairmargin.errors import InputError

Split = Literal["all", "train", "test"]
_TRAIN_SHARE = 0.6


def load_digits_dataset(split: Split = "all", root: Path | None = None) -> Dataset:
    """1,797 images of 8 by 8 pixels in [0, 1], flattened, with their digit and how much ink they bear.

    The split is 60:40 by a fixed permutation of all samples, not stratified; within a split samples keep their order.

    Parameters
    ----------
    split
        "train", "test", or "all" of it.
    root
        Not needed: the data come with scikit-learn.

    >>> digits = load_digits_dataset("test")
    >>> digits
    Dataset('digits', 719 samples of shape (64,), attributes: digit, ink)
    >>> digits.partition("ink").labels
    ('heavy', 'light', 'medium')
    """
    if split not in ("all", "train", "test"):
        raise InputError(f"Unknown split {split!r} of the digits. Expected one of all, train, test.")
    from sklearn.datasets import load_digits

    images, digit = load_digits(return_X_y=True)
    x, y = np.asarray(images, dtype=np.float64) / 16, np.asarray(digit, dtype=np.int64)
    amount = x.sum(axis=1)
    # Terciles of all samples, so that a sample's attribute does not depend on the split it is loaded with.
    ink = np.array(["light", "medium", "heavy"])[np.digitize(amount, np.quantile(amount, [1 / 3, 2 / 3]))]
    whole = Dataset(x, y, {"digit": y, "ink": ink}, Domain(0, 1), name="digits")
    if split == "all":
        return whole
    # RandomState, not Generator: numpy promises that its stream never changes.
    order = np.random.RandomState(0).permutation(len(y))
    train, test = np.split(order, [int(_TRAIN_SHARE * len(y))])
    return whole.take(np.sort(train if split == "train" else test))
