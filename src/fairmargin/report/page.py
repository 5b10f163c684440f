"""One self-contained HTML page: sentences, tables, figures, and how it all was measured. Loops over sections."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairmargin.analyses.table import GroupTable
from fairmargin.errors import InputError
from fairmargin.presentation.section import Explanation, Section
from fairmargin.report.answer import answer_of
from fairmargin.report.document import PageDetails, document, embed
from fairmargin.report.draw import draw
from fairmargin.report.sections import sections_of, unchecked
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.paths import as_path
from fairmargin.study.record import RunRecord

_TITLES = {"audit": "Robustness audit", "attack": "Robust accuracy", "": "Report"}


def write_report(
    path: Path | str, what: RunRecord | GroupTable[Any] | Sequence[GroupTable[Any]], *, title: str = ""
) -> Path:
    """Write the page of a run, or of results, to a file. An error leaves no incomplete file.

    Parameters
    ----------
    path
        Where to write, for instance "report.html".
    what
        What `audit_model` returned, or a result such as that of `audit`, `bracket`, `adequacy` or `compare`, or a list
        of results.
    title
        Heading of the page; that of the study, if it has one, by default.
    """
    path = as_path(path, "path")
    if isinstance(what, RunRecord):
        sections = list(sections_of(what))
        several = what.study.grid is not None  # the first section answers for all models
        return write_page(
            path,
            title or what.study.title or _default_title(what),
            [*sections, *filter(None, [unchecked(what)])],
            provenance=_provenance(what),
            answer=sections[0].answer if several else answer_of([what.result(stored) for stored in what.results]),
        )
    results = _as_results(what)
    sections = [result.section() for result in results]
    return write_page(path, title or _TITLES["audit"], sections, answer=answer_of(results))


def write_page(
    path: Path | str,
    title: str,
    sections: Sequence[Section],
    *,
    provenance: PageDetails | None = None,
    answer: str = "",
) -> Path:
    """Write a page of sections to a file; by default, its `answer` consists of the answers of the sections."""
    atomic_write_text(path, render(title, sections, provenance=provenance, answer=answer))
    return Path(path)


def render(title: str, sections: Sequence[Section], *, provenance: PageDetails | None = None, answer: str = "") -> str:
    """Return the text of a page, see `write_page`.

    >>> render("Report", [])
    Traceback (most recent call last):
    fairmargin.errors.InputError: A report needs at least one result; given none.
    """
    if not sections:
        raise InputError("A report needs at least one result; given none.")
    found = answer or " ".join(dict.fromkeys(section.answer for section in sections if section.answer))
    content = {
        "answer": found,
        "sections": sections,
        "topics": _topics(sections),
        "methods": list(dict.fromkeys(section.method for section in sections if section.method)),
        "figure": lambda data: embed(draw(data)),
    }
    return document(replace(provenance or PageDetails(), title=title), content)


def _as_results(what: Any) -> list[GroupTable[Any]]:
    """Return one result or several as a list, or a sentence that says what was given instead."""
    several = list(what) if isinstance(what, Iterable) and not isinstance(what, GroupTable | str) else [what]
    for each in several:
        if not isinstance(each, GroupTable):
            given = f"{'' if each is what else 'a list with '}a {type(each).__name__}"
            raise InputError(
                f"A report shows a run, a result such as that of `audit`, or a list of results; given {given}."
            )
    return several


def _topics(sections: Sequence[Section]) -> dict[str, list[Explanation]]:
    """Return what is explained, each text once, by its topic."""
    found: dict[str, list[Explanation]] = {}
    for each in dict.fromkeys(_explanations(sections)):
        found.setdefault(each.topic, []).append(each)
    return found


def _explanations(sections: Sequence[Section]) -> Iterator[Explanation]:
    for section in sections:
        yield from section.explanations
        yield from _explanations(section.further)


def _default_title(record: RunRecord) -> str:
    if record.study.grid is not None:
        return "Are these models equally hard to fool for everyone?"
    return _TITLES["attack" if record.study.audit is None and record.study.attack is not None else "audit"]


def _provenance(record: RunRecord) -> PageDetails:
    made = record.provenance
    return PageDetails(
        command=made.command,
        created=made.created,
        model=made.model,
        data=made.data,
        seed=record.study.seed,
        versions=made.versions,
        notes=record.notes,
    )
