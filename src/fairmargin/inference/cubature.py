"""A few units that have the same moments as a large cell of units of unequal size.

A unit is a pair: the number of its samples (or the sum of their weights) and the sum of their values. Resampled means
and standard errors depend on sums of products of both. Units drawn from a distribution on a few of them have sums with
the same mean, spread, skewness and kurtosis if all moments of both numbers up to the fourth order agree; there are 15.
By Carathéodory's theorem, 15 units suffice, and they are found by recombination (Litterer and Lyons 2012, "High order
recombination and an application to cubature on Wiener space"): the units are split into 30 blocks, the probability of
at least half of the blocks is moved to the others such that no moment changes, and the units of the empty blocks are
dropped, until 15 units are left. The work is proportional to the number of units.
"""

import numpy as np

from fairmargin.core.arrays import Floats, Ints

_POWERS = [(i, j) for i in range(5) for j in range(5 - i)]  # exponents of the moments
_MOMENTS = len(_POWERS)


def few_units(samples: Floats, total: Floats) -> tuple[Ints, Floats]:
    """Return the indices of at most 15 units, and probabilities, with the same moments as equally likely units.

    >>> samples, total = np.linspace(1, 2, 500), np.linspace(0, 30, 500) ** 2
    >>> units, shares = few_units(samples, total)
    >>> len(units), bool(np.isclose(shares @ (total[units] ** 3 * samples[units]), (total**3 * samples).mean()))
    (15, True)
    """
    units = np.arange(len(total))
    shares = np.full(len(total), 1 / len(total))
    left, right = _standardised(samples), _standardised(total)
    while len(units) > _MOMENTS:
        blocks = min(2 * _MOMENTS, len(units))
        starts = np.arange(blocks) * len(units) // blocks
        of_block = np.add.reduceat(shares, starts)
        sums = [np.add.reduceat(part, starts) for part in _moments(left[units], right[units], shares)]
        moved = _recombined(np.stack(sums) / of_block, of_block)
        factor = np.repeat(moved / of_block, np.diff(np.append(starts, len(units))))
        units, shares = units[factor > 0], (shares * factor)[factor > 0]
    return units, shares / shares.sum()


def _standardised(values: Floats) -> Floats:
    distance = values - values.mean()
    spread = np.sqrt(np.mean(distance**2))
    return np.asarray(distance / spread if spread > 0 else distance)


def _moments(left: Floats, right: Floats, shares: Floats) -> list[Floats]:
    """Return left^i · right^j · shares for all exponents."""
    products = {(0, 0): shares}
    for i, j in _POWERS[1:]:
        products[i, j] = products[i, j - 1] * right if j else products[i - 1, 0] * left
    return [products[power] for power in _POWERS]


def _recombined(columns: Floats, shares: Floats) -> Floats:
    """Return shares ≥ 0 with the same Σ share · column, at most as many of them above 0 as a column has entries."""
    size = np.abs(columns).max(axis=1, keepdims=True)
    directions = np.linalg.svd(columns / np.where(size > 0, size, 1.0))[2][len(columns) :].copy()  # change no sum
    shares = shares.copy()
    for k, along in enumerate(directions):
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(along > 1e-12 * np.abs(along).max(), shares / along, np.inf)
        first = int(steps.argmin())  # the first share that becomes 0
        shares = np.maximum(shares - steps[first] * along, 0.0)
        shares[first] = 0.0
        directions[k + 1 :] -= np.outer(directions[k + 1 :, first] / along[first], along)
    return shares
