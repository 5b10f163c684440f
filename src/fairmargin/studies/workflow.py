"""The stages of an audit, one after another: load, plan, measure, audit, report.

Each stage leaves its result in the run folder. A run that was interrupted, or killed, goes on where it stopped and ends
with the same numbers.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fairmargin.distances.catalog import parse_estimator
from fairmargin.engine.task import Engine
from fairmargin.metrics.audit import audit
from fairmargin.metrics.results import AuditResult
from fairmargin.models.referenced import fingerprint_of
from fairmargin.report.page import Provenance, Section, render
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.checksums import seal
from fairmargin.studies.adequacy import check_adequacy
from fairmargin.studies.bracketing import brackets_of, missing_bracket
from fairmargin.studies.certifying import certificates_of
from fairmargin.studies.loading import Loaded, audit_plan, kept_columns, load_study, partitions_of
from fairmargin.studies.measuring import Progress, Workshop, measure_all
from fairmargin.studies.preparing import check_served, claim, estimators_of, referenced, versions
from fairmargin.studies.run_check import AUDIT_FILES
from fairmargin.studies.run_folder import (
    Manifest,
    Measurement,
    RunFolder,
    StoredAdequacy,
    StoredAudit,
    StoredBracket,
    StoredCertificates,
)
from fairmargin.studies.study import Study


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
    certificates: tuple[StoredCertificates, ...] = ()


def run(study: Study, out: Path, engine: Engine, *, command: str = "", progress: Progress | None = None) -> Finished:
    """All stages of a study, into the folder `out`; what is there already is not measured again."""
    tell = progress or _silent
    loaded = load_study(study, tell)
    partitions = partitions_of(study, loaded)  # before hours of measuring: is every column there?
    plan = audit_plan(study, loaded)
    estimators = {text: parse_estimator(text) for text in estimators_of(study, loaded)}
    for text, estimator in estimators.items():
        check_served(loaded, text, estimator)
    folder = RunFolder(Path(out))
    store = folder.store()
    with store.lock():
        old = claim(folder, study)
        added = old is not None and old != study and _but_adequacy(old, study) and study.adequacy
        replaced = old is not None and old != study and not added
        cautions = (getattr(estimator, "caution", "") for estimator in estimators.values())
        loaded = replace(loaded, notes=(*loaded.notes, *dict.fromkeys(filter(None, cautions))))
        loaded = referenced(loaded, list(estimators.values()), tell)
        kept = {name: loaded.columns[name] for name in kept_columns(study, loaded)}
        folder.write_samples(kept, clusters=study.cluster, ids=loaded.ids)
        workshop = Workshop(store, engine, tell)
        measurements, measured, reused = measure_all(study, loaded, estimators, workshop)
        apart = missing_bracket([folder.distances(measurement) for measurement in measurements])
        loaded = replace(loaded, notes=(*loaded.notes, apart) if apart else loaded.notes)
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
        found = [(m.estimator, folder.distances(m)) for m in measurements]
        brackets = brackets_of(found, partitions, plan)
        folder.write_brackets(brackets)
        certificates = certificates_of(estimators, found, partitions, plan.confidence)
        folder.write_certificates(certificates)
        folder.write_adequacies(())
        seal(folder.path, AUDIT_FILES)
        write_report(folder, folder.report)
        finished = Finished(
            folder, tuple(audits), measured, reused, replaced, added, brackets=brackets, certificates=certificates
        )
        if not study.adequacy:
            return finished
        checked = check_adequacy(study, loaded, estimators, partitions, measurements, audits, workshop)
        folder.write_adequacies(checked.found)
        seal(folder.path, AUDIT_FILES)
        write_report(folder, folder.report)
    measured, reused = measured + checked.now, reused + checked.reused
    return replace(finished, measured=measured, reused=reused, adequacies=checked.found)


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
    certified = [(found.result, found.estimator) for found in folder.read_certificates()]
    atomic_write_text(target, render(sections, provenance, brackets, certified))


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
        versions=versions(),
        notes=loaded.notes,
        measurements=measurements,
    )


def _silent(_what: str, _done: int, _total: int) -> None:
    return None
