"""Which network of a study, and which measurement on it, is meant by a few names."""

import math
from collections.abc import Sequence
from typing import Any

from fairmargin.core.radius import parse_radius
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.studies.grid import GIVEN, Cell, GridTask, Measure, epoch_of
from fairmargin.studies.study_sections import DistanceSection


def cell_meant(
    among: Sequence[Cell], data: str | None, architecture: str | None, method: str | None, seed: int | None
) -> Cell:
    """The one network that is meant, by all that was said of it."""
    cells: list[Cell] = list(among)
    asked: tuple[tuple[str, Any, Any], ...] = (
        ("data", data, lambda cell: (cell.data.name,)),
        ("architecture", architecture, lambda cell: (cell.network.name, cell.network.architecture)),
        ("method", method, lambda cell: (cell.method,)),
        ("seed", seed, lambda cell: (cell.seed,)),
    )
    for name, wanted, names_of in asked:
        if wanted is None:
            continue
        there = [cell for cell in cells if wanted in names_of(cell) or (name == "seed" and cell.method == GIVEN)]
        if not there:
            known = dict.fromkeys(str(names_of(cell)[0]) for cell in cells)
            raise InputError(f"The study has no network of {name} {wanted!r} there. {suggest(str(wanted), known)}")
        cells = there
    if len(cells) > 1:
        some = "; ".join(cell.name for cell in cells[:3])
        raise InputError(f"{len(cells)} networks are meant ({some} …): give data, architecture, method and seed.")
    return cells[0]


def task_meant(
    tasks: Sequence[GridTask], cell: Cell, word: str | int, by: str | None, radius: str | float | None
) -> GridTask:
    """The one task of a network that is meant."""
    found = [(task, task.measure) for task in tasks if task.measure is not None]
    if by is not None:
        known = dict.fromkeys(measure.section.name for _, measure in found)
        found = [(task, measure) for task, measure in found if by in _names(measure)]
        if not found:
            raise InputError(f"{cell.name} was not measured by {by!r}. {suggest(by, known)}")
    if radius is not None:
        length, radii = parse_radius(radius), dict.fromkeys(f"{measure.radius:.6g}" for _, measure in found)
        found = [(task, measure) for task, measure in found if math.isclose(measure.radius, length, rel_tol=1e-9)]
        if not found:
            raise InputError(f"{cell.name} was not attacked at radius {radius}. There are: {', '.join(radii)}.")
    epoch, words = epoch_of(cell, word), dict.fromkeys(word for _, measure in found for word in measure.words)
    there = [task for task, measure in found if measure.epoch == epoch]
    if not there:
        raise InputError(f"{cell.name} was not measured at the epoch {word!r}. {suggest(str(word), words)}")
    if len(there) > 1:
        raise InputError(f"{len(there)} results of {cell.name} are meant: name the estimator, or attack and radius.")
    return there[0]


def _names(measure: Measure) -> tuple[str, str]:
    section = measure.section
    return section.name, section.estimator if isinstance(section, DistanceSection) else section.attack
