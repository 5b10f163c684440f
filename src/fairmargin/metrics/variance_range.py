"""Between what limits a variance lies if each number is only known to lie between its own."""

import numpy as np

from fairmargin.core.arrays import Floats

_HALVINGS = 200


def variance_range(low: Floats, high: Floats) -> tuple[float, float]:
    """The least and the largest population variance of numbers with low ≤ r ≤ high.

    The least: var(r) = min over t of the mean of (r − t)², so that each r is the number of its interval nearest to a
    common t, and t is where the pulls of all intervals cancel. The largest: a variance is convex, so that each r is an
    end of its interval; given their sum, those with the highest middles are at their upper end (a knapsack), so that
    only k + 1 choices need to be looked at.

    >>> variance_range(np.array([1.0, 3.0]), np.array([2.0, 4.0]))
    (0.25, 2.25)
    >>> variance_range(np.array([1.0, 1.5]), np.array([2.0, 4.0]))[0]
    0.0
    """
    return _least(low, high), _largest(low, high)


def _least(low: Floats, high: Floats) -> float:
    if low.max() <= high.min():
        return 0.0  # one number lies in all intervals
    below, above = float(low.min()), float(high.max())
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        if float((middle - np.clip(middle, low, high)).sum()) > 0:
            above = middle
        else:
            below = middle
    return float(np.var(np.clip((below + above) / 2, low, high)))


def _largest(low: Floats, high: Floats) -> float:
    order = np.argsort(-(low + high), kind="stable")
    low, high = low[order], high[order]
    return max(float(np.var(np.concatenate([high[:n], low[n:]]))) for n in range(len(low) + 1))
