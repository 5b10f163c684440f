"""Train a network as an engine task, and make a case of it as it was at some epochs."""

import copy
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyarrow import ArrowException
from pyarrow import parquet as pq
from torch import nn

from fairmargin.analyses.audit import AuditResult
from fairmargin.analyses.epochs import compare_epochs
from fairmargin.analyses.training import EpochRow, TrainingCourse
from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.outcomes import check_radius
from fairmargin.core.catalog import split_options
from fairmargin.core.norm import Norm
from fairmargin.core.progress import Progress, silent
from fairmargin.core.suggestion import suggest
from fairmargin.data.card import SPLITS
from fairmargin.data.catalog import DATASETS
from fairmargin.data.dataset import Dataset
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.distances.catalog import parse_estimator
from fairmargin.engine.task import Engine, Task
from fairmargin.errors import InputError
from fairmargin.models.network import TILE
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.models.weights import load_weights
from fairmargin.runner.audit import audit_case
from fairmargin.runner.cases import Case, checked_case
from fairmargin.runner.measurer import Measurer
from fairmargin.runner.training_data import (
    TrainingData,
    build_network,
    groups_name,
    load_beside,
    load_training_data,
    weights_of,
)
from fairmargin.store.shard import shard_key
from fairmargin.study.options import EpochAuditOptions, TrainOptions
from fairmargin.study.record import About, StoredResult
from fairmargin.study.study import Study
from fairmargin.training.beforehand import scores_of
from fairmargin.training.catalog import METHODS, describe_method
from fairmargin.training.checkpoints import BEST, FINAL, TrainingFolder, epochs_to_keep
from fairmargin.training.history import Epoch
from fairmargin.training.loggers import logging_to
from fairmargin.training.material import class_values
from fairmargin.training.plan import WATCH, TrainingPlan
from fairmargin.training.recipe import TrainingMethod
from fairmargin.training.train import train

WORDS = ("first", "middle", "last", "best")
"""Epochs by name."""

VALIDATION = "validation"
_LOOK_EVERY = 1.0  # seconds between looks at a training in another process


@dataclass(frozen=True, slots=True, eq=False)
class TrainingJob:
    """A network to be trained: everything that `fairmargin.train` is called with.

    Parameters
    ----------
    module, data
        The network before its first step, and the samples.
    method, epochs, plan
        How it is trained.
    groups
        Name of the partition that the method speaks of.
    logs
        Names of `LOGGERS`.
    about
        Hyper-parameters that a log writes down once.
    """

    module: nn.Module
    data: TrainingData
    method: TrainingMethod
    epochs: int
    plan: TrainingPlan
    groups: str
    logs: tuple[str, ...] = ()
    about: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A training that came to its end, or to an early one; its weights are in its folder.

    Parameters
    ----------
    history
        One entry per epoch.
    best_epoch
        The epoch with the best worst group on validation data, counted from 1; 0 without such data.
    stopped
        Why it ended before the last epoch; empty if it did not.
    diverged
        Whether it ended because the loss was not finite.
    notes
        Sentences for the reader.
    """

    history: tuple[Epoch, ...]
    best_epoch: int
    stopped: str
    diverged: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTraining:
    """A study's training with its data loaded and checked.

    Parameters
    ----------
    study, job
        What is asked, and the same as objects.
    audited
        The samples on which epochs are audited; None if none are.
    """

    study: Study
    job: TrainingJob
    audited: Dataset | None

    @property
    def samples(self) -> Case:
        """The samples whose groups are kept in the run folder, without a model."""
        training = self.job.data.training
        return Case(
            model=self.study.model.model,
            data=f"{training.name or self.study.data.data}: {len(training):,} samples to train on",
            fingerprint=training.fingerprint,
            columns={} if self.audited is None else _columns(self.study, self.audited),
            partitions=(),
            groups=self.study.groups,
            seed=self.study.seed,
            notes=training.notes,
            domain=training.domain.fingerprint(),
        )


def prepare_training(study: Study, progress: Progress = silent) -> PreparedTraining:
    """Load everything that a study's training needs, and refuse what would fail after hours of training."""
    options = study.train
    assert options is not None
    method = make_method(options)
    watch, radius = watching(method, options.watch, options.watch_radius)
    plan = TrainingPlan(**options.descent(), watch=watch, watch_radius=radius, seed=study.seed, threads=options.threads)
    check_validation(options, method)
    asked = study.audit if isinstance(study.audit, EpochAuditOptions) else None
    if asked is not None:
        check_epochs(asked, options)
    data = load_training_data(study.data, study.groups, options, progress)
    _check_radii(method, plan, data.training)
    audited = None if asked is None else load_audited(study, asked, data, progress)
    module = build_network(study.model, study.data.data, data, study.seed)
    groups = groups_name(study.groups, study.data.label)
    job = TrainingJob(module, data, method, options.epochs, plan, groups, options.log, _described(study, method))
    return PreparedTraining(study, job, audited)


def make_method(options: TrainOptions) -> TrainingMethod:
    """Return the training method with its fields, spelled "field=value".

    >>> make_method(TrainOptions(method="fat", set=["weight=0.5", "radius=4/255"], epochs=1)).weight
    0.5
    """
    name, given = split_options(options.method, "fat:weight=0.5")
    for setting in options.set:
        field, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or not field:
            raise InputError("takes field=value, as in {set} weight=0.5", field="set", given=setting, others=("set",))
        if field in given:
            raise InputError(f"names the field `{field}`, which is given twice", field="set")
        given[field] = value
    made: TrainingMethod = METHODS.build(name, given)
    return made


def watching(method: TrainingMethod, attack: str = "", radius: float | None = None) -> tuple[str, float]:
    """Return the attack on validation data and its radius: the method's own if none is given.

    Methods whose radius is in no norm of an attack have none to watch; then it is 0, and accuracy alone is watched.

    >>> watching(make_method(TrainOptions(method="madry:radius=0.1,norm=l2", epochs=1)))
    ('pgd:steps=10,norm=l2', 0.1)
    """
    norm = getattr(method, "norm", None)
    text = attack or WATCH + ("" if norm is None else f",norm={norm.value}")
    same = norm is not None and parse_attack(text).norm == norm
    return text, radius if radius is not None else float(getattr(method, "radius", 0.0)) if same else 0.0


def check_validation(options: TrainOptions, method: TrainingMethod) -> None:
    """Refuse a method that needs validation data where there are none."""
    if options.share == 0 and getattr(method, "found_on", "") == VALIDATION:
        raise InputError(
            "Validation data are asked for, and {validation} 0 leaves none. Give a share such as 0.1.",
            others=("validation",),
        )


def check_epochs(asked: EpochAuditOptions, options: TrainOptions) -> None:
    """Refuse epochs that will not be kept, and estimators that do not exist."""
    kept = epochs_to_keep(options.epochs, options.keep_every)
    for word in asked.audit_epochs:
        if word.isdigit() and not 1 <= int(word) <= options.epochs:
            raise InputError(f"there is no epoch {word} among {options.epochs}.", field="audit_epochs")
        if word.isdigit() and int(word) not in kept:
            some = ", ".join(map(str, sorted(kept)))
            raise InputError(
                f"{{audit_epochs}}: the weights of epoch {word} are not kept, only those of {some} and the best. Keep "
                f"more with {{keep_every}}, for instance {{keep_every}} {word}.",
                others=("audit_epochs", "keep_every"),
            )
        if not word.isdigit() and word not in WORDS:
            raise InputError(
                f"cannot be {word!r}. {suggest(word, WORDS)} Or give the number of an epoch", field="audit_epochs"
            )
        if word == "best" and options.share == 0:
            raise InputError(
                "{audit_epochs} best is the best on validation data, and {validation} 0 leaves none.",
                others=("audit_epochs", "validation"),
            )
    if asked.audit_on == VALIDATION and options.share == 0:
        raise InputError(
            "Validation data are asked for, and {validation} 0 leaves none. Give a share such as 0.1.",
            others=("validation",),
        )
    for text in asked.estimator:
        parse_estimator(text)


def load_audited(study: Study, asked: EpochAuditOptions, data: TrainingData, progress: Progress) -> Dataset:
    """Load the samples on which epochs are audited."""
    name = groups_name(study.groups, study.data.label)
    if asked.audit_on == VALIDATION:
        assert data.validation is not None
        whole = data.validation
        return whole.sample(per_group=asked.audit_per_group, by=name) if asked.audit_per_group else whole
    if not asked.audit_on and study.data.data not in DATASETS:
        raise InputError(
            "{audit_epochs} needs data that were not trained on: name them with {audit_on}, or write {audit_on} "
            "validation.",
            others=("audit_epochs", "audit_on"),
        )
    place = asked.audit_on or "test"
    return load_beside(study.data, study.groups, place, data.training, progress, per_group=asked.audit_per_group)


def _check_radii(method: TrainingMethod, plan: TrainingPlan, training: Dataset) -> None:
    """Refuse radii that are larger than the box."""
    features = math.prod(training.x.shape[1:])
    if hasattr(method, "radius"):
        check_radius(training.domain, getattr(method, "norm", Norm.L2), method.radius, features)
    if plan.watch_radius:
        check_radius(training.domain, parse_attack(plan.watch).norm, plan.watch_radius, features)


def _described(study: Study, method: TrainingMethod) -> dict[str, Any]:
    """Return what a log writes down once."""
    named = {("method" if k == "name" else f"method.{k}"): v for k, v in describe_method(method).items()}
    plain = study.plain()
    rest = {k: v for part in ("model", "data", "groups", "train") for k, v in plain.get(part, {}).items()}
    return {
        **{k: v for k, v in rest.items() if k not in ("method", "set", "beside", "log")},
        **named,
        "seed": study.seed,
    }


# The task -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listeners:
    progress: Progress
    on_epoch: Callable[[Epoch], None]


# Called by a training in this process; in a worker of an engine nobody listens.
_listeners: ContextVar[_Listeners | None] = ContextVar("listeners", default=None)


def train_network(job: TrainingJob, folder: Path, progress: Progress | None = None) -> Trained:
    """Train a network into its folder, or continue there; a finished training is only read.

    Guarantee: the same weights in any process, since the plan fixes the number of threads.
    """
    listeners = _listeners.get()
    with logging_to(job.logs, folder, job.about or {}) as log:

        def on_epoch(epoch: Epoch) -> None:
            log(epoch)
            if listeners is not None:
                listeners.on_epoch(epoch)

        found = train(
            job.module,
            job.data.training,
            job.method,
            epochs=job.epochs,
            partition=job.groups,
            validation=job.data.validation,
            plan=job.plan,
            out=folder,
            progress=progress or (None if listeners is None else listeners.progress),
            on_epoch=on_epoch,
        )
    waited = len(found.history) - found.best_epoch if found.best_epoch else 0
    patient = bool(job.plan.patience) and waited >= job.plan.patience
    diverged = bool(found.stopped) and not patient
    return Trained(found.history, found.best_epoch, found.stopped, diverged, found.notes)


def carry_out_training(
    job: TrainingJob,
    folder: Path,
    engine: Engine,
    progress: Progress = silent,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Trained:
    """Train a network as a task of an engine.

    Parameters
    ----------
    job, folder
        What is trained, and where it is kept.
    engine
        Runs the task.
    progress
        Called with what is done, how much, of how much.
    on_epoch
        Called with each epoch that was trained by this call.
    """
    tell = on_epoch or _ignore
    heard: set[int] = set()

    def once(epoch: Epoch) -> None:
        heard.add(epoch.epoch)
        tell(epoch)

    before = _epochs_in(folder)
    token = _listeners.set(_Listeners(progress, once))
    try:
        with watched([folder], job.epochs, progress):
            ((_, trained),) = engine.run([Task("training", train_network, (job, folder))])
    finally:
        _listeners.reset(token)
    for epoch in trained.history[before:]:  # of a training in another process
        if epoch.epoch not in heard and not heard:
            tell(epoch)
    return trained


@contextmanager
def watched(folders: Sequence[Path], total: int, progress: Progress) -> Iterator[None]:
    """Tell of the epochs of trainings in other processes, by looking at what they have written."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_EVERY):
            progress("epochs of all trainings", min(sum(map(_epochs_in, folders)), total), total)

    watcher = threading.Thread(target=look, daemon=True)
    if folders:
        watcher.start()
    try:
        yield
    finally:
        over.set()
        if folders:
            watcher.join()
            progress("epochs of all trainings", total, total)


def _epochs_in(folder: Path) -> int:
    try:
        return int(pq.read_metadata(folder / "history.parquet").num_rows)
    except (OSError, ArrowException):
        return 0  # not one yet


def _ignore(_epoch: Epoch) -> None:
    return None


# What is found --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class FinishedTraining:
    """A training that came to its end, and the folder that holds its weights."""

    prepared: PreparedTraining
    trained: Trained
    folder: Path

    @property
    def samples(self) -> Case:
        """The samples whose groups are kept in the run folder, without a model."""
        case = self.prepared.samples
        return replace(case, notes=(*case.notes, *self.trained.notes))

    @property
    def audited(self) -> bool:
        """Whether samples on which epochs are audited were loaded."""
        return self.prepared.audited is not None

    @property
    def failures(self) -> tuple[str, ...]:
        """Why the training diverged, if it did."""
        return (self.trained.stopped,) if self.trained.diverged else ()

    def results(self, measure: Measurer) -> Iterator[tuple[StoredResult, Any]]:
        """Yield the course of the training, the audits of its epochs, and how far these agree."""
        yield _course(self.prepared, self.trained)
        if not self.trained.diverged:
            yield from _audits(self.prepared, self.trained, self.folder, measure)


def _audits(
    prepared: PreparedTraining, trained: Trained, folder: Path, measure: Measurer
) -> Iterator[tuple[StoredResult, Any]]:
    asked = prepared.study.audit
    if prepared.audited is None or not isinstance(asked, EpochAuditOptions):
        return
    measure.note(*_audit_notes(prepared, prepared.audited))
    audits: dict[tuple[str, str], dict[str, tuple[StoredResult, AuditResult]]] = {}
    for case in _epoch_cases(prepared, prepared.audited, asked.audit_epochs, trained, folder, measure):
        for stored, result in audit_case(asked, case, measure):
            if isinstance(result, AuditResult):
                place = (stored.about.partition, stored.about.estimator)
                audits.setdefault(place, {})[case.about.epoch] = (stored, result)
            yield stored, result
    for (partition, estimator), found in audits.items():
        of = [stored for stored, _ in found.values()]
        key = shard_key({"kind": "epochs", "of": " ".join(stored.key for stored in of)})
        shards = tuple(keys for stored in of for keys in stored.shards)
        about = About(partition=partition, estimator=estimator)
        compared = compare_epochs({epoch: result for epoch, (_, result) in found.items()})
        yield StoredResult(kind="epochs", about=about, shards=shards, key=key), compared


def _course(prepared: PreparedTraining, trained: Trained) -> tuple[StoredResult, TrainingCourse]:
    job = prepared.job
    watched_by = f"{job.plan.watch} at radius {job.plan.watch_radius:.4g}"
    is_watched = job.plan.watch_radius and job.data.validation is not None
    names = [name for name in EpochRow.__dataclass_fields__ if name != "group"]
    course = TrainingCourse(
        partition="epoch",
        groups=tuple(EpochRow(str(e.epoch), *(getattr(e, name) for name in names)) for e in trained.history),
        by=job.groups,
        best=str(trained.best_epoch or ""),
        watched=watched_by if is_watched else "",
        stopped=trained.stopped,
        classes=job.data.training.class_names,
    )
    key = shard_key({"kind": "training", "course": course.to_json()})
    return StoredResult(kind="training", about=About(partition="epoch"), key=key), course


def _audit_notes(prepared: PreparedTraining, audited: Dataset) -> Iterator[str]:
    study = prepared.study
    assert study.train is not None
    assert isinstance(study.audit, EpochAuditOptions)
    on = study.audit.audit_on or "test"
    where = f"{audited.name or study.data.data}, {on}" if on in (*SPLITS, VALIDATION) else on
    yield f"Epochs were audited on {where}: {len(audited):,} samples."
    yield from audited.notes
    yield overlap_warning(overlap(audited, prepared.job.data.training), table=len(audited.x.shape) == 2)
    if study.train.validation.strip() == on:
        yield "These data were looked at during the training too: of the best epoch they show too good a picture."


def _epoch_cases(
    prepared: PreparedTraining,
    audited: Dataset,
    asked: Sequence[str],
    trained: Trained,
    folder: Path,
    measure: Measurer,
) -> Iterator[Case]:
    """Yield the network as it was at each epoch that is asked for, each once."""
    files, last = TrainingFolder(folder), len(trained.history)
    middle = max(prepared.job.epochs // 2, 1)
    places = {
        "first": (1, files.epoch_file(1)),
        "middle": (middle, files.epoch_file(middle)),
        "last": (last, folder / FINAL),
        "best": (trained.best_epoch, folder / BEST),
    }
    found: dict[int, tuple[Path, list[str]]] = {}
    for word in dict.fromkeys(asked):
        epoch, path = places[word] if word in places else (int(word), files.epoch_file(int(word)))
        if path.exists():
            found.setdefault(epoch, (path, []))[1].append(word)
        else:
            measure.note(f"Epoch {epoch} was not audited ({word}): the training ended after {last}.")
    for epoch, (path, words) in sorted(found.items()):
        names = ", ".join(word for word in words if not word.isdigit())
        yield _case(prepared, audited, path, f"{epoch} ({names})" if names else str(epoch))


def _case(prepared: PreparedTraining, audited: Dataset, weights: Path, epoch: str) -> Case:
    """Return the network of an epoch with the audited samples."""
    study, job = prepared.study, prepared.job
    module = copy.deepcopy(job.module)
    load_weights(weights_of(module), weights)
    classes = class_values(job.data.training, scores_of(job.module, job.data.training))
    case = checked_case(
        study,
        TorchClassifier(module.eval(), classes, audited.domain, tile=study.model.tile or TILE),
        audited,
        _columns(study, audited),
        model_text=study.model.model,
        data_text=f"{audited.name or study.data.data}: {len(audited):,} samples",
    )
    # All networks are measured with the same randomness, whatever the seed of their training.
    return replace(case, about=About(epoch=epoch), seed=0)


def _columns(study: Study, dataset: Dataset) -> dict[str, Any]:
    columns: dict[str, Any] = {"class": dataset.labels, **dataset.attributes}
    if study.data.label:
        columns.setdefault(study.data.label, dataset.labels)
    return columns
