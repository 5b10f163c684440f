"""The sections of results and records, in the order in which console and report show them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fairmargin.analyses.adequacy import NOTHING_TO_SETTLE
from fairmargin.analyses.bracket import Bracket
from fairmargin.analyses.networks.sections import sections_over_networks
from fairmargin.analyses.robust_accuracy import attacks_together
from fairmargin.core.bound import Bound
from fairmargin.presentation.formatting import plain
from fairmargin.presentation.section import Section
from fairmargin.study.record import About, RunRecord
from fairmargin.study.tables import networks_table

_NOT_CHECKED = (
    "Whether the attack was strong enough was not checked. Run the same command with --adequacy: what was measured is "
    "kept, and some samples of each group are measured again at other budgets."
)
_UNFINISHED = (
    "The distances are exact, except of samples whose search ended at its budget: they have upper bounds, and a larger "
    "budget (boxes=…) would give more of them exact distances."
)
_ELSEWHERE = "The distances were measured elsewhere: whether the attack was strong enough must be checked there."


def _is_exact(estimator: str) -> bool:
    """Return whether an estimator gives exact distances, except of samples whose search ended at its budget."""
    return estimator.startswith("exact_")


def sections_of(record: RunRecord) -> Iterator[Section]:
    """Yield the section of every result of a run, and what several results show together."""
    if record.study.grid is not None:
        table = networks_table(record)
        yield from sections_over_networks(table, failures=record.failures, meanings=record.meanings)
        return
    for stored in record.results:
        yield titled(record.result(stored), stored.about)
    attacks = [result for _, result in record.of_kind("robust_accuracy")]
    if len(attacks) > 1:
        yield attacks_together(attacks)


def titled(result: Any, about: About) -> Section:
    """Return the section of a result, which also names what was measured."""
    section: Section = result.section()
    between = "between " if isinstance(result, Bracket) and about.estimator else ""
    said = [about.data, about.model, about.method, f"{between}{about.estimator}"]
    said += [f"seed {about.seed}"] if about.seed is not None else []
    said += [f"epoch {about.epoch}"] if about.epoch else []
    shown = [plain(each) for each in said if each]
    parts = [each for each in shown if each not in section.about]
    return replace(section, about=" · ".join(filter(None, (*parts, section.about))))


def unchecked(record: RunRecord) -> Section | None:
    """Return a section on the attacks whose strength was not checked; None if there are none."""
    if record.study.grid is not None:
        return None
    checked = {stored.about.estimator for stored, _ in record.of_kind("adequacy")}
    lines = []
    for stored, result in record.of_kind("audit"):
        name = stored.about.estimator
        if name in checked:
            continue
        if result.bound is not Bound.UPPER:
            line = NOTHING_TO_SETTLE[result.bound]
        else:
            line = _ELSEWHERE if record.study.imported.distances else _UNFINISHED if _is_exact(name) else _NOT_CHECKED
        lines.append(f"{plain(name)}: {line}" if name else line)
    if not lines:
        return None
    return Section("Was the attack strong enough?", sentences=tuple(dict.fromkeys(lines)))
