"""What an audit found, in sentences for people who build no models. Plain text: whoever shows it escapes it."""

import math
import unicodedata
from collections.abc import Sequence

from fairmargin.core.bound import Bound
from fairmargin.metrics.results import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    TOO_FEW,
    AuditResult,
    Estimate,
    GroupResult,
)

VERDICT_SYMBOLS = {LESS_ROBUST: "▼", MORE_ROBUST: "▲", NO_DIFFERENCE: "≈", TOO_FEW: "?", NOT_COMPARABLE: "✕"}

VERDICT_MEANINGS = {
    LESS_ROBUST: "The group lies closer to the boundary than the rest, by more than chance explains.",
    MORE_ROBUST: "The group lies farther from the boundary than the rest, by more than chance explains.",
    NO_DIFFERENCE: (
        "The difference could be chance. This is no proof of equality: the interval shows which differences remain "
        "possible."
    ),
    TOO_FEW: "The group has too few samples for an interval or a test; nothing is claimed about it.",
    NOT_COMPARABLE: "A number that the comparison needs does not exist here; the reason stands beside it.",
}

BOUND_MEANINGS = {
    Bound.EXACT: (
        "Exact distances: the shortest perturbation that changes the answer was computed, not searched for. "
        "Differences between groups are differences of the model on these samples."
    ),
    Bound.UPPER: (
        "Upper bounds: an attack found a misclassified input at this distance, so the boundary is at most this far "
        "away, and perhaps nearer. A gap between two upper bounds orders nothing by itself: an attack that works less "
        "well on one group could pass for unfairness. Check with a second, stronger attack, or with a lower bound."
    ),
    Bound.LOWER: (
        "Lower bounds: it is certified that nothing within this distance changes the answer; the boundary may be much "
        "farther away. A gap between two lower bounds orders nothing by itself either: a certificate that is looser "
        "for one group could pass for unfairness. A lower and an upper bound together bracket the truth."
    ),
    Bound.NEITHER: (
        "A proxy: the number tends to follow the distance but may lie on either side of it. It serves to compare "
        "quickly, and proves nothing about how far the boundary is."
    ),
}

SIGMA_MEANING = (
    "σ compares a group’s mean distance with that of everyone else: σ = −30 % says that on average its samples lie "
    "30 % closer to the decision boundary than everyone else’s, so a smaller perturbation suffices to fool the model "
    "about them. σ = 0 is equality. Misclassified samples count with distance 0."
)

CURVE_READING = (
    "Each curve starts at the left with the share of a group’s samples that are classified correctly when nothing is "
    "disturbed. Going right, the allowed perturbation grows, and the curve falls as samples can be made to fail. A "
    "curve that falls earlier belongs to a group that is easier to fool; the area below a curve is the group’s mean "
    "distance. The shaded band is where the curve of the whole population plausibly lies."
)

VARIANCE_READING = (
    "V_f grows with the square of the distances: a model that is more robust for everyone has a larger V_f. To "
    "compare models, look at the relative one, V_f / Rob(f)²."
)

ETHICS = (
    "This page shows whom an attacker would reach first. That helps whoever protects people, and whoever harms them: "
    "share it with that in mind.",
    "Groups are the dataset’s coding, not people’s own words. To predict age, race or gender from a face is itself a "
    "flawed task; such datasets serve here to test the method.",
    "What to do about a difference belongs with the people whom it affects. A tension between fairness and robustness "
    "is no reason to build a less fair or a less safe model.",
)

_QUALIFIER = {
    Bound.EXACT: "",
    Bound.UPPER: ", as far as attacks can tell",
    Bound.LOWER: ", as far as certificates can tell",
    Bound.NEITHER: ", judged by a proxy",
}
_NAMES_AT_MOST = 5
_JOINERS = "\u200c\u200d"  # invisible, but part of Persian words and of emoji


# Names and numbers ---------------------------------------------------------------------------------------------------


def plain(name: str) -> str:
    """A name on one line without invisible control characters, which could reorder the text around it.

    >>> plain("two\\nlines\\u202e")
    'two lines'
    """
    kept = (c if c in _JOINERS or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else " " for c in name)
    return " ".join("".join(kept).split()) or "(no name)"


def shorten(text: str, width: int) -> str:
    """`text` with its middle left out if it is longer than `width`: long names often differ at the end.

    >>> shorten("race=Other & sex=F & age=old", 15)
    'race=Ot…age=old'
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail].rstrip()}…{text[len(text) - tail :].lstrip()}"


def quoted(name: str) -> str:
    """A name as it stands in a sentence.

    >>> quoted("8")
    '“8”'
    """
    return f"“{shorten(plain(name), 60)}”"


def listed(items: Sequence[str], at_most: int = _NAMES_AT_MOST) -> str:
    """A list as one says it.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], at_most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    shown = list(items[:at_most])
    if len(items) > at_most:
        shown.append(f"{len(items) - at_most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def percent(share: float) -> str:
    """A share in percent with two digits that matter.

    >>> percent(0.313), percent(0.0312), percent(-0.0001), percent(1.0)
    ('31 %', '3.1 %', '−0.01 %', '100 %')
    """
    if not math.isfinite(share):
        return number(share)
    hundred = abs(share) * 100
    digits = 0 if hundred >= 9.95 or hundred == 0 else 1 if hundred >= 0.095 else 2
    return f"{_sign(share)}{hundred:.{digits}f} %"


def number(value: float) -> str:
    """A number with three digits that matter, and a real minus sign.

    >>> number(-0.12345), number(float("inf")), number(float("nan")), number(1234.5)
    ('−0.123', '∞', 'undefined', '1,234')
    """
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return f"{_sign(value)}∞"
    size = abs(value)
    if size >= 1000:
        return f"{_sign(value)}{size:,.0f}" if size < 1e9 else f"{_sign(value)}{size:.2e}"
    return f"{_sign(value)}{size:.3g}"


def p_value(p: float) -> str:
    """How a p-value stands in a sentence.

    >>> p_value(0.0001), p_value(0.0123), p_value(0.4), p_value(0.999), p_value(float("nan"))
    ('p < 0.001', 'p = 0.012', 'p = 0.40', 'p > 0.99', 'p undefined')
    """
    if math.isnan(p):
        return "p undefined"
    if p < 0.001:
        return "p < 0.001"
    if p > 0.99:
        return "p > 0.99"
    return f"p = {p:.3f}" if p < 0.0995 else f"p = {p:.2f}"


def _sign(value: float) -> str:
    return "−" if value < 0 else ""


# Findings ------------------------------------------------------------------------------------------------------------


def by_sigma(result: AuditResult) -> list[GroupResult]:
    """The groups, least robust first; those without a σ last."""
    return sorted(result.groups, key=lambda row: row.sigma.value if row.sigma.is_defined else math.inf)


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
    return f"{level} interval {percent(near)} to {percent(far)}"


def headline(result: AuditResult) -> str:
    """The finding of one partition in a sentence: whom noise or an attacker reaches first, if anyone."""
    rows = by_sigma(result)
    less = [row for row in rows if row.verdict == LESS_ROBUST and row.sigma.is_defined]
    more = [row for row in reversed(rows) if row.verdict == MORE_ROBUST and row.sigma.is_defined]
    if less:
        return _first_reached(result, less[0])
    if more:
        return (
            f"No group is significantly easier to reach than the rest, but {quoted(more[0].group)} is harder to reach: "
            f"{_distance_words(result, more[0])}."
        )
    if any(row.verdict == NO_DIFFERENCE for row in rows):
        return f"No significant difference between the groups of {quoted(result.partition)} was found."
    return f"The groups of {quoted(result.partition)} could not be compared."


def findings(result: AuditResult) -> tuple[str, ...]:
    """The headline, then what else there is to say about the partition, one sentence or two each."""
    rows = by_sigma(result)
    of = {verdict: [row for row in rows if row.verdict == verdict] for verdict in VERDICT_SYMBOLS}
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
    for verdict, why in ((TOO_FEW, "too few samples"), (NOT_COMPARABLE, "a number it needs is undefined")):
        if of[verdict]:
            names = listed([quoted(row.group) for row in of[verdict]])
            sentences.append(f"Not judged ({why}): {names}.")
    if not math.isnan(result.overall.p_equal):
        p_equal = p_value(result.overall.p_equal)
        sentences.append(f"Test of the assumption that all groups are equally robust: {p_equal}.")
    return tuple(sentences)


def answer(results: Sequence[AuditResult]) -> str:
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
            f"{quoted(row.group)} of {quoted(r.partition)} ({comparison(row.sigma.value, r.bound)} than the rest"
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
    return " ".join([*sentences, *disagreements(results)])


def disagreements(results: Sequence[AuditResult]) -> tuple[str, ...]:
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


def _first_reached(result: AuditResult, row: GroupResult) -> str:
    name = quoted(row.group)
    opening = {
        Bound.EXACT: f"Noise or an attacker reaches {name} first",
        Bound.UPPER: f"Noise or an attacker reaches {name} first, as far as this attack can tell",
        Bound.LOWER: f"{name} has the weakest guarantee",
        Bound.NEITHER: f"Judged by a proxy, noise or an attacker reaches {name} first",
    }[result.bound]
    return f"{opening}: {_distance_words(result, row)}."


def _distance_words(result: AuditResult, row: GroupResult) -> str:
    sigma, bound = row.sigma, result.bound
    rest = f"everyone else’s at equal {quoted(result.control)}" if result.control else "everyone else’s"
    what = f"its certified radii are {comparison(sigma.value, bound)} than {rest}"
    if bound is not Bound.LOWER:
        towards = "to" if sigma.value < 0 else "from"
        what = f"its samples lie {comparison(sigma.value)} {towards} the boundary than {rest}"
    return f"on average {what} ({interval(sigma, result.confidence, bound)}, {p_value(row.p_adjusted)})"


def _with_sigma(rows: Sequence[GroupResult], bound: Bound) -> str:
    return listed(
        [
            f"{quoted(row.group)} ({comparison(row.sigma.value, bound)})" if row.sigma.is_defined else quoted(row.group)
            for row in rows
        ]
    )


def _undecided(rows: Sequence[GroupResult], of_all: int) -> str:
    which = f"For {len(rows)} of {of_all} groups the difference could be chance"
    ends = [abs(end) for row in rows for end in (row.sigma.low, row.sigma.high) if math.isfinite(end)]
    allow = "the interval allows a difference" if len(rows) == 1 else "their intervals allow differences"
    return f"{which}; {allow} of up to {percent(max(ends))}." if ends else f"{which}."


def _strongest(results: Sequence[AuditResult]) -> tuple[AuditResult, GroupResult] | None:
    """The most telling significant group: a less robust one before a more robust one, the best bound first."""
    rank = {Bound.EXACT: 0, Bound.UPPER: 1, Bound.LOWER: 1, Bound.NEITHER: 2}
    found = [
        (row.verdict == MORE_ROBUST, rank[result.bound], -abs(row.sigma.value), i, row)
        for i, result in enumerate(results)
        for row in result
        if row.verdict in (LESS_ROBUST, MORE_ROBUST) and row.sigma.is_defined
    ]
    if not found:
        return None
    *_, i, row = min(found, key=lambda item: item[:4])
    return results[i], row


def _was_judged(results: Sequence[AuditResult], partition: str) -> bool:
    return any(row.verdict == NO_DIFFERENCE for result in results if result.partition == partition for row in result)


# Conditions under which a result holds -------------------------------------------------------------------------------


def cap_note(result: AuditResult) -> str:
    """What it means that distances were capped; empty if they were not."""
    if math.isinf(result.up_to):
        return ""
    why = f" Why: {result.cap_reason.rstrip('.')}." if result.cap_reason else ""
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
