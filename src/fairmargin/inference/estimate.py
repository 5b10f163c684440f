"""Numbers with intervals, and the words for verdicts."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairmargin.core.bound import Bound
from fairmargin.core.codec import decode_number, decode_text

LESS_ROBUST = "less robust"
MORE_ROBUST = "more robust"
NO_DIFFERENCE = "no significant difference"
TOO_FEW = "too few samples"
NOT_COMPARABLE = "not comparable"
VERDICTS = (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, TOO_FEW, NOT_COMPARABLE)

JUST_BEYOND_ZERO = 1e-12  # a limit that the correction for the number of groups moved to the other side of 0


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


def limit_text(limit: float, show: Callable[[float], str]) -> str:
    """Format a limit; one that lies just beyond 0 is shown as such, since it would be rounded to 0.

    >>> limit_text(-JUST_BEYOND_ZERO, "{:.1%}".format), limit_text(-0.3, "{:.1%}".format)
    ('below 0', '-30.0%')
    """
    if 0 < abs(limit) <= JUST_BEYOND_ZERO:
        return "below 0" if limit < 0 else "above 0"
    return show(limit)


def radius_of(up_to: float) -> str:
    """Name the radius up to which statements about capped distances hold; empty if they were not capped.

    >>> radius_of(0.7), radius_of(math.inf)
    ('up to a radius of 0.7', '')
    """
    return f"up to a radius of {up_to:.4g}" if math.isfinite(up_to) else ""


def radius_words(up_to: float) -> str:
    """Name the radius at which distances were capped, and what that means."""
    return f"{radius_of(up_to)} (distances beyond it count as {up_to:.4g})"


def decode_estimate(content: dict[str, Any]) -> Estimate:
    """The estimate that `encode` wrote."""
    value, low, high = (decode_number(content[name]) for name in ("value", "low", "high"))
    # Limits of a group without spread differ from its mean by rounding.
    slack = 1e-9 * max((abs(number) for number in (value, low, high) if math.isfinite(number)), default=0.0)
    if value < low - slack or value > high + slack or low > high + slack:
        raise ValueError(f"the value {value} and its interval from {low} to {high} contradict each other")
    return Estimate(value, low, high, Bound(content["bound"]), decode_text(content["reason"]))
