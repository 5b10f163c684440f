"""References: fixed inputs that searches try if they find nothing themselves."""

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
from fairmargin.models.protocol import Differentiable, Wrapper

if TYPE_CHECKING:
    from fairmargin.models.network import Network

References = npt.NDArray[Any]

DRAWN = 64  # enough to include other predictions; each is evaluated once per shard in which a search fails
_MOST = 256
_NUMBERS_AT_ONCE = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class Referenced(Wrapper):
    """A classifier whose network has references: a search that finds nothing follows the way to one of them.

    Predictions, domain and tile are those of the original classifier. The fingerprint also covers the references, since
    distances can depend on them.

    Parameters
    ----------
    model
        The original classifier, which must offer gradients.
    references
        Samples returned by `as_references` or `drawn`.

    >>> from fairmargin.models.linear import LinearClassifier
    >>> model = LinearClassifier([[0.0], [1.0]], [0.0, -1.0])
    >>> with Referenced(model, np.array([[3.0]])).network((1,)) as network:
    ...     network.references
    tensor([[3.]], dtype=torch.float64)
    """

    model: Differentiable
    references: References

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of the model, predictions and gradients: only searches with gradients use references."""
        return frozenset({"predict", "gradient"})

    @contextmanager
    def network(self, shape: tuple[int, ...]) -> "Iterator[Network]":
        """Open the network of the original classifier, with the references as rows."""
        from fairmargin.models.network import rows_of

        with self.model.network(shape) as network:
            # Rounding to the precision of the model can exceed a bound.
            rows = rows_of(network, self.references).clamp(network.low, network.high)
            yield replace(network, references=rows)

    def fingerprint(self) -> str:
        """Compute a hash of the fingerprint of the original classifier and of the references."""
        return sha256(f"{self.model.fingerprint()} {fingerprint_of(self.references)}".encode()).hexdigest()


def fingerprint_of(references: References) -> str:
    """Compute a hash of the content of references, which does not depend on the byte order."""
    plain = np.ascontiguousarray(references).astype(references.dtype.newbyteorder("<"), copy=False)
    return sha256(f"{plain.dtype.str} {plain.shape}".encode() + plain.tobytes()).hexdigest()


def as_references(references: Any, shape: tuple[int, ...], domain: Domain) -> References:
    """Convert references given by the user to an array; check their shape and that they are finite and in the domain.

    From more than 256 samples, 256 are selected by a hash of their content, independent of their order.
    """
    if isinstance(references, (str, bytes)) or not (hasattr(references, "shape") or hasattr(references, "__len__")):
        raise InputError("must hold samples, as `x` does", field="references", given=references)
    if len(references) == 0:
        raise InputError("is empty. Give at least one sample, as in `x`, or leave it out", field="references")
    try:
        given = references if hasattr(references, "shape") else np.asarray(references)
        few = len(given.shape) > 1 and 0 < given.shape[0] <= _MOST
        samples = np.asarray(given if few else drawn(given, None, _MOST))
        samples = samples.astype(np.float32 if samples.dtype == np.float32 else np.float64)
    except InputError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"must hold numbers, one row per sample: {error}", field="references") from None
    if samples.shape[1:] != shape:
        raise InputError(
            f"must be samples of the same shape as in `x`, {shape}; their shape is {samples.shape[1:]}",
            field="references",
        )
    bad = np.flatnonzero(~np.isfinite(samples).reshape(len(samples), -1).all(axis=1))
    if bad.size:
        problem = f"holds NaN or infinity in {bad.size:,} of {len(samples):,} samples. Drop them"
        raise InputError(problem, field="references")
    outside = np.flatnonzero(~domain.contains(samples))
    if outside.size:
        raise InputError(
            f"is outside the domain in {outside.size:,} of {len(samples):,} samples (such as "
            f"{samples[outside[0]].ravel()[:3]}…, in {domain!r}). Scale them in the same way as `x`",
            field="references",
        )
    return read_only(samples)


def drawn(x: Any, y: Ints | None, most: int = DRAWN, progress: Callable[[int, int], None] | None = None) -> References:
    """Draw up to `most` samples, evenly from all classes, selected and ordered by a hash of their content.

    Guarantee: the result does not depend on the order of the samples or on duplicates.

    Parameters
    ----------
    x
        Samples: an array, a memory map or another type that supports slicing.
    y
        Class of each sample, or None if unknown.
    most
        Maximum number of samples to draw.
    progress
        Called with (samples read, total number of samples).

    >>> drawn(np.array([[1.0], [2.0], [3.0], [2.0]]), np.array([0, 0, 1, 0]), most=2).tolist()
    [[3.0], [2.0]]
    """
    shape = tuple(np.shape(x) if not hasattr(x, "shape") else x.shape)
    if len(shape) < 2 or not shape[0]:
        raise InputError(f"must hold at least one sample, one row each; its shape is {shape}", field="references")
    labels = np.zeros(shape[0], dtype=np.int64) if y is None else y
    at_once, keys = max(1, _NUMBERS_AT_ONCE // max(1, math.prod(shape[1:]))), []
    for start in range(0, shape[0], at_once):
        block = np.asarray(x[start : start + at_once])
        keys.append(sample_keys(block, labels[start : start + at_once]))
        if progress is not None:
            progress(min(start + at_once, shape[0]), shape[0])
    by_key, at = np.unique(np.concatenate(keys), return_index=True)
    by_label = np.argsort(labels[at], kind="stable")
    ordered = labels[at][by_label]
    turn = np.empty(len(at), dtype=np.int64)  # position of a sample among those of its class
    turn[by_label] = np.arange(len(at)) - np.searchsorted(ordered, ordered)
    chosen = at[np.sort(np.lexsort((by_key, turn))[:most])]
    return np.concatenate([np.asarray(x[i : i + 1]) for i in chosen.tolist()])
