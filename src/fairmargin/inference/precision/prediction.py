"""Predictions of an expensive distance from a cheap one by cross-fitting."""

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints

FOLDS = 5
_SAMPLES_PER_KNOT, _MOST_KNOTS = 25, 4
_STEEPEST = 2.0  # largest slope of a group; with few samples, steeper ones are noise
_RIDGE = 1e-6


def cross_predictions(cheap: Floats, reference: Floats, weight: Floats, group: Ints, usable: Bools) -> Floats:
    """Predict the reference distance minus the group's mean, by a common curve and a slope for each group.

    The curve is linear between a few knots and fitted by weighted least squares. Cheap distances outside the range in
    which reference distances are known, including infinite ones, are replaced by the nearest end of the range. Samples
    with a reference distance are divided into five folds, each predicted from the other four; all other samples get the
    mean of the five predictions.

    Guarantee: a prediction never depends on the sample's own reference distance.

    Parameters
    ----------
    cheap
        Cheap distance of each sample.
    reference
        Reference distance of each sample; NaN where it was not measured.
    weight
        Weight of each sample in the fit.
    group
        Group of each sample as a number 0 … G−1.
    usable
        Whether each sample takes part; the prediction of the others is 0.

    >>> cheap = np.linspace(0, 1, 40)
    >>> known = np.where(np.arange(40) % 2 == 0, 2 * cheap, np.nan)
    >>> everyone = np.zeros(40, dtype=np.int64), np.ones(40, dtype=np.bool_)
    >>> predicted = cross_predictions(cheap, known, np.ones(40), *everyone)
    >>> bool(np.allclose(predicted[2:-2], 2 * cheap[2:-2] - 1, atol=0.05))
    True
    """
    out = np.zeros(len(cheap))
    known = np.flatnonzero(usable & ~np.isnan(reference))
    others = np.flatnonzero(usable & np.isnan(reference))
    if len(known) < 2 * FOLDS:
        return out
    fold, groups = _places(group[known]) % FOLDS, int(group.max()) + 1
    counts = np.maximum(np.bincount(group[usable], minlength=groups), 1)

    def sums(values: Floats) -> Floats:
        return np.bincount(group[usable], weights=values[usable], minlength=groups).astype(np.float64)

    for k in range(FOLDS):
        train, held = known[fold != k], known[fold == k]
        curve = _basis(cheap, train)
        common = curve @ _least_squares(curve[train], reference[train], weight[train])
        slope = _slopes(common[train], reference[train], weight[train], group[train], groups)
        # Centred in every group, so that the different slopes of the folds do not shift the mean.
        tilted = slope[group] * (common - (sums(common) / counts)[group])
        out[held] = tilted[held]
        out[others] += tilted[others] / FOLDS
    return out


def _places(group: Ints) -> Ints:
    """Return the position of each sample among those of its group."""
    order = np.argsort(group, kind="stable")
    sorted_groups = group[order]
    places = np.empty(len(group), dtype=np.int64)
    places[order] = np.arange(len(group)) - np.searchsorted(sorted_groups, sorted_groups)
    return places


def _basis(cheap: Floats, train: Ints) -> Floats:
    """Return the columns of a piecewise linear curve with knots at quantiles of the fitted samples.

    The range is that of the fitted samples too: otherwise predicted samples would never lie outside, unlike all others.
    """
    finite = cheap[train][np.isfinite(cheap[train])]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    capped = np.clip(np.nan_to_num(cheap, nan=low, posinf=high), low, high)
    knots = min(_MOST_KNOTS, len(train) // _SAMPLES_PER_KNOT)
    at = np.unique(np.quantile(capped[train], np.arange(1, knots + 1) / (knots + 1))) if knots else np.empty(0)
    return np.stack([np.ones_like(capped), capped, *(np.maximum(capped - knot, 0.0) for knot in at)], axis=1)


def _least_squares(columns: Floats, target: Floats, weight: Floats) -> Floats:
    scale = np.sqrt((columns**2).mean(axis=0))
    scaled = columns / np.where(scale > 0, scale, 1.0)
    normal = (scaled * weight[:, None]).T @ scaled
    ridge = _RIDGE * np.trace(normal) / len(normal) * np.eye(len(normal))
    found = np.linalg.solve(normal + ridge, (scaled * weight[:, None]).T @ target)
    return np.asarray(found / np.where(scale > 0, scale, 1.0))


def _slopes(common: Floats, target: Floats, weight: Floats, group: Ints, groups: int) -> Floats:
    """Return the slope of each group's reference distances on the common prediction, clipped to [0, 2]."""

    def sums(values: Floats) -> Floats:
        return np.bincount(group, weights=weight * values, minlength=groups).astype(np.float64)

    total = np.maximum(np.bincount(group, weights=weight, minlength=groups), 1e-300)
    mean, mean_target = sums(common) / total, sums(target) / total
    centred = common - mean[group]
    spread = sums(centred**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(spread > 0, sums(centred * (target - mean_target[group])) / spread, 0.0)
    return np.clip(slope, 0.0, _STEEPEST)
