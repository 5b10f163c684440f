"""`fairmargin report`: the page of a run, made anew."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairmargin.cli.audit import (
    adequacy_as_json,
    audit_as_json,
    bracket_as_json,
    certificates_as_json,
    precision_as_json,
)
from fairmargin.cli.console import (
    output,
    print_json,
    show_adequacies,
    show_audits,
    show_brackets,
    show_certificates,
    show_precise,
    shown,
)
from fairmargin.cli.options import Json, Quiet, Run

if TYPE_CHECKING:
    from fairmargin.studies.run_folder import RunFolder


def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="Where to write the page; RUN/report.html if left out.")] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Writes the report of a run again, from what the run folder holds, and shows its tables.

    Example:

    fairmargin report run --out audit-2026.html
    """
    from fairmargin.studies.run_check import check_run
    from fairmargin.studies.run_folder import RunFolder

    folder = RunFolder.existing(run)
    check_run(folder)
    target = out or folder.report
    again = _precise if folder.is_to_precision else _audits
    again(folder, target, json_=json_, quiet=quiet)
    if not quiet and not json_:
        output.print(f"Report: {shown(str(target))}", soft_wrap=True)


def _audits(folder: "RunFolder", target: Path, *, json_: bool, quiet: bool) -> None:
    from fairmargin.studies.workflow import write_report

    audits, adequacies, brackets = folder.read_audits(), folder.read_adequacies(), folder.read_brackets()
    certificates = folder.read_certificates()
    write_report(folder, target)
    if json_:
        content = {
            "report": str(target),
            "audits": [audit_as_json(stored) for stored in audits],
            "adequacy": [adequacy_as_json(stored) for stored in adequacies],
            "brackets": [bracket_as_json(stored) for stored in brackets],
            "certificates": [certificates_as_json(stored) for stored in certificates],
        }
        print_json(content)
    elif not quiet:
        show_audits(audits)
        show_brackets(brackets)
        show_certificates(certificates)
        show_adequacies(adequacies)


def _precise(folder: "RunFolder", target: Path, *, json_: bool, quiet: bool) -> None:
    from fairmargin.studies.precise_run import write_precise_report

    found = folder.read_precision().found
    write_precise_report(folder, target)
    if json_:
        print_json(precision_as_json(target, found))
    elif not quiet:
        for each in found:
            show_precise(each)
