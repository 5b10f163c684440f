"""Methods of a study against the first of them: what each changes, in pairs of networks that share all the rest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairmargin.report.study_numbers import Board, OverSeeds, overall, worst_in


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A number of every trained network by which methods are compared.

    Parameters
    ----------
    name, about
        For the head of a column: "lowest σ", "deepfool".
    values
        By network, method and seed.
    board
        What it was taken from.
    """

    name: str
    about: str
    values: pd.Series
    board: Board


@dataclass(frozen=True, slots=True)
class Change:
    """By how much a quantity differs from the first method's, over pairs of networks of the same seed.

    Parameters
    ----------
    mean, low, high
        Of the differences: their mean, the smallest and the largest.
    pairs, higher, lower
        How many pairs there are, and in how many the number is higher, and lower.
    """

    mean: float
    low: float
    high: float
    pairs: int
    higher: int
    lower: int


@dataclass(frozen=True, slots=True)
class MethodRow:
    """A network trained by a method: every quantity over seeds, and its change against the first method."""

    network: str
    method: str
    values: tuple[OverSeeds, ...]
    changes: tuple[Change | None, ...]


def quantities(boards: Sequence[Board], natural: Board | None) -> tuple[Quantity, ...]:
    """Natural accuracy, the lowest σ by each estimator, the lowest robust accuracy under each attack."""
    found = [] if natural is None else [Quantity("accuracy", "all samples, no attack", overall(natural.rows), natural)]
    for board in boards:
        name = "lowest robust accuracy" if board.measurement.is_attack else "lowest σ"
        found.append(Quantity(name, board.measurement.title, worst_in(board.rows), board))
    return tuple(found)


def method_rows(asked: Sequence[Quantity]) -> tuple[MethodRow, ...]:
    """One row for each network and method of networks that were trained by several; none if there are none."""
    places = list(dict.fromkeys((column.network, column.method) for each in asked for column in each.board.columns))
    rows = []
    for network in dict.fromkeys(network for network, _ in places):
        methods = [method for other, method in places if other == network]
        if len(methods) < 2:
            continue
        for method in methods:
            values = tuple(_over_seeds(_of(each.values, network, method)) for each in asked)
            against = methods[0] if method != methods[0] else ""
            changes = tuple(change(each.values, network, method, against) if against else None for each in asked)
            rows.append(MethodRow(network, method, values, changes))
    return tuple(rows)


def change(values: pd.Series, network: str, method: str, first: str) -> Change | None:
    """What a method changes against the first, in one network; None without a pair."""
    return changes_over(_of(values, network, method) - _of(values, network, first))


def changes_over(differences: pd.Series) -> Change | None:
    """Differences of pairs, summed up; None if there are none."""
    known = differences.dropna().to_numpy(dtype=float)
    if not known.size:
        return None
    higher, lower = int((known > 0).sum()), int((known < 0).sum())
    return Change(float(known.mean()), float(known.min()), float(known.max()), known.size, higher, lower)


def differences(values: pd.Series, method: str, first: str) -> pd.Series:
    """The differences of every pair of all networks, by network and seed."""
    names = values.index.get_level_values("method")
    one, other = (values[names == name].droplevel("method") for name in (method, first))
    return one.sub(other).dropna()


def chance_of_agreement(pairs: int) -> float:
    """How likely it is that all pairs point the same way where there is nothing to find: 2 · ½ⁿ.

    >>> chance_of_agreement(2), chance_of_agreement(6)
    (0.5, 0.03125)
    """
    return min(1.0, 2.0 * 0.5**pairs)


def _of(values: pd.Series, network: str, method: str) -> pd.Series:
    """The numbers of a network and method, by seed."""
    level = values.index.get_level_values
    some = values[(level("network") == network) & (level("method") == method)]
    return some.droplevel(["network", "method"])


def _over_seeds(values: pd.Series) -> OverSeeds:
    known = values.dropna().to_numpy(dtype=float)
    ends = (float(np.min(known)), float(np.max(known))) if known.size else (math.nan, math.nan)
    mean = float(known.mean()) if known.size else math.nan
    return OverSeeds(mean, *ends, len(values), known.size)
