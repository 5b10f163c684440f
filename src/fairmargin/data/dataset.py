"""The dataset: samples with labels and attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairmargin.core.arrays import Ints, read_only
from fairmargin.core.domain import Domain
from fairmargin.core.partition import Partition
from fairmargin.core.suggestion import suggest
from fairmargin.data.samples import Samples, as_samples, content_hash, take_rows
from fairmargin.errors import InputError

_LABEL_NAMES = ("class", "label")


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Samples with their labels, their attributes and the domain of their inputs.

    Parameters
    ----------
    x
        Samples along the first axis; any further shape. The array is neither copied nor loaded as a whole.
    y
        One label per sample: integers or text.
    attributes
        Columns with one value per sample, which can define groups.
    domain
        Valid inputs, and the scale in which distances are measured.
    name
        Name of the dataset in reports.
    fingerprint
        Hash of the content of `x` and `y`; computed if omitted. It excludes attributes, because distances do not depend
        on them: stored distances stay valid when an attribute is added.
    feature_names
        Names of the features, for tables.
    notes
        Sentences for the report about how the data were processed.
    class_names
        Names of the classes, if `y` holds the integers 0 … C−1; used to label the groups of classes.
    missing
        Whether numbers of `x` may be missing (NaN), for models that accept them.

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
    class_names: tuple[str, ...] = ()
    missing: bool = False

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
        class_names: tuple[str, ...] = (),
        missing: bool = False,
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
        object.__setattr__(self, "fingerprint", fingerprint or content_hash(samples, labels, missing=missing))
        object.__setattr__(self, "feature_names", tuple(feature_names))
        object.__setattr__(self, "notes", tuple(notes))
        object.__setattr__(self, "class_names", _class_names(class_names, labels))
        object.__setattr__(self, "missing", missing)

    def __len__(self) -> int:
        return int(self.x.shape[0])

    def partition(self, name: str) -> Partition:
        """Return the groups defined by an attribute, or by the label if the name is "class" or "label"."""
        if name in self.attributes:
            return Partition.by(name, self.attributes[name])
        if name in _LABEL_NAMES:
            return Partition.by(name, self.labels)
        raise InputError(f"The data have no attribute {name!r}. {suggest(name, [*self.attributes, 'class'])}")

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The label of each sample, as the name of its class if class names are known."""
        return np.array(self.class_names)[self.y] if self.class_names else self.y

    def take(self, which: npt.ArrayLike) -> "Dataset":
        """Select samples by a mask or by indices; only these are loaded."""
        chosen = _positions(which, len(self))
        return replace(
            self,
            x=take_rows(self.x, chosen),
            y=self.y[chosen],
            attributes={name: column[chosen] for name, column in self.attributes.items()},
            fingerprint="",
        )

    def sample(self, per_group: int = 100, by: str = "class", seed: int = 0) -> "Dataset":
        """Draw at most `per_group` samples from each group without replacement; smaller groups are kept completely.

        Guarantee: the same seed draws the same samples, in their original order; the samples drawn from one group do
        not depend on the other groups.

        Parameters
        ----------
        per_group
            Maximum number of samples per group.
        by
            Name of an attribute, or "class".
        seed
            Seed of the random numbers.

        >>> people = Dataset([[1.0], [2.0], [3.0]], y=[0, 1, 1], attributes={"sex": ["F", "M", "F"]})
        >>> people.sample(per_group=1, by="sex").attributes["sex"].tolist()
        ['F', 'M']
        """
        if isinstance(per_group, bool) or not isinstance(per_group, int | np.integer) or per_group < 1:
            raise InputError(f"`per_group`, the number of samples per group, must be 1 or more; given {per_group!r}.")
        partition = self.partition(by)
        if partition.sizes.max() <= per_group:
            return self
        drawn = [_drawn(np.flatnonzero(mask), per_group, f"{seed} {by}={label}") for label, mask in partition]
        chosen = np.sort(np.concatenate(drawn))
        note = (
            f"A sample of {len(chosen):,} of {len(self):,}: at most {per_group:,} of each group of {by!r}, drawn with "
            f"seed {seed}. Group sizes differ from those of the data, so that numbers over all groups describe this "
            "sample, not the whole data."
        )
        return replace(self.take(chosen), notes=(*self.notes, note))

    def __repr__(self) -> str:
        attributes = ", ".join(self.attributes) or "none"
        shape = tuple(map(int, self.x.shape[1:]))
        return f"Dataset({self.name!r}, {len(self):,} samples of shape {shape}, attributes: {attributes})"


def _drawn(positions: Ints, count: int, key: str) -> Ints:
    if len(positions) <= count:
        return positions
    # RandomState, not Generator: numpy promises that its stream never changes.
    random = np.random.RandomState(np.frombuffer(sha256(key.encode()).digest(), dtype="<u4"))
    return positions[random.permutation(len(positions))[:count]]


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
    domain.flat(features)  # raises if the shape of the domain does not match
    if feature_names and len(feature_names) != features:
        raise InputError(f"`feature_names` has {len(feature_names):,} names but `x` has {features:,} features.")


def _labels(y: npt.ArrayLike) -> npt.NDArray[Any]:
    labels = _column("y", y)
    if labels.dtype.kind not in "Of":
        return labels
    missing = np.asarray(pd.isna(labels), dtype=np.bool_)
    if missing.any():
        raise InputError(
            f"`y` lacks the label of {missing.sum():,} of {len(labels):,} samples (first at index {missing.argmax()}). "
            "Drop these samples, from `x` and the attributes too."
        )
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def _class_names(names: tuple[str, ...], labels: npt.NDArray[Any]) -> tuple[str, ...]:
    if not names:
        return ()
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= len(names):
        raise InputError(
            f"`class_names` has {len(names)} names, so that `y` must hold integers from 0 to "
            f"{len(names) - 1}; it holds {labels.dtype} from {labels.min()} to {labels.max()}."
        )
    return tuple(map(str, names))


def _column(name: str, column: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(column)
    if array.ndim != 1:
        raise InputError(f"`{name}` must have one value per sample; its shape is {array.shape}.")
    return array


def _positions(which: npt.ArrayLike, count: int) -> Ints:
    """Return the positions selected by a mask or by indices; negative indices count from the end."""
    chosen = np.asarray(which)
    if chosen.dtype == np.bool_:
        if chosen.shape != (count,):
            raise InputError(f"A mask must have one entry for each of {count:,} samples; its shape is {chosen.shape}.")
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise InputError(f"Samples are selected by a mask or by a list of indices; given {which!r}.")
    outside = chosen[(chosen < -count) | (chosen >= count)]
    if outside.size:
        raise InputError(f"There is no sample at index {outside[0]:,}: the data have {count:,} samples.")
    return np.where(chosen < 0, chosen + count, chosen).astype(np.int64)
