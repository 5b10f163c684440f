"""Exact distances of a linear classifier to its decision boundary, within the domain."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.protocol import Found, accepted_norm
from fairmargin.errors import FairmarginError
from fairmargin.models.kept_classes import Kept, parted
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.protocol import as_rows, check_inside, in_model_order
from fairmargin.models.tables.classifier import TableClassifier

_LAST_BITS = 4 * np.finfo(np.float64).eps
_BLOCK_ENTRIES = 2**17  # values in one temporary array; about the size of a core's cache
_TOLERANCE = 1e-10  # of the solver, whose conditions and lengths are scaled to about 1
_OUTSIDE = 1e-12  # a feature violates its limits by more than this, in units of the step's length
_ROUNDS = 10_000  # maximum number of iterations of the solver


@dataclass(frozen=True)
class ExactLinear:
    """Distance to the nearest input, inside the domain, that a linear model assigns to another class.

    r(x, A) = min over k ∉ A of min{‖δ/s‖ : ⟨w_a − w_k, x+δ⟩ + b_a − b_k ≤ 0 for all a in A, low ≤ x+δ ≤ high}

    Without limits this is the margin over the dual norm, min_k (f_y − f_k)(x) / ‖s·(w_y − w_k)‖_q. With limits, the
    features move at a common rate (L∞), in proportion to their weight (L2) or one after the other by weight (L1) until
    each reaches its limit, and stop once the margin is used up: a one-dimensional problem with a closed form on each
    side of every limit. If several classes are to be kept and the shortest way past the hardest of them does not pass
    the others too, the shortest way is the solution of a linear program (L1, L∞) or of a quadratic program (L2) for
    each rival.

    On raw rows of a table, the distance is the norm of the costs of columns, each column keeps its rules, and every row
    found is confirmed by the original model. The shortest change is found by branch and bound over columns
    (`linear_tables/`). Scores that are equal up to rounding count as equal; if the model does not confirm the nearest
    such row, the nearest one with a lead that rounding cannot undo is taken. Two kinds of rows can get a bracket: then
    `values` is the distance of the nearest row found, `tried` is a lower bound, and the measurement counts as an upper
    bound. These are rows that need more than 100,000 nodes (dozens of numbers with coarse steps, in L2), and rows with
    a number that enters by a function that is not affine and may take any value, if the search of its range does not
    close the bracket. If such a number is mixed with other columns afterwards (PCA after a logarithm), the lower bound
    is almost 0. With several classes to keep, such numbers need a step.

    Guarantee: exact up to rounding, if `bound` is `EXACT`; 0 for a misclassified sample; `inf` if and only if the
    domain holds no input of another class that the sample can reach. A sample's distance has the same bits alone or
    in any batch.

    Parameters
    ----------
    norm
        L1, L2 or L∞, of δ divided by the domain's scale.

    References
    ----------
    O. L. Mangasarian, "Arbitrary-norm separating plane", Operations Research Letters 24 (1999). The box-constrained
    projection is the continuous knapsack of K. C. Kiwiel, Mathematical Programming 112 (2008).

    >>> model = LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, -5.0])
    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.zeros(1, np.uint64)
    >>> float(ExactLinear(Norm.L2)(model, x, y, keys=keys).values[0])
    1.0
    """

    norm: Norm = Norm.L2

    needs: ClassVar[str] = "linear"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1
    keeps_several: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))

    def __call__(self, model: LinearClassifier | Kept, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return exact distances. Nothing is random, so `keys` is not read."""
        if _of_table(model):
            return self.find(model, x, y, keys=keys).distances
        return self._leaving(model, x).distances if isinstance(model, Kept) else self._measured(model, x, y)[0]

    def find(self, model: LinearClassifier | Kept, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the exact distances and the nearest points of the boundary; slightly beyond, the class differs."""
        if _of_table(model):
            from fairmargin.distances.linear_tables.rows import find_rows

            return find_rows(cast(Any, model), x, y, self.norm)
        if isinstance(model, Kept):
            return self._leaving(model, x)
        found, rows, scores, rival = self._measured(model, x, y)
        return Found(found, self._points(model, rows, scores, y, found.values, rival))

    def _measured(self, model: LinearClassifier, x: Any, y: Ints) -> tuple[Distances, Floats, Floats, Ints]:
        """Return the distances, the samples as rows, their scores and the nearest rival of each."""
        rows = as_rows(in_model_order(model, x))
        check_inside(model.domain, rows)
        scores = model.scores(rows)
        values, rival = self._nearest(model, rows, scores, y)
        return Distances(values, scores.argmax(axis=1) == y, Bound.EXACT, self.norm), rows, scores, rival

    def closest(self, model: LinearClassifier, x: Any, y: Ints) -> Floats:
        """Return the nearest point of the boundary for each sample, in the shape of `x`, features in the model's order.

        A misclassified sample is its own point; where no other class can be reached, the point is NaN. At the point two
        scores are equal up to rounding; slightly beyond it, the prediction differs from `y`.
        """
        return np.asarray(self.find(model, x, y, keys=np.zeros(len(x), dtype=np.uint64)).points).reshape(np.shape(x))

    def _points(
        self, model: LinearClassifier, rows: Floats, scores: Floats, y: Ints, values: Floats, rival: Ints
    ) -> Floats:
        """Return the nearest point of the boundary with each sample's rival."""
        points = rows.copy()
        points[np.isinf(values)] = np.nan
        _, _, scale = model.domain.flat(model.features)
        for block in _blocks(np.flatnonzero((scores.argmax(axis=1) == y) & np.isfinite(values)), model.features):
            gain, room = _gain_and_room(model, rows[block], y[block], rival[block])
            # If two scores are equal already, the rival must get ahead by a last bit, if the limits allow it.
            bits = _last_bits(model.weight[rival[block]] - model.weight[y[block]], rows[block], scores[block])
            margin = np.maximum(_margin(scores[block], y[block], rival[block]), bits)
            margin = np.minimum(margin, (np.abs(gain) * room).sum(axis=1))
            steps = _steps(self.norm, margin, np.abs(gain), room)
            points[block] += np.sign(gain) * steps * scale
        return points

    def _leaving(self, model: Kept, x: Any) -> Found:
        """Return the distances to leave a set of classes and the nearest points, as rows; NaN where there is none."""
        linear, kept, others = cast(LinearClassifier, model.model), np.array(model.kept), np.array(model.others)
        rows = as_rows(in_model_order(linear, x))
        check_inside(linear.domain, rows)
        scores = linear.scores(rows)
        correct = np.isin(scores.argmax(axis=1), kept)
        values, points = np.where(correct, np.inf, 0.0), np.where(correct[:, None], np.nan, rows)
        low, high, scale = linear.domain.flat(linear.features)
        scale = np.where(linear.domain.movable(linear.features), scale, 0.0)

        def gain(rival: int) -> Floats:
            """Return what a step of length 1 of each feature adds to a rival's lead over each kept class."""
            return np.asarray((linear.weight[others[rival]] - linear.weight[kept]) * scale)

        slope = np.stack([self.norm.dual.length(gain(rival)) for rival in range(len(others))])
        ties = others[:, None] < kept  # `argmax` gives a tie to the class that comes first
        for i in np.flatnonzero(correct):
            needed = scores[i, kept] - scores[i, others][:, None]
            ahead = np.where((needed < 0) | (needed == 0) & ties, 0.0, np.inf)  # for scores that do not change
            alone = np.divide(np.maximum(needed, 0.0), slope, out=ahead, where=slope > 0)
            room = tuple(_room(limit, scale) for limit in (rows[i] - low, high - rows[i]))
            bounds = alone.max(axis=1)  # lower bounds: more conditions and limits only lengthen the step
            for rival in bounds.argsort(kind="stable"):
                if bounds[rival] >= values[i]:
                    break
                hardest = int(alone[rival].argmax())
                step = self._past(gain(rival), needed[rival], room, hardest, bounds[rival], ties[rival, hardest])
                if step is not None and self.norm.length(step) < values[i]:
                    values[i], points[i] = self.norm.length(step), rows[i] + step * scale
        return Found(Distances(values, correct, Bound.EXACT, self.norm), points)

    def _past(
        self, gain: Floats, needed: Floats, room: tuple[Floats, ...], hardest: int, bound: float, ties: np.bool_
    ) -> Floats | None:
        """Return the shortest step, in units of the scale, after which a rival leads all kept classes, or None."""
        own, down, up = gain[hardest], *room
        way = np.where(own > 0, up, np.where(own < 0, down, 0.0))
        reach, margin = float((np.abs(own) * way).sum()), max(float(needed[hardest]), 0.0)
        if reach < margin or (reach == margin and not ties):
            return None
        step = np.sign(own) * _steps(self.norm, np.array([margin]), np.abs(own)[None], way[None])[0]
        if (np.delete(gain @ step - needed, hardest) >= 0).all():
            return np.asarray(step)
        return shortest_step(self.norm, gain, needed, down, up, bound if bound > 0 else 1.0)

    def _nearest(self, model: LinearClassifier, rows: Floats, scores: Floats, y: Ints) -> tuple[Floats, Ints]:
        """Return the distance to the nearest rival class of each sample, and the position of that class."""
        lower = self._without_limits(model, scores, y)
        order = lower.argsort(axis=1, kind="stable")
        best = np.where(scores.argmax(axis=1) == y, np.inf, 0.0)
        nearest = order[:, 0].astype(np.int64)
        if not _has_limits(model):
            return np.minimum(best, lower.min(axis=1)), nearest
        for rank in range(len(model.classes) - 1):
            rival = order[:, rank]
            # Limits only lengthen the step: a rival that is no nearer even without them can be skipped.
            for block in _blocks(np.flatnonzero(_pick(lower, rival) < best), model.features):
                margin = _margin(scores[block], y[block], rival[block])
                gain, room = _gain_and_room(model, rows[block], y[block], rival[block])
                distance = self._within_limits(margin, np.abs(gain), room, rival[block] < y[block])
                nearer = distance < best[block]
                best[block[nearer]], nearest[block[nearer]] = distance[nearer], rival[block[nearer]]
        return best, nearest

    def _without_limits(self, model: LinearClassifier, scores: Floats, y: Ints) -> Floats:
        """Return margin over dual norm, shape (n, C); `inf` for the own class and for parallel scores."""
        _, _, scale = model.domain.flat(model.features)
        scale = np.where(model.domain.movable(model.features), scale, 0.0)
        distances = np.full(scores.shape, np.inf)
        for own in np.unique(y):
            mine = y == own
            for rival, weight in enumerate(model.weight):
                slope = float(self.norm.dual.length((model.weight[own] - weight) * scale))
                if slope > 0:
                    distances[mine, rival] = np.maximum(scores[mine, own] - scores[mine, rival], 0.0) / slope
        return distances

    def _within_limits(self, margin: Floats, gain: Floats, room: Floats, wins_ties: Bools) -> Floats:
        """Return the length of the shortest step that uses up the margin, or `inf` where limits prevent it."""
        reach = (gain * room).sum(axis=1)
        # `argmax` gives a tie to the class that comes first: a later one must be strictly ahead somewhere.
        reached = (reach > margin) | ((reach == margin) & wins_ties)
        distance = np.full(len(margin), np.inf)
        distance[reached] = self.norm.length(_steps(self.norm, margin[reached], gain[reached], room[reached]))
        return distance


def _of_table(model: Any) -> bool:
    """Return whether a model classifies rows of a table, perhaps with several classes to keep."""
    return isinstance(parted(model)[0], TableClassifier)


def _steps(norm: Norm, margin: Floats, gain: Floats, room: Floats) -> Floats:
    """Return argmin ‖u‖ subject to ⟨gain, u⟩ = margin, 0 ≤ u ≤ room, row by row; the margin must be reachable."""
    top = gain.max(axis=1, initial=0.0)
    top = np.where(top > 0, top, 1.0)  # relative to the largest gain, so that squares of tiny weights do not vanish
    margin, gain = margin / top, gain / top[:, None]
    if norm is Norm.L1:
        return _best_first(margin, gain, room)
    return _together(margin, gain, room, speed=gain if norm is Norm.L2 else np.where(gain > 0, 1.0, 0.0))


def _together(margin: Floats, gain: Floats, room: Floats, speed: Floats) -> Floats:
    """Return u = min(t · speed, room) with the t that solves ⟨gain, u⟩ = margin.

    For a fixed set of features at their limit, t is a quotient. Starting from the empty set it never exceeds the
    solution, since ⟨gain, u(t)⟩ is concave in t; so features found beyond their limit are at it in the solution, and
    when no new one is found, t is the solution. This finite Newton iteration needs no sorting.
    """
    full = np.zeros(gain.shape, dtype=np.bool_)
    time = np.zeros(len(gain))
    busy = np.arange(len(gain))
    spends, earns = gain * speed, gain * room
    while busy.size:
        rate = np.where(full[busy], 0.0, spends[busy]).sum(axis=1)
        rest = margin[busy] - np.where(full[busy], earns[busy], 0.0).sum(axis=1)
        # The rate is 0 if rounding requires all of the room: then all features are at their limit.
        spent = rate == 0
        time[busy] = np.divide(rest, rate, out=np.zeros_like(rest), where=~spent)
        beyond = ((time[busy, None] * speed[busy] >= room[busy]) | spent[:, None]) & ~full[busy]
        full[busy] |= beyond
        busy = busy[beyond.any(axis=1)]
    return np.where(full, room, time[:, None] * speed)


def _best_first(margin: Floats, gain: Floats, room: Floats) -> Floats:
    """Solve the continuous knapsack: features with the largest gain first, each to its limit, the last one in part."""
    order = np.argsort(-gain, axis=1, kind="stable")
    sorted_gain, sorted_room = np.take_along_axis(gain, order, axis=1), np.take_along_axis(room, order, axis=1)
    earned = np.cumsum(sorted_gain * sorted_room, axis=1)
    last = np.where(earned[:, -1] >= margin, (earned >= margin[:, None]).argmax(axis=1), gain.shape[1] - 1)
    before = np.where(last > 0, _pick(earned, np.maximum(last - 1, 0)), 0.0)
    slope = _pick(sorted_gain, last)
    part = np.divide(margin - before, slope, out=np.zeros_like(margin), where=slope > 0)
    taken = np.where(np.arange(gain.shape[1]) < last[:, None], sorted_room, 0.0)
    np.put_along_axis(taken, last[:, None], np.minimum(part, _pick(sorted_room, last))[:, None], axis=1)
    steps = np.zeros_like(gain)
    np.put_along_axis(steps, order, taken, axis=1)
    return steps


def _gain_and_room(model: LinearClassifier, rows: Floats, y: Ints, rival: Ints) -> tuple[Floats, Floats]:
    """Return per feature what a step of length 1 adds to the rival's lead, and how many such steps fit."""
    low, high, scale = model.domain.flat(model.features)
    movable = model.domain.movable(model.features)
    gain = (model.weight[rival] - model.weight[y]) * np.where(movable, scale, 0.0)
    way = np.where(gain > 0, high - rows, rows - low) / np.where(movable, scale, 1.0)
    # Room without gain is set to 0 to avoid 0 · inf; samples may lie outside of the box by rounding.
    return gain, np.where(gain == 0, 0.0, np.maximum(way, 0.0))


def _last_bits(weight: Floats, rows: Floats, scores: Floats) -> Floats:
    """Return a lead that is large enough not to vanish by rounding."""
    return np.asarray(
        _LAST_BITS * (np.abs(scores).max(axis=1) + (np.abs(weight) * np.abs(rows)).sum(axis=1) + _LAST_BITS)
    )


def _room(way: Floats, scale: Floats) -> Floats:
    """Return how many steps of length 1 lead to a limit; samples may lie outside of the box by rounding."""
    return np.where(scale > 0, np.maximum(way, 0.0) / np.where(scale > 0, scale, 1.0), 0.0)


def _margin(scores: Floats, y: Ints, rival: Ints) -> Floats:
    """Return the score of the own class minus that of the rival."""
    return _pick(scores, y) - _pick(scores, rival)


def _pick(table: Floats, column: Ints) -> Floats:
    """Return one entry of each row."""
    return np.asarray(np.take_along_axis(table, column[:, None], axis=1)[:, 0])


def _has_limits(model: LinearClassifier) -> bool:
    """Return whether any feature that can move has a limit."""
    low, high, _ = model.domain.flat(model.features)
    return bool((model.domain.movable(model.features) & (np.isfinite(low) | np.isfinite(high))).any())


def _blocks(which: Ints, features: int) -> Iterator[Ints]:
    """Yield the samples in blocks that bound the memory and keep the work in the cache."""
    size = max(1, _BLOCK_ENTRIES // features)
    return (which[start : start + size] for start in range(0, len(which), size))


def shortest_step(norm: Norm, gain: Floats, needed: Floats, down: Floats, up: Floats, unit: float) -> Floats | None:
    """Return argmin ‖u‖ subject to gain · u ≥ needed, −down ≤ u ≤ up; None if no u satisfies these conditions.

    L1 and L∞ are linear programs. L2 is the least-distance problem of Lawson and Hanson, solved by non-negative least
    squares; limits join its conditions when a solution violates them, until none does. Both are active-set methods,
    which end with the exact solution up to rounding.

    Parameters
    ----------
    norm
        L1, L2 or L∞.
    gain, needed
        The conditions: one row of `gain` and one number of `needed` each.
    down, up
        How far each feature may move in either direction, `inf` for no limit.
    unit
        Approximate length of the solution, greater than 0; the programs are solved in this unit.

    References
    ----------
    C. L. Lawson, R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.

    >>> corner = shortest_step(Norm.L2, np.eye(2), np.array([3.0, 4.0]), np.full(2, np.inf), np.full(2, np.inf), 1.0)
    >>> corner.round(9).tolist()
    [3.0, 4.0]
    """
    size = np.abs(gain).max(axis=1)
    used = size > 0
    if (needed[~used] > 0).any():
        return None
    gain, needed = gain[used] / size[used, None], needed[used] / size[used] / unit
    down, up = down / unit, up / unit
    if norm is not Norm.L2:
        step = _linear(norm, gain, needed, down, up)
        return None if step is None else step * unit
    # Any step that satisfies the conditions is at least as long as the shortest. In units of its length, that is at
    # most 1.
    first = _linear(Norm.LINF, gain, needed, down, up)
    if first is None:
        return None
    longest = float(norm.length(first))
    if longest == 0:
        return first
    return _least_distance(gain, needed / longest, down / longest, up / longest) * longest * unit


def _linear(norm: Norm, gain: Floats, needed: Floats, down: Floats, up: Floats) -> Floats | None:
    """Solve the linear program of the shortest step in L1 or L∞."""
    # Imported here: scipy's solvers take longer to load than most linear models take to measure.
    from scipy import sparse
    from scipy.optimize import linprog

    count, features = gain.shape
    rows: Any
    bounds: Any
    if norm is Norm.L1:  # u = p − q
        cost = np.ones(2 * features)
        rows, limits = np.hstack([-gain, gain]), -needed
        bounds = np.stack([np.zeros(2 * features), np.concatenate([up, down])], axis=1)
    else:  # t ≥ |u|
        cost = np.append(np.zeros(features), 1.0)
        eye, ones = sparse.eye_array(features), np.ones((features, 1))
        blocks: list[Any] = [[-gain, np.zeros((count, 1))], [eye, -ones], [-eye, -ones]]
        rows = sparse.block_array(blocks, format="csr")
        limits = np.concatenate([-needed, np.zeros(2 * features)])
        bounds = np.stack([np.append(-down, 0.0), np.append(up, np.inf)], axis=1)
    exactly: Any = {"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE}
    answer = linprog(cost, A_ub=rows, b_ub=limits, bounds=bounds, method="highs-ds", options=exactly)
    if answer.status == 2:
        return None
    if answer.status != 0:
        raise FairmarginError(f"The linear program of a distance was not solved ({answer.message}). Please report it.")
    found = np.asarray(answer.x, dtype=np.float64)
    return found[:features] - found[features:] if norm is Norm.L1 else found[:features]


def _least_distance(gain: Floats, needed: Floats, down: Floats, up: Floats) -> Floats:
    """Return the shortest step in L2, if one of length at most 1 is known to satisfy the conditions."""
    from scipy.optimize import nnls

    features = gain.shape[1]
    eye = np.eye(features)
    low, high = np.zeros(features, dtype=np.bool_), np.zeros(features, dtype=np.bool_)
    while True:
        # Limits as conditions: u ≥ −down, −u ≥ −up.
        rows = np.vstack([gain, eye[low], -eye[high]])
        levels = np.concatenate([needed, -down[low], -up[high]])
        weight, _ = nnls(np.vstack([rows.T, levels]), np.append(np.zeros(features), 1.0), maxiter=_ROUNDS)
        rest = 1 - float(levels @ weight)
        step = np.asarray(rows.T @ weight) / rest
        below, above = (step < -down - _OUTSIDE) & ~low, (step > up + _OUTSIDE) & ~high
        if not (below | above).any():
            return np.clip(step, -down, up)
        low, high = low | below, high | above
