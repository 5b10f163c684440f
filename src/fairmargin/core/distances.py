"""Distances of samples from the decision boundary: the type that estimators return and analyses read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Floats, as_bools, as_floats, read_only, same_length, some_index
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError

_LARGEST = 1e60  # statistics sum fourth powers of distances, which must not overflow


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """Distance of each sample from the decision boundary of a classifier f.

    The distance is r(x, A) = inf{‖δ‖ : x+δ in the domain, f(x+δ) not in A}. A is the set of classes to keep; by default
    it contains the sample's label only. The distance is 0 if f(x) is not in A, and `inf` if no such input was found.

    Parameters
    ----------
    values
        One distance per sample: not negative, not NaN, and 0 where `correct` is False.
    correct
        For each sample, whether the predicted class is a class to keep; by default, whether it is the sample's label.
    bound
        Whether the values are exact, upper bounds, lower bounds or neither.
    norm
        Norm in which the distances are measured.
    subject
        Classifier whose boundary is measured: "model", or for instance "smoothed(0.25)" for a smoothed version of it.
        Distances with different subjects cannot be combined.
    tried
        For samples whose value is `inf`, the radius up to which the search looked.
    estimator
        Name and settings of the estimator, for instance "exact_linear:norm=l2"; "" if unknown. `measure` sets it.
    keep
        Labels of the classes to keep (the set A), the same for all samples; empty or None for each sample's own label.
        Distances with different A cannot be combined. Stored as a sorted tuple without duplicates.

    >>> Distances(values=[0.5, 0.0], correct=[True, False], bound=Bound.EXACT, norm=Norm.L2)
    Distances(2 samples, 1 correct, 0 unreached, exact, L2)
    >>> Distances([0.5, 0.0], [True, False], "exact", "l2", keep=["refused", "pending"]).keep
    ('pending', 'refused')
    """

    values: Floats
    correct: Bools
    bound: Bound
    norm: Norm
    subject: str = "model"
    tried: Floats | None = None
    estimator: str = ""
    keep: tuple[Any, ...] = ()

    def __init__(
        self,
        values: npt.ArrayLike,
        correct: npt.ArrayLike,
        bound: Bound | str,
        norm: Norm | str,
        subject: str = "model",
        tried: npt.ArrayLike | None = None,
        estimator: str = "",
        keep: Any = (),
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
        object.__setattr__(self, "keep", _labels(keep))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def unreached(self) -> Bools:
        """Mask of the samples for which no misclassified input was found."""
        return np.isinf(self.values)

    def take(self, which: npt.ArrayLike) -> "Distances":
        """Return the distances of the samples that a mask or indices select."""
        chosen = some_index(which)
        tried = None if self.tried is None else self.tried[chosen]
        return replace(self, values=self.values[chosen], correct=self.correct[chosen], tried=tried)

    def __repr__(self) -> str:
        counts = f"{len(self):,} samples, {self.correct.sum():,} correct, {self.unreached.sum():,} unreached"
        subject = "" if self.subject == "model" else f", {self.subject}"
        kept = f", keep={self.keep!r}" if self.keep else ""
        return f"Distances({counts}, {self.bound.value}, {self.norm}{subject}{kept})"


def words_of_keep(keep: tuple[Any, ...]) -> str:
    """Return a description of the set of classes to keep, for use in sentences.

    >>> words_of_keep(()), words_of_keep(("no", "pending"))
    ("each sample's own class", "the classes 'no', 'pending'")
    """
    if not keep:
        return "each sample's own class"
    return f"the class{'es' if len(keep) > 1 else ''} {', '.join(map(repr, keep))}"


def _labels(keep: Any) -> tuple[Any, ...]:
    """Return the labels of the classes to keep as a sorted tuple without duplicates."""
    if keep is None:
        return ()
    if isinstance(keep, (str, bytes)) or not isinstance(keep, (Iterable, np.ndarray)):
        keep = (keep,)
    plain = [label.item() if isinstance(label, np.generic) else label for label in keep]
    try:
        distinct = dict.fromkeys(plain)
    except TypeError:
        raise InputError(f"`keep` must hold labels of classes, such as ['no', 'pending']; given {keep!r}.") from None
    return tuple(sorted(distinct, key=_order))


def _order(label: Any) -> tuple[bool, Any, str]:
    """Return a sort key that places numbers first, by size, and all other labels after them, by their text."""
    number = isinstance(label, (int, float))
    return not number, label if number else 0, repr(label)


def concatenate(parts: Sequence[Distances]) -> Distances:
    """Concatenate distances of several sets of samples.

    If their bounds differ, the result has the bound that holds for all of them. Norm, subject and classes to keep must
    be equal.
    """
    if not parts:
        raise InputError("There are no distances to concatenate.")
    first, bound = parts[0], Bound.EXACT
    for i, part in enumerate(parts):
        if (part.norm, part.subject) != (first.norm, first.subject):
            raise InputError(
                f"Distances of part {i} are of {part.subject} in {part.norm}, those of part 0 of {first.subject} in "
                f"{first.norm}. Only distances of the same subject in the same norm can be combined."
            )
        if part.keep != first.keep:
            raise InputError(
                f"Distances of part {i} keep {words_of_keep(part.keep)}, those of part 0 {words_of_keep(first.keep)}. "
                "Only distances that keep the same classes can be combined."
            )
        bound = bound + part.bound
    tried = None
    if any(part.tried is not None for part in parts):  # NaN where a part has no `tried`
        tried = np.concatenate([np.full(len(p), np.nan) if p.tried is None else p.tried for p in parts])
    values, correct = np.concatenate([p.values for p in parts]), np.concatenate([p.correct for p in parts])
    estimator = first.estimator if all(part.estimator == first.estimator for part in parts) else ""
    return Distances(values, correct, bound, first.norm, first.subject, tried, estimator, first.keep)


def _check(values: Floats, correct: Bools) -> None:
    if len(values) == 0:
        raise InputError("`values` is empty: there is no sample to audit.")
    problems = (
        (
            np.isnan(values),
            "`values` holds NaN in {count:,} of {size:,} samples (first at index {where}). Write `inf` where no "
            "misclassified input was found.",
        ),
        (
            values < 0,
            "`values` holds negative distances, first {value:g} at index {where}. If these are signed margins, pass 0 "
            "where the sample is misclassified.",
        ),
        (
            np.isfinite(values) & (values > _LARGEST),
            "`values` holds {value:g} at index {where}: too large to be averaged. Write `inf` where no misclassified "
            "input was found, or measure in another unit.",
        ),
        (
            ~correct & (values != 0),
            "{count:,} misclassified samples have a distance above 0 (first {value:g} at index {where}). A "
            "misclassified sample has distance 0; to measure every sample's distance to the boundary, pass the model's "
            "own predictions as labels.",
        ),
    )
    for bad, problem in problems:
        if bad.any():
            where = int(bad.argmax())
            raise InputError(problem.format(count=bad.sum(), size=len(values), where=where, value=values[where]))
