"""A study of many networks as sections: which groups are least robust in which networks, and what methods change."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fairmargin.analyses.cells import GROUP, group_cell
from fairmargin.analyses.explanations import SIGMA_MEANING, SIGMA_TOPIC, bounds_explained, verdicts_explained
from fairmargin.analyses.networks.numbers import (
    AS_GIVEN,
    Board,
    Course,
    NetworkColumn,
    NetworkRow,
    OverSeeds,
    Quantity,
    accuracy_board,
    at_the_end,
    board_of,
    boards_of,
    change,
    courses_of,
    grouped,
    lowest_of,
    methods_of,
    networks_of,
    over_seeds,
    quantities,
    read_rows,
)
from fairmargin.analyses.networks.sentences import (
    MARKS_READING,
    METHOD,
    SEEDS_READING,
    UPPER_BOUNDS,
    agreement,
    answer_of,
    answer_over_all,
    counted,
    course_sentence,
    differs,
    few_seeds,
    finding,
    main_board,
    methods_compared,
)
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.presentation import section as shown
from fairmargin.presentation.formatting import fixed, listed, plain, several, table_percent
from fairmargin.presentation.section import LESS, MORE, Cell, Explanation, Mark, Matrix, Section, Table

if TYPE_CHECKING:
    import pandas as pd

_MANY_GROUPS, _MANY_COLUMNS = 12, 4  # larger tables have no room in a terminal: they are folded
_MANY_FAILURES = 10
_MANY_DATA = 2  # of more data the answer does not compare methods
_SEEDS = "Means over seeds; in brackets the lowest and the highest seed, or the interval of a single seed."
_MARKS = "▼ and ▲: in how many seeds the group is significantly less, or more, robust than the rest."


def sections_over_networks(
    frame: "pd.DataFrame", *, failures: Sequence[str] = (), meanings: Sequence[tuple[str, str]] = ()
) -> tuple[Section, ...]:
    """Return the sections of a study of many networks; the answer of the first section is that of the whole study.

    Parameters
    ----------
    frame
        One row per network, epoch, estimator or attack, partition and group, with the columns `data`, `model`,
        `method`, `seed`, `epoch`, `asked_as`, `kind`, `by`, `radius`, `norm`, `partition`, `group`, `size`, `bound`,
        `verdict`, and the numbers: `sigma`, `robust_accuracy` (both with `_low` and `_high`), `accuracy` and
        `natural_accuracy`. `kind` is "audit" or "robust_accuracy"; the epoch of a network that was not trained is 0,
        and its method "as given".
    failures
        Tasks that failed, each with the reason, as sentences.
    meanings
        Names of methods, estimators and attacks, each with an explanation.

    >>> import pandas
    >>> sections = sections_over_networks(pandas.DataFrame(), failures=["cifar10: no such file"])
    >>> [section.title for section in sections], sections[0].answer
    (['All networks', 'What could not be done'], 'This study has no answer: nothing could be compared.')
    """
    rows = read_rows(frame)
    parts = {place: tuple(some) for place, some in grouped(rows, lambda row: (row.network[0], row.partition)).items()}
    ends = {place: at_the_end(some) for place, some in parts.items()}
    boards = {place: boards_of(some) for place, some in ends.items()}
    accuracies = {place: accuracy_board(some) for place, some in ends.items()}
    compared = {place: quantities(boards[place], accuracies[place]) for place in parts}
    several_data = len({data for data, _ in parts}) > 1
    methods = {place: methods_compared(found, place[0] if several_data else "") for place, found in compared.items()}
    first = list({data: (data, partition) for data, partition in reversed(parts)}.values())[::-1][:_MANY_DATA]
    comparisons = list(dict.fromkeys(sentence for place in first for sentence in methods[place]))
    overview = _overview(rows, answer_over_all(list(boards.items())), comparisons, failures, meanings)
    found = [overview]
    for place, some in parts.items():
        answer = answer_of(place, boards[place], named=several_data)
        found.append(_part(place, answer, boards[place], compared[place], accuracies[place], courses_of(some)))
    return (*found, *_failures(failures))


# The whole study -----------------------------------------------------------------------------------------------------


def _overview(
    rows: Sequence[NetworkRow],
    answer: str,
    comparisons: Sequence[str],
    failures: Sequence[str],
    meanings: Sequence[tuple[str, str]],
) -> Section:
    networks = networks_of(rows)
    models, methods = dict.fromkeys(network[1] for network in networks), methods_of(networks)
    seeds = {network[3] for network in networks if network[2] != AS_GIVEN}
    counts = ((len(models), "model"), (len(methods), "method"), (len(seeds), "seed"))
    about = (several(len(networks), "network"), *(several(count, noun) for count, noun in counts if count))
    further = [
        ("What was run", _texts(("part", "in this study"), _what_was_run(rows), "Everything in this study")),
        ("All measurements", _measurements(rows)),
        ("What the names stand for", _texts(("name", "what it stands for"), _plain(meanings), "Names")),
    ]
    return Section(
        "All networks",
        about=" · ".join(about) if rows else "",
        answer=" ".join([answer, *comparisons[:1]]),
        sentences=tuple(comparisons[1:]),
        cautions=tuple(_cautions(rows, failures)),
        further=tuple(Section(title, tables=(table,)) for title, table in further if table.rows),
        explanations=(
            Explanation("Means over seeds", SEEDS_READING),
            Explanation("Means over seeds", MARKS_READING),
            Explanation(SIGMA_TOPIC, SIGMA_MEANING),
            *verdicts_explained(),
            *bounds_explained([bound for bound in Bound if any(row.bound is bound for row in rows)]),
        ),
        method=METHOD,
    )


def _cautions(rows: Sequence[NetworkRow], failures: Sequence[str]) -> Iterator[str]:
    if failures:
        tasks = "One task" if len(failures) == 1 else f"{len(failures):,} tasks"
        yield f"{tasks} could not be done, and the numbers are missing here; see “What could not be done”."
    if any(row.bound is Bound.UPPER for row in rows):
        yield UPPER_BOUNDS
    trained = [network for network in networks_of(rows) if network[2] != AS_GIVEN]
    places = [network[:3] for network in trained]
    seeds = max(map(places.count, dict.fromkeys(places)), default=0)
    if seeds == 1 or (seeds > 1 and len(methods_of(trained)) > 1):
        yield few_seeds(seeds)


def _what_was_run(rows: Sequence[NetworkRow]) -> Iterator[tuple[str, str]]:
    networks = networks_of(rows)
    trained = [network for network in networks if network[2] != AS_GIVEN]
    epochs = {row.epoch for row in rows if row.network[2] != AS_GIVEN}
    measured = dict.fromkeys(row.measurement for row in rows)
    parts = (
        ("Data", (network[0] for network in networks)),
        ("Groups", (row.partition for row in rows)),
        ("Models", (network[1] for network in networks)),
        ("Not trained here", (network[1] for network in networks if network[2] == AS_GIVEN)),
        ("Methods", methods_of(networks)),
        ("Seeds", map(str, sorted({network[3] for network in trained}))),
        ("Epochs measured", map(str, sorted(epochs))),
        ("Estimators", (each.by for each in measured if not each.is_attack)),
        ("Attacks", (each.title for each in measured if each.is_attack)),
    )
    for name, items in parts:
        names = [plain(item) for item in dict.fromkeys(items)]
        if names:
            yield name, listed(names, at_most=40)


def _measurements(rows: Sequence[NetworkRow]) -> Table:
    cells = [
        (
            Cell(plain(board.measurement.title)),
            Cell("robust accuracy" if board.measurement.is_attack else "distances, σ"),
            Cell(board.bound.words),
            Cell(str(Norm.parse(board.measurement.norm))),
            Cell(", ".join(dict.fromkeys(plain(word) for row in board.rows for word in row.asked_as))),
            Cell(f"{len(networks_of(board.rows)):,}"),
        )
        for board in boards_of(rows)
    ]
    names = ("measured with", "gives", "direction of error", "norm", "epochs")
    columns = (*(shown.Column(name, kind="text") for name in names), shown.Column("networks"))
    return Table(columns, tuple(cells), label="All measurements")


def _texts(names: tuple[str, str], rows: Iterable[tuple[str, str]], label: str) -> Table:
    columns = tuple(shown.Column(name, kind="text") for name in names)
    return Table(columns, tuple((Cell(name), Cell(text)) for name, text in rows), label=label)


def _plain(meanings: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(plain(name), text) for name, text in meanings]


def _failures(failures: Sequence[str]) -> Iterator[Section]:
    named = tuple(plain(failure) for failure in failures)
    if named:
        rest = named[_MANY_FAILURES:]
        yield Section(
            "What could not be done",
            about=several(len(named), "task"),
            sentences=named[:_MANY_FAILURES],
            notes=(
                "Everything else was done and is shown above. Run the same command again to do only what is missing.",
            ),
            further=(Section(f"{len(rest):,} more", sentences=rest),) if rest else (),
        )


# One partition of one data -------------------------------------------------------------------------------------------


def _part(
    place: tuple[str, str],
    answer: str,
    boards: Sequence[Board],
    compared: Sequence[Quantity],
    accuracy: Board | None,
    courses: Sequence[Course],
) -> Section:
    data, partition = map(plain, place)
    sizes = {row.group: row.size for row in boards[0].rows}
    large = any(len(board.groups) > _MANY_GROUPS or len(board.columns) > _MANY_COLUMNS for board in boards)
    main = main_board(boards)
    whole = [
        Section(
            f"Every group: {_what(board)}",
            sentences=agreement(board) if board is not main else (),
            tables=(_groups_table(board),) * large,
        )
        for board in boards
        if large or (board is not main and agreement(board))
    ]
    if accuracy is not None:
        whole.append(Section("Accuracy without an attack", tables=(_groups_table(accuracy, natural=True),)))
    return Section(
        f"By {partition}",
        about=f"{data} · {sum(sizes.values()):,} test samples in {several(len(sizes), 'group')}",
        answer=answer,
        sentences=(
            *agreement(main),
            *(finding(board) for board in boards if board is not main or not differs(main)),
        ),
        tables=tuple(map(_lowest_table if large else _groups_table, boards)),
        figures=tuple(_sigma_matrix(board) for board in boards if not board.measurement.is_attack),
        further=(*whole, *_methods_section(compared), *_courses_section(courses)),
    )


def _what(board: Board) -> str:
    """Return what the numbers of a board are: "σ by deepfool"."""
    kind = "robust accuracy under" if board.measurement.is_attack else "σ by"
    return f"{kind} {plain(board.measurement.title)}"


def _measured(board: Board) -> str:
    what = _what(board)
    name = f"{what[:1].upper()}{what[1:]}" if board.measurement.is_attack else what  # a capital σ is another symbol
    return f"{name}: {board.bound.words}, {Norm.parse(board.measurement.norm)} norm."


def _groups_table(board: Board, *, natural: bool = False) -> Table:
    """Return groups × columns; where shares are shown the lowest of each column is marked."""
    shares = natural or board.measurement.is_attack
    lowest = {column: _lowest_in(board, column) if shares else set() for column in board.columns}
    rows = tuple(
        (
            group_cell(group),
            *(
                _cell(board.cells[group, column], signed=not shares, lowest=group in lowest[column])
                for column in board.columns
            ),
        )
        for group in board.groups
    )
    what = "accuracy without an attack" if natural else _what(board)
    about = "The share of each group that is classified correctly." if natural else _measured(board)
    marked = "The lowest of each column is marked." if shares else ""
    return Table(
        columns=(replace(GROUP, detail=what), *map(_heading, board.columns)),
        rows=rows,
        caption=" ".join(filter(None, (about, _SEEDS, "" if natural else _MARKS, marked))),
        label=f"{what}, by {plain(board.rows[0].partition)}",
    )


def _heading(column: NetworkColumn) -> shown.Column:
    return shown.Column(plain(column.model), detail=_trained(column))


def _trained(column: NetworkColumn) -> str:
    return column.method if column.method == AS_GIVEN else f"{plain(column.method)}, {several(column.seeds, 'seed')}"


def _lowest_in(board: Board, column: NetworkColumn) -> set[str]:
    """Return the groups of the smallest mean; none if all are equal."""
    means = {group: board.cells[group, column].mean for group in board.groups}
    known = [mean for mean in means.values() if not math.isnan(mean)]
    return {group for group in means if means[group] == min(known)} if len(set(known)) > 1 else set()


def _lowest_table(board: Board) -> Table:
    """Return the lowest group of each model and method, for boards that are too large to be shown whole."""
    rows = []
    for column in board.columns:
        lowest = lowest_of([row for row in board.rows if row.network[1:3] == (column.model, column.method)])
        cells: tuple[Cell, ...] = (Cell("all equal"), Cell("–"), Cell("–"), Cell("–"))
        if lowest is not None:
            counts = (lowest.times, lowest.found.less)
            number = replace(_cell(lowest.found, signed=not board.measurement.is_attack), note="", mark="")
            cells = (
                Cell(listed([group_cell(group).text for group in lowest.groups])),
                number,
                *(Cell(f"{count} of {lowest.networks}") for count in counts),
            )
        rows.append((Cell(plain(column.model)), Cell(_trained(column)), *cells))
    return Table(
        columns=(
            shown.Column("model", kind="text"),
            shown.Column("method", kind="text"),
            shown.Column("lowest group", kind="text"),
            shown.Column("robust accuracy" if board.measurement.is_attack else "σ", plain(board.measurement.title)),
            shown.Column("lowest in", "seeds"),
            shown.Column("significant in", "seeds", hidden=True),
        ),
        rows=tuple(rows),
        caption=(
            f"{_measured(board)} The lowest group of each model and method, and in how many seeds it is the lowest and "
            f"significantly less robust than the rest. {_SEEDS}"
        ),
        label=f"The lowest {_what(board)}, by {plain(board.rows[0].partition)}",
    )


def _cell(found: OverSeeds, *, signed: bool, lowest: bool = False) -> Cell:
    if not found.defined:
        return Cell("undefined")
    one_value = math.isnan(found.low + found.high) or (found.seeds == 1 and found.low == found.high)
    notes = (
        "lowest" if lowest else "",
        f"▼ {found.less} of {found.seeds}" if found.less else "",
        f"▲ {found.more} of {found.seeds}" if found.more else "",
        "signs differ" if signed and found.below and found.above else "",
        f"defined in {found.defined} of {found.seeds}" if found.defined < found.seeds else "",
    )
    less, more = bool(found.less or lowest), bool(found.more)
    mark: Mark = "" if less == more else LESS if less else MORE
    interval = "" if one_value else _range(found, signed=signed)
    return Cell(table_percent(found.mean, signed=signed), interval, ", ".join(filter(None, notes)), mark)


def _range(found: OverSeeds, *, signed: bool) -> str:
    return f"[{fixed(100 * found.low, 1, signed=signed)}, {fixed(100 * found.high, 1, signed=signed)}]"


def _sigma_matrix(board: Board) -> Matrix:
    texts = [[_described(board, group, column) for column in board.columns] for group in board.groups]
    return Matrix(
        title=f"σ of every group, by {plain(board.measurement.title)}.",
        label="σ",
        rows=board.groups,
        columns=tuple((column.model, column.method) for column in board.columns),
        values=tuple(tuple(board.cells[group, column].mean for column in board.columns) for group in board.groups),
        texts=tuple(map(tuple, texts)),
        caption=(
            "Orange: closer to the boundary than everyone else, so easier to fool; blue: farther; white: as far as the "
            "rest; grey: undefined. Means over seeds, at the end of training. The strongest colour stands for the "
            "largest number, but for at least 25 % and at most 100 %."
        ),
        alt=f"σ of every group in every network, as colours. {finding(board)}",
    )


def _described(board: Board, group: str, column: NetworkColumn) -> str:
    cell = _cell(board.cells[group, column], signed=True)
    number = f"σ = {cell.text} {cell.interval}".strip() if cell.text != "undefined" else "σ is undefined"
    return f"{plain(group)}, {plain(column.model)}, {plain(column.method)}: {number}"


# Methods and epochs --------------------------------------------------------------------------------------------------


def _methods_section(compared: Sequence[Quantity]) -> Iterator[Section]:
    """Yield every method beside the first one, in the models that were trained by several methods."""
    networks = list(dict.fromkeys(network for each in compared for network in each.values))
    models = dict.fromkeys(model for _, model, _, _ in networks)
    by_model = {model: methods for model in models if len(methods := methods_of(networks, model)) > 1}
    if not by_model:
        return
    first = next(iter(by_model.values()))[0]
    seeds = max(sum(network[1:3] == (model, used[0]) for network in networks) for model, used in by_model.items())
    tables = []
    for each in compared:
        rows = [
            (
                Cell(plain(model)),
                Cell(plain(method)),
                _cell(over_seeds(_of(each, model, method)), signed=each.is_signed),
                *_compared(change(each.values, method, methods[0], model) if method != methods[0] else None),
            )
            for model, methods in by_model.items()
            for method in methods
        ]
        against = (
            f"against {plain(first)}" if len({used[0] for used in by_model.values()}) == 1 else "against the first"
        )
        name = f"{each.name}, {plain(each.about)}"
        tables.append(
            Table(
                columns=(
                    shown.Column("model", kind="text"),
                    shown.Column("method", kind="text"),
                    shown.Column(each.name, plain(each.about)),
                    shown.Column("difference", f"{against}, in points"),
                    shown.Column("direction", kind="text"),
                ),
                rows=tuple(rows),
                caption=(
                    f"{name[:1].upper()}{name[1:]}. “Lowest” is the number of whichever group is lowest in each "
                    "network. Differences are means over pairs of the same model and seed; in brackets the smallest "
                    "and the largest."
                    if each.measurement is not None
                    else "Accuracy of all samples. Differences are means over pairs of the same model and seed; in "
                    "brackets the smallest and the largest."
                ),
                label=f"Methods compared: {name}",
            )
        )
    sentences = (*methods_compared(compared), few_seeds(seeds))
    yield Section(f"Methods against {plain(first)}", sentences=sentences, tables=tuple(tables))


def _of(each: Quantity, model: str, method: str) -> list[float]:
    return [value for network, value in each.values.items() if network[1:3] == (model, method)]


def _compared(found: OverSeeds | None) -> tuple[Cell, Cell]:
    """Return the difference to the first method, and in how many pairs it is higher or lower."""
    if found is None:
        return Cell("–"), Cell("–")
    mark: Mark = MORE if found.mean > 0 else LESS if found.mean < 0 else ""
    limits = _range(found, signed=True) if found.defined > 1 else ""
    return Cell(fixed(100 * found.mean, 1, signed=True), limits, mark=mark), Cell(counted(found))


def _courses_section(courses: Sequence[Course]) -> Iterator[Section]:
    for course in courses:
        title = plain(course.board.measurement.title)
        tables = tuple(_course_table(course, *place) for place in course.stages)
        yield Section(f"During training: {title}", sentences=(course_sentence(course),), tables=tables)


def _course_table(course: Course, model: str, method: str) -> Table:
    """Return groups × epochs of one model and method."""
    stages = {name: board_of(rows) for name, rows in course.stages[model, method].items()}
    signed = not course.board.measurement.is_attack
    known = {group for board in stages.values() for group in board.groups}
    rows = tuple(
        (
            group_cell(group),
            *(
                _cell(found, signed=signed) if (found := board.cells.get((group, board.columns[0]))) else Cell("–")
                for board in stages.values()
            ),
        )
        for group in course.board.groups
        if group in known
    )
    name = f"{plain(model)}, {plain(method)}"
    return Table(
        columns=(replace(GROUP, detail=name), *map(shown.Column, stages)),
        rows=rows,
        caption=f"{name}: {_what(course.board)} after each epoch that was measured. {_SEEDS} {_MARKS}",
        label=f"{_what(course.board)} at each epoch: {name}",
    )
