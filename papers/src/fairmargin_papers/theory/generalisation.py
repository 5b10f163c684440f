"""Why the variance between classes cannot bound the generalisation gap: losses that are coin flips in every class.

Theorem 6.1 of Ma 2022 claims R ≤ R̂ + √(VCAR/(δn)) + C/n with probability 1 − δ. If the loss is 0 or 1 with probability
½ whatever the class, all classes have risk ½, VCAR is 0, and only C/n is left. But R̂ is the share of heads among n
flips: its distance from ½ shrinks like 1/√n, and no C will do. What is missing is the variance *within* the classes.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, beta

from fairmargin.core.arrays import Bools, Floats
from fairmargin.errors import InputError
from fairmargin_papers.theory.parameters import Number, as_number, plain, require

# max over δ of √δ · Φ⁻¹(1−δ), attained at δ = 0.1169…: see `asymptotically_bounded`.
_LARGEST_QUANTILE = 0.40708305636


def mean_coin_gap(samples: npt.ArrayLike) -> Number:
    """E|R̂ − R| of n losses that are 0 or 1 with probability ½: B(⌊n/2⌋ + ½, ½) / 2π, about 1/√(2πn).

    De Moivre's mean absolute deviation of a binomial, 2⁻ⁿ·C(n−1, ⌊n/2⌋), written with the beta function.

    Parameters
    ----------
    samples
        How many losses are averaged, n.

    References
    ----------
    Ma, Wang, Liu, "On the Tradeoff Between Robustness and Fairness", NeurIPS 2022, Theorem 6.1: false as printed.

    >>> round(mean_coin_gap(1), 9), round(mean_coin_gap(2), 9)
    (0.5, 0.25)
    >>> round(mean_coin_gap(40_000) / mean_coin_gap(10_000), 4)  # four times the samples halve it; C/n would quarter it
    0.5
    """
    count = _whole(samples)
    gap = np.asarray(beta(np.floor(count / 2) + 0.5, 0.5) / (2 * np.pi))
    return plain(gap)


def chance_beyond(samples: npt.ArrayLike, constant: float) -> Number:
    """P(R > R̂ + C/n) of n fair coin flips: how often the printed bound fails where VCAR = 0. It tends to ½ for every C.

    Parameters
    ----------
    samples
        n.
    constant
        The C of the theorem, at least 0.

    >>> [round(chance_beyond(n, constant=10.0), 3) for n in (100, 10_000, 1_000_000)]
    [0.018, 0.417, 0.492]
    """
    if not 0 <= constant < np.inf:
        raise InputError("must be a finite number that is not negative", field="constant", given=constant)
    count = _whole(samples)
    most = np.ceil(count / 2 - constant) - 1  # heads that are fewer than n/2 − C
    chance = np.asarray(np.where(most < 0, 0.0, bdtr(np.maximum(most, 0.0), count.astype(np.int64), 0.5)))
    return plain(chance)


def asymptotically_bounded(between: Floats, risk: Floats) -> Bools:
    """Whether R ≤ R̂ + √(VCAR/(δn)) + C/n can hold with probability 1 − δ for every δ, for one classifier and large n.

    The 0/1 loss of a classifier with risk p has variance p(1−p), so √n (R − R̂) tends to a normal distribution, and C/n
    to nothing beside it: √(VCAR/δ) must reach √(p(1−p)) Φ⁻¹(1−δ) for all δ, that is, VCAR ≥ p(1−p)·max δ·Φ⁻¹(1−δ)².

    Parameters
    ----------
    between
        VCAR, the variance of the risk over the classes.
    risk
        p, of all classes together.
    """
    return np.asarray(between >= risk * (1 - risk) * _LARGEST_QUANTILE**2)


def _whole(samples: npt.ArrayLike) -> Floats:
    count = as_number(samples, "samples")
    whole = (count >= 1) & (count == np.floor(count)) & (count < 2**31)
    require(whole, count, "samples", "must be a whole number from 1 to 2³¹ − 1")
    return count
