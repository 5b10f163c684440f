"""Measuring what a study asks of its networks, shard by shard; what is in the store is not measured again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fairmargin.core.distances import Distances
from fairmargin.engine.task import Task
from fairmargin.runner.measurer import ShardPlan, combined_keys
from fairmargin.studies.grid import GridTask
from fairmargin.studies.grid_samples import references_of
from fairmargin.studies.grid_state import GridState, is_kept, record_of
from fairmargin.studies.grid_work import attempted, network_at, samples_of, shard_plans, work_of

_HELD = 2**28  # bytes of weights that are measured at a time: an engine's workers start once for all of them


@dataclass(slots=True, eq=False)
class _Planned:
    """A measurement with its shards."""

    task: GridTask
    plans: list[ShardPlan]
    seconds: float = 0.0
    measured: int = 0

    @property
    def shards(self) -> list[Task[Distances]]:
        return [task for plan in self.plans for task in plan.tasks]


def measure_missing(run: GridState) -> None:
    """Measure all that has no record, on every network that could be trained."""
    todo = [task for task in run.tasks if task.measure is not None and task.key not in run.records]
    todo = [task for task in todo if not any(key in run.failures for key in task.needs)]
    total = sum(work_of(task) for task in todo)
    done = 0.0
    for planned in _batches(run, todo):
        done = _measure_some(run, planned, done, total)
    if todo:
        run.tell("measuring", round(total), round(total))


def _batches(run: GridState, todo: Sequence[GridTask]) -> Iterator[list[_Planned]]:
    """Measurements with their shards planned, as many networks at a time as fit into memory."""
    held, some = 0, []
    for cell, epoch in dict.fromkeys((task.cell, task.measure.epoch) for task in todo if task.measure):
        mine = [t for t in todo if t.cell == cell and t.measure is not None and t.measure.epoch == epoch]
        found = attempted(network_at, (cell, run.network_folder(cell), epoch))
        if found.failure:
            for task in mine:
                run.fail(task.key, found)
            continue
        references = references_of(samples_of(cell))
        for task in mine:
            planned = attempted(shard_plans, (found.result, cell, task.measure, references))
            if planned.failure:
                run.fail(task.key, planned)
            else:
                some.append(_Planned(task, planned.result))
        held += sum(part.numel() * part.element_size() for part in found.result.module.parameters())
        if held > _HELD:
            yield some
            held, some = 0, []
    if some:
        yield some


def _measure_some(run: GridState, planned: Sequence[_Planned], done: float, total: float) -> float:
    """Measure the shards that are missing, each once whoever needs it, and keep records; how much is done then."""
    needed: dict[str, list[_Planned]] = {}
    missing: dict[str, tuple[Task[Distances], ShardPlan]] = {}
    for each in planned:
        for plan in each.plans:
            for task in plan.tasks:
                needed.setdefault(task.key, []).append(each)
                if not is_kept(run.store, task.key):
                    missing[task.key] = (task, plan)
        present = sum(task.key not in missing for task in each.shards)
        done += work_of(each.task) * present / len(each.shards)
    run.tell("measuring", round(done), round(total))
    wrapped = [Task(key, attempted, (task.function, task.arguments)) for key, (task, _) in missing.items()]
    for finished, attempt in run.engine.run(wrapped):
        if not attempt.failure:
            run.store.write(finished.key, attempt.result, missing[finished.key][1].about)
        for each in needed[finished.key]:
            if attempt.failure:
                run.fail(each.task.key, attempt)
            each.seconds, each.measured = each.seconds + attempt.seconds, each.measured + 1
            done += work_of(each.task) / len(each.shards)
        run.tell("measuring", round(done), round(total))
    for each in planned:
        if each.task.key not in run.failures:
            _keep(run, each)
    return done


def _keep(run: GridState, each: _Planned) -> None:
    # What was there already took as long, as far as one knows.
    seconds = each.seconds * len(each.shards) / each.measured if each.measured else 0.0
    known = run.folder.read(each.task.key)
    record = record_of(run, each.task, seconds or (known.seconds if known else 0.0), work_of(each.task))
    run.records[each.task.key] = replace(record, shards=combined_keys(each.plans, run.store))
    run.folder.write(run.records[each.task.key])
