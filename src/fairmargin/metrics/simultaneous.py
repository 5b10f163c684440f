"""Intervals that hold for all groups at once and never disagree with the corrected p-values."""

from collections.abc import Callable

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.metrics.bootstrap import Limits

_BEYOND_ZERO = 1e-12  # a limit that Holm's correction moves just beyond 0, so that the interval excludes it


def simultaneous_limits(
    limits_at: Callable[[float], Limits], value: Floats, adjusted: Floats, *, alpha: float, hypotheses: int
) -> Limits:
    """Return Bonferroni limits that exclude 0 exactly where Holm's corrected p-value is below `alpha`.

    Holm's step-down correction rejects at least as often as Bonferroni's. Where it rejects, the side of the interval
    that faces 0 ends just beyond 0 at the latest. Where it does not reject although the Bonferroni interval excludes 0,
    because another test decided the p-value, the interval is extended to 0. Groups that were not tested (NaN) keep
    their Bonferroni limits.

    Parameters
    ----------
    limits_at
        Limits at level 1 − its argument.
    value
        Estimates whose sign a rejection confirms.
    adjusted
        p-values corrected by Holm's method, NaN where nothing was tested.
    """
    limits = limits_at(alpha / max(hypotheses, 1))
    low, high = limits.low, limits.high
    with np.errstate(invalid="ignore"):
        rejected, kept = adjusted < alpha, adjusted >= alpha
        low = np.where(rejected & (value > 0), np.fmax(low, _BEYOND_ZERO), np.where(kept, np.fmin(low, 0.0), low))
        high = np.where(rejected & (value < 0), np.fmin(high, -_BEYOND_ZERO), np.where(kept, np.fmax(high, 0.0), high))
    return Limits(low, high)


def excludes_zero(low: Floats, high: Floats) -> Bools:
    """Return whether an interval lies on one side of 0."""
    return np.asarray((low > 0) | (high < 0))
