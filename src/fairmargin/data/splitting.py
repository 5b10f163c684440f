"""Which samples are for training and which for testing, where the makers of the data did not say."""

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.data.card import Split

TRAIN_SHARE = 0.8
SENTENCE = "No official split: a fixed, seeded 80:20 by {unit}."


def seeded_split(count: int, split: Split, identity: npt.NDArray[np.generic] | None = None) -> Ints:
    """Positions of a split, ascending: a fixed 80:20 by sample, or by identity so that nobody is on both sides.

    >>> train, test = seeded_split(10, "train"), seeded_split(10, "test")
    >>> len(train), sorted([*train.tolist(), *test.tolist()]) == list(range(10))
    (8, True)
    """
    if split == "all":
        return np.arange(count)
    units, member = (np.arange(count), np.arange(count)) if identity is None else _units(identity)
    # RandomState, not Generator: numpy promises that its stream never changes.
    order = np.random.RandomState(0).permutation(len(units))
    chosen = np.zeros(len(units), dtype=np.bool_)
    chosen[order[: int(TRAIN_SHARE * len(units))]] = True
    return np.flatnonzero(chosen[member] == (split == "train"))


def _units(identity: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.generic], Ints]:
    units, member = np.unique(identity, return_inverse=True)
    return units, member.astype(np.int64)
