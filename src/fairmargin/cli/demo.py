"""`fairmargin demo`: audits of two small models in a few seconds."""

from pathlib import Path
from typing import Annotated

import typer

from fairmargin.cli.console import carry_out, print_json, run_json
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

    linear = carry_out(demo_study(out), out, "serial", quiet=quiet or json_)
    network = carry_out(network_study(out / "cnn"), out / "cnn", "serial", quiet=quiet or json_)
    if json_:
        print_json({**run_json(out, *linear), "cnn": run_json(out / "cnn", *network)})
