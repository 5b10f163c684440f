"""Training and test splits for datasets without an official split."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Ints
from fairmargin.data.card import Split

TRAIN_SHARE = 0.8
SENTENCE = "No official split: a fixed, seeded 80:20 by {unit}."
_DRAWS = 500  # the most even of these draws is used


def seeded_split(
    count: int,
    split: Split,
    identity: npt.NDArray[np.generic] | None = None,
    labels: npt.NDArray[np.generic] | None = None,
) -> Ints:
    """Return the positions of a fixed 80:20 split, ascending; all samples with one `identity` are in the same split.

    With `labels`, the function draws 500 splits and uses the one in which the classes are closest to 80:20 on average.
    This matters for few people with many samples each: a single random draw can leave a class without training samples.

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
    """Draw the units of the training split, as a mask."""
    chosen = np.zeros(units, dtype=np.bool_)
    chosen[stream.permutation(units)[: int(TRAIN_SHARE * units)]] = True
    return chosen


def _unevenness(member: Ints, labels: npt.NDArray[np.generic]) -> Callable[[Bools], float]:
    """Return a function of a draw: the average over classes of how far the training share is from 80 %."""
    classes, of = np.unique(labels, return_inverse=True)
    table = np.zeros((int(member.max()) + 1, len(classes)))
    np.add.at(table, (member, of), 1)
    sizes = table.sum(axis=0)
    return lambda chosen: float(np.abs(table[chosen].sum(axis=0) / sizes - TRAIN_SHARE).mean())


def _units(identity: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.generic], Ints]:
    units, member = np.unique(identity, return_inverse=True)
    return units, member.astype(np.int64)
