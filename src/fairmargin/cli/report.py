"""`fairmargin report`: the page of a run, made anew."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fairmargin.cli.audit import adequacy_as_json, audit_as_json, bracket_as_json
from fairmargin.cli.console import output, show_adequacies, show_audits, show_brackets
from fairmargin.cli.options import Json, Quiet, Run


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
    from fairmargin.studies.run_folder import RunFolder
    from fairmargin.studies.workflow import write_report

    folder = RunFolder.existing(run)
    audits, adequacies, brackets = folder.read_audits(), folder.read_adequacies(), folder.read_brackets()
    target = out or folder.report
    write_report(folder, target)
    if json_:
        content = {
            "report": str(target),
            "audits": [audit_as_json(stored) for stored in audits],
            "adequacy": [adequacy_as_json(stored) for stored in adequacies],
            "brackets": [bracket_as_json(stored) for stored in brackets],
        }
        typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2))
    elif not quiet:
        show_audits(audits)
        show_brackets(brackets)
        show_adequacies(adequacies)
        output.print(f"Report: {target}", soft_wrap=True)
