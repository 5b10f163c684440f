"""Carrying a study out: what is missing is trained, measured and compared; what is there is not done again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from fairmargin.core.keys import content_hash
from fairmargin.core.progress import Progress
from fairmargin.engine.local import Serial
from fairmargin.engine.task import Engine
from fairmargin.errors import FairmarginError, InputError
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.store.table import write_csv
from fairmargin.studies.grid import GridTask, plan_study
from fairmargin.studies.grid_comparing import compare_missing
from fairmargin.studies.grid_folder import RESULTS, STUDY, GridFolder
from fairmargin.studies.grid_measuring import measure_missing
from fairmargin.studies.grid_report import write_grid_report
from fairmargin.studies.grid_results import Grid, TaskFailure
from fairmargin.studies.grid_samples import GridSamples, listening, load_samples
from fairmargin.studies.grid_state import GridState, origin
from fairmargin.studies.grid_training import train_missing
from fairmargin.studies.grid_work import check_measure, network_at, origin_of, samples_of
from fairmargin.studies.study_file import StudyFile, write_study


def run_study(
    study: StudyFile,
    out: Path | str,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    compare: bool = True,
) -> Grid:
    """Do all of a study that is not done yet, into the folder `out`, and return what it found.

    Guarantee: interrupted or killed, the same call goes on and ends with the same numbers; they do not depend on the
    engine. What another study in the same folder has in common with this one is not done again. A task that fails does
    not end the others: it is in `failures`.

    Parameters
    ----------
    study
        What is asked; see `read_study`.
    out
        The folder.
    engine
        Where trainings, measurements and comparisons run; in this process if left out.
    progress
        Told of everything: (what, done, total).
    compare
        Whether every partition is compared by every measurement, into results.csv and report.html; if not, only when
        it is asked for.
    """
    tell = progress or _silent
    plan = plan_study(study)
    folder = GridFolder(Path(out))
    load_samples.cache_clear()  # files may have changed since another call
    with listening(tell):
        samples = samples_by_name(study, plan)
        _check(plan)
        origins = {task.cell.key: origin_of(task.cell) for task in plan}
    store = folder.open()
    with store.lock():
        write_study(study, folder.path / STUDY)
        unique = tuple({task.key: task for task in plan}.values())
        run = GridState(folder, store, engine or Serial(), tell, unique, origins)
        _find_done(run)
        before = len(run.records)
        train_missing(run)
        measure_missing(run)
        grid = Grid(study, folder, plan, run.records, samples, _failures(run), len(run.records) - before)
        if compare:
            grid = _compare(grid, run.engine, tell)
        folder.write_failures([f"{each}\n{each.trace}".strip() for each in grid.failures])
    return grid


def _compare(grid: Grid, engine: Engine, tell: Progress) -> Grid:
    """Write the table of all comparisons and the report; those that cannot be made are failures like others."""
    asked = list(grid.comparisons())
    failed = compare_missing([comparison for *_, comparison in asked], engine, tell)
    reasons = ((name, failed.get(comparison.key)) for name, _, comparison in asked)
    lost = (TaskFailure(name, why.failure, trace=why.trace) for name, why in reasons if why is not None)
    made = ((task, comparison) for _, task, comparison in asked if comparison.key not in failed)
    frames = [grid.rows(task, comparison.found()) for task, comparison in made]
    table = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    write_csv(grid.folder.path / RESULTS, table)
    grid = replace(grid, failures=(*grid.failures, *lost))
    tell("writing the report", 0, 1)
    write_grid_report(grid, table)
    tell("writing the report", 1, 1)
    return grid


def samples_by_name(study: StudyFile, plan: Sequence[GridTask]) -> dict[str, GridSamples]:
    """The samples of every data section that some network goes with."""
    found = {}
    for cell in {task.cell.data.name: task.cell for task in reversed(plan)}.values():
        try:
            found[cell.data.name] = samples_of(cell)
        except InputError as error:
            said = str(error).replace("--root (root=)", "`root` in that section")
            raise type(error)(f"[[data]] {cell.data.name}: {said}") from None
    return {section.name: found[section.name] for section in study.data if section.name in found}


def _check(plan: Sequence[GridTask]) -> None:
    """Refuse, before hours of training, networks that cannot be built and what cannot be measured on them."""
    models: dict[tuple[str, str], TorchClassifier] = {}
    checked = set()
    for task in plan:
        place = (task.cell.data.name, task.cell.network.name)
        try:
            if place not in models:
                models[place] = network_at(task.cell, None)
            if task.measure is None:
                continue
            what = content_hash({"place": place, **task.measure.parts(), "epoch": ""})
            if what not in checked:
                check_measure(models[place], task.cell, task.measure)
                checked.add(what)
        except FairmarginError as error:
            raise InputError(f"{task.name}: {error}") from None


def _find_done(run: GridState) -> None:
    """Take the records of what is done on the same data, and is sound."""
    for task in run.tasks:
        record = run.folder.done(task)
        if record is None or record.origin != origin(run, task):
            continue
        damaged = [key for key in record.shards if not run.store.verified(key)]
        for key in damaged:
            run.store.set_aside(key)
        if not damaged:
            run.records[task.key] = record


def _failures(run: GridState) -> tuple[TaskFailure, ...]:
    named = {task.key: task for task in run.tasks}
    waiting = {key: sum(key in task.needs for task in run.tasks) for key in run.failures}
    return tuple(
        TaskFailure(named[key].name, reason, waiting[key], run.traces[key]) for key, reason in run.failures.items()
    )


def _silent(_what: str, _done: int, _total: int) -> None:
    return None
