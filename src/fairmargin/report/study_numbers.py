"""The table of a study, read for its page: networks at the end of their training, and each number over seeds."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pandas as pd

from fairmargin.core.bound import Bound
from fairmargin.core.radius import spelled_radius
from fairmargin.errors import InputError
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE

ATTACK = "attack"  # the kind of rows that tell what came of an attack at a radius; the others hold distances
GIVEN = "as given"  # the method of a network that came with its weights
_NAMES = ("data", "network", "method", "asked_as", "kind", "by", "norm", "partition", "group", "bound", "verdict")
_NEEDED = (*_NAMES, "seed", "epoch", "radius", "size")
_NUMBERS = ("sigma", "robust_accuracy", "accuracy", "natural_accuracy")
TRAINED = ["network", "method", "seed"]  # what makes a trained network, on given data
MEASURED = ["kind", "by", "radius"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """By what was measured: an estimator, or an attack at a radius."""

    kind: str
    by: str
    radius: float
    norm: str
    bound: Bound

    @property
    def is_attack(self) -> bool:
        """Whether it tells robust accuracy, and not σ."""
        return self.kind == ATTACK

    @property
    def title(self) -> str:
        """For people: "pgd at radius 8/255"."""
        return f"{self.by} at radius {spelled_radius(self.radius)}" if self.is_attack else self.by


@dataclass(frozen=True, slots=True)
class Column:
    """A network and a method, trained with one seed or several."""

    network: str
    method: str
    seeds: int


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """A number of a group over the seeds of a column.

    Parameters
    ----------
    mean
        Over the seeds in which it is defined; NaN if there is none.
    low, high
        The smallest and largest of these seeds; of one seed alone, the ends of its interval.
    seeds, defined
        How many seeds there are, and in how many the number is defined.
    less, more
        In how many the group is significantly less robust than the rest, and more robust.
    judged
        In how many there is a verdict at all.
    below, above
        In how many the number lies below 0, and above.
    """

    mean: float
    low: float
    high: float
    seeds: int
    defined: int
    less: int = 0
    more: int = 0
    judged: int = 0
    below: int = 0
    above: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One measurement of one partition: a number over seeds for every group and column.

    Parameters
    ----------
    measurement
        By what it was measured.
    groups
        Least robust first, on average over trained networks.
    columns
        In the order of the study.
    cells
        By group and column.
    rows
        One for each trained network and group.
    """

    measurement: Measurement
    groups: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[str, Column], OverSeeds]
    rows: pd.DataFrame

    @property
    def networks(self) -> int:
        """How many trained networks it tells of."""
        return len(self.rows[TRAINED].drop_duplicates())


def read_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The table of a study, with `value` (σ, or robust accuracy) and `natural` (accuracy without attack) in each row.

    Parameters
    ----------
    frame
        What `Grid.to_frame` gives; a table without rows stays one.
    """
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing and len(frame):
        raise InputError(f"The table of a study has the columns {', '.join(_NEEDED)}; {', '.join(missing)} is missing.")
    columns = [*_NEEDED, *_NUMBERS, *(f"{name}_{end}" for name in _NUMBERS[:2] for end in ("low", "high"))]
    table = frame.reindex(columns=columns).reset_index(drop=True)
    table = table.astype(dict.fromkeys(_NAMES, str) | {"seed": int, "epoch": int, "size": int})
    table["radius"] = table["radius"].astype(float).fillna(0.0)
    attacked = table["kind"] == ATTACK
    for end in ("", "_low", "_high"):
        numbers = table[f"robust_accuracy{end}"].where(attacked, table[f"sigma{end}"]).astype(float)
        table[f"value{end}"] = numbers.where(np.isfinite(numbers))
    table["natural"] = table["natural_accuracy"].where(attacked, table["accuracy"]).astype(float)
    return table


def at_the_end(table: pd.DataFrame) -> pd.DataFrame:
    """The rows at each network's last epoch, or else at the latest that was measured."""
    is_last = table["asked_as"].map(lambda words: "last" in words.split(", "))
    rank = table["epoch"] + is_last.astype(int) * (table["epoch"].max() + 1 if len(table) else 0)
    latest = rank.groupby([table[name] for name in ("data", *TRAINED, *MEASURED)]).transform("max")
    return table[rank == latest]


def boards_of(rows: pd.DataFrame) -> tuple[Board, ...]:
    """A board for each measurement, from the rows of one partition of one data at one epoch."""
    return tuple(board_of(some) for _, some in rows.groupby(MEASURED, sort=False))


def board_of(rows: pd.DataFrame, value: str = "value") -> Board:
    """A board from the rows of one measurement; `value` names the column of the number."""
    # Plain Python: a page has hundreds of boards of a few numbers each, for which pandas takes ten times as long.
    names = ("group", "network", "method", "seed", value)
    of_group: dict[str, list[float]] = {}
    seeds: dict[tuple[str, str], set[int]] = {}
    for group, network, method, seed, number in zip(*(rows[name].tolist() for name in names), strict=True):
        of_group.setdefault(group, []).append(number)
        seeds.setdefault((network, method), set()).add(seed)
    means = {group: _mean(numbers) for group, numbers in of_group.items()}
    groups = tuple(sorted(means, key=lambda group: math.inf if math.isnan(means[group]) else means[group]))
    columns = {place: Column(*place, len(known)) for place, known in seeds.items()}
    nothing = {(group, column): _nothing(column) for group in groups for column in columns.values()}
    found = {(group, columns[network, method]): cell for (group, network, method), cell in _cells(rows, value)}
    return Board(_measurement(rows), groups, tuple(columns.values()), nothing | found, rows.assign(value=rows[value]))


def _nothing(column: Column) -> OverSeeds:
    return OverSeeds(math.nan, math.nan, math.nan, column.seeds, 0)


def _mean(numbers: Sequence[float]) -> float:
    known = [number for number in numbers if not math.isnan(number)]
    return math.fsum(known) / len(known) if known else math.nan


def _cells(rows: pd.DataFrame, value: str) -> Iterator[tuple[tuple[str, str, str], OverSeeds]]:
    """Each group, network and method with its number over seeds; verdicts and intervals are of the main number."""
    main = value == "value"
    ends = ("value_low", "value_high") if main else (value, value)
    gathered: dict[tuple[str, str, str], list[tuple[float, float, float, str]]] = {}
    names = ("group", "network", "method", value, *ends, "verdict")
    for group, network, method, *told in zip(*(rows[name].tolist() for name in names), strict=True):
        gathered.setdefault((group, network, method), []).append(tuple(told))
    for place, seeds in gathered.items():
        known = [number for number, *_ in seeds if not math.isnan(number)]
        verdicts = [verdict for *_, verdict in seeds] if main else []
        low, high = (min(known), max(known)) if known else (math.nan, math.nan)
        if len(seeds) == 1:
            _, low, high, _ = seeds[0]
        less, more, equal = (verdicts.count(verdict) for verdict in (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE))
        below, above = sum(number < 0 for number in known), sum(number > 0 for number in known)
        judged = less + more + equal
        yield place, OverSeeds(_mean(known), low, high, len(seeds), len(known), less, more, judged, below, above)


def _measurement(rows: pd.DataFrame) -> Measurement:
    first = rows.iloc[0]
    bounds = [Bound.parse(word) for word in dict.fromkeys(rows["bound"])]
    # Networks measured from different sides have no common direction of error.
    bound = reduce(lambda one, other: one if one is other else Bound.NEITHER, bounds)
    return Measurement(str(first["kind"]), str(first["by"]), float(first["radius"]), str(first["norm"]), bound)


@dataclass(frozen=True, slots=True)
class Lowest:
    """The group that is most often the lowest of all.

    Parameters
    ----------
    group
        Its name.
    times, networks
        In how many trained networks it is the lowest, alone or with others, and how many there are.
    mean
        Its number, on average over these.
    significant
        In how many it is significantly less robust than the rest.
    """

    group: str
    times: int
    networks: int
    mean: float
    significant: int


def lowest_of(board: Board) -> Lowest | None:
    """Who is most often the lowest, of several the lower one on average; None where all are equal in every network."""
    names = (*TRAINED, "group", "value", "verdict")
    networks: dict[tuple[str, str, int], dict[str, float]] = {}
    times, numbers, significant = Counter[str](), dict[str, list[float]](), Counter[str]()
    for network, method, seed, group, number, verdict in zip(*(board.rows[n].tolist() for n in names), strict=True):
        networks.setdefault((network, method, seed), {})[group] = number
        numbers.setdefault(group, []).append(number)
        significant[group] += verdict == LESS_ROBUST
    for shown in networks.values():
        known = {group: number for group, number in shown.items() if not math.isnan(number)}
        if known and min(known.values()) < max(known.values()):
            times.update(group for group, number in known.items() if number == min(known.values()))
    if not times:
        return None
    most = max(times.values())
    group = min((name for name, count in times.items() if count == most), key=lambda name: _mean(numbers[name]))
    return Lowest(group, most, len(networks), _mean(numbers[group]), significant[group])


def natural_board(rows: pd.DataFrame) -> Board | None:
    """Accuracy without attack, as the first attack saw it or else the first estimator; None if nobody did."""
    for attacks in (True, False):
        for _, some in rows.groupby(MEASURED, sort=False):
            if (some["kind"].iloc[0] == ATTACK) == attacks and some["natural"].notna().any():
                return board_of(some, "natural")
    return None


def worst_in(rows: pd.DataFrame) -> pd.Series:
    """The lowest number of any group, whoever it is, of every trained network."""
    return rows.groupby(TRAINED, sort=False)["value"].min()


def overall(rows: pd.DataFrame) -> pd.Series:
    """Accuracy of all samples, of every trained network: Σ size · accuracy / Σ size over the groups."""
    weighted = (rows["value"] * rows["size"]).groupby([rows[name] for name in TRAINED], sort=False).sum(min_count=1)
    return weighted / rows.groupby(TRAINED, sort=False)["size"].sum()
