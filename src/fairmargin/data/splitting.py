"""Which samples are for training and which for testing, where the makers of the data did not say."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Ints
from fairmargin.data.card import Split

TRAIN_SHARE = 0.8
SENTENCE = "No official split: a fixed, seeded 80:20 by {unit}."
_DRAWS = 500  # of which the most even one is taken


def seeded_split(
    count: int,
    split: Split,
    identity: npt.NDArray[np.generic] | None = None,
    labels: npt.NDArray[np.generic] | None = None,
) -> Ints:
    """Positions of a split, ascending: a fixed 80:20 by sample, or by identity so that nobody is on both sides.

    With `labels`, of 500 such draws the one is taken by which every class is parted most nearly 80:20: of few people
    with many samples each, a draw at random can test a class that it never trains.

    >>> train, test = seeded_split(10, "train"), seeded_split(10, "test")
    >>> len(train), sorted([*train.tolist(), *test.tolist()]) == list(range(10))
    (8, True)
    """
    if split == "all":
        return np.arange(count)
    units, member = (np.arange(count), np.arange(count)) if identity is None else _units(identity)
    # RandomState, not Generator: numpy promises that its stream never changes.
    stream = np.random.RandomState(0)
    draws = [_draw(stream, len(units)) for _ in range(1 if labels is None else _DRAWS)]
    chosen = draws[0] if labels is None else min(draws, key=_unevenness(member, labels))
    return np.flatnonzero(chosen[member] == (split == "train"))


def _draw(stream: np.random.RandomState, units: int) -> Bools:
    """Which units train."""
    chosen = np.zeros(units, dtype=np.bool_)
    chosen[stream.permutation(units)[: int(TRAIN_SHARE * units)]] = True
    return chosen


def _unevenness(member: Ints, labels: npt.NDArray[np.generic]) -> Callable[[Bools], float]:
    """How far the training share of classes lies from 80 %, on average over classes."""
    classes, of = np.unique(labels, return_inverse=True)
    table = np.zeros((int(member.max()) + 1, len(classes)))
    np.add.at(table, (member, of), 1)
    sizes = table.sum(axis=0)
    return lambda chosen: float(np.abs(table[chosen].sum(axis=0) / sizes - TRAIN_SHARE).mean())


def _units(identity: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.generic], Ints]:
    units, member = np.unique(identity, return_inverse=True)
    return units, member.astype(np.int64)
