"""Combine several distances of the same samples into the tightest bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairmargin.core.arrays import Floats, Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances, words_of_keep
from fairmargin.core.norm import Norm
from fairmargin.distances.protocol import DistanceEstimator, Found, finder, keeps_several
from fairmargin.errors import InputError

_ROUNDING = 0.01  # relative tolerance of bounds against exact distances, which may be computed in another precision


def tightest(*several: Distances) -> Distances:
    """Return the tightest bound of each sample from distances measured in several ways.

    It is the smallest of upper bounds or the largest of lower bounds, sample by sample; exact distances replace any
    bound.

    Guarantee: the result of upper bounds is an upper bound, that of lower bounds a lower bound.

    Parameters
    ----------
    several
        Distances of the same samples in the same order, with the same subject and norm.

    >>> first = Distances([0.5, 2.0], [True, True], "upper", "l2")
    >>> second = Distances([0.7, 1.0], [True, True], "upper", "l2")
    >>> tightest(first, second).values.tolist()
    [0.5, 1.0]
    """
    _check(several)
    exact = [part for part in several if part.bound is Bound.EXACT]
    if exact:
        _contradicted(exact[0], several)
        return exact[0]
    bound = several[0].bound
    best = np.minimum if bound is Bound.UPPER else np.maximum
    values = best.reduce([part.values for part in several])
    return Distances(
        values,
        several[0].correct,
        bound,
        several[0].norm,
        several[0].subject,
        _farthest_tried(several, values),
        joined(*(part.estimator for part in several)),
        several[0].keep,
    )


def joined(*estimators: str) -> str:
    """Return the name of the tightest of several estimators, in any order; "" if one of them is unknown.

    >>> joined("fmn:steps=50", "deepfool"), joined("fmn", "")
    ('deepfool+fmn:steps=50', '')
    """
    return "+".join(sorted(set(estimators))) if all(estimators) else ""


@dataclass(frozen=True)
class Tightest:
    """Several estimators as one: each measures, and the tightest bound of each sample is kept; see `tightest`.

    On the command line, members are joined by +, as in `deepfool+fmn:steps=50`. A run folder stores the distances of
    each member, so a member that was measured before is not measured again.

    Guarantee: that of its members, which must be all upper bounds or all lower bounds.

    Parameters
    ----------
    estimators
        Two or more estimators with the same norm that need predictions or gradients.

    >>> from fairmargin.distances.searches.deepfool import DeepFool
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], Tightest(DeepFool(), DeepFool(published=True)))
    >>> bool(1.0 <= found.values[0] <= 1.001)
    True
    """

    estimators: tuple[DistanceEstimator, ...]

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1

    def __init__(self, *estimators: DistanceEstimator) -> None:
        if len(estimators) < 2:
            raise InputError(f"`Tightest` needs two or more estimators; given {len(estimators)}.")
        for each in estimators:
            if isinstance(each, type) or not isinstance(each, DistanceEstimator):
                raise InputError(
                    f"`Tightest` takes estimators, such as `DeepFool()`; given {each!r}. For distances already "
                    "measured, use `fm.tightest`."
                )
        check_joined(estimators, [type(each).__name__ for each in estimators])
        object.__setattr__(self, "estimators", estimators)

    @property
    def norm(self) -> Norm:
        """The norm of all members."""
        return self.estimators[0].norm

    @property
    def keeps_several(self) -> bool:
        """Whether each member can measure the distance to leave a set of several classes."""
        return all(map(keeps_several, self.estimators))

    def __call__(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return the tightest of the members' distances; all members get the same keys."""
        return tightest(*(estimator(model, x, y, keys=keys) for estimator in self.estimators))

    def find(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the tightest of the members' distances and its inputs; ties go to the first member."""
        several = [finder(each).find(model, x, y, keys=keys) for each in self.estimators]
        first = np.argmin([each.distances.values for each in several], axis=0)
        points = np.stack([each.points for each in several])[first, np.arange(len(first))]
        return Found(tightest(*(each.distances for each in several)), points)


def check_joined(estimators: Sequence[DistanceEstimator], names: Sequence[str]) -> None:
    """Refuse estimators whose distances cannot be combined; `names` are their names in the message."""
    for each, name in zip(estimators, names, strict=True):
        if each.needs not in ("predict", "gradient"):
            raise InputError(
                f"`{name}` needs more from a model than gradients and cannot be joined with others. Use it alone if "
                "it is exact; otherwise combine the measured distances with `fm.tightest`."
            )
        if each.norm is not estimators[0].norm:
            raise InputError(
                f"`{name}` measures in {each.norm}, `{names[0]}` in {estimators[0].norm}. Joined estimators must "
                "measure in the same norm."
            )


def _check(several: tuple[Distances, ...]) -> None:
    """Refuse distances that are not comparable."""
    if not several:
        raise InputError("`tightest` needs at least one `Distances`; given none.")
    for i, part in enumerate(several, start=1):
        if not isinstance(part, Distances):
            raise InputError(
                f"`tightest` takes `Distances`; argument {i} is {part!r}. To join estimators, use `fm.Tightest`."
            )
    first = several[0]
    for i, part in enumerate(several, start=1):
        if (part.norm, part.subject) != (first.norm, first.subject):
            raise InputError(
                f"Distances {i} are of {part.subject} in {part.norm}, distances 1 of {first.subject} in {first.norm}. "
                "Only distances of the same subject in the same norm can be combined."
            )
        if part.keep != first.keep:
            raise InputError(
                f"Distances {i} keep {words_of_keep(part.keep)}, distances 1 {words_of_keep(first.keep)}. Only "
                "distances that keep the same classes can be combined."
            )
        if len(part) != len(first):
            raise InputError(
                f"Distances {i} are of {len(part):,} samples, distances 1 of {len(first):,}. They must be of the same "
                "samples in the same order."
            )
        other = np.flatnonzero(part.correct != first.correct)
        if other.size:
            raise InputError(
                f"Distances {i} and 1 differ in which samples are classified correctly, in {other.size:,} of "
                f"{len(first):,} (first at index {other[0]}). They must be of the same model, samples and labels."
            )
    bounds = {part.bound for part in several} - {Bound.EXACT}
    if Bound.NEITHER in bounds:
        raise InputError("A proxy bounds the distance on neither side and cannot be combined. Leave it out.")
    if len(bounds) > 1:
        raise InputError(
            "Upper and lower bounds were given, and the distance lies between them. Combine each kind separately."
        )


def _contradicted(exact: Distances, several: tuple[Distances, ...]) -> None:
    """Refuse bounds that contradict an exact distance: they are most likely of other samples."""
    for i, part in enumerate(several, start=1):
        below = part.values < exact.values * (1 - _ROUNDING) - _ROUNDING**3
        above = part.values > exact.values * (1 + _ROUNDING) + _ROUNDING**3
        wrong = {Bound.UPPER: below, Bound.LOWER: above}.get(part.bound, below | above)
        if wrong.any():
            where = int(wrong.argmax())
            raise InputError(
                f"Distances {i} ({part.bound.words}) contradict the exact ones in {wrong.sum():,} of {len(exact):,} "
                f"samples: {part.values[where]:g} against {exact.values[where]:g} at index {where}. Are they of the "
                "same model, samples and units?"
            )


def _farthest_tried(several: tuple[Distances, ...], values: Floats) -> Floats | None:
    """Return how far the searches went where none found anything; NaN where none reported it."""
    farthest = [part.tried for part in several if part.tried is not None]
    if not farthest or not np.isinf(values).any():
        return None
    return np.where(np.isinf(values), np.fmax.reduce(farthest), 0.0)
