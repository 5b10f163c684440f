"""Samples with labels and attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints, read_only
from fairmargin.core.domain import Domain
from fairmargin.core.partition import Partition
from fairmargin.core.suggestion import suggest
from fairmargin.data.samples import Samples, as_samples, content_hash, take_rows
from fairmargin.errors import InputError

_LABEL_NAMES = ("class", "label")


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Samples, their labels, and what else is known of them.

    Parameters
    ----------
    x
        One row a sample, of any further shape. It is neither copied nor loaded whole.
    y
        One label a sample: integers or text.
    attributes
        Columns with one value a sample, by which groups can be formed.
    domain
        Where inputs may lie and how length is measured.
    name
        What the dataset is called in reports.
    fingerprint
        A hash of the content of `x` and `y`, computed if left out. Attributes are not in it: distances do not depend
        on them, so that a new attribute makes no distance stale.
    feature_names
        The names of the features of a table.
    notes
        What was done to the data on the way here, in sentences for the report.

    >>> people = Dataset([[1.0], [2.0], [3.0]], y=[0, 1, 1], attributes={"sex": ["F", "M", "F"]}, name="people")
    >>> people
    Dataset('people', 3 samples of shape (1,), attributes: sex)
    >>> people.partition("sex").sizes.tolist()
    [2, 1]
    """

    x: Samples
    y: npt.NDArray[Any]
    attributes: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    domain: Domain = field(default_factory=Domain)
    name: str = ""
    fingerprint: str = ""
    feature_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        x: Samples | npt.ArrayLike,
        y: npt.ArrayLike,
        attributes: Mapping[str, npt.ArrayLike] | None = None,
        domain: Domain | None = None,
        name: str = "",
        fingerprint: str = "",
        feature_names: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        samples, labels = as_samples(x), _labels(y)
        columns = {str(key): read_only(_column(key, column)) for key, column in (attributes or {}).items()}
        box = Domain() if domain is None else domain
        _check(samples, labels, columns, box, feature_names)
        # `x` and `y` stay as given, not read-only views: torch warns of tensors that share read-only memory.
        object.__setattr__(self, "x", samples)
        object.__setattr__(self, "y", labels)
        object.__setattr__(self, "attributes", columns)
        object.__setattr__(self, "domain", box)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "fingerprint", fingerprint or content_hash(samples, labels))
        object.__setattr__(self, "feature_names", tuple(feature_names))
        object.__setattr__(self, "notes", tuple(notes))

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def partition(self, name: str) -> Partition:
        """Groups by an attribute, or by the label under the names "class" and "label" (an attribute goes first)."""
        if name in self.attributes:
            return Partition.by(name, self.attributes[name])
        if name in _LABEL_NAMES:
            return Partition.by(name, self.y)
        raise InputError(f"The data have no attribute {name!r}. {suggest(name, [*self.attributes, 'class'])}")

    def take(self, which: npt.ArrayLike) -> "Dataset":
        """Some samples, by mask or index; only these are loaded."""
        chosen = _positions(which, len(self))
        return Dataset(
            x=take_rows(self.x, chosen),
            y=self.y[chosen],
            attributes={name: column[chosen] for name, column in self.attributes.items()},
            domain=self.domain,
            name=self.name,
            feature_names=self.feature_names,
            notes=self.notes,
        )

    def __repr__(self) -> str:
        attributes = ", ".join(self.attributes) or "none"
        shape = tuple(map(int, self.x.shape[1:]))
        return f"Dataset({self.name!r}, {len(self):,} samples of shape {shape}, attributes: {attributes})"


def _check(
    x: Samples,
    y: npt.NDArray[Any],
    attributes: Mapping[str, npt.NDArray[Any]],
    domain: Domain,
    feature_names: tuple[str, ...],
) -> None:
    count, features = x.shape[0], int(np.prod(x.shape[1:]))
    for what, column in (("`y`", y), *((f"Attribute {name!r}", column) for name, column in attributes.items())):
        if len(column) != count:
            unit = "labels" if column is y else "values"
            raise InputError(
                f"{what} has {len(column):,} {unit} but `x` has {count:,} samples. "
                "Did you drop rows from only one of them?"
            )
    domain.flat(features)  # says so if the domain is of another shape
    if feature_names and len(feature_names) != features:
        raise InputError(f"`feature_names` has {len(feature_names):,} names but `x` has {features:,} features.")


def _labels(y: npt.ArrayLike) -> npt.NDArray[Any]:
    labels = _column("y", y)
    if labels.dtype.kind not in "Of":
        return labels
    missing = np.array([label is None or label != label for label in labels.tolist()], dtype=np.bool_)
    if missing.any():
        raise InputError(
            f"`y` lacks the label of {missing.sum():,} of {len(labels):,} samples (first at index {missing.argmax()}). "
            "Drop these samples, from `x` and the attributes too."
        )
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def _column(name: str, column: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(column)
    if array.ndim != 1:
        raise InputError(f"`{name}` must have one value a sample; its shape is {array.shape}.")
    return array


def _positions(which: npt.ArrayLike, count: int) -> Ints:
    """Positions from a mask or from indices, which may count from the end."""
    chosen = np.asarray(which)
    if chosen.dtype == np.bool_:
        if chosen.shape != (count,):
            raise InputError(f"A mask over {count:,} samples must have as many entries; its shape is {chosen.shape}.")
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise InputError(f"Samples are taken by a mask or by a list of indices; given {which!r}.")
    outside = chosen[(chosen < -count) | (chosen >= count)]
    if outside.size:
        raise InputError(f"There is no sample at index {outside[0]:,}: the data have {count:,} samples.")
    return np.where(chosen < 0, chosen + count, chosen).astype(np.int64)
