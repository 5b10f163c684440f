"""The threshold between two normal distributions with the least weighted error, without cancellation.

Let the upper class + have weight α and the lower class − weight 1 − α, let z₊ and z₋ be the distances of the two means
from the threshold in standard deviations of their class (positive on the right side), and κ = ln(α s₋ / ((1−α) s₊)).
A threshold is stationary where the weighted densities are equal, z₊² − z₋² = 2κ, and the means are s₊z₊ + s₋z₋ = D
apart. In the sum P = z₊ + z₋ and the lead Q = z₊ − z₋, with (s₊+s₋)/2 as the unit and δ = (s₋−s₊)/(s₊+s₋), that is

    P·Q = 2κ,  P − δQ = D   ⇒   P = (D + √(D² + 8κδ)) / 2,  Q = 2κ / P.

The sign before the root is that of 2P − D, which is the second derivative of the error but for a positive factor: with
+ it is the one local minimum, whatever the signs of D, κ and δ. Nothing is divided by δ where D > 0, so equal standard
deviations are no special case; where D ≤ 0 the same root is written as its conjugate.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr

from fairmargin.core.arrays import Bools, Floats


class BestThreshold(NamedTuple):
    """z₊ + z₋ and z₊ − z₋ at the best threshold; the lead is ±inf if always predicting ±1 is best."""

    total: Floats
    lead: Floats

    @property
    def plus(self) -> Floats:
        """z₊, the distance of the mean of class + above the threshold in standard deviations."""
        return np.asarray((self.total + self.lead) / 2)

    @property
    def minus(self) -> Floats:
        """z₋, the distance of the mean of class − below the threshold in standard deviations."""
        return np.asarray((self.total - self.lead) / 2)


def best_threshold(separation: Floats, skew: Floats, log_spread: Floats, log_odds: Floats) -> BestThreshold:
    """Return the global minimiser of α Φ(−z₊) + (1−α) Φ(−z₋) over all thresholds, including the infinite ones.

    If s₋ > s₊, the error falls from 1 − α (all are predicted +) to the local minimum, rises, and falls to α (all are
    predicted −), so that only the latter can be better than the local minimum. If s₋ < s₊, it is the other way round.
    If they are equal, there is a local minimum for D > 0; otherwise, predicting the more frequent class is best.

    If several thresholds are equally good, the result is the midpoint if D = 0 and everything is equal, and always
    predicting +1 if D < 0 and both constants have equal errors.

    Parameters
    ----------
    separation
        D, the distance of the means, in units of the mean of the two standard deviations; may be negative.
    skew
        δ = (s₋−s₊)/(s₊+s₋).
    log_spread
        ln(s₋/s₊) = 2 artanh δ, which is not precise when calculated from δ if one class is much wider.
    log_odds
        ln(α/(1−α)).

    >>> threshold = best_threshold(np.array(2.0), *np.zeros(3))
    >>> float(threshold.plus), float(threshold.minus)
    (1.0, 1.0)
    """
    separation, skew, log_spread, log_odds = np.broadcast_arrays(separation, skew, log_spread, log_odds)
    log_ratio = log_odds + log_spread
    square = separation**2 + 8 * log_ratio * skew
    root = np.sqrt(np.maximum(square, 0.0))
    apart = separation > 0
    # Results of overflow, and of 0/0 where there is no root, are replaced below or are the right limit.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        total = np.where(apart, (separation + root) / 2, 4 * log_ratio * skew / (root - separation))
        lead = np.where(apart, 4 * log_ratio / (separation + root), (root - separation) / (2 * skew))
    stationary = (square > 0) & (apart | (skew != 0))
    local = BestThreshold(np.where(stationary, total, 0.0), np.where(stationary, lead, 0.0))
    best = stationary & ((skew == 0) | _beats_constant(local, log_spread, log_odds))
    indifferent = (separation == 0) & (skew == 0) & (log_odds == 0)
    constant = np.where(skew == 0, log_odds >= 0, skew < 0)  # whether the best constant is +1
    lead_of_constant = np.where(indifferent, 0.0, np.where(constant, np.inf, -np.inf))
    return BestThreshold(np.where(best, local.total, 0.0), np.where(best, local.lead, lead_of_constant))


def _beats_constant(local: BestThreshold, log_spread: Floats, log_odds: Floats) -> Bools:
    """Return whether the local minimum has a smaller error than always predicting the class with the larger spread.

    For s₋ > s₊ that is α Φ(z₊) > (1−α) Φ(−z₋). If both probabilities are tails, they are compared by s·Φ(−|z|)/φ(z),
    because the weighted densities are equal, which avoids cancellation and underflow.
    """
    wider_is_minus = log_spread > 0
    narrow = np.where(wider_is_minus, local.plus, local.minus)
    wide = np.where(wider_is_minus, local.minus, local.plus)
    odds = np.where(wider_is_minus, log_odds, -log_odds)
    tails = (narrow < 0) & (wide > 0)
    with np.errstate(invalid="ignore"):  # for both tails of a minimum at infinity, the result is not used
        direct = odds + log_ndtr(narrow) - log_ndtr(-wide)
    narrow_tail, wide_tail = (_log_mills(np.where(tails, margin, 0.0)) for margin in (-narrow, wide))
    by_tails = narrow_tail - wide_tail - np.abs(log_spread)
    return np.asarray(np.where(tails, by_tails, direct) > 0)


def _log_mills(z: Floats) -> Floats:
    """Return ln(Φ(−z)/φ(z)) for z ≥ 0, up to a constant."""
    return np.asarray(np.log(erfcx(np.minimum(z, 1e300) / np.sqrt(2))))
