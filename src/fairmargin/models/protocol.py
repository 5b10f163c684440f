"""What a model must be able to do to be measured, and how samples and label values become what it understands."""

import math
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

_SLACK = 1e-6  # how far float32 data may stray from a box by rounding


@runtime_checkable
class Classifier(Protocol):
    """A model as the estimators see it: inputs in, class positions out."""

    @property
    def classes(self) -> tuple[Any, ...]:
        """The label values; a class's position here is what `predict` returns."""

    @property
    def domain(self) -> Domain:
        """Where inputs may lie, and how long a step of each feature is."""

    @property
    def offers(self) -> frozenset[str]:
        """What the model can be asked for: some of "predict", "gradient", "linear", "layers"."""

    @property
    def tile(self) -> int:
        """How many samples the model is always given at once; 1 where an answer depends on the sample alone.

        On some processors a network's last bits depend on the size of the batch, so that the tile is in store keys.
        """

    def predict(self, x: Any) -> Ints:
        """The position of each sample's class."""

    def fingerprint(self) -> str:
        """A hash of everything that decides the predictions and the domain, for store keys."""


@runtime_checkable
class Differentiable(Classifier, Protocol):
    """A classifier that offers "gradient"."""

    def network(self, shape: tuple[int, ...]) -> "AbstractContextManager[Network]":
        """The model ready to be differentiated, on samples of that shape, for as long as the context lasts."""


def as_rows(x: Any, start: int = 0) -> Floats:
    """Samples of any shape as a C-ordered (n, features) array of finite float64; `start` is the index of the first."""
    if hasattr(x, "toarray"):
        raise InputError("`x` is a sparse matrix; pass `x.toarray()`.")
    try:
        array = np.ascontiguousarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`x` must hold numbers only; {error}. Encode categories as numbers first.") from None
    if array.ndim == 0:
        raise InputError(f"`x` must hold one row a sample; given {x!r}.")
    rows = array.reshape(len(array), math.prod(array.shape[1:]))
    bad = ~np.isfinite(rows)
    if bad.any():
        where, feature = np.argwhere(bad)[0]
        raise InputError(
            f"`x` holds NaN or infinity, first {rows[where, feature]} in sample {start + where}, feature {feature} "
            "(of the flattened sample). Impute or drop such samples first, from labels and groups too."
        )
    return rows


def check_inside(domain: Domain, x: Any, start: int = 0) -> None:
    """Refuse samples outside the domain's box, beyond rounding: a distance within the box means nothing for them."""
    suspects = np.flatnonzero(~domain.contains(x, _SLACK))
    if not suspects.size:
        return
    rows = as_rows(x)[suspects]
    low, high, _ = domain.flat(rows.shape[1])
    # A feature that cannot move may have any value.
    outside = (np.maximum(low - rows, rows - high) > _SLACK) & domain.movable(rows.shape[1])
    if not outside.any():
        return
    first, feature = np.argwhere(outside)[0]
    raise InputError(
        f"`x` leaves the domain in {outside.any(axis=1).sum():,} of {len(x):,} samples: sample "
        f"{start + suspects[first]} has {rows[first, feature]:g} in feature {feature}, outside [{low[feature]:g}, "
        f"{high[feature]:g}]. Scale `x` as the domain says (bytes: divide by 255), or widen the domain."
    )


def as_classes(values: Sequence[Any] | npt.NDArray[Any], expected: int) -> tuple[Any, ...]:
    """Label values as a tuple of plain Python values, checked to be distinct and as many as the model has classes."""
    classes = tuple(_plain_values(values, "classes"))
    if len(classes) != expected:
        raise ModelError(f"`classes` names {len(classes)} classes but the model tells {expected} apart.")
    if len(set(classes)) != len(classes):
        raise ModelError(f"`classes` names a class twice: {', '.join(map(repr, classes))}.")
    return classes


def encode_labels(model: Classifier, y: Any, name: str = "y") -> Ints:
    """The position in `model.classes` of each label; 1, 1.0 and True are the same label. `name` is for sentences.

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
    """The label values at these class positions, the inverse of `encode_labels`.

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
    """Python values of any column: numpy and pandas scalars compare and hash like them, but print badly."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise InputError(f"`{name}` must hold one label value each; given {values!r}.")
    shape = getattr(values, "shape", (len(values),))
    plain = values.tolist() if hasattr(values, "tolist") else list(values)
    plain = [value.item() if isinstance(value, np.generic) else value for value in plain]
    if len(shape) != 1 or any(isinstance(value, (list, tuple, np.ndarray)) for value in plain):
        hint = " If the labels are one-hot, pass `y.argmax(axis=1)`." if name == "y" else ""
        raise InputError(f"`{name}` must be one-dimensional, one label each; its shape is {np.shape(plain)}.{hint}")
    return plain


def _unknown_labels(model: Classifier, labels: list[Any], first: int, total: int, name: str) -> str:
    shown = ", ".join(map(repr, model.classes[:10])) + (", …" if len(model.classes) > 10 else "")
    given = {type(label).__name__ for label in labels}
    known = {type(label).__name__ for label in model.classes}
    hint = ""
    if "str" in given ^ known:
        hint = f" The labels are {'/'.join(sorted(given))}, the classes {'/'.join(sorted(known))}: convert one of them."
    return (
        f"`{name}` holds labels that are none of the model's classes in {len(labels):,} of {total:,} "
        f"{'samples' if name == 'y' else 'entries'} (first {labels[0]!r} at index {first}). The model's classes are "
        f"{shown}.{hint}"
    )
