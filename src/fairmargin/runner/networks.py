"""The models of a study, trained or not, at the epochs at which they are measured."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from fairmargin.analyses.audit import AuditResult
from fairmargin.analyses.epochs import compare_epochs
from fairmargin.analyses.training import EpochRow, TrainingCourse
from fairmargin.core.progress import Progress
from fairmargin.data.card import SPLITS
from fairmargin.data.catalog import DATASETS
from fairmargin.data.dataset import Dataset
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.engine.attempt import described
from fairmargin.engine.task import Engine
from fairmargin.errors import FairmarginError, InputError, StoreError
from fairmargin.inference.estimate import FEWEST_FOR_VERDICT
from fairmargin.models.protocol import Classifier
from fairmargin.models.reading.weights import load_weights
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.runner.attack import attack_case, attacks_of, check_attacks
from fairmargin.runner.audit import audit_case, estimators_of, searches
from fairmargin.runner.cases import Case, partitions_of
from fairmargin.runner.changes import check_examples
from fairmargin.runner.loading import load_case
from fairmargin.runner.measurer import Measurer, ShardPlan, attack_plan, estimator_plans
from fairmargin.runner.trainer import (
    PreparedTraining,
    Trained,
    about_member,
    check_names,
    finished_training,
    prepare_training,
    train_networks,
)
from fairmargin.runner.training_data import VALIDATION, DataLoader, weights_of
from fairmargin.store.plain_files import refuse_links
from fairmargin.store.shard import shard_key
from fairmargin.study.grid import Measurement, Member
from fairmargin.study.options import AttackOptions, AuditOptions
from fairmargin.study.record import StoredResult
from fairmargin.study.study import ARCHITECTURE, Study
from fairmargin.training.loop.checkpoints import BEST, FINAL, TrainingFolder

TRAININGS = "trainings"
"""Folder of a run that holds the trainings of a study of several models."""
_HELD = 2**28  # bytes of weights of models that are measured together, so that workers have enough to do

Found = tuple[StoredResult, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model of a study, with its training if it is trained by the study.

    Parameters
    ----------
    member
        The options of the model, its data, its training and its measurements.
    given
        The model with its samples; None if the model is trained.
    prepared
        The training; None if the model is measured without training.
    trained, folder
        Outcome of the training and folder of its weights; None before the training.
    """

    member: Member
    given: Case | None = None
    prepared: PreparedTraining | None = None
    trained: Trained | None = None
    folder: Path | None = None

    @property
    def samples(self) -> Case:
        """The samples on which the model is measured; the case contains no classifier if the model is trained."""
        if self.given is not None:
            return self.given
        assert self.prepared is not None
        return self.prepared.samples

    @property
    def dataset(self) -> Dataset | None:
        """The dataset on which the model is measured; None if it is not measured."""
        if self.given is not None:
            return self.given.subject.dataset if self.given.subject else None
        return None if self.prepared is None else self.prepared.audited

    @property
    def data(self) -> str:
        """Name of the section of the model's data."""
        return self.member.data_name

    @property
    def name(self) -> str:
        """Name of the section of the model."""
        return self.member.model_name

    @property
    def architecture(self) -> str:
        """Name of the model's architecture, or the file or import path that it is loaded from."""
        return self.member.model.model.removeprefix(ARCHITECTURE)

    @property
    def method(self) -> str:
        """Name of the model's training method; "as given" if it is not trained."""
        return self.member.method

    @property
    def seed(self) -> int:
        """Seed of the model's training."""
        return self.member.seed

    @property
    def begun(self) -> bool:
        """Whether the model's training began with given weights instead of random ones."""
        return self.prepared is not None and bool(self.member.model.weights)

    def history(self) -> pd.DataFrame:
        """Return one row per epoch of the training; none for a model that was not trained."""
        return pd.DataFrame() if self.folder is None else pd.read_parquet(self.folder / "history.parquet")

    def classifier(self, epoch: str = "last") -> Classifier:
        """Return the model after an epoch."""
        return self.case(epoch).measured.model

    def module(self, epoch: str = "last") -> nn.Module:
        """Return the network after an epoch."""
        classifier = self.classifier(epoch)
        assert isinstance(classifier, TorchClassifier)
        return classifier.module

    def case(self, epoch: str = "last") -> Case:
        """Return the model after an epoch with the samples on which it is measured."""
        if self.given is not None:
            return self.given
        number, path = self._place(epoch)
        return self._case(path, str(number))

    def weights(self, epoch: str = "last") -> Path:
        """Return the file with the weights after an epoch."""
        return self._place(epoch)[1]

    def stages(self, note: Callable[[str], None]) -> "Iterator[Stage]":
        """Yield the model at every epoch at which something is measured, each once.

        Parameters
        ----------
        note
            Called with a sentence about each epoch that the training did not reach.
        """
        if self.given is not None:
            case = replace(self.given, about=about_member(self.member))
            yield Stage(self, case, tuple((each, "") for each in self.member.measurements))
            return
        asked: dict[int, tuple[Path, list[tuple[Measurement, str]]]] = {}
        for measurement in self.member.measurements:
            words: dict[int, tuple[Path, list[str]]] = {}
            for word in dict.fromkeys(measurement.epochs):
                number, path = self._place(word)
                assert self.trained is not None
                last = len(self.trained.history)
                if number <= last:
                    words.setdefault(number, (path, []))[1].append(word)
                else:
                    note(f"Epoch {number} was not audited ({word}): the training ended after {last}.")
            for number, (path, names) in words.items():
                named = ", ".join(name for name in names if not name.isdigit())
                epoch = f"{number} ({named})" if named else str(number)
                asked.setdefault(number, (path, []))[1].append((measurement, epoch))
        for number, (path, measurements) in sorted(asked.items()):
            yield Stage(self, self._case(path, str(number)), tuple(measurements))

    def _place(self, word: str) -> tuple[int, Path]:
        """Return the number of an epoch and the file of its weights."""
        assert self.prepared is not None
        assert self.trained is not None
        assert self.folder is not None
        files, last = TrainingFolder(self.folder), len(self.trained.history)
        middle = max(self.prepared.job.epochs // 2, 1)
        places = {
            "first": (1, files.epoch_file(1)),
            "middle": (middle, files.epoch_file(middle)),
            "last": (last, self.folder / FINAL),
            "best": (self.trained.best_epoch, self.folder / BEST),
        }
        return places[word] if word in places else (int(word), files.epoch_file(int(word)))

    def _case(self, weights: Path, epoch: str) -> Case:
        assert self.prepared is not None
        module = self.prepared.job.network()
        try:
            load_weights(weights_of(module), weights)
        except FairmarginError:
            raise StoreError(
                f"{weights} is lost or damaged. Remove the folder {weights.parent} to train the network again."
            ) from None
        return self.prepared.case(module, epoch)


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A model at one epoch with the measurements on it.

    Parameters
    ----------
    model, case
        The model with its training; the network after the epoch with the samples.
    measurements
        Every measurement, each with the epoch and the names by which it was requested: "20 (last, best)".
    """

    model: Model
    case: Case
    measurements: tuple[tuple[Measurement, str], ...]

    def requests(self) -> Iterator[tuple["Place", list[ShardPlan]]]:
        """Yield the plans of everything that is measured on all samples, by its place."""
        for measurement, epoch in self.measurements:
            yield from self._requests(measurement, epoch)

    def _requests(self, measurement: Measurement, epoch: str) -> Iterator[tuple["Place", list[ShardPlan]]]:
        options = measurement.options
        if isinstance(options, AttackOptions):
            for name, attack in attacks_of(options).items():
                for radius in options.radius:
                    place = Place(measurement.name, name, radius, epoch)
                    yield place, [attack_plan(self.case.measured, attack, radius)]
        elif not options.precision and self.case.subject is not None:
            for name, estimator in estimators_of(options, self.case).items():
                yield Place(measurement.name, name, 0.0, epoch), estimator_plans(self.case.measured, estimator)


@dataclass(frozen=True, slots=True)
class Place:
    """Identifies a measurement on a model: the section, estimator or attack, radius of an attack, and epoch."""

    section: str
    name: str
    radius: float
    epoch: str


@dataclass(slots=True, eq=False)
class Models:
    """All models of a study, and the failures of their trainings and measurements.

    Parameters
    ----------
    several
        Whether the study has sections: then a model that fails does not end the run.
    load
        Loader of their data.
    trained
        Number of networks that were trained by `train`.
    failures
        Trainings and measurements that failed.
    """

    models: list[Model]
    several: bool
    load: DataLoader
    trained: int = 0
    failures: list["Failure"] = field(default_factory=list)

    def train(
        self,
        folder: Path,
        engine: Engine,
        progress: Progress,
        on_step: Progress | None = None,
        on_epoch: Callable[[Any], None] | None = None,
    ) -> None:
        """Train every model of the study whose training is not finished yet."""
        jobs = {}
        for place, model in enumerate(self.models):
            if model.prepared is None:
                continue
            job = model.prepared.job
            where = self.folder(folder, model)
            refuse_links([folder / TRAININGS, where])
            done = finished_training(job, where) if self.several else None
            self.models[place] = replace(model, folder=where, trained=done)
            if done is None:
                jobs[str(place)] = (job, where)
        for name, attempt in (
            train_networks(jobs, engine, progress, on_step, on_epoch, keep_going=self.several) if jobs else ()
        ):
            if attempt.failure:
                self._fail_training(int(name), attempt.failure, attempt.trace)
            else:
                self.models[int(name)] = replace(self.models[int(name)], trained=attempt.result)
                self.trained += 1
        for place, model in enumerate(self.models):
            if self.several and model.trained is not None and model.trained.diverged:
                self._fail_training(place, model.trained.stopped, "")

    def folder(self, run: Path, model: Model) -> Path:
        """Return the folder of a training, named after its sections and a hash of all that decides its weights."""
        assert model.prepared is not None
        if not self.several:
            return run
        member = model.member
        words = (member.data_name, member.model_name, member.method, str(member.seed))
        slug = "-".join("".join(c if c.isascii() and c.isalnum() else "_" for c in word)[:24] for word in words)
        return run / TRAININGS / f"{slug}-{model.prepared.job.key[:12]}"

    def _fail_training(self, place: int, failure: str, trace: str) -> None:
        model = self.models[place]
        waiting = sum(len(measurement.epochs) for measurement in model.member.measurements)
        self.failures.append(Failure(model.member.title, failure, trace, waiting))
        self.models[place] = replace(model, trained=None)

    def measured(self, measure: Measurer) -> "Iterator[tuple[Stage, dict[Place, list[ShardPlan]]]]":
        """Measure the shards of several models together; then yield each model at each epoch."""
        batch: list[tuple[Stage, dict[Place, list[ShardPlan]]]] = []
        held = 0
        for model in self.models:
            if model.given is None and model.trained is None:
                continue
            for stage in self._stages(model, measure.note):
                batch.append((stage, dict(stage.requests()) if self.several else {}))
                held += _weights_size(stage.case)
                if held > _HELD:
                    yield from self._prefetched(batch, measure)
                    batch, held = [], 0
        yield from self._prefetched(batch, measure)

    def _stages(self, model: Model, note: Callable[[str], None]) -> "Iterator[Stage]":
        """Yield the stages of a model; record a failure if weights cannot be read."""
        try:
            for stage in model.stages(note):
                yield self.with_references(stage)
        except FairmarginError as error:
            self.fail(model.member.title, error)

    def _prefetched(
        self, batch: "list[tuple[Stage, dict[Place, list[ShardPlan]]]]", measure: Measurer
    ) -> "Iterator[tuple[Stage, dict[Place, list[ShardPlan]]]]":
        requests = [plans for _, asked in batch for plans in asked.values()]
        if requests:
            measure.prefetch(requests, "measuring")
        yield from batch

    def with_references(self, stage: Stage) -> Stage:
        """Return the stage with the references of its searches."""
        audits = [m.options for m, _ in stage.measurements if isinstance(m.options, AuditOptions)]
        if any(searches(estimators_of(options, stage.case)) for options in audits):
            subject = stage.case.measured
            subject = replace(subject, references=self.load.references(subject))
            return replace(stage, case=replace(stage.case, subject=subject))
        return stage

    def fail(self, title: str, error: Exception) -> None:
        """Record why a measurement failed; raise the error in a study of one model."""
        if not self.several:
            raise error
        failure, trace = described(error)
        self.failures.append(Failure(title, failure, getattr(error, "trace", trace)))

    def results(self, measure: Measurer) -> Iterator[Found]:
        """Yield all results of the study: histories of trainings, audits, attacks and comparisons of epochs."""
        for model in self.models:
            if model.trained is not None:
                yield _course(model, model.trained)
        audits: dict[tuple[int, str, str, str], list[tuple[StoredResult, AuditResult]]] = {}
        noted: set[int] = set()
        for stage, _ in self.measured(measure):
            if stage.model.prepared is not None and id(stage.model) not in noted:
                name = stage.model.member.data_name
                measure.note(
                    *(f"{name}: {note}" if self.several else note for note in _audit_notes(stage.model.prepared))
                )
                noted.add(id(stage.model))
            for measurement, epoch in stage.measurements:
                case = replace(stage.case, about=stage.case.about.model_copy(update={"epoch": epoch}))
                options = measurement.options
                found = (
                    attack_case(options, case, measure)
                    if isinstance(options, AttackOptions)
                    else audit_case(options, case, measure)
                )
                try:
                    for stored, result in found:
                        if isinstance(result, AuditResult):
                            about = stored.about
                            key = (id(stage.model), measurement.name, about.partition, about.estimator)
                            audits.setdefault(key, []).append((stored, result))
                        yield stored, result
                except Exception as error:
                    self.fail(f"{stage.model.member.title}: {measurement.name}{_at(epoch)}", error)
        for of_epochs in audits.values():
            if of_epochs[0][0].about.epoch and (len(of_epochs) > 1 or not self.several):
                yield _compared_epochs(of_epochs)


@dataclass(frozen=True, slots=True)
class Failure:
    """A training or measurement that failed.

    Parameters
    ----------
    title, reason
        What failed, and why.
    trace
        Traceback of an unexpected error.
    waiting
        Number of measurements that need the training.
    """

    title: str
    reason: str
    trace: str = ""
    waiting: int = 0

    def __str__(self) -> str:
        also = f" ({self.waiting} measurement{'' if self.waiting == 1 else 's'} need it)" if self.waiting else ""
        return f"{self.title}{also}: {self.reason}"


def prepare_models(study: Study, load: DataLoader, case: Case | None = None) -> Models:
    """Load and check everything that a study needs before anything is trained or measured.

    Parameters
    ----------
    study, load
        The study, and the loader of its data.
    case
        Model and samples that were given in Python, in a study of one model.
    """
    several = study.grid is not None
    for member in study.members:
        for measurement in member.measurements:
            with _about(member, measurement, several=several):
                check_names(measurement.options)
    models: list[Model] = []
    built: set[tuple[str, str]] = set()
    checked: set[tuple[str, str, str]] = set()
    trained = {member.data_name for member in study.members if member.train is not None}
    for member in study.members:
        with _about(member, None, several=several):
            if member.train is not None:
                for options, field in ((member.data, "columns"), (member.data, "immutable"), (member.groups, "bins")):
                    if getattr(options, field):
                        raise InputError("does not go with a training: leave it out", field=field)
                prepared = prepare_training(member, load)
                if (member.data_name, member.model_name) not in built:
                    prepared.job.network()  # raises now, before anything is written, if it cannot be built
                    built.add((member.data_name, member.model_name))
                model = Model(member, prepared=prepared)
            else:
                model = Model(member, given=case or _given(study, member, load, trained=member.data_name in trained))
        models.append(model)
        for measurement in member.measurements:
            same = (member.data_name, member.model_name, measurement.name)
            if same not in checked:
                checked.add(same)
                with _about(member, measurement, several=several):
                    check_measurement(measurement, model)
    if several:
        _check_same_samples(models)
    return Models(models, several, load)


def _check_same_samples(models: Sequence[Model]) -> None:
    """Refuse models of the same data that would be measured on different samples."""
    first: dict[str, Model] = {}
    for model in models:
        other = first.setdefault(model.member.data_name, model)
        left, right = other.dataset, model.dataset
        if left is None or right is None or left is right or left.fingerprint == right.fingerprint:
            continue
        if other.prepared is None and model.prepared is None:
            continue  # both read the same file; models of tables may take different columns of it
        if not np.array_equal(np.asarray(left.x), np.asarray(right.x)):
            raise InputError(
                f"{other.member.title} and {model.member.title} would be measured on different samples. Name a split "
                "or a file in `audit_on`; the samples kept for validation depend on the training."
            )


def too_small(model: Model) -> Iterator[str]:
    """Yield a sentence for each partition with groups that have too few samples for a verdict."""
    member, case = model.member, model.samples
    smallest = min((each.options.smallest_group for each in member.measurements), default=0)
    smallest = smallest and max(smallest, FEWEST_FOR_VERDICT)
    for partition in partitions_of(member.groups, case.columns, case.data) if smallest else ():
        sizes = partition.sizes
        few = int((sizes < smallest).sum())
        if few:
            which = "no group reaches" if few == len(sizes) else f"{few} of {len(sizes)} groups do not reach"
            limit = member.audited.audit_per_group
            yield (
                f"{member.data_name}: By {partition.name!r} {which} {smallest} test samples, "
                f"below which there is no verdict; the smallest has {sizes.min()}."
                + (f" `audit_per_group` is {limit}." if limit else "")
            )


def check_measurement(measurement: Measurement, model: Model) -> None:
    """Refuse estimators and attacks that do not work with the model, and radii larger than the domain."""
    case = model.given or (model.prepared.initial_case() if model.prepared else None)
    assert case is not None
    options, subject = measurement.options, case.subject
    if isinstance(options, AuditOptions):
        check_examples(options, case)
    if subject is None:
        return
    if isinstance(options, AttackOptions):
        check_attacks(options, subject)
        return
    estimators = estimators_of(options, case)
    if options.precision:
        from fairmargin.runner.precision import named, precision_plan

        estimators = named(precision_plan(options, case, estimators).estimators())
    for name, estimator in estimators.items():
        subject.model_for(estimator, name)


@contextmanager
def _about(member: Member, measurement: Measurement | None, *, several: bool) -> Iterator[None]:
    """Add the title of the model to an error, in a study of several models."""
    try:
        yield
    except FairmarginError as error:
        if not several:
            raise
        title = member.title if measurement is None else f"{member.title}: {measurement.name}"
        raise (error if isinstance(error, InputError) else InputError(str(error))).at(f"{title}: ") from None


def _given(study: Study, member: Member, load: DataLoader, *, trained: bool) -> Case:
    """Load a model that is not trained, with the samples on which trained models of the same data are measured.

    Parameters
    ----------
    study, member, load
        The study, the model, and the loader of its data.
    trained
        Whether other models are trained on the data.
    """
    if study.grid is None:
        return load_case(study, load.progress)
    data, asked = member.data, member.audited
    if asked.audit_on == VALIDATION:
        raise InputError(
            "`audit_on` = validation are samples that a training keeps apart, and this model is not trained. Name a "
            "split or a file."
        )
    place = asked.audit_on or ("test" if data.data in DATASETS and (trained or not data.split) else "")
    where = {"split": place} if place in SPLITS else {"data": place, "root": ""} if place else {}
    limit = asked.audit_per_group or (0 if trained else data.per_group)
    data = data.model_copy(update={**where, "per_group": limit})
    return load_case(Study(data=data, groups=member.groups, model=member.model, audit=AuditOptions()), load.progress)


def _course(model: Model, trained: Trained) -> Found:
    """Return the history of a training as a result."""
    assert model.prepared is not None
    job = model.prepared.job
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
    about = about_member(model.member).model_copy(update={"partition": "epoch"})
    key = shard_key({"kind": "training", "about": str(about), "course": course.to_json()})
    return StoredResult(kind="training", about=about, key=key), course


def _compared_epochs(audits: Sequence[tuple[StoredResult, AuditResult]]) -> Found:
    """Return the agreement between the audits of several epochs of one training."""
    of = [stored for stored, _ in audits]
    key = shard_key({"kind": "epochs", "of": " ".join(stored.key for stored in of)})
    shards = tuple(keys for stored in of for keys in stored.shards)
    about = of[0].about.model_copy(update={"epoch": ""})
    result = compare_epochs({stored.about.epoch: result for stored, result in audits})
    return StoredResult(kind="epochs", about=about, shards=shards, key=key), result


def _audit_notes(prepared: PreparedTraining) -> Iterator[str]:
    """Yield sentences about the samples on which the epochs of a training are measured."""
    member, audited = prepared.member, prepared.audited
    assert member.train is not None
    assert audited is not None
    on = member.audited.audit_on or "test"
    where = f"{audited.name or member.data.data}, {on}" if on in (*SPLITS, VALIDATION) else on
    yield f"Epochs were audited on {where}: {len(audited):,} samples."
    yield from audited.notes
    if warning := overlap_warning(overlap(audited, prepared.job.data.training), table=len(audited.x.shape) == 2):
        yield warning
    if on in (VALIDATION, member.train.validation.strip()):
        yield "These data were looked at during the training too: of the best epoch they show too good a picture."


def _at(epoch: str) -> str:
    return f", epoch {epoch}" if epoch else ""


def _weights_size(case: Case) -> int:
    module = getattr(case.measured.model, "module", None) if case.subject else None
    return 0 if module is None else sum(part.numel() * part.element_size() for part in module.parameters())
