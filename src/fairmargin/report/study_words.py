"""What a study found, in sentences for people who build no models. Plain text, as in `words`."""

import math
from collections.abc import Sequence

import pandas as pd

from fairmargin.analyses.summary import comparison
from fairmargin.core.bound import Bound
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE
from fairmargin.presentation.formatting import at_most, listed, number, percent, plain, quoted
from fairmargin.report.study_methods import Change, Quantity, chance_of_agreement, changes_over, differences
from fairmargin.report.study_numbers import GIVEN, TRAINED, Board, Lowest, lowest_of

METHOD = (
    "In every trained network each group is compared with the rest of the same test samples; p-values are corrected by "
    "Holm over the groups of a partition. They are not corrected for the number of networks, which are counted and not "
    "picked: at 95 % confidence, of 100 networks whose groups do not differ, up to 5 would show a significant group "
    "all the same. All networks are tested on the same samples, so that two that agree are less than two independent "
    "witnesses."
)
SEEDS_READING = (
    "A seed decides how a training begins and in which order it sees the samples. Numbers are means over seeds; in "
    "brackets stand the lowest and the highest seed, or, where there is one seed alone, the interval that the samples "
    "allow. The bracket of seeds tells how much the luck of a training matters, not how much other test samples would "
    "change."
)
MARKS_READING = (
    "▼ 2 of 3 says: in two of three seeds the group is significantly less robust than the rest (▲: more robust). "
    "“signs differ” says that it lies closer in some seeds and farther in others, so that the mean says little."
)
_NOT_JUDGED = "which may be chance: too few samples to judge"
_ENOUGH_PAIRS = 6  # 2 · ½⁶ is the first below 5 %
_QUALIFIER = {
    Bound.EXACT: "",
    Bound.UPPER: ", as far as attacks can tell",
    Bound.LOWER: ", as far as certificates can tell",
    Bound.NEITHER: ", judged by proxies",
}
_JUDGED = (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE)
_RANK = {Bound.EXACT: 0, Bound.UPPER: 1, Bound.LOWER: 2, Bound.NEITHER: 3}


def main_board(boards: Sequence[Board]) -> Board:
    """The one that the answer rests on: estimators before attacks, the best bound first, then as in the study."""
    return min(boards, key=lambda board: (board.measurement.is_attack, _RANK[board.measurement.bound]))


def answer(parts: Sequence[tuple[str, str, Sequence[Board]]], methods: Sequence[str]) -> str:
    """The finding over the whole study, in a paragraph.

    Parameters
    ----------
    parts
        Data, partition and boards of each section.
    methods
        Sentences that compare methods.
    """
    boards = [board for *_, some in parts for board in some]
    if not boards:
        return "This study cannot tell: nothing could be compared."
    rows = pd.concat([board.rows for board in boards])
    unequal, judged = _networks(rows, (LESS_ROBUST, MORE_ROBUST)), _networks(rows, _JUDGED)
    if not judged:
        return "This study cannot tell: no group has enough samples to be compared with the rest."
    several = len({data for data, *_ in parts}) > 1
    if not unequal:
        any_ = "the one trained network" if judged == 1 else f"any of the {judged} trained networks"
        said = f"No significant difference was found in {any_} that could be judged."
        said = f"{said} That is no proof of equality; the intervals show which differences remain possible."
        unknown = [_unjudged(_where(data if several else "", name)) for data, name, some in parts if not _judges(some)]
        return " ".join([said, *unknown])
    bounds = {main_board(some).measurement.bound for *_, some in parts}
    qualifier = _QUALIFIER[bounds.pop()] if len(bounds) == 1 else ""
    of = f"all {judged}" if unequal == judged else f"{unequal} of {judged}"
    first = f"In {of} trained networks not every group is equally hard to fool{qualifier}."
    places = [_in_short(data if several else "", partition, some) for data, partition, some in parts]
    more = [] if len(places) <= 4 else [f"{len(places) - 4} more partitions are told of below."]
    return " ".join([first, *places[:4], *more, *methods])


def _networks(rows: pd.DataFrame, verdicts: Sequence[str]) -> int:
    """How many trained networks have a group of such a verdict."""
    some = rows[rows["verdict"].isin(verdicts)]
    return len(some[["data", *TRAINED]].drop_duplicates())


def _judges(boards: Sequence[Board]) -> bool:
    """Whether any group was judged by any of the measurements."""
    return any(board.rows["verdict"].isin(_JUDGED).any() for board in boards)


def _where(data: str, partition: str) -> str:
    return f"By {quoted(partition)}{f' on {plain(data)}' if data else ''}"


def _unjudged(where: str) -> str:
    return f"{where} nothing could be judged: no group has enough samples, or none is comparable."


def _in_short(data: str, partition: str, boards: Sequence[Board]) -> str:
    """Who is reached first by one partition, in a sentence or two."""
    where = _where(data, partition)
    if not _judges(boards):
        return _unjudged(where)
    main, attacks = main_board(boards), [board for board in boards if board.measurement.is_attack]
    lowest, bound = lowest_of(main), main.measurement.bound
    if lowest is None:
        return f"{where} all groups come out equal."
    if not main.rows["verdict"].isin((LESS_ROBUST, MORE_ROBUST)).any():
        return f"{where} no group differs significantly from the rest."
    if main.measurement.is_attack:
        return f"{where}, {_attacked(main, lowest)}."
    said = f"{where}, {quoted(lowest.group)} {_near(bound)} in {_of(lowest)} trained networks"
    said = f"{said} ({comparison(lowest.mean, bound)} than everyone else on average, by {plain(main.measurement.by)})"
    fallen = [found for board in attacks if (found := lowest_of(board)) is not None]
    if not attacks or not fallen:
        return f"{said}."
    strongest = max(attacks, key=lambda board: (lowest_of(board) is not None, board.measurement.radius))
    first = lowest_of(strongest)
    assert first is not None
    also = "it is also" if first.group == lowest.group else f"{quoted(first.group)} is"
    return f"{said}; {also} fooled most often under {plain(strongest.measurement.title)}, in {_of(first)}."


def _near(bound: Bound) -> str:
    return "has the smallest certified radii" if bound is Bound.LOWER else "lies closest to the boundary"


def _of(lowest: Lowest) -> str:
    return _count(lowest.times, lowest.networks)


def _count(times: int, of: int) -> str:
    """So many of so many.

    >>> _count(3, 4), _count(4, 4), _count(0, 4)
    ('3 of 4', 'all 4', 'none of 4')
    """
    return f"none of {of}" if not times else f"all {of}" if times == of > 1 else f"{times} of {of}"


def finding(board: Board) -> str:
    """What one measurement of one partition found, in a sentence."""
    lowest = lowest_of(board)
    if lowest is None:
        return "All groups come out equal in every network."
    if board.measurement.is_attack:
        return f"{_capital(_attacked(board, lowest))}."
    bound = board.measurement.bound
    towards = "smaller than that of" if bound is Bound.LOWER else "closer than"
    many = f"significantly {towards} everyone else in {_count(lowest.significant, lowest.networks)}"
    many = many if _judges([board]) else _NOT_JUDGED
    return (
        f"{quoted(lowest.group)} {_near(bound)} in {_of(lowest)} trained networks, {many}; on average it is "
        f"{comparison(lowest.mean, bound)}."
    )


def _attacked(board: Board, lowest: Lowest) -> str:
    hedge = at_most(board.measurement.bound)
    many = f"it is significantly less robust than the rest in {_count(lowest.significant, lowest.networks)}"
    many = many if _judges([board]) else _NOT_JUDGED
    return (
        f"under {plain(board.measurement.title)} {quoted(lowest.group)} is fooled most often in {_of(lowest)} trained "
        f"networks; {hedge}{percent(lowest.mean)} of it withstand on average, and {many}"
    )


def agreement(board: Board) -> tuple[str, ...]:
    """Who is less, or more, robust in every network, and about whom networks contradict each other."""
    verdicts = board.rows.groupby("group", sort=False)["verdict"].agg(list)
    found = {group: verdicts[group] for group in board.groups}
    always_less = [quoted(group) for group, all_ in found.items() if set(all_) == {LESS_ROBUST}]
    always_more = [quoted(group) for group, all_ in found.items() if set(all_) == {MORE_ROBUST}]
    torn = [quoted(group) for group, all_ in found.items() if {LESS_ROBUST, MORE_ROBUST} <= set(all_)]
    unjudged = [quoted(group) for group, all_ in found.items() if not set(_JUDGED) & set(all_)]
    every = f"in all {board.networks} trained networks" if board.networks > 1 else "in the one network"
    sentences = []
    if always_less:
        sentences.append(f"Significantly less robust {every}: {listed(always_less)}.")
    if always_more:
        sentences.append(f"Significantly more robust {every}: {listed(always_more)}.")
    if torn:
        sentences.append(f"Less robust in some networks and more robust in others, both significantly: {listed(torn)}.")
    if unjudged:
        sentences.append(f"Not judged in any network (too few samples, or not comparable): {listed(unjudged)}.")
    return tuple(sentences)


def methods_in_short(asked: Sequence[Quantity], data: str = "") -> tuple[str, ...]:
    """What methods change against the first of them, a sentence each, for the answer: at most three methods.

    Parameters
    ----------
    asked
        By what methods are compared.
    data
        On which data, if there are several.
    """
    columns = [column.method for each in asked for column in each.board.columns]
    first, *methods = [method for method in dict.fromkeys(columns) if method != GIVEN] or [""]
    opening = f"On {plain(data)}, against" if data else "Against"
    sentences = []
    for method in methods[:3]:
        parts = [part for each in _telling(asked) if (part := _changed(each, method, first))]
        if parts:
            sentences.append(f"{opening} {plain(first)}, {plain(method)} {listed(parts)}.")
    if len(methods) > 3 and sentences:
        sentences.append(f"{len(methods) - 3} more methods are compared below.")
    if sentences:
        seeds = max(_pairs(asked, method, first) for method in methods)
        sentences += [f"With {seeds} seed{'' if seeds == 1 else 's'} these are hints, no proofs."] * (
            seeds < _ENOUGH_PAIRS
        )
    return tuple(sentences)


def _telling(asked: Sequence[Quantity]) -> list[Quantity]:
    """Few quantities say enough at the top: what it costs, and what it gives to the worst group."""
    natural = [each for each in asked if each.name == "accuracy"]
    attacks = [each for each in asked if each.board.measurement.is_attack and each not in natural]
    felt = [each for each in attacks if (each.values > 0).any()]  # beyond some radius nobody withstands
    others = [each for each in asked if each not in natural and each not in attacks]
    chosen = felt[-1:] or sorted(others, key=lambda each: _RANK[each.board.measurement.bound])[:1]
    return [*natural, *chosen]


def _changed(each: Quantity, method: str, first: str) -> str:
    found = changes_over(differences(each.values, method, first))
    if found is None:
        return ""
    what = "accuracy" if each.name == "accuracy" else f"the {each.name} of any group ({plain(each.about)})"
    if not found.higher and not found.lower:
        return f"leaves {what} as it is"
    if found.higher and found.lower:  # no direction that a verb could promise
        sign = "+" if found.mean > 0 else ""
        return f"changes {what} by {sign}{points(found.mean)} on average ({counted(found)})"
    direction = "raises" if found.mean > 0 else "lowers"
    return f"{direction} {what} by {points(abs(found.mean))} on average ({counted(found)})"


def counted(found: Change) -> str:
    """In how many pairs the number is higher, and lower.

    >>> counted(Change(0.1, 0.0, 0.2, 4, 3, 0)), counted(Change(-0.1, -0.2, 0.1, 4, 1, 2))
    ('higher in 3 of 4 pairs', 'higher in 1, lower in 2 of 4 pairs')
    """
    ways = [f"{way} in {times}" for way, times in (("higher", found.higher), ("lower", found.lower)) if times]
    return f"{', '.join(ways) or 'equal in all'} of {found.pairs} pair{'' if found.pairs == 1 else 's'}"


def _pairs(asked: Sequence[Quantity], method: str, first: str) -> int:
    """Of one network: how many seeds there are in pairs, at most."""
    found = [differences(each.values, method, first) for each in asked]
    counts = [int(each.groupby(level="network").size().max()) for each in found if len(each)]
    return max(counts, default=0)


def few_seeds(seeds: int) -> str:
    """How much a comparison over so many seeds can say."""
    if seeds <= 1:
        return "Every network was trained once: another seed could turn a small difference round."
    chance = percent(chance_of_agreement(seeds))
    same = (
        f"If two methods were equal, all {seeds} seeds of a network would still point the same way with {chance} chance"
    )
    if seeds < _ENOUGH_PAIRS:
        return f"{same}: with {seeds} seeds, differences between methods are hints and no proofs."
    return f"{same}."


def points(share: float) -> str:
    """A difference of shares.

    >>> points(0.031), points(0.25), points(float("nan"))
    ('3.1 points', '25 points', 'undefined')
    """
    return percent(share).replace(" %", " points") if math.isfinite(share) else number(share)


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"
