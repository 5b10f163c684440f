"""Which verdicts change without the 1 % largest distances.

A mean depends on its largest values, which are the hardest to measure and the rarest to be drawn. The largest distances
are those of all samples together: chosen for each group, removing 1 % changes nearly every verdict of a large audit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.partition import Partition
from fairmargin.inference.closed_form import log_ratios
from fairmargin.inference.design import Design
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, Verdict
from fairmargin.inference.hall import Studentised
from fairmargin.inference.permutation import holm, hypotheses
from fairmargin.inference.settings import AuditSettings

_TAIL = 100  # one of so many samples belongs to the tail


@dataclass(frozen=True, slots=True)
class TailChanges:
    """Number of samples in the tail and in total, and the verdicts of groups that have another one without the tail."""

    samples: int
    total: int
    verdicts: Mapping[str, Verdict]


def changes_without_tail(
    values: Floats,
    partition: Partition,
    settings: AuditSettings,
    design: Design,
    verdicts: Sequence[Verdict],
) -> TailChanges:
    """Compare the groups once more without the tail, in closed form.

    The tail are the 1 % of all samples with the largest values, at least one; fewer if values at its end are equal, as
    capped ones are. A verdict counts as changed only if the closed form, too, gives another one with all samples: the
    headline rests on more tests than the closed form. Groups too small for a verdict are left out.

    Parameters
    ----------
    values
        One number per sample, as the audit averages them.
    verdicts
        Verdict of the audit on each group.
    """
    most = max(1, len(values) // _TAIL)
    end = np.partition(values, len(values) - most - 1)[len(values) - most - 1] if len(values) > most else np.inf
    rows = np.flatnonzero(values <= end)
    removed = len(values) - len(rows)
    judged = np.array([verdict in (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE) for verdict in verdicts])
    if not removed or not judged.any():
        return TailChanges(removed, len(values), {})
    size = np.bincount(partition.membership[rows], minlength=len(judged))
    judged &= np.minimum(size, len(rows) - size) >= settings.smallest_group
    without = _verdicts(log_ratios(values, partition, settings.control, design, rows), judged, settings.alpha)
    differ = [i for i in np.flatnonzero(judged).tolist() if without[i] not in (None, verdicts[i])]
    if differ:
        every = log_ratios(values, partition, settings.control, design, np.arange(len(values)))
        whole = _verdicts(every, judged, settings.alpha)
        differ = [i for i in differ if without[i] != whole[i]]
    return TailChanges(removed, len(values), {partition.labels[i]: verdict for i in differ if (verdict := without[i])})


def _verdicts(log_ratio: Studentised, judged: Bools, alpha: float) -> list[Verdict | None]:
    """Return the verdicts of the closed form, corrected by Holm's method; None where it is undefined."""
    adjusted = holm(np.where(judged, log_ratio.p(), np.nan), hypotheses(judged))
    pairs = zip(adjusted, log_ratio.value, strict=True)
    return [None if np.isnan(p) else _verdict(p < alpha, value < 0) for p, value in pairs]


def _verdict(rejected: bool, less: bool) -> Verdict:
    if not rejected:
        return NO_DIFFERENCE
    return LESS_ROBUST if less else MORE_ROBUST
