"""The nearest rows of a table that a linear model assigns to another class, confirmed by the model itself."""

from typing import Any

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.linear_tables.several import leaving_several
from fairmargin.distances.linear_tables.solver import Search, is_exact
from fairmargin.distances.linear_tables.values import lengths, settled
from fairmargin.distances.protocol import Found
from fairmargin.errors import ModelError
from fairmargin.models.kept_classes import Kept, parted
from fairmargin.models.protocol import as_rows
from fairmargin.models.tables.additive import ROUNDING
from fairmargin.models.tables.classifier import TableClassifier

_LEADS = tuple(16.0**turn for turn in range(9))
"""Leads of a rival that are tried, as multiples of rounding errors in double precision."""


def find_rows(model: TableClassifier | Kept, x: Any, y: Ints, norm: Norm) -> Found:
    """Return exact distances of coded rows, and the nearest rows of another class."""
    classifier, kept = parted(model)
    assert isinstance(classifier, TableClassifier)
    rows, y = as_rows(x, missing=True), np.asarray(y)
    if kept:
        return _leaving(classifier, rows, kept, norm)
    correct = classifier.predict(rows) == y
    values, lower, points = np.zeros(len(rows)), np.zeros(len(rows)), rows.copy()
    columns, rounding = classifier.coding.columns, classifier.additive.rounding
    left = np.flatnonzero(correct)
    search = Search.of(classifier.additive, rows[left], y[left], norm)
    # First, scores that are equal up to rounding count as a win: only the model knows. Then the rival must lead by more
    # and more, and the change grows accordingly, up to what rounding explains.
    for lead in (-rounding / ROUNDING, *_LEADS):
        if not len(left):
            break
        found, least, cost = search.nearest(lead)
        reached = np.isfinite(cost)
        found[reached] = settled(columns, rows[left[reached]], found[reached])
        points[left] = np.where(reached[:, None], found, np.nan)
        values[left] = np.where(reached, lengths(columns, norm, rows[left], found), np.inf)
        if lead * ROUNDING <= rounding:
            lower[left] = np.where(is_exact(least, cost), values[left], least)
        refuted = reached.copy()
        refuted[reached] = classifier.predict(found[reached]) == y[left[reached]]
        left, search = left[refuted], search.take(refuted)
    if len(left):
        raise ModelError(
            f"The weights that were read from the {type(classifier.original).__name__} do not give the model's own "
            f"predictions (sample {left[0]}). Please report this model."
        )
    return _found(values, correct, lower, points, norm)


def _leaving(model: TableClassifier, rows: Floats, kept: tuple[int, ...], norm: Norm) -> Found:
    """Return the distances to leave several classes."""
    correct = np.isin(model.predict(rows), kept)
    values, lower, points = np.zeros(len(rows)), np.zeros(len(rows)), rows.copy()
    values[correct], lower[correct], points[correct] = leaving_several(model, rows[correct], kept, norm)
    return _found(values, correct, lower, points, norm)


def _found(values: Floats, correct: Bools, lower: Floats, points: Floats, norm: Norm) -> Found:
    """Return distances, which are exact if the lower bounds of all of them are as large."""
    exact = is_exact(lower, values)
    bound = Bound.EXACT if exact.all() else Bound.UPPER
    return Found(Distances(values, correct, bound, norm, tried=np.where(exact, values, lower)), points)
