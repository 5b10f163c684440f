"""A study while it is carried out: what is done, what failed, and where it is kept."""

from dataclasses import dataclass, field
from pathlib import Path

from fairmargin.core.keys import content_hash
from fairmargin.core.progress import Progress
from fairmargin.engine.task import Engine
from fairmargin.store.folder import Store
from fairmargin.studies.grid import Cell, GridTask
from fairmargin.studies.grid_folder import GridFolder, Record
from fairmargin.studies.grid_work import Attempt, samples_of


@dataclass(slots=True, eq=False)
class GridState:
    """A study while it is carried out.

    Parameters
    ----------
    tasks
        One of each key.
    origins
        Of each network, by key: a hash of the content that it comes from.
    records
        Of what is done, by key.
    failures, traces
        Of what could not be, by key.
    """

    folder: GridFolder
    store: Store
    engine: Engine
    tell: Progress
    tasks: tuple[GridTask, ...]
    origins: dict[str, str]
    records: dict[str, Record] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)

    def fail(self, key: str, attempt: Attempt) -> None:
        """Remember why a task could not be done."""
        self.failures[key] = attempt.failure
        self.traces[key] = attempt.trace

    def network_folder(self, cell: Cell) -> Path | None:
        """Where a network lies that is there; None for one that comes with its weights."""
        return None if cell.settings is None else self.folder.training(cell, self.origins[cell.key])


def origin(run: GridState, task: GridTask) -> str:
    """A hash of the content that a task's result rests on."""
    if task.measure is None:
        return run.origins[task.cell.key]
    test = samples_of(task.cell).test
    return content_hash({"network": run.origins[task.cell.key], "x": test.fingerprint, "in": test.domain.fingerprint()})


def record_of(run: GridState, task: GridTask, seconds: float, work: float) -> Record:
    """What is kept of a task that is done."""
    setting = f"{task.cell.data.name}, {task.cell.network.architecture}"
    return Record(task.kind, task.name, task.key, origin(run, task), round(seconds, 3), work, setting)


def is_kept(store: Store, key: str) -> bool:
    """Whether a shard is there and sound; a damaged one is set aside, to be measured anew."""
    if not store.has(key):
        return False
    if store.verified(key):
        return True
    store.set_aside(key)
    return False
