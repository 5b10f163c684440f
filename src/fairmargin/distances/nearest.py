"""Find the nearest inputs that leave the classes to keep."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.keys import sample_keys
from fairmargin.distances.measure import Prepared, prepared
from fairmargin.distances.on_tables.search import on_table
from fairmargin.distances.protocol import DistanceEstimator, Finder, finder
from fairmargin.models.kept_classes import keeping
from fairmargin.models.protocol import Classifier
from fairmargin.models.tables.classifier import TableClassifier

# How far beyond a point to search: the first share of the way, the factor of each further one, and their number.
_FIRST, _FACTOR, _TRIES = 2.0**-52, 4.0, 24


def nearest(
    model: object,
    x: Any,
    y: Any,
    estimator: DistanceEstimator,
    *,
    keep: Any = None,
    seed: int = 0,
    references: Any = None,
    progress: Callable[[int, int], None] | bool | None = None,
) -> Any:
    """Return the nearest input of another class that an estimator finds for each sample.

    It is the input at the distance that `fm.measure` returns: one whose class is not in A, the sample's own label or
    the classes to `keep`. A sample whose class is not in A already is its own nearest input.

    Guarantee: the model itself assigns each returned input a class outside of A; the input lies inside the domain,
    immutable features are unchanged, and its distance is the measured one up to rounding. An estimator that measures
    another subject than the model, such as `smoothed_attack`, returns inputs at which that subject changes its class. A
    sample's input does not depend on the other samples or on their order.

    Parameters
    ----------
    model, x, y, estimator, keep, seed, references, progress
        As in `fm.measure`. Certificates and proxies are refused, since they find no inputs.

    Returns
    -------
    An array of the shape of `x`, its columns in the same order; NaN where nothing was found. For a classifier of raw
    rows, see `as_classifier`, a data frame of pandas with all columns of the table: changed rows keep every value that
    did not change, and a row for which nothing was found is the row itself.

    >>> from fairmargin.distances.exact_linear import ExactLinear
    >>> nearest(([3.0, 4.0], -5.0), [[0.0, 0.0], [3.0, 4.0]], [0, 0], ExactLinear()).round(6)
    array([[0.6, 0.8],
           [3. , 4. ]])
    """
    search = finder(estimator)
    ready = prepared(model, x, y, estimator, seed, references, keep)
    for warning in ready.warnings:
        warnings.warn(warning, UserWarning, stacklevel=2)
    found = np.concatenate([_of_shard(ready, search, *shard) for shard in ready.shards(estimator, progress)])
    if isinstance(ready.original, TableClassifier):
        return ready.original.coding.with_changes(x, ready.samples, found)
    return found if ready.samples is x else found[:, _places(x, ready.samples)]


def _of_shard(
    ready: Prepared, search: Finder, shard: Any, positions: Ints, seed: int, kept: tuple[int, ...]
) -> npt.NDArray[np.floating[Any]]:
    """Return the nearest inputs of one shard."""
    samples = np.asarray(shard)
    model, classes = keeping(ready.model, positions, kept)
    keys = sample_keys(samples, classes, seed)
    distances, points = finder(on_table(search, model)).find(model, samples, classes, keys=keys)
    given = samples.reshape(points.shape)
    wide = points.dtype.itemsize > 4 or given.dtype.kind != "f" or given.dtype.itemsize > 4
    kind = np.float64 if wide else np.float32
    # Features that the search did not move keep their given values, also if the model rounds them.
    if isinstance(ready.original, TableClassifier):
        return points  # already confirmed on raw rows; a value slightly beyond would break the rules of its column
    points = np.where(points == given.astype(points.dtype), given.astype(kind), points.astype(kind))
    if distances.subject == "model":
        rows = np.flatnonzero(distances.correct & np.isfinite(distances.values))
        own = np.array(kept) if kept else positions[rows, None]
        points[rows] = _beyond(ready.original, samples.shape[1:], given[rows].astype(np.float64), points[rows], own)
    return points.reshape(samples.shape)


def _beyond(
    model: Classifier, shape: tuple[int, ...], start: Floats, points: npt.NDArray[np.floating[Any]], own: Ints
) -> npt.NDArray[np.floating[Any]]:
    """Return the points, or inputs slightly beyond them, that the model assigns to another class; NaN if there is none.

    A point on the boundary itself may be assigned to either class, depending on the last bit.
    """
    low, high, _ = model.domain.flat(start.shape[1])
    left, own = np.arange(len(points)), np.broadcast_to(own, (len(points), own.shape[-1]))
    found = np.full_like(points, np.nan)
    for extra in (0.0, *(_FIRST * _FACTOR**turn for turn in range(_TRIES))):
        if not left.size:
            break
        step = points[left].astype(np.float64) - start[left]
        there = np.where(step == 0, start[left], np.clip(start[left] + (1 + extra) * step, low, high))
        there = there.astype(points.dtype) if extra else points[left]
        named = model.predict(there.reshape(-1, *shape))
        out: Bools = (named[:, None] != own[left]).all(axis=1)
        found[left[out]] = there[out]
        left = left[~out]
    return found


def _places(x: Any, samples: Any) -> Ints | slice:
    """Return the positions of the columns of a table among those in the model's order."""
    given, ordered = (list(getattr(each, "column_names", getattr(each, "columns", ()))) for each in (x, samples))
    return np.array([ordered.index(name) for name in given], dtype=np.int64) if ordered else slice(None)
