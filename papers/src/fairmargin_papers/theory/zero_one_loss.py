"""The 0/1 loss of two normal classes: its expectation is the error, and everything has a closed form."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from fairmargin.core.arrays import Floats
from fairmargin_papers.theory.normal import mass_between
from fairmargin_papers.theory.thresholds import Bells


@dataclass(frozen=True, slots=True)
class ZeroOneLoss:
    """L₊(t) = Φ((t−μ̄)/K), L₋(t) = Φ(μ̲−t)."""

    is_convex: ClassVar[bool] = False

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """Where the weighted densities are equal and the derivative rises through zero.

        With D = μ̄−μ̲, c = ln K + log_odds and u = t−μ̲, equal densities mean (K²−1)u² + 2Du = D² + 2K²c, hence
        u = (−D + K√(D² + 2(K²−1)c)) / (K²−1). For D > 0 its conjugate (D² + 2K²c) / (D + K√…) has no cancellation at
        K → 1, where it becomes the midpoint rule D/2 + c/D.
        """
        gap, spread = bells.high - bells.low, bells.spread
        excess = (spread - 1) * (spread + 1)
        shift = np.log(spread) + log_odds
        square = np.square(gap) + 2 * excess * shift
        root = np.sqrt(np.where(square >= 0, square, np.nan))
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = (np.square(gap) / spread + 2 * spread * shift) / (gap / spread + root)
            crossed = (spread * root - gap) / np.where(excess == 0, np.nan, excess)
        same = (gap == 0) & (excess == 0) & (log_odds == 0)  # every threshold is as good: the common mean
        return np.asarray(bells.low + np.where(same, 0.0, np.where(gap > 0, apart, crossed)))

    def equal(self, bells: Bells) -> Floats:
        """θ_f = μ̲ + D/(K+1)."""
        return np.asarray(bells.low + (bells.high - bells.low) / (bells.spread + 1))

    def by_class(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """Return the errors of class + and of class −."""
        return np.asarray(ndtr((t - bells.high) / bells.spread)), np.asarray(ndtr(bells.low - t))

    def change(self, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
        """Return the mass of each class between two thresholds, which changes sides."""
        plus = mass_between((start - bells.high) / bells.spread, (end - bells.high) / bells.spread)
        return plus, -mass_between(start - bells.low, end - bells.low)
