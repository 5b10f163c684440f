"""The second stage: tasks that measure shards of samples, run where they are not kept yet."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.core.distances import Distances
from fairmargin.data.dataset import Dataset
from fairmargin.distances.catalog import describe
from fairmargin.distances.combine import Tightest, tightest
from fairmargin.distances.measure import measure_shard, shard_size, with_references
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.engine.task import Engine, Task
from fairmargin.models.linear_network import served
from fairmargin.models.protocol import Classifier
from fairmargin.models.referenced import References
from fairmargin.store.folder import Store
from fairmargin.store.shard import shard_key
from fairmargin.studies.loading import Loaded
from fairmargin.studies.run_folder import Measurement
from fairmargin.studies.study import Study

Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much


@dataclass(frozen=True, slots=True, eq=False)
class Workshop:
    """Where tasks are run, their results kept, and someone told of it."""

    store: Store
    engine: Engine
    tell: Progress


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The tasks of one measurement, in the order of the samples, and what is kept beside their results."""

    tasks: tuple[Task[Distances], ...]
    about: Mapping[str, Any]

    @property
    def keys(self) -> tuple[str, ...]:
        """The shards that they fill."""
        return tuple(task.key for task in self.tasks)


def plan_tasks(
    model: Classifier,
    dataset: Dataset,
    positions: Ints,
    estimator: DistanceEstimator,
    seed: int,
    references: References | None = None,
) -> Iterable[Task[Distances]]:
    """One task a shard of samples. Its key says what the distances depend on, and nothing else."""
    model = served(model, estimator.needs, tuple(map(int, dataset.x.shape[1:])))
    asked = with_references(model, references, estimator)
    base = {"revision": type(estimator).revision} | {f"estimator.{k}": v for k, v in describe(estimator).items()}
    most = getattr(type(estimator), "at_a_time", None)
    # Estimators that need no gradients ask the module itself, never its copy.
    parts = base | {"model": asked.fingerprint()}
    for start, stop, key in shards_of(model, dataset, seed, parts, most, searches=estimator.needs == "gradient"):
        yield Task(key, measure_shard, (asked, estimator, Slice(dataset.x, start, stop), positions[start:stop], seed))


def shards_of(
    model: Classifier,
    dataset: Dataset,
    seed: int,
    parts: Mapping[str, Any],
    most: int | None = None,
    *,
    searches: bool = True,
) -> Iterable[tuple[int, int, str]]:
    """Where each shard of the samples starts and stops, and the key of what is measured on it; `parts` say what.

    `most`: of an estimator so slow that a usual shard would be silent, and lost when interrupted, for too long.
    `searches`: whether gradients are followed, those of the copy that a network's searches calculate with.
    """
    size = shard_size(model, math.prod(dataset.x.shape[1:]), len(dataset))
    size = size if most is None else min(size, most)
    base = {
        "data": dataset.fingerprint,
        "seed": seed,
        "shard": size,
        "tile": model.tile,
        **parts,
        **_last_bits(model, tuple(map(int, dataset.x.shape[1:])), searches),
    }
    for start in range(0, len(dataset), size):
        stop = min(start + size, len(dataset))
        yield start, stop, shard_key(base | {"start": start, "stop": stop})


def _last_bits(model: Classifier, shape: tuple[int, ...], searches: bool) -> dict[str, bool]:
    """What of the copy that searches changes last bits; in the words of version 0.1, whose shards stay usable."""
    rule = getattr(model, "search_copy", None)
    if rule is None:
        return {}
    made = rule(shape) if searches else None
    return {
        "acceleration.fold": made is not None and made.fold,
        "acceleration.channels_last": made is not None and made.channels_last,
        "acceleration.compiled": False,
    }


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Samples that are read when they are used; only they, not the whole data, travel to another process."""

    x: Any
    start: int
    stop: int

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.x[self.start : self.stop], dtype=dtype)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return np.asarray, (np.asarray(self),)


def measure_all(
    study: Study, loaded: Loaded, estimators: Mapping[str, DistanceEstimator], workshop: Workshop
) -> tuple[tuple[Measurement, ...], int, int]:
    """Every estimator's distances, or the table's; the shards measured now, and those that were there."""
    if loaded.table is not None:
        key = shard_key(
            {"table": loaded.fingerprint, "bound": loaded.table.bound.value, "norm": loaded.table.norm.value}
        )
        workshop.store.write(key, loaded.table, {"table": study.distances})
        return (Measurement("measured elsewhere", (key,)),), 0, 0
    assert loaded.model is not None
    assert loaded.dataset is not None
    assert loaded.positions is not None
    measurements, measured, reused = [], 0, 0
    for text, estimator in estimators.items():
        plans = plans_of(loaded.model, loaded.dataset, loaded.positions, estimator, study.seed, loaded.references)
        now = measure_missing(plans, workshop, f"measuring {text}")
        measured, reused = measured + now, reused + sum(len(plan.tasks) for plan in plans) - now
        measurements.append(Measurement(text, combined(plans, workshop.store)))
    return tuple(measurements), measured, reused


def plans_of(
    model: Classifier,
    dataset: Dataset,
    positions: Ints,
    estimator: DistanceEstimator,
    seed: int,
    references: References | None,
) -> list[Plan]:
    """A plan for an estimator. Of several joined by +, one for each: its shards serve any other sum."""
    members = estimator.estimators if isinstance(estimator, Tightest) else (estimator,)
    return [
        Plan(
            tuple(plan_tasks(model, dataset, positions, member, seed, references)),
            {"estimator": describe(member), "seed": seed},
        )
        for member in members
    ]


def measure_missing(plans: Sequence[Plan], workshop: Workshop, what: str) -> int:
    """Run the tasks whose shards are not there yet, keep what they return, and say how many they were."""
    every = {task.key: (task, plan.about) for plan in plans for task in plan.tasks}
    todo = [task for task, _ in every.values() if not _is_kept(workshop.store, task.key)]
    done = len(every) - len(todo)
    workshop.tell(what, done, len(every))
    for task, distances in workshop.engine.run(todo):
        workshop.store.write(task.key, distances, every[task.key][1])
        done += 1
        workshop.tell(what, done, len(every))
    return len(todo)


def combined(plans: Sequence[Plan], store: Store) -> tuple[str, ...]:
    """The shards of an estimator whose plans were carried out; of several plans, the tightest of their distances."""
    if len(plans) == 1:
        return plans[0].keys
    keys = []
    for parts in zip(*(plan.keys for plan in plans), strict=True):
        key = shard_key({"tightest": " ".join(sorted(parts))})
        if not _is_kept(store, key):
            store.write(key, tightest(*map(store.read, parts)), {"tightest": list(parts)})
        keys.append(key)
    return tuple(keys)


def _is_kept(store: Store, key: str) -> bool:
    """Whether a shard is there and sound; a damaged one is set aside, to be measured anew."""
    if not store.has(key):
        return False
    if store.verified(key):
        return True
    store.set_aside(key)
    return False
