"""Is the bias there from the start? Some epochs of a training audited on data that were not trained on.

RUN/distances/   distances of every audited epoch, written as they are measured
RUN/audits.json  the audits, and how far the epochs agree; audits.csv is the same as a table
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from fairmargin.core.suggestion import suggest
from fairmargin.data.card import SPLITS
from fairmargin.data.catalog import DATASETS
from fairmargin.data.dataset import Dataset
from fairmargin.data.overlap import overlap, overlap_warning
from fairmargin.distances.catalog import parse_estimator
from fairmargin.distances.measure import check_samples
from fairmargin.engine.task import Engine
from fairmargin.errors import InputError
from fairmargin.metrics.agreement import SignAgreement, sign_agreement
from fairmargin.metrics.audit import audit
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.results import AuditResult, encode
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.models.weights import load_weights
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.table import write_csv
from fairmargin.studies.loading import Loaded
from fairmargin.studies.measuring import Progress, Workshop, measure_all
from fairmargin.studies.preparing import check_served, referenced
from fairmargin.studies.run_folder import RunFolder
from fairmargin.studies.training_data import TrainingData, load_beside, weights_of
from fairmargin.studies.training_study import VALIDATION, TrainingStudy
from fairmargin.training.checkpoints import BEST, FINAL, TrainingFolder, epochs_to_keep
from fairmargin.training.train import TrainingResult

WORDS = ("first", "middle", "last", "best")
_DEFAULT = "plumb"


@dataclass(frozen=True, slots=True, eq=False)
class EpochAudit:
    """An epoch as it was audited.

    Parameters
    ----------
    epoch
        Counted from 1.
    words
        What it was asked as: "first", "best", or its number.
    estimator
        As options spell it.
    result
        Groups with intervals.
    """

    epoch: int
    words: tuple[str, ...]
    estimator: str
    result: AuditResult

    @property
    def title(self) -> str:
        """For the head of a column: "1 (first)"."""
        names = [word for word in self.words if not word.isdigit()]
        return f"{self.epoch} ({', '.join(names)})" if names else str(self.epoch)


@dataclass(frozen=True, slots=True)
class EpochAgreement:
    """How far two epochs agree on who is less robust, by one estimator."""

    estimator: str
    earlier: int
    later: int
    found: SignAgreement


@dataclass(frozen=True, slots=True, eq=False)
class EpochAudits:
    """All that was found on the epochs of a training, and on which data."""

    on: str
    audits: tuple[EpochAudit, ...]
    agreements: tuple[EpochAgreement, ...]
    notes: tuple[str, ...] = ()


def check_question(study: TrainingStudy) -> None:
    """Refuse, before hours of training, epochs that will not be kept and estimators that there are not."""
    asked = study.question
    kept = epochs_to_keep(study.epochs, study.plan.keep_every)
    for word in asked.epochs:
        if word.isdigit():
            if int(word) > study.epochs or int(word) < 1:
                raise InputError(f"--audit-epochs: there is no epoch {word} among {study.epochs}.")
            if int(word) not in kept:
                some = ", ".join(map(str, sorted(kept)))
                raise InputError(
                    f"--audit-epochs: the weights of epoch {word} are not kept, only those of {some} and the best. "
                    f"Keep more with --keep-every, for instance --keep-every {word}."
                )
        elif word not in WORDS:
            raise InputError(f"--audit-epochs: what is {word!r}? {suggest(word, WORDS)} Or give an epoch's number.")
        elif word == "best" and study.share == 0:
            raise InputError("--audit-epochs best is the best on validation data, and --validation 0 leaves none.")
    if not asked.epochs and asked != type(asked)():
        raise InputError("What to audit is said, but not when: add --audit-epochs, for instance first,middle,last.")
    for text in asked.estimators:
        parse_estimator(text)
    AuditPlan(confidence=asked.confidence, resamples=asked.resamples)


def load_audited(study: TrainingStudy, data: TrainingData, tell: Progress) -> Dataset:
    """The data that epochs are audited on, loaded before the training so that a wrong name is said at once."""
    asked = study.question
    if asked.on == VALIDATION:
        assert data.validation is not None
        whole = data.validation
        return whole.sample(per_group=asked.per_group, by=study.groups) if asked.per_group else whole
    if not asked.on and study.subject.data not in DATASETS:
        raise InputError(
            "--audit-epochs needs data that were not trained on: name them with --audit-on, or write --audit-on "
            "validation."
        )
    return load_beside(study, asked.on or "test", data.training, tell, per_group=asked.per_group)


def audit_epochs(
    study: TrainingStudy, data: TrainingData, audited: Dataset, result: TrainingResult, engine: Engine, tell: Progress
) -> EpochAudits:
    """Measure and compare groups at every epoch asked for; what is there already is not measured again."""
    assert result.folder is not None
    asked, partition = study.question, audited.partition(study.groups)
    folder = RunFolder(result.folder / "distances")
    store = folder.store()
    chosen, notes = _epochs(asked.epochs, result)
    warning = overlap_warning(overlap(audited, data.training), table=len(audited.x.shape) == 2)
    notes = [*audited.notes, *([warning] if warning else []), *notes]
    if study.validation.strip() == (asked.on or "test"):
        notes.append(
            "These data were looked at during the training too: of the best epoch they show too good a picture."
        )
    plan = AuditPlan(confidence=asked.confidence, resamples=asked.resamples)
    estimators = {text: parse_estimator(text) for text in asked.estimators or (_DEFAULT,)}
    audits = []
    with store.lock():
        for (epoch, path), words in chosen.items():
            loaded = _loaded(study, audited, result, path)
            for text, estimator in estimators.items():
                check_served(loaded, text, estimator)
            loaded = referenced(loaded, list(estimators.values()), tell)
            workshop = Workshop(store, engine, _prefixed(f"epoch {epoch}: ", tell))
            measurements, _, _ = measure_all(study.subject, loaded, estimators, workshop)
            for measurement in measurements:
                found = audit(folder.distances(measurement), partition, plan)
                audits.append(EpochAudit(epoch, tuple(words), measurement.estimator, found))
    on = asked.on or "test"
    where = f"{audited.name or study.subject.data}, {on}" if on in (*SPLITS, VALIDATION) else on
    done = EpochAudits(where, tuple(audits), agreements_of(audits), tuple(dict.fromkeys(notes)))
    write_epoch_audits(result.folder, done)
    return done


def agreements_of(audits: Sequence[EpochAudit]) -> tuple[EpochAgreement, ...]:
    """Do the signs of σ at two epochs agree? Every pair of epochs, for each estimator."""
    found = []
    for estimator in dict.fromkeys(each.estimator for each in audits):
        same = sorted((each for each in audits if each.estimator == estimator), key=lambda each: each.epoch)
        for earlier, later in combinations(same, 2):
            signs = sign_agreement(*({row.group: row.sigma.value for row in e.result} for e in (earlier, later)))
            found.append(EpochAgreement(estimator, earlier.epoch, later.epoch, signs))
    return tuple(found)


def write_epoch_audits(folder: Path, done: EpochAudits) -> None:
    """Keep the audits, and the same as a table."""
    content: Mapping[str, Any] = {
        "on": done.on,
        "notes": list(done.notes),
        "audits": [
            {
                "epoch": each.epoch,
                "words": list(each.words),
                "estimator": each.estimator,
                "result": json.loads(each.result.to_json()),
            }
            for each in done.audits
        ],
        "agreement": encode(done.agreements),
    }
    atomic_write_text(folder / "audits.json", json.dumps(content, ensure_ascii=False, allow_nan=False))
    frames = [
        each.result.to_frame().assign(
            epoch=each.epoch, words=", ".join(each.words), estimator=each.estimator, norm=each.result.norm.value
        )
        for each in done.audits
    ]
    write_csv(folder / "audits.csv", pd.concat(frames, ignore_index=True))


def _epochs(asked: Sequence[str], result: TrainingResult) -> tuple[dict[tuple[int, Path], list[str]], list[str]]:
    """Each epoch asked for, once, with the file of its weights and all that it was asked as; and what is not there."""
    assert result.folder is not None
    folder, last = TrainingFolder(result.folder), len(result.history)
    middle = max(_planned(result) // 2, 1)
    places = {
        "first": (1, folder.epoch_file(1)),
        "middle": (middle, folder.epoch_file(middle)),
        "last": (last, folder.path / FINAL),
        "best": (result.best_epoch, folder.path / BEST),
    }
    found: dict[int, tuple[Path, list[str]]] = {}
    notes = []
    for word in dict.fromkeys(asked):
        epoch, path = places[word] if word in places else (int(word), folder.epoch_file(int(word)))
        if not path.exists():
            notes.append(f"Epoch {epoch} was not audited ({word}): the training ended after {last}.")
            continue
        found.setdefault(epoch, (path, []))[1].append(word)
    return {(epoch, path): words for epoch, (path, words) in sorted(found.items())}, notes


def _planned(result: TrainingResult) -> int:
    assert result.folder is not None
    about = json.loads((result.folder / "training.json").read_text(encoding="utf-8"))
    return int(about["epochs"])


def _loaded(study: TrainingStudy, audited: Dataset, result: TrainingResult, weights: Path) -> Loaded:
    """The network of an epoch and the data, as measuring takes them."""
    module = copy.deepcopy(result.module)
    load_weights(weights_of(module, study.subject), weights)
    model: TorchClassifier = replace(result.classifier, module=module.eval(), domain=audited.domain)
    checked = check_samples(model, audited.x, audited.y)
    return Loaded(
        samples=len(audited),
        columns={},
        about_data=audited.name,
        about_model=study.subject.model,
        fingerprint=audited.fingerprint,
        notes=checked.notes,
        domain=audited.domain.fingerprint(),
        dataset=audited,
        model=checked.model,
        positions=checked.positions,
    )


def _prefixed(prefix: str, tell: Progress) -> Progress:
    return lambda what, done, total: tell(prefix + what, done, total)
