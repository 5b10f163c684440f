"""Slow and plain reference implementations for tests, by scipy's solvers where possible."""

import itertools

import numpy as np
from scipy.optimize import linprog, lsq_linear

from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.trees.ensemble import TreeClassifier


def projection_distance(weight, bias, x, norm):
    """Return the distance of x from the plane ⟨w, x⟩ + b = 0 without a domain: |⟨w, x⟩ + b| / dual norm of w."""
    order = {Norm.L1: np.inf, Norm.L2: 2, Norm.LINF: 1}[norm]
    return abs(float(np.dot(weight, x)) + bias) / np.linalg.norm(weight, order)


def linear_distance(model: LinearClassifier, x, y: int, norm: Norm) -> float:
    """Return the distance of a sample from the nearest other class inside the domain, by scipy's solvers."""
    scores = model.weight @ x + model.bias
    if int(scores.argmax()) != y:
        return 0.0
    low, high, scale = model.domain.flat(len(x))
    movable = (low < high) & (scale > 0)
    best = np.inf
    for k in range(len(model.classes)):
        if k != y:
            gain = ((model.weight[k] - model.weight[y]) * scale)[movable]
            lowest = ((low - x)[movable]) / scale[movable]
            highest = ((high - x)[movable]) / scale[movable]
            best = min(best, _shortest(gain, scores[y] - scores[k], lowest, highest, norm))
    return best


def _shortest(gain, margin, lowest, highest, norm):
    """Return min ‖u‖ subject to ⟨gain, u⟩ ≥ margin and lowest ≤ u ≤ highest; inf if there is no such u."""
    if not gain.any():
        return np.inf
    if norm is Norm.L2:
        return _shortest_l2(gain, margin, lowest, highest)
    d = len(gain)
    if norm is Norm.L1:  # u = p − q, minimise Σ p + q
        cost = np.ones(2 * d)
        rows, limits = [np.concatenate([-gain, gain])], [-margin]
        bounds = [(0, max(h, 0)) for h in highest] + [(0, max(-lo, 0)) for lo in lowest]
    else:  # minimise t with −t ≤ u ≤ t
        cost = np.append(np.zeros(d), 1.0)
        eye, ones = np.eye(d), np.ones((d, 1))
        rows = [np.append(-gain, 0.0), *np.hstack([eye, -ones]), *np.hstack([-eye, -ones])]
        limits = [-margin] + [0.0] * (2 * d)
        bounds = [*zip(lowest, highest, strict=True), (0, None)]
    answer = linprog(cost, A_ub=np.array(rows), b_ub=np.array(limits), bounds=bounds, method="highs")
    return float(answer.fun) if answer.status == 0 else np.inf


def _shortest_l2(gain, margin, lowest, highest):
    """Solve the bounded least-squares problem min ‖(u, M·(⟨gain, u⟩ − margin))‖ with a large penalty M."""
    with np.errstate(invalid="ignore"):
        reach = np.nansum(np.where(gain > 0, gain * highest, np.where(gain < 0, gain * lowest, 0.0)))
    if reach < margin:
        return np.inf
    penalty = 1e7 / np.linalg.norm(gain)  # smaller ones miss the plane by more than 1e-6 near a corner
    matrix = np.vstack([np.eye(len(gain)), penalty * gain])
    target = np.append(np.zeros(len(gain)), penalty * margin)
    tiny = 1e-13  # scipy refuses equal limits
    limits = (np.minimum(lowest, 0) - tiny, np.maximum(highest, 0) + tiny)
    answer = lsq_linear(matrix, target, bounds=limits, method="bvls", tol=1e-15, max_iter=500)
    return float(np.linalg.norm(answer.x))


def random_problem(rng, n=20, d=6, classes=3, domain=None):
    """Return a random linear model, with the given domain, and samples in the box [0, 1]."""
    weight, bias = rng.normal(size=(classes, d)), rng.normal(size=classes) * 0.3
    model = LinearClassifier(weight, bias, domain=domain)
    return model, rng.uniform(size=(n, d))


def random_trees(rng, n=20, d=6, classes=3, domain=None, trees=2, names=None):
    """Return a small random forest, with the given domain, and samples in the box [0, 1]."""
    from sklearn.ensemble import RandomForestClassifier

    x = rng.uniform(size=(60, d))
    y = (x @ rng.normal(size=(d, classes))).argmax(axis=1)
    y[:classes] = range(classes)
    labels = y if names is None else np.array(names)[y]
    forest = RandomForestClassifier(trees, max_depth=3, random_state=0).fit(x, labels)
    return as_classifier(forest, domain=domain), rng.uniform(size=(n, d))


def tree_distance(model: TreeClassifier, x, kept, norm: Norm) -> float:
    """Return the distance of a sample from the nearest class not in `kept`, by asking about every cell.

    Nothing is assumed about the trees but their thresholds.
    """
    x = np.asarray(x, dtype=float)
    low, high, scale = model.domain.flat(model.features)
    movable = model.domain.movable(model.features)
    choices = []
    for f, limits in enumerate(model.ensemble.thresholds(model.features)):
        moved = np.where(limits > x[f], limits, np.nextafter(limits, -np.inf))
        inside = (moved >= low[f]) & (moved <= high[f]) & movable[f]
        choices.append([x[f]] if np.isnan(x[f]) else [x[f], *moved[inside]])  # a missing value stays missing
    grid = np.array(list(itertools.product(*choices)))
    other = ~np.isin(model.predict(grid), kept)
    steps = np.divide(np.abs(grid - x), scale, out=np.zeros_like(grid), where=(scale > 0) & (grid != x) & ~np.isnan(x))
    return float(norm.length(steps[other]).min()) if other.any() else np.inf


# Measures of groups, by their definitions.


def robustness(distances: Distances, partition: Partition, up_to: float = np.inf) -> dict[str, float]:
    """Return Rob(P), the mean of min(r, up_to), of each group."""
    values = np.minimum(distances.values, up_to)
    return {label: float(values[mask].mean()) for label, mask in partition}


def overall_robustness(distances: Distances, partition: Partition) -> float:
    """Return Rob(f), the unweighted mean over the groups."""
    return float(np.mean(list(robustness(distances, partition).values())))


def robustness_variance(distances: Distances, partition: Partition) -> float:
    """Return V_f, the population variance over the groups."""
    return float(np.var(list(robustness(distances, partition).values())))


def sigma(distances: Distances, partition: Partition, up_to: float = np.inf) -> dict[str, float]:
    """Return σ(P): the mean of min(r, up_to) in the group divided by that of everyone else, minus 1."""
    values = np.minimum(distances.values, up_to)
    return {label: float(values[mask].mean() / values[~mask].mean() - 1) for label, mask in partition}


def accuracy_by_group(right, partition: Partition) -> dict[str, float]:
    """Return the share of correct samples of each group."""
    return {label: float(np.mean(np.asarray(right)[mask])) for label, mask in partition}


def accuracy_variance(right, partition: Partition) -> float:
    """Return VCRA, the population variance of the groups' shares."""
    return float(np.var([np.mean(np.asarray(right)[mask]) for _, mask in partition]))


def accuracy_gap(right, partition: Partition) -> float:
    """Return the largest minus the smallest share of a group."""
    shares = [float(np.mean(np.asarray(right)[mask])) for _, mask in partition]
    return max(shares) - min(shares)


def error_split_by_group(correct, robust, partition: Partition) -> dict[str, tuple[float, float]]:
    """Return natural and boundary error of each group."""
    right, kept = np.asarray(correct), np.asarray(robust)
    return {label: (float(np.mean(~right[m])), float(np.mean(right[m] & ~kept[m]))) for label, m in partition}
