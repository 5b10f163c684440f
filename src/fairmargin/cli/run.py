"""`fairmargin run`: a study in a file, from data and methods to one table and one report."""

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmargin.cli.console import errors, output, plain_table, print_json, shown
from fairmargin.cli.options import Engine, Json, Quiet
from fairmargin.cli.plan import duration
from fairmargin.cli.training_console import training_progress
from fairmargin.presentation.formatting import table_percent

if TYPE_CHECKING:
    import pandas as pd

    from fairmargin.studies.grid_results import Grid
    from fairmargin.studies.grid_times import PlannedTime

FAILED = 1
_NOUNS = {"train": "training", "measure": "measurement", "attack": "attack"}


def run(
    study: Annotated[Path, typer.Argument(help="The study, a TOML file.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run; if left out, the study's name with -run, here. Interrupted and run again, it goes "
            "on from here; after a change of the study, only what is new is done."
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the tasks, what is done already, and how long the rest may take.")
    ] = False,
    engine: Engine = "serial",
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Carries out a study: trains every network once, measures it by every estimator and attack, compares groups.

    A study is data × networks × methods × seeds, measured at some epochs. Every task is kept as soon as it is done. At
    the end the folder holds results.csv, one row for each number and group, and report.html, one page for people.

    Example, in study.toml:

    seeds = \\[0, 1, 2]
    \\[data.digits]
    partitions = \\["class", "ink"]
    \\[network.small_cnn]
    \\[method.erm]
    epochs = 10
    \\[distance.deepfool]
    epochs = \\["first", "last"]
    \\[attack.pgd]
    steps = 20
    radius = \\["8/255", "16/255"]

    [dim]# what would be done, and how long it may take[/]
    fairmargin run study.toml --plan

    [dim]# two networks at a time; the numbers are the same[/]
    fairmargin run study.toml --out run --engine processes:workers=2
    """
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.studies.study_file import read_study

    workers = parse_engine(engine)
    asked = read_study(study)
    folder = out or Path(f"{study.stem}-run")
    if plan:
        _plan(asked, folder, getattr(workers, "workers", 1) or 1, json_=json_, quiet=quiet)
        return
    from fairmargin.studies.grid_run import run_study

    with training_progress(quiet or json_) as listeners:
        grid = run_study(asked, folder, engine=workers, progress=listeners.progress)
    if json_:
        print_json(as_json(grid))
    elif not quiet:
        show_grid(grid)
    for failure in grid.failures:
        errors.print(f"[bold red]Failed:[/] {shown(str(failure))}", soft_wrap=True)
    if grid.failures:
        raise typer.Exit(FAILED)


def _plan(asked: Any, folder: Path, workers: int, *, json_: bool, quiet: bool) -> None:
    from fairmargin.studies.grid import plan_study
    from fairmargin.studies.grid_results import notes_on
    from fairmargin.studies.grid_run import samples_by_name
    from fairmargin.studies.grid_samples import listening
    from fairmargin.studies.grid_times import times_of

    with training_progress(quiet or json_) as listeners, listening(listeners.progress):
        tasks = plan_study(asked)
        notes = notes_on(asked, samples_by_name(asked, tasks))
        times = times_of(tasks, folder)
    left = sum(each.seconds for each in times if not each.done) / workers
    if json_:
        told = [
            {
                "kind": each.task.kind,
                "name": each.task.name,
                "key": each.task.key,
                "needs": list(each.task.needs),
                "done": each.done,
                "seconds": round(each.seconds, 3),
            }
            for each in times
        ]
        print_json({"tasks": told, "seconds_left": round(left, 1), "notes": list(notes)})
        return
    table = plain_table(f"{len(times):,} tasks", left=("kind", "task", "state"), wrap=("task",))(
        "kind", "task", "state", "about"
    )
    for each in times:
        state = "[green]done[/]" if each.done else "to do"
        table.add_row(each.task.kind, shown(each.task.name), state, duration(each.seconds))
    if not quiet:
        output.print(table)
        for note in notes:
            output.print(f"[yellow]Note:[/] {shown(note)}")
    output.print(shown(summary(times)))
    if any(not each.done for each in times):
        basis = "from tasks that are done" if all(e.measured for e in times if not e.done) else "a rough guess"
        together = f", {workers} at a time" if workers > 1 else ""
        output.print(f"What is left may take {duration(left)}{together}, without comparing groups at the end: {basis}.")


def summary(times: "tuple[PlannedTime, ...]") -> str:
    """How many tasks of each kind there are, and how many are done."""
    kinds, done = Counter(each.task.kind for each in times), sum(each.done for each in times)
    parts = [f"{count:,} {_NOUNS[kind]}{'' if count == 1 else 's'}" for kind, count in kinds.items()]
    return f"{', '.join(parts)}; {'all' if done == len(times) else f'{done:,} of {len(times):,}'} done already."


def show_grid(grid: "Grid") -> None:
    """One line for each network and measurement, over all seeds: who fares worst."""
    import pandas as pd

    frame = pd.read_csv(grid.folder.path / "results.csv") if grid.records else pd.DataFrame()
    if len(frame):
        _show_worst(frame)
    for note in grid.notes:
        output.print(f"[yellow]Note:[/] {shown(note)}")
    there = len({task.key for task in grid.tasks if task.key in grid.records}) - grid.done_now
    output.print(f"{grid.done_now:,} tasks were done now; {there:,} were there already.")
    output.print(f"Table: {shown(str(grid.folder.path / 'results.csv'))}", soft_wrap=True)
    output.print(f"Report: {shown(str(grid.folder.report))}", soft_wrap=True)


def _show_worst(frame: "pd.DataFrame") -> None:
    from fairmargin.core.radius import spelled_radius

    names = ["data", "network", "method", "epoch", "by", "radius", "partition"]
    heads = ("data", "network", "method", "epoch", "by", "partition", "seeds", "worst group", "σ", "robust accuracy")
    table = plain_table("Who fares worst, on average over seeds", left=(*heads[:6], "worst group"), wrap=heads[:5])(
        *heads
    )
    for place, rows in frame.groupby(names, dropna=False, sort=False):
        data, network, method, epoch, by, length, partition = map(str, place)
        radius = float(length)
        attacked = not math.isnan(radius)
        of_group = rows.groupby("group", sort=False)["robust_accuracy" if attacked else "sigma"].mean()
        worst = "–" if of_group.isna().all() else str(of_group.idxmin())
        value = of_group.min()
        cells = ("", table_percent(value, signed=False)) if attacked else (table_percent(value), "")
        said = f"{by} at {spelled_radius(radius)}" if attacked else by
        told = (data, network, method, epoch, said, partition, rows["seed"].nunique(), worst)
        table.add_row(*(shown(str(each)) for each in told), *(cells if worst != "–" else ("–", "–")))
    output.print(table)


def as_json(grid: "Grid") -> dict[str, Any]:
    """What was done, and every row of the table."""
    from fairmargin.core.codec import encode

    rows = grid.to_frame().to_dict(orient="records")
    return {
        "run": str(grid.folder.path),
        "report": str(grid.folder.report),
        "done_now": grid.done_now,
        "failures": [{"task": each.name, "reason": each.reason} for each in grid.failures],
        "notes": list(grid.notes),
        "results": [{str(name): _plain(value) for name, value in row.items()} for row in encode(rows)],
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
