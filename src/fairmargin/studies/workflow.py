"""The stages of an audit, one after another: load, plan, measure, audit, report.

Each stage leaves its result in the run folder. A run that was interrupted, or killed, goes on where it stopped and ends
with the same numbers.
"""

import math
import platform
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from fairmargin.distances.catalog import in_options, parse_estimator
from fairmargin.distances.measure import check_estimator
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.engine.task import Engine
from fairmargin.errors import FairmarginError, StoreError
from fairmargin.metrics.audit import audit
from fairmargin.metrics.results import AuditResult
from fairmargin.models.referenced import drawn, fingerprint_of
from fairmargin.report.page import Provenance, Section, render
from fairmargin.store.atomic import atomic_write_text
from fairmargin.studies.adequacy import check_adequacy
from fairmargin.studies.bracketing import brackets_of
from fairmargin.studies.loading import Loaded, audit_plan, kept_columns, load_study, partitions_of
from fairmargin.studies.measuring import Progress, Workshop, measure_all
from fairmargin.studies.run_folder import Manifest, Measurement, RunFolder, StoredAdequacy, StoredAudit, StoredBracket
from fairmargin.studies.study import Study, differing
from fairmargin.version import __version__

_PASSES = 20  # of a tile, as a rough guess what measuring it takes: decides whether compiling could ever pay
_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch")


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A run that went through all stages."""

    folder: RunFolder
    audits: tuple[StoredAudit, ...]
    measured: int  # shards measured now
    reused: int  # shards that were there already
    replaced: bool  # whether the folder held results of another question
    added: bool  # whether all that is new of this question is the check of the attack
    adequacies: tuple[StoredAdequacy, ...] = ()
    brackets: tuple[StoredBracket, ...] = ()


def run(study: Study, out: Path, engine: Engine, *, command: str = "", progress: Progress | None = None) -> Finished:
    """All stages of a study, into the folder `out`; what is there already is not measured again."""
    tell = progress or _silent
    loaded = load_study(study, tell)
    partitions = partitions_of(study, loaded)  # before hours of measuring: is every column there?
    plan = audit_plan(study, loaded)
    estimators = {text: parse_estimator(text) for text in _estimators_of(study, loaded)}
    for text, estimator in estimators.items():
        _check_estimator(loaded, text, estimator)
    folder = RunFolder(Path(out))
    store = folder.store()
    with store.lock():
        old = _claim(folder, study)
        added = old is not None and old != study and _but_adequacy(old, study) and study.adequacy
        replaced = old is not None and old != study and not added
        cautions = (getattr(estimator, "caution", "") for estimator in estimators.values())
        loaded = replace(loaded, notes=(*loaded.notes, *dict.fromkeys(filter(None, cautions))))
        loaded = _referenced(loaded, list(estimators.values()), tell)
        loaded = _accelerated(study, loaded, list(estimators.values()), folder, tell)
        kept = {name: loaded.columns[name] for name in kept_columns(study, loaded)}
        folder.write_samples(kept, ids=study.cluster)
        workshop = Workshop(store, engine, tell)
        measurements, measured, reused = measure_all(study, loaded, estimators, workshop)
        manifest = _manifest(study, loaded, command, measurements)
        folder.write_manifest(manifest)
        audits = []
        for number, measurement in enumerate(measurements):
            distances = folder.distances(measurement)
            for i, partition in enumerate(partitions):
                tell("comparing groups", number * len(partitions) + i, len(measurements) * len(partitions))
                audits.append(StoredAudit(measurement.estimator, _warned(audit(distances, partition, plan), loaded)))
        tell("comparing groups", len(audits), len(audits))
        folder.write_audits(audits)
        brackets = brackets_of([(m.estimator, folder.distances(m)) for m in measurements], partitions, plan)
        folder.write_brackets(brackets)
        folder.write_adequacies(())
        write_report(folder, folder.report)
        if not study.adequacy:
            return Finished(folder, tuple(audits), measured, reused, replaced, added, brackets=brackets)
        checked = check_adequacy(study, loaded, estimators, partitions, measurements, audits, workshop)
        folder.write_adequacies(checked.found)
        write_report(folder, folder.report)
    measured, reused = measured + checked.now, reused + checked.reused
    return Finished(folder, tuple(audits), measured, reused, replaced, added, checked.found, brackets)


def write_report(folder: RunFolder, target: Path) -> None:
    """The page of a run, from what the run folder holds."""
    study, manifest = folder.read_study(), folder.read_manifest()
    assert study is not None
    checked = {(found.estimator, found.result.partition): found.result for found in folder.read_adequacies()}
    sections = [
        Section(audit.result, audit.estimator, checked.get((audit.estimator, audit.result.partition)))
        for audit in folder.read_audits()
    ]
    provenance = Provenance(
        title=study.title or f"Is {manifest.model or 'this model'} equally hard to fool for everyone?",
        command=manifest.command,
        created=manifest.created,
        model=manifest.model,
        data=manifest.data,
        estimator=", ".join(m.estimator for m in manifest.measurements),
        seed=study.seed,
        versions=manifest.versions,
        notes=manifest.notes,
    )
    brackets = [(found.result, found.between) for found in folder.read_brackets()]
    atomic_write_text(target, render(sections, provenance, brackets))


def _warned(result: AuditResult, loaded: Loaded) -> AuditResult:
    """With a warning if the model is hardly ever right: then something was mistaken before anything was measured."""
    if loaded.positions is None:
        return result
    commonest = float(np.bincount(loaded.positions).max() / len(loaded.positions))
    accuracy = result.overall.accuracy.value
    if accuracy > commonest:
        return result
    warning = (
        f"The model is right on {accuracy:.1%} of the samples; always answering the commonest class would be on "
        f"{commonest:.1%}. Are the labels in the order of the model's outputs, its weights loaded, and inputs scaled "
        "as in training (--mean, --std)?"
    )
    return replace(result, warnings=(warning, *result.warnings))


def _estimators_of(study: Study, loaded: Loaded) -> tuple[str, ...]:
    """The estimators asked for; else the exact one where there is one, and the best of docs/benchmarks.md elsewhere."""
    if loaded.model is None:
        return ()
    default = "exact_linear" if "linear" in loaded.model.offers else "plumb"
    return tuple(dict.fromkeys(study.estimators)) or (default,)


def _referenced(loaded: Loaded, estimators: list[DistanceEstimator], tell: Progress) -> Loaded:
    """With some of the samples for searches to fall back on, fixed before anything is measured, in any order of work.

    They depend on the content of the whole data alone, so that shards, engines and restarts fall back on the same.
    """
    if loaded.dataset is None or not any(estimator.needs == "gradient" for estimator in estimators):
        return loaded
    chosen = drawn(
        loaded.dataset.x,
        loaded.positions,
        progress=lambda done, total: tell("choosing references", done, total),
    )
    return replace(loaded, references=chosen)


def _accelerated(
    study: Study, loaded: Loaded, estimators: list[DistanceEstimator], folder: RunFolder, tell: Progress
) -> Loaded:
    """The model with its faster copy, chosen by one trial that the run folder remembers: a restart must not waver."""
    if not study.accelerate or not any(estimator.needs == "gradient" for estimator in estimators):
        return loaded
    from fairmargin.models.acceleration import Choice, choose
    from fairmargin.models.torch_model import TorchClassifier

    if not isinstance(loaded.model, TorchClassifier):
        return loaded
    assert loaded.dataset is not None
    known = folder.read_choice()
    if known is None:
        tell("trying what makes the model faster", 0, 1)
        passes = len(estimators) * _PASSES * math.ceil(len(loaded.dataset) / loaded.model.tile)
        choice = choose(loaded.model, np.asarray(loaded.dataset.x[: loaded.model.tile]), passes=passes)
        folder.write_choice(choice.encode())
        tell("trying what makes the model faster", 1, 1)
    else:
        choice = Choice.decode(known)
    model = replace(loaded.model, acceleration=choice.acceleration)
    return replace(loaded, model=model, notes=(*loaded.notes, choice.sentence))


def _check_estimator(loaded: Loaded, text: str, estimator: DistanceEstimator) -> None:
    """Refuse an estimator that the model cannot serve, in the words of the options."""
    assert loaded.model is not None
    try:
        check_estimator(loaded.model, estimator)
    except FairmarginError as error:
        said = str(error).replace("`Tightest`", f"`{text}`").replace(f"`{type(loaded.model).__name__}`", "this model")
        raise type(error)(in_options(said)) from None


def _claim(folder: RunFolder, study: Study) -> Study | None:
    """What the folder was asked before, if anything; it belongs to one model on one data set."""
    old = folder.read_study()
    if old is not None and differing(old, study):
        names = ", ".join(f"{n} ({getattr(old, n)!r}, now {getattr(study, n)!r})" for n in differing(old, study))
        raise StoreError(f"{folder.path} holds another audit: it differs in {names}. Choose another --out.")
    folder.write_study(study)
    return old


def _but_adequacy(old: Study, new: Study) -> bool:
    """Whether two studies are the same but for the check of the attack."""
    names = ("adequacy", "adequacy_samples")
    return old.model_copy(update={name: getattr(new, name) for name in names}) == new


def _manifest(study: Study, loaded: Loaded, command: str, measurements: tuple[Measurement, ...]) -> Manifest:
    return Manifest(
        command=command,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=loaded.about_model,
        data=loaded.about_data,
        samples_fingerprint=loaded.fingerprint if study.measures else "",
        domain=loaded.domain,
        references="" if loaded.references is None else fingerprint_of(loaded.references),
        versions=_versions(),
        notes=loaded.notes,
        measurements=measurements,
    )


def _versions() -> dict[str, str]:
    found = {"fairmargin": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _silent(_what: str, _done: int, _total: int) -> None:
    return None
