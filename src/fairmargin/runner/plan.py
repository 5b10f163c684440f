"""What a run would cost: passes, time, memory and disk, from a trial on a few samples. Nothing is kept."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairmargin.core.progress import Progress, silent
from fairmargin.data.samples import take_rows
from fairmargin.distances.combine import Tightest
from fairmargin.distances.measure import shard_size, with_references
from fairmargin.errors import StoreError
from fairmargin.models.linear_network import served
from fairmargin.runner.attack import attacks_of
from fairmargin.runner.audit import estimators_of, searches
from fairmargin.runner.cases import Case, load_case
from fairmargin.runner.costs import passes_of, passes_of_attack
from fairmargin.runner.measurer import ShardPlan, attack_plan, estimator_plans
from fairmargin.store.folder import Store
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import Study

_ARRAYS = 16  # of double precision and a shard's size, which an estimator works on at a time
_BYTES_PER_SAMPLE = 20  # of a shard on disk: a distance, a search depth, and whether the sample is correct


@dataclass(frozen=True, slots=True)
class PlannedMeasurement:
    """A measurement of a run that was not carried out yet, or not completely.

    Parameters
    ----------
    name
        The estimator, or the attack with its radius.
    samples
        Number of samples.
    shards, done
        Number of shards, and how many of them the run folder holds.
    passes
        Passes through the model per sample, forward or backward, counted in the trial.
    seconds
        Estimated time of the shards that are missing, on one processor.
    memory
        Estimated bytes that one worker needs besides the data and the libraries.
    disk
        Estimated bytes of all shards.
    """

    name: str
    samples: int
    shards: int
    done: int
    passes: float
    seconds: float
    memory: int
    disk: int


def plan_run(study: Study, folder: RunFolder | None, progress: Progress = silent) -> tuple[PlannedMeasurement, ...]:
    """Return every measurement of a study with its estimated cost.

    Data and model are loaded, and each measurement is tried on a few samples; results are neither kept nor compared.
    """
    case = load_case(study, progress)
    if case.classifier is None:
        return ()
    return tuple(_planned(study, case, folder, progress))


def _planned(study: Study, case: Case, folder: RunFolder | None, progress: Progress) -> Iterator[PlannedMeasurement]:
    model, dataset, positions = case.measured
    rows = np.arange(min(len(dataset), model.tile if model.tile > 1 else 64))
    x, y = take_rows(dataset.x, rows), positions[rows]
    shape = tuple(map(int, dataset.x.shape[1:]))
    if study.audit is not None:
        estimators = estimators_of(study.audit, case)
        if searches(estimators):
            case = case.with_references(progress)
        for name, estimator in estimators.items():
            progress(f"trying {name}", 0, 1)
            passes, seconds = 0.0, 0.0
            for member in estimator.estimators if isinstance(estimator, Tightest) else (estimator,):
                asked = with_references(served(model, member.needs, shape), case.references, member)
                some = slice(0, getattr(type(member), "at_a_time", None))
                began = time.perf_counter()
                passes += passes_of(asked, member, x[some], y[some], case.seed)
                seconds += (time.perf_counter() - began) / len(y[some])
            yield _measurement(name, estimator_plans(case, estimator), case, folder, passes, seconds)
    if study.attack is not None:
        attacks = attacks_of(study.attack, case)
        for name, attack in attacks.items():
            for radius in study.attack.radius:
                title = f"{name} at {radius:.4g}"
                progress(f"trying {title}", 0, 1)
                began = time.perf_counter()
                passes = passes_of_attack(model, attack, x, y, radius, case.seed)
                seconds = (time.perf_counter() - began) / len(y)
                yield _measurement(title, [attack_plan(case, attack, radius)], case, folder, passes, seconds)


def _measurement(
    name: str, plans: Sequence[ShardPlan], case: Case, folder: RunFolder | None, passes: float, seconds: float
) -> PlannedMeasurement:
    model, dataset, _ = case.measured
    features = math.prod(dataset.x.shape[1:])
    keys = [task.key for plan in plans for task in plan.tasks]
    done = sum(map(_kept(folder), keys))
    size = min(shard_size(model, features, len(dataset)), len(dataset))
    return PlannedMeasurement(
        name=name,
        samples=len(dataset),
        shards=len(keys),
        done=done,
        passes=passes,
        seconds=seconds * len(dataset) * (1 - done / max(len(keys), 1)),
        memory=8 * _ARRAYS * features * size,
        disk=_BYTES_PER_SAMPLE * len(dataset) * len(plans),
    )


def _kept(folder: RunFolder | None) -> Callable[[str], bool]:
    """Return a function that says whether the folder holds a shard."""
    try:
        return (lambda key: False) if folder is None else Store.open(folder.path, create=False).has
    except StoreError:
        return lambda key: False
