"""Features of many values of single columns, computed together: a pipeline takes long for a call, not for a row."""

from collections.abc import Iterator, Mapping

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.models.tables.coding import Coding
from fairmargin.models.tables.features import SEVERAL, FeatureMap

_CELLS = 2**22  # numbers that a call of the pipeline takes and returns

Segment = tuple[int, slice, Ints]
"""A column, some rows of a table, and the positions of the values that the column has there."""


def varied(features: FeatureMap, column: int) -> Ints:
    """Return the positions of the features that change with a column: its own ones, and those that mix columns."""
    return np.flatnonzero((features.source == column) | (features.source == SEVERAL))


def features_at(features: FeatureMap, reference: Floats, values: Mapping[int, Floats]) -> dict[int, Floats]:
    """Return the features that change with a column, for each of some of its values; one array per column.

    The other columns have the values of the reference. Features that mix columns are differences from those of the
    reference. Each other feature depends on a single column, so that one row serves a value of every column.

    Parameters
    ----------
    features
        The features of the last step.
    reference
        A coded row.
    values
        Some values, by the position of their column.
    """
    own = {place: varied(features, place) for place in values}
    mixed = np.flatnonzero(features.source == SEVERAL)
    found = {place: np.empty((len(each), len(own[place]))) for place, each in values.items()}
    width = len(features.source)
    for rows, segments in varied_rows(features.coding, reference, values, width, separately=bool(len(mixed))):
        computed = features.transform(rows)
        computed[1:, mixed] -= computed[0, mixed]
        for place, where, chosen in segments:
            found[place][chosen] = computed[where][:, own[place]]
    return found


def features_or_nan(features: FeatureMap, reference: Floats, values: Mapping[int, Floats]) -> dict[int, Floats]:
    """Return what `features_at` returns, with NaN for values for which a step raises."""
    try:
        return features_at(features, reference, values)
    except Exception:  # encoders raise various errors for unknown and missing values
        if len(values) > 1:
            places = np.array_split(list(values), 2)
            parts = [features_or_nan(features, reference, {int(i): values[i] for i in half}) for half in places]
            return parts[0] | parts[1]
        ((place, each),) = values.items()
        if len(each) == 1:
            return {place: np.full((1, len(varied(features, place))), np.nan)}
        halves = [features_or_nan(features, reference, {place: half})[place] for half in np.array_split(each, 2)]
        return {place: np.concatenate(halves)}


def varied_rows(
    coding: Coding, reference: Floats, values: Mapping[int, Floats], width: int = 0, *, separately: bool = False
) -> Iterator[tuple[Floats, list[Segment]]]:
    """Yield coded rows in which columns have given values, below the reference in the first row.

    Values that change the types of a table are not in one table with others, see `Coding.alike`.

    Parameters
    ----------
    coding, reference, values
        The columns, a coded row, and the values by the position of their column.
    width
        Number of features that are computed of each row, which limits the number of rows.
    separately
        Whether a single column differs from the reference in each row.
    """
    most = max(1, _CELLS // (len(coding.columns) + width))
    turned = {place: np.zeros(len(each), dtype=np.bool_) for place, each in values.items()} | coding.turned(values)
    for kind in (False, True):
        chosen = {place: np.flatnonzero(each == kind) for place, each in turned.items()}
        for segments in _below_each_other(chosen, most) if separately else _beside_each_other(chosen, most):
            rows = np.repeat(reference[None], max(where.stop for _, where, _ in segments), axis=0)
            for place, where, some in segments:
                rows[where, place] = values[place][some]
            yield rows, segments


def _beside_each_other(chosen: Mapping[int, Ints], most: int) -> Iterator[list[Segment]]:
    """Yield segments of tables in each row of which every column is varied."""
    for start in range(0, max(map(len, chosen.values()), default=0), most):
        parts = [(place, each[start : start + most]) for place, each in chosen.items() if len(each) > start]
        yield [(place, slice(1, 1 + len(part)), part) for place, part in parts]


def _below_each_other(chosen: Mapping[int, Ints], most: int) -> Iterator[list[Segment]]:
    """Yield segments of tables in each row of which a single column is varied."""
    segments: list[Segment] = []
    height = 0
    for place, each in chosen.items():
        for part in np.array_split(each, -(-len(each) // most)) if len(each) else ():
            if height + len(part) > most:
                yield segments
                height, segments = 0, []
            segments.append((place, slice(1 + height, 1 + height + len(part)), part))
            height += len(part)
    if segments:
        yield segments
