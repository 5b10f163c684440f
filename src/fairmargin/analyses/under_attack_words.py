"""What an attack did to a group, as sentences."""

from fairmargin.analyses.attacked import EveryoneUnderAttack, GroupUnderAttack, at_most, points_text, share_text
from fairmargin.core.bound import Bound
from fairmargin.inference.contrast import Contrasts
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NOT_COMPARABLE, TOO_FEW, Estimate
from fairmargin.inference.settings import AuditSettings
from fairmargin.presentation.formatting import limit_text

_NEAR_THE_END = 0.05  # of 0 or 1: a variance of shares has hardly any room there


def finding_of(
    label: str,
    verdict: str,
    i: int,
    robust: Estimate,
    gap: Estimate,
    adjusted: float,
    contrasts: Contrasts,
    settings: AuditSettings,
) -> str:
    """The verdict as a sentence that says "at most" where an attack may have overlooked something."""
    size = f"{at_most(robust.bound)}{share_text(robust)} withstand the attack"
    if verdict == TOO_FEW:
        what = "clusters" if settings.cluster is not None else "samples"
        few = int(min(contrasts.units[i], contrasts.rest_units[i]))
        whose = "it has" if contrasts.units[i] <= contrasts.rest_units[i] else "its rest has"
        needed = f"{whose} {few:,} {what}; {settings.smallest_group} are needed for a verdict"
        return f"{label}: {size}; too few samples ({needed})."
    if verdict == NOT_COMPARABLE:
        return f"{label}: {size}; not comparable ({gap.reason or 'too many samples lie in strata that lack one side'})."
    than = "than the rest" if verdict in (LESS_ROBUST, MORE_ROBUST) else "from the rest"
    p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.3f}"
    low, high = (limit_text(limit, points_text) for limit in (gap.low, gap.high))
    points = f"{points_text(gap.value)} points [{low}, {high}]"
    return f"{label}: {verdict} {than}; {size}, {points} against the rest ({p})."


def warnings_of(rows: tuple[GroupUnderAttack, ...], overall: EveryoneUnderAttack, bound: Bound) -> tuple[str, ...]:
    """What a reader must know before quoting a number."""
    warnings = []
    if bound is Bound.UPPER:
        warnings.append(
            "An attack that finds nothing proves nothing: robust accuracy is at most what is shown. A gap between such "
            "numbers orders nothing by itself, since the attack may be weaker on one group: check with a stronger one."
        )
    if bound is Bound.LOWER:
        warnings.append(
            "A certificate that fails proves nothing: robust accuracy is at least what is shown. A gap between such "
            "numbers orders nothing by itself, since the certificate may be looser for one group: check with an attack."
        )
    mean = overall.mean_accuracy.value
    if len(rows) > 1 and not _NEAR_THE_END <= mean <= 1 - _NEAR_THE_END:
        warnings.append(
            f"Groups have a robust accuracy of {mean:.1%} on average, where variances over groups are forced towards "
            "0: a small VCRA says little here. Read the worst group and the coefficient of variation, or choose "
            f"a {'smaller' if mean < 0.5 else 'larger'} radius."
        )
    return tuple(warnings)
