"""What several audits found together, in sentences for people who build no models. Plain text, not escaped."""

import math
from collections.abc import Sequence

from fairmargin.analyses.audit import AuditResult, GroupResult
from fairmargin.analyses.precision import PreciseGroup, PrecisionResult
from fairmargin.analyses.summary import than_the_rest
from fairmargin.core.bound import Bound
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE
from fairmargin.presentation.formatting import listed, quoted, radius_of

Result = AuditResult | PrecisionResult  # both have groups with σ, p and a verdict
Row = GroupResult | PreciseGroup

_QUALIFIER = {
    Bound.EXACT: "",
    Bound.UPPER: ", as far as attacks can tell",
    Bound.LOWER: ", as far as certificates can tell",
    Bound.NEITHER: ", judged by a proxy",
}


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
            f"{quoted(row.group)} of {quoted(r.partition)} ({than_the_rest(row, r.bound)}"
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
