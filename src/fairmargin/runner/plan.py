"""The cost of a run: passes, time, memory and disk, estimated from a trial on a few samples. Nothing is stored."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from fairmargin.core.progress import Progress, silent
from fairmargin.data.samples import take_rows
from fairmargin.distances.combine import Tightest
from fairmargin.distances.measure import measure_shard, shard_size
from fairmargin.errors import StoreError
from fairmargin.runner.attack import attacks_of
from fairmargin.runner.audit import estimators_of
from fairmargin.runner.cases import Case
from fairmargin.runner.costs import passes_of, passes_of_attack
from fairmargin.runner.measurer import ShardPlan, estimator_plans
from fairmargin.runner.networks import Model, Models, Place, Stage, prepare_models, too_small
from fairmargin.runner.trainer import PreparedTraining, epochs_in, finished_training
from fairmargin.runner.training_data import DataLoader
from fairmargin.store.folder import Store
from fairmargin.study.grid import Measurement
from fairmargin.study.options import AttackOptions, AuditOptions
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import Study
from fairmargin.training.loop.checkpoints import epochs_to_keep
from fairmargin.training.loop.reproducibility import threads

KINDS = ("training", "measurement")
_ARRAYS = 16  # arrays of double precision and of the size of a shard, which an estimator uses at the same time
_TRIALS = 5  # trials, of which the shortest counts: on a busy machine threads wait for each other
_BYTES_PER_SAMPLE = 20  # of a shard on disk: a distance, a search depth, and whether the sample is correct


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """A training or measurement of a run that was not carried out yet, or not completely.

    Parameters
    ----------
    kind
        "training" or "measurement".
    name
        The training; or the estimator, or the attack with its radius.
    samples
        Number of samples.
    parts, done
        Number of epochs of a training or of shards of a measurement, and how many of them the run folder holds.
    passes
        Passes through the model per sample, forward or backward: counted in a trial for a measurement, and estimated
        from the steps of the method for an epoch.
    seconds
        Estimated time of the parts that are missing, on one processor.
    memory
        Estimated bytes that one worker needs besides the data and the libraries.
    disk
        Estimated bytes of all parts.
    """

    kind: Literal["training", "measurement"]
    name: str
    samples: int
    parts: int
    done: int
    passes: float
    seconds: float
    memory: int
    disk: int


def plan_run(
    study: Study, folder: RunFolder | None, progress: Progress = silent
) -> tuple[tuple[PlannedWork, ...], tuple[str, ...]]:
    """Return every training and measurement of a study with its estimated cost, and sentences about the data.

    Data and models are loaded, and each kind of measurement is tried on a few samples; nothing is stored.
    """
    load = DataLoader(progress)
    models = prepare_models(study, load)
    notes = [note for model in models.models if models.several for note in too_small(model)]
    if any(getattr(each.options, "precision", 0) for model in models.models for each in model.member.measurements):
        notes.append(
            "An audit to a precision measures as few samples as it takes; all of them would take what is shown."
        )
    trials: _Trials = {}
    found = [work for model in models.models for work in _planned(model, models, folder, trials, progress)]
    return tuple(found), tuple(dict.fromkeys(notes))


_Trials = dict[tuple[str, ...], tuple[float, float]]


def _planned(
    model: Model,
    models: Models,
    folder: RunFolder | None,
    trials: _Trials,
    progress: Progress,
) -> Iterator[PlannedWork]:
    """Yield the training of a model and everything that is measured on it."""
    title = f"{model.member.title}: " if models.several else ""
    if model.prepared is None:
        if model.samples.subject is not None:
            stage = models.with_references(next(model.stages(silent)))
            yield from _measurements(stage, title, _requests(stage), folder, trials, progress)
        return
    job = model.prepared.job
    where = None if folder is None else models.folder(folder.path, model)
    training = _training(model.prepared, f"{title}training", where, trials, progress)
    yield training
    if model.prepared.audited is None:
        return
    trained = None if where is None else finished_training(job, where)
    if trained is not None:
        for stage in replace(model, trained=trained, folder=where).stages(silent):
            stage = models.with_references(stage)
            yield from _measurements(stage, title, _requests(stage), folder, trials, progress)
        return
    # The network before its first step costs as much as after an epoch; no stored shard belongs to it.
    case = model.prepared.initial_case()
    for measurement in model.member.measurements:
        for epoch in measurement.epochs:
            stage = models.with_references(Stage(model, case, ((measurement, epoch),)))
            yield from _measurements(stage, title, _requests(stage), None, trials, progress)


def _requests(stage: Stage) -> Iterator[tuple[Place, Sequence[ShardPlan]]]:
    """Yield all measurements; an audit to a precision counts as if it measured all samples."""
    yield from stage.requests()
    for measurement, epoch in stage.measurements:
        options = measurement.options
        if isinstance(options, AuditOptions) and options.precision:
            for name, estimator in estimators_of(options, stage.case).items():
                yield Place(measurement.name, name, 0.0, epoch), estimator_plans(stage.case.measured, estimator)


def _training(
    prepared: PreparedTraining,
    name: str,
    where: Path | None,
    trials: _Trials,
    progress: Progress,
) -> PlannedWork:
    job, training = prepared.job, prepared.job.data.training
    kind = ("training", prepared.member.data_name, prepared.member.model_name)
    if kind not in trials:
        progress(f"trying {name}", 0, 1)
        trials[kind] = (2.0, _seconds_of_step(prepared))
    passes, seconds = trials[kind]
    steps = 1 + int(getattr(job.method, "steps", 0))
    done = 0 if where is None else epochs_in(where)
    weights = sum(part.numel() * part.element_size() for part in job.network().parameters())
    kept = len(epochs_to_keep(job.epochs, job.plan.keep_every)) + 2  # the best and the last
    return PlannedWork(
        kind="training",
        name=name,
        samples=len(training),
        parts=job.epochs,
        done=done,
        passes=passes * steps * job.epochs,
        seconds=seconds * steps * len(training) * (job.epochs - done),
        memory=6 * weights + 4 * _ARRAYS * math.prod(training.x.shape[1:]) * job.plan.batch,
        disk=(kept + 4) * weights,
    )


def _seconds_of_step(prepared: PreparedTraining) -> float:
    """Return the time of a pass forward and back for one sample: the best of several trials, on one thread."""
    module, training = prepared.job.network(), prepared.job.data.training
    parameter = next(module.parameters())
    x = torch.as_tensor(np.asarray(training.x[: min(64, len(training))])).to(parameter.device, parameter.dtype)
    taken = []
    with threads(1):
        for _ in range(_TRIALS):
            began = time.perf_counter()
            module(x).sum().backward()
            taken.append(time.perf_counter() - began)
    return min(taken) / len(x)


def _measurements(
    stage: Stage,
    title: str,
    requests: Iterable[tuple[Place, Sequence[ShardPlan]]],
    folder: RunFolder | None,
    trials: _Trials,
    progress: Progress,
) -> Iterator[PlannedWork]:
    """Yield the measurements on a model with their costs, from trials on a few samples."""
    case, member = stage.case, stage.model.member
    means = {name: estimator for m, _ in stage.measurements for name, estimator in _means(m, case)}
    for place, plans in requests:
        name = f"{place.name} at {place.radius:.4g}" if place.radius else place.name
        kind = (member.data_name, member.model_name, place.name, str(place.radius))
        if kind not in trials:
            progress(f"trying {name}", 0, 1)
            trials[kind] = _trial(case, means[place.name], place.radius)
        passes, seconds = trials[kind]
        at = f", epoch {place.epoch}" if place.epoch else ""
        yield _measurement(f"{title}{name}{at}", plans, case, folder, passes, seconds)


def _means(measurement: Measurement, case: Case) -> Iterator[tuple[str, Any]]:
    options = measurement.options
    yield from (attacks_of(options) if isinstance(options, AttackOptions) else estimators_of(options, case)).items()


def _trial(case: Case, means: Any, radius: float) -> tuple[float, float]:
    """Return the passes and seconds per sample of an estimator or attack, from a trial on one tile."""
    subject = case.measured
    model, dataset = subject.model, subject.dataset
    rows = np.arange(min(len(dataset), model.tile if model.tile > 1 else 64))
    x, y = take_rows(dataset.x, rows), subject.positions[rows]
    if radius:
        began = time.perf_counter()
        passes = passes_of_attack(model, means, x, y, radius, case.seed)
        return passes, (time.perf_counter() - began) / len(y)
    passes, seconds = 0.0, 0.0
    for member in means.estimators if isinstance(means, Tightest) else (means,):
        asked = subject.given_to(member)
        some = slice(0, getattr(type(member), "at_a_time", None))
        unseen = bool(model.domain.columns) or member.needs == "trees"  # passes are not counted, so they are not run
        if unseen:
            measure_shard(asked, member, x[:1], y[:1], case.seed)  # compiles the search
        began = time.perf_counter()
        if unseen:
            measure_shard(asked, member, x[some], y[some], case.seed)
        passes += passes_of(asked, member, x[some], y[some], case.seed)
        seconds += (time.perf_counter() - began) / len(y[some])
    return passes, seconds


def _measurement(
    name: str, plans: Sequence[ShardPlan], case: Case, folder: RunFolder | None, passes: float, seconds: float
) -> PlannedWork:
    dataset = case.measured.dataset
    features = math.prod(case.measured.shape)
    keys = [task.key for plan in plans for task in plan.tasks]
    done = sum(map(_kept(folder), keys))
    size = min(shard_size(case.measured.model, features, len(dataset)), len(dataset))
    return PlannedWork(
        kind="measurement",
        name=name,
        samples=len(dataset),
        parts=len(keys),
        done=done,
        passes=passes,
        seconds=seconds * len(dataset) * (1 - done / max(len(keys), 1)),
        memory=8 * _ARRAYS * features * size,
        disk=_BYTES_PER_SAMPLE * len(dataset) * len(plans),
    )


def _kept(folder: RunFolder | None) -> Callable[[str], bool]:
    """Return a function from the key of a shard to whether the folder holds it."""
    try:
        return (lambda key: False) if folder is None else Store.open(folder.path, create=False).has
    except StoreError:
        return lambda key: False
