"""Probabilities and means of a standard normal Z, with relative precision in both tails."""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erf, erfcx, log_ndtr, ndtr

from fairmargin.core.arrays import Floats

_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_NODES, _LOG_WEIGHTS = (_NODES + 1) / 2, np.log(_WEIGHTS / 2)


def density(z: Floats) -> Floats:
    """Return φ(z), which is 0 at ±inf."""
    return np.asarray(np.exp(-0.5 * np.square(np.clip(z, -100, 100))) / math.sqrt(2 * math.pi))


def mass_between(start: Floats, end: Floats) -> Floats:
    """Return Pr(start < Z ≤ end) for start ≤ end, calculated from the smaller tail."""
    upper = start > 0
    return np.asarray(np.where(upper, ndtr(-start) - ndtr(-end), ndtr(end) - ndtr(start)))


def mean_absolute(z: Floats) -> Floats:
    """Return E|Z − z| = 2φ(z) + z(2Φ(z) − 1), with 2Φ(z) − 1 = erf(z/√2)."""
    return np.asarray(2 * density(z) + z * erf(z / math.sqrt(2)))


def log_side(rate: Floats, d: Floats) -> Floats:
    """Return ln E[exp(−rate·(Z − d)) over Z > d] = ln(φ(d) Φ(−z)/φ(z)) at z = rate + d, for rate ≥ 0.

    >>> float(np.exp(log_side(np.array(0.0), np.array(0.0))))  # Pr(Z > 0)
    0.5
    """
    z = rate + d
    mills = np.log(erfcx(np.maximum(z, 0.0) / math.sqrt(2))) - 0.5 * np.square(d) - math.log(2)
    # Left of 0 the two squares, of d and of z, would cancel.
    return np.asarray(np.where(z >= 0, mills, rate * (d + 0.5 * rate) + log_ndtr(-z)))


def log_mean_excess(z: Floats) -> Floats:
    """Return ln E max(z − Z, 0) = ln(zΦ(z) + φ(z)), with a relative error of the mean below 1e-11 in the lower tail."""
    far = np.minimum(z, -1.0)
    square = np.square(far)
    # zΦ + φ cancels like z² in the tail; beyond −200 its asymptotic series is exact.
    series = (1 - (3 - (15 - 105 / square) / square) / square) / square
    mills = math.sqrt(math.pi / 2) * erfcx(-far / math.sqrt(2))
    tail = np.log(np.where(far < -200, series, 1 + np.maximum(far, -200.0) * mills)) - 0.5 * square - _LOG_ROOT_2PI
    near = np.maximum(z, -1.0)
    return np.asarray(np.where(z < -1, tail, np.log(near * ndtr(near) + density(near))))


def log_mass_of_window(start: Floats, width: Floats) -> Floats:
    """Return ln Pr(start < Z ≤ start + width) for finite numbers and width > 0."""
    flips = start > 0
    below, above = np.where(flips, -start - width, start), np.where(flips, -start, start + width)
    narrow = np.log(width) + _log_mean_over(lambda z: -0.5 * np.square(z) - _LOG_ROOT_2PI, below, width)
    return _log_difference(log_ndtr(below), log_ndtr(above), narrow)


def log_mean_of_window(start: Floats, width: Floats) -> Floats:
    """Return ln of the mean of Φ over [start, start + width] for width > 0; its integral is the mean excess."""
    flips = start > -width / 2  # then the mean is 1 minus that of the mirrored window
    below, above = np.where(flips, -start - width, start), np.where(flips, -start, start + width)
    bottom, top = (log_mean_excess(np.maximum(end, -1e100)) for end in (below, above))
    narrow = _log_mean_over(log_ndtr, below, width)
    mean = _log_difference(bottom - np.log(width), top - np.log(width), narrow)
    return np.asarray(np.where(flips, np.log1p(-np.exp(np.where(flips, mean, -1.0))), mean))


def mass_of_window(start: Floats, width: Floats) -> Floats:
    """Return Pr(start < Z ≤ start + width) for width ≥ 0, also if the width is below the spacing of floats at start."""
    narrow = log_mass_of_window(np.clip(start, -100, 100), np.clip(width, 1e-300, 0.1))
    direct = mass_between(start, start + width)
    return np.asarray(np.where((width > 0) & (width < 0.1), np.exp(narrow), direct))


def _log_difference(log_small: Floats, log_large: Floats, quadrature: Floats) -> Floats:
    """Return ln(large − small), by quadrature where they would cancel, since it is exact for such narrow windows."""
    step = np.minimum(log_small - log_large, 0.0)
    with np.errstate(divide="ignore"):
        direct = log_large + np.log(-np.expm1(step))
    return np.asarray(np.where(step < -0.5, direct, quadrature))


def _log_mean_over(log_function: Callable[[Floats], Floats], start: Floats, width: Floats) -> Floats:
    """Return ln of the mean of exp(log_function) over a window, by 24 Gauss–Legendre nodes."""
    points = start[..., None] + width[..., None] * _NODES
    return np.asarray(np.logaddexp.reduce(log_function(points) + _LOG_WEIGHTS, axis=-1))
