"""The handwritten digits of scikit-learn, which need no download."""

import numpy as np

from fairmargin.core.domain import Domain
from fairmargin.data.card import Card, Entry, Request, Split
from fairmargin.data.dataset import Dataset

_TRAIN_SHARE = 0.6

CARD = Card(
    title="Handwritten digits, 1,797 images of 8 by 8 pixels in [0, 1], flattened",
    classes="the digit, 0 to 9",
    groups=("digit", "ink"),
    split="A fixed permutation of all samples, 60:40, not stratified; within a split samples keep their order.",
    licence="CC BY 4.0 (UCI repository); it comes with scikit-learn.",
    ethics="Digits by 43 writers, about whom nothing is known.",
    citation="E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI repository, 1998.",
    flattened=True,
)


def load_digits_dataset(request: Request | Split = "all") -> Dataset:
    """Load 1,797 flattened images of 8 by 8 pixels in [0, 1], with the digit and the amount of ink as attributes.

    >>> digits = load_digits_dataset("test")
    >>> digits
    Dataset('digits', 719 samples of shape (64,), attributes: digit, ink)
    >>> digits.partition("ink").labels
    ('heavy', 'light', 'medium')
    """
    from sklearn.datasets import load_digits

    split = request.split if isinstance(request, Request) else request
    images, digit = load_digits(return_X_y=True)
    x, y = np.asarray(images, dtype=np.float64) / 16, np.asarray(digit, dtype=np.int64)
    amount = x.sum(axis=1)
    # Terciles over all samples, so that the attribute of a sample does not depend on the split.
    ink = np.array(["light", "medium", "heavy"])[np.digitize(amount, np.quantile(amount, [1 / 3, 2 / 3]))]
    whole = Dataset(x, y, {"digit": y, "ink": ink}, Domain(0, 1), name="digits", class_names=tuple("0123456789"))
    if split == "all":
        return whole
    # RandomState, not Generator: numpy promises that its stream never changes.
    order = np.random.RandomState(0).permutation(len(y))
    train, test = np.split(order, [int(_TRAIN_SHARE * len(y))])
    return whole.take(np.sort(train if split == "train" else test))


ENTRY = Entry(CARD, load_digits_dataset)
