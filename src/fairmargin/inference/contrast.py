"""What is known of each group's mean, and of each group against its rest."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.hall import Studentised
from fairmargin.inference.settings import AuditSettings

LimitsAt = Callable[[float], Limits]  # limits at level 1 − α, for an α not above the settings's

MOST_DROPPED = 0.2  # share of samples in strata without a counterpart, above which groups are not comparable


@dataclass(frozen=True, slots=True, eq=False)
class GroupMeans:
    """Rob(P) of every group, with what is needed for statements about all groups at once."""

    mean: Floats
    error2: Floats
    limits: Limits
    resampled: Floats  # (resamples, groups)
    units: Floats  # independent samples or clusters of each group
    log_means: Studentised  # ln Rob(P) of every group
    log_overall: Studentised  # log of the unweighted mean over the groups with two units or more, one entry
    log_overall_t: Floats  # its studentised bootstrap deviations, (resamples, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """Every group against its rest. `gap_at` and `sigma_at` give limits at other levels, for all groups at once."""

    gap: Floats
    gap_limits: Limits
    gap_at: LimitsAt
    sigma: Floats
    sigma_limits: Limits
    sigma_at: LimitsAt
    dropped: Floats  # share of samples in strata that lack one side
    units: Floats
    rest_units: Floats
    p: Floats  # NaN where nothing was tested
    way: str  # how the test was made, in words


def raw_p(permuted: Floats, closed_form: Floats, bootstrapped: Floats, tested: Bools, alpha: float) -> Floats:
    """Return the p-value of each group before correction: the largest of three tests, NaN where nothing was tested.

    The permutation test is exact when groups are exchangeable, but rejects too often when a small, skewed group has the
    same mean as a rest of another shape; the closed form allows for that. The bootstrap counts only where it does not
    reject at `alpha`, since its resamples do not reach smaller levels: a group whose own interval contains 0 is never
    significant.
    """
    largest = np.fmax(np.fmax(permuted, closed_form), np.where(bootstrapped >= alpha, bootstrapped, 0.0))
    return np.where(tested, largest, np.nan)


def outer(one: Limits, other: Limits) -> Limits:
    """Return the outer limits of two intervals; NaN gives way."""
    return Limits(np.fmin(one.low, other.low), np.fmax(one.high, other.high))


def is_testable(units: Floats, rest_units: Floats, dropped: Floats, settings: AuditSettings) -> Bools:
    """Whether both sides are large enough, and comparable."""
    large = (units >= settings.smallest_group) & (rest_units >= settings.smallest_group)
    return np.asarray(large & (dropped <= MOST_DROPPED))
