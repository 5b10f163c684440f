"""What an audit to a precision is asked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fairmargin.analyses.precision import POPULATION, TARGETS, THESE_SAMPLES, Target
from fairmargin.core.arrays import is_number
from fairmargin.core.suggestion import suggest
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.errors import InputError

_FEWEST = 30  # reference samples of a group: below, neither a spread nor a correlation is known


@dataclass(frozen=True, slots=True)
class PrecisionPlan:
    """How precise σ should be, and by which estimators.

    Parameters
    ----------
    precision
        Half the width of the interval of every group's σ = Rob(P)/Rob(rest) − 1: with 0.03 a σ of −0.20 is known to lie
        between about −0.23 and −0.17. Where there is one group, of its mean distance, relative to it.
    reference
        The estimator whose distances count; `Plumb(steps=40)` if left out.
    cheap
        Estimators that are cheaper, cheapest first, among which the pilot chooses; the reference alone if none pays.
        `FirstOrder` in the reference's norm if left out.
    target
        "population": the samples come from it at random, and the means are its means. "these samples": the means are
        over the samples there are, and the more of them are measured, the less is left to know.
    confidence
        Of every interval.
    pilot
        How many correct samples of each group all estimators measure first, at least. The pilot is never smaller than
        250 samples of a group, fewer for "these samples", or all that a group has: fewer may not contain a far one.
    up_to
        Average min(distance, up_to).
    seed
        The same seed gives the same numbers.

    >>> PrecisionPlan(precision=0.05).target
    'population'
    """

    precision: float = 0.03
    reference: DistanceEstimator | None = None
    cheap: DistanceEstimator | Sequence[DistanceEstimator] | None = None
    target: Target = POPULATION
    confidence: float = 0.95
    pilot: int = _FEWEST
    up_to: float = math.inf
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("reference", "cheap"):
            _check_estimators(name, getattr(self, name))
        if self.target == "samples":  # type: ignore[comparison-overlap]  # as the command line calls them
            object.__setattr__(self, "target", THESE_SAMPLES)
        for name in ("precision", "confidence", "pilot", "up_to", "seed"):
            if not is_number(getattr(self, name)):
                raise InputError(f"`{name}` of PrecisionPlan must be a number; given {getattr(self, name)!r}.")
        if not 0 < self.precision < 1:
            raise InputError(f"`precision` must lie between 0 and 1, for instance 0.03; given {self.precision!r}.")
        if self.target not in TARGETS:
            raise InputError(f"`target` must be {POPULATION!r} or {THESE_SAMPLES!r}. {suggest(self.target, TARGETS)}")
        if not 0.5 <= self.confidence < 1:
            raise InputError(f"`confidence` must lie in [0.5, 1), for instance 0.95; given {self.confidence!r}.")
        if self.pilot < _FEWEST:
            raise InputError(
                f"`pilot` must be at least {_FEWEST}: from fewer samples of a group neither its spread nor the use of "
                f"a cheap estimator is known; given {self.pilot}."
            )
        if not self.up_to > 0:
            raise InputError(f"`up_to` must be a radius above 0; given {self.up_to!r}.")
        if self.seed < 0:
            raise InputError(f"`seed` must not be negative; given {self.seed}.")

    @property
    def is_finite(self) -> bool:
        """Whether the target is these samples."""
        return self.target == THESE_SAMPLES

    def estimators(self) -> tuple[DistanceEstimator, ...]:
        """The cheap ones, then the reference, with what was left out filled in."""
        from fairmargin.distances.first_order import FirstOrder
        from fairmargin.distances.plumb import Plumb

        reference = Plumb() if self.reference is None else self.reference
        if self.cheap is None:
            cheap: tuple[DistanceEstimator, ...] = ()
            if getattr(reference, "needs", "") == "gradient":
                cheap = (FirstOrder(reference.norm),)
        else:
            cheap = (self.cheap,) if isinstance(self.cheap, DistanceEstimator) else tuple(self.cheap)
        for each in cheap:
            if getattr(each, "norm", None) != getattr(reference, "norm", None):
                raise InputError(
                    f"The cheap estimator {each!r} and the reference {reference!r} must measure in the same norm."
                )
        return (*(each for each in cheap if each != reference), reference)


def _check_estimators(name: str, given: object) -> None:
    """Refuse names and classes where estimators are meant, before anything is measured."""
    several = given if isinstance(given, list | tuple) else () if given is None else (given,)
    for each in several:
        if isinstance(each, type | str) or not isinstance(each, DistanceEstimator):
            shown = f"the class `{each.__name__}`" if isinstance(each, type) else repr(each)
            raise InputError(
                f"`{name}` of PrecisionPlan must be an estimator, such as `fm.ESTIMATORS['first_order']()`; given "
                f"{shown}."
            )
