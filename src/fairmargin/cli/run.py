"""`fairmargin run`: carry out a study in a file."""

from pathlib import Path
from typing import Annotated

import typer

from fairmargin.cli.execution import execute
from fairmargin.cli.options import Json, Plan, Quiet
from fairmargin.errors import InputError


def run(
    study: Annotated[Path, typer.Argument(help="The study, a TOML file.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run; the name of the study with -run if left out. Interrupted and run again, the "
            "command continues there; after a change of the study, only what is new is done."
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where tasks run: serial, processes:workers=2 or ray:address=auto; by default as `engine` in the "
            "study says, or serial. The numbers are the same."
        ),
    ] = "",
    plan: Plan = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Carry out a study: train every model, measure it by every estimator and attack, and compare groups.

    A study is data × models × trainings × seeds, measured at some epochs. Its sections hold the options of the
    commands audit, attack and train, with underscores; \\[train] alone holds what all \\[train.NAME] share. Every task
    is kept as soon as it is done. At the end the folder holds results.csv, with one row per network, measurement and
    group, and report.html.

    Example, in study.toml:

    seeds = \\[0, 1, 2]
    \\[data.digits]
    group = \\["class", "ink"]
    \\[model.small_cnn]
    \\[train.erm]
    epochs = 10
    \\[audit.deepfool]
    audit_epochs = \\["first", "last"]
    \\[attack.pgd]
    attack = "pgd:steps=20"
    radius = \\["8/255", "16/255"]

    [dim]# what would be done, and how long it may take[/]
    fairmargin run study.toml --plan

    [dim]# two networks at a time; the numbers are the same[/]
    fairmargin run study.toml --out run --engine processes:workers=2
    """
    from fairmargin.models.architectures.catalog import ARCHITECTURES
    from fairmargin.study.study_file import engine_of, read_study

    asked = read_study(study, architectures=ARCHITECTURES)
    folder = out or Path(f"{study.stem}-run")
    try:
        execute(asked, folder, engine or engine_of(study) or "serial", plan=plan, json_=json_, quiet=quiet)
    except InputError as error:  # fields are keys of the file here, not options
        raise type(error)(str(error)) from None
