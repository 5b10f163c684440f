"""Numbers with intervals, and the words for verdicts."""

import math
from dataclasses import dataclass
from typing import Any

from fairmargin.core.bound import Bound
from fairmargin.core.codec import decode_number, decode_text
from fairmargin.presentation.formatting import limit_text

LESS_ROBUST = "less robust"
MORE_ROBUST = "more robust"
NO_DIFFERENCE = "no significant difference"
TOO_FEW = "too few samples"
NOT_COMPARABLE = "not comparable"
VERDICTS = (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, TOO_FEW, NOT_COMPARABLE)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its confidence interval and the direction of its measurement error.

    The interval speaks of sampling; `bound` of the estimator. NaN means undefined, and `reason` says why.
    """

    value: float
    low: float
    high: float
    bound: Bound
    reason: str = ""

    @classmethod
    def undefined(cls, reason: str, bound: Bound) -> "Estimate":
        """An estimate of something that does not exist here."""
        return cls(math.nan, math.nan, math.nan, bound, reason)

    @property
    def is_defined(self) -> bool:
        """Whether there is a value at all."""
        return not math.isnan(self.value)

    def __str__(self) -> str:
        if not self.is_defined:
            return f"undefined ({self.reason})" if self.reason else "undefined"
        low, high = (limit_text(limit, lambda value: f"{value:.4g}") for limit in (self.low, self.high))
        return f"{self.value:.4g} [{low}, {high}]"


def decode_estimate(content: dict[str, Any]) -> Estimate:
    """The estimate that `encode` wrote."""
    value, low, high = (decode_number(content[name]) for name in ("value", "low", "high"))
    # Limits of a group without spread differ from its mean by rounding.
    slack = 1e-9 * max((abs(number) for number in (value, low, high) if math.isfinite(number)), default=0.0)
    if value < low - slack or value > high + slack or low > high + slack:
        raise ValueError(f"the value {value} and its interval from {low} to {high} contradict each other")
    return Estimate(value, low, high, Bound(content["bound"]), decode_text(content["reason"]))
