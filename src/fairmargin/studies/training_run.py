"""A training from names to weights: load, keep validation data apart, train, audit some epochs, and keep everything.

RUN/training_run.json   what was asked, by which command, on which data
RUN/training.json, history.parquet, *.safetensors   see `TrainingFolder`
RUN/audits.json, audits.csv, distances/             see `epoch_audits`, where asked
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairmargin.attacks.catalog import parse_attack
from fairmargin.attacks.outcomes import check_radius
from fairmargin.core.codec import encode
from fairmargin.core.norm import Norm
from fairmargin.core.progress import Progress
from fairmargin.data.catalog import DATASETS
from fairmargin.engine.task import Engine
from fairmargin.errors import StoreError
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.received import read_plain
from fairmargin.studies.epoch_audits import EpochAudits, audit_epochs, check_question, load_audited
from fairmargin.studies.training_data import TrainingData, build_network, load_training_data
from fairmargin.studies.training_study import VALIDATION, TrainingStudy
from fairmargin.study.record import versions
from fairmargin.training.catalog import describe_method
from fairmargin.training.checkpoints import FINAL, LATEST, TrainingFolder
from fairmargin.training.history import Epoch
from fairmargin.training.loggers import logging_to
from fairmargin.training.train import TrainingResult, train

RUN = "training_run.json"


@dataclass(frozen=True, slots=True, eq=False)
class FinishedTraining:
    """A training that came to its end, or to an early one.

    Parameters
    ----------
    result
        The network, its history, and why it stopped if it did.
    trained_now
        Epochs of this call; the others were there already.
    diverged
        Whether the loss was no longer a number.
    audits
        Of some epochs, where asked.
    notes
        Sentences about the data and the training.
    classes
        The names of the classes in the order of the network's scores, where they have names.
    """

    result: TrainingResult
    trained_now: int
    diverged: bool
    audits: EpochAudits | None = None
    notes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def weights(self) -> Path:
        """Of the network after the last epoch."""
        assert self.result.folder is not None
        return self.result.folder / FINAL


def run_training(
    study: TrainingStudy,
    out: Path,
    engine: Engine,
    *,
    command: str = "",
    progress: Progress | None = None,
    on_step: Progress | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> FinishedTraining:
    """All of a training, into the folder `out`; one that was interrupted goes on, a finished one is only read.

    Parameters
    ----------
    study
        What is asked.
    out
        The folder.
    engine
        Where distances of audited epochs are measured.
    command
        Kept beside the results.
    progress
        Told of loading and measuring: (what, done, total).
    on_step
        Told of each step of the training, in changing words.
    on_epoch
        Called with each epoch finished now.
    """
    tell = progress or _silent
    check_question(study)
    data = load_training_data(study, tell)
    _check_radii(study, data)
    audited = load_audited(study, data, tell) if study.question.epochs else None
    network = build_network(study, data)
    _claim(study, out)
    finished_now: list[Epoch] = []
    with logging_to(study.logs, out, _settings(study)) as log:

        def hear(epoch: Epoch) -> None:
            finished_now.append(epoch)
            log(epoch)
            if on_epoch is not None:
                on_epoch(epoch)

        _write_run(study, data, out, command)
        result = train(
            network,
            data.training,
            study.method,
            epochs=study.epochs,
            partition=study.groups,
            validation=data.validation,
            plan=study.plan,
            out=out,
            progress=on_step,
            on_epoch=hear,
        )
    found = None
    diverged = _diverged(result, study)
    if audited is not None and not diverged:
        found = audit_epochs(study, data, audited, result, engine, tell)
    training = data.training
    notes = (*training.notes, *result.notes)
    return FinishedTraining(result, len(finished_now), diverged, found, notes, training.class_names)


def audit_arguments(study: TrainingStudy, out: Path, classes: tuple[str, ...] = ()) -> list[str]:
    """The command that audits the trained network, in words; where no test data are known, a place for them."""
    subject = study.subject
    named = subject.data in DATASETS
    found = ["fairmargin", "audit", "--model", subject.model, "--weights", str(out / FINAL)]
    found += _given("--mean", subject.mean) + _given("--std", subject.std)
    if named:
        found += ["--data", subject.data, *_given("--root", subject.root), "--split", "test"]
        found += _given("--task", subject.task)
    else:
        on = study.question.on
        found += ["--data", on if on and on != VALIDATION else "TEST_DATA", *_given("--label", subject.label)]
        for name in ("features", "scale", "bounds", "labels", "image_column"):
            found += _given("--" + name.replace("_", "-"), getattr(subject, name))
        # Always: the audited data may lack a class, and the outputs would be taken for others.
        found += _given("--class-names", subject.class_names or classes)
    found += _given("--size", subject.size)
    found += ["--cross", ",".join(subject.cross[0])] if subject.cross else ["--group", study.groups]
    return [*found, "--out", str(out / "audit")]


def _given(option: str, value: Any) -> list[str]:
    if not value:
        return []
    return [option, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]


def _check_radii(study: TrainingStudy, data: TrainingData) -> None:
    """Refuse radii that are larger than the box."""
    training, method = data.training, study.method
    features = math.prod(training.x.shape[1:])
    if hasattr(method, "radius"):
        check_radius(training.domain, getattr(method, "norm", Norm.L2), method.radius, features)
    if study.plan.watch_radius:
        check_radius(training.domain, parse_attack(study.plan.watch).norm, study.plan.watch_radius, features)


def _diverged(result: TrainingResult, study: TrainingStudy) -> bool:
    """Whether it stopped because the loss was no number, and not because nothing got better."""
    waited = len(result.history) - result.best_epoch if result.best_epoch else 0
    return bool(result.stopped) and not (study.plan.patience and waited >= study.plan.patience)


def _claim(study: TrainingStudy, out: Path) -> None:
    """A folder belongs to one training; what another differs in is said."""
    TrainingFolder(out).make()
    if (out / "store.json").exists():
        raise StoreError(f"{out} holds an audit. Choose another --out for the training.")
    if not (out / LATEST).exists():
        return
    try:
        old = json.loads(read_plain(out / RUN))["asked"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # the training itself knows whether it is the same
    new = json.loads(_as_json(study.deciding()))
    differing = [name for name in new if name in old and old[name] != new[name]]
    if differing:
        said = ", ".join(f"{name} ({old[name]!r}, now {new[name]!r})" for name in differing)
        raise StoreError(f"{out} holds another training: it differs in {said}. Choose another --out.")


def _write_run(study: TrainingStudy, data: TrainingData, out: Path, command: str) -> None:
    validation = data.validation
    content = {
        "command": command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": json.loads(_as_json(study.deciding())),
        "weights": study.subject.weights,
        "data": {"samples": len(data.training), "fingerprint": data.training.fingerprint},
        "validation": validation and {"samples": len(validation), "fingerprint": validation.fingerprint},
        "classes": list(data.training.class_names),
        "audited": asdict(study.question),
        "versions": versions(),
        "notes": list(data.training.notes),
    }
    atomic_write_text(out / RUN, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _settings(study: TrainingStudy) -> dict[str, Any]:
    """What a log writes down once."""
    method = {("method" if k == "name" else f"method.{k}"): v for k, v in describe_method(study.method).items()}
    rest = {name: value for name, value in study.deciding().items() if name != "method" and value not in ("", (), 0)}
    return {**method, **rest}


def _as_json(content: dict[str, object]) -> str:
    return json.dumps(encode(content), ensure_ascii=False)


def _silent(_what: str, _done: int, _total: int) -> None:
    return None
