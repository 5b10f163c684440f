"""Measure cases as engine tasks whose results are kept under content keys and read at most once."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.attacks.catalog import describe_attack
from fairmargin.attacks.outcomes import attack_shard
from fairmargin.attacks.protocol import Attack
from fairmargin.core.arrays import Ints
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.partition import Partition
from fairmargin.core.progress import SAID, Progress, silent
from fairmargin.distances.catalog import describe
from fairmargin.distances.combine import Tightest, tightest
from fairmargin.distances.first_use import first_use
from fairmargin.distances.measure import measure_shard, shard_size, with_references
from fairmargin.distances.on_tables.search import REVISION, on_table
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.engine.attempt import Attempt, attempted
from fairmargin.engine.shared import Shared
from fairmargin.engine.task import Engine, Task
from fairmargin.errors import FairmarginError, StoreError
from fairmargin.inference.settings import AuditSettings
from fairmargin.models.protocol import Classifier
from fairmargin.runner.cases import Case, Subject
from fairmargin.store.folder import MemoryStore, Store
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
    """Description that is stored with the shards."""


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Samples that are read when they are used. Only they, not the whole data, are sent to another process."""

    x: Any
    start: int
    stop: int

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.x[self.start : self.stop], dtype=dtype)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return np.asarray, (np.asarray(self),)


@dataclass(slots=True, eq=False)
class Measurer:
    """Runs tasks in an engine and stores their results; stored results are not computed again.

    Parameters
    ----------
    run
        Stores shards and results.
    engine
        Runs the tasks.
    progress
        Called with the kind of work, the number of finished tasks and the number of all tasks.
    notes
        Sentences about the run for the reader of its report.
    trained
        Number of networks that were trained by this run.
    failed
        Failures of shards that were measured in advance, by their keys.
    earlier
        "replaced" if results of an earlier run in the folder were replaced, "completed" if adequacy was added to them.
    """

    run: Run
    engine: Engine
    progress: Progress = silent
    notes: list[str] = field(default_factory=list)
    earlier: str = ""
    trained: int = 0
    failed: dict[str, Attempt] = field(default_factory=dict)
    _store: Store | MemoryStore = field(init=False)
    _known: dict[str, Distances] = field(default_factory=dict)
    _fresh: set[str] = field(default_factory=set)
    _found: set[str] = field(default_factory=set)
    _results: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._store = self.run.store

    @property
    def measured(self) -> int:
        """Number of shards that were measured by this run."""
        return len(self._fresh)

    @property
    def reused(self) -> int:
        """Number of shards that were stored before."""
        return len(self._found)

    def note(self, *sentences: str) -> None:
        """Add sentences for the reader, each once."""
        self.notes += [each for each in dict.fromkeys(sentences) if each and each not in self.notes]

    def measure(self, case: Case, estimator: DistanceEstimator, name: str) -> Measured:
        """Measure the distances of all samples of a case."""
        at = f", epoch {case.about.epoch}" if case.about.epoch else ""
        plans = estimator_plans(case.measured, estimator)
        missing = any(self._kept(key) is None for key in _by_key([plans]))
        if missing and (sentence := first_use(estimator, case.measured.model)):
            self.progress(sentence, 0, SAID)
        return self.carry_out([plans], f"measuring {name}{at}")[0]

    def attack(self, case: Case, attack: Attack, radius: float, name: str) -> Measured:
        """Attack all samples of a case at one radius."""
        plan = attack_plan(case.measured, attack, radius)
        return self.carry_out([[plan]], f"attacking by {name} at {radius:.4g}")[0]

    def carry_out(self, requests: Sequence[Sequence[ShardPlan]], what: str) -> list[Measured]:
        """Measure the missing shards of several requests together, and return the distances of each request.

        A request has one plan per estimator; the distances of several estimators are combined to the tightest.
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
        """Measure the missing shards of several requests together; failures are raised later by `carry_out`."""
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
        """Store the result of a task."""
        self._store.write(key, distances, about)
        self._known[key] = distances
        self._fresh.add(key)
        return distances

    def keep(self, distances: Distances, parts: Mapping[str, Any], about: Mapping[str, Any]) -> Measured:
        """Store distances that were not measured by a task in one shard."""
        key = shard_key(parts)
        if self._kept(key) is None:
            self._store.write(key, distances, about)
            self._known[key] = distances
        return Measured(distances, (key,))

    def results(
        self,
        asked: Sequence[tuple[StoredResult, Sequence[Measured], Partition, AuditSettings]],
        what: str,
        complete: Callable[[Any], Any] = lambda result: result,
    ) -> list[tuple[StoredResult, Any]]:
        """Compute results as tasks, apply `complete` to each, and store them."""
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
        """Store a result unless it is stored already."""
        if stored.key not in self._results:
            self.run.keep(stored, result)
            self._results.add(stored.key)

    def _kept(self, key: str) -> Distances | None:
        """Return a stored shard; None if there is none. A damaged shard is set aside and measured again."""
        if key in self._known:
            return self._known[key]
        if not self._store.has(key):
            return None
        try:
            self._known[key] = self._store.read(key)
        except StoreError:
            self._store.set_aside(key)
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
    """Raised when the result of a failed task is needed; `trace` is the traceback of an unexpected error."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt.failure)
        self.trace = attempt.trace


def _by_key(requests: Sequence[Sequence[ShardPlan]]) -> dict[str, tuple[Task[Distances], Mapping[str, Any]]]:
    return {task.key: (task, plan.about) for plans in requests for plan in plans for task in plan.tasks}


def estimator_plans(subject: Subject, estimator: DistanceEstimator) -> list[ShardPlan]:
    """Return the plan of an estimator, or one plan for each of several estimators joined by +."""
    members = estimator.estimators if isinstance(estimator, Tightest) else (estimator,)
    return [_estimator_plan(subject, member) for member in members]


def _estimator_plan(subject: Subject, estimator: DistanceEstimator) -> ShardPlan:
    """Return one task per shard. The key covers everything on which the distances depend, and nothing else."""
    model, described = subject.model_for(estimator), describe(estimator)
    asked = shared_model(with_references(model, subject.references, estimator))
    parts = {"revision": type(estimator).revision} | {f"estimator.{name}": value for name, value in described.items()}
    parts["model"] = asked.value.fingerprint()
    if on_table(estimator, model) is not estimator:
        parts["on_table"] = REVISION
    most = getattr(type(estimator), "at_a_time", None)
    # Estimators without gradients use the module itself, never its faster copy.
    shards = shards_of(replace(subject, model=model), parts, most, searches=estimator.needs == "gradient")
    tasks = (
        Task(key, measure_shard, (asked, estimator, samples, positions, subject.seed))
        for samples, positions, key in shards
    )
    return ShardPlan(tuple(tasks), {"estimator": described, "seed": subject.seed})


def attack_plan(subject: Subject, attack: Attack, radius: float) -> ShardPlan:
    """Return the tasks that attack all samples at a radius."""
    described, model = describe_attack(attack), subject.model
    parts = {f"attack.{name}": value for name, value in described.items()}
    parts |= {"revision": type(attack).revision, "radius": radius, "model": model.fingerprint()}
    asked = shared_model(model)
    tasks = (
        Task(key, attack_shard, (asked, attack, samples, positions, radius, subject.seed, samples.value.start))
        for samples, positions, key in shards_of(subject, parts)
    )
    return ShardPlan(tuple(tasks), {"attack": described, "radius": radius, "seed": subject.seed})


def shards_of(
    subject: Subject, parts: Mapping[str, Any], most: int | None = None, *, searches: bool = True
) -> Iterator[tuple[Shared[Slice], Ints, str]]:
    """Yield the samples of each shard, the positions of their labels, and the key of the shard.

    Parameters
    ----------
    subject
        The model and the samples.
    parts
        What is measured.
    most
        Maximum size of a shard, for slow estimators that would otherwise report no progress for too long.
    searches
        Whether gradients are used. They are computed on a faster copy of the network, which changes the key.
    """
    model, dataset = subject.model, subject.dataset
    size = shard_size(model, math.prod(subject.shape), len(dataset))
    size = size if most is None else min(size, most)
    base = {"data": dataset.fingerprint, "seed": subject.seed, "shard": size, "tile": model.tile, **parts}
    base |= _last_bits(model, subject.shape, searches)
    for start in range(0, len(dataset), size):
        stop = min(start + size, len(dataset))
        key = shard_key(base | {"start": start, "stop": stop})
        samples = Shared(f"samples {dataset.fingerprint} {start} {stop}", Slice(dataset.x, start, stop))
        yield samples, subject.positions[start:stop], key


def shared_model(model: Classifier) -> Shared[Classifier]:
    """Return the model as an argument of tasks, named by all of it on which keys of shards depend."""
    return Shared(f"model {model.fingerprint()} {model.tile}", model)


def _last_bits(model: Classifier, shape: tuple[int, ...], searches: bool) -> dict[str, bool]:
    """Return the properties of the search copy that change last bits, named as in version 0.1 to keep its shards."""
    rule = getattr(model, "search_copy", None)
    if rule is None:
        return {}
    made = rule(shape) if searches else None
    return {
        "acceleration.fold": made is not None and made.fold,
        "acceleration.channels_last": made is not None and made.channels_last,
        "acceleration.compiled": False,
    }
