"""Robustness curve: the fraction of a group whose distance is greater than a radius tau."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Floats, as_floats, read_only, same_length
from fairmargin.core.distances import Distances
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class RobustnessCurve:
    """Robustness curve of a group P: the step function I_P(tau) = |{x in P : r(x) > tau}| / |P|.

    r(x) is the distance of sample x from the decision boundary, so I_P(tau) is the fraction of the group that no
    perturbation of length tau or less misclassifies. The function is right-continuous and does not increase. I_P(0) is
    the accuracy if the distances are exact or upper bounds. The curve is computed exactly, without a grid of radii, and
    the area below it is the mean distance.

    Parameters
    ----------
    values
        Distances of the group's samples, not negative and not NaN, in any order.
    weights
        One positive weight per sample, which counts as so many samples; None if all count the same.

    >>> curve = RobustnessCurve([0.0, 1.0, 3.0, 4.0])
    >>> curve.at(0.5), curve.area(), curve.area(up_to=2)
    (0.75, 2.0, 1.25)
    """

    values: Floats  # the group's distances, ascending
    weights: Floats | None  # in the same order

    def __init__(self, values: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> None:
        numbers, sizes = as_floats(values, "values"), None
        if weights is None:
            numbers.sort()
        else:
            sizes = as_floats(weights, "weights")
            same_length(values=numbers, weights=sizes)
            if not (np.isfinite(sizes) & (sizes > 0)).all():
                raise InputError("A robustness curve needs weights above 0.")
            order = np.lexsort((sizes, numbers))
            numbers, sizes = numbers[order], read_only(sizes[order])
        if numbers.size == 0:
            raise InputError("A robustness curve needs at least one sample.")
        if np.isnan(numbers[-1]) or numbers[0] < 0:
            raise InputError("A robustness curve needs distances that are not negative and not NaN.")
        object.__setattr__(self, "values", read_only(numbers))
        object.__setattr__(self, "weights", sizes)

    @classmethod
    def of(
        cls, distances: Distances, which: npt.ArrayLike | None = None, weights: Floats | None = None
    ) -> "RobustnessCurve":
        """Return the curve of all samples, or of the samples that `which` (a mask or indices) selects."""
        if which is None:
            return cls(distances.values, weights)
        chosen = np.asarray(which)
        return cls(distances.values[chosen], None if weights is None else weights[chosen])

    @classmethod
    def pooled(cls, curves: "Sequence[RobustnessCurve]") -> "RobustnessCurve":
        """Return the curve of the samples of several curves."""
        values = np.concatenate([curve.values for curve in curves])
        if all(curve.weights is None for curve in curves):
            return cls(values)
        return cls(values, np.concatenate([curve._sizes() for curve in curves]))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size(self) -> float:
        """Number of samples, or the sum of their weights."""
        return float(len(self.values) if self.weights is None else self.weights.sum())

    def _sizes(self) -> Floats:
        return np.ones(len(self.values)) if self.weights is None else self.weights

    def at(self, radius: npt.ArrayLike) -> float | Floats:
        """Return the fraction of samples with a distance greater than `radius`, which is a number or an array."""
        inside = np.searchsorted(self.values, np.asarray(radius, dtype=np.float64), side="right")
        if self.weights is None:
            share = (len(self.values) - inside) / len(self.values)
        else:
            beyond = np.append(np.cumsum(self.weights[::-1])[::-1], 0.0)
            share = beyond[inside] / beyond[0]
        return float(share) if np.ndim(radius) == 0 else np.asarray(share)

    def area(self, up_to: float = np.inf) -> float:
        """Return the area below the curve up to a radius, which is the mean of min(r, up_to).

        The result is `inf` if a distance is `inf` and `up_to` is not given.
        """
        return float(np.average(np.minimum(self.values, up_to), weights=self.weights))

    def steps(self) -> tuple[Floats, Floats]:
        """Return the finite radii at which the curve decreases, beginning with 0, and its value from each radius on."""
        radii = np.unique(np.append(0.0, self.values[np.isfinite(self.values)]))
        return radii, np.asarray(self.at(radii))

    def __repr__(self) -> str:
        return f"RobustnessCurve({len(self):,} samples, I(0)={self.at(0.0):.3f}, area={self.area():.4g})"
