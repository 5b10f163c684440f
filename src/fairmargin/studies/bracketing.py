"""An extra stage without further measuring: what a run's lower and upper bounds enclose together."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.distances.combine import tightest
from fairmargin.metrics.bracket import bracket
from fairmargin.metrics.plan import AuditPlan
from fairmargin.studies.run_folder import StoredBracket


def brackets_of(
    measured: Sequence[tuple[str, Distances]], partitions: Sequence[Partition], plan: AuditPlan
) -> tuple[StoredBracket, ...]:
    """For each subject and norm that was measured from both sides: the best of each side, for every partition."""
    found = []
    for subject, norm in dict.fromkeys((d.subject, d.norm) for _, d in measured):
        own = [(name, d) for name, d in measured if (d.subject, d.norm) == (subject, norm)]
        lower = [(name, d) for name, d in own if d.bound is Bound.LOWER]
        upper = [(name, d) for name, d in own if d.bound is Bound.UPPER]
        if lower and upper:
            between = f"{', '.join(name for name, _ in lower)} and {', '.join(name for name, _ in upper)}"
            low, high = highest([d for _, d in lower]), tightest(*(d for _, d in upper))
            found += [StoredBracket(between, bracket(low, high, partition, plan)) for partition in partitions]
    return tuple(found)


def missing_bracket(measured: Sequence[Distances]) -> str:
    """Why a run with certificates and attacks has no bracket; empty if it has one, or has not both."""
    lower = {(d.subject, str(d.norm)) for d in measured if d.bound is Bound.LOWER}
    upper = {(d.subject, str(d.norm)) for d in measured if d.bound is Bound.UPPER}
    if not lower or not upper or lower & upper:
        return ""
    words = [", ".join(f"{subject} in {norm}" for subject, norm in sorted(side)) for side in (lower, upper)]
    return (
        f"Certificates are of {words[0]}, attacks of {words[1]}: together they enclose nothing. Bounds of one subject "
        "in one norm would tell what is certain: `verified` with an attack, `smoothing` with `smoothed_attack` of the "
        "same sigma."
    )


def highest(certificates: Sequence[Distances]) -> Distances:
    """The pointwise best of several lower bounds."""
    first = certificates[0]
    values = np.max([d.values for d in certificates], axis=0)
    correct = np.logical_and.reduce([d.correct for d in certificates])
    return replace(first, values=np.where(correct, values, 0.0), correct=correct, tried=None, estimator="")
