"""The report of a study: its table as one page that a person can read."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from fairmargin.attacks.catalog import ATTACKS
from fairmargin.distances.catalog import ESTIMATORS
from fairmargin.report.document import Provenance
from fairmargin.report.study_page import render_study
from fairmargin.store.atomic import atomic_write_text
from fairmargin.studies.grid_results import Grid
from fairmargin.studies.study_file import StudyFile
from fairmargin.study.record import versions
from fairmargin.training.catalog import METHODS


def write_grid_report(grid: Grid, table: pd.DataFrame) -> Path:
    """Write RUN/report.html; the same study gives the same page, whenever and however often it was interrupted.

    Parameters
    ----------
    grid
        What was found, and what failed.
    table
        Its rows, as in results.csv.
    """
    path = grid.folder.report
    page = render_study(
        table,
        _provenance(grid.study),
        failures=[str(each) for each in grid.failures],
        notes=grid.notes,
        meanings=list(_meanings(grid.study)),
    )
    atomic_write_text(path, page)
    return path


def _provenance(study: StudyFile) -> Provenance:
    """What was asked. No date and no folder: a study that was killed and goes on ends with the same page."""
    plan = study.audit_plan()
    methods = [_spelled(each.name, each.method) for each in study.method]
    return Provenance(
        title=study.title or "Are these networks equally hard to fool for everyone?",
        command="fairmargin run study.toml",
        model=", ".join(dict.fromkeys(_spelled(each.name, each.architecture) for each in study.network)),
        data=", ".join(_spelled(each.name, each.dataset) for each in study.data),
        estimator=", ".join(
            [_spelled(each.name, each.estimator) for each in study.distance]
            + [_spelled(each.name, each.attack) for each in study.attack]
        ),
        versions=versions(),
        notes=(
            *([f"Methods: {', '.join(methods)}."] if methods else []),
            f"Intervals of {plan.confidence:.0%} confidence from {plan.resamples:,} resamples; groups of fewer than "
            f"{plan.smallest_group} samples get no verdict. Estimators and attacks have seed 0 in every network.",
        ),
    )


def _meanings(study: StudyFile) -> Iterator[tuple[str, str]]:
    """The names of methods, estimators and attacks, each with what it stands for."""
    named = (
        *((METHODS, each.name, each.method) for each in study.method),
        *((ESTIMATORS, each.name, each.estimator) for each in study.distance),
        *((ATTACKS, each.name, each.attack) for each in study.attack),
    )
    for catalog, name, about in named:
        entry = catalog.get(about.partition(":")[0])  # several estimators joined by + explain themselves
        if entry is not None and entry.__doc__:
            yield name, entry.__doc__.strip().splitlines()[0]


def _spelled(name: str, about: str) -> str:
    """What a section calls itself, and what it is if that says more.

    >>> _spelled("pgd", "pgd:steps=20"), _spelled("erm", "erm"), _spelled("mine", "small_cnn")
    ('pgd:steps=20', 'erm', 'mine (small_cnn)')
    """
    if about == name or not about:
        return name
    return about if about.startswith(f"{name}:") else f"{name} ({about})"
