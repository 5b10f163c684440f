"""Partitions of samples into named groups."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Ints, grouped, read_only, some_index
from fairmargin.errors import InputError

MISSING = "missing"
_TOO_MANY_NUMBERS = 100  # with more distinct fractional numbers a column is taken to be continuous


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Partition of samples into named groups. Every sample belongs to exactly one group.

    Parameters
    ----------
    name
        Name of the attribute by which samples are grouped, for instance "race".
    labels
        Names of the groups.
    membership
        For each sample, the position of its group in `labels`.
    crossed
        Whether the groups are intersections of several attributes, so that their labels name the attributes.

    >>> sex = Partition.by("sex", ["F", "M", None, "F"])
    >>> sex.labels, sex.sizes.tolist()
    (('F', 'M', 'missing'), [2, 1, 1])
    >>> (sex & Partition.by("old", [True, True, False, False])).labels[0]
    'sex=F & old=False'
    """

    name: str
    labels: tuple[str, ...]
    membership: Ints
    crossed: bool = False

    def __init__(
        self, name: str, labels: tuple[str, ...] | list[str], membership: npt.ArrayLike, crossed: bool = False
    ) -> None:
        names = tuple(str(label) for label in labels)
        codes = np.asarray(membership)
        if codes.ndim != 1 or (codes.size and not np.issubdtype(codes.dtype, np.integer)):
            raise InputError(
                f"`membership` of partition {name!r} must be one integer per sample (the position of its group "
                f"in `labels`); given {codes.dtype} of shape {codes.shape}. Use `Partition.by(name, column)` to create "
                "a partition from a column."
            )
        if codes.size == 0:
            raise InputError(f"Partition {name!r} has no samples.")
        if len(set(names)) != len(names):
            raise InputError(f"Partition {name!r} names a group twice: {', '.join(names)}.")
        if codes.min() < 0 or codes.max() >= len(names):
            raise InputError(
                f"`membership` of partition {name!r} must lie in 0..{len(names) - 1}, one position per label; "
                f"given {codes.min()}..{codes.max()}."
            )
        codes = codes.astype(np.int64)
        empty = np.flatnonzero(np.bincount(codes, minlength=len(names)) == 0)
        if empty.size:
            raise InputError(
                f"Group {names[empty[0]]!r} of partition {name!r} has no sample. Leave it out of `labels`, or use "
                "`Partition.by(name, column)`, which names only groups that occur."
            )
        object.__setattr__(self, "name", str(name))
        object.__setattr__(self, "labels", names)
        object.__setattr__(self, "membership", read_only(codes))
        object.__setattr__(self, "crossed", crossed)

    @classmethod
    def by(cls, name: str, column: Any) -> "Partition":
        """Create a partition from a column of strings, numbers or booleans, with one group per distinct value.

        Samples with missing values form the group "missing".
        """
        codes, order = _encode(name, column)
        return cls(name, order, codes)

    @classmethod
    def binned(cls, name: str, column: Any, edges: Sequence[float]) -> "Partition":
        """Create a partition of numbers into the intervals between stated edges; each edge begins a group.

        >>> Partition.binned("age", [17, 30, 44, 45, None], [30, 45]).labels
        ('below 30', '30 to below 45', '45 and above', 'missing')
        """
        limits = _edges(name, edges)
        values = column.tolist() if hasattr(column, "tolist") else list(column)
        try:
            numbers = np.array([np.nan if label_text(each) == MISSING else float(each) for each in values])
        except (TypeError, ValueError):
            wrong = next(each for each in values if label_text(each) != MISSING and not _is_number(each))
            raise InputError(f"`bins` are for columns of numbers, but {name!r} holds {wrong!r}.") from None
        names = [f"{limit:g}" for limit in limits]
        between = [f"{low} to below {high}" for low, high in pairwise(names)]
        labels = [f"below {names[0]}", *between, f"{names[-1]} and above", MISSING]
        codes = np.where(np.isnan(numbers), len(limits) + 1, np.searchsorted(limits, numbers, side="right"))
        present, membership = np.unique(codes, return_inverse=True)
        return cls(name, [labels[i] for i in present], membership)

    def __len__(self) -> int:
        return len(self.membership)

    def __iter__(self) -> Iterator[tuple[str, Bools]]:
        for i, label in enumerate(self.labels):
            yield label, self.membership == i

    @property
    def sizes(self) -> Ints:
        """Number of samples in each group, in the order of `labels`."""
        return np.bincount(self.membership, minlength=len(self.labels)).astype(np.int64)

    def rows(self) -> list[Ints]:
        """Return the indices of the samples of each group, in ascending order."""
        order, starts = grouped(self.membership, len(self.labels))
        return np.split(order, starts[1:-1])

    def __and__(self, other: "Partition") -> "Partition":
        """Return the partition into all intersections with samples, with labels such as "race=Other & sex=F"."""
        if len(self) != len(other):
            raise InputError(
                f"Partition {self.name!r} has {len(self):,} samples but {other.name!r} has {len(other):,}. "
                "Did you drop rows from only one of them?"
            )
        pairs = self.membership * len(other.labels) + other.membership
        present, codes = np.unique(pairs, return_inverse=True)
        left, right = self._spelled(), other._spelled()
        labels = [f"{left[p // len(right)]} & {right[p % len(right)]}" for p in present]
        return Partition(f"{self.name} & {other.name}", labels, codes, crossed=True)

    def merge(self, *, smaller_than: int, into: str = "other") -> "Partition":
        """Merge all groups with fewer than `smaller_than` samples into one group named `into`."""
        small = self.sizes < smaller_than
        names = [into if s else label for label, s in zip(self.labels, small, strict=True)]
        order = list(dict.fromkeys([n for n in names if n != into] + ([into] if into in names else [])))
        position = np.array([order.index(n) for n in names], dtype=np.int64)
        return Partition(self.name, order, position[self.membership], crossed=self.crossed)

    def take(self, which: npt.ArrayLike) -> "Partition":
        """Return the partition of the samples that a mask or indices select, without the groups that become empty."""
        codes = self.membership[some_index(which, f"of partition {self.name!r} ")]
        present, renumbered = np.unique(codes, return_inverse=True)
        return Partition(self.name, [self.labels[i] for i in present], renumbered, crossed=self.crossed)

    def _spelled(self) -> list[str]:
        return list(self.labels) if self.crossed else [f"{self.name}={label}" for label in self.labels]

    def __repr__(self) -> str:
        groups = ", ".join(f"{label}: {size:,}" for label, size in zip(self.labels[:6], self.sizes, strict=False))
        return f"Partition({self.name!r}, {groups}{', …' if len(self.labels) > 6 else ''})"


def _edges(name: str, edges: Sequence[float]) -> list[float]:
    """Return the edges of bins as rising numbers."""
    try:
        limits = [float(each) for each in edges]
    except (TypeError, ValueError):
        limits = []
    rising = all(low < high for low, high in pairwise(limits))
    if not limits or not rising or not all(map(math.isfinite, limits)):
        raise InputError(f"`bins` of {name!r} must be rising numbers, such as 30, 45, 60; given {edges!r}.")
    return limits


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def check_partition(partition: object) -> None:
    """Raise an `InputError` if a value is not a `Partition`, for instance a column or the name of a column."""
    if not isinstance(partition, Partition):
        what = repr(partition) if isinstance(partition, str) else f"a {type(partition).__name__}"
        raise InputError(
            f"`partition` must be a `Partition`; given {what}. Create one from a column: "
            "`Partition.by('sex', column)`, or `dataset.partition('sex')`."
        )


def _encode(name: str, column: Any) -> tuple[Ints, list[str]]:
    """Return each sample's position among the labels, and the labels (sorted, or in the order of categories)."""
    if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
        raise InputError(f"Partition {name!r} needs a column with one value per sample; given {column!r}.")
    if getattr(column, "ndim", 1) != 1:
        raise InputError(
            f"Partition {name!r} needs a column with one value per sample; given {column.ndim} dimensions."
        )
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        column = column.astype(str)  # `tolist` would convert dates to counts of nanoseconds
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    try:
        # Only distinct values are converted, because a million samples may have a few distinct values.
        text_of = {value: label_text(value) for value in dict.fromkeys(values)}
    except TypeError:
        raise InputError(
            f"Column {name!r} holds lists or other containers; give one plain value per sample, the name of its group."
        ) from None
    distinct = {text: value for value, text in text_of.items() if text != MISSING}
    fractional = sum(
        isinstance(value, (float, np.floating)) and not float(value).is_integer() for value in distinct.values()
    )
    if fractional > _TOO_MANY_NUMBERS:
        raise InputError(
            f"Column {name!r} has {len(distinct):,} distinct numbers and looks continuous. Bin it first, for instance "
            "with `pandas.cut`, and pass the bins."
        )
    categories = getattr(getattr(column, "dtype", None), "categories", None)
    if categories is not None:
        order = list(dict.fromkeys(text for text in map(label_text, categories) if text in distinct))
    else:
        order = sorted(distinct, key=lambda text: _rank(distinct[text], text))
    if len(set(text_of.values())) > len(order):
        order.append(MISSING)
    position = {label: i for i, label in enumerate(order)}
    code_of = {value: position[text] for value, text in text_of.items()}
    return np.fromiter(map(code_of.__getitem__, values), np.int64, len(values)), order


def label_text(value: Any) -> str:
    """Return the name of the group of a value.

    None, NaN, the missing values of pandas and empty texts give "missing". 1.0 gives "1".
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return MISSING
    if isinstance(value, (float, np.floating)):
        if np.isnan(value):
            return MISSING
        return str(int(value)) if float(value).is_integer() else str(float(value))
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    text = text.strip()
    return MISSING if text in ("", "NaT") else text


def _rank(value: Any, text: str) -> tuple[int, float, str]:
    """Return a sort key that orders numbers by size and places all other texts after them, in alphabetical order."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return (1, 0.0, text)
    return (1, 0.0, text) if np.isnan(number) else (0, number, text)
