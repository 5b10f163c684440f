"""A classifier together with inputs fixed in advance, for searches that find nothing by themselves."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints, read_only
from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.errors import InputError
from fairmargin.models.protocol import Differentiable

if TYPE_CHECKING:
    from fairmargin.models.network import Network

References = npt.NDArray[Any]

DRAWN = 64  # enough to meet another prediction; each is asked of the model once a shard, if any sample is lost there
_MOST = 256
_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class Referenced:
    """The same classifier, whose network knows references: where a search finds nothing, it goes towards one of them.

    Predictions, domain and tile are the classifier's; the fingerprint covers the references too, since distances may
    depend on them.

    Parameters
    ----------
    model
        A classifier that offers gradients.
    references
        Samples as `as_references` or `drawn` gives them.

    >>> from fairmargin.models.linear import LinearClassifier
    >>> model = LinearClassifier([[0.0], [1.0]], [0.0, -1.0])
    >>> with Referenced(model, np.array([[3.0]])).network((1,)) as network:
    ...     network.references
    tensor([[3.]], dtype=torch.float64)
    """

    model: Differentiable
    references: References

    @property
    def classes(self) -> tuple[Any, ...]:
        """The label values."""
        return self.model.classes

    @property
    def domain(self) -> Domain:
        """Where inputs may lie."""
        return self.model.domain

    @property
    def offers(self) -> frozenset[str]:
        """Predictions and gradients; whoever looks for weights or layers needs no references."""
        return frozenset({"predict", "gradient"})

    @property
    def tile(self) -> int:
        """How many samples the classifier is given at once."""
        return self.model.tile

    def predict(self, x: Any) -> Ints:
        """The position of each sample's class."""
        return self.model.predict(x)

    @contextmanager
    def network(self, shape: tuple[int, ...]) -> "Iterator[Network]":
        """The classifier's network, with the references as its rows."""
        import torch

        with self.model.network(shape) as network:
            kind = np.float64 if network.dtype is torch.float64 else np.float32
            rows = torch.tensor(self.references.reshape(len(self.references), -1).astype(kind), device=network.device)
            # Rounding to the model's precision may step over a limit.
            yield replace(network, references=rows.to(network.dtype).clamp(network.low, network.high))

    def fingerprint(self) -> str:
        """A hash of the classifier's fingerprint and the references."""
        return sha256(f"{self.model.fingerprint()} {fingerprint_of(self.references)}".encode()).hexdigest()


def fingerprint_of(references: References) -> str:
    """A hash of the references' content, the same on machines of either byte order."""
    plain = np.ascontiguousarray(references).astype(references.dtype.newbyteorder("<"), copy=False)
    return sha256(f"{plain.dtype.str} {plain.shape}".encode() + plain.tobytes()).hexdigest()


def as_references(references: Any, shape: tuple[int, ...], domain: Domain) -> References:
    """What a user gives as references, checked: samples of that shape, finite and inside the domain.

    Of more than 256 some are kept, chosen by their content: another order of the same samples keeps the same.
    """
    if isinstance(references, (str, bytes)) or not (hasattr(references, "shape") or hasattr(references, "__len__")):
        raise InputError(f"`references` must hold samples, as `x` does; given {references!r}.")
    if len(references) == 0:
        raise InputError("`references` is empty. Give at least one sample, as in `x`, or leave it out.")
    try:
        given = references if hasattr(references, "shape") else np.asarray(references)
        few = len(given.shape) > 1 and 0 < given.shape[0] <= _MOST
        samples = np.asarray(given if few else drawn(given, None, _MOST))
        samples = samples.astype(np.float32 if samples.dtype == np.float32 else np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"`references` must hold numbers, one row a sample; {error}.") from None
    if samples.shape[1:] != shape:
        raise InputError(
            f"`references` must be samples of the shape that `x` has, {shape}; each is of shape {samples.shape[1:]}."
        )
    bad = np.flatnonzero(~np.isfinite(samples).reshape(len(samples), -1).all(axis=1))
    if bad.size:
        raise InputError(f"`references` holds NaN or infinity in {bad.size:,} of {len(samples):,} samples. Drop them.")
    outside = np.flatnonzero(~domain.contains(samples))
    if outside.size:
        raise InputError(
            f"`references` leaves the domain in {outside.size:,} of {len(samples):,} samples (such as "
            f"{samples[outside[0]].ravel()[:3]}…, in {domain!r}). Scale them as `x` is scaled."
        )
    return read_only(samples)


def drawn(x: Any, y: Ints | None, most: int = DRAWN, progress: Callable[[int, int], None] | None = None) -> References:
    """At most so many of the samples, evenly from all classes, chosen and ordered by a hash of their content.

    Guarantee: the order of the samples, and how often one occurs, change nothing.

    Parameters
    ----------
    x
        Samples; an array, a memory map or anything else that slices.
    y
        The class of each, or None where that is not known.
    most
        How many at most.
    progress
        Called with (samples looked at, samples there are).

    >>> drawn(np.array([[1.0], [2.0], [3.0], [2.0]]), np.array([0, 0, 1, 0]), most=2).tolist()
    [[3.0], [2.0]]
    """
    shape = tuple(np.shape(x) if not hasattr(x, "shape") else x.shape)
    if len(shape) < 2 or not shape[0]:
        raise InputError(f"`references` must hold at least one sample, one row each; its shape is {shape}.")
    labels = np.zeros(shape[0], dtype=np.int64) if y is None else y
    at_once, keys = max(1, _NUMBERS_AT_ONCE // max(1, math.prod(shape[1:]))), []
    for start in range(0, shape[0], at_once):
        some = np.asarray(x[start : start + at_once])
        keys.append(sample_keys(some, labels[start : start + at_once]))
        if progress is not None:
            progress(min(start + at_once, shape[0]), shape[0])
    by_key, at = np.unique(np.concatenate(keys), return_index=True)
    by_label = np.argsort(labels[at], kind="stable")
    ordered = labels[at][by_label]
    turn = np.empty(len(at), dtype=np.int64)  # a sample's place among those of its class
    turn[by_label] = np.arange(len(at)) - np.searchsorted(ordered, ordered)
    chosen = at[np.sort(np.lexsort((by_key, turn))[:most])]
    return np.concatenate([np.asarray(x[i : i + 1]) for i in chosen.tolist()])
