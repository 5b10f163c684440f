"""Functions of the commands that measure: carry out a study or estimate its cost, and show the results."""

import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fairmargin.cli.console import counted, errors, output, plain_table, print_json, show_record, shown
from fairmargin.cli.progress import Listeners, measuring_progress, progress
from fairmargin.store.paths import as_path

if TYPE_CHECKING:
    from fairmargin.runner.measurer import Measurer
    from fairmargin.study.record import RunRecord
    from fairmargin.study.study import Study
    from fairmargin.training.loop.history import Epoch

FAILED = 1
"""Exit code of a run of which a part failed."""


def execute(study: "Study", out: Path, engine: str, *, plan: bool, json_: bool, quiet: bool) -> None:
    """Carry out a study into a folder, write its report and show it; or only estimate its cost."""
    if plan:
        show_plan(study, out, engine, json_=json_, quiet=quiet)
        return
    record, measure = carry_out(study, out, engine, quiet=quiet or json_)
    if json_:
        print_json(run_json(out, record, measure))
    elif not quiet:
        show_outcome(out, record, measure)
    exit_if_failed(record)


def carry_out(
    study: "Study",
    out: Path,
    engine: str,
    *,
    quiet: bool,
    bars: Callable[[bool], AbstractContextManager[Listeners]] = measuring_progress,
    on_epoch: "Callable[[Epoch], None] | None" = None,
) -> "tuple[RunRecord, Measurer]":
    """Carry out a study into a folder and write its report."""
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.report.page import write_report
    from fairmargin.runner.run import run
    from fairmargin.study.run_folder import RunFolder

    folder, command = RunFolder(as_path(out, "out")), shlex.join(["fairmargin", *sys.argv[1:]])
    with bars(quiet) as listeners:
        record, measure = run(
            study,
            folder,
            parse_engine(engine),
            command=command,
            progress=listeners.progress,
            on_step=listeners.on_step,
            on_epoch=on_epoch,
        )
        write_report(folder.report, record)
    return record, measure


def run_json(out: Path, record: "RunRecord", measure: "Measurer") -> dict[str, Any]:
    """Return a run as plain values: where it is, how many shards it measured, and all results."""
    from fairmargin.study.export import as_json
    from fairmargin.study.run_folder import RunFolder

    shards = {"measured_shards": measure.measured, "reused_shards": measure.reused}
    return {"run": str(out), "report": str(RunFolder(out).report), **shards, **as_json(record)}


def show_outcome(out: Path, record: "RunRecord", measure: "Measurer") -> None:
    """Print the results of a run, what of an earlier run was used or replaced, and where the files are."""
    from fairmargin.study.run_folder import RESULTS_TABLE, RunFolder

    show_record(record)
    if measure.earlier == "replaced":
        output.print(f"Results of an earlier run in {shown(str(out))} were replaced.", soft_wrap=True)
    if measure.earlier == "completed":
        output.print(f"Adequacy was added to the audit in {shown(str(out))}.", soft_wrap=True)
    if measure.trained:
        output.print(f"{counted(measure.trained, 'network was', 'networks were')} trained now.")
    if measure.reused:
        there, now = counted(measure.reused, "shard was", "shards were"), counted(measure.measured, "was", "were")
        output.print(f"{there} there already; {now} measured now.")
    if record.study.grid is not None:
        output.print(f"Table: {shown(str(out / RESULTS_TABLE))}", soft_wrap=True)
    output.print(f"Report: {shown(str(RunFolder(out).report))}", soft_wrap=True)


def exit_if_failed(record: "RunRecord") -> None:
    """Print what failed, and exit with 1; do nothing if all succeeded."""
    for failure in record.failures:
        errors.print(f"[bold red]Failed:[/] {shown(failure)}", soft_wrap=True)
    if record.failures:
        raise typer.Exit(FAILED)


def show_plan(study: "Study", out: Path, engine: str, *, json_: bool, quiet: bool) -> None:
    """Print the estimated cost of a study, without carrying it out."""
    from fairmargin.engine.catalog import parse_engine
    from fairmargin.runner.plan import KINDS, plan_run
    from fairmargin.study.run_folder import RunFolder

    workers = getattr(parse_engine(engine), "workers", 1) or 1
    with progress(quiet or json_) as report:
        planned, notes = plan_run(study, RunFolder(as_path(out, "out")), report)
    left = sum(each.seconds for each in planned) / workers
    if json_:
        work = {f"{kind}s": [asdict(each) for each in planned if each.kind == kind] for kind in KINDS}
        print_json({**work, "seconds_left": round(left, 1), "notes": list(notes)})
        return
    if not quiet and planned:
        heads = ("work", "samples", "parts", "done", "passes per sample", "time left", "memory", "disk")
        table = plain_table("Planned work", left=("work",), wrap=("work",))(*heads)
        for each in planned:
            table.add_row(
                shown(each.name),
                f"{each.samples:,}",
                f"{each.parts:,}",
                f"{each.done:,}",
                f"{each.passes:,.0f}",
                duration(each.seconds),
                size_text(each.memory),
                size_text(each.disk),
            )
        output.print(table)
    for note in notes if not quiet else ():
        output.print(f"[yellow]Note:[/] {shown(note)}", soft_wrap=True)
    together = f" with {workers} workers" if workers > 1 else ""
    if planned:
        done = sum(each.done == each.parts for each in planned)
        counts = (counted(n, kind, f"{kind}s") for kind in KINDS if (n := sum(e.kind == kind for e in planned)))
        output.print(f"{', '.join(counts)}; {done:,} of {len(planned):,} done already.")
    text = f"What is left may take {duration(left)}{together}: estimated from a trial on a few samples."
    output.print(text if planned else "Nothing is measured: the distances are imported.", soft_wrap=True)


def duration(seconds: float) -> str:
    """Return a time in the unit that fits.

    >>> duration(0.2), duration(75), duration(9000)
    ('under 1 s', '1 min', '2.5 h')
    """
    if seconds < 1:
        return "under 1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def size_text(count: int) -> str:
    """Return a number of bytes in the unit that fits.

    >>> size_text(900), size_text(2_500_000)
    ('1 kB', '2 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.0f} {unit}"
    return f"{max(count / 1e3, 1):.0f} kB"
