"""The shortest step inside a box that satisfies several linear conditions at once: a linear or quadratic program."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog, nnls

from fairmargin.core.arrays import Floats
from fairmargin.core.norm import Norm
from fairmargin.errors import FairmarginError

_TOLERANCE = 1e-10  # of the solver; conditions and lengths are scaled to about 1 before
_BEYOND = 1e-12  # a feature is outside of its limits by more than this, in units of the step's length
_ROUNDS = 10_000


def shortest_step(norm: Norm, gain: Floats, needed: Floats, down: Floats, up: Floats, unit: float) -> Floats | None:
    """argmin ‖u‖ subject to gain · u ≥ needed, −down ≤ u ≤ up; None if no u satisfies them.

    L1 and L∞ are linear programs. L2 is the least-distance problem of Lawson and Hanson, solved by non-negative least
    squares; limits join its conditions when a solution violates them, until none does. Both are active-set methods,
    which end with the exact solution up to rounding.

    Parameters
    ----------
    norm
        L1, L2 or L∞.
    gain, needed
        One row, and one number, per condition.
    down, up
        How far each feature may go either way, `inf` for no limit.
    unit
        About the length of the answer, more than 0: the programs are solved in this unit.

    References
    ----------
    C. L. Lawson, R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.

    >>> corner = shortest_step(Norm.L2, np.eye(2), np.array([3.0, 4.0]), np.full(2, np.inf), np.full(2, np.inf), 1.0)
    >>> corner.round(9).tolist()
    [3.0, 4.0]
    """
    size = np.abs(gain).max(axis=1)
    some = size > 0
    if (needed[~some] > 0).any():
        return None
    gain, needed = gain[some] / size[some, None], needed[some] / size[some] / unit
    down, up = down / unit, up / unit
    if norm is not Norm.L2:
        step = _linear(norm, gain, needed, down, up)
        return None if step is None else step * unit
    # Any step that satisfies the conditions is at least as long as the shortest: in its length, that is at most 1.
    first = _linear(Norm.LINF, gain, needed, down, up)
    if first is None:
        return None
    longest = float(norm.length(first))
    if longest == 0:
        return first
    return _least_distance(gain, needed / longest, down / longest, up / longest) * longest * unit


def _linear(norm: Norm, gain: Floats, needed: Floats, down: Floats, up: Floats) -> Floats | None:
    """The shortest step in L1 or L∞."""
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
        raise FairmarginError(f"The linear program of a distance could not be solved ({answer.message}).")
    found = np.asarray(answer.x, dtype=np.float64)
    return found[:features] - found[features:] if norm is Norm.L1 else found[:features]


def _least_distance(gain: Floats, needed: Floats, down: Floats, up: Floats) -> Floats:
    """The shortest step in L2, of length at most 1, of which at least one is known to satisfy the conditions."""
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
        below, above = (step < -down - _BEYOND) & ~low, (step > up + _BEYOND) & ~high
        if not (below | above).any():
            return np.clip(step, -down, up)
        low, high = low | below, high | above
