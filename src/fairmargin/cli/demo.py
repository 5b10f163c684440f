"""`fairmargin demo`: audits of two small models in a few seconds."""

from pathlib import Path
from typing import Annotated

import typer

from fairmargin.cli.console import print_json
from fairmargin.cli.execution import carry_out, run_json, show_outcome
from fairmargin.cli.options import Json, Quiet


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("fairmargin-demo"),
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a linear model and a small neural network on embedded data, audit both, and write reports.

    Needs no files and no network access. The report of the linear model is OUT/report.html, that of the neural network
    OUT/cnn/report.html.

    Example:

    fairmargin demo --out fairmargin-demo
    """
    from fairmargin.runner.demo import demo_study, network_study

    shown = {}
    for folder, study_in in ((out, demo_study), (out / "cnn", network_study)):
        found = carry_out(study_in(folder), folder, "serial", quiet=quiet or json_)
        if not (quiet or json_):
            show_outcome(folder, *found)
        shown[folder] = run_json(folder, *found)
    if json_:
        print_json({**shown[out], "cnn": shown[out / "cnn"]})
