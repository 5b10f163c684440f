"""Carry out a study: load its case, measure, compute, and keep everything in one record."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

from fairmargin.attacks.catalog import ATTACKS
from fairmargin.core.progress import Progress, silent
from fairmargin.distances.catalog import ESTIMATORS
from fairmargin.engine.task import Engine, session_of
from fairmargin.errors import InputError
from fairmargin.runner.cases import Case, kept_columns
from fairmargin.runner.measurer import Measurer
from fairmargin.runner.networks import Model, Models, prepare_models, too_small
from fairmargin.runner.training_data import DataLoader
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.shard import shard_key
from fairmargin.study.options import AttackOptions
from fairmargin.study.record import Provenance, RunRecord, StoredResult, versions
from fairmargin.study.rules_file import rules_text
from fairmargin.study.run_folder import RULES, RunFolder, RunMemory, SampleColumns
from fairmargin.study.study import Study
from fairmargin.training.catalog import METHODS


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
    """Carry out a study and return its record; results that the folder already holds are not computed again.

    Guarantee: interrupted or killed, the same call continues and ends with the same results, in any engine.

    Parameters
    ----------
    study
        The study.
    folder
        Folder for shards, results and the record; None keeps them in memory.
    engine
        Runs the tasks.
    case
        Model and data that were given in Python; by default they are loaded as the study says.
    command
        The command line, for the record.
    progress
        Called with the kind of work, the number of finished tasks and the number of all tasks.
    on_step
        Called in the same way during a training, with a text that changes; by default `progress`.
    on_epoch
        Called with each epoch that this call has trained.
    """
    load = DataLoader(progress)
    models = prepare_models(study, load, case)
    several = study.grid is not None
    record = RunRecord(study=study, provenance=_provenance(study, models.models, command))
    with session_of(engine) as workers:
        if study.train is not None:  # a training is the only writer of its folder until it has ended
            if folder is None:
                raise InputError("A training needs a folder for its weights: give one.")
            folder.open_for(record)
            models.train(folder.path, workers, progress, on_step, on_epoch)
        with folder.claimed(record) if folder is not None else nullcontext() as old:
            if several:
                record = record.model_copy(update={"meanings": tuple(meanings_of(study))})
                if any(member.train for member in study.members):
                    if folder is None:
                        raise InputError("Trainings need a folder for their weights: give one.")
                    models.train(folder.path, workers, progress, on_step, on_epoch)
            trained = models.trained if several else 0
            measure = Measurer(folder or RunMemory(), workers, progress, trained=trained)
            record = _measured(record, models, measure)
            if folder is not None:
                record = folder.finish(record, _samples(models.models), old)
                _write_rules(folder, models)
                folder.write_traces([f"{each}\n{each.trace}".strip() for each in models.failures])
                measure.earlier = _became_of(old, record)
    return record, measure


def _measured(record: RunRecord, models: Models, measure: Measurer) -> RunRecord:
    """Measure and compute everything in a study, and return its finished record."""
    for model in models.models:
        measure.note(*_notes(model, several=models.several))
    found: list[StoredResult] = []
    in_memory: dict[str, object] = {}
    for stored, result in models.results(measure):
        measure.keep_result(stored, result)
        found.append(stored)
        in_memory[stored.key] = result
    diverged = [m.trained.stopped for m in models.models if m.trained is not None and m.trained.diverged]
    return record.model_copy(
        update={
            "status": "finished",
            "provenance": _with_references(record.provenance, models),
            "notes": tuple(measure.notes),
            "failures": tuple(diverged or map(str, models.failures)),
            "results": tuple(found),
        }
    ).reading(lambda stored: in_memory[stored.key])


def _samples(models: Sequence[Model]) -> dict[str, SampleColumns]:
    """Return the columns by which samples are grouped, by the name of their data."""
    found = {}
    for model in models:
        case, groups = model.samples, model.member.groups
        found[model.member.data_name] = SampleColumns(
            kept_columns(case, groups), tuple(filter(None, (groups.cluster, groups.sample_weight))), case.ids
        )
    return found


def _write_rules(folder: RunFolder, models: Models) -> None:
    """Write the rules of the columns of a table, in a run of one model."""
    subject = models.models[0].samples.subject
    columns = subject.model.domain.columns if subject is not None and not models.several else ()
    if columns:
        atomic_write_text(folder.path / RULES, rules_text(columns))


def _notes(model: Model, *, several: bool) -> Iterator[str]:
    case, name = model.samples, model.member.data_name
    notes = case.notes + (model.trained.notes if model.trained is not None else ())
    yield from (f"{name}: {note}" if several else note for note in notes)
    if several:
        yield from too_small(model)


def _became_of(old: RunRecord | None, new: RunRecord) -> str:
    """Return "replaced" or "completed" if this run replaced earlier results or added adequacy to them."""
    before, now = ({each.key for each in record.results} if record else set() for record in (old, new))
    if not before <= now:
        return "replaced"
    added = {each.kind for each in new.results if each.key not in before}
    return "completed" if before and "adequacy" in added else ""


def meanings_of(study: Study) -> Iterator[tuple[str, str]]:
    """Yield the names of methods, estimators and attacks, each with the first line of its documentation."""
    named: dict[str, Any] = {}
    for member in study.members:
        if member.train is not None:
            named[member.method] = METHODS.get(member.train.method.partition(":")[0])
        for measurement in member.measurements:
            options = measurement.options
            names, catalog = (
                (options.attack, ATTACKS) if isinstance(options, AttackOptions) else (options.estimator, ESTIMATORS)
            )
            named |= {name: catalog.get(name.partition(":")[0]) for name in names}
    for name, entry in named.items():
        if entry is not None and entry.__doc__:
            yield name, entry.__doc__.strip().splitlines()[0]


def _provenance(study: Study, models: Sequence[Model], command: str) -> Provenance:
    # The page of a study of several models has no date: one that was interrupted ends with the same page.
    several = study.grid is not None
    cases = [model.samples for model in models]
    classifiers = [case.subject.model.fingerprint() for case in cases if case.subject is not None]
    return Provenance(
        command=command,
        created="" if several else datetime.now(UTC).isoformat(timespec="seconds"),
        model=", ".join(dict.fromkeys(case.model for case in cases)),
        data="; ".join(dict.fromkeys(case.data for case in cases)),
        samples=_all_of([case.fingerprint for case in cases]) if study.measures else "",
        domain=_all_of([case.domain for case in cases]),
        classifier=_all_of(classifiers) if len(classifiers) == len(cases) else "",
        versions=versions(),
    )


def _all_of(prints: Sequence[str]) -> str:
    """Return a single fingerprint of several fingerprints."""
    different = list(dict.fromkeys(prints))
    return different[0] if len(different) == 1 else shard_key({"all": " ".join(different)})


def _with_references(provenance: Provenance, models: Models) -> Provenance:
    """Return the provenance with the samples that searches of a study of one model fell back on."""
    references = models.load.drawn
    return provenance.model_copy(update={"references": _all_of(references) if references else ""})
