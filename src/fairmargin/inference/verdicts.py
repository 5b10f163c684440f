"""Decide the verdict on a group from its contrast with the rest."""

from fairmargin.inference.contrast import MOST_DROPPED, Contrasts
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, NOT_COMPARABLE, TOO_FEW, Verdict
from fairmargin.inference.settings import AuditSettings


def verdict_of(i: int, contrasts: Contrasts, adjusted: float, settings: AuditSettings) -> Verdict:
    """One of the five verdicts, for group number `i`."""
    if contrasts.rest_units[i] == 0:
        return NOT_COMPARABLE
    if min(contrasts.units[i], contrasts.rest_units[i]) < settings.smallest_group:
        return TOO_FEW
    if contrasts.dropped[i] > MOST_DROPPED:
        return NOT_COMPARABLE
    if adjusted < settings.alpha:
        return LESS_ROBUST if contrasts.gap[i] < 0 else MORE_ROBUST
    return NO_DIFFERENCE
