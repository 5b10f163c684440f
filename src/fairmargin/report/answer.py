"""The answer of a page: what several results found together, in sentences for readers who build no models."""

import math
from collections.abc import Sequence
from typing import Any

from fairmargin.analyses.adequacy import NOT_SETTLED, SETTLED, UNDECIDED, Adequacy, more_of
from fairmargin.analyses.alarms import ANOTHER_IS_NEARER
from fairmargin.analyses.audit import AuditResult
from fairmargin.analyses.bracket import CERTAINLY_LESS, Bracket
from fairmargin.analyses.precision import PrecisionResult, precision_points
from fairmargin.analyses.robust_accuracy import RobustAccuracy
from fairmargin.analyses.summary import ComparedGroup, ComparedGroups, than_the_rest
from fairmargin.core.bound import Bound
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE
from fairmargin.presentation.formatting import at_most, listed, plain, quoted, radius_of, table_percent

_QUALIFIER = {
    Bound.EXACT: "",
    Bound.UPPER: ", as far as attacks can tell",
    Bound.LOWER: ", as far as certificates can tell",
    Bound.NEITHER: ", judged by a proxy",
}


def answer_of(results: Sequence[Any]) -> str:
    """Return what results of any kinds found together.

    Audits are answered together, with what brackets and adequacy say about them; every other result gives the answer of
    its section.
    """
    audits = [each for each in results if isinstance(each, ComparedGroups)]
    attacked = [each for each in results if isinstance(each, RobustAccuracy)]
    if attacked and not audits:
        return attacks_answer(attacked)
    if not audits:
        return " ".join(dict.fromkeys(filter(None, (each.section().answer for each in results))))
    precise = [each for each in audits if isinstance(each, PrecisionResult)]
    brackets = [each for each in results if isinstance(each, Bracket)]
    checked = [each for each in results if isinstance(each, Adequacy)]
    parts = [
        audits_answer(audits),
        extent(precise) if precise else "",
        certainty(brackets) if brackets else "",
        strength(checked) if checked else "",
        attacks_answer(attacked, "Under attack, ") if attacked else "",
    ]
    return " ".join(filter(None, parts))


def attacks_answer(results: Sequence[RobustAccuracy], opening: str = "") -> str:
    """Return the finding over all attacks and radii of a page: which groups withstand less, and what is left."""
    fewer = dict.fromkeys(
        f"{quoted(row.group)} of {quoted(result.partition)}"
        for result in results
        for row in result
        if row.verdict == LESS_ROBUST
    )
    judged = any(row.verdict in (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE) for result in results for row in result)
    finding = "no group could be compared with the rest."
    if fewer:
        finding = f"fewer samples of {listed(list(fewer))} withstand than of the rest{_QUALIFIER[results[0].bound]}."
    elif judged:
        finding = "no significant difference between groups was found. That is no proof of equality."
    start = opening or ("No: under attack, " if fewer else "Under attack, ")
    least: dict[str, float] = {}
    for result in results:
        value = result.overall.robust_accuracy.value
        where = f"radius {result.radius_text} in {result.norm}"
        least[where] = min(least.get(where, value), value)
    hedge = at_most(results[0].bound)
    left = listed([f"{table_percent(value, signed=False)} at {where}" for where, value in least.items()])
    return f"{start}{finding} Robust accuracy is {hedge}{left}."


def extent(results: Sequence[PrecisionResult]) -> str:
    """Return how precise the answer is, as a sentence."""
    rows = [row for result in results for row in result]
    short = sum(not row.met for row in rows)
    precision = f"± {precision_points(results[0].precision)}"
    what = "differences from the rest" if len(rows) > len(results) else "mean distances"
    if not short:
        return f"All {what} are known to {precision}, from a thorough look at a random part of the samples."
    which = f"{short:,} of {len(rows):,} groups" if short < len(rows) else "all groups"
    return f"The {what} were to be known to {precision}; for {which} they are known less precisely."


def certainty(brackets: Sequence[Bracket]) -> str:
    """Return which groups are certainly easier to fool, with all conditions, as a sentence; empty if there are none."""
    worst = [(row, bracket) for bracket in brackets for row in bracket if row.verdict == CERTAINLY_LESS]
    if not worst:
        return ""
    names = ", ".join(f"{quoted(row.group)}{bracket.condition}" for row, bracket in worst)
    return f"Certain, whatever the attack: {names} {'is' if len(worst) == 1 else 'are'} easier to fool."


def audits_answer(results: Sequence[ComparedGroups[Any]]) -> str:
    """Return the finding over all audits of a page, in a paragraph."""
    names = list(dict.fromkeys(result.partition for result in results))
    unequal = {name: _strongest([r for r in results if r.partition == name]) for name in names}
    shown = [found for found in unequal.values() if found is not None]
    silent = [name for name in names if unequal[name] is None and _was_judged(results, name)]
    unjudged = [name for name in names if unequal[name] is None and name not in silent]
    single = [r.single_samples_words for r in results if isinstance(r, AuditResult) and r.single_samples_words]
    hidden = [r.hidden_difference for r in results if isinstance(r, AuditResult) and r.hidden_difference]
    sentences = []
    if shown:
        bounds = list(dict.fromkeys(result.bound for result, _ in shown))
        several = len({result.norm for result in results}) > 1
        qualifier = _QUALIFIER[bounds[0]] if len(bounds) == 1 else ""
        sentences.append(f"No: the model is not equally hard to fool for everyone{qualifier}.")
        evidence = [
            f"{quoted(row.group)} of {quoted(r.partition)} ({than_the_rest(row, r.bound)}"
            f"{f' in {r.norm}' if several else ''}"
            f"{_QUALIFIER[r.bound] if len(bounds) > 1 else ''})"
            for r, row in shown
        ]
        sentences.append(f"The clearest difference{'s' if len(shown) > 1 else ''}: {listed(evidence)}.")
    elif silent and single:
        sentences.append("No significant difference between mean distances was found, but they do not decide it.")
    elif silent and hidden:
        sentences.append("No significant difference between mean distances was found.")
    elif silent:
        sentences.append("No significant difference was found: nothing here shows that some group is easier to fool.")
    else:
        sentences.append("This audit cannot tell: no group could be compared with the rest.")
    if silent and shown:
        sentences.append(f"By {listed([quoted(n) for n in silent])} no significant difference was found.")
    sentences += single + hidden
    if silent:
        sentences.append("That is no proof of equality; the intervals show which differences remain possible.")
    if unjudged and (shown or silent):
        sentences.append(f"By {listed([quoted(n) for n in unjudged])} no group could be compared.")
    return " ".join([*sentences, *_radii(results), *disagreements(results)])


def _radii(results: Sequence[ComparedGroups[Any]]) -> tuple[str, ...]:
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


def disagreements(results: Sequence[ComparedGroups[Any]]) -> tuple[str, ...]:
    """Return groups that one estimator finds less and another more robust than the rest, a sentence per partition."""
    sentences = []
    for name in dict.fromkeys(result.partition for result in results):
        seen: dict[str, set[str]] = {}
        for row in (row for result in results if result.partition == name for row in result):
            seen.setdefault(row.group, set()).add(row.verdict)
        torn = [quoted(group) for group, verdicts in seen.items() if {LESS_ROBUST, MORE_ROBUST} <= verdicts]
        if torn:
            sentences.append(f"The estimators contradict each other about {listed(torn)} of {quoted(name)}.")
    return tuple(sentences)


def _strongest(results: Sequence[ComparedGroups[Any]]) -> tuple[ComparedGroups[Any], ComparedGroup] | None:
    """Return the main significant group: less robust ones first, then by the best bound, then by the largest σ."""
    rank = {Bound.EXACT: 0, Bound.UPPER: 1, Bound.LOWER: 1, Bound.NEITHER: 2}
    found = [
        (
            row.verdict == MORE_ROBUST,
            rank[result.bound],
            -abs(row.sigma.value) if row.sigma.is_defined else -math.inf,
            i,
            row,
        )
        for i, result in enumerate(results)
        for row in result
        if row.verdict in (LESS_ROBUST, MORE_ROBUST)
    ]
    if not found:
        return None
    *_, i, row = min(found, key=lambda item: item[:4])
    return results[i], row


def _was_judged(results: Sequence[ComparedGroups[Any]], partition: str) -> bool:
    return any(row.verdict == NO_DIFFERENCE for result in results if result.partition == partition for row in result)


def strength(found: Sequence[Adequacy]) -> str:
    """Return what checks of attacks add to a page's answer; empty if no attack was checked."""
    checked = [adequacy for adequacy in found if adequacy.groups]
    moving = _partitions([a for a in checked if a.verdict == NOT_SETTLED])
    unsure = _partitions([a for a in checked if a.verdict == UNDECIDED and not a.no_gap])
    misled, beaten = _misled(checked), _beaten(checked)
    sentences = []
    if moving:
        sentences.append(
            f"But with {_more(checked)} the gaps by {listed(moving)} still moved: in part they are the attack’s, not "
            "the model’s."
        )
    if misled:
        sentences.append(f"There are signs that the attack was misled about {listed(misled)}.")
    if beaten:
        sentences.append(f"Another attack on this page came clearly nearer than {listed(beaten)}: rely on that one.")
    if unsure:
        sentences.append(f"Whether {_more(checked)} would move the gaps by {listed(unsure)} could not be told.")
    if checked and not sentences and all(a.verdict == SETTLED for a in checked):
        more = _more(checked)
        sentences.append(f"{more[0].upper()}{more[1:]} did not move these gaps, and no alarm was raised.")
    return " ".join(sentences)


def _partitions(some: Sequence[Adequacy]) -> list[str]:
    return list(dict.fromkeys(quoted(adequacy.partition) for adequacy in some))


def _misled(checked: Sequence[Adequacy]) -> list[str]:
    """Return the groups with an alarm other than that another attack found smaller distances."""
    return list(
        dict.fromkeys(
            f"{quoted(row.group)} of {quoted(adequacy.partition)}"
            for adequacy in checked
            for row in adequacy
            if any(alarm.kind != ANOTHER_IS_NEARER for alarm in row.raised)
        )
    )


def _beaten(checked: Sequence[Adequacy]) -> list[str]:
    """Return the attacks for which another attack of the same run found smaller distances in some group."""
    return list(
        dict.fromkeys(
            f"{plain(adequacy.estimator)} for {quoted(row.group)} of {quoted(adequacy.partition)}"
            for adequacy in checked
            for row in adequacy
            if any(alarm.kind == ANOTHER_IS_NEARER for alarm in row.raised)
        )
    )


def _more(checked: Sequence[Adequacy]) -> str:
    """Return in words what a larger budget means for the attack, or attacks, that were checked."""
    more = more_of([name for adequacy in checked for name in adequacy.budgets])
    several = len({adequacy.estimator for adequacy in checked}) > 1
    return more.replace("this attack", "these attacks") if several else more
