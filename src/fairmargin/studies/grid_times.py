"""How long a study will take, roughly: from tasks of the same kind that are done, or else from one timed pass."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch

from fairmargin.models.torch_model import TorchClassifier
from fairmargin.studies.grid import Cell, GridTask
from fairmargin.studies.grid_folder import GridFolder, Record
from fairmargin.studies.grid_work import network_at, samples_of, work_of
from fairmargin.training.threads import threads

_ROWS, _TIMES = 64, 10


@dataclass(frozen=True, slots=True)
class PlannedTime:
    """A task, whether it is done, and how long it took or may take.

    Parameters
    ----------
    task
        The task.
    done
        Whether its result is there.
    seconds
        What it took; or a guess, on one processor.
    measured
        Whether the guess rests on tasks of the same kind, and not on one timed pass.
    """

    task: GridTask
    done: bool
    seconds: float
    measured: bool


def times_of(plan: Sequence[GridTask], out: Path | None) -> tuple[PlannedTime, ...]:
    """Every task of a plan with its time; tasks of one key are listed once."""
    folder = None if out is None else GridFolder(out)
    records = [] if folder is None else folder.records()
    passes: dict[tuple[str, str], float] = {}
    found = []
    for task in {task.key: task for task in plan}.values():
        record = None if folder is None else folder.done(task)
        if record is not None:
            found.append(PlannedTime(task, True, record.seconds, True))
            continue
        known = _seconds_of_work(task, records)
        if known is None:
            place = (task.cell.data.name, task.cell.network.name)
            if place not in passes:
                passes[place] = _seconds_of_pass(task.cell)
        cost = passes[task.cell.data.name, task.cell.network.name] if known is None else known
        found.append(PlannedTime(task, False, cost * work_of(task), known is not None))
    return tuple(found)


def _seconds_of_work(task: GridTask, records: Sequence[Record]) -> float | None:
    """What a unit of work took in finished tasks on the same data and architecture; nearer ones go first."""
    setting = f"{task.cell.data.name}, {task.cell.network.architecture}"
    alike = [r for r in records if r.kind == task.kind and r.setting == setting and r.work and r.seconds]
    by = "" if task.measure is None else f": {task.measure.section.name}"
    same = [r for r in alike if by in r.name]
    costs = [record.seconds / record.work for record in same or alike]
    return median(costs) if costs else None


def _seconds_of_pass(cell: Cell) -> float:
    """Forward and back for one sample, in a trial on some.

    With one thread, and the best of ten: on a busy machine threads wait for each other a hundred times longer than
    they work.
    """
    model: TorchClassifier = network_at(cell, None)
    x = torch.as_tensor(np.asarray(samples_of(cell).test.x[:_ROWS])).to(model.device, model.dtype)
    taken = []
    with threads(1):
        for _ in range(_TIMES):
            began = time.perf_counter()
            rows = x.clone().requires_grad_()
            model.module(rows).sum().backward()
            taken.append(time.perf_counter() - began)
    return min(taken) / len(x)
