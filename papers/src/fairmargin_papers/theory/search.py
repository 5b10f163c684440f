"""Roots and minima of many one-dimensional functions at once."""

from collections.abc import Callable

import numpy as np

from fairmargin.core.arrays import Floats

Function = Callable[[Floats], Floats]

_STEPS = 1_000  # about ten are needed
_GOLDEN = (np.sqrt(5) - 1) / 2


def root_of_increasing(function: Function, middle: Floats, reach: Floats) -> Floats:
    """Return the root of an increasing function to the last bits; `reach` is a first guess of its distance."""
    low, high = middle - reach, middle + reach
    while (below := function(low) > 0).any():
        low, reach = np.where(below, low - reach, low), np.where(below, 2 * reach, reach)
    while (above := function(high) < 0).any():
        high, reach = np.where(above, high + reach, high), np.where(above, 2 * reach, reach)
    return root_between(function, low, high)


def root_between(function: Function, low: Floats, high: Floats) -> Floats:
    """Return the root of a function that is negative at `low` and not at `high`, to the last bits; else NaN.

    Chandrupatla's method takes inverse quadratic steps where the last three points allow it, and bisects otherwise, so
    that it always ends. Reference: T. R. Chandrupatla, Advances in Engineering Software 28 (1997).
    """
    a, b, at_a, at_b = high, low, function(high), function(low)
    crosses = (at_b < 0) & (at_a >= 0)
    c, at_c, step = a, at_a, np.full_like(low, 0.5)
    for _ in range(_STEPS):
        new = a + step * (b - a)
        at_new = function(new)
        same = np.sign(at_new) == np.sign(at_a)
        c, at_c = np.where(same, a, b), np.where(same, at_a, at_b)
        b, at_b = np.where(same, b, a), np.where(same, at_b, at_a)
        a, at_a = new, at_new
        length = np.abs(b - a)
        finest = 2 * np.spacing(np.maximum(np.abs(a), np.abs(b)))
        done = (length <= 2 * finest) | (at_a == 0) | ~crosses
        if done.all():
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            smallest = finest / length
            along, across = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
            quadratic = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            quadratic += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
            trusted = (across**2 < along) & ((1 - across) ** 2 < 1 - along)
        step = np.where(trusted & np.isfinite(quadratic), quadratic, 0.5)
        step = np.where(done, 0.0, np.clip(step, smallest, 1 - smallest))  # finished functions do not move
    return np.asarray(np.where(crosses, np.where(np.abs(at_a) < np.abs(at_b), a, b), np.nan))


def lowest_of_valley(function: Function, low: Floats, high: Floats, steps: int = 80) -> Floats:
    """Return the approximate minimum of a function that first falls and then rises, by golden sections."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(steps):
        is_left = at_left < at_right
        low, high = np.where(is_left, low, left), np.where(is_left, right, high)
        new = np.where(is_left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        at_new = function(new)
        left, right = np.where(is_left, new, right), np.where(is_left, left, new)
        at_left, at_right = np.where(is_left, at_new, at_right), np.where(is_left, at_left, at_new)
    return np.asarray(np.where(at_left < at_right, left, right))
