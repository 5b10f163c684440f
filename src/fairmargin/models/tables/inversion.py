"""Where features pass thresholds: the raw numbers and categories, found by asking the fitted transformers only."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.errors import ModelError
from fairmargin.models.tables.features import FeatureMap
from fairmargin.models.trees.ensemble import doubles_of, ordered_integers

# Numbers beyond ±1e300, and those for which the transformers raise an error, count like the nearest ones within.
_DECADES = 10.0 ** np.array([-300, -150, -75, -37, -18, *range(-12, 13), 15, 18, 37, 75, 150, 300])
_POINTS = 64  # of the grid inside of the range of a column
_MISSES = 3  # number of times that interpolation may fail before a bracket is only halved
_CELLS = 2**23  # largest number of features of several rows that are computed together
_NEAR = 4  # smallest distance from an interpolated threshold that is tried, in neighbouring doubles


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Asks for the features of single values, which are put into a row that the transformers accept.

    Parameters
    ----------
    features
        The features and the fitted transformers.
    base
        The coded row into which values are put.
    """

    features: FeatureMap
    base: Floats

    @property
    def rows_at_once(self) -> int:
        """The number of rows that may be asked for together."""
        return max(1, _CELLS // max(1, len(self.features.source)))

    def blocks(self, values: Mapping[int, Floats]) -> dict[int, tuple[Floats, Bools]]:
        """Return the features of the values of columns, one row per value, and whether the transformers accept them.

        Columns are asked together, because each feature depends on one column. Only if that raises an error are they
        asked one by one.
        """
        count = max((len(each) for each in values.values()), default=0)
        values = {column: self._held(column, some) for column, some in values.items()}
        turned = self.features.coding.turned(values)
        rows = np.repeat(self.base[None], count, axis=0)
        # Values that turn the types of the table have rows of their own, since the others would lose their precision.
        apart = rows.copy() if any(each.any() for each in turned.values()) else rows[:0]
        for column, some in values.items():
            at = turned.get(column, np.zeros(len(some), dtype=np.bool_))
            rows[: len(some), column][~at] = some[~at]
            if at.any():
                apart[: len(some), column][at] = some[at]
        try:
            found, further = self._transformed(rows), self._transformed(apart)
        except Exception:  # of any library; the rows at fault are found below
            return {column: self._alone(column, some) for column, some in values.items()}
        every = np.ones(count, dtype=np.bool_)
        blocks = {}
        for column, some in values.items():
            block = found[: len(some)]
            if column in turned and turned[column].any():
                block = np.where(turned[column][:, None], further[: len(some)], block)
            blocks[column] = (block, every[: len(some)])
        return blocks

    def _held(self, column: int, values: Floats) -> Floats:
        """Return the numbers of a column, rounded down if it only holds whole numbers in the precision of others.

        A fraction would be computed in double precision, and the feature would neither rise nor fall with it.
        """
        rule = self.features.coding.columns[column]
        whole = rule.is_number and rule.step > 0 and rule.step == np.floor(rule.step)
        if not whole or not self.features.coding.turned({column: values[:0]}):
            return values
        return np.floor(values)

    def _alone(self, column: int, values: Floats) -> tuple[Floats, Bools]:
        """Return the features of the values of one column; NaN where the transformers raise an error."""
        rows = np.repeat(self.base[None], len(values), axis=0)
        rows[:, column] = values
        found = np.full((len(values), len(self.features.source)), np.nan)
        valid = np.zeros(len(values), dtype=np.bool_)
        pending = [(0, len(values))]
        while pending:
            start, end = pending.pop()
            try:
                found[start:end] = self._transformed(rows[start:end])
                valid[start:end] = True
            except Exception:
                middle = (start + end) // 2
                if middle > start:
                    pending += [(start, middle), (middle, end)]
        return found, valid

    def _transformed(self, rows: Floats) -> Floats:
        if not len(rows):
            return np.zeros((0, len(self.features.source)))
        with warnings.catch_warnings(), np.errstate(all="ignore"):  # such as unknown categories, logarithms of 0
            warnings.simplefilter("ignore")
            return np.asarray(self.features.transform(rows), dtype=np.float64)


def probe_of(features: FeatureMap) -> Probe:
    """Return a probe whose base row holds the smallest numbers and the first categories of all columns."""
    base = np.zeros(len(features.coding.columns))
    for place, column in enumerate(features.coding.columns):
        if column.is_number:
            inside = [limit for limit in (column.low, column.high) if np.isfinite(limit)]
            base[place] = inside[0] if inside else 0.0
        else:
            base[place] = column.reachable[0] if column.reachable else np.nan
    probe = Probe(features, base)
    try:
        probe._transformed(base[None])
    except Exception as error:
        raise ModelError(f"The preprocessing of the model does not accept a row of its own table: {error}") from error
    return probe


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """How one feature runs over the numbers of its column. Missing values of the feature stand in up to three places.

    Parameters
    ----------
    begin, end
        The feature is a number from `begin` up to but not including `end`, and missing before and after; infinite
        if there is no such place.
    hole
        First number at which the feature is missing in between, where it would be 0, and the first number after;
        equal if there is no such place.
    """

    begin: float = -np.inf
    end: float = np.inf
    hole: tuple[float, float] = (np.inf, np.inf)

    @property
    def is_whole(self) -> bool:
        """Whether the feature is never missing."""
        return self.begin == -np.inf and self.end == np.inf and self.hole[0] == self.hole[1]


def passes(probe: Probe, feature: Ints, threshold: Floats, several: Ints) -> tuple[Floats, dict[int, Range]]:
    """Return the smallest numbers of the columns at which features pass thresholds, and where features are missing.

    A rising feature passes a threshold where it is at least the threshold, a falling one where it is below. The result
    is -inf if all numbers of the column are past the threshold, and inf if none is. All thresholds are found together,
    by bisection between neighbouring doubles, which takes one call of the transformers per step.

    Parameters
    ----------
    probe
        Asks the transformers.
    feature, threshold
        Pairs of a feature that depends on a number, rising or falling, and a finite threshold of it.
    several
        The distinct features of which to say where they are missing, sorted; they contain all of `feature`.
    """
    grids = _grids(probe, np.unique(probe.features.source[several]))
    ranges = _ranges(probe, several, grids)
    # Where a feature changes its sign, it may be missing at 0: a sparse matrix has no entry there.
    signs = np.repeat(several, 2)
    zero = np.tile([0.0, 5e-324], len(several))
    found = _found(probe, np.append(feature, signs), np.append(threshold, zero), grids, ranges)
    first, after = np.sort(found[len(feature) :].reshape(-1, 2), axis=1).T
    inside = np.isfinite(first) & (first < after)
    columns = probe.features.source[several]
    asked = {int(column): first[inside & (columns == column)] for column in np.unique(columns[inside])}
    blocks = probe.blocks(asked)
    for column in asked:
        for place, which in enumerate(several[inside & (columns == column)]):
            if np.isnan(blocks[column][0][place, which]):
                at = int(np.searchsorted(several, which))
                old = ranges[int(which)]
                ranges[int(which)] = Range(old.begin, old.end, (float(first[at]), float(min(after[at], old.end))))
    return found[: len(feature)], ranges


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Sorted numbers of a column that the transformers accept, with all features there."""

    x: Floats
    z: Floats


def _grids(probe: Probe, columns: Ints) -> dict[int, _Grid]:
    """Return a grid for each column: decades of both signs, and points inside of its range."""
    asked = {}
    for place in columns:
        column = probe.features.coding.columns[place]
        inside = [limit for limit in (column.low, column.high) if np.isfinite(limit)]
        points = np.linspace(inside[0], inside[-1], _POINTS) if inside else np.zeros(0)
        asked[int(place)] = np.unique(np.concatenate([-_DECADES, [0.0], _DECADES, points, probe.base[[place]]]))
    found = {}
    for place, (z, valid) in probe.blocks(asked).items():
        # The accepted numbers around the base; an error beyond them, such as an overflow, has no decision.
        at = int(np.searchsorted(asked[place], probe.base[place]))
        start = at - int((~valid[:at][::-1]).argmax()) if not valid[:at].all() else 0
        end = at + int((~valid[at:]).argmax()) if not valid[at:].all() else len(valid)
        found[place] = _Grid(asked[place][start:end], z[start:end])
    return found


def _ranges(probe: Probe, features: Ints, grids: Mapping[int, _Grid]) -> dict[int, Range]:
    """Return where features begin and end to be numbers; check that they rise or fall as they should."""
    ranges, edges = {}, []
    for feature in map(int, features):
        column = int(probe.features.source[feature])
        grid = grids[column]
        z = grid.z[:, feature]
        present = np.flatnonzero(~np.isnan(z))
        ranges[feature] = Range() if len(present) else Range(np.inf, np.inf)
        if not len(present):
            continue
        first, last = int(present[0]), int(present[-1])
        if first > 0:
            edges.append((column, feature, True, grid.x[first - 1], grid.x[first]))
        if last < len(z) - 1:
            edges.append((column, feature, False, grid.x[last], grid.x[last + 1]))
        _check_shape(probe, feature, z[present])
    edges.sort()
    if not edges:
        return ranges
    columns, which, begins = (np.array([edge[part] for edge in edges]) for part in range(3))
    low, high = (ordered_integers(np.array([edge[part] for edge in edges])) for part in (3, 4))
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        z = _values(probe, columns, which, doubles_of(middle))
        after = np.isnan(z) != begins
        low, high = np.where(after, low, middle), np.where(after, middle, high)
    for feature, begin, number in zip(which.tolist(), begins.tolist(), doubles_of(high).tolist(), strict=True):
        old = ranges[feature]
        ranges[feature] = Range(number, old.end) if begin else Range(old.begin, number)
    return ranges


def _check_shape(probe: Probe, feature: int, z: Floats) -> None:
    """Refuse a feature that rises where it should fall, beyond rounding."""
    single = any(layout.dtype in (np.float32, np.float16) for layout in probe.features.coding.layouts)
    with np.errstate(invalid="ignore"):
        change = np.diff(_sign(probe, np.array([feature])) * z)
        slack = (1e-6 if single else 1e-9) * np.maximum(np.abs(z[1:]), np.abs(z[:-1]))
        wrong = change < -slack
    if wrong.any():
        column = probe.features.coding.columns[probe.features.source[feature]].name
        raise ModelError(
            f"A feature that the model computes from column {column!r} neither rises nor falls with it, so distances "
            "cannot be computed exactly. Use a monotone transformer."
        )


def _found(
    probe: Probe, feature: Ints, threshold: Floats, grids: Mapping[int, _Grid], ranges: Mapping[int, Range]
) -> Floats:
    """Return the smallest numbers at which features pass thresholds.

    The bracket of a threshold begins as one interval of the grid. Interpolation proposes a number, and the bracket is
    cut a little before and a little after it; both get nearer to it while that succeeds. After a few failures, as for
    transformers that are flat or work in single precision, the bracket is halved in each step.
    """
    column = probe.features.source[feature]
    sort = np.argsort(column, kind="stable")
    feature, threshold, column = feature[sort], threshold[sort], column[sort]
    sign = _sign(probe, feature)
    limit = sign * threshold
    low, high, low_z, high_z = (np.empty(len(feature)) for _ in range(4))
    result = np.full(len(feature), np.nan)

    def past(z: Floats, which: Ints) -> Bools:
        return np.where(sign[which] > 0, z >= limit[which], z > limit[which])

    for one in map(int, np.unique(feature)):
        here = np.flatnonzero(feature == one)
        grid, allowed = grids[int(column[here[0]])], ranges[one]
        z = _filled(grid.z[:, one], grid.x, allowed.begin, allowed.end, sign[here[0]])
        z = np.maximum.accumulate(z)
        at = np.searchsorted(z, limit[here], side="left" if sign[here[0]] > 0 else "right")
        result[here] = np.where(at == 0, -np.inf, np.where(at == len(z), np.inf, np.nan))
        above, below = np.clip(at, 0, len(z) - 1), np.clip(at - 1, 0, len(z) - 1)
        low[here], high[here], low_z[here], high_z[here] = grid.x[below], grid.x[above], z[below], z[above]
    begin = np.array([ranges[int(one)].begin for one in feature])
    end = np.array([ranges[int(one)].end for one in feature])
    left, right = ordered_integers(low), ordered_integers(high)
    shift = np.full(len(feature), 6)
    misses = np.zeros(len(feature), dtype=np.int64)
    step = 0
    while len(active := np.flatnonzero(np.isnan(result) & (right - left > 1))):
        start, stop = left[active], right[active]
        width = stop - start
        guess = _between(low[active], high[active], low_z[active], high_z[active], limit[active])
        usable = np.isfinite(guess) & (misses[active] < _MISSES) & (width > 16 * _NEAR)
        aim = ordered_integers(np.where(usable, guess, 0.0))
        away = np.maximum(width >> shift[active], _NEAR) * (1 if step % 2 else -1)
        middle = np.where(usable, np.clip(aim + away, start + 1, stop - 1), start + width // 2)
        x = doubles_of(middle)
        z = _values(probe, column[active], feature[active], x)
        z = _filled(z, x, begin[active], end[active], sign[active])
        after = past(z, active)
        # Cutting before the guess should keep the right part, and cutting after it the left part.
        hit = usable & (after == bool(step % 2))
        misses[active] += usable & ~hit
        finer, coarser = np.minimum(shift[active] + 6, 60), np.maximum(shift[active] // 2, 2)
        shift[active] = np.where(hit, finer, np.where(usable, coarser, shift[active]))
        right[active], left[active] = np.where(after, middle, stop), np.where(after, start, middle)
        high[active], low[active] = np.where(after, x, high[active]), np.where(after, low[active], x)
        high_z[active], low_z[active] = np.where(after, z, high_z[active]), np.where(after, low_z[active], z)
        step += 1
    unsorted = np.empty(len(feature))
    unsorted[sort] = np.where(np.isnan(result), doubles_of(right), result)
    return unsorted


def _between(low: Floats, high: Floats, low_z: Floats, high_z: Floats, limit: Floats) -> Floats:
    """Return the number at which a straight line passes the limit; NaN if there is none."""
    with np.errstate(all="ignore"):
        share = (limit - low_z) / (high_z - low_z)
        guess = low + share * (high - low)
        return np.where((share >= 0) & (share <= 1), guess, np.nan)


def _sign(probe: Probe, feature: Ints) -> Floats:
    """Return 1 for features that rise with their numbers, and -1 for those that fall."""
    return np.array([-1.0 if probe.features.shape[one] == "falling" else 1.0 for one in feature])


def _filled(z: Floats, x: Floats, begin: Floats | float, end: Floats | float, sign: Floats | float) -> Floats:
    """Return features that rise, with numbers in place of missing values that keep the order."""
    instead = np.where(x < begin, -np.inf, np.where(x >= end, np.inf, 0.0))
    return np.where(np.isnan(z), instead, sign * z)


def _values(probe: Probe, column: Ints, feature: Ints, x: Floats) -> Floats:
    """Return the features of numbers of their columns; `column` is sorted."""
    begins = np.flatnonzero(np.diff(column, prepend=-1))
    ends = np.append(begins[1:], len(column))
    result = np.empty(len(x))
    for start in range(0, int((ends - begins).max()), probe.rows_at_once):
        firsts, lasts = begins + start, np.minimum(begins + start + probe.rows_at_once, ends)
        parts = [slice(first, last) for first, last in zip(firsts, lasts, strict=True) if first < last]
        blocks = probe.blocks({int(column[part.start]): x[part] for part in parts})
        for part in parts:
            z, _ = blocks[int(column[part.start])]
            result[part] = z[np.arange(len(z)), feature[part]]
    return result
