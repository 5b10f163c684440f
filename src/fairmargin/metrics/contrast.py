"""What is known of each group's mean, and of each group against its rest."""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.metrics.bootstrap import Limits
from fairmargin.metrics.plan import AuditPlan

MOST_DROPPED = 0.2  # share of samples in strata without a counterpart, above which groups are not comparable


@dataclass(frozen=True, slots=True, eq=False)
class GroupMeans:
    """Rob(P) of every group, with what is needed for statements about all groups at once."""

    mean: Floats
    error2: Floats
    limits: Limits
    resampled: Floats  # (resamples, groups)
    units: Floats  # independent samples or clusters of each group


@dataclass(frozen=True, slots=True, eq=False)
class Contrasts:
    """Every group against its rest."""

    gap: Floats
    gap_limits: Limits
    sigma: Floats
    sigma_limits: Limits
    dropped: Floats  # share of samples in strata that lack one side
    units: Floats
    rest_units: Floats
    p: Floats  # NaN where nothing was tested
    way: str  # how the test was made, in words


def is_testable(units: Floats, rest_units: Floats, dropped: Floats, plan: AuditPlan) -> Bools:
    """Whether both sides are large enough, and comparable."""
    large = (units >= plan.smallest_group) & (rest_units >= plan.smallest_group)
    return np.asarray(large & (dropped <= MOST_DROPPED))
