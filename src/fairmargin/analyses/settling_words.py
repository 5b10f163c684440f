"""Whether a gap has settled, as sentences that an auditor reads."""

import math
from collections.abc import Callable, Sequence

from fairmargin.analyses.adequacy import NOT_SETTLED, SETTLED, UNDECIDED, GroupAdequacy
from fairmargin.analyses.alarms import NO_GRADIENT
from fairmargin.core.bound import Bound
from fairmargin.inference.estimate import TOO_FEW, Estimate

FEWEST = 10  # of fewer samples a quarter could have moved unseen: 1 − 0.05^(1/10) = 26 %

STAYS = "an attack that sees nothing, or stays in the wrong place, does not move with more steps either"
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
    rest: int,
    sigmas: tuple[float, float],
    sigma_change: Estimate,
    mean_change: Estimate,
    budgets: tuple[str, str],
    tolerance: float,
    confidence: float,
) -> str:
    """What became of a group's gap between the audited budget and the best of all; `budgets` and `sigmas` name both."""
    if verdict == TOO_FEW:
        return f"{label}: too few samples ({_too_few(size, rest)}; {FEWEST} are needed to tell)."
    how = f"the best of all budgets up to {budgets[1]}, instead of {budgets[0]},"
    if not sigma_change.is_defined:
        mean = f" {how[0].upper()}{how[1:]} moved its mean distance by {mean_change.value:+.1%}."
        nothing = f"{label}: undecided; {sigma_change.reason}, so that it has no gap that could settle."
        return nothing + (mean if mean_change.is_defined else "")
    before, after = sigmas
    size_of_it = f"{points(sigma_change.value)} points ({interval_words(sigma_change, confidence)})"
    limit = f"{points(tolerance, signed=False)} points"
    if verdict == SETTLED:
        return f"{label}: settled; {how} moved its σ of {before:+.1%} by {size_of_it}, within {limit}."
    own = f", its own mean distance by {mean_change.value:+.1%}" if mean_change.is_defined else ""
    moved = f"{label}: {verdict}; {how} moved its σ from {before:+.1%} to {after:+.1%}, by {size_of_it}{own}"
    if verdict == NOT_SETTLED:
        return f"{moved}: the distances are not yet those of the model but of the attack."
    return f"{moved}; the samples looked at cannot tell whether σ moves by more than {limit}."


def overall_finding(verdict: str, rows: Sequence[GroupAdequacy], budgets: Sequence[str], tolerance: float) -> str:
    """The verdict over all groups, what to do about it, and the alarms."""
    limit, more = f"{points(tolerance, signed=False)} points of σ", more_of(budgets)
    names = ", ".join(repr(row.group) for row in rows if row.verdict == verdict)
    sentence = {
        SETTLED: f"Settled: {more} moved the gap of no group by more than {limit}.",
        NOT_SETTLED: f"Not settled: {more} still moved the gap of {names} by more than {limit}.",
        UNDECIDED: (
            f"Undecided: {no_gap(rows)}."
            if no_gap(rows)
            else f"Undecided: for {names} the samples looked at cannot tell whether {more} would move the gap by more "
            f"than {limit}."
        ),
        TOO_FEW: f"Too few samples: every group, or all that is outside it, has fewer than {FEWEST}.",
    }[verdict]
    sentence = f"{sentence} {advice(verdict, rows, budgets)}".strip()
    alarmed = [f"{row.group!r} ({', '.join(alarm.kind for alarm in row.raised)})" for row in rows if row.raised]
    if not alarmed:
        return sentence
    still = f" {STAYS[0].upper()}{STAYS[1:]}." if verdict == SETTLED else ""
    return f"{sentence} Alarms that the attack was misled or too weak: {'; '.join(alarmed)}.{still}"


def advice(verdict: str, rows: Sequence[GroupAdequacy], budgets: Sequence[str]) -> str:
    """What can be done about a verdict, as a sentence; empty where nothing can, or need be."""
    if verdict not in (NOT_SETTLED, UNDECIDED, TOO_FEW) or (verdict == UNDECIDED and no_gap(rows)):
        return ""
    ways = []
    if verdict != NOT_SETTLED and any(row.size < row.of for row in rows):
        ways.append("look at more samples (--adequacy-samples, or per_group of fm.adequacy)")
    kinds = {alarm.kind for row in rows if row.verdict == verdict for alarm in row.raised}
    if verdict != TOO_FEW and NO_GRADIENT in kinds:
        # More steps of an attack that follows gradients see no more than these did.
        ways.append("undo what hides the gradients, or measure with an attack that needs none (see fm.FromAttack)")
    elif verdict != TOO_FEW:
        ways.append(f"measure with {more_of(budgets)}, or with a stronger attack")
    told = ", or ".join(ways)
    return f"{told[0].upper()}{told[1:]}." if told else ""


def more_of(budgets: Sequence[str]) -> str:
    """What a larger budget is, by the names of the budgets.

    >>> more_of(["50 steps", "100 steps"]), more_of(["budget 1", "budget 2"])
    ('more steps of this attack', 'a larger budget')
    """
    return "more steps of this attack" if all("step" in name for name in budgets) else "a larger budget"


def no_gap(rows: Sequence[GroupAdequacy], name: Callable[[str], str] = repr) -> str:
    """Why no undecided group has a gap that could settle; empty where one has."""
    undecided = [row for row in rows if row.verdict == UNDECIDED]
    if not undecided or any(row.sigma_change.is_defined for row in undecided):
        return ""
    if len(rows) == 1:
        return f"{name(rows[0].group)} is the only group, so that there is no gap between groups that could settle"
    names = ", ".join(name(row.group) for row in undecided)
    return f"{names} cannot be compared, since {undecided[0].sigma_change.reason}"


def _too_few(size: int, rest: int) -> str:
    """Which side has too few, and how many."""
    if rest >= FEWEST:
        return f"{size} of the group"
    return f"{rest} outside the group" if size >= FEWEST else f"{size} of the group and {rest} outside it"


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
