"""Tables of a study: groups or methods down, networks across, each cell a number over seeds."""

import math
from collections.abc import Sequence
from typing import Any

from fairmargin.presentation import formatting
from fairmargin.presentation.formatting import fixed
from fairmargin.report import study_words
from fairmargin.report.study_epochs import Course
from fairmargin.report.study_methods import Change, MethodRow, Quantity
from fairmargin.report.study_numbers import GIVEN, Board, Column, OverSeeds

SOME_GROUPS = 5  # of many groups, so many are shown at once and all of them folded away
_MANY_GROUPS = 12


def group_table(board: Board, *, signed: bool) -> dict[str, Any]:
    """Groups × columns; in each column the lowest is marked where shares are shown."""
    lowest = {} if signed else {column: _lowest_in(board, column) for column in board.columns}
    rows = [
        {
            "group": formatting.plain(group),
            "cells": [
                _cell(board.cells[group, column], signed=signed) | {"lowest": group in lowest.get(column, ())}
                for column in board.columns
            ],
        }
        for group in board.groups
    ]
    return {"columns": [_head(column) for column in board.columns], "rows": rows, "many": len(rows) > _MANY_GROUPS}


def _head(column: Column) -> dict[str, str]:
    seeds = f"{column.seeds} seed{'' if column.seeds == 1 else 's'}"
    return {
        "network": formatting.plain(column.network),
        "method": formatting.plain(column.method),
        "seeds": "" if column.method == GIVEN else seeds,
    }


def _lowest_in(board: Board, column: Column) -> set[str]:
    """The groups of the smallest mean; none where all are equal."""
    means = {group: board.cells[group, column].mean for group in board.groups}
    known = {group: mean for group, mean in means.items() if not math.isnan(mean)}
    if not known or min(known.values()) == max(known.values()):
        return set()
    return {group for group, mean in known.items() if mean == min(known.values())}


def _cell(cell: OverSeeds, *, signed: bool) -> dict[str, Any]:
    if not cell.defined:
        return {"text": "undefined", "spread": "", "marks": [], "note": ""}
    spread = (
        "" if math.isnan(cell.low + cell.high) or (cell.seeds == 1 and cell.low == cell.high) else _ends(cell, signed)
    )
    marks = [("less", "▼", cell.less), ("more", "▲", cell.more)]
    notes = []
    if signed and cell.below and cell.above:
        notes.append("signs differ")
    if cell.defined < cell.seeds:
        notes.append(f"defined in {cell.defined} of {cell.seeds}")
    return {
        "text": _share(cell.mean, signed=signed),
        "spread": spread,
        "marks": [(name, sign, f"{count} of {cell.seeds}") for name, sign, count in marks if count],
        "note": ", ".join(notes),
    }


def _ends(cell: OverSeeds, signed: bool) -> str:
    return f"[{fixed(100 * cell.low, 1, signed=signed)}, {fixed(100 * cell.high, 1, signed=signed)}]"


def _share(value: float, *, signed: bool) -> str:
    return f"{fixed(100 * value, 1, signed=signed)} %"


def course_table(course: Course) -> dict[str, Any]:
    """How a number changes over epochs: groups × columns, in each cell a line an epoch."""
    board, signed = course.board, not course.board.measurement.is_attack
    rows = []
    for group in board.groups:
        steps = [course.steps[group, column] for column in board.columns]
        told = [
            [(name, _share(cell.mean, signed=signed) if cell.defined else "–") for name, cell in some] for some in steps
        ]
        rows.append({"group": formatting.plain(group), "cells": told})
    return {
        "title": formatting.plain(board.measurement.title),
        "what": "σ" if signed else "Robust accuracy",
        "sentence": course.sentence,
        "columns": [_head(column) for column in board.columns],
        "rows": rows,
    }


def method_cells(row: MethodRow, asked: Sequence[Quantity]) -> dict[str, Any]:
    """A network and method: every quantity, and by how much it differs from the first method's."""
    cells = []
    for each, value, changed in zip(asked, row.values, row.changes, strict=True):
        signed = each.name == "lowest σ"
        cells.append(_cell(value, signed=signed) | {"change": _change(changed)} | {"note": ""})
    return {"network": formatting.plain(row.network), "method": formatting.plain(row.method), "cells": cells}


def _change(found: Change | None) -> dict[str, str] | None:
    if found is None:
        return None
    ends = f"[{fixed(100 * found.low, 1, signed=True)}, {fixed(100 * found.high, 1, signed=True)}]"
    return {
        "text": f"{fixed(100 * found.mean, 1, signed=True)} points",
        "spread": ends if found.pairs > 1 else "",
        "counted": study_words.counted(found) if found.pairs > 1 else "one pair",
        "way": "more" if found.mean > 0 else "less" if found.mean < 0 else "",
    }
