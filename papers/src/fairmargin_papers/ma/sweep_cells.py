"""Two methods cell by cell, where cells of one seed, and of one pair of networks, are not independent."""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.errors import InputError
from fairmargin.inference.shares import binomial_interval
from fairmargin_papers.shared.claims import Interval
from fairmargin_papers.shared.trained import SeedMean, over_seeds


@dataclass(frozen=True, slots=True)
class CellShare:
    """In which share of cells one method lies below, or above, the other.

    Parameters
    ----------
    share, low, high
        The share and its interval.
    cells
        How many cells there are, all seeds together.
    """

    share: float
    low: float
    high: float
    cells: int

    @property
    def interval(self) -> Interval:
        """Both limits."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.share * self.cells:.4g} of {self.cells} cells ({self.share:.0%})"


def share_of_cells(differences: Floats) -> CellShare:
    """Return the share of cells with a difference above 0; ties count half, so that chance gives ½.

    Cells of one seed share initial weights, batches and test samples, and the cells of one pair of networks share the
    networks: one number a seed is taken, and the interval is Student's t over seeds. Where seeds agree by luck that is
    too narrow; it is widened to the exact binomial interval of as many trials as there are pairs of networks, and is
    that interval where all seeds agree to the last cell. Of a single seed nothing is known but the share.

    Parameters
    ----------
    differences
        (seeds, radii trained with, cells of a pair of networks).

    >>> found = share_of_cells(np.ones((3, 4, 6)))
    >>> print(found, [round(limit, 3) for limit in found.interval])
    72 of 72 cells (100%) [0.735, 1.0]
    """
    if differences.ndim != 3 or not differences.size:
        raise InputError(f"Expected differences by seed, radius and cell; given the shape {differences.shape}.")
    wins = (np.sign(differences) + 1) / 2
    by_seed = over_seeds(wins.mean(axis=(1, 2)))
    pairs = differences.shape[0] * differences.shape[1]
    exact = binomial_interval(by_seed.mean * pairs, pairs, 0.95)
    agreed = len(differences) > 1 and np.isinf(by_seed.low)
    limits = exact if agreed else (min(by_seed.low, exact[0]), max(by_seed.high, exact[1]))
    low, high = max(0.0, limits[0]), min(1.0, limits[1])
    return CellShare(by_seed.mean, low, high, differences.size)


def relative_change(fair: Floats, plain: Floats) -> SeedMean | None:
    """By how many per cent the sum over all cells is larger, one number a seed; None where the sum is 0 for a seed.

    Sums rather than a mean of ratios: a cell where hardly anything withstands would count most.

    >>> relative_change(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[2.0, 2.0], [2.0, 2.0]])).mean
    -50.0
    """
    ours, theirs = (each.reshape(len(each), -1).sum(axis=1) for each in (fair, plain))
    return over_seeds(100 * (ours / theirs - 1)) if (theirs > 0).all() else None
