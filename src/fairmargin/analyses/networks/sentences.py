"""Sentences about a study of many networks: who is least robust in which of them, and what methods change."""

from collections.abc import Sequence

from fairmargin.analyses.networks.numbers import (
    JUDGED,
    Board,
    Course,
    Lowest,
    OverSeeds,
    Quantity,
    chance_of_agreement,
    change,
    grouped,
    lowest_of,
    methods_of,
    networks_of,
)
from fairmargin.analyses.summary import comparison
from fairmargin.core.bound import Bound
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST
from fairmargin.presentation.formatting import at_most, listed, percent, plain, quoted, several

METHOD = (
    "Within every network each group is compared with the rest of the same test samples; p-values are corrected by "
    "Holm over the groups of a partition. They are not corrected for the number of networks: at 95 % confidence, of "
    "100 networks whose groups do not differ, up to 5 would still show a significant group. All networks are tested on "
    "the same samples, so two networks that agree are weaker evidence than two independent studies."
)
SEEDS_READING = (
    "A seed decides the initial weights of a training and the order of its samples. Numbers are means over seeds. The "
    "brackets hold the lowest and the highest seed; for a single seed they hold the interval that the samples allow. "
    "The range over seeds shows how much the random choices of a training matter. It does not show how much other test "
    "samples would change."
)
MARKS_READING = (
    "“▼ 2 of 3” means: in two of three seeds the group is significantly less robust than the rest (▲: more robust). "
    "“signs differ” means that the group lies closer in some seeds and farther in others, so its mean says little."
)
UPPER_BOUNDS = (
    "Attacks find upper bounds: the boundary is at most as far away as shown, and a stronger attack may succeed where "
    "these failed. An attack that works less well on one group could pass for unfairness."
)
_ENOUGH_PAIRS = 6  # 2 · ½⁶ is the first below 5 %
_MOST_PLACES = 2  # partitions of which the answer over the whole study says something
_MOST_METHODS = 3
_QUALIFIER = {
    Bound.EXACT: "",
    Bound.UPPER: ", as far as attacks can tell",
    Bound.LOWER: ", as far as certificates can tell",
    Bound.NEITHER: ", judged by proxies",
}
_RANK = {Bound.EXACT: 0, Bound.UPPER: 1, Bound.LOWER: 2, Bound.NEITHER: 3}
_SIGNIFICANT = (LESS_ROBUST, MORE_ROBUST)

Place = tuple[str, str]
"""Data and partition."""


def answer_over_all(parts: Sequence[tuple[Place, Sequence[Board]]]) -> str:
    """Return the finding over the whole study, from the boards of each data and partition."""
    rows = [row for _, boards in parts for board in boards for row in board.rows]
    if not rows:
        return "This study has no answer: nothing could be compared."
    judged = len(networks_of(row for row in rows if row.verdict in JUDGED))
    unequal = len(networks_of(row for row in rows if row.verdict in _SIGNIFICANT))
    if not judged:
        return "This study has no answer: no group has enough samples to be compared with the rest."
    named = len({data for (data, _), _ in parts}) > 1
    if not unequal:
        where = "the only network" if judged == 1 else f"any of the {judged} networks"
        opening = f"No significant difference between groups was found in {where} that could be judged. This is no "
        opening += "proof of equality; the intervals show which differences remain possible."
        unknown = [answer_of(*part, named=named) for part in parts if not any(board.judges for board in part[1])]
        return " ".join([opening, *unknown])
    bounds = {main_board(boards).bound for _, boards in parts}
    qualifier = _QUALIFIER[bounds.pop()] if len(bounds) == 1 else ""
    where = "the only network" if judged == 1 else f"{_of(unequal, judged)} networks"
    opening = f"In {where} some groups differ significantly from the rest{qualifier}."
    places = [answer_of(*part, named=named) for part in parts[:_MOST_PLACES]]
    rest = len(parts) - len(places)
    more = [f"{rest} more {'partition is' if rest == 1 else 'partitions are'} described below."] if rest else []
    return " ".join([opening, *places, *more])


def main_board(boards: Sequence[Board]) -> Board:
    """Return the board the answer rests on: estimators before attacks, the best bound first, then in their order."""
    return min(boards, key=lambda board: (board.measurement.is_attack, _RANK[board.bound]))


def differs(board: Board) -> bool:
    """Return whether any group differs significantly from the rest in any network."""
    return any(row.verdict in _SIGNIFICANT for row in board.rows)


def answer_of(place: Place, boards: Sequence[Board], *, named: bool) -> str:
    """Return which group of one partition is least robust; `named` says whether to name the data."""
    data, partition = place
    where = f"By {quoted(partition)}{f' on {plain(data)}' if named else ''}"
    if not any(board.judges for board in boards):
        return f"{where} nothing could be judged: no group has enough samples, or none is comparable."
    main = main_board(boards)
    lowest = lowest_of(main.rows)
    if lowest is None:
        return f"{where} all groups are equal."
    if not differs(main):
        return f"{where} no group differs significantly from the rest."
    if main.measurement.is_attack:
        return f"{where}, {_attacked(main, lowest)}."
    text = f"{where}, {_closest(main, lowest)}"
    attacks = [(board, first) for board in boards if board.measurement.is_attack and (first := lowest_of(board.rows))]
    if not attacks:
        return f"{text}."
    strongest, first = max(attacks, key=lambda each: each[0].measurement.radius)
    one, same = len(first.groups) == 1, set(first.groups) == set(lowest.groups)
    also = ("it is also" if one else "they are also") if same else f"{_named(first)} {'is' if one else 'are'}"
    title = plain(strongest.measurement.title)
    return f"{text}; {also} misclassified most often under {title}, in {_of(first.times, first.networks)}."


def finding(board: Board) -> str:
    """Return what one measurement of one partition found."""
    lowest = lowest_of(board.rows)
    if lowest is None:
        where = "Under" if board.measurement.is_attack else "By"
        return f"{where} {plain(board.measurement.title)} all groups are equal in every network."
    return _capital(f"{_attacked(board, lowest) if board.measurement.is_attack else _closest(board, lowest)}.")


def agreement(board: Board) -> tuple[str, ...]:
    """Return which groups are less, or more, robust in every network, and on which groups networks disagree."""
    verdicts = {group: {row.verdict for row in rows} for group, rows in grouped(board.rows, lambda r: r.group).items()}
    ordered = [(quoted(group), verdicts[group]) for group in board.groups]
    networks = len(networks_of(board.rows))
    every = f"in all {networks} networks" if networks > 1 else "in the only network"
    findings = (
        (f"Significantly less robust {every}", [name for name, found in ordered if found == {LESS_ROBUST}]),
        (f"Significantly more robust {every}", [name for name, found in ordered if found == {MORE_ROBUST}]),
        (
            "Significantly less robust in some networks and significantly more robust in others",
            [name for name, found in ordered if found >= set(_SIGNIFICANT)],
        ),
        (
            "Not judged in any network (too few samples, or not comparable)",
            [name for name, found in ordered if not found & set(JUDGED)],
        ),
    )
    return tuple(f"{what}: {listed(names)}." for what, names in findings if names)


def methods_compared(compared: Sequence[Quantity], data: str = "") -> tuple[str, ...]:
    """Return what methods change against the first method, one sentence each; `data` is named if there are several."""
    first, *methods = methods_of(network for each in compared for network in each.values) or [""]
    opening = f"On {plain(data)}, compared with" if data else "Compared with"
    sentences = []
    for method in methods[:_MOST_METHODS]:
        found = [(each, change(each.values, method, first)) for each in _main_quantities(compared)]
        parts = [_changed(each, changed) for each, changed in found if changed is not None]
        if parts:
            sentences.append(f"{opening} {plain(first)}, {plain(method)} {listed(parts)}.")
    if len(methods) > _MOST_METHODS and sentences:
        sentences.append(f"{len(methods) - _MOST_METHODS} more methods are compared below.")
    return tuple(sentences)


def few_seeds(seeds: int) -> str:
    """Return how much a comparison over this number of seeds can show."""
    if seeds <= 1:
        return "Every network was trained once: another seed could reverse a small difference."
    same = (
        f"If two methods were equally good, all {seeds} seeds of a model would still point the same way with a "
        f"probability of {percent(chance_of_agreement(seeds))}"
    )
    if seeds < _ENOUGH_PAIRS:
        return f"{same}: with {seeds} seeds, differences between methods are hints, not proof."
    return f"{same}."


def counted(found: OverSeeds) -> str:
    """Return in how many pairs a number is higher, and lower.

    >>> counted(OverSeeds(0.1, 0.0, 0.2, 4, 4, above=3)), counted(OverSeeds(-0.1, -0.2, 0.1, 4, 4, below=2, above=1))
    ('higher in 3 of 4 pairs', 'higher in 1, lower in 2 of 4 pairs')
    """
    ways = [f"{way} in {times}" for way, times in (("higher", found.above), ("lower", found.below)) if times]
    return f"{', '.join(ways) or 'equal in all'} of {several(found.defined, 'pair')}"


def course_sentence(course: Course) -> str:
    """Return what changes between the first epoch that was measured and the last."""
    signs = course.signs
    by = plain(course.board.measurement.title)
    if not signs.groups:
        return f"By {by}, the numbers are not defined at both ends of the training."
    if course.board.measurement.is_attack:
        low, high = course.lowest
        return (
            f"Between the first epoch measured and the last, the lowest robust accuracy of a group under {by} goes "
            f"from {percent(low)} to {percent(high)}, on average over networks."
        )
    return (
        f"By {by}, σ has the same sign at the first epoch measured and at the last in "
        f"{round(signs.share * signs.groups)} of {signs.groups} pairs of a group and a network. If the two epochs were "
        f"unrelated, it would be about {round(signs.chance * signs.groups)}."
    )


def _closest(board: Board, lowest: Lowest) -> str:
    one = len(lowest.groups) == 1
    near = f"{'lies' if one else 'lie'} closest to the boundary"
    if board.bound is Bound.LOWER:
        near = f"{'has' if one else 'have'} the smallest certified radii"
    return (
        f"{_named(lowest)} {near} in {_networks(lowest)}{_significance(board, lowest)} "
        f"({comparison(lowest.found.mean, board.bound)} than everyone else on average, by "
        f"{plain(board.measurement.title)})"
    )


def _attacked(board: Board, lowest: Lowest) -> str:
    verb, them = ("is", "it") if len(lowest.groups) == 1 else ("are", "each")
    return (
        f"under {plain(board.measurement.title)} {_named(lowest)} {verb} misclassified most often in "
        f"{_networks(lowest)}{_significance(board, lowest)} ({at_most(board.bound)}{percent(lowest.found.mean)} of "
        f"{them} are still classified correctly on average)"
    )


def _significance(board: Board, lowest: Lowest) -> str:
    if not board.judges:
        return ", which may be chance: too few samples to judge"
    verb = "is" if len(lowest.groups) == 1 else "are"
    return f" and {verb} significantly less robust than the rest in {_of(lowest.found.less, lowest.networks)}"


def _named(lowest: Lowest) -> str:
    return listed([quoted(group) for group in lowest.groups])


def _networks(lowest: Lowest) -> str:
    return f"{_of(lowest.times, lowest.networks)} {'network' if lowest.networks == 1 else 'networks'}"


def _of(times: int, of: int) -> str:
    """Return a count out of a total.

    >>> _of(3, 4), _of(4, 4), _of(0, 4)
    ('3 of 4', 'all 4', 'none of 4')
    """
    return f"none of {of}" if not times else f"all {of}" if times == of > 1 else f"{times} of {of}"


def _main_quantities(compared: Sequence[Quantity]) -> list[Quantity]:
    """Return accuracy and one other number: what a method costs, and what the worst group gains."""
    accuracy = [each for each in compared if each.measurement is None]
    attacks = [each for each in compared if each.measurement is not None and each.measurement.is_attack]
    not_zero = [each for each in attacks if any(value > 0 for value in each.values.values())]
    distances = sorted((each for each in compared if each.is_signed), key=lambda each: _RANK[each.bound])
    return [*accuracy, *(not_zero[-1:] or distances[:1])]


def _changed(each: Quantity, found: OverSeeds) -> str:
    what = "accuracy" if each.measurement is None else f"the {each.name} of any group ({plain(each.about)})"
    size = percent(abs(found.mean)).replace(" %", " points")
    if not found.above and not found.below:
        return f"leaves {what} as it is"
    if found.above and found.below:  # the pairs disagree on the direction
        sign = "+" if found.mean > 0 else "−" if found.mean < 0 else ""
        return f"changes {what} by {sign}{size} on average ({counted(found)})"
    return f"{'raises' if found.above else 'lowers'} {what} by {size} on average ({counted(found)})"


def _capital(sentence: str) -> str:
    return f"{sentence[:1].upper()}{sentence[1:]}"
