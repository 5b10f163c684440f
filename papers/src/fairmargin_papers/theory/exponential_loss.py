"""The exponential loss exp(−m) of two normal classes, in closed form."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin_papers.theory.thresholds import Bells


@dataclass(frozen=True, slots=True)
class ExponentialLoss:
    """L₊(t) = exp(t − μ̄ + K²/2), L₋(t) = exp(μ̲ − t + 1/2), by the moment generating function of a normal variable."""

    is_convex: ClassVar[bool] = True

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """(μ̲ + μ̄ + (1 − K²)/2 + log_odds) / 2: a wide class + pulls it below every sample soon."""
        variances = (1 - bells.spread) * (1 + bells.spread) / 2
        return np.asarray((bells.low + bells.high + variances + log_odds) / 2)

    def equal(self, bells: Bells) -> Floats:
        """Return the threshold of equal losses, which is the natural one of equally frequent classes."""
        return self.local_minimum(bells, np.zeros_like(bells.low))

    def by_class(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """Return the mean losses of class + and of class −; inf where they overflow."""
        with np.errstate(over="ignore"):
            plus = np.exp(t - bells.high + np.square(bells.spread) / 2)
            return np.asarray(plus), np.asarray(np.exp(bells.low - t + 0.5))

    def change(self, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
        """Return the differences of the mean losses between two thresholds."""
        (plus, minus), (plus_end, minus_end) = self.by_class(bells, start), self.by_class(bells, end)
        return plus_end - plus, minus_end - minus
