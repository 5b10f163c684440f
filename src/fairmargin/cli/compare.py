"""`fairmargin compare`: two models on the same samples."""

from pathlib import Path
from typing import Annotated

import typer

from fairmargin.cli.console import output, print_json, show_section, shown
from fairmargin.cli.options import Json, Quiet


def compare(
    before: Annotated[str, typer.Argument(help="Run folder of the first model.")],
    after: Annotated[str, typer.Argument(help="Run folder of the second model, on the same samples.")],
    group: Annotated[list[str] | None, typer.Option(help="Only this partition; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a page to this file.")] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say which groups gained and which lost from one model to the next, and whether the gap closed.

    Each sample is compared with itself, so that small changes can be seen. Imported distances are paired by the ids
    that `audit --distances FILE --id COLUMN` kept; without ids they are paired by position, and a note says so.

    Example:

    fairmargin compare run-before run-after --group race
    """
    from fairmargin.report.sections import titled
    from fairmargin.study.check import checked
    from fairmargin.study.comparison import compare_runs
    from fairmargin.study.run_folder import RunFolder

    old, new = RunFolder.existing(before), RunFolder.existing(after)
    found = compare_runs((old, checked(old)), (new, checked(new)), tuple(group or ()))
    sections = [titled(comparison, about) for about, comparison in found]
    if out is not None:
        from fairmargin.report.page import write_page  # loads plotly

        write_page(out, f"{before} and {after}: which groups gained, which lost?", sections)
    if json_:
        print_json([{"estimator": about.estimator, **comparison.to_dict()} for about, comparison in found])
    elif not quiet:
        for section in sections:
            show_section(section)
        if out is not None:
            output.print(f"Page: {shown(str(out))}", soft_wrap=True)
