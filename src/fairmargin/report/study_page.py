"""The page of a study: who is reached first in which networks, and what methods change."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fairmargin.core.bound import Bound
from fairmargin.presentation import formatting
from fairmargin.report import explanations, study_words
from fairmargin.report.document import Provenance, document, embed
from fairmargin.report.study_epochs import Course, courses_of
from fairmargin.report.study_figures import sigma_heat_map
from fairmargin.report.study_methods import method_rows, quantities
from fairmargin.report.study_numbers import (
    GIVEN,
    TRAINED,
    Board,
    at_the_end,
    boards_of,
    natural_board,
    read_table,
)
from fairmargin.report.study_tables import SOME_GROUPS, course_table, group_table, method_cells

_MANY_DATA = 2  # of more, the answer would be a list
_MANY_CELLS = 60  # a larger table is folded away, below the figure that shows the same


def render_study(
    frame: pd.DataFrame,
    provenance: Provenance,
    *,
    failures: Sequence[str] = (),
    notes: Sequence[str] = (),
    meanings: Sequence[tuple[str, str]] = (),
) -> str:
    """The page of a study, see `document`; it names what failed, and is made even if everything did.

    Parameters
    ----------
    frame
        The rows of results.csv: one for each network, seed, epoch, estimator or attack, partition and group.
    provenance
        Where the numbers come from.
    failures
        What could not be done, and why, a text each.
    notes
        What a reader should know of the data.
    meanings
        Names of methods, estimators and attacks, each with what it stands for.

    >>> "nothing could be compared" in render_study(pd.DataFrame(), Provenance(), failures=["cifar10: no such file"])
    True
    """
    table = read_table(frame)
    ends = at_the_end(table)
    places = list(dict.fromkeys(zip(table["data"], table["partition"], strict=True)))
    found = [_found(_part(ends, place)) for place in places]
    parts = [(*place, boards) for place, (boards, _) in zip(places, found, strict=True)]
    methods = _methods(table)
    told = _methods_in_short(parts, found)
    content = {
        "answer": study_words.answer(parts, told),
        "sections": [
            _section(place, boards, natural, list(courses_of(_part(table, place))), i)
            for i, (place, (boards, natural)) in enumerate(zip(places, found, strict=True), start=1)
        ],
        "run": _what_was_run(table, methods),
        "measurements": _measurements(table),
        "failures": [formatting.plain(each) for each in failures],
        "data_notes": list(notes),
        "meanings": [(formatting.plain(name), text) for name, text in meanings],
        "warnings": _warnings(table, failures, methods),
        "seeds_reading": study_words.SEEDS_READING,
        "marks_reading": study_words.MARKS_READING,
        "bounds": [
            (bound.words, explanations.BOUND_MEANINGS[bound]) for bound in Bound if bound.value in set(table["bound"])
        ],
        "methods": [study_words.METHOD],
    }
    return document("study.html", provenance, content)


def _part(table: pd.DataFrame, place: tuple[str, str]) -> pd.DataFrame:
    return table[(table["data"] == place[0]) & (table["partition"] == place[1])]


def _found(rows: pd.DataFrame) -> tuple[tuple[Board, ...], Board | None]:
    return boards_of(rows), natural_board(rows)


def _methods(table: pd.DataFrame) -> list[str]:
    return [method for method in dict.fromkeys(table["method"]) if method != GIVEN]


def _methods_in_short(
    parts: Sequence[tuple[str, str, Sequence[Board]]], found: Sequence[tuple[Sequence[Board], Board | None]]
) -> tuple[str, ...]:
    """How methods differ, for the answer: by the first partition of each data."""
    several = len({data for data, *_ in parts}) > 1
    first = {data: i for i, (data, *_) in reversed(list(enumerate(parts)))}
    sentences: list[str] = []
    for data in list(dict.fromkeys(data for data, *_ in parts))[:_MANY_DATA]:
        asked = quantities(*found[first[data]])
        sentences += study_words.methods_in_short(asked, data if several else "")
    return tuple(dict.fromkeys(sentences))


def _section(
    place: tuple[str, str], boards: Sequence[Board], natural: Board | None, courses: Sequence[Course], position: int
) -> dict[str, Any]:
    asked = quantities(boards, natural)
    rows = method_rows(asked)
    one = boards[0].rows.drop_duplicates("group")
    seeds = max((column.seeds for board in boards for column in board.columns), default=0)
    return {
        "anchor": f"part-{position}",
        "data": formatting.plain(place[0]),
        "partition": formatting.plain(place[1]),
        "about": f"{int(one['size'].sum()):,} test samples in {len(one)} groups",
        "blocks": [_block(board, f"part-{position}-{i}") for i, board in enumerate(boards, start=1)],
        "natural": None if natural is None else group_table(natural, signed=False),
        "some_groups": SOME_GROUPS,
        "courses": [course_table(course) for course in courses],
        "methods": [method_cells(row, asked) for row in rows],
        "quantities": [(each.name, formatting.plain(each.about)) for each in asked],
        "first_method": formatting.plain(rows[0].method) if rows else "",
        "few_seeds": study_words.few_seeds(seeds),
    }


def _block(board: Board, anchor: str) -> dict[str, Any]:
    measurement, sentence = board.measurement, study_words.finding(board)
    return {
        "anchor": anchor,
        "title": formatting.plain(measurement.title),
        "about": f"{measurement.bound.words} · {measurement.norm} norm",
        "is_attack": measurement.is_attack,
        "headline": sentence,
        "more": study_words.agreement(board),
        "table": group_table(board, signed=not measurement.is_attack),
        "folded": not measurement.is_attack and len(board.cells) > _MANY_CELLS,
        "figure": None if measurement.is_attack else embed(sigma_heat_map(board)),
        "alt": f"σ of every group in every network, as colours. {sentence}",
    }


def _what_was_run(table: pd.DataFrame, methods: Sequence[str]) -> list[tuple[str, str]]:
    """Data, networks, methods, seeds, epochs, estimators and attacks, in words."""
    given = table[table["method"] == GIVEN]
    trained = table[table["method"] != GIVEN]
    networks = len(table[["data", *TRAINED]].drop_duplicates())
    epochs = sorted(set(trained["epoch"]))
    rows = [
        ("Data", _listed(table["data"])),
        ("Groups", _listed(table["partition"])),
        ("Networks", _listed(table["network"])),
        ("Methods", _names(methods) if methods else ""),
        ("As given", f"{_listed(given['network'])} came with weights and were not trained" if len(given) else ""),
        ("Seeds", ", ".join(map(str, sorted(set(trained["seed"]))))),
        ("Trained networks", f"{networks:,}" if networks else ""),
        ("Epochs measured", ", ".join(map(str, epochs))),
        ("Estimators", _listed(table["by"][table["kind"] != "attack"])),
        ("Attacks", _listed(table["by"][table["kind"] == "attack"])),
    ]
    return [(name, text) for name, text in rows if text]


def _listed(names: pd.Series) -> str:
    return _names(list(dict.fromkeys(names)))


def _names(names: Sequence[str]) -> str:
    return formatting.listed([formatting.plain(name) for name in names], at_most=40) if names else ""


def _measurements(table: pd.DataFrame) -> list[dict[str, str]]:
    return [
        {
            "title": formatting.plain(board.measurement.title),
            "shows": "robust accuracy" if board.measurement.is_attack else "distances, σ",
            "bound": board.measurement.bound.words,
            "norm": board.measurement.norm,
            "epochs": ", ".join(dict.fromkeys(word for words in board.rows["asked_as"] for word in words.split(", "))),
            "networks": f"{len(board.rows[['data', *TRAINED]].drop_duplicates()):,}",
        }
        for board in boards_of(table)
    ]


def _warnings(table: pd.DataFrame, failures: Sequence[str], methods: Sequence[str]) -> list[str]:
    """What a reader must know before quoting a number."""
    found = []
    if failures:
        tasks = "One task" if len(failures) == 1 else f"{len(failures):,} tasks"
        found.append(f"{tasks} could not be done: their numbers are missing here. See what failed, below.")
    if {"upper"} & set(table["bound"]):
        found.append(
            "Attacks find upper bounds: the boundary is at most as far as shown, and who withstands an attack may fall "
            "to a stronger one. An attack that is weaker on one group could pass for unfairness."
        )
    trained = table[table["method"] != GIVEN]
    seeds = int(trained.groupby(["data", "network", "method"])["seed"].nunique().max()) if len(trained) else 0
    if seeds == 1 or (seeds > 1 and len(methods) > 1):
        found.append(study_words.few_seeds(seeds))
    return found
