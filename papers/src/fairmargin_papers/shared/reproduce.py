"""Run a paper part by part, and write the page after each, so that an interruption keeps what is finished."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairmargin.core.progress import Progress, silent
from fairmargin.engine.local import Serial
from fairmargin.engine.task import Engine
from fairmargin.errors import InputError
from fairmargin.store.plain_files import folders_below, refuse_links
from fairmargin.study.record import versions
from fairmargin_papers.shared.claims import Claim, lettered
from fairmargin_papers.shared.original import check_available, sentences
from fairmargin_papers.shared.page import Shown, read_page, write_page
from fairmargin_papers.shared.paper import Assignment, Findings, NotPossibleHereError, Paper, Part, Picture, Scale

NOT_REACHED = "the run was stopped before this part"
_NOT_HERE = "not possible with the available data and machines"
_NO_PART = "no part of this command trains the networks for it yet"


@dataclass(frozen=True, slots=True, eq=False)
class Reproduced:
    """Result of a run: the rows, the paths of the page and its figures, and at scale "paper" what was used."""

    paper: Paper
    claims: tuple[Claim, ...]
    page: Path
    pictures: tuple[Path, ...]
    used: tuple[str, ...] = ()


def reproduce(
    paper: Paper,
    scale: Scale,
    out: Path,
    progress: Progress = silent,
    *,
    engine: Engine | None = None,
    root: Path | None = None,
) -> Reproduced:
    """Run all parts of a paper and write its page.

    Guarantee: every claim of the paper has a row, tested or with the reason why not. The page is written after every
    part; if the run is stopped, the page has the finished parts, and names the others as not reached. A second run
    continues with what parts stored in `out/PAPER/PART`, and does not overwrite a page that has more rows. A page of
    another scale is never overwritten. The scale "paper" does not start unless all data, networks and weights that it
    names are available; its page lists what was used and what differs from the paper.

    Parameters
    ----------
    paper
        A paper of the catalog.
    scale
        "smoke" (seconds), "laptop" (up to 90 minutes) or "paper" (the printed settings; the page lists what
        differs).
    out
        A folder; pages of several papers may share it.
    progress
        Called with (name of the step, units done, total units).
    engine
        Where trainings and measurements run, in this process if None. The numbers do not depend on it.
    root
        Folder of the datasets; the user's cache if None.
    """
    if root is not None and not Path(root).is_dir():
        raise InputError(
            f"There is no folder '{root}' (--root, `root=`). Give the folder of the datasets, or leave it out."
        )
    refuse_links([Path(out) / paper.name, *folders_below(Path(out) / paper.name)])
    found: dict[str, Findings] = {}
    page, before = Path(out) / f"{paper.name}.md", _reached_before(paper, scale, Path(out))
    if scale == "paper":
        check_available(paper.name, [each for part in paper.parts for each in part.originals()], root, progress)
    used: tuple[str, ...] = ()
    for done, part in enumerate(paper.parts):
        progress(f"{paper.name}: {part.title}", done, len(paper.parts))
        folder = Path(out) / paper.name / part.name
        assignment = Assignment(scale, folder, paper.by_number, progress, engine or Serial(), root)
        findings = _carried_out(part, assignment)
        if scale == "paper":
            said = sentences(assignment.used, part.differences)
            findings, used = replace(findings, notes=(*said, *findings.notes)), (*used, *said)
        found[part.name] = findings
        shown = _shown(paper, scale, found, root)
        if _reached(claim.remark for claim in shown.claims) >= before or len(found) == len(paper.parts):
            page = write_page(shown, Path(out))
        progress(f"{paper.name}: {part.title}", done + 1, len(paper.parts))
    shown = _shown(paper, scale, found, root)
    if not paper.parts:
        page = write_page(shown, Path(out))
    pictures = tuple(Path(out) / paper.name / f"{picture.name}.svg" for picture in shown.pictures)
    return Reproduced(paper, tuple(shown.claims), page, pictures, used)


def _reached_before(paper: Paper, scale: Scale, out: Path) -> int:
    """Count the rows that an earlier run of that scale reached, and refuse a page of another scale."""
    there = read_page(paper, out)
    if there is None:
        return 0
    if there["scale"] != scale:
        raise InputError(
            f"'{out / paper.name}.md' has the results of --scale {there['scale']}, which --scale {scale} would "
            f"overwrite. Give another folder with --out, or --scale {there['scale']} to continue there."
        )
    return _reached(row["remark"] for row in there["claims"])


def _reached(remarks: Iterable[str]) -> int:
    return sum(remark != NOT_REACHED for remark in remarks)


def rows(paper: Paper, found: Mapping[str, Findings]) -> tuple[Claim, ...]:
    """Return the rows of all claims in order: the results of finished parts, or the reason why there is none."""
    answers = [row for findings in found.values() for row in findings.claims]
    answered = {row.number for row in answers}
    waiting = {number for part in paper.parts if part.name not in found for number in part.numbers}
    others = [claim for claim in paper.claims if claim.number not in answered]
    return lettered([*answers, *(claim.untested(_reason(paper, claim, waiting)) for claim in others)])


def _reason(paper: Paper, claim: Claim, waiting: set[int]) -> str:
    if claim.number in waiting:
        return NOT_REACHED
    if claim.number in paper.waiting:
        return paper.waiting[claim.number]
    return _NOT_HERE if claim.testable == "not here" else _NO_PART


def _carried_out(part: Part, assignment: Assignment) -> Findings:
    """Run a part, and check that it gives rows for exactly the claims that it promises."""
    try:
        findings = part.run(assignment)
    except NotPossibleHereError as error:
        return Findings(tuple(assignment.claims[number].untested(str(error)) for number in sorted(part.numbers)))
    given = {claim.number for claim in findings.claims}
    if given != part.numbers:
        raise RuntimeError(
            f"Part {part.name!r} promises claims {sorted(part.numbers)} and gave rows for {sorted(given)}."
        )
    return findings


def _shown(paper: Paper, scale: Scale, found: Mapping[str, Findings], root: Path | None) -> Shown:
    pictures: Sequence[Picture] = [picture for findings in found.values() for picture in findings.pictures]
    notes = [note for findings in found.values() for note in findings.notes]
    tables = [table for findings in found.values() for table in findings.tables]
    return Shown(paper, scale, rows(paper, found), pictures, notes, versions(), rooted=root is not None, tables=tables)
