"""A bracket's verdicts as sentences that an auditor reads."""

import math

from fairmargin.analyses.bracketed import (
    CERTAINLY_LESS,
    CERTAINLY_LESS_HERE,
    CERTAINLY_MORE,
    CERTAINLY_MORE_HERE,
    NOT_CERTAIN,
    GroupBracket,
    Range,
)
from fairmargin.inference.estimate import TOO_FEW
from fairmargin.inference.settings import AuditSettings
from fairmargin.presentation.formatting import limit_text, radius_of


def finding_of(
    row: GroupBracket, subject: str, settings: AuditSettings, up_to: float = math.inf, *, several: bool = False
) -> str:
    """Say what the bounds of one group prove, of which model, and up to which radius."""
    if row.verdict == TOO_FEW:
        return f"{row.group}: too few samples ({settings.smallest_group} are needed on both sides for a verdict)."
    if not row.sigma.is_known or row.verdict not in _MEANINGS:
        return f"{row.group}: not comparable (there is nothing outside the group to compare with)."
    if math.isinf(row.sigma.high) and row.sigma.low <= -1:
        return f"{row.group}: {row.verdict}, nothing was proven about it: σ may have any size."
    whose = "" if subject == "model" else f" of the {subject} model"
    whose += f" at equal {settings.control.name}" if settings.control is not None else ""
    confidence = f"{settings.confidence:.0%}".replace("%", " %")
    together = " for all groups at once" if several else ""
    population = (
        f"with {confidence} confidence{together} {_percents(row.sigma.population_low, row.sigma.population_high)}"
    )
    size = f"σ{whose} lies between {_percents(row.sigma.low, row.sigma.high)} in these samples, {population}"
    meaning = _MEANINGS[row.verdict]
    if max(abs(row.sigma.low), abs(row.sigma.high)) < _ROUNDING:
        meaning = ", there is no difference in these samples"
    doubt = "" if subject == "model" else " Up to false certificates, of which each has its small probability."
    radius = f"{radius_of(up_to)}, " if math.isfinite(up_to) else ""
    beyond = f" Distances beyond {up_to:.4g} count as {up_to:.4g}." if math.isfinite(up_to) else ""
    return f"{row.group}: {radius}{row.verdict}{meaning}; {size} in the population.{beyond}{doubt}"


_ROUNDING = 1e-8
_MEANINGS = {
    CERTAINLY_LESS: " than the rest, whatever the attack",
    CERTAINLY_MORE: " than the rest, whatever the attack",
    CERTAINLY_LESS_HERE: ", but these are too few to speak of the population, all groups considered",
    CERTAINLY_MORE_HERE: ", but these are too few to speak of the population, all groups considered",
    NOT_CERTAIN: ", the bounds leave room for both signs",
}


def _percents(low: float, high: float) -> str:
    return f"{limit_text(low, percent)} and {limit_text(high, percent)}"


def percent(share: float) -> str:
    """A signed share in words; without limit, it says so.

    >>> percent(-0.123), percent(math.inf)
    ('−12.3 %', 'any size')
    """
    if math.isinf(share):
        return "any size"
    text = f"{abs(share) * 100:.1f}"
    return f"{'' if not float(text) else '−' if share < 0 else '+'}{text} %"


def spelled(limits: Range) -> str:
    """The limits for these samples, as percentages."""
    return f"{percent(limits.low)} to {percent(limits.high)}" if limits.is_known else "unknown"
