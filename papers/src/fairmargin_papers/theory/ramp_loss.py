"""The ramp loss min(1, max(0, 1 − m)) of two normal classes.

It is the mean of the indicator of m < u over u in [0, 1]. So its expectation is the robust error at a radius of u,
averaged over all radii up to 1, and it shares the shape of that: one local minimum, or none.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin_papers.theory.normal import log_mass_of_window, log_mean_of_window
from fairmargin_papers.theory.search import lowest_of_valley, root_between, root_of_increasing
from fairmargin_papers.theory.thresholds import Bells

_REACH = 40  # standard deviations, beyond which a normal class has no mass that a float could hold


@dataclass(frozen=True, slots=True)
class RampLoss:
    """L₊(t) = ∫₀¹ Φ((t+u−μ̄)/K) du, L₋(t) = ∫₀¹ Φ(μ̲−t+u) du."""

    is_convex: ClassVar[bool] = False

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """Where Pr(t < X₊ < t+1) and the weighted Pr(t−1 < X₋ < t), the slopes of the losses, are equal.

        The logarithm of their quotient is a valley for K > 1 and a hill for K < 1, as that of two normal densities; the
        minimum lies where it rises through zero: right of the valley's bottom, left of the hill's top.
        """
        low, high, spread = bells.low, bells.high, bells.spread
        lowest = np.minimum(low - _REACH, high - 1 - _REACH * spread)
        highest = np.maximum(low + 1 + _REACH, high + _REACH * spread)

        def quotient(t: Floats) -> Floats:
            plus = log_mass_of_window((t - high) / spread, 1 / spread)
            return np.asarray(plus - log_mass_of_window(t - 1 - low, np.ones_like(spread)) - log_odds)

        valley = spread >= 1
        turn = lowest_of_valley(lambda t: np.where(valley, 1.0, -1.0) * quotient(t), lowest, highest)
        return root_between(quotient, np.where(valley, turn, lowest), np.where(valley, highest, turn))

    def equal(self, bells: Bells) -> Floats:
        """Where the mean losses are equal, by halving."""

        def quotient(t: Floats) -> Floats:
            plus = log_mean_of_window((t - bells.high) / bells.spread, 1 / bells.spread)
            return np.asarray(plus - log_mean_of_window(bells.low - t, np.ones_like(bells.low)))

        middle = (bells.low + bells.high) / 2
        return root_of_increasing(quotient, middle, 1 + np.abs(bells.high - bells.low))

    def by_class(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """Return the mean losses of class + and of class −."""
        plus = log_mean_of_window((t - bells.high) / bells.spread, 1 / bells.spread)
        return np.exp(plus), np.exp(log_mean_of_window(bells.low - t, np.ones_like(bells.low)))

    def change(self, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
        """Return the differences of the mean losses, computed from 1 minus the losses where that is smaller."""
        losses = zip(self.by_class(bells, start), self.by_class(bells, end), strict=True)
        lacks = zip(self._lack(bells, start), self._lack(bells, end), strict=True)
        plus, minus = (
            np.where(before + after < 1, after - before, lack_before - lack_after)
            for (before, after), (lack_before, lack_after) in zip(losses, lacks, strict=True)
        )
        return plus, minus

    def _lack(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """1 − L₊ and 1 − L₋, without cancellation."""
        width = 1 / bells.spread
        plus = log_mean_of_window((bells.high - t) / bells.spread - width, width)
        return np.exp(plus), np.exp(log_mean_of_window(t - 1 - bells.low, np.ones_like(bells.low)))
