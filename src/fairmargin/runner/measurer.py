"""Measure cases as engine tasks whose results are kept under content keys and read at most once."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.attacks.catalog import describe_attack
from fairmargin.attacks.outcomes import attack_shard
from fairmargin.attacks.protocol import Attack
from fairmargin.core.arrays import Ints
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.partition import Partition
from fairmargin.core.progress import Progress, silent
from fairmargin.data.dataset import Dataset
from fairmargin.distances.catalog import describe
from fairmargin.distances.combine import Tightest, tightest
from fairmargin.distances.measure import measure_shard, shard_size, with_references
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.engine.attempt import Attempt, attempted
from fairmargin.engine.task import Engine, Task
from fairmargin.errors import FairmarginError, StoreError
from fairmargin.inference.settings import AuditSettings
from fairmargin.models.layers.linear_network import served
from fairmargin.models.protocol import Classifier
from fairmargin.models.references import References
from fairmargin.runner.cases import Case
from fairmargin.store.shard import shard_key
from fairmargin.study.compute import compute, result_key
from fairmargin.study.record import StoredResult
from fairmargin.study.run_folder import Run


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Distances, and the keys of the shards that hold them in the order of the samples."""

    distances: Distances
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ShardPlan:
    """The tasks that measure samples by one estimator, in the order of the samples."""

    tasks: tuple[Task[Distances], ...]
    about: Mapping[str, Any]
    """Kept beside the shards."""


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


@dataclass(slots=True, eq=False)
class Measurer:
    """Runs tasks in an engine and keeps their results; whatever is kept already is not computed again.

    Parameters
    ----------
    run
        Keeps shards and results.
    engine
        Runs the tasks.
    progress
        Called with what is done, how much, of how much.
    notes
        Sentences for the reader that came up on the way.
    trained
        Number of networks that were trained by this run.
    failed
        Why shards could not be measured in advance, by their keys.
    earlier
        What became of the results of an earlier run in the folder: "replaced" if some were, "completed" if adequacy was
        added to them.
    """

    run: Run
    engine: Engine
    progress: Progress = silent
    notes: list[str] = field(default_factory=list)
    earlier: str = ""
    trained: int = 0
    failed: dict[str, Attempt] = field(default_factory=dict)
    _known: dict[str, Distances] = field(default_factory=dict)
    _fresh: set[str] = field(default_factory=set)
    _found: set[str] = field(default_factory=set)
    _results: set[str] = field(default_factory=set)

    @property
    def measured(self) -> int:
        """Number of shards that were measured by this run."""
        return len(self._fresh)

    @property
    def reused(self) -> int:
        """Number of shards that were there before."""
        return len(self._found)

    def note(self, *sentences: str) -> None:
        """Add sentences for the reader, each once."""
        self.notes += [each for each in dict.fromkeys(sentences) if each and each not in self.notes]

    def measure(self, case: Case, estimator: DistanceEstimator, name: str) -> Measured:
        """Measure the distances of all samples of a case."""
        at = f", epoch {case.about.epoch}" if case.about.epoch else ""
        return self.carry_out([estimator_plans(case, estimator)], f"measuring {name}{at}")[0]

    def attack(self, case: Case, attack: Attack, radius: float, name: str) -> Measured:
        """Attack all samples of a case at one radius."""
        return self.carry_out([[attack_plan(case, attack, radius)]], f"attacking by {name} at {radius:.4g}")[0]

    def carry_out(self, requests: Sequence[Sequence[ShardPlan]], what: str) -> list[Measured]:
        """Measure what is missing of several requests in one go, and return what each asked for.

        A request is a plan per estimator; the distances of several estimators are combined to the tightest.
        """
        every = _by_key(requests)
        for key in every:
            if key in self.failed:
                raise TaskError(self.failed[key])
        found = {key: kept for key in every if (kept := self._kept(key)) is not None}
        self._found |= found.keys() - self._fresh
        todo = [task for key, (task, _) in every.items() if key not in found]
        self.progress(what, len(found), len(every))
        for task, distances in self.engine.run(todo):
            found[task.key] = self._measured(task.key, distances, every[task.key][1])
            self.progress(what, len(found), len(every))
        return [self._combined(plans, found) for plans in requests]

    def prefetch(self, requests: Sequence[Sequence[ShardPlan]], what: str) -> None:
        """Measure what is missing of several requests in one go; `carry_out` raises what fails here."""
        every = _by_key(requests)
        todo = [task for key, (task, _) in every.items() if self._kept(key) is None]
        done = len(every) - len(todo)
        self.progress(what, done, len(every))
        for task, attempt in self.engine.run([Task(t.key, attempted, (t.function, t.arguments)) for t in todo]):
            if attempt.failure:
                self.failed[task.key] = attempt
            else:
                self._measured(task.key, attempt.result, every[task.key][1])
            done += 1
            self.progress(what, done, len(every))

    def _measured(self, key: str, distances: Distances, about: Mapping[str, Any]) -> Distances:
        """Keep the result of a task."""
        self.run.store.write(key, distances, about)
        self._known[key] = distances
        self._fresh.add(key)
        return distances

    def keep(self, distances: Distances, parts: Mapping[str, Any], about: Mapping[str, Any]) -> Measured:
        """Keep distances that were not measured by a task, in one shard."""
        key = shard_key(parts)
        if self._kept(key) is None:
            self.run.store.write(key, distances, about)
            self._known[key] = distances
        return Measured(distances, (key,))

    def results(
        self,
        asked: Sequence[tuple[StoredResult, Sequence[Measured], Partition, AuditSettings]],
        what: str,
        complete: Callable[[Any], Any] = lambda result: result,
    ) -> list[tuple[StoredResult, Any]]:
        """Compute results as tasks, complete them by what only the runner knows, and keep them."""
        named = []
        for stored, measured, partition, settings in asked:
            shards = tuple(each.keys for each in measured)
            about = stored.model_copy(update={"shards": shards})
            key = result_key(about, partition, settings)
            named.append((about.model_copy(update={"key": key}), measured, partition, settings))
        found = {stored.key: kept for stored, *_ in named if (kept := self.run.kept(stored)) is not None}
        todo = {
            stored.key: Task(stored.key, compute, (stored, [m.distances for m in measured], partition, settings))
            for stored, measured, partition, settings in named
            if stored.key not in found
        }
        by_key = {stored.key: stored for stored, *_ in named}
        self._results.update(found)
        self.progress(what, len(found), len(by_key))
        for task, result in self.engine.run(list(todo.values())):
            found[task.key] = complete(result)
            self.keep_result(by_key[task.key], found[task.key])
            self.progress(what, len(found), len(by_key))
        return [(stored, found[stored.key]) for stored, *_ in named]

    def keep_result(self, stored: StoredResult, result: Any) -> None:
        """Keep a result, unless it is kept already."""
        if stored.key not in self._results:
            self.run.keep(stored, result)
            self._results.add(stored.key)

    def _kept(self, key: str) -> Distances | None:
        """Return a shard that is there and sound; a damaged one is set aside, to be measured again."""
        if key in self._known:
            return self._known[key]
        if not self.run.store.has(key):
            return None
        try:
            self._known[key] = self.run.store.read(key)
        except StoreError:
            self.run.store.set_aside(key)
            return None
        return self._known[key]

    def _combined(self, plans: Sequence[ShardPlan], found: Mapping[str, Distances]) -> Measured:
        keys, parts = [], []
        for tasks in zip(*(plan.tasks for plan in plans), strict=True):
            if len(tasks) == 1:
                keys.append(tasks[0].key)
                parts.append(found[tasks[0].key])
                continue
            members = [task.key for task in tasks]
            best = tightest(*(found[key] for key in members))
            kept = self.keep(best, {"tightest": " ".join(sorted(members))}, {"tightest": members})
            keys += kept.keys
            parts.append(best)
        return Measured(concatenate(parts), tuple(keys))


class TaskError(FairmarginError):
    """Raised where the result of a task is needed that failed before; `trace` says where an unexpected error arose."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt.failure)
        self.trace = attempt.trace


def _by_key(requests: Sequence[Sequence[ShardPlan]]) -> dict[str, tuple[Task[Distances], Mapping[str, Any]]]:
    return {task.key: (task, plan.about) for plans in requests for plan in plans for task in plan.tasks}


def estimator_plans(
    case: Case, estimator: DistanceEstimator, dataset: Dataset | None = None, positions: Ints | None = None
) -> list[ShardPlan]:
    """Return a plan for an estimator; of several joined by +, one for each, whose shards serve any other sum.

    Parameters
    ----------
    case
        The model, and the samples unless `dataset` and `positions` name others.
    estimator
        How distances are measured.
    dataset, positions
        Other samples of the same kind, and the positions of their labels.
    """
    model, everything, labels = case.measured
    samples, labels = (everything, labels) if dataset is None or positions is None else (dataset, positions)
    return plans_of(model, samples, labels, estimator, case.seed, case.references)


def plans_of(
    model: Classifier,
    dataset: Dataset,
    positions: Ints,
    estimator: DistanceEstimator,
    seed: int,
    references: References | None,
) -> list[ShardPlan]:
    """Return a plan per estimator: one, or the members of several joined by +."""
    members = estimator.estimators if isinstance(estimator, Tightest) else (estimator,)
    return [
        ShardPlan(
            tuple(_measuring_tasks(model, dataset, positions, member, seed, references)),
            {"estimator": describe(member), "seed": seed},
        )
        for member in members
    ]


def _measuring_tasks(
    model: Classifier,
    dataset: Dataset,
    positions: Ints,
    estimator: DistanceEstimator,
    seed: int,
    references: References | None,
) -> Iterable[Task[Distances]]:
    """Yield one task per shard of samples. Its key names everything on which the distances depend, and nothing else."""
    model = served(model, estimator.needs, tuple(map(int, dataset.x.shape[1:])))
    asked = with_references(model, references, estimator)
    parts = {"revision": type(estimator).revision} | {f"estimator.{k}": v for k, v in describe(estimator).items()}
    most = getattr(type(estimator), "at_a_time", None)
    parts |= {"model": asked.fingerprint()}
    # Estimators that need no gradients ask the module itself, never its copy.
    for start, stop, key in shards_of(model, dataset, seed, parts, most, searches=estimator.needs == "gradient"):
        yield Task(key, measure_shard, (asked, estimator, Slice(dataset.x, start, stop), positions[start:stop], seed))


def attack_plan(case: Case, attack: Attack, radius: float) -> ShardPlan:
    """Return the tasks that attack all samples of a case at a radius."""
    return attack_plan_of(*case.measured, attack, radius, case.seed)


def attack_plan_of(
    model: Classifier, dataset: Dataset, positions: Ints, attack: Attack, radius: float, seed: int
) -> ShardPlan:
    """Return the tasks that attack samples at a radius."""
    subject = served(model, attack.needs, tuple(map(int, dataset.x.shape[1:])))
    parts = {f"attack.{name}": value for name, value in describe_attack(attack).items()}
    parts |= {"revision": type(attack).revision, "radius": radius, "model": subject.fingerprint()}
    tasks = []
    for start, stop, key in shards_of(subject, dataset, seed, parts):
        some = Slice(dataset.x, start, stop)
        tasks.append(Task(key, attack_shard, (subject, attack, some, positions[start:stop], radius, seed, start)))
    return ShardPlan(tuple(tasks), {"attack": describe_attack(attack), "radius": radius, "seed": seed})


def shards_of(
    model: Classifier,
    dataset: Dataset,
    seed: int,
    parts: Mapping[str, Any],
    most: int | None = None,
    *,
    searches: bool = True,
) -> Iterable[tuple[int, int, str]]:
    """Yield where each shard of the samples starts and stops, and its key.

    Parameters
    ----------
    model, dataset, seed
        What is measured on.
    parts
        What is measured.
    most
        Largest shard of an estimator so slow that a usual one would show no progress for too long.
    searches
        Whether gradients are followed: those of the copy that a network's searches calculate with.
    """
    size = shard_size(model, math.prod(dataset.x.shape[1:]), len(dataset))
    size = size if most is None else min(size, most)
    base = {"data": dataset.fingerprint, "seed": seed, "shard": size, "tile": model.tile, **parts}
    base |= _last_bits(model, tuple(map(int, dataset.x.shape[1:])), searches)
    for start in range(0, len(dataset), size):
        stop = min(start + size, len(dataset))
        yield start, stop, shard_key(base | {"start": start, "stop": stop})


def _last_bits(model: Classifier, shape: tuple[int, ...], searches: bool) -> dict[str, bool]:
    """Return what of the search copy changes last bits; in the words of version 0.1, whose shards stay usable."""
    rule = getattr(model, "search_copy", None)
    if rule is None:
        return {}
    made = rule(shape) if searches else None
    return {
        "acceleration.fold": made is not None and made.fold,
        "acceleration.channels_last": made is not None and made.channels_last,
        "acceleration.compiled": False,
    }
