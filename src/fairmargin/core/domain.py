"""Domain of a classifier: the admissible range of each feature, and the unit of length of each feature."""

from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Floats, read_only
from fairmargin.core.column import TableColumn
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Box of admissible inputs, and a length scale for each feature.

    The length of a perturbation `delta` is the norm of `delta / scale`. A feature with `low == high`, or with
    `scale == 0`, is immutable: it keeps the value that it has in the sample, even if that lies outside of the box.

    Parameters
    ----------
    low, high
        Lowest and highest admissible values: scalars, or one number per feature. Usual values are 0 and 1 for images,
        -inf and inf for tables.
    scale
        Change of a feature that has length 1: a scalar, or one number per feature.
    columns
        The rules of the columns of a table, one for each feature; () if the features are plain numbers. They, and not
        `low`, `high` and `scale`, then say how a row may change. Only estimators that keep such rules accept a table.

    >>> Domain(0, 1).contains(np.array([[0.2, 0.4], [0.5, 1.5]]))
    array([ True, False])
    """

    low: Floats = field(default_factory=lambda: np.asarray(-np.inf))
    high: Floats = field(default_factory=lambda: np.asarray(np.inf))
    scale: Floats = field(default_factory=lambda: np.asarray(1.0))
    columns: tuple[TableColumn, ...] = ()

    def __init__(
        self,
        low: npt.ArrayLike = -np.inf,
        high: npt.ArrayLike = np.inf,
        scale: npt.ArrayLike = 1.0,
        columns: tuple[TableColumn, ...] = (),
    ) -> None:
        for name, given in (("low", low), ("high", high), ("scale", scale)):
            array = np.array(given, dtype=np.float64)
            if np.isnan(array).any():
                raise InputError(f"`{name}` of a Domain holds NaN; give a number, or -inf/inf for no limit.")
            object.__setattr__(self, name, read_only(array))
        if not np.isfinite(self.scale).all() or (self.scale < 0).any():
            raise InputError("`scale` of a Domain must be finite and not negative (0 makes a feature immutable).")
        shapes = {a.shape for a in (self.low, self.high, self.scale) if a.ndim}
        if len(shapes) > 1:
            raise InputError(f"`low`, `high` and `scale` of a Domain must have the same shape; given {sorted(shapes)}.")
        if (self.low > self.high).any():
            raise InputError("`low` of a Domain exceeds `high` in some feature. Did you swap them?")
        object.__setattr__(self, "columns", tuple(columns))

    @classmethod
    def of_table(cls, columns: tuple[TableColumn, ...]) -> "Domain":
        """Return the domain of rows with these columns, whose scale is 0 for everything but numbers that may change."""
        scale = [each.unit if each.is_number and not each.immutable else 0.0 for each in columns]
        return cls(scale=np.array(scale), columns=columns)

    @property
    def is_bounded(self) -> bool:
        """Whether at least one mutable feature has a finite limit."""
        low, high, scale = np.broadcast_arrays(self.low, self.high, self.scale)
        return bool(((np.isfinite(low) | np.isfinite(high)) & (low < high) & (scale > 0)).any())

    def movable(self, features: int) -> Bools:
        """Return which of the flattened features are mutable, as a mask."""
        low, high, scale = self.flat(features)
        return np.asarray((low < high) & (scale > 0))

    def flat(self, features: int) -> tuple[Floats, Floats, Floats]:
        """Return `low`, `high` and `scale` as arrays with one number per flattened feature."""
        return self._flat("low", features), self._flat("high", features), self._flat("scale", features)

    def contains(self, x: npt.NDArray[np.floating], slack: float = 1e-6) -> Bools:
        """Return whether each sample lies in the box. Immutable features are ignored; `slack` allows for rounding."""
        flat = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
        low, high, _ = self.flat(flat.shape[1])
        fixed = ~self.movable(flat.shape[1])
        return np.asarray(((flat >= low - slack) & (flat <= high + slack) | fixed).all(axis=1))

    def fingerprint(self) -> str:
        """Return a hash of the content, which is a part of the keys of stored results."""
        parts = (self.low, self.high, self.scale)
        numbers = b"".join(repr(a.shape).encode() + a.astype("<f8").tobytes() for a in parts)
        return sha256(numbers + "".join(each.fingerprint() for each in self.columns).encode()).hexdigest()

    def __repr__(self) -> str:
        def short(array: Floats) -> str:
            if array.ndim == 0:
                return f"{array:g}"
            same = array.size and (array == array.flat[0]).all()
            return f"{array.flat[0]:g}" if same else f"<{array.size} numbers>"

        if self.columns:
            return f"Domain({len(self.columns)} columns of a table)"
        return f"Domain(low={short(self.low)}, high={short(self.high)}, scale={short(self.scale)})"

    def _flat(self, name: str, features: int) -> Floats:
        array: Floats = getattr(self, name)
        if array.ndim == 0:
            return np.full(features, float(array))
        if array.size != features:
            raise InputError(f"`{name}` of the Domain has {array.size} entries but a sample has {features} features.")
        return np.asarray(array.ravel())
