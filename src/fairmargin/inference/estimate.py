"""Numbers with confidence intervals, and the texts of verdicts."""

import math
from dataclasses import dataclass
from typing import Final, Literal

from fairmargin.core.bound import Bound
from fairmargin.presentation.formatting import limit_text

LESS_ROBUST: Final = "less robust"
MORE_ROBUST: Final = "more robust"
NO_DIFFERENCE: Final = "no significant difference"
TOO_FEW: Final = "too few samples"
NO_VERDICT: Final = "no verdict"
NOT_COMPARABLE: Final = "not comparable"
Verdict = Literal[
    "less robust", "more robust", "no significant difference", "too few samples", "no verdict", "not comparable"
]
VERDICTS: Final[tuple[Verdict, ...]] = (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, TOO_FEW, NO_VERDICT, NOT_COMPARABLE)
UNJUDGED: Final = (TOO_FEW, NO_VERDICT, NOT_COMPARABLE)
FEWEST_FOR_VERDICT: Final = 50
"""Smallest effective number of samples of a group, and of its rest, for a verdict. Below, intervals are still useful,
but tests of skewed groups against a rest of another shape have too many false alarms (docs/inference.md)."""

_ROUNDING = 1e-9  # the limits of a group without spread differ from its mean by rounding errors


@dataclass(frozen=True, slots=True)
class Estimate:
    """Number with its confidence interval and the direction of its measurement error.

    The interval covers the error of sampling only; `bound` describes the error of the estimator of distances. NaN means
    that the number is undefined, and `reason` states why.
    """

    value: float
    low: float
    high: float
    bound: Bound
    reason: str = ""

    @classmethod
    def undefined(cls, reason: str, bound: Bound) -> "Estimate":
        """Return an estimate without a value, for the given reason."""
        return cls(math.nan, math.nan, math.nan, bound, reason)

    def contradiction(self) -> str:
        """Return why the numbers contradict each other, so that they are damaged; empty if they do not."""
        numbers = (self.value, self.low, self.high)
        slack = _ROUNDING * max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
        if self.value < self.low - slack or self.value > self.high + slack or self.low > self.high + slack:
            return f"the value {self.value} and its interval from {self.low} to {self.high} contradict each other"
        return ""

    @property
    def is_defined(self) -> bool:
        """Whether the value is not NaN."""
        return not math.isnan(self.value)

    def __str__(self) -> str:
        if not self.is_defined:
            return f"undefined ({self.reason})" if self.reason else "undefined"
        low, high = (limit_text(end, lambda value: f"{value:.4g}", abs(self.value)) for end in (self.low, self.high))
        return f"{self.value:.4g} [{low}, {high}]"
