"""The sums of the first layer of a network, as contributions of the columns of a table."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.column import TableColumn
from fairmargin.models.tables.classifier import TableClassifier
from fairmargin.models.tables.network import NetworkHead, product

_POINTS = 1025  # number of points at which a function that is not affine is tabulated, if its steps are not fewer
_FAR = 100.0  # how far numbers without limits are tabulated, in units
_AT_ONCE = 1024  # maximum number of rows that are transformed together


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Contribution of a number to the sums: linear between points; beyond them, it is that of the last point.

    Parameters
    ----------
    points
        Sorted numbers; two of them next to each other where the contribution jumps.
    values
        Contribution at each point, one row each.
    others, of_others
        Sorted numbers beyond the points that occur in the data, and their contributions.
    """

    points: Floats
    values: Floats
    others: Floats
    of_others: Floats

    def at(self, numbers: Floats) -> Floats:
        """Return the contributions of numbers, one row each."""
        left = np.clip(np.searchsorted(self.points, numbers, side="right") - 1, 0, len(self.points) - 2)
        share = np.clip((numbers - self.points[left]) / (self.points[left + 1] - self.points[left]), 0.0, 1.0)
        found = self.values[left] + share[:, None] * (self.values[left + 1] - self.values[left])
        if len(self.others):
            place = np.clip(np.searchsorted(self.others, numbers), 0, len(self.others) - 1)
            known = self.others[place] == numbers
            found[known] = self.of_others[place[known]]
        return np.asarray(found)


@dataclass(frozen=True, slots=True, eq=False)
class FirstLayer:
    """What each column that may change adds to the sums of the first layer.

    The features of a network are functions of single columns, so the sums of its first layer are sums of contributions
    of columns. All of them are computed through the fitted transformers; those of numbers are exact if
    their features are affine functions, otherwise they are interpolated.

    Parameters
    ----------
    model
        The classifier, whose last step is a network.
    places
        For each category column, the contribution of each place, and last that of a missing value; NaN for values that
        neither occur nor can be reached.
    slopes
        For each column of numbers with affine features, the change of the sums per unit of the number itself.
    curves
        For each other column of numbers, its contribution.
    """

    model: TableClassifier
    places: Mapping[int, Floats]
    slopes: Mapping[int, Floats]
    curves: Mapping[int, Curve]

    @classmethod
    def of(cls, model: TableClassifier, rows: Floats) -> "FirstLayer":
        """Return the contributions of all columns that may change; `rows` tell which other values occur."""
        found = cls(model, {}, {}, {})
        places, slopes, curves = {}, {}, {}
        for at, column in enumerate(model.coding.columns):
            if column.immutable:
                continue
            if not column.is_number:
                places[at] = found._of_places(at, column, rows[:, at])
            elif model.features_map.affine[model.features_map.features_of(at)].all():
                ends = np.array(_range(column))
                first, last = found._contributions(at, ends)
                slopes[at] = (last - first) / (ends[1] - ends[0])
            else:
                points = _points(model, at, column)
                own = np.unique(rows[:, at])
                others = own[(own < points[0]) | (own > points[-1])]  # NaN is not
                of_points, of_others = (found._contributions(at, numbers) for numbers in (points, others))
                curves[at] = Curve(points, of_points, others, of_others)
        return cls(model, places, slopes, curves)

    @property
    def head(self) -> NetworkHead:
        """The network."""
        head: NetworkHead = self.model.head
        return head

    def sums(self, rows: Floats) -> Floats:
        """Return the sums of the first layer of coded rows, by the fitted transformers."""
        found = np.empty((len(rows), len(self.head.biases[0])))
        for start in range(0, len(rows), _AT_ONCE):
            features = self.model.features_map.transform(rows[start : start + _AT_ONCE])
            found[start : start + _AT_ONCE] = product(features, self.head.weights[0])
        return found + self.head.biases[0]

    def change(self, column: int, before: Floats, after: Floats) -> Floats:
        """Return how the sums change if a column changes from the numbers `before` to the numbers `after`."""
        if column in self.slopes:
            moved = np.where(np.isnan(before), 0.0, after - before)
            return np.asarray(moved[:, None] * self.slopes[column])
        if column in self.curves:
            curve, moves = self.curves[column], ~np.isnan(before) & (before != after)
            moved = np.zeros((len(before), curve.values.shape[1]))
            moved[moves] = curve.at(after[moves]) - curve.at(before[moves])
            return moved
        return self.of_places(column, after) - self.of_places(column, before)

    def of_places(self, column: int, places: Floats) -> Floats:
        """Return the contributions of places of a category column, one row each."""
        table = self.places[column]
        return np.asarray(table[_index(places, table)])

    def _of_places(self, at: int, column: TableColumn, own: Floats) -> Floats:
        table = np.full((len(column.categories) + 2, len(self.head.biases[0])), np.nan)
        needed = np.unique(np.concatenate([np.array(column.reachable, dtype=np.float64), own]))
        table[_index(needed, table)] = self._contributions(at, needed)
        return table

    def _contributions(self, at: int, values: Floats) -> Floats:
        """Return the sums of a fixed row with these values in a column."""
        rows = np.repeat(_usual(self.model.coding.columns), len(values), axis=0)
        rows[:, at] = values
        return self.sums(rows)


def _usual(columns: tuple[TableColumn, ...]) -> Floats:
    """Return a row whose values are all known to the model."""
    numbers = [sum(_range(column)) / 2 if column.is_number else float([*column.reachable, 0][0]) for column in columns]
    return np.array([numbers])


def _index(values: Floats, table: Floats) -> Ints:
    """Return the row of a table of places for each value; the last row is that of missing values."""
    return np.where(np.isnan(values), len(table) - 1, values).astype(np.int64)


def _range(column: TableColumn) -> tuple[float, float]:
    """Return two different finite numbers between which a column moves."""
    low = column.low if np.isfinite(column.low) else min(0.0, column.high) - _FAR * column.unit
    high = column.high if np.isfinite(column.high) else max(0.0, low) + _FAR * column.unit
    return (low, high) if low < high else (low, low + column.unit)


def _points(model: TableClassifier, at: int, column: TableColumn) -> Floats:
    """Return the numbers at which the contribution of a column is computed."""
    low, high = _range(column)
    if column.step and (high - low) / column.step < _POINTS:
        points = low + column.step * np.arange(np.floor((high - low) / column.step) + 1)
    else:  # denser near 0 and near the ends, where logarithms and quantiles change most
        shares, far = np.geomspace(1e-6, 1.0, _POINTS // 8), max(abs(low), abs(high))
        dense = [low + (high - low) * shares, high - (high - low) * shares, far * shares, -far * shares]
        points = np.concatenate([np.linspace(low, high, _POINTS), *dense])
    jumps = np.concatenate([np.empty(0), *(model.features_map.breaks[i] for i in model.features_map.features_of(at))])
    points = np.concatenate([points, [low, high], jumps, np.nextafter(jumps, -np.inf)])
    return np.unique(points[(points >= low) & (points <= high)])
