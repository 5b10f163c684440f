"""What an audit found, in sentences for people who build no models. Plain text: whoever shows it escapes it."""

import math
from collections.abc import Sequence
from typing import overload

from fairmargin.core.bound import Bound
from fairmargin.metrics.precision import PreciseGroup, PrecisionResult
from fairmargin.metrics.results import (
    JUST_BEYOND_ZERO,
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    TOO_FEW,
    VERDICTS,
    AuditResult,
    Estimate,
    GroupResult,
    radius_of,
)
from fairmargin.report.spelling import listed, number, p_value, percent, plain, quoted

Result = AuditResult | PrecisionResult  # both have groups with σ, p and a verdict
Row = GroupResult | PreciseGroup

_QUALIFIER = {
    Bound.EXACT: "",
    Bound.UPPER: ", as far as attacks can tell",
    Bound.LOWER: ", as far as certificates can tell",
    Bound.NEITHER: ", judged by a proxy",
}


@overload
def by_sigma(result: AuditResult) -> list[GroupResult]: ...
@overload
def by_sigma(result: PrecisionResult) -> list[PreciseGroup]: ...
def by_sigma(result: Result) -> list[GroupResult] | list[PreciseGroup]:
    """The groups, least robust first; those without a σ last."""
    if isinstance(result, PrecisionResult):
        return sorted(result.groups, key=_rank)
    return sorted(result.groups, key=_rank)


def _rank(row: Row) -> float:
    return row.sigma.value if row.sigma.is_defined else math.inf


def comparison(sigma: float, bound: Bound = Bound.EXACT) -> str:
    """σ in words.

    >>> comparison(-0.31), comparison(0.12), comparison(-0.31, Bound.LOWER)
    ('31 % closer', '12 % farther', '31 % smaller')
    """
    if percent(abs(sigma)) == "0 %":
        return "equal" if bound is Bound.LOWER else "equally far"
    less, more = ("smaller", "larger") if bound is Bound.LOWER else ("closer", "farther")
    return f"{percent(abs(sigma))} {less if sigma < 0 else more}"


def interval(estimate: Estimate, confidence: float, bound: Bound = Bound.EXACT) -> str:
    """The interval of a σ in words.

    >>> interval(Estimate(-0.31, -0.36, -0.25, Bound.NEITHER), 0.95)
    '95 % interval 25 % to 36 %'
    >>> interval(Estimate(-0.31, -0.36, 0.02, Bound.NEITHER), 0.95)
    '95 % interval 36 % closer to 2.0 % farther'
    """
    low, high, level = estimate.low, estimate.high, percent(confidence)
    if math.isnan(low) or math.isnan(high):
        return "no interval"
    if low < 0 < high:
        return f"{level} interval {comparison(low, bound)} to {comparison(high, bound)}"
    near, far = sorted((abs(low), abs(high)))
    nearest = "just above 0 %" if 0 < near <= JUST_BEYOND_ZERO else percent(near)
    return f"{level} interval {nearest} to {percent(far)}"


def headline(result: Result) -> str:
    """The finding of one partition in a sentence: whom noise or an attacker reaches first, if anyone."""
    rows: list[Row] = [*by_sigma(result)]
    less = [row for row in rows if row.verdict == LESS_ROBUST]
    more = [row for row in reversed(rows) if row.verdict == MORE_ROBUST]
    if less:
        return _first_reached(result, less[0])
    if more:
        return (
            f"No group is significantly easier to reach than the rest, but {quoted(more[0].group)} is harder to reach: "
            f"{_distance_words(result, more[0])}."
        )
    if any(row.verdict == NO_DIFFERENCE for row in rows):
        radius = f" {radius_of(result.up_to)}" if math.isfinite(result.up_to) else ""
        return f"No significant difference between the groups of {quoted(result.partition)} was found{radius}."
    return f"The groups of {quoted(result.partition)} could not be compared."


def findings(result: Result) -> tuple[str, ...]:
    """The headline, then what else there is to say about the partition, one sentence or two each."""
    rows = by_sigma(result)
    of = {verdict: [row for row in rows if row.verdict == verdict] for verdict in VERDICTS}
    of[MORE_ROBUST].reverse()
    sentences = [headline(result)]
    less, more = of[LESS_ROBUST][1:], of[MORE_ROBUST] if of[LESS_ROBUST] else of[MORE_ROBUST][1:]
    if less:
        sentences.append(f"Also significantly less robust: {_with_sigma(less, result.bound)}.")
    if more:
        also = "Significantly more robust" if of[LESS_ROBUST] else "Also significantly more robust"
        sentences.append(f"{also}: {_with_sigma(more, result.bound)}.")
    if of[NO_DIFFERENCE]:
        sentences.append(_undecided(of[NO_DIFFERENCE], len(rows)))
    for verdict, why in ((TOO_FEW, "too few samples"), (NOT_COMPARABLE, "the table names the reason")):
        if of[verdict]:
            names = listed([quoted(row.group) for row in of[verdict]])
            sentences.append(f"Not judged ({why}): {names}.")
    if isinstance(result, AuditResult) and not math.isnan(result.overall.p_equal):
        p_equal = p_value(result.overall.p_equal)
        sentences.append(f"Test of the assumption that all groups are equally robust: {p_equal}.")
    return tuple(sentences)


def answer(results: Sequence[Result]) -> str:
    """The finding over all audits of a page, in a paragraph."""
    names = list(dict.fromkeys(result.partition for result in results))
    unequal = {name: _strongest([r for r in results if r.partition == name]) for name in names}
    shown = [found for found in unequal.values() if found is not None]
    silent = [name for name in names if unequal[name] is None and _was_judged(results, name)]
    unjudged = [name for name in names if unequal[name] is None and name not in silent]
    sentences = []
    if shown:
        bounds = list(dict.fromkeys(result.bound for result, _ in shown))
        several = len({result.norm for result in results}) > 1
        qualifier = _QUALIFIER[bounds[0]] if len(bounds) == 1 else ""
        sentences.append(f"No: the model is not equally hard to fool for everyone{qualifier}.")
        evidence = [
            f"{quoted(row.group)} of {quoted(r.partition)} ({_than_the_rest(row, r.bound)}"
            f"{f' in {r.norm}' if several else ''}"
            f"{_QUALIFIER[r.bound] if len(bounds) > 1 else ''})"
            for r, row in shown
        ]
        sentences.append(f"The clearest difference{'s' if len(shown) > 1 else ''}: {listed(evidence)}.")
    elif silent:
        sentences.append("No significant difference was found: nothing here shows that some group is easier to fool.")
    else:
        sentences.append("This audit cannot tell: no group could be compared with the rest.")
    if silent and shown:
        sentences.append(f"By {listed([quoted(n) for n in silent])} no significant difference was found.")
    if silent:
        sentences.append("That is no proof of equality; the intervals show which differences remain possible.")
    if unjudged and (shown or silent):
        sentences.append(f"By {listed([quoted(n) for n in unjudged])} no group could be compared.")
    return " ".join([*sentences, *_radii(results), *disagreements(results)])


def _radii(results: Sequence[Result]) -> tuple[str, ...]:
    """Name the radius up to which the answer holds, if distances were capped; per partition where they differ."""
    judged = [r for r in results if any(row.verdict in (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE) for row in r)]
    names = {radius_of(r.up_to): [quoted(o.partition) for o in judged if o.up_to == r.up_to] for r in judged}
    capped = {radius: list(dict.fromkeys(which)) for radius, which in names.items() if radius}
    if not capped:
        return ()
    if len(names) == 1:
        return (f"This holds {next(iter(capped))}: differences beyond it are not seen.",)
    where = listed([f"{radius} by {listed(which)}" for radius, which in capped.items()])
    return (f"This holds only {where}: differences beyond it are not seen.",)


def disagreements(results: Sequence[Result]) -> tuple[str, ...]:
    """Groups that one estimator finds less robust than the rest and another more robust, a sentence a partition."""
    sentences = []
    for name in dict.fromkeys(result.partition for result in results):
        seen: dict[str, set[str]] = {}
        for row in (row for result in results if result.partition == name for row in result):
            seen.setdefault(row.group, set()).add(row.verdict)
        torn = [quoted(group) for group, verdicts in seen.items() if {LESS_ROBUST, MORE_ROBUST} <= verdicts]
        if torn:
            sentences.append(f"The estimators contradict each other about {listed(torn)} of {quoted(name)}.")
    return tuple(sentences)


def _first_reached(result: Result, row: Row) -> str:
    name = quoted(row.group)
    opening = {
        Bound.EXACT: f"Noise or an attacker reaches {name} first",
        Bound.UPPER: f"Noise or an attacker reaches {name} first, as far as this attack can tell",
        Bound.LOWER: f"{name} has the weakest guarantee",
        Bound.NEITHER: f"Judged by a proxy, noise or an attacker reaches {name} first",
    }[result.bound]
    return f"{opening}: {_distance_words(result, row)}."


def _distance_words(result: Result, row: Row) -> str:
    sigma, bound = row.sigma, result.bound
    control = result.control if isinstance(result, AuditResult) else ""
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


def _than_the_rest(row: Row, bound: Bound) -> str:
    if row.sigma.is_defined:
        return f"{comparison(row.sigma.value, bound)} than the rest"
    return f"{_farther(bound)} than the rest, {_ALL_ZERO[False]}"


def _with_sigma(rows: Sequence[Row], bound: Bound) -> str:
    return listed(
        [
            f"{quoted(row.group)} ({comparison(row.sigma.value, bound)})" if row.sigma.is_defined else quoted(row.group)
            for row in rows
        ]
    )


def _undecided(rows: Sequence[Row], of_all: int) -> str:
    which = f"For {len(rows)} of {of_all} groups the difference could be chance"
    ends = [abs(end) for row in rows for end in (row.sigma.low, row.sigma.high)]
    if all(map(math.isnan, ends)):
        return f"{which}."
    allow = "the interval allows a difference" if len(rows) == 1 else "their intervals allow differences"
    return f"{which}; {allow} of {f'up to {percent(max(ends))}' if all(map(math.isfinite, ends)) else 'any size'}."


def _strongest(results: Sequence[Result]) -> tuple[Result, Row] | None:
    """The most telling significant group: a less robust one before a more robust one, the best bound first."""
    rank = {Bound.EXACT: 0, Bound.UPPER: 1, Bound.LOWER: 1, Bound.NEITHER: 2}
    found = [
        (row.verdict == MORE_ROBUST, rank[result.bound], -_size(row), i, row)
        for i, result in enumerate(results)
        for row in result
        if row.verdict in (LESS_ROBUST, MORE_ROBUST)
    ]
    if not found:
        return None
    *_, i, row = min(found, key=lambda item: item[:4])
    return results[i], row


def _size(row: Row) -> float:
    return abs(row.sigma.value) if row.sigma.is_defined else math.inf


def _was_judged(results: Sequence[Result], partition: str) -> bool:
    return any(row.verdict == NO_DIFFERENCE for result in results if result.partition == partition for row in result)


def cap_note(result: Result) -> str:
    """What it means that distances were capped; empty if they were not."""
    if math.isinf(result.up_to):
        return ""
    reason = result.cap_reason if isinstance(result, AuditResult) else ""  # there, it is among the notes
    why = f" Why: {reason.rstrip('.')}." if reason else ""
    return (
        f"Distances are capped at {number(result.up_to)}: means are of min(distance, {number(result.up_to)}), and "
        f"differences beyond that radius are not seen.{why}"
    )


def control_note(result: AuditResult) -> str:
    """What was held constant; empty if nothing was."""
    if not result.control:
        return ""
    left_out = sum(row.dropped * row.size for row in result)
    lost = f" {round(left_out):,} samples without a counterpart were left out." if left_out >= 0.5 else ""
    return (
        f"Groups are compared at equal {quoted(result.control)}: a difference that only mirrors how "
        f"{quoted(result.control)} is distributed does not show.{lost}"
    )


def cluster_note(result: AuditResult) -> str:
    """How samples that belong together were treated; empty if each stands alone."""
    if not result.clustered:
        return ""
    return (
        "Samples that belong together (for instance several of one person) were resampled together: they count as one "
        "observation, not as many."
    )


def subject_note(result: AuditResult) -> str:
    """Whose boundary was measured, if not the plain model's."""
    if result.subject == "model":
        return ""
    return f"The numbers speak of {plain(result.subject)}, which is another classifier than the plain model."


def notes(result: AuditResult) -> tuple[str, ...]:
    """Every condition that a reader of this result should know."""
    every = (subject_note(result), cap_note(result), control_note(result), cluster_note(result))
    return tuple(note for note in every if note)
