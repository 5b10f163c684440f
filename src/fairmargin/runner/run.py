"""Carry out a study: load its case, measure, compute, and keep everything in one record."""

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

from fairmargin.core.progress import Progress, silent
from fairmargin.engine.task import Engine
from fairmargin.models.referenced import fingerprint_of
from fairmargin.runner.attack import attack_case, attacks_of
from fairmargin.runner.audit import audit_case, estimators_of, searches
from fairmargin.runner.cases import Case, kept_columns, load_case
from fairmargin.runner.measurer import Measurer
from fairmargin.study.record import Provenance, RunRecord, StoredResult, versions
from fairmargin.study.run_folder import RunFolder, RunMemory, Samples
from fairmargin.study.study import Study


def run(
    study: Study,
    folder: RunFolder | None,
    engine: Engine,
    *,
    case: Case | None = None,
    command: str = "",
    progress: Progress = silent,
) -> tuple[RunRecord, Measurer]:
    """Carry out a study and return its record; what the folder holds already is not computed again.

    Guarantee: interrupted or killed, the same call continues and ends with the same results, in any engine.

    Parameters
    ----------
    study
        What is asked.
    folder
        Where shards, results and the record are kept; in memory if None.
    engine
        Runs the tasks.
    case
        Model and data that were given in Python; loaded as the study says if left out.
    command
        The command line, for the record.
    progress
        Called with what is done, how much, of how much.
    """
    case = case or load_case(study, progress)
    check(study, case)
    record = RunRecord(study=study, provenance=_provenance(study, case, command))
    keeper = folder.claimed(record) if folder is not None else nullcontext(RunMemory())
    with keeper as place, engine.session() as workers:
        if study.audit is not None and searches(estimators_of(study.audit, case)):
            case = case.with_references(progress)
            record = record.model_copy(update={"provenance": _provenance(study, case, command)})
        measure = Measurer(place, workers, progress)
        measure.note(*case.notes)
        found: list[StoredResult] = []
        in_memory: dict[str, object] = {}
        for stored, result in _computed(study, case, measure):
            measure.keep_result(stored, result)
            found.append(stored)
            in_memory[stored.key] = result
        record = record.model_copy(
            update={"status": "finished", "notes": tuple(measure.notes), "results": tuple(found)}
        ).reading(lambda stored: in_memory[stored.key])
        if isinstance(place, RunFolder):
            old = place.record()
            samples = Samples(kept_columns(case, study.groups), study.groups.cluster, case.ids)
            record = place.finish(record, samples)
            measure.earlier = _became_of(old, record)
    return record, measure


def check(study: Study, case: Case) -> None:
    """Refuse, before anything is written, what a study asks of a model that cannot serve it."""
    if study.audit is not None:
        estimators = estimators_of(study.audit, case)
        if study.audit.precision:
            from fairmargin.runner.precision import precision_plan

            precision_plan(study.audit, case, estimators)
    if study.attack is not None:
        attacks_of(study.attack, case)


def _became_of(old: RunRecord | None, new: RunRecord) -> str:
    """Return whether results of an earlier run were replaced, or completed by adequacy."""
    before, now = ({each.key for each in record.results} if record else set() for record in (old, new))
    if not before <= now:
        return "replaced"
    added = {each.kind for each in new.results if each.key not in before}
    return "completed" if before and "adequacy" in added else ""


def _computed(study: Study, case: Case, measure: Measurer) -> Iterator[tuple[StoredResult, Any]]:
    """Yield every result that a study asks for."""
    if study.audit is not None:
        yield from audit_case(study.audit, case, measure)
    if study.attack is not None:
        yield from attack_case(study.attack, case, measure)


def _provenance(study: Study, case: Case, command: str) -> Provenance:
    return Provenance(
        command=command,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=case.model,
        data=case.data,
        samples=case.fingerprint if study.measures else "",
        domain=case.domain,
        classifier="" if case.classifier is None else case.classifier.fingerprint(),
        references="" if case.references is None else fingerprint_of(case.references),
        versions=versions(),
    )
