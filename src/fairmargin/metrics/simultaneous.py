"""Intervals that hold for all groups at once and never disagree with the corrected p-values."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.metrics.bootstrap import Limits
from fairmargin.metrics.contrast import Contrasts
from fairmargin.metrics.permutation import holm, hypotheses
from fairmargin.metrics.results import JUST_BEYOND_ZERO


def simultaneous_limits(
    limits_at: Callable[[float], Limits],
    value: Floats,
    adjusted: Floats,
    *,
    alpha: float,
    hypotheses: int,
    intervals: int,
) -> Limits:
    """Return Bonferroni limits that exclude 0 exactly where Holm's corrected p-value is below `alpha`.

    Holm's step-down correction rejects at least as often as Bonferroni's. Where it rejects, the side of the interval
    that faces 0 ends just beyond 0 at the latest. Where it does not reject although the Bonferroni interval excludes 0,
    because another test decided the p-value or because the group was not tested (NaN), the interval is extended to 0.

    p-values are corrected for the tested groups only, but a group without a test has an interval too, which can miss
    the truth. Its level allows for all intervals.

    Parameters
    ----------
    limits_at
        Limits at level 1 − its argument.
    value
        Estimates whose sign a rejection confirms.
    adjusted
        p-values corrected by Holm's method, NaN where nothing was tested.
    hypotheses, intervals
        How many questions the tested groups are, and how many all groups are.
    """
    limits, untested = limits_at(alpha / max(hypotheses, 1)), np.isnan(adjusted)
    if untested.any():
        wider = limits_at(alpha / max(intervals, 1))
        limits = Limits(np.where(untested, wider.low, limits.low), np.where(untested, wider.high, limits.high))
    with np.errstate(invalid="ignore"):
        rejected = adjusted < alpha
        low = np.where(rejected, limits.low, np.minimum(limits.low, 0.0))
        high = np.where(rejected, limits.high, np.maximum(limits.high, 0.0))
        beyond = JUST_BEYOND_ZERO * np.minimum(np.abs(value), 1.0)
        low = np.where(rejected & (value > 0), np.fmax(low, beyond), low)
        high = np.where(rejected & (value < 0), np.fmin(high, -beyond), high)
        # Rounding must not put a value outside of its own interval.
        return Limits(np.minimum(low, value), np.maximum(high, value))


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Corrected p-values of all groups against their rests, and the intervals that agree with them."""

    adjusted: Floats  # by Holm's method; NaN where nothing was tested
    sigma: Limits
    gap: Limits

    @classmethod
    def of(cls, contrasts: Contrasts, alpha: float) -> "Family":
        """Correct the p-values of contrasts and make their simultaneous intervals."""
        tested = ~np.isnan(contrasts.p)
        count, everyone = hypotheses(tested), hypotheses(np.ones_like(tested))
        adjusted = holm(contrasts.p, count)
        sigma, gap = (
            simultaneous_limits(limits_at, value, adjusted, alpha=alpha, hypotheses=count, intervals=everyone)
            for limits_at, value in ((contrasts.sigma_at, contrasts.sigma), (contrasts.gap_at, contrasts.gap))
        )
        return cls(adjusted, sigma, gap)
