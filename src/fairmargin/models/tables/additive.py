"""Scores of a linear model on raw table rows, as a sum of one contribution per column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Bools, Floats, read_only
from fairmargin.core.column import TableColumn
from fairmargin.errors import ModelError
from fairmargin.models.tables.features import CONSTANT, SEVERAL, FeatureMap
from fairmargin.models.tables.varied import features_at, features_or_nan, varied

_CHECKED = 32  # number of random rows on which the sum is compared with the scores
_TOLERANCE, _TOLERANCE_SINGLE = 1e-9, 1e-4  # of that comparison, relative to the size of the terms
_SMALL = 2.0**-20  # distance between two values of a large constant, relative to it
ROUNDING = 2.0**-49
"""Rounding errors of scores in double precision, relative to the size of the terms."""
_ROUNDING_SINGLE = 2.0**-21


_PER_CLASS = ("at_origin", "slope", "scores", "missing")  # fields of parts that hold one number per class


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A contribution `at_origin + slope · (value − origin)` of a column of numbers; one number per class.

    Parameters
    ----------
    origin
        The value with the contribution `at_origin`.
    at_origin, slope
        Contribution at the origin, and what a change by 1 adds.
    missing
        Contribution of a missing value; NaN if the transformers refuse it.
    """

    origin: float
    at_origin: Floats
    slope: Floats
    missing: Floats

    def at(self, values: Floats) -> Floats:
        """Return the contributions of values, one row each."""
        found = self.at_origin + (values - self.origin)[:, None] * self.slope
        lacking = np.isnan(values)
        found[lacking] = self.missing
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The contributions of a category.

    Parameters
    ----------
    scores
        One row per place, the last one for unknown values; NaN if the transformers refuse a value.
    missing
        Contribution of a missing value.
    """

    scores: Floats
    missing: Floats

    def at(self, values: Floats) -> Floats:
        """Return the contributions of values, one row each."""
        lacking = np.isnan(values)
        found = self.scores[np.where(lacking, 0, values).astype(np.int64)]
        found[lacking] = self.missing
        return np.asarray(found)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A contribution of a column of numbers that is not affine; it is computed through the fitted transformers.

    Parameters
    ----------
    breaks
        The sorted smallest values of all pieces but the first, of features that are constant between such values.
    constant
        Whether all features are constant between breaks.
    monotone
        Whether each feature rises or falls with the column between breaks. Nothing is known of features that mix
        columns.
    missing
        Contribution of a missing value.
    """

    breaks: Floats
    constant: bool
    monotone: bool
    missing: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Additive:
    """Scores of a linear model: `start` plus one contribution per column.

    Contributions are differences of features, which the fitted transformers compute, times weights. Affine steps that
    mix columns, such as PCA, keep the scores additive.

    Parameters
    ----------
    features
        How features follow from columns.
    weight
        Weights of the features, one row per class.
    start
        Score of each class before the first contribution.
    parts
        The contribution of each column.
    reference
        A coded row. Contributions of features that mix columns are differences from it.
    rounding
        Bound on the rounding errors of scores, relative to their `sizes`.
    largest
        Largest sum of the sizes of terms over some random rows.
    """

    features: FeatureMap
    weight: Floats
    start: Floats
    parts: tuple[Line | Places | Curve, ...]
    reference: Floats
    rounding: float
    largest: float

    def contributions(self, rows: Floats) -> Floats:
        """Return the contribution of each column of coded rows to each class: rows × columns × classes."""
        found = np.empty((len(rows), len(self.parts), len(self.start)))
        for place, scores in self.at(dict(enumerate(rows.T))).items():
            found[:, place] = scores
        return found

    def at(self, values: Mapping[int, Floats]) -> dict[int, Floats]:
        """Return the contributions of values of columns, one row each."""
        found, distinct, places = {}, {}, {}
        for column, each in values.items():
            part = self.parts[column]
            if isinstance(part, Curve):
                known = np.where(np.isnan(each), self.reference[column], each)
                distinct[column], places[column] = np.unique(known, return_inverse=True)
            else:
                found[column] = part.at(each)
        for column, scores in _contributions(self.features, self.weight, self.reference, distinct).items():
            found[column] = scores[places[column]]
            found[column][np.isnan(values[column])] = self.parts[column].missing
        return found

    def of_classes(self, classes: Sequence[int]) -> "Additive":
        """Return the scores of some classes."""
        some = list(classes)
        parts = tuple(
            replace(part, **{name: getattr(part, name)[..., some] for name in _PER_CLASS if hasattr(part, name)})
            for part in self.parts
        )
        return replace(self, weight=self.weight[some], start=self.start[some], parts=parts)

    def sizes(self, terms: Floats) -> Floats:
        """Return for each row the size of the numbers that its scores are sums of, given its contributions."""
        # Positive, so that a lead above rounding errors is none of 0, even if all weights are 0.
        return np.asarray(np.maximum(np.abs(terms).sum(axis=1).max(axis=1, initial=0) + self.largest, 1e-290))

    def terms_at(self, values: Mapping[int, Floats]) -> dict[int, Floats]:
        """Return the terms weight · feature of columns that are not affine: values × features × classes."""
        distinct, places = {}, {}
        for column, each in values.items():
            distinct[column], places[column] = np.unique(each, return_inverse=True)
        return {
            column: (found[:, :, None] * self.weight.T[varied(self.features, column)])[places[column]]
            for column, found in features_at(self.features, self.reference, distinct).items()
        }


def additive_of(features: FeatureMap, weight: Floats, bias: Floats) -> Additive:
    """Return the scores of a linear last step as a sum over columns; refuse features that make this impossible.

    Parameters
    ----------
    features
        The features of the last step.
    weight, bias
        Of the last step, one row of weights and one bias per class.
    """
    columns = features.coding.columns
    reference = np.array([_origin(column)[0] for column in columns], dtype=np.float64)
    at_reference = features.transform(reference[None])[0]
    constant, several = features.source == CONSTANT, features.source == SEVERAL
    fixed = constant | several
    start = bias + weight[:, fixed] @ at_reference[fixed]
    parts = _parts(features, weight, reference)
    single = any(layout.dtype == np.float32 for layout in features.coding.layouts)
    single &= bool((weight == weight.astype(np.float32)).all())  # the model may compute in single precision
    model = Additive(features, weight, read_only(start), parts, read_only(reference), 0.0, 0.0)
    return _checked(model, bias, single)


def _parts(features: FeatureMap, weight: Floats, reference: Floats) -> tuple[Line | Places | Curve, ...]:
    """Return the contribution of each column."""
    columns = features.coding.columns
    numbers = [place for place, column in enumerate(columns) if column.is_number]
    lines = [place for place in numbers if features.affine[varied(features, place)].all()]
    categories = {
        place: np.arange(len(column.categories) + 1, dtype=np.float64)
        for place, column in enumerate(columns)
        if not column.is_number
    }
    missing = _contributions_or_nan(features, weight, reference, {i: np.array([np.nan]) for i in range(len(columns))})
    of_places = _contributions_or_nan(features, weight, reference, categories)
    ends = {place: np.array(_origin(columns[place])) for place in lines}
    of_ends = _contributions(features, weight, reference, ends)
    parts: list[Line | Places | Curve] = []
    for place in range(len(columns)):
        lacking = read_only(missing[place][0])
        if place in of_places:
            parts.append(Places(read_only(of_places[place]), lacking))
        elif place in of_ends:
            (begin, end), (first, second) = ends[place], of_ends[place]
            parts.append(Line(begin, read_only(first), read_only((second - first) / (end - begin)), lacking))
        else:
            parts.append(_curve(features, place, lacking))
    return tuple(parts)


def _curve(features: FeatureMap, place: int, missing: Floats) -> Curve:
    """Return the contribution of a number that is not affine."""
    own, several = features.features_of(place), np.flatnonzero(features.source == SEVERAL)
    breaks = np.unique(np.concatenate([np.empty(0), *(features.breaks[each] for each in own)]))
    constant = not len(several) and all(features.shape[each] == "pieces" for each in own)
    return Curve(read_only(breaks), constant, not len(several), missing)


def _origin(column: TableColumn) -> tuple[float, float]:
    """Return two values of a column of numbers that are far from each other, or two places of a category."""
    if not column.is_number:
        return 0.0, 0.0
    low, high = column.low, column.high
    if not np.isfinite(low):
        low = high - 10 * column.unit if np.isfinite(high) else -10 * column.unit
    if not np.isfinite(high):
        high = low + 20 * column.unit
    if high <= low:
        high = low + max(column.unit, abs(low) * _SMALL)
    if column.single:
        low, high = float(np.float32(low)), float(np.float32(high))
        high = high if high > low else float(np.nextafter(np.float32(low), np.float32(np.inf)))
    return low, high


def _contributions(
    features: FeatureMap, weight: Floats, reference: Floats, values: Mapping[int, Floats]
) -> dict[int, Floats]:
    """Return the contributions of values of columns, one row each."""
    return _weighted(features, weight, features_at(features, reference, values))


def _contributions_or_nan(
    features: FeatureMap, weight: Floats, reference: Floats, values: Mapping[int, Floats]
) -> dict[int, Floats]:
    """Return contributions, NaN for values that the transformers refuse."""
    return _weighted(features, weight, features_or_nan(features, reference, values))


def _weighted(features: FeatureMap, weight: Floats, found: dict[int, Floats]) -> dict[int, Floats]:
    return {place: each @ weight[:, varied(features, place)].T for place, each in found.items()}


def _checked(model: Additive, bias: Floats, single: bool) -> Additive:
    """Return the model with its rounding errors; refuse it if its sum differs from the scores of random rows."""
    rows = _random_rows(model)
    scores = model.features.transform(rows) @ model.weight.T + bias
    terms = model.contributions(rows)
    size = np.abs(terms).sum(axis=1).max(axis=1) + np.abs(model.start).max()
    error = np.abs(terms.sum(axis=1) + model.start - scores).max(axis=1) / np.where(size > 0, size, 1.0)
    if not (error <= (_TOLERANCE_SINGLE if single or _has_single(model) else _TOLERANCE)).all():
        raise ModelError(
            "The scores of the model are not a sum of one contribution per column, as they must be for exact "
            "distances of a linear model. Does a step mix columns? Please report this model."
        )
    rounding = max(_ROUNDING_SINGLE if single else ROUNDING, 4 * float(error.max()))
    return replace(model, rounding=rounding, largest=float(size.max()))


def _has_single(model: Additive) -> bool:
    return any(layout.dtype == np.float32 for layout in model.features.coding.layouts)


def _random_rows(model: Additive) -> Floats:
    """Return random rows of values that the transformers accept."""
    source = np.random.default_rng(0)
    rows = np.empty((_CHECKED, len(model.parts)))
    for place, (part, column) in enumerate(zip(model.parts, model.features.coding.columns, strict=True)):
        if isinstance(part, Places):
            usable = np.flatnonzero(_usable(part.scores))
            rows[:, place] = source.choice(usable, _CHECKED) if len(usable) else 0
            continue
        low, high = _origin(column)
        drawn = source.uniform(low, high, _CHECKED)
        if column.step:
            drawn = low + np.rint((drawn - low) / column.step) * column.step
        rows[:, place] = drawn.astype(np.float32) if column.single else drawn
    return rows


def _usable(scores: Floats) -> Bools:
    return np.asarray(np.isfinite(scores).all(axis=1))
