"""What votes certify, and how many draws a sample deserves, by what its pilot showed."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from fairmargin.core.arrays import Floats, Ints, read_only

_PRIOR = (1.0, 0.3)  # most samples of a useful classifier are voted for almost unanimously
_SIZES = 60  # numbers of draws that are considered, evenly spaced on a logarithmic scale
_FEWEST = 20  # from which on unanimous votes certify anything worth having
_SHARES = 120  # at which the expected radius is calculated
_LEVELS = (np.arange(9) + 0.5) / 9  # of the binomial distribution of votes


def lower_share(votes: npt.ArrayLike, draws: npt.ArrayLike, alpha: float) -> Floats:
    """Clopper and Pearson's one-sided limit: the true share is at least this, except with probability alpha.

    >>> round(float(lower_share(990, 1000, 0.001)), 4)
    0.976
    """
    hits, size = np.asarray(votes, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    some = np.maximum(hits, 1.0)
    return np.asarray(np.where(hits > 0, special.betaincinv(some, np.maximum(size, some) - some + 1, alpha), 0.0))


def certified_radius(votes: npt.ArrayLike, draws: npt.ArrayLike, sigma: float, alpha: float) -> Floats:
    """σ Φ⁻¹(p) for the lower limit p of the share of votes; 0, an abstention, where p is at most ½.

    >>> certified_radius([990, 500], 1000, sigma=0.25, alpha=0.001).round(3)
    array([0.495, 0.   ])
    """
    return np.asarray(sigma * np.maximum(special.ndtri(lower_share(votes, draws, alpha)), 0.0))


def certified_lead(
    votes: npt.ArrayLike, votes_kept: npt.ArrayLike, draws: npt.ArrayLike, sigma: float, alpha: float
) -> Floats:
    """σ/2 (Φ⁻¹(p) + Φ⁻¹(q)) for the lower limits, each at α/2, of the share of one kept class and of all of them.

    0 where that is negative. Within this radius the class is ahead of every class that is not kept.

    >>> certified_lead([990, 500], [990, 1000], 1000, sigma=0.25, alpha=0.001).round(3)
    array([0.49 , 0.287])
    """
    share, together = (special.ndtri(lower_share(each, draws, alpha / 2)) for each in (votes, votes_kept))
    return np.asarray(sigma / 2 * np.maximum(share + together, 0.0))


def largest_radius(sigma: float, draws: int, alpha: float) -> float:
    """σ Φ⁻¹(α^{1/n}): what n unanimous votes certify, and more is not attainable.

    >>> round(largest_radius(sigma=0.25, draws=10_000, alpha=0.001), 4)
    0.7996
    """
    return float(certified_radius(draws, draws, sigma, alpha))


@lru_cache(maxsize=32)
def planned_draws(pilot: int, draws: int, alpha: float, price: float) -> Ints:
    """For each number of a pilot's votes for a class, 0 … pilot, how many fresh draws are worth their price.

    With k votes, n maximises E[R(n)] − price · n / draws, where R is the certified radius in units of σ, the share of
    votes has the posterior Beta(k + 1, pilot − k + 0.3), and n is at most `draws`; 0 where no draw is worth it, or
    where k is not the majority of the pilot.

    Guarantee: none is needed. n is decided before the fresh draws are made, so that a limit calculated from these
    alone holds at its full level, however bad the plan.

    >>> fresh = planned_draws(pilot=100, draws=10_000, alpha=0.001, price=0.17)
    >>> bool(fresh[50] == 0 < fresh[60] < fresh[99] < fresh[100] <= 10_000)
    True
    """
    sizes = np.unique(np.geomspace(min(draws, _FEWEST), draws, _SIZES).round()).astype(np.int64)
    # Evenly in probit, in which radii are linear, and up to shares that this many draws can hardly tell from 1.
    steps = np.linspace(-0.5, -special.ndtri(0.1 / draws), _SHARES)
    edges = np.concatenate([[0.0], special.ndtr(steps), [1.0]])
    shares = np.concatenate([[0.0], special.ndtr((steps[1:] + steps[:-1]) / 2), [1.0]])
    votes = np.arange(pilot + 1)
    below = stats.beta.cdf(edges, votes[:, None] + _PRIOR[0], pilot - votes[:, None] + _PRIOR[1])
    gain = np.diff(below, axis=1) @ _expected_radii(shares, sizes, alpha) - price * sizes / draws
    worth = (gain.max(axis=1) > 0) & (2 * votes > pilot)
    fresh = np.where(worth, sizes[gain.argmax(axis=1)], 0)
    return np.asarray(read_only(fresh))


def _expected_radii(shares: Floats, sizes: Ints, alpha: float) -> Floats:
    """The mean certified radius, in units of σ, for each true share (rows) and number of draws (columns)."""
    votes = stats.binom.ppf(_LEVELS, sizes[:, None], shares[:, None, None])
    return np.asarray(certified_radius(votes, sizes[:, None], 1.0, alpha).mean(axis=2))
