"""Small random linear models of tables, and their distances by enumeration of all rows."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from fairmargin.core.column import TableColumn
from fairmargin.core.norm import Norm
from fairmargin.models.tables.classifier import LinearHead, TableClassifier
from fairmargin.models.tables.coding import Coding, Layout
from fairmargin.models.tables.features import FeatureMap

LETTERS = tuple("abcdefgh")


BREAKS = np.array([-2.0, -0.25, 0.5, 1.0])
CURVES = {
    "": (lambda x: [x], [("rising", True)]),
    "cube": (lambda x: [x**3 / 8], [("rising", False)]),
    "falling": (lambda x: [-np.arctan(x)], [("falling", False)]),
    "both": (lambda x: [x, -np.tanh(x)], [("rising", True), ("falling", False)]),
    "bins": (lambda x: [x >= BREAKS[0], np.isin(np.searchsorted(BREAKS, x, "right"), (1, 3))], [("pieces", False)] * 2),
    "bent": (
        lambda x: [np.exp(x / 4), np.searchsorted(BREAKS, x, "right") % 3],
        [("rising", False), ("pieces", False)],
    ),
}
"""Features of a number by name: their functions, and the shape of each and whether it is affine."""


@dataclass(frozen=True)
class OneHot:
    """The features of coded rows: functions of numbers, categories as one feature per place; missing values as 0."""

    columns: tuple[TableColumn, ...]
    curves: tuple[str, ...]

    def __call__(self, rows):
        parts = []
        for place, (column, curve) in enumerate(zip(self.columns, self.curves, strict=True)):
            values = np.nan_to_num(rows[:, place], nan=0.0 if column.is_number else -1.0)
            if column.is_number:
                parts += CURVES[curve][0](values)
            else:
                parts += list((values[:, None] == np.arange(len(column.categories) + 1)).T)
        return np.stack(parts, axis=1).astype(np.float64)

    @property
    def shapes(self):
        return [
            CURVES[curve][1] if column.is_number else [("rising", False)] * (len(column.categories) + 1)
            for column, curve in zip(self.columns, self.curves, strict=True)
        ]


@dataclass(frozen=True)
class Model:
    """The model that a user would have: it takes a data frame."""

    coding: Coding
    features: OneHot
    weight: np.ndarray
    bias: np.ndarray

    def predict(self, frame):
        rows = self.coding.encode(frame)
        return (self.features(rows) @ self.weight.T + self.bias).argmax(axis=1)


def classifier_of(columns, weight, bias, curves=None):
    """Return a linear classifier whose features are those of `OneHot`."""
    columns = tuple(columns)
    layouts = tuple(
        Layout(each.name, np.dtype((np.float32 if each.single else np.float64) if each.is_number else object))
        for each in columns
    )
    coding = Coding(columns, layouts)
    features = OneHot(columns, curves or ("",) * len(columns))
    shapes = [each for several in features.shapes for each in several]
    mapped = FeatureMap(
        coding,
        np.repeat(range(len(columns)), [len(each) for each in features.shapes]),
        tuple(shape for shape, _ in shapes),
        np.array([affine for _, affine in shapes]),
        tuple(BREAKS if shape == "pieces" else np.empty(0) for shape, _ in shapes),
        features,
    )
    weight, bias = np.asarray(weight, dtype=float), np.asarray(bias, dtype=float)
    return TableClassifier(
        Model(coding, features, weight, bias),
        tuple(range(len(bias))),
        mapped,
        LinearHead(weight, bias),
        lambda model, frame: np.asarray(model.predict(frame), dtype=np.int64),
    )


def random_column(rng, name, *, free=False):
    """Return the rules of a column with few values; with `free`, of a number that may take any value in a range."""
    kind = "number" if free else rng.choice(["number", "number", "category", "boolean"])
    immutable = not free and rng.random() < 0.1
    if kind != "number":
        count = 2 if kind == "boolean" else int(rng.integers(2, 6))
        places = rng.choice(count, size=rng.integers(1, count + 1), replace=False) if count > 2 else range(2)
        return TableColumn(
            name,
            str(kind),
            categories=(False, True) if kind == "boolean" else LETTERS[:count],
            reachable=tuple(sorted(map(int, places))),
            cost=float(rng.choice([0.5, 1.0, 1.0, 1.75])),
            ordered=kind == "category" and rng.random() < 0.4,
            immutable=immutable,
        )
    low = float(rng.integers(-4, 1))
    step = 0.0 if free else float(rng.choice([0.5, 1.0, 1.0, 2.0]))
    listed = not free and rng.random() < 0.25
    return TableColumn(
        name,
        "number",
        unit=float(rng.choice([0.5, 1.0, 1.5, 3.0])),
        low=low,
        high=low + float(rng.integers(1, 5)),
        step=step if not listed or rng.random() < 0.5 else 0.0,
        direction=str(rng.choice(["both", "both", "both", "up", "down"])),
        allowed=rng.integers(-8, 9, size=rng.integers(1, 5)) / 2 if listed else None,
        gap=float(rng.choice([0.0, 0.0, 1.0, 1.5])),
        immutable=immutable,
        single=rng.random() < 0.2,
    )


def random_rows(rng, columns, count):
    """Return coded rows, some with missing and unknown values and with numbers outside of their range."""
    rows = np.empty((count, len(columns)))
    for place, column in enumerate(columns):
        if column.is_number:
            rows[:, place] = rng.integers(-10, 11, size=count) / 2
            inside = rng.random(count) < 0.7
            rows[inside, place] = rows[inside, place].clip(column.low, column.high)
        else:
            rows[:, place] = rng.integers(len(column.categories) + (rng.random() < 0.2), size=count)
        rows[rng.random(count) < 0.05, place] = np.nan
    return rows


def random_problem(rng, *, classes=2, free=None, dyadic=None, curved=False):
    """Return a classifier and rows. Scores of dyadic problems are computed without rounding, so that ties occur."""
    free = rng.random() < 0.4 if free is None else free
    dyadic = rng.random() < 0.6 if dyadic is None else dyadic
    count = int(rng.integers(1, 5))
    columns = [random_column(rng, f"c{i}") for i in range(count)]
    if free:
        columns[0] = random_column(rng, "c0", free=True)
    names = list(CURVES)
    curves = tuple(str(rng.choice(names)) if curved else "" for _ in columns)
    features = sum(map(len, OneHot(tuple(columns), curves).shapes))
    draw = (lambda *size: rng.integers(-8, 9, size) / 4) if dyadic else rng.normal
    weight = draw(classes, features) if dyadic else rng.normal(size=(classes, features))
    bias = draw(classes) if dyadic else rng.normal(size=classes)
    if classes == 2:
        weight[0], bias[0] = 0, 0
    return classifier_of(columns, weight, bias, curves), random_rows(rng, columns, 4)


def values_of(column, before):
    """Return all values that a column with few values may take, by its own rule."""
    if np.isnan(before):
        return np.array([before])
    if column.is_number:
        tried = np.arange(-40, 41) / 4
    else:
        tried = np.arange(len(column.categories) + 1.0)
    tried = np.unique(np.append(tried, before))
    return tried[column.allows(np.full(len(tried), before), tried)]


def intervals_of(column, before):
    """Return the intervals in which a number with a range and a gap may move, by the definition of its rules."""
    low, high = column.low, column.high
    low = max(low, before) if column.direction == "up" else low
    high = min(high, before) if column.direction == "down" else high
    parts = [(low, min(high, -column.gap)), (0.0, 0.0), (max(low, column.gap), high)] if column.gap else [(low, high)]
    return [(a, b) for a, b in parts if a <= b and low <= a and b <= high]


def enumerated(model, row, own, norm, kept=None):
    """Return the distance of a row by enumeration of all rows; numbers that may take any value are solved for."""
    columns = model.coding.columns
    kept = (own,) if kept is None else kept
    free = next((i for i, each in enumerate(columns) if _is_free(each) and not np.isnan(row[i])), None)
    choices = [np.array([row[i]]) if i == free else values_of(each, row[i]) for i, each in enumerate(columns)]
    rows = np.array(list(itertools.product(*choices)))
    costs = np.stack([each.cost_of(np.full(len(rows), row[i]), rows[:, i]) for i, each in enumerate(columns)], axis=1)
    out = ~np.isin(model.predict(rows), kept)
    best = float(norm.length(costs[out]).min(initial=math.inf))
    if free is None:
        return best
    head, features = model.head, model.features_map
    scores = features.transform(rows) @ head.weight.T + head.bias
    slope = head.weight[:, np.flatnonzero(features.source == free)[0]]
    for rival in range(len(model.classes)):
        if rival in kept:
            continue
        need = scores[:, kept] - scores[:, [rival]]
        gain = slope[rival] - slope[list(kept)]
        for a, b in intervals_of(columns[free], row[free]):
            # Changes x with gain · x ≥ need for all kept classes, in the interval: again an interval.
            first, last = np.full(len(rows), a - row[free]), np.full(len(rows), b - row[free])
            for j, each in enumerate(gain):
                if each > 0:
                    first = np.maximum(first, need[:, j] / each)
                elif each < 0:
                    last = np.minimum(last, need[:, j] / each)
                else:
                    last = np.where((need[:, j] < 0) | (need[:, j] == 0) & (rival < kept[j]), last, -np.inf)
            # At a single point, a later class must be strictly ahead.
            ends = np.stack([first, last, np.clip(0.0, first, last)], axis=1)
            nearest = ends[np.arange(len(rows)), np.abs(ends).argmin(axis=1)]
            inside = first < last
            moved = np.where(inside | (first == last), nearest, 0.0)[:, None]
            ahead = moved * gain - need
            wins = (ahead > 0) | (ahead == 0) & (rival < np.array(kept))
            fits = inside | (first == last) & wins.all(axis=1)
            each = np.abs(moved[:, 0]) / columns[free].unit
            own_costs = costs.copy()
            own_costs[:, free] = each
            best = min(best, float(norm.length(own_costs[fits]).min(initial=math.inf)))
    return best


def scanned(model, row, own, norm):
    """Return the distance of a row of a binary model whose first column may take any value, by a fine scan of it."""
    columns = model.coding.columns
    choices = [values_of(each, row[i]) for i, each in enumerate(columns)]
    choices[0] = np.array([row[0]])
    rest = np.array(list(itertools.product(*choices)))
    costs = np.stack([each.cost_of(np.full(len(rest), row[i]), rest[:, i]) for i, each in enumerate(columns)], axis=1)
    best = float(norm.length(costs[model.predict(rest) != own]).min(initial=math.inf))
    if np.isnan(row[0]):
        return best

    def wins(rows):
        scores = model.features_map.transform(rows) @ model.head.weight.T + model.head.bias
        return scores.argmax(axis=1) != own

    def placed(other, values):
        rows = np.repeat(other[None], len(values), axis=0)
        rows[:, 0] = values
        return rows

    for other, cost in zip(rest, costs, strict=True):
        for begin, end in intervals_of(columns[0], row[0]):
            corners = [*BREAKS, *np.nextafter(BREAKS, -np.inf), row[0]]
            values = np.unique(np.concatenate([np.linspace(begin, end, 4001), corners]))
            values = values[(values >= begin) & (values <= end)]
            for side in (1, -1):
                near = values[side * (values - row[0]) > 0]
                near = near[np.abs(near - row[0]).argsort()]
                won = wins(placed(other, near)) if len(near) else np.zeros(0, dtype=bool)
                if not won.any():
                    continue
                first = int(won.argmax())
                inner, outer = near[max(first - 1, 0)], near[first]
                if not first and begin <= row[0] <= end:
                    inner = row[0]
                for _ in range(60):
                    middle = (inner + outer) / 2
                    inner, outer = (inner, middle) if wins(placed(other, [middle]))[0] else (middle, outer)
                own_cost = cost.copy()
                own_cost[0] = abs(outer - row[0]) / columns[0].unit
                best = min(best, float(norm.length(own_cost)))
    return best


def _is_free(column):
    return column.is_number and not column.immutable and not column.step and column.allowed is None


NORMS = tuple(Norm)
