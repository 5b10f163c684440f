"""Sentences that audits and audits to a precision share: the headline, a finding per group, and warnings."""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from fairmargin.analyses.table import GroupTable
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.inference.estimate import (
    FEWEST_FOR_VERDICT,
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    NOT_COMPARABLE,
    TOO_FEW,
    VERDICTS,
    Estimate,
    Verdict,
)
from fairmargin.presentation.formatting import (
    is_factor,
    level_text,
    listed,
    number,
    p_value,
    percent,
    plain,
    quoted,
    radius_of,
    radius_words,
    relative_limits,
    shows_digits,
    signed_percent,
    times,
    useless_above,
)


class ComparedGroup:
    """Mixin without fields: a group that is compared with its rest."""

    __slots__ = ()

    group: str
    sigma: Estimate
    p_adjusted: float
    verdict: Verdict


Row = TypeVar("Row", bound=ComparedGroup)


class ComparedGroups(GroupTable[Row]):
    """Mixin without fields: the groups of a partition, each compared with its rest by distances."""

    __slots__ = ()

    bound: Bound
    norm: Norm
    confidence: float
    up_to: float


_JUDGED = (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE)
_WARNINGS = {
    Bound.EXACT: "",
    Bound.UPPER: (
        "The distances are upper bounds from an attack. A gap between two upper bounds orders nothing by itself: an "
        "attack that is weaker on one group could pass for unfairness. Check with a stronger attack or a certificate."
    ),
    Bound.LOWER: (
        "The distances are certified lower bounds. A gap between two lower bounds orders nothing by itself: a "
        "certificate that is looser for one group could pass for unfairness. Check with an attack."
    ),
    Bound.NEITHER: "The distances are a proxy: they bound the true distance on neither side.",
}


def by_sigma(rows: Sequence[Row]) -> list[Row]:
    """Sort groups, least robust first; those without a σ last."""
    return sorted(rows, key=lambda row: row.sigma.value if row.sigma.is_defined else math.inf)


def finding(result: ComparedGroups[Any], row: ComparedGroup, reason: str) -> str:
    """Return a group's verdict, or the `reason` why it has none, as a sentence that names the kind of bound."""
    name = plain(row.group)
    if row.verdict not in _JUDGED:
        return f"{name}: {row.verdict} ({reason})."
    than = "from the rest" if row.verdict == NO_DIFFERENCE else "than the rest"
    sigma, size = row.sigma, f"σ undefined: {row.sigma.reason}"
    if sigma.is_defined and math.isnan(sigma.high):
        size = f"{_sigma_text(sigma.value)}, no interval: {sigma.reason}"
    elif sigma.is_defined:
        whose = " for all groups at once" if len(result.groups) > 2 else ""
        limits = relative_limits(sigma.value, sigma.low, sigma.high)
        size = f"{_sigma_text(sigma.value)}, {level_text(result.confidence)} interval{whose} {limits}"
    radius = f" This holds {radius_words(result.up_to)}." if math.isfinite(result.up_to) else ""
    return f"{name}: {row.verdict} {than}, by {result.bound.words} ({size}; {p_value(row.p_adjusted)}).{radius}"


def _sigma_text(sigma: float) -> str:
    return f"a mean {times(sigma)} that of the rest" if is_factor(sigma) else f"σ = {signed_percent(sigma)}"


def comparison(sigma: float, bound: Bound = Bound.EXACT) -> str:
    """Return σ as a text for a sentence.

    >>> comparison(-0.31), comparison(0.12), comparison(-0.31, Bound.LOWER)
    ('31 % closer', '12 % farther', '31 % smaller')
    >>> comparison(904.2)
    '905 times farther'
    """
    if percent(abs(sigma)) == "0 %":
        return "equal" if bound is Bound.LOWER else "equally far"
    less, more = ("smaller", "larger") if bound is Bound.LOWER else ("closer", "farther")
    return f"{_size(abs(sigma))} {less if sigma < 0 else more}"


def _size(difference: float) -> str:
    return times(difference) if is_factor(difference) else percent(difference)


def interval(estimate: Estimate, confidence: float, bound: Bound = Bound.EXACT) -> str:
    """Return the interval of a σ as a text for a sentence.

    >>> interval(Estimate(-0.31, -0.36, -0.25, Bound.NEITHER), 0.95)
    '95 % interval 25 % to 36 %'
    >>> interval(Estimate(-0.31, -0.36, 0.02, Bound.NEITHER), 0.95)
    '95 % interval 36 % closer to 2.0 % farther'
    """
    low, high, level = estimate.low, estimate.high, level_text(confidence)
    if math.isnan(low) or math.isnan(high):
        return "no interval"
    if low < 0 < high:
        farther = comparison(min(high, useless_above(estimate.value)), bound)
        return f"{level} interval {comparison(low, bound)} to {_more_than(high, estimate)}{farther}"
    near, far = sorted((abs(low), abs(high)))
    nearest = percent(near) if near == 0 or shows_digits(percent(near)) else "just above 0 %"
    return f"{level} interval {_size(near) if is_factor(near) else nearest} to {_limit(far, estimate)}"


def _limit(end: float, estimate: Estimate) -> str:
    return f"{_more_than(end, estimate)}{_size(min(end, useless_above(estimate.value)))}"


def _more_than(end: float, estimate: Estimate) -> str:
    return "more than " if end > useless_above(estimate.value) else ""


def headline(result: ComparedGroups[Any], control: str = "") -> str:
    """Return the finding of one partition as a sentence: the group that noise or an attacker reaches first, if any.

    `control` is the name of the partition that was held constant.
    """
    rows = by_sigma(result.groups)
    less = [row for row in rows if row.verdict == LESS_ROBUST]
    more = [row for row in reversed(rows) if row.verdict == MORE_ROBUST]
    if less:
        return _first_reached(result, less[0], control)
    if more:
        return (
            f"No group is significantly easier to reach than the rest, but {quoted(more[0].group)} is harder to reach: "
            f"{_distance_words(result, more[0], control)}."
        )
    if any(row.verdict == NO_DIFFERENCE for row in rows):
        radius = f" {radius_of(result.up_to)}" if math.isfinite(result.up_to) else ""
        return f"No significant difference between the groups of {quoted(result.partition)} was found{radius}."
    return f"No verdict on the groups of {quoted(result.partition)}."


def summary(result: ComparedGroups[Any], control: str = "") -> list[str]:
    """Return the headline, and other sentences about the partition as a whole."""
    rows = by_sigma(result.groups)
    of = {verdict: [row for row in rows if row.verdict == verdict] for verdict in VERDICTS}
    of[MORE_ROBUST].reverse()
    sentences = [headline(result, control)]
    less, more = of[LESS_ROBUST][1:], of[MORE_ROBUST] if of[LESS_ROBUST] else of[MORE_ROBUST][1:]
    if less:
        sentences.append(f"Also significantly less robust: {_with_sigma(less, result.bound)}.")
    if more:
        also = "Significantly more robust" if of[LESS_ROBUST] else "Also significantly more robust"
        sentences.append(f"{also}: {_with_sigma(more, result.bound)}.")
    if of[NO_DIFFERENCE]:
        sentences.append(_undecided(of[NO_DIFFERENCE], len(rows)))
    unjudged: tuple[tuple[Verdict, str], ...] = (
        (TOO_FEW, "too few samples"),
        (NO_VERDICT, f"fewer than {FEWEST_FOR_VERDICT} samples on a side, which have an interval only"),
        (NOT_COMPARABLE, "not comparable, for the reason given below"),
    )
    for verdict, why in unjudged:
        if of[verdict]:
            names = listed([quoted(row.group) for row in of[verdict]])
            sentences.append(f"Not judged ({why}): {names}.")
    return sentences


def _first_reached(result: ComparedGroups[Any], row: ComparedGroup, control: str) -> str:
    name = quoted(row.group)
    opening = {
        Bound.EXACT: f"Noise or an attacker reaches {name} first",
        Bound.UPPER: f"Noise or an attacker reaches {name} first, as far as this attack can tell",
        Bound.LOWER: f"{name} has the weakest guarantee",
        Bound.NEITHER: f"Judged by a proxy, noise or an attacker reaches {name} first",
    }[result.bound]
    return f"{opening}: {_distance_words(result, row, control)}."


def _distance_words(result: ComparedGroups[Any], row: ComparedGroup, control: str) -> str:
    sigma, bound = row.sigma, result.bound
    rest = f"everyone else’s at equal {quoted(control)}" if control else "everyone else’s"
    how = comparison(sigma.value, bound) if sigma.is_defined else _farther(bound)
    what = f"its certified radii are {how} than {rest}"
    if bound is not Bound.LOWER:
        towards = "to" if sigma.value < 0 else "from"
        what = f"its samples lie {how} {towards} the boundary than {rest}"
    radius = f", {radius_of(result.up_to)}," if math.isfinite(result.up_to) else ""
    if not sigma.is_defined:
        return f"on average{radius} {what}, {_ALL_ZERO[bound is Bound.LOWER]} ({p_value(row.p_adjusted)})"
    return f"on average{radius} {what} ({interval(sigma, result.confidence, bound)}, {p_value(row.p_adjusted)})"


# σ of a group with a verdict is undefined only if the mean of its rest is 0.
_ALL_ZERO = ("whose distances are all 0", "which are all 0")


def _farther(bound: Bound) -> str:
    return "larger" if bound is Bound.LOWER else "farther"


def than_the_rest(row: ComparedGroup, bound: Bound) -> str:
    """Return how a group with a verdict compares with its rest."""
    if row.sigma.is_defined:
        return f"{comparison(row.sigma.value, bound)} than the rest"
    return f"{_farther(bound)} than the rest, {_ALL_ZERO[False]}"


def _with_sigma(rows: Sequence[ComparedGroup], bound: Bound) -> str:
    return listed(
        [
            f"{quoted(row.group)} ({comparison(row.sigma.value, bound)})" if row.sigma.is_defined else quoted(row.group)
            for row in rows
        ]
    )


def _undecided(rows: Sequence[ComparedGroup], of_all: int) -> str:
    which = f"For {len(rows)} of {of_all} groups the difference could be chance"
    ends = [abs(end) for row in rows for end in (row.sigma.low, row.sigma.high)]
    if all(map(math.isnan, ends)):
        return f"{which}."
    allow = "the interval allows a difference" if len(rows) == 1 else "their intervals allow differences"
    if not all(map(math.isfinite, ends)):
        return f"{which}; {allow} of any size."
    largest = max(ends)
    if largest > useless_above(0.0):
        whose = "its mean does" if len(rows) == 1 else "their means do"
        return f"{which}; {whose} not tell how large it may be: look at the medians."
    if is_factor(largest):
        return f"{which}; {allow} of up to {times(largest)}."
    return f"{which}; {allow} of up to {percent(largest)}."


def cap_note(up_to: float, reason: str = "") -> str:
    """Explain what it means that distances were capped; empty if they were not."""
    if math.isinf(up_to):
        return ""
    why = f" Why: {reason.rstrip('.')}." if reason else ""
    return (
        f"Distances are capped at {number(up_to)}: means are of min(distance, {number(up_to)}), and differences beyond "
        f"that radius are not seen.{why}"
    )


def bound_warning(bound: Bound, rows: Sequence[ComparedGroup]) -> str:
    """Return what a reader must know of the kind of bound before quoting a verdict; empty if nothing."""
    found = any(row.verdict in (LESS_ROBUST, MORE_ROBUST) for row in rows)
    return _WARNINGS[bound] if found or bound is Bound.NEITHER else ""
