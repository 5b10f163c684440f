"""Carry out a study: load its case, measure, compute, and keep everything in one record."""

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

from fairmargin.core.progress import Progress, silent
from fairmargin.engine.task import Engine
from fairmargin.runner.attack import attack_case
from fairmargin.runner.audit import audit_case
from fairmargin.runner.cases import Case, kept_columns, load_case
from fairmargin.runner.measurer import Measurer
from fairmargin.study.record import Provenance, RunRecord, StoredResult, versions
from fairmargin.study.run_folder import RunFolder, RunMemory
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
    record = RunRecord(study=study, provenance=_provenance(study, case, command))
    keeper = folder.claimed(record) if folder is not None else nullcontext(RunMemory())
    with keeper as place, engine.session() as workers:
        measure = Measurer(place, workers, progress)
        measure.note(*case.notes)
        if isinstance(place, RunFolder):
            place.write_samples(kept_columns(case, study.groups), clusters=study.groups.cluster, ids=case.ids)
        found: list[StoredResult] = []
        in_memory: dict[str, object] = {}
        for stored, result in _computed(study, case, measure):
            place.keep(stored, result)
            found.append(stored)
            in_memory[stored.key] = result
        record = record.model_copy(
            update={"status": "finished", "notes": tuple(measure.notes), "results": tuple(found)}
        ).reading(lambda stored: in_memory[stored.key])
        if isinstance(place, RunFolder):
            record = place.finish(record)
    return record, measure


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
        versions=versions(),
    )
