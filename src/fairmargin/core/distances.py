"""The waist of the hourglass: one number per sample."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Floats, as_bools, as_floats, read_only, same_length, some_index
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError

_LARGEST = 1e60  # fourth powers of distances are summed


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """How far each sample lies from the decision boundary.

    r(x, y) = inf{‖δ‖ : x+δ in the domain, f(x+δ) ≠ y}; 0 if x is already misclassified; `inf` if no such input was
    found.

    Parameters
    ----------
    values
        One number per sample, not negative, never NaN, 0 where not correct.
    correct
        Whether the subject classifies the sample as its label says.
    bound
        On which side of the truth the values lie.
    norm
        The norm they are measured in.
    subject
        Whose boundary: "model", or for instance "smoothed(0.25)". Different subjects never combine.
    tried
        How far the search looked, for samples whose value is `inf`.
    estimator
        Name and settings of the estimator that measured them, for instance "exact_linear:norm=l2"; "" if unknown.
        `measure` sets it.

    >>> Distances(values=[0.5, 0.0], correct=[True, False], bound=Bound.EXACT, norm=Norm.L2)
    Distances(2 samples, 1 correct, 0 unreached, exact, L2)
    """

    values: Floats
    correct: Bools
    bound: Bound
    norm: Norm
    subject: str = "model"
    tried: Floats | None = None
    estimator: str = ""

    def __init__(
        self,
        values: npt.ArrayLike,
        correct: npt.ArrayLike,
        bound: Bound | str,
        norm: Norm | str,
        subject: str = "model",
        tried: npt.ArrayLike | None = None,
        estimator: str = "",
    ) -> None:
        numbers, hits = as_floats(values, "values"), as_bools(correct, "correct")
        same_length(values=numbers, correct=hits)
        _check(numbers, hits)
        if not isinstance(estimator, str):
            raise InputError(
                f"`estimator` must be a text, as in 'exact_linear:norm=l2', or '' if unknown; given {estimator!r}."
            )
        searched = None if tried is None else as_floats(tried, "tried")
        if searched is not None:
            same_length(values=numbers, tried=searched)
            if (searched < 0).any():
                where = int((searched < 0).argmax())
                raise InputError(f"`tried` must not be negative; given {searched[where]:g} at index {where}.")
        object.__setattr__(self, "values", read_only(numbers))
        object.__setattr__(self, "correct", read_only(hits))
        object.__setattr__(self, "bound", Bound.parse(bound))
        object.__setattr__(self, "norm", Norm.parse(norm))
        object.__setattr__(self, "subject", subject)
        object.__setattr__(self, "tried", None if searched is None else read_only(searched))
        object.__setattr__(self, "estimator", estimator)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def unreached(self) -> Bools:
        """Samples for which no misclassified input was found."""
        return np.isinf(self.values)

    def take(self, which: npt.ArrayLike) -> "Distances":
        """The distances of some samples, by mask or index."""
        chosen = some_index(which)
        tried = None if self.tried is None else self.tried[chosen]
        return replace(self, values=self.values[chosen], correct=self.correct[chosen], tried=tried)

    def __repr__(self) -> str:
        counts = f"{len(self):,} samples, {self.correct.sum():,} correct, {self.unreached.sum():,} unreached"
        subject = "" if self.subject == "model" else f", {self.subject}"
        return f"Distances({counts}, {self.bound.value}, {self.norm}{subject})"


def concatenate(parts: Sequence[Distances]) -> Distances:
    """Join the distances of several shards; if their bounds differ, the result has the bound that holds for all."""
    if not parts:
        raise InputError("There are no distances to concatenate.")
    first, bound = parts[0], Bound.EXACT
    for i, part in enumerate(parts):
        if (part.norm, part.subject) != (first.norm, first.subject):
            raise InputError(
                f"Distances of part {i} are of {part.subject} in {part.norm}, those of part 0 of {first.subject} in "
                f"{first.norm}. Only distances of one subject in one norm belong together."
            )
        bound = bound + part.bound
    tried = None
    if any(part.tried is not None for part in parts):  # NaN: that part did not say how far it looked
        tried = np.concatenate([np.full(len(p), np.nan) if p.tried is None else p.tried for p in parts])
    values, correct = np.concatenate([p.values for p in parts]), np.concatenate([p.correct for p in parts])
    estimator = first.estimator if all(part.estimator == first.estimator for part in parts) else ""
    return Distances(values, correct, bound, first.norm, first.subject, tried, estimator)


def _check(values: Floats, correct: Bools) -> None:
    if len(values) == 0:
        raise InputError("`values` is empty: there is no sample to audit.")
    bad = np.isnan(values)
    if bad.any():
        where = int(bad.argmax())
        raise InputError(
            f"`values` holds NaN in {bad.sum():,} of {len(values):,} samples (first at index {where}). "
            "Write `inf` where no misclassified input was found."
        )
    bad = values < 0
    if bad.any():
        where = int(bad.argmax())
        raise InputError(
            f"`values` holds negative distances, first {values[where]:g} at index {where}. "
            "Signed margins: pass 0 where the sample is misclassified."
        )
    bad = np.isfinite(values) & (values > _LARGEST)
    if bad.any():
        where = int(bad.argmax())
        raise InputError(
            f"`values` holds {values[where]:g} at index {where}: too large to be averaged. Write `inf` where no "
            "misclassified input was found, or measure in another unit."
        )
    bad = ~correct & (values != 0)
    if bad.any():
        where = int(bad.argmax())
        raise InputError(
            f"{bad.sum():,} misclassified samples have a distance above 0 (first {values[where]:g} at index {where}). "
            "A misclassified sample has distance 0; to measure every sample's distance to the boundary, pass the "
            "model's own predictions as labels."
        )
