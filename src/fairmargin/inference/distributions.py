"""Quantiles and tail probabilities of distributions.

`scipy.stats` has all of them, but its import takes longer than a complete call of `fairmargin gate`, and its quantile
of Kolmogorov's statistic takes seconds for large samples.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special

from fairmargin.core.arrays import Floats

_EXACT_BELOW = 30  # below this size the distribution of Kolmogorov's statistic is computed exactly
_ONE_SIDED = 4.0  # n x² above which deviations to both sides have a probability below 1e-13
_STEPS = 50  # maximum number of steps of the secant method


def student_quantile(probability: float | Floats, freedom: float | Floats) -> Floats:
    """Return the quantile of Student's t.

    >>> round(float(student_quantile(0.975, 10)), 4)
    2.2281
    """
    quantile = np.asarray(special.stdtrit(freedom, probability))
    return np.asarray(np.where(np.asarray(probability) == 0, -np.abs(quantile), quantile))  # scipy gives +inf for 0


def student_tail(t: Floats, freedom: float | Floats) -> Floats:
    """Return the probability that Student's t exceeds `t`."""
    return np.asarray(special.stdtr(freedom, -t))


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the quantile of a beta distribution."""
    return float(special.betaincinv(a, b, probability))


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return float(special.ndtri(probability))


def binomial_quantile(probability: float, size: int, share: float) -> int:
    """Return the smallest k with Pr(Bin(size, share) ≤ k) ≥ probability.

    >>> binomial_quantile(0.95, 100, 0.001)
    1
    """
    if share == 0:
        return 0
    k = max(math.ceil(special.bdtrik(probability, size, share)), 0)
    return k - 1 if k > 0 and special.bdtr(k - 1, size, share) >= probability else k


def hypergeometric_tails(ones: int, population: int, successes: int, draws: int) -> tuple[float, float]:
    """Return the probabilities of at most and of at least `ones` successes in draws without replacement.

    >>> [round(chance, 4) for chance in hypergeometric_tails(1, population=10, successes=4, draws=3)]
    [0.6667, 0.8333]
    """
    k = np.arange(max(0, draws + successes - population), min(draws, successes) + 1, dtype=float)
    ways = _log_choose(successes, k) + _log_choose(population - successes, draws - k)
    chance = np.exp(ways - _log_choose(population, np.array(float(draws))))
    return min(1.0, float(chance[k <= ones].sum())), min(1.0, float(chance[k >= ones].sum()))


def _log_choose(n: int, k: Floats) -> Floats:
    return np.asarray(-special.betaln(1 + n - k, 1 + k) - math.log1p(n))


@lru_cache(maxsize=256)
def kolmogorov_quantile(probability: float, size: int) -> float:
    """Return the quantile of Kolmogorov's statistic, the largest distance between the empirical and the true curve.

    It is for `size` independent samples of a continuous distribution. From 30 samples on, the quantile of the limiting
    distribution is corrected for the size (Vrbik 2018, "Small-sample corrections to Kolmogorov–Smirnov test statistic",
    Pioneer Journal of Theoretical and Applied Statistics 15): at probability 0.95, the result is at most 0.1 % too
    large. The closed forms at both ends follow Simard and L'Ecuyer (2011), "Computing the two-sided Kolmogorov–Smirnov
    distribution".

    >>> round(kolmogorov_quantile(0.95, 10), 4), round(kolmogorov_quantile(0.95, 10_000), 4)
    (0.4092, 0.0136)
    """
    if size >= _EXACT_BELOW:
        limiting = float(special.kolmogi(1 - probability))
        return (limiting - 1 / (6 * math.sqrt(size)) + 1 / (4 * size)) / (1 + 1 / (4 * size)) / math.sqrt(size)
    lowest = math.exp((math.log(probability) - math.lgamma(size + 1)) / size)
    if lowest <= 1 / size:
        return (lowest + 1 / size) / 2
    highest = -math.expm1(math.log((1 - probability) / 2) / size)
    if highest >= 1 - 1 / size:
        return highest
    # The quantile of the one-sided statistic is slightly too large. The secant method finds the root in a few steps.
    x = float(special.smirnovi(size, (1 - probability) / 2))
    before, error_before = x * (1 - 1e-4), _kolmogorov_cdf(x * (1 - 1e-4), size) - probability
    for _ in range(_STEPS):
        error = _kolmogorov_cdf(x, size) - probability
        if error == error_before:
            break
        step = error * (x - before) / (error - error_before)
        before, error_before, x = x, error, x - step
        if abs(step) < 1e-14:
            break
    return x


def _kolmogorov_cdf(x: float, size: int) -> float:
    if x >= 0.5 or size * x**2 > _ONE_SIDED:
        return 1 - 2 * float(special.smirnov(size, x))
    return _exact_cdf(x, size)


def _exact_cdf(x: float, size: int) -> float:
    """Return Pr(D ≤ x) from a power of a matrix (Marsaglia, Tsang and Wang 2003)."""
    k = math.ceil(size * x)
    h, width = k - size * x, 2 * k - 1
    rows = np.arange(1, width + 1)
    factorials = special.factorial(rows)
    edge = (1 - h**rows) / factorials
    edge[-1] = (1 - 2 * h**width + max(2 * h - 1, 0) ** width) / factorials[-1]
    below = rows[:, None] - rows[None, :] + 1
    matrix = np.where(below >= 0, 1 / special.factorial(np.maximum(below, 0)), 0.0)
    matrix[:, 0], matrix[-1, :] = edge, edge[::-1]
    entry = np.linalg.matrix_power(matrix, size)[k - 1, k - 1]
    return float(entry * math.exp(math.lgamma(size + 1) - size * math.log(size)))
