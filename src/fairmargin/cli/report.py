"""`fairmargin report`: write the page of a run again."""

from pathlib import Path
from typing import Annotated

import typer

from fairmargin.cli.console import output, print_json, show_record, shown
from fairmargin.cli.options import Json, Quiet, Run


def report(
    run: Run,
    out: Annotated[Path | None, typer.Option(help="Where to write the page; RUN/report.html if left out.")] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run again, from what the run folder holds, and show its tables.

    Example:

    fairmargin report run --out audit-2026.html
    """
    from fairmargin.report.page import write_report
    from fairmargin.study.check import checked
    from fairmargin.study.export import as_json
    from fairmargin.study.run_folder import RunFolder

    folder = RunFolder.existing(run)
    record = checked(folder)
    target = out or folder.report
    write_report(target, record)
    if json_:
        print_json({"report": str(target), **as_json(record)})
    elif not quiet:
        show_record(record)
        output.print(f"Report: {shown(str(target))}", soft_wrap=True)
