"""Linear classifiers, whose distances can be computed exactly."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Floats, Ints, read_only
from fairmargin.core.domain import Domain
from fairmargin.errors import InputError, ModelError
from fairmargin.models.protocol import as_classes, as_rows, in_model_order

if TYPE_CHECKING:
    from fairmargin.models.network import Network

# Number of products of one block of rows with one weight row; fits into the cache of a core.
_BLOCK_ENTRIES = 2**17


@dataclass(frozen=True, slots=True, eq=False)
class LinearClassifier:
    """Classifier that predicts argmax_k ⟨w_k, x⟩ + b_k; ties go to the first class, as in `np.argmax`.

    Parameters
    ----------
    weight
        Weights of shape (C, d), one row per class. A binary model with one row w is stored as the two rows 0 and w.
    bias
        One number per class.
    classes
        Label values; 0 … C−1 by default.
    domain
        Valid inputs; unbounded by default.
    feature_names
        Names of the features, if known, so that the columns of tables can be put in the model's order.

    >>> model = LinearClassifier([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], classes=("wide", "tall"))
    >>> model.predict(np.array([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]])).tolist()
    [0, 1, 0]
    """

    weight: Floats
    bias: Floats
    classes: tuple[Any, ...]
    domain: Domain
    feature_names: tuple[str, ...] = ()

    def __init__(
        self,
        weight: npt.ArrayLike,
        bias: npt.ArrayLike,
        classes: Sequence[Any] | npt.NDArray[Any] | None = None,
        domain: Domain | None = None,
        feature_names: Sequence[str] = (),
    ) -> None:
        rows, offsets = _numbers(weight, "weight"), _numbers(bias, "bias")
        if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] < 1:
            raise ModelError(
                f"`weight` must have one row per class and one column per feature, at least 2 × 1; its shape is "
                f"{rows.shape}. For a binary model of one row, `as_classifier((weight, bias))` adds the row of zeros."
            )
        if offsets.shape != (rows.shape[0],):
            raise ModelError(f"`bias` must hold {rows.shape[0]} numbers, one per class; its shape is {offsets.shape}.")
        where = domain or Domain()
        where.flat(rows.shape[1])  # raises if the domain has another number of features
        object.__setattr__(self, "weight", read_only(rows))
        object.__setattr__(self, "bias", read_only(offsets))
        object.__setattr__(self, "classes", as_classes(range(len(rows)) if classes is None else classes, len(rows)))
        object.__setattr__(self, "domain", where)
        names = tuple(map(str, feature_names))
        if names and len(names) != rows.shape[1]:
            raise ModelError(f"`feature_names` has {len(names)} names but `weight` has {rows.shape[1]} columns.")
        object.__setattr__(self, "feature_names", names)

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of the model: predictions, gradients, layers and linear weights."""
        return frozenset({"predict", "gradient", "layers", "linear"})

    @property
    def tile(self) -> int:
        """The fixed batch size, 1: scores are row-wise sums, which do not depend on the batch."""
        return 1

    @property
    def features(self) -> int:
        """The number of features of a flattened sample."""
        return int(self.weight.shape[1])

    def scores(self, x: Any) -> Floats:
        """Compute ⟨w_k, x_i⟩ + b_k for every sample and class; the scores of a sample do not depend on the batch.

        `x` has any shape (n, …) and can be any type that supports slicing, such as a memory map. Named columns are put
        in the model's order if its feature names are known.
        """
        x = in_model_order(self, x)
        size = max(1, _BLOCK_ENTRIES // self.features)
        out = np.empty((len(x), len(self.classes)))
        for start in range(0, len(x), size):
            out[start : start + size] = self._block_scores(self._rows(x[start : start + size], start))
        return out

    def predict(self, x: Any) -> Ints:
        """Predict the position of the class with the largest score; ties go to the first class."""
        return np.asarray(self.scores(x).argmax(axis=1), dtype=np.int64)

    @contextmanager
    def network(self, shape: tuple[int, ...]) -> "Iterator[Network]":
        """Open the model as a torch network in double precision; decisions use the method `scores`."""
        import torch

        from fairmargin.models.network import TILE, Network, space

        weight, bias = torch.tensor(self.weight), torch.tensor(self.bias)
        low, high, scale = space(self.domain, shape, torch.float64, torch.device("cpu"))
        yield Network(
            scores=lambda rows: torch.nn.functional.linear(rows, weight, bias),
            plain=lambda rows: torch.from_numpy(self.scores(rows.detach().numpy())),
            classes=len(self.classes),
            tile=TILE,
            low=low,
            high=high,
            scale=scale,
        )

    def fingerprint(self) -> str:
        """Compute a hash of weights, biases, classes and domain."""
        names = repr((self.weight.shape, self.classes, self.domain.fingerprint())).encode()
        return sha256(names + self.weight.astype("<f8").tobytes() + self.bias.astype("<f8").tobytes()).hexdigest()

    def __repr__(self) -> str:
        return f"LinearClassifier({len(self.classes)} classes, {self.features:,} features, {self.domain!r})"

    def _rows(self, x: Any, start: int) -> Floats:
        rows = as_rows(x, start)
        if rows.shape[1] != self.features:
            raise InputError(
                f"A sample of `x` has {rows.shape[1]:,} features (shape {np.shape(x)[1:]}) but the model takes "
                f"{self.features:,}."
            )
        return rows

    def _block_scores(self, rows: Floats) -> Floats:
        # Not `rows @ weight.T`: BLAS selects its kernel by the batch size, and kernels differ in the last bits. A
        # product and a sum along the contiguous axis of one row do not depend on the other rows.
        return np.stack([(rows * w).sum(axis=1) + b for w, b in zip(self.weight, self.bias, strict=True)], axis=1)


def _numbers(values: npt.ArrayLike, name: str) -> Floats:
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ModelError(f"`{name}` of a linear model must hold numbers: {error}.") from None
    bad = ~np.isfinite(array)
    if bad.any():
        raise ModelError(
            f"`{name}` of a linear model holds NaN or infinity in {bad.sum():,} of {array.size:,} entries; "
            "did its training diverge?"
        )
    return array
