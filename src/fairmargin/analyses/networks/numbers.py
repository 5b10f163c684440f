"""Numbers of a study of many networks: over seeds, of the lowest group, between methods and over epochs."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

from fairmargin.core.bound import Bound
from fairmargin.core.radius import spelled_radius
from fairmargin.errors import InputError
from fairmargin.inference.agreement import SignAgreement, sign_agreement
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE

if TYPE_CHECKING:
    import pandas as pd

ROBUST_ACCURACY = "robust_accuracy"
"""The kind of rows that hold robust accuracy; the others hold distances."""
AS_GIVEN = "as given"
"""The method of a network that was not trained in the study."""
JUDGED = (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE)
"""Verdicts of groups with enough samples."""
_NEEDED = (
    *("data", "partition", "group", "model", "method", "asked_as", "kind", "by", "norm", "bound", "verdict"),
    *("seed", "epoch", "size", "radius"),
)

K = TypeVar("K", bound=Hashable)
Network = tuple[str, str, str, int]
"""Data, model, method and seed: what a network is known by."""


@dataclass(frozen=True, slots=True)
class MeasuredBy:
    """What a network was measured with: an estimator, or an attack at a radius."""

    kind: str
    by: str
    radius: float
    norm: str

    @property
    def is_attack(self) -> bool:
        """Whether it gives robust accuracy; otherwise it gives σ."""
        return self.kind == ROBUST_ACCURACY

    @property
    def title(self) -> str:
        """Return its name in a sentence: "pgd at radius 8/255"."""
        return f"{self.by} at radius {spelled_radius(self.radius)}" if self.is_attack else self.by


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """One group of one network, measured once."""

    network: Network
    epoch: int
    asked_as: tuple[str, ...]  # names of the epoch in the study
    measurement: MeasuredBy
    bound: Bound  # direction of the error
    partition: str
    group: str
    size: int
    value: float  # σ or robust accuracy, with its interval; NaN where it is undefined
    low: float
    high: float
    verdict: str
    accuracy: float  # without an attack


def read_rows(frame: "pd.DataFrame") -> tuple[NetworkRow, ...]:
    """Return the rows of a table; a table without rows may lack its columns."""
    missing = [name for name in _NEEDED if name not in frame.columns]
    if len(frame) and missing:
        raise InputError(
            f"A table of many networks has the columns {', '.join(_NEEDED)}; {', '.join(missing)} is missing."
        )
    return tuple(_row(row) for row in frame.to_dict("records"))


def _row(given: Mapping[Hashable, Any]) -> NetworkRow:
    def number(name: str) -> float:
        value = float(given.get(name, math.nan))
        return value if math.isfinite(value) else math.nan

    attacked = given["kind"] == ROBUST_ACCURACY
    value = "robust_accuracy" if attacked else "sigma"
    data, model, method, partition, group = (
        str(given[name]) for name in ("data", "model", "method", "partition", "group")
    )
    return NetworkRow(
        network=(data, model, method, int(given["seed"])),
        epoch=int(given["epoch"]),
        asked_as=tuple(given["asked_as"].split(", ")),
        measurement=MeasuredBy(given["kind"], given["by"], number("radius") if attacked else 0.0, given["norm"]),
        bound=Bound.parse(given["bound"]),
        partition=partition,
        group=group,
        size=int(given["size"]),
        value=number(value),
        low=number(f"{value}_low"),
        high=number(f"{value}_high"),
        verdict=given["verdict"],
        accuracy=number("natural_accuracy" if attacked else "accuracy"),
    )


def grouped(rows: Iterable[NetworkRow], key: Callable[[NetworkRow], K]) -> dict[K, list[NetworkRow]]:
    """Return the rows of each value of `key`, in the order of the rows."""
    found: dict[K, list[NetworkRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def networks_of(rows: Iterable[NetworkRow]) -> list[Network]:
    """Return every network once, in the order of the rows."""
    return list(dict.fromkeys(row.network for row in rows))


def at_the_end(rows: Sequence[NetworkRow]) -> list[NetworkRow]:
    """Return the rows of each network's last epoch, or else of the latest epoch that was measured."""

    def rank(row: NetworkRow) -> tuple[bool, int]:
        return "last" in row.asked_as, row.epoch

    measured = grouped(rows, lambda row: (row.network, row.measurement))
    latest = {place: max(map(rank, some)) for place, some in measured.items()}
    return [row for row in rows if rank(row) == latest[row.network, row.measurement]]


# Over seeds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """A number over the seeds of a model and method."""

    mean: float  # over the seeds in which it is defined; NaN if there are none
    low: float  # the smallest and the largest of these; for a single seed, the ends of its interval
    high: float
    seeds: int
    defined: int  # number of seeds in which it is defined
    less: int = 0  # number of seeds in which the group is significantly less robust than the rest
    more: int = 0
    below: int = 0  # number of seeds in which it is below 0
    above: int = 0


def over_seeds(values: Sequence[float]) -> OverSeeds:
    """Return the mean and the range of a number over seeds."""
    known = [value for value in values if not math.isnan(value)]
    low, high = (min(known), max(known)) if known else (math.nan, math.nan)
    below, above = sum(value < 0 for value in known), sum(value > 0 for value in known)
    return OverSeeds(mean(known), low, high, len(values), len(known), below=below, above=above)


def mean(values: Iterable[float]) -> float:
    """Return the mean of the numbers that are defined; NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan


@dataclass(frozen=True, slots=True)
class NetworkColumn:
    """A model and a method, with the number of seeds."""

    model: str
    method: str
    seeds: int


@dataclass(frozen=True, slots=True)
class Board:
    """One measurement of one partition: a number over seeds for every group and column."""

    measurement: MeasuredBy
    bound: Bound  # NEITHER if networks were measured from different sides
    groups: tuple[str, ...]  # least robust first, by the mean over networks
    columns: tuple[NetworkColumn, ...]  # in the order of the study
    cells: Mapping[tuple[str, NetworkColumn], OverSeeds]
    rows: tuple[NetworkRow, ...]  # one for each network and group

    @property
    def judges(self) -> bool:
        """Whether any group has enough samples for a verdict."""
        return any(row.verdict in JUDGED for row in self.rows)


def boards_of(rows: Iterable[NetworkRow]) -> tuple[Board, ...]:
    """Return a board for each measurement, from the rows of one partition at one epoch."""
    return tuple(board_of(some) for some in grouped(rows, lambda row: row.measurement).values())


def board_of(rows: Sequence[NetworkRow]) -> Board:
    """Return the board of one measurement."""
    by_group = grouped(rows, lambda row: row.group)
    means = {group: mean(row.value for row in some) for group, some in by_group.items()}
    groups = sorted(means, key=lambda group: math.inf if math.isnan(means[group]) else means[group])
    cells: dict[tuple[str, NetworkColumn], OverSeeds] = {}
    columns = []
    for (model, method), some in grouped(rows, lambda row: row.network[1:3]).items():
        column = NetworkColumn(model, method, len(networks_of(some)))
        columns.append(column)
        found = grouped(some, lambda row: row.group)
        cells |= {(group, column): _cell(found.get(group, ()), column.seeds) for group in groups}
    bound = reduce(lambda one, other: one if one is other else Bound.NEITHER, (row.bound for row in rows))
    return Board(rows[0].measurement, bound, tuple(groups), tuple(columns), cells, tuple(rows))


def _cell(rows: Sequence[NetworkRow], seeds: int) -> OverSeeds:
    found, verdicts = over_seeds([row.value for row in rows]), Counter(row.verdict for row in rows)
    found = replace(found, seeds=seeds, less=verdicts[LESS_ROBUST], more=verdicts[MORE_ROBUST])
    return replace(found, low=rows[0].low, high=rows[0].high) if seeds == len(rows) == 1 else found


def accuracy_board(rows: Iterable[NetworkRow]) -> Board | None:
    """Return accuracy without an attack, as given by the first attack or else by the first estimator, if any."""
    found = grouped((row for row in rows if not math.isnan(row.accuracy)), lambda row: row.measurement)
    some = next((found[each] for each in sorted(found, key=lambda each: not each.is_attack)), None)
    if some is None:
        return None
    return board_of([replace(row, value=row.accuracy, low=math.nan, high=math.nan, verdict="") for row in some])


@dataclass(frozen=True, slots=True)
class Lowest:
    """The group that has the lowest number in most networks, or the groups of a tie."""

    groups: tuple[str, ...]  # several if they are the lowest equally often with the same mean
    times: int  # number of networks in which each is the lowest, alone or with others
    networks: int
    found: (
        OverSeeds  # the number of the first over all these networks; `less` counts networks where all are less robust
    )


def lowest_of(rows: Sequence[NetworkRow]) -> Lowest | None:
    """Return the group that is the lowest in most networks; None if all groups are equal in every network.

    Of several groups that are the lowest equally often, it is the one with the lowest mean, or all with this mean.
    """
    networks, by_group = grouped(rows, lambda row: row.network), grouped(rows, lambda row: row.group)
    times = Counter[str]()
    for some in networks.values():
        known = {row.group: row.value for row in some if not math.isnan(row.value)}
        if known and min(known.values()) < max(known.values()):
            times.update(group for group, value in known.items() if value == min(known.values()))
    if not times:
        return None
    most = max(times.values())
    means = {group: mean(row.value for row in by_group[group]) for group, count in times.items() if count == most}
    tied = tuple(group for group, value in means.items() if value == min(means.values()))
    less = [{row.network for row in by_group[group] if row.verdict == LESS_ROBUST} for group in tied]
    found = replace(_cell(by_group[tied[0]], len(networks)), less=len(set.intersection(*less)))
    return Lowest(tied, most, len(networks), found)


# Between methods -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of every network by which methods are compared, such as the lowest σ of any group by "deepfool"."""

    name: str
    about: str
    values: Mapping[Network, float]
    measurement: MeasuredBy | None  # None for accuracy without an attack
    bound: Bound

    @property
    def is_signed(self) -> bool:
        """Whether it may be below 0."""
        return self.measurement is not None and not self.measurement.is_attack


def quantities(boards: Sequence[Board], accuracy: Board | None) -> tuple[Quantity, ...]:
    """Return accuracy, the lowest σ by each estimator and the lowest robust accuracy under each attack."""
    found = []
    if accuracy is not None:
        whole = {network: _overall(some) for network, some in grouped(accuracy.rows, lambda row: row.network).items()}
        found.append(Quantity("accuracy", "all samples, no attack", whole, None, Bound.EXACT))
    for board in boards:
        name = "lowest robust accuracy" if board.measurement.is_attack else "lowest σ"
        by_network = grouped(board.rows, lambda row: row.network)
        values = {network: _lowest_value(some) for network, some in by_network.items()}
        found.append(Quantity(name, board.measurement.title, values, board.measurement, board.bound))
    return tuple(found)


def _lowest_value(rows: Iterable[NetworkRow]) -> float:
    return min((row.value for row in rows if not math.isnan(row.value)), default=math.nan)


def _overall(rows: Iterable[NetworkRow]) -> float:
    """Return the accuracy of all samples, whatever the sizes of the groups."""
    known = [row for row in rows if not math.isnan(row.value) and row.size]
    size = sum(row.size for row in known)
    return math.fsum(row.value * row.size for row in known) / size if size else math.nan


def methods_of(networks: Iterable[Network], model: str = "") -> list[str]:
    """Return the methods by which networks of a model, or of any model, were trained, in the order of the study."""
    found = (method for _, name, method, _ in networks if model in ("", name))
    return [method for method in dict.fromkeys(found) if method != AS_GIVEN]


def change(values: Mapping[Network, float], method: str, first: str, model: str = "") -> OverSeeds | None:
    """Return the differences to the first method over pairs of the same model and seed; None if there is no pair."""
    differences = [
        value - values[data, name, first, seed]
        for (data, name, used, seed), value in values.items()
        if used == method and model in ("", name) and (data, name, first, seed) in values
    ]
    known = [each for each in differences if not math.isnan(each)]
    return over_seeds(known) if known else None


def chance_of_agreement(pairs: int) -> float:
    """Return the probability that all pairs point the same way if there is no difference: 2 · ½ⁿ.

    >>> chance_of_agreement(2), chance_of_agreement(6)
    (0.5, 0.03125)
    """
    return min(1.0, 2.0 * 0.5**pairs)


# Over epochs ---------------------------------------------------------------------------------------------------------


def stages_of(rows: Sequence[NetworkRow]) -> dict[str, list[NetworkRow]]:
    """Return the rows of each epoch that was measured, of one model and method, in the order of the training.

    An epoch is named by its number, or as the study names it ("last") if the number depends on the seed.
    """
    names = dict.fromkeys(name for row in rows for name in row.asked_as)
    stages = {name: [row for row in rows if name in row.asked_as] for name in names}
    found: dict[str, list[NetworkRow]] = {}
    for name, some in sorted(stages.items(), key=lambda stage: mean(row.epoch for row in stage[1])):
        if some in found.values():  # the same epoch, named in two ways
            continue
        epochs = {row.epoch for row in some}
        found[f"epoch {epochs.pop()}" if len(epochs) == 1 else name] = some
    return found


@dataclass(frozen=True, slots=True)
class Course:
    """Changes of the numbers of one measurement between the first and the last epoch that was measured."""

    board: Board  # of the last epoch
    stages: Mapping[tuple[str, str], Mapping[str, Sequence[NetworkRow]]]  # rows by model and method, and epoch
    signs: SignAgreement  # of σ of each group and network at both epochs
    lowest: tuple[float, float]  # the lowest number of any group at both epochs, as a mean over networks


def courses_of(rows: Sequence[NetworkRow]) -> list[Course]:
    """Return the course of every measurement that was made at several epochs, from the rows of one partition."""
    found = []
    for some in grouped(rows, lambda row: row.measurement).values():
        stages = {place: stages_of(mine) for place, mine in grouped(some, lambda row: row.network[1:3]).items()}
        stages = {place: mine for place, mine in stages.items() if len(mine) > 1}
        if stages:
            found.append(_course([row for row in some if row.network[1:3] in stages], stages))
    return found


def _course(rows: Sequence[NetworkRow], stages: Mapping[tuple[str, str], Mapping[str, Sequence[NetworkRow]]]) -> Course:
    by_network = grouped(rows, lambda row: row.network)
    epochs = {network: [row.epoch for row in some] for network, some in by_network.items()}
    first = [row for row in rows if row.epoch == min(epochs[row.network])]
    last = [row for row in rows if row.epoch == max(epochs[row.network])]
    values = [{(row.network, row.group): row.value for row in some} for some in (first, last)]
    both = [place for place in values[0] if place in values[1]]
    signs = sign_agreement(*({str(i): each[place] for i, place in enumerate(both)} for each in values))
    low, high = (mean(map(_lowest_value, grouped(some, lambda row: row.network).values())) for some in (first, last))
    return Course(board_of(last), stages, signs, (low, high))
