"""Train networks as engine tasks."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyarrow import ArrowException
from pyarrow import parquet as pq
from torch import nn

from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.outcomes import check_radius
from fairmargin.core.catalog import split_options
from fairmargin.core.keys import content_hash
from fairmargin.core.norm import Norm
from fairmargin.core.progress import Progress, silent
from fairmargin.core.suggestion import suggest
from fairmargin.data.dataset import Dataset
from fairmargin.distances.catalog import parse_estimator
from fairmargin.engine.attempt import Attempt, attempted
from fairmargin.engine.shared import Shared
from fairmargin.engine.task import Engine, Task, shares_files
from fairmargin.errors import InputError
from fairmargin.models.module_fingerprint import module_fingerprint
from fairmargin.models.network import TILE
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.runner.cases import Case, checked_case
from fairmargin.runner.training_data import (
    VALIDATION,
    DataLoader,
    TrainingData,
    build_network,
    groups_name,
    method_groups,
)
from fairmargin.store.atomic import TEMPORARY, atomic_write_bytes
from fairmargin.study.grid import Member
from fairmargin.study.options import AttackOptions, AuditedData, AuditOptions, DataOptions, ModelOptions, TrainOptions
from fairmargin.study.record import About
from fairmargin.training.catalog import METHODS, describe_method
from fairmargin.training.loop.checkpoints import FINAL, TrainingFolder, epochs_to_keep
from fairmargin.training.loop.checks import scores_of
from fairmargin.training.loop.data import class_values
from fairmargin.training.loop.history import Epoch
from fairmargin.training.loop.loggers import check_loggers, logging_to
from fairmargin.training.plan import WATCH, TrainingPlan
from fairmargin.training.recipe import TrainingMethod
from fairmargin.training.train import train

WORDS = ("first", "middle", "last", "best")
"""Epochs by name."""

_LOOK_EVERY = 1.0  # seconds between looks at a training in another process


@dataclass(frozen=True, slots=True, eq=False)
class TrainingJob:
    """The training of a network: all arguments of `fairmargin.train`.

    Parameters
    ----------
    model, place
        Options of the network, and the name of its data.
    data
        The samples.
    method, epochs, plan
        How the network is trained.
    groups
        Name of the partition whose groups the method treats.
    logs
        Names of `LOGGERS`.
    about
        Hyper-parameters, which logs record once.
    """

    model: ModelOptions
    place: str
    data: TrainingData
    method: TrainingMethod
    epochs: int
    plan: TrainingPlan
    groups: str
    logs: tuple[str, ...] = ()
    about: Mapping[str, Any] | None = None

    def network(self) -> nn.Module:
        """Return the network before its first step."""
        return build_network(self.model, self.place, self.data, self.plan.seed)

    @property
    def key(self) -> str:
        """Hash of everything that decides the weights, the content of the samples included."""
        return content_hash(
            {
                "samples": self.samples_key,
                "network": module_fingerprint(self.network()),
                "method": describe_method(self.method),
                "epochs": self.epochs,
                "plan": self.plan.model_dump(mode="json"),
            }
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Trainings of a study have the same samples, which are sent to a worker once.
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return _received_job, (values | {"data": Shared(f"training {self.samples_key}", self.data)},)

    @property
    def samples_key(self) -> str:
        """Hash of the samples and of their groups."""
        digest = sha256()
        for dataset in filter(None, (self.data.training, self.data.validation)):
            digest.update(f"{dataset.fingerprint} {dataset.domain.fingerprint()}".encode())
            digest.update(dataset.partition(self.groups).membership.tobytes())
        return digest.hexdigest()


def _received_job(values: Mapping[str, Any]) -> TrainingJob:
    return TrainingJob(**{**values, "data": values["data"].value})


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A training that has ended, possibly early; its weights are in its folder.

    Parameters
    ----------
    history
        One entry per epoch.
    best_epoch
        The epoch with the best worst group on validation data, counted from 1; 0 without such data.
    stopped
        Why the training ended before the last epoch; empty if it did not.
    diverged
        Whether the training ended because the loss was not finite.
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
    """The training of a member of a study, with its data loaded and checked.

    Parameters
    ----------
    member, job
        The options of the training, and the training itself.
    audited
        The samples on which epochs are measured; None if none are measured.
    """

    member: Member
    job: TrainingJob
    audited: Dataset | None

    @property
    def samples(self) -> Case:
        """The samples whose groups are kept in the run folder, without a model."""
        training, member = self.job.data.training, self.member
        return Case(
            model=member.model.model,
            data=f"{training.name or member.data.data}: {len(training):,} samples to train on",
            fingerprint=training.fingerprint,
            columns={} if self.audited is None else columns_of(member.data, self.audited),
            partitions=(),
            groups=member.groups,
            seed=member.seed,
            notes=training.notes,
            domain=training.domain.fingerprint(),
        )

    def initial_case(self) -> Case:
        """Return the network before its first step with the audited samples."""
        assert self.audited is not None
        return self.case(self.job.network(), "")

    def case(self, module: nn.Module, epoch: str) -> Case:
        """Return the network of an epoch with the audited samples."""
        member, audited, training = self.member, self.audited, self.job.data.training
        assert audited is not None
        classes = class_values(training, scores_of(module, training))
        # All networks are measured with the same randomness, whatever the seed of their training.
        case = checked_case(
            member.groups,
            TorchClassifier(module.eval(), classes, audited.domain, tile=member.model.tile or TILE),
            audited,
            columns_of(member.data, audited),
            model_text=member.model.model,
            data_text=f"{audited.name or member.data.data}: {len(audited):,} samples",
        )
        return replace(case, about=about_member(member).model_copy(update={"epoch": epoch}))


def about_member(member: Member) -> About:
    """Return what distinguishes the results of a member; nothing in a study of one model."""
    seed = member.seed if member.model_name and member.train is not None else None
    return About(data=member.data_name, model=member.model_name, method=member.method, seed=seed)


def prepare_training(member: Member, load: DataLoader) -> PreparedTraining:
    """Load everything that a training needs, and refuse options that would fail only after the training."""
    options = member.train
    assert options is not None
    method = make_method(options)
    watch, radius = watching(method, options.watch, options.watch_radius)
    plan = TrainingPlan(
        **options.descent(), watch=watch, watch_radius=radius, seed=member.seed, threads=options.threads
    )
    check_validation(options, method)
    for measurement in member.measurements:
        check_epochs(measurement.epochs, member.audited, options)
        check_names(measurement.options)
    data = load.training(member)
    _check_radii(method, plan, data.training)
    audited = load.audited(member) if member.measurements else None
    job = TrainingJob(
        member.model,
        member.data.data,
        data,
        method,
        options.epochs,
        plan,
        groups_name(method_groups(member.groups, options), member.data.label),
        options.log,
        _described(member, method),
    )
    return PreparedTraining(member, job, audited)


def check_names(options: AuditOptions | AttackOptions) -> None:
    """Refuse unknown estimators and attacks before anything is loaded."""
    if isinstance(options, AttackOptions):
        for text in options.attack:
            parse_attack(text)
    else:
        for text in options.estimator:
            parse_estimator(text)


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

    The radius is 0, and only accuracy is watched, if the radius of the method is in another norm than the attack.

    >>> watching(make_method(TrainOptions(method="madry:radius=0.1,norm=l2", epochs=1)))
    ('pgd:steps=10,norm=l2', 0.1)
    """
    norm = getattr(method, "norm", None)
    text = attack or WATCH + ("" if norm is None else f",norm={norm.value}")
    same = norm is not None and parse_attack(text).norm == norm
    return text, radius if radius is not None else float(getattr(method, "radius", 0.0)) if same else 0.0


def check_validation(options: TrainOptions, method: TrainingMethod) -> None:
    """Refuse a method that needs validation data if there are none."""
    if options.share == 0 and getattr(method, "found_on", "") == VALIDATION:
        raise InputError(
            "Validation data are asked for, and {validation} 0 leaves none. Give a share such as 0.1.",
            others=("validation",),
        )


def check_epochs(epochs: Sequence[str], audited: AuditedData, options: TrainOptions) -> None:
    """Refuse epochs whose weights will not be kept."""
    kept = epochs_to_keep(options.epochs, options.keep_every)
    for word in epochs:
        if word.isdigit() and not 1 <= int(word) <= options.epochs:
            raise InputError(f"names epoch {word}, and there are {options.epochs}", field="audit_epochs")
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
    if audited.audit_on == VALIDATION and options.share == 0:
        raise InputError(
            "Validation data are asked for, and {validation} 0 leaves none. Give a share such as 0.1.",
            others=("validation",),
        )


def _check_radii(method: TrainingMethod, plan: TrainingPlan, training: Dataset) -> None:
    """Refuse radii that are larger than the box."""
    features = math.prod(training.x.shape[1:])
    if hasattr(method, "radius"):
        check_radius(training.domain, getattr(method, "norm", Norm.L2), method.radius, features)
    if plan.watch_radius:
        check_radius(training.domain, parse_attack(plan.watch).norm, plan.watch_radius, features)


def _described(member: Member, method: TrainingMethod) -> dict[str, Any]:
    """Return the hyper-parameters that logs record once."""
    named = {("method" if k == "name" else f"method.{k}"): v for k, v in describe_method(method).items()}
    parts = (member.model, member.data, member.groups, member.train)
    rest = {k: v for part in parts if part is not None for k, v in part.plain().items()}
    return {
        **{k: v for k, v in rest.items() if k not in ("method", "set", "beside", "log")},
        **named,
        "seed": member.seed,
    }


def columns_of(data: DataOptions, dataset: Dataset) -> dict[str, Any]:
    """Return the columns by which samples can be grouped."""
    columns: dict[str, Any] = {"class": dataset.labels, **dataset.attributes}
    if data.label:
        columns.setdefault(data.label, dataset.labels)
    return columns


# The task -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Listeners:
    progress: Progress
    on_epoch: Callable[[Epoch], None]


# Called by a training in this process; workers of an engine have no listeners.
_listeners: ContextVar[_Listeners | None] = ContextVar("listeners", default=None)


def train_network(
    job: TrainingJob, folder: Path, progress: Progress | None = None, network: nn.Module | None = None
) -> Trained:
    """Train a network into its folder, or continue a training there; a finished training is only read.

    `network` is the network before its first step, if it was made already.

    Guarantee: the same weights in any process, since the plan fixes the number of threads.
    """
    listeners = _listeners.get()
    reported = None if listeners is None else listeners.progress
    with logging_to(job.logs, folder, job.about or {}) as log:

        def on_epoch(epoch: Epoch) -> None:
            log(epoch)
            if listeners is not None:
                listeners.on_epoch(epoch)

        found = train(
            job.network() if network is None else network,
            job.data.training,
            job.method,
            epochs=job.epochs,
            partition=job.groups,
            validation=job.data.validation,
            plan=job.plan,
            out=folder,
            progress=progress or reported,
            on_epoch=on_epoch,
        )
    return _trained(job, found.history, found.best_epoch, found.stopped, found.notes)


def _train_elsewhere(
    job: TrainingJob, start: tuple[TorchClassifier, Mapping[str, bytes]]
) -> tuple[Trained, dict[str, bytes]]:
    """Train a network on what may be another machine; also return the files of its folder."""
    network, files = start
    with TemporaryDirectory(prefix="fairmargin-training-") as name:
        folder = Path(name)
        for path, content in files.items():
            (folder / path).write_bytes(content)
        trained = train_network(replace(job, logs=()), folder, network=network.module)
        return trained, files_of(folder)


@dataclass(frozen=True, slots=True)
class _Start:
    """The network before its first step, and the files of its folder, both read when the task is sent.

    The network is not made on the other machine, because a file of the user that defines it may not be there.
    """

    job: TrainingJob
    folder: Path

    def __reduce__(self) -> tuple[Any, ...]:
        training, network = self.job.data.training, self.job.network()
        made = TorchClassifier(network, class_values(training, scores_of(network, training)), training.domain)
        return tuple, ((made, files_of(self.folder)),)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files in the folder of a training; they hold no pickles."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return {path.name: path.read_bytes() for path in found if path.is_file() and path.suffix != TEMPORARY}


def _keep_files(job: TrainingJob, folder: Path, trained: Trained, files: Mapping[str, bytes], before: int) -> None:
    """Write the files of a training on another machine, and log the epochs that it trained."""
    TrainingFolder(folder).make()
    # The weights at the end come last, since a folder that holds them is finished.
    for path in sorted(files, key=lambda path: path == FINAL):
        atomic_write_bytes(folder / Path(path).name, files[path])
    with logging_to(job.logs, folder, job.about or {}) as log:
        for epoch in trained.history[before:]:
            log(epoch)


def _trained(job: TrainingJob, history: tuple[Epoch, ...], best: int, stopped: str, notes: Sequence[str]) -> Trained:
    waited = len(history) - best if best else 0
    patient = bool(job.plan.patience) and waited >= job.plan.patience
    return Trained(history, best, stopped, bool(stopped) and not patient, tuple(notes))


def finished_training(job: TrainingJob, folder: Path) -> Trained | None:
    """Return the training in a folder if it is finished; None otherwise."""
    found = TrainingFolder(folder).finished()
    if found is None:
        return None
    history, about = found
    return _trained(job, history, int(about["best_epoch"]), str(about["stopped"]), about["notes"])


def train_networks(
    jobs: Mapping[str, tuple[TrainingJob, Path]],
    engine: Engine,
    progress: Progress = silent,
    on_step: Progress | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    *,
    keep_going: bool = False,
) -> Iterator[tuple[str, Attempt]]:
    """Train networks as tasks of an engine; yield the name of each with its `Trained`.

    Parameters
    ----------
    jobs
        Trainings and their folders, by name.
    engine
        Runs the tasks.
    progress
        Called with the kind of work, the number of finished epochs and the number of all epochs.
    on_step
        Called in the same way with the steps of trainings in this process, with a text that changes; by default
        `progress`.
    on_epoch
        Called with each epoch that this call has trained.
    keep_going
        Whether the others are trained if a training fails, which is then yielded with the reason.
    """
    report = on_epoch or silent
    reported: set[int] = set()

    def once(epoch: Epoch) -> None:
        reported.add(epoch.epoch)
        report(epoch)

    before = {name: epochs_in(folder) for name, (_, folder) in jobs.items()}
    folders, total = [folder for _, folder in jobs.values()], sum(job.epochs for job, _ in jobs.values())
    call, here = attempted if keep_going else _succeeded, shares_files(engine)
    for job, _ in jobs.values() if not here else ():
        check_loggers(job.logs)
    tasks = [
        Task(name, call, (train_network, (job, folder)) if here else (_train_elsewhere, (job, _Start(job, folder))))
        for name, (job, folder) in jobs.items()
    ]
    token = _listeners.set(_Listeners(on_step or progress, once))
    try:
        with watched(folders, total, progress):
            for task, attempt in engine.run(tasks):
                if not here and not attempt.failure:
                    trained, files = attempt.result
                    _keep_files(*jobs[task.key], trained, files, before[task.key])
                    attempt = replace(attempt, result=trained)
                if not attempt.failure and not reported:  # the network was trained in another process
                    for epoch in attempt.result.history[before[task.key] :]:
                        report(epoch)
                reported.clear()
                yield task.key, attempt
    finally:
        _listeners.reset(token)


def _succeeded(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Attempt:
    return Attempt(function(*arguments))


@contextmanager
def watched(folders: Sequence[Path], total: int, progress: Progress) -> Iterator[None]:
    """Report the progress of trainings in other processes by reading their histories at intervals."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_EVERY):
            progress("epochs of all trainings", min(sum(map(epochs_in, folders)), total), total)

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


def epochs_in(folder: Path) -> int:
    """Return how many epochs of a training a folder holds."""
    try:
        return int(pq.read_metadata(folder / "history.parquet").num_rows)
    except (OSError, ArrowException):
        return 0  # no epoch is finished yet
