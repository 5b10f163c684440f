"""Carry out a study: load its case, measure, compute, and keep everything in one record."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fairmargin.core.progress import Progress, silent
from fairmargin.engine.task import Engine, session_of
from fairmargin.errors import InputError
from fairmargin.models.referenced import fingerprint_of
from fairmargin.runner.attack import attack_case, attacks_of
from fairmargin.runner.audit import audit_case, estimators_of, searches
from fairmargin.runner.cases import Case, kept_columns, load_case
from fairmargin.runner.measurer import Measurer
from fairmargin.study.record import Provenance, RunRecord, StoredResult, versions
from fairmargin.study.run_folder import RunFolder, RunMemory, Samples
from fairmargin.study.study import Study

if TYPE_CHECKING:
    from fairmargin.runner.trainer import FinishedTraining


def run(
    study: Study,
    folder: RunFolder | None,
    engine: Engine,
    *,
    case: Case | None = None,
    command: str = "",
    progress: Progress = silent,
    on_step: Progress | None = None,
    on_epoch: Callable[[Any], None] | None = None,
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
    on_step
        Called with the steps of a training, in changing words; by default `progress`.
    on_epoch
        Called with each epoch of a training that was trained by this call.
    """
    training = None if study.train is None else _train(study, folder, engine, command, progress, on_step, on_epoch)
    case = training.samples if training is not None else case or load_case(study, progress)
    if training is None:
        check(study, case)
    record = RunRecord(study=study, provenance=_provenance(study, case, command))
    keeper = folder.claimed(record) if folder is not None else nullcontext(RunMemory())
    with keeper as place, session_of(engine) as workers:
        if study.audit is not None and searches(estimators_of(study.audit, case)):
            case = case.with_references(progress)
            record = record.model_copy(update={"provenance": _provenance(study, case, command)})
        measure = Measurer(place, workers, progress)
        measure.note(*case.notes)
        found: list[StoredResult] = []
        in_memory: dict[str, object] = {}
        for stored, result in _computed(study, case, measure) if training is None else training.results(measure):
            measure.keep_result(stored, result)
            found.append(stored)
            in_memory[stored.key] = result
        record = record.model_copy(
            update={
                "status": "finished",
                "notes": tuple(measure.notes),
                "failures": () if training is None else training.failures,
                "results": tuple(found),
            }
        ).reading(lambda stored: in_memory[stored.key])
        if isinstance(place, RunFolder):
            old = place.record()
            samples = Samples(kept_columns(case, study.groups), study.groups.cluster, case.ids)
            record = place.finish(record, samples)
            measure.earlier = _became_of(old, record)
    return record, measure


def _train(
    study: Study,
    folder: RunFolder | None,
    engine: Engine,
    command: str,
    progress: Progress,
    on_step: Progress | None,
    on_epoch: Callable[[Any], None] | None,
) -> "FinishedTraining":
    """Train the network of a study, unless it is there; a folder that holds another run is refused before."""
    from fairmargin.runner.trainer import FinishedTraining, carry_out_training, prepare_training

    prepared = prepare_training(study, progress)
    if folder is None:
        raise InputError("A training is kept in a folder: name one.")
    folder.open_for(RunRecord(study=study, provenance=_provenance(study, prepared.samples, command)))
    trained = carry_out_training(prepared.job, folder.path, engine, on_step or progress, on_epoch)
    return FinishedTraining(prepared, trained, folder.path)


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
