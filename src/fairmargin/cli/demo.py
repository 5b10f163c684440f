"""`fairmargin demo`: audits of three small models in a few seconds."""

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
    """Train a linear model, a small neural network and boosted trees on embedded data, audit them, and write reports.

    Needs no files and no network access. The report of the linear model is OUT/report.html, that of the neural network
    OUT/cnn/report.html, and that of the boosted trees, which take raw rows of a table, OUT/table/report.html. The first
    time, the search in trees is compiled, which takes about half a minute.

    Example:

    fairmargin demo --out fairmargin-demo
    """
    from fairmargin.runner.demo import demo_study, network_study, table_study

    shown = {}
    for folder, study_in in ((out, demo_study), (out / "cnn", network_study), (out / "table", table_study)):
        found = carry_out(study_in(folder), folder, "serial", quiet=quiet or json_)
        if not (quiet or json_):
            show_outcome(folder, *found)
        shown[folder] = run_json(folder, *found)
    if json_:
        print_json({**shown[out], "cnn": shown[out / "cnn"], "table": shown[out / "table"]})
