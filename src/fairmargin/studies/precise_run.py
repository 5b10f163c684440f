"""A run to a precision: load, prepare, measure as few samples as it takes, and keep everything in the run folder."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fairmargin.distances.catalog import parse_estimator
from fairmargin.engine.task import Engine
from fairmargin.metrics.precision import POPULATION, THESE_SAMPLES, PrecisionResult
from fairmargin.report.document import Provenance
from fairmargin.report.precise_page import render_precise
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.checksums import seal
from fairmargin.studies.loading import load_study, partitions_of
from fairmargin.studies.measuring import Progress, Workshop
from fairmargin.studies.precision import Subject, precise
from fairmargin.studies.precision_plan import PrecisionPlan
from fairmargin.studies.preparing import check_served, claim, estimators_of, referenced, versions
from fairmargin.studies.run_check import PRECISION_FILES
from fairmargin.studies.run_folder import RunFolder, StoredPrecision
from fairmargin.studies.study import Study


@dataclass(frozen=True, slots=True, eq=False)
class FinishedPrecision:
    """What was found for each partition, and where it is kept."""

    folder: RunFolder
    found: tuple[PrecisionResult, ...]


def run_to_precision(
    study: Study, out: Path, engine: Engine, *, command: str = "", progress: Progress | None = None
) -> FinishedPrecision:
    """All partitions of a study to its precision; what the folder holds already is not measured again."""
    tell = progress or _silent
    loaded = load_study(study, tell)
    partitions = partitions_of(study, loaded)
    (text,) = estimators_of(study, loaded)
    plan = PrecisionPlan(
        precision=study.precision,
        reference=parse_estimator(text),
        target=THESE_SAMPLES if study.target == "samples" else POPULATION,
        confidence=study.confidence,
        up_to=study.up_to,
        seed=study.seed,
    )
    estimators = plan.estimators()
    for estimator in estimators:
        check_served(loaded, text, estimator)
    folder = RunFolder(Path(out))
    store = folder.store()
    with store.lock():
        claim(folder, study)
        cautions = (getattr(estimator, "caution", "") for estimator in estimators)
        loaded = replace(loaded, notes=(*loaded.notes, *dict.fromkeys(filter(None, cautions))))
        loaded = referenced(loaded, list(estimators), tell)
        assert loaded.model is not None
        assert loaded.dataset is not None
        assert loaded.positions is not None
        subject = Subject(loaded.model, loaded.dataset.x, loaded.positions, loaded.references)
        workshop = Workshop(store, engine, tell)
        found = tuple(precise(subject, partition, plan, workshop, tell) for partition in partitions)
        folder.write_precision(
            StoredPrecision(
                found=found,
                command=command,
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                model=loaded.about_model,
                data=loaded.about_data,
                versions=versions(),
                notes=loaded.notes,
            )
        )
        seal(folder.path, PRECISION_FILES)
        write_precise_report(folder, folder.report)
    return FinishedPrecision(folder, found)


def write_precise_report(folder: RunFolder, target: Path) -> None:
    """The page of a run to a precision, from what the run folder holds."""
    study, stored = folder.read_study(), folder.read_precision()
    assert study is not None
    estimators = [name for each in stored.found for name in (each.cheap, each.reference) if name]
    provenance = Provenance(
        title=study.title or f"Is {stored.model or 'this model'} equally hard to fool for everyone?",
        command=stored.command,
        created=stored.created,
        model=stored.model,
        data=stored.data,
        estimator=", ".join(dict.fromkeys(estimators)),
        seed=study.seed,
        versions=stored.versions,
        notes=stored.notes,
    )
    atomic_write_text(target, render_precise(stored.found, provenance))


def _silent(_what: str, _done: int, _total: int) -> None:
    return None
