"""Intervals that need no resampling: shares and curves."""

import numpy as np
from scipy import stats

from fairmargin.core.arrays import Floats


def binomial_interval(hits: float, size: float, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's exact interval of a share; counts may be fractional (an effective sample size).

    >>> [round(limit, 4) for limit in binomial_interval(8, 10, 0.95)]
    [0.4439, 0.9748]
    """
    tail = (1 - confidence) / 2
    low = 0.0 if hits <= 0 else float(stats.beta.ppf(tail, hits, size - hits + 1))
    high = 1.0 if hits >= size else float(stats.beta.ppf(1 - tail, hits + 1, size - hits))
    return low, high


def kolmogorov_band(size: float, confidence: float) -> float:
    """Half-width of the band around an empirical curve of `size` samples that holds the whole true curve.

    The exact distribution of Kolmogorov's statistic; conservative where the curve has jumps.

    >>> round(kolmogorov_band(100, 0.95), 4)
    0.134
    """
    whole = max(int(size), 1)
    return min(1.0, float(stats.kstwo.ppf(confidence, whole)))


def effective_size(samples_per_unit: Floats) -> float:
    """Samples that independent ones would be worth if those of a cluster were copies of each other: (Σn)² / Σn²."""
    return float(samples_per_unit.sum() ** 2 / np.square(samples_per_unit).sum())
