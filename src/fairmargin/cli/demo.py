"""`fairmargin demo`: the whole way in a few seconds."""

from pathlib import Path
from typing import Annotated

import typer

from fairmargin.cli.audit import as_json, carry_out
from fairmargin.cli.console import print_json
from fairmargin.cli.options import Json, Quiet


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the run.")] = Path("fairmargin-demo"),
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Trains a linear model and a small neural network on embedded data, audits both, and writes reports: no files, no
    network access.

    The report of the linear model is OUT/report.html, that of the neural network OUT/cnn/report.html.

    Example:

    fairmargin demo --out fairmargin-demo
    """
    from fairmargin.studies.demo import demo_study, network_study

    linear = carry_out(demo_study(out), out, "serial", json_=False, quiet=quiet or json_)
    network = carry_out(network_study(out / "cnn"), out / "cnn", "serial", json_=False, quiet=quiet or json_)
    if json_:
        print_json(as_json(linear) | {"cnn": as_json(network)})
