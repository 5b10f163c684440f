"""Whether a gap has settled, as sentences that an auditor reads."""

import math
from collections.abc import Sequence

from fairmargin.core.bound import Bound
from fairmargin.metrics.adequacy import NOT_SETTLED, SETTLED, UNDECIDED, GroupAdequacy
from fairmargin.metrics.results import TOO_FEW, Estimate

FEWEST = 10  # of fewer samples a quarter could have moved unseen: 1 − 0.05^(1/10) = 26 %

NOTHING_TO_SETTLE = {
    Bound.EXACT: "The distances are exact: they were computed, not searched for, and there is nothing to settle.",
    Bound.LOWER: "The distances are certified lower bounds: there was no attack that could have been stronger.",
    Bound.NEITHER: "The distances are a proxy: no budget would make them distances.",
}


def group_finding(
    label: str,
    verdict: str,
    *,
    size: int,
    sigmas: tuple[float, float],
    sigma_change: Estimate,
    mean_change: Estimate,
    budgets: tuple[str, str],
    tolerance: float,
    confidence: float,
) -> str:
    """What became of a group's gap between the audited budget and the best of all; `budgets` and `sigmas` name both."""
    if verdict == TOO_FEW:
        return f"{label}: too few samples ({size}; {FEWEST} are needed to tell)."
    if not sigma_change.is_defined:
        return f"{label}: undecided ({sigma_change.reason})."
    before, after = sigmas
    how = f"the best of all budgets up to {budgets[1]}, instead of {budgets[0]},"
    size_of_it = f"{points(sigma_change.value)} points ({interval_words(sigma_change, confidence)})"
    limit = f"{points(tolerance, signed=False)} points"
    if verdict == SETTLED:
        return f"{label}: settled; {how} moved its σ of {before:+.1%} by {size_of_it}, within {limit}."
    own = f", its own mean distance by {mean_change.value:+.1%}" if mean_change.is_defined else ""
    moved = f"{label}: {verdict}; {how} moved its σ from {before:+.1%} to {after:+.1%}, by {size_of_it}{own}"
    if verdict == NOT_SETTLED:
        return f"{moved}: the distances are not yet those of the model but of the attack."
    return f"{moved}; the samples looked at cannot tell whether σ moves by more than {limit}."


def overall_finding(verdict: str, rows: Sequence[GroupAdequacy], tolerance: float) -> str:
    """The verdict over all groups, and the alarms."""
    limit = f"{points(tolerance, signed=False)} points of σ"
    names = ", ".join(repr(row.group) for row in rows if row.verdict == verdict)
    unclear = f"for {names} the samples looked at cannot tell whether more budget moves the gap by more than {limit}"
    sentence = {
        SETTLED: f"Settled: more budget moved the gap of no group by more than {limit}.",
        NOT_SETTLED: (
            f"Not settled: more budget still moved the gap of {names} by more than {limit}. Measure with a larger "
            "budget or a stronger attack."
        ),
        UNDECIDED: f"Undecided: {unclear}. Look at more of them, or measure with a larger budget.",
        TOO_FEW: f"Too few samples: every group has fewer than {FEWEST}.",
    }[verdict]
    alarmed = [f"{row.group!r} ({', '.join(alarm.kind for alarm in row.raised)})" for row in rows if row.raised]
    if not alarmed:
        return sentence
    blind = " An attack that sees nothing does not move with its budget either." if verdict == SETTLED else ""
    return f"{sentence} Alarms that the attack was misled: {'; '.join(alarmed)}.{blind}"


def points(change: float, *, signed: bool = True) -> str:
    """A change of σ in percentage points.

    >>> points(-0.06), points(0.02, signed=False)
    ('−6.0', '2')
    """
    text = f"{abs(change) * 100:.1f}" if signed else f"{abs(change) * 100:g}"
    return text if not signed or not float(text) else f"{'−' if change < 0 else '+'}{text}"


def interval_words(change: Estimate, confidence: float) -> str:
    """The interval of a change of σ.

    >>> interval_words(Estimate(-0.06, -0.08, -0.04, Bound.NEITHER), 0.95)
    '95 % interval −8.0 to −4.0'
    """
    if math.isnan(change.low) or math.isnan(change.high):
        return "no interval"
    return f"{100 * confidence:g} % interval {points(change.low)} to {points(change.high)}"
