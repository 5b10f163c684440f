"""How numbers of a study change while networks are trained, where several epochs were measured."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from fairmargin.presentation.formatting import percent, plain
from fairmargin.report.study_numbers import MEASURED, TRAINED, Board, Column, OverSeeds, board_of


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """One measurement at several epochs.

    Parameters
    ----------
    board
        At the last of them.
    steps
        For each group and column, an epoch's name and the number then, in the order of the epochs.
    sentence
        What became of it.
    """

    board: Board
    steps: Mapping[tuple[str, Column], tuple[tuple[str, OverSeeds], ...]]
    sentence: str


def courses_of(rows: pd.DataFrame) -> Iterator[Course]:
    """Of every measurement that was made at several epochs of some network, from rows of one partition."""
    for _, some in rows.groupby(MEASURED, sort=False):
        stages = some.groupby(["network", "method"], sort=False)["asked_as"].nunique()
        several = [place for place, count in stages.items() if count > 1]
        if several:
            yield _course(some[[place in several for place in zip(some["network"], some["method"], strict=True)]])


def _course(rows: pd.DataFrame) -> Course:
    order = rows.groupby("asked_as", sort=False)["epoch"].mean().sort_values(kind="stable")
    boards = [board_of(rows[rows["asked_as"] == stage]) for stage in order.index]
    whole = board_of(rows)
    steps: dict[tuple[str, Column], list[tuple[str, OverSeeds]]] = {place: [] for place in whole.cells}
    places = {(group, column.network, column.method): (group, column) for group, column in whole.cells}
    for board in boards:
        names = {column: _named(board.rows, column) for column in board.columns}
        for (group, column), cell in board.cells.items():
            steps[places[group, column.network, column.method]].append((names[column], cell))
    told = {place: tuple(each) for place, each in steps.items()}
    return Course(whole, told, _sentence(rows, attack=whole.measurement.is_attack))


def _named(rows: pd.DataFrame, column: Column) -> str:
    """An epoch's name: its number, or what it was asked as if the number depends on the seed."""
    mine = rows[(rows["network"] == column.network) & (rows["method"] == column.method)]
    numbers = mine["epoch"].unique()
    return f"epoch {numbers[0]}" if len(numbers) == 1 else plain(str(mine["asked_as"].iloc[0]))


def _sentence(rows: pd.DataFrame, *, attack: bool) -> str:
    """What changes between the first epoch that was measured and the last."""
    first, last = (_values_at(rows, first=begins) for begins in (True, False))
    both = first.notna() & last.notna()
    first, last = first[both], last[both]
    if not len(first):
        return "The numbers are not defined at both ends of the training."
    if attack:
        low, high = (ends.groupby(level=TRAINED).min().mean() for ends in (first, last))
        return (
            "Between the first epoch measured and the last, the lowest robust accuracy of a group goes from "
            f"{percent(float(low))} to {percent(float(high))}, on average over trained networks."
        )
    kept, above, later = int(((first > 0) == (last > 0)).sum()), float((first > 0).mean()), float((last > 0).mean())
    by_chance = round(len(first) * (above * later + (1 - above) * (1 - later)))
    return (
        "Who lies closer than the rest at the first epoch measured, and who farther, is the same at the last in "
        f"{kept} of {len(first)} pairs of a group and a trained network. If the two epochs had nothing to do with each "
        f"other, it would be about {by_chance}."
    )


def _values_at(rows: pd.DataFrame, *, first: bool) -> pd.Series:
    """The numbers at the first epoch, or at the last, of each trained network, by group and network."""
    ordered = rows.sort_values("epoch", kind="stable", ascending=first)
    kept: pd.Series = ordered.drop_duplicates(["group", *TRAINED]).set_index(["group", *TRAINED])["value"].sort_index()
    return kept
