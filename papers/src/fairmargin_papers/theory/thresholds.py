"""True minimisers of a weighted sum of the losses of two classes over a threshold.

For a classifier that predicts + above a threshold t, the loss L₊(t) of class + grows with t and the loss L₋(t) of class
− falls. Natural, fair and robust thresholds all minimise a·L₊(t) + b·L₋(t) on an interval, with weights that may be
negative. A point where the derivative is zero need not be that minimum: the ends of the interval, the infinite ones
among them, are always asked, too.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fairmargin.core.arrays import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Bells:
    """Class − is N(low, 1) and class + is N(high, spread²); arrays of one shape. `low` may lie above `high`."""

    low: Floats
    high: Floats
    spread: Floats


class ClassLoss(Protocol):
    """A loss as a function of the threshold, class by class."""

    is_convex: ClassVar[bool]

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """Return the local minimum of L₊(t) + exp(log_odds)·L₋(t) at a finite t; NaN if there is none."""

    def equal(self, bells: Bells) -> Floats:
        """Return the threshold at which L₊ = L₋."""

    def by_class(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """L₊(t) and L₋(t)."""

    def change(self, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
        """L₊(end) − L₊(start) ≥ 0 and L₋(end) − L₋(start) ≤ 0 for start ≤ end, without cancellation at ±inf."""


def least_weighted(loss: ClassLoss, bells: Bells, plus: Floats, minus: Floats, low: Floats, high: Floats) -> Floats:
    """argmin of plus·L₊(t) + minus·L₋(t) over low ≤ t ≤ high, where plus + minus > 0.

    Among equals the local minimum comes first, then the lower end.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds = np.log(np.maximum(minus, 0.0)) - np.log(np.maximum(plus, 0.0))
    one_sided = np.isinf(log_odds)  # a weight is not positive: the sum is monotone
    inner = loss.local_minimum(bells, np.where(one_sided, 0.0, log_odds))
    inner = np.where(one_sided, log_odds, inner)
    if loss.is_convex:
        return np.asarray(np.clip(inner, low, high))
    within = (inner >= low) & (inner <= high)
    best = np.where(within, inner, low)
    rise_from_low = _weighted(plus, minus, loss.change(bells, low, best))
    best = np.where(rise_from_low > _rounding(low), low, best)
    rise_to_high = _weighted(plus, minus, loss.change(bells, best, high))
    return np.asarray(np.where(rise_to_high < -_rounding(high), high, best))


def least_penalised(loss: ClassLoss, bells: Bells, prior: Floats, penalty: Floats, low: Floats, high: Floats) -> Floats:
    """argmin of prior·L₊ + (1−prior)·L₋ + penalty·|L₊ − L₋| over low ≤ t ≤ high.

    L₊ − L₋ grows with t, so that on either side of the threshold of equal losses this is a weighted sum again.
    """
    if not penalty.any():
        return least_weighted(loss, bells, prior, 1 - prior, low, high)
    penalty = np.minimum(penalty, 2.0)  # from 1 on equal losses are best whatever the prior, and inf has no difference
    fair = np.clip(loss.equal(bells), low, high)
    weights_above, weights_below = (prior + penalty, 1 - prior - penalty), (prior - penalty, 1 - prior + penalty)
    above = least_weighted(loss, bells, *weights_above, fair, high)
    below = least_weighted(loss, bells, *weights_below, low, fair)
    if loss.is_convex:  # then a fall to one side means a rise to the other
        return np.asarray(np.where(above > fair, above, below))
    gain_above = -_weighted(*weights_above, loss.change(bells, fair, above))
    gain_below = _weighted(*weights_below, loss.change(bells, below, fair))
    is_below = (above == fair) | ((below < fair) & (gain_below > gain_above))
    return np.asarray(np.where(is_below, below, above))


def _rounding(end: Floats) -> Floats:
    """Return by how much a finite end must be better, so that rounding does not decide against a minimum nearby."""
    return np.asarray(np.where(np.isfinite(end), 4e-16, 0.0))


def _weighted(plus: Floats, minus: Floats, change: tuple[Floats, Floats]) -> Floats:
    return np.asarray(plus * change[0] + minus * change[1])
