"""`fairmargin demo`: the whole way in a few seconds."""

from pathlib import Path
from typing import Annotated

import typer

from fairmargin.cli.audit import carry_out
from fairmargin.cli.options import Json, Quiet


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("fairmargin-demo"),
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Trains a small model on embedded data, audits it, and writes a report: no files, no network.

    Example:

    fairmargin demo --out fairmargin-demo
    """
    from fairmargin.studies.demo import demo_study

    carry_out(demo_study(out), out, "serial", json_=json_, quiet=quiet)
