"""The protocol of classifiers, and the conversion of samples and labels to what a classifier expects."""

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.domain import Domain
from fairmargin.errors import InputError, ModelError

if TYPE_CHECKING:
    from fairmargin.models.network import Network

_SLACK = 1e-6  # how far float32 data can be outside of bounds because of rounding
_SHOWN = 20  # maximum number of names in a message


@runtime_checkable
class Classifier(Protocol):
    """Interface of a model that can be measured: it predicts the position of the class of each sample."""

    @property
    def classes(self) -> tuple[Any, ...]:
        """The label values; `predict` returns positions in this tuple."""

    @property
    def domain(self) -> Domain:
        """The valid inputs, and the scale of each feature."""

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of the model, a subset of "predict", "gradient", "linear", "trees" and "layers"."""

    @property
    def tile(self) -> int:
        """The fixed batch size; 1 if the scores of a sample do not depend on the batch.

        On some processors, the last bits of the scores depend on the batch size, so the tile is part of store keys.
        """

    def predict(self, x: Any) -> Ints:
        """Predict the position of the class of each sample."""

    def fingerprint(self) -> str:
        """Compute a hash of everything that determines predictions and domain, for store keys."""


class Wrapper:
    """Base class of classifiers that change one aspect of the classifier in their field `model`."""

    __slots__ = ()
    model: Classifier

    @property
    def classes(self) -> tuple[Any, ...]:
        """The label values of the original classifier."""
        return self.model.classes

    @property
    def domain(self) -> Domain:
        """The domain of the original classifier."""
        return self.model.domain

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of the original classifier."""
        return self.model.offers

    @property
    def tile(self) -> int:
        """The fixed batch size of the original classifier."""
        return self.model.tile

    def predict(self, x: Any) -> Ints:
        """Predict the position of the class of each sample."""
        return self.model.predict(x)


@runtime_checkable
class Differentiable(Classifier, Protocol):
    """Interface of a classifier that offers "gradient"."""

    def network(self, shape: tuple[int, ...]) -> "AbstractContextManager[Network]":
        """Open the model for differentiation on samples of this shape, until the context ends."""


def as_rows(x: Any, start: int = 0, *, missing: bool = False) -> Floats:
    """Convert samples to a C-ordered (n, features) array of finite float64; `start` is the index of the first one.

    With `missing`, values may be NaN.
    """
    if hasattr(x, "toarray"):
        raise InputError("`x` is a sparse matrix; pass `x.toarray()`.")
    try:
        array = np.ascontiguousarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`x` must hold numbers only: {error}. Encode categories as numbers first.") from None
    if array.ndim == 0:
        raise InputError(f"`x` must hold one row per sample; given {x!r}.")
    rows = array.reshape(len(array), math.prod(array.shape[1:]))
    bad = np.isinf(rows) if missing else ~np.isfinite(rows)
    if bad.any():
        where, feature = np.argwhere(bad)[0]
        raise InputError(
            f"`x` holds NaN or infinity, first {rows[where, feature]} in sample {start + where}, feature {feature} "
            "(of the flattened sample). Impute or drop such samples first, also in labels and groups."
        )
    return rows


def check_inside(domain: Domain, x: Any, start: int = 0) -> None:
    """Refuse samples outside of the bounds of the domain, up to rounding: their distance is not defined."""
    suspects = np.flatnonzero(~domain.contains(x, _SLACK))
    if not suspects.size:
        return
    rows = as_rows(x, missing=True)[suspects]
    low, high, _ = domain.flat(rows.shape[1])
    # Immutable features may have any value, and missing values are not outside.
    outside = (np.maximum(low - rows, rows - high) > _SLACK) & domain.movable(rows.shape[1])
    if not outside.any():
        return
    first, feature = np.argwhere(outside)[0]
    raise InputError(
        f"`x` is outside the domain in {outside.any(axis=1).sum():,} of {len(x):,} samples: sample "
        f"{start + suspects[first]} has {rows[first, feature]:g} in feature {feature}, outside [{low[feature]:g}, "
        f"{high[feature]:g}]. Scale `x` to the domain (divide bytes by 255), or widen the domain."
    )


def as_classes(values: Sequence[Any] | npt.NDArray[Any], expected: int) -> tuple[Any, ...]:
    """Convert label values to plain Python values; check that they are distinct and one per class of the model."""
    classes = tuple(_plain_values(values, "classes"))
    if len(classes) != expected:
        raise ModelError(f"`classes` names {len(classes)} classes but the model has {expected}.")
    if len(set(classes)) != len(classes):
        raise ModelError(f"`classes` names a class twice: {', '.join(map(repr, classes))}.")
    return classes


def encode_labels(model: Classifier, y: Any, name: str = "y") -> Ints:
    """Convert labels to positions in `model.classes`; 1, 1.0 and True are equal. `name` appears in error messages.

    >>> from fairmargin.models.linear import LinearClassifier
    >>> model = LinearClassifier([[0.0], [1.0]], [0.0, -1.0], classes=("no", "yes"))
    >>> encode_labels(model, ["yes", "no", "yes"]).tolist()
    [1, 0, 1]
    """
    values = _plain_values(y, name)
    position = {label: i for i, label in enumerate(model.classes)}
    codes = np.fromiter((position.get(value, -1) for value in values), np.int64, len(values))
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        raise InputError(_unknown_labels(model, [values[i] for i in unknown], int(unknown[0]), len(values), name))
    return codes


def decode(model: Classifier, positions: npt.ArrayLike) -> npt.NDArray[Any]:
    """Convert class positions to label values, the inverse of `encode_labels`.

    >>> from fairmargin.models.linear import LinearClassifier
    >>> model = LinearClassifier([[0.0], [1.0]], [0.0, -1.0], classes=("no", "yes"))
    >>> decode(model, [1, 0]).tolist()
    ['yes', 'no']
    """
    labels = np.array(model.classes)
    if labels.ndim != 1 or labels.tolist() != list(model.classes):  # numpy turned (1, "a") into two strings
        labels = np.empty(len(model.classes), dtype=object)
        labels[:] = model.classes
    return np.asarray(labels[np.asarray(positions, dtype=np.int64)])


def _plain_values(values: Any, name: str) -> list[Any]:
    """Convert a column to Python values, which are easier to read in messages than numpy and pandas scalars."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise InputError(f"`{name}` must be a sequence of label values; given {values!r}.")
    shape = getattr(values, "shape", (len(values),))
    plain = values.tolist() if hasattr(values, "tolist") else list(values)
    plain = [value.item() if isinstance(value, np.generic) else value for value in plain]
    if len(shape) != 1 or any(isinstance(value, (list, tuple, np.ndarray)) for value in plain):
        hint = " If the labels are one-hot, pass `y.argmax(axis=1)`." if name == "y" else ""
        raise InputError(f"`{name}` must be one-dimensional; its shape is {np.shape(plain)}.{hint}")
    return plain


def _unknown_labels(model: Classifier, labels: list[Any], first: int, total: int, name: str) -> str:
    shown = ", ".join(map(repr, model.classes[:10])) + (", …" if len(model.classes) > 10 else "")
    given = {type(label).__name__ for label in labels}
    known = {type(label).__name__ for label in model.classes}
    hint = ""
    if "str" in given ^ known:
        hint = f" The labels are {'/'.join(sorted(given))}, the classes {'/'.join(sorted(known))}: convert one of them."
    return (
        f"`{name}` holds labels that are not among the model's classes in {len(labels):,} of {total:,} "
        f"{'samples' if name == 'y' else 'entries'} (first {labels[0]!r} at index {first}). The model's classes are "
        f"{shown}.{hint}"
    )


def places_of(wanted: Sequence[str], given: Sequence[str]) -> Ints:
    """Return the position of each wanted feature among the given ones, or -1 if it is missing.

    `job=nurse` and `job_nurse`, as `pandas.get_dummies` writes it, are the same name.

    >>> places_of(["b", "a", "c"], ["a", "b"]).tolist()
    [1, 0, -1]
    """
    exact, at = ({key(name): place for place, name in enumerate(given)} for key in (str, _key))
    return np.array([exact.get(name, at.get(_key(name), -1)) for name in wanted], dtype=np.int64)


def in_model_order(model: Classifier, x: Any, argument: str = "x") -> Any:
    """Return a table with its columns in the model's order; data without column names are returned unchanged.

    Guarantee: columns are matched by name. Missing, unknown and duplicate columns are errors. For a classifier of raw
    rows, which has a method `encode`, they are coded as numbers.

    Parameters
    ----------
    model
        A classifier; its features are known if it has `feature_names`.
    x
        A data frame of pandas or polars, a table of pyarrow, or samples without column names.
    argument
        Name of `x` in error messages.
    """
    encode = getattr(model, "encode", None)
    if encode is not None:
        return encode(x, argument)
    wanted: tuple[str, ...] = getattr(model, "feature_names", ())
    columns = getattr(x, "column_names", getattr(x, "columns", None))
    own = [] if columns is None else list(columns)
    if not wanted or all(isinstance(name, (int, np.integer)) for name in own):  # integers are not names
        return x
    given = list(map(str, own))
    missing, extra = differing(wanted, given)
    if len(given) < len(wanted) and not missing:  # two features with equivalent names need two columns
        missing = [name for name in wanted if name not in given]
    # Two spellings of one name are duplicates, unless the model has both.
    twice = [
        name for name, count in Counter(given if set(given) == set(wanted) else map(_key, given)).items() if count > 1
    ]
    if missing or extra or twice:
        raise InputError(
            f"The columns of `{argument}` differ from those the model was trained on. "
            + (f"Missing: {_named(missing)}. " if missing else "")
            + (f"Unknown to the model: {_named(extra)}. " if extra else "")
            + (f"Given more than once: {_named(twice)}. " if twice else "")
            + f"Select the columns of the model: {_named(wanted)}."
        )
    places = places_of(wanted, given)
    if np.array_equal(places, np.arange(len(given))):
        return x
    if any(part.ndim for part in (model.domain.low, model.domain.high, model.domain.scale)):
        raise InputError(
            f"The columns of `{argument}` are in another order than the model's, and the order of the domain's numbers "
            f"is not known. Give both in the model's order: {argument}[{[own[i] for i in places][:_SHOWN]}]."
        )
    ordered = [own[i] for i in places]
    return x[ordered] if hasattr(x, "iloc") else x.select(ordered)


def differing(wanted: Sequence[str], given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the wanted names that are missing, and the given names that are unknown.

    >>> differing(["a", "b"], ["b", "c"])
    (['a'], ['c'])
    """
    known, there = set(map(_key, wanted)), set(map(_key, given))
    return [name for name in wanted if _key(name) not in there], [name for name in given if _key(name) not in known]


def _key(name: str) -> str:
    return name.replace("=", "_")


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
