"""Training the networks of a study that are not there yet."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyarrow import ArrowException
from pyarrow import parquet as pq

from fairmargin.core.progress import Progress
from fairmargin.engine.local import Serial
from fairmargin.engine.task import Task
from fairmargin.studies.grid import TRAIN, GridTask
from fairmargin.studies.grid_samples import listening
from fairmargin.studies.grid_state import GridState, record_of
from fairmargin.studies.grid_work import attempted, train_cell, work_of

_LOOK_EVERY = 1.0  # seconds between looks at trainings in other processes


def train_missing(run: GridState) -> None:
    """Train every network that has no record, each into its folder; one that was begun goes on."""
    todo = {task.key: task for task in run.tasks if task.kind == TRAIN and task.key not in run.records}
    places = {key: run.folder.training(task.cell, run.origins[key]) for key, task in todo.items()}
    tasks = [Task(key, attempted, (train_cell, (task.cell, places[key]))) for key, task in todo.items()]
    alone = isinstance(run.engine, Serial)
    what, done = "networks to train", 0
    if tasks:
        run.tell(what, 0, len(tasks))
    with listening(run.tell) if alone else _watching(list(places.values()), list(todo.values()), run.tell):
        for finished, attempt in run.engine.run(tasks):
            task, done = todo[finished.key], done + 1
            if attempt.failure:
                run.fail(task.key, attempt)
            else:
                epochs, best = attempt.result
                record = record_of(run, task, attempt.seconds, work_of(task))
                run.records[task.key] = replace(record, folder=places[task.key].name, epochs=epochs, best_epoch=best)
                run.folder.write(run.records[task.key])
            run.tell(what, done, len(tasks))


@contextmanager
def _watching(folders: Sequence[Path], tasks: Sequence[GridTask], tell: Progress) -> Iterator[None]:
    """Tell of the epochs of trainings in other processes, by looking at what they have written."""
    total = sum(task.cell.settings.epochs for task in tasks if task.cell.settings is not None)
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_EVERY):
            tell("epochs of all trainings", min(sum(map(_epochs_in, folders)), total), total)

    watcher = threading.Thread(target=look, daemon=True)
    if tasks:
        watcher.start()
    try:
        yield
    finally:
        over.set()
        if tasks:
            watcher.join()
            tell("epochs of all trainings", total, total)


def _epochs_in(folder: Path) -> int:
    try:
        return int(pq.read_metadata(folder / "history.parquet").num_rows)
    except (OSError, ArrowException):
        return 0  # not one yet
