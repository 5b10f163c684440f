"""Randomized smoothing: certified distances of the vote that a model takes under Gaussian noise."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from fairmargin.core.arrays import Floats, Ints, Keys, is_number, read_only
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.protocol import accepted_norm
from fairmargin.distances.smoothing.votes import (
    FINAL,
    Poll,
    Rows,
    check_smoothing,
    pilot_votes,
    polling,
    subject_of,
    winners,
)
from fairmargin.errors import InputError
from fairmargin.models.kept_classes import parted
from fairmargin.models.protocol import Classifier

_PRIOR = (1.0, 0.3)  # for most samples of a useful classifier the vote is almost unanimous
_SIZES = 60  # count of the numbers of draws that are considered, evenly spaced on a logarithmic scale
_FEWEST = 20  # minimum number of draws that is considered
_SHARES = 120  # number of shares at which the expected radius is computed
_LEVELS = (np.arange(9) + 0.5) / 9  # quantiles of the binomial distribution of votes


@dataclass(frozen=True, slots=True)
class Certificate:
    """Certificate of one sample.

    Parameters
    ----------
    radius
        Within this radius the vote does not change, except with probability alpha; 0 for an abstention or a wrong vote.
    correct
        Whether the pilot voted for the label, or for a class to keep.
    draws
        Number of noisy copies that were evaluated, those of the pilot included.
    """

    radius: float
    correct: bool
    draws: int


@dataclass(frozen=True)
class Smoothing:
    """Certified distance of the smoothed classifier g(x) = argmax_c Pr(f(x + ε) = c), ε ~ N(0, (σ · scale)²).

    R = σ Φ⁻¹(p), where p is the lower limit, at level α, of the share of votes for the class that a pilot named; 0 if p
    ≤ ½ (g abstains) or if that class is not the label. The noise is added to inputs as the domain has them (for
    instance pixels in [0, 1]), in units of its scale, and not to immutable features. Noisy inputs may leave the
    domain's box: g is defined everywhere, and a certificate for the whole space also holds inside the box.

    If a set A of several classes is to be kept, R is σ/2 (Φ⁻¹(p) + Φ⁻¹(q)), or 0 if that is negative, where q is the
    lower limit of the share of votes for A, and both limits are at level α/2: a class outside of A has at most the
    share 1 − q, and within R less than the class that the pilot named.

    Guarantee: a lower bound on the distance of g, not of f, which fails for each sample with probability at most α.
    (`fairmargin.analyses.certified` derives statements about groups.) `correct` is the pilot's vote, which is g's own
    prediction wherever `pilot` draws suffice to determine it. Copies on which a score is not finite count against every
    class.

    Parameters
    ----------
    norm
        L2.
    sigma
        Amount of noise σ. With more noise larger radii can be certified, but the vote is wrong more often.
    draws
        Maximum number of draws for a certificate; no radius above σ Φ⁻¹(α^{1/draws}) is attainable.
    pilot
        Number of draws that name the class and plan the certificate.
    alpha
        Probability α that a certificate is wrong.
    planned
        Whether the pilot also decides how many fresh draws the sample gets, which about halves their number for a mean
        radius about 2 % smaller. The guarantee is the same, since only fresh draws count.
    price
        Cost of `draws` draws in units of σ: the lower, the more draws are made. The default suits models trained with
        noise; a model whose radii are mostly small loses more than 2 % with it, and about 2 % with 0.09.

    References
    ----------
    J. Cohen, E. Rosenfeld, Z. Kolter, "Certified adversarial robustness via randomized smoothing", ICML 2019 (CERTIFY).

    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0], [0.9, 0.55]]), [0, 0], Smoothing(sigma=0.5))
    >>> found.values.round(1).tolist(), found.subject  # the first is at distance 1
    ([0.9, 0.0], 'smoothed(0.5)')
    """

    norm: Norm = Norm.L2
    sigma: float = 0.25
    draws: int = 10_000
    pilot: int = 100
    alpha: float = 0.001
    planned: bool = True
    price: float = 0.17

    needs: ClassVar[str] = "predict"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1
    not_on_tables: ClassVar[str] = "adds noise to every number of a sample, and a category is no number"
    bound: ClassVar[Bound] = Bound.LOWER
    at_a_time: ClassVar[int] = 16  # samples per shard: each is evaluated thousands of times
    caution: ClassVar[str] = (
        "Radii certified by smoothing are of g, the vote of the model under noise, and not of the model itself. They "
        "need not agree with distances of the model."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_smoothing(self, self.sigma, self.alpha, {"draws": self.draws, "pilot": self.pilot})
        if not self.largest > 0:
            needed = math.floor(math.log(self.alpha) / math.log(0.5)) + 1
            raise InputError(
                f"must be at least {needed} for alpha {self.alpha:g}: with fewer, no number of votes certifies a "
                "radius",
                field="draws",
                given=self.draws,
                of="Smoothing",
            )
        if not is_number(self.price) or not 0 <= self.price < math.inf:
            raise InputError("must be a finite number, 0 or more", field="price", given=self.price, of="Smoothing")

    @property
    def largest(self) -> float:
        """The largest radius that can be certified."""
        return largest_radius(self.sigma, self.draws, self.alpha)

    def __call__(self, model: Classifier, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return certified radii; all noise of a sample comes from its key."""
        whole, kept = parted(model)
        with polling(whole, tuple(x.shape[1:]), self.sigma) as poll:
            found = self.certify(poll, poll.rows(x), y, keys, kept)
        radii, correct = np.array([each.radius for each in found]), np.array([each.correct for each in found])
        return Distances(radii, correct, self.bound, self.norm, subject_of(self.sigma))

    def certify(self, poll: Poll, rows: Rows, y: Ints, keys: Keys, kept: tuple[int, ...] = ()) -> list[Certificate]:
        """Return one certificate per row: a pilot for all rows, then the fresh draws that each row gets.

        `kept` holds the positions of several classes to keep; if empty, each row keeps its own class, `y`.
        """
        counts = pilot_votes(poll, rows, keys, self.pilot)
        named = winners(counts)
        deserved = self._deserved(counts[:, list(kept)].sum(axis=1) if kept else counts.max(axis=1))
        return [
            self._certificate(poll, row, key, int(vote), int(fresh), kept)
            if (vote in kept if kept else vote == label)
            else Certificate(0.0, False, self.pilot)  # the radius is 0 for any fresh draws
            for row, key, label, vote, fresh in zip(rows, keys, y, named, deserved, strict=True)
        ]

    def _certificate(
        self, poll: Poll, row: Rows, key: np.uint64, named: int, fresh: int, kept: tuple[int, ...]
    ) -> Certificate:
        """Return the certificate from `fresh` draws for the class that the pilot named."""
        votes = poll.count(row, key, FINAL, fresh)
        if kept:
            radius = certified_lead(votes[named], votes[list(kept)].sum(), fresh, self.sigma, self.alpha)
        else:
            radius = certified_radius(votes[named], fresh, self.sigma, self.alpha)
        return Certificate(float(radius), True, self.pilot + fresh)

    def _deserved(self, most: Ints) -> Ints:
        """Return the number of fresh draws of each row from the votes of its pilot."""
        if not self.planned:
            return np.full_like(most, self.draws)
        return np.asarray(planned_draws(self.pilot, self.draws, self.alpha, self.price)[most])


def lower_share(votes: npt.ArrayLike, draws: npt.ArrayLike, alpha: float) -> Floats:
    """Return Clopper and Pearson's one-sided limit: the true share is at least this, except with probability alpha.

    >>> round(float(lower_share(990, 1000, 0.001)), 4)
    0.976
    """
    hits, size = np.asarray(votes, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    at_least_one = np.maximum(hits, 1.0)
    return np.asarray(
        np.where(
            hits > 0, special.betaincinv(at_least_one, np.maximum(size, at_least_one) - at_least_one + 1, alpha), 0.0
        )
    )


def certified_radius(votes: npt.ArrayLike, draws: npt.ArrayLike, sigma: float, alpha: float) -> Floats:
    """Return σ Φ⁻¹(p) for the lower limit p of the share of votes; 0, an abstention, where p is at most ½.

    >>> certified_radius([990, 500], 1000, sigma=0.25, alpha=0.001).round(3)
    array([0.495, 0.   ])
    """
    return np.asarray(sigma * np.maximum(special.ndtri(lower_share(votes, draws, alpha)), 0.0))


def certified_lead(
    votes: npt.ArrayLike, votes_kept: npt.ArrayLike, draws: npt.ArrayLike, sigma: float, alpha: float
) -> Floats:
    """Return σ/2 (Φ⁻¹(p) + Φ⁻¹(q)) for lower limits at α/2 of the shares of one kept class and of all of them.

    0 where that is negative. Within this radius the class leads every class that is not kept.

    >>> certified_lead([990, 500], [990, 1000], 1000, sigma=0.25, alpha=0.001).round(3)
    array([0.49 , 0.287])
    """
    share, together = (special.ndtri(lower_share(each, draws, alpha / 2)) for each in (votes, votes_kept))
    return np.asarray(sigma / 2 * np.maximum(share + together, 0.0))


def largest_radius(sigma: float, draws: int, alpha: float) -> float:
    """Return σ Φ⁻¹(α^{1/n}), which n unanimous votes certify; larger radii are not attainable.

    >>> round(largest_radius(sigma=0.25, draws=10_000, alpha=0.001), 4)
    0.7996
    """
    return float(certified_radius(draws, draws, sigma, alpha))


@lru_cache(maxsize=32)
def planned_draws(pilot: int, draws: int, alpha: float, price: float) -> Ints:
    """Return how many further draws a sample gets, given how many draws of its pilot voted for the leading class.

    The result is an array: entry k is the number n of further draws after k of `pilot` votes. This n, at most `draws`,
    maximises the expected gain minus the cost, E[R(n)] − price · n / draws. R is the radius that is certified at level
    `alpha`, in units of σ; the true share of votes is taken to have the distribution Beta(k + 1, pilot − k + 0.3). The
    entry is 0 where the expected gain never exceeds the cost, or where k is not a majority of the pilot.

    Guarantee: none is needed. n is decided before the fresh draws are made, so a limit computed from these draws alone
    holds at its full level for any plan.

    >>> fresh = planned_draws(pilot=100, draws=10_000, alpha=0.001, price=0.17)
    >>> bool(fresh[50] == 0 < fresh[60] < fresh[99] < fresh[100] <= 10_000)
    True
    """
    sizes = np.unique(np.geomspace(min(draws, _FEWEST), draws, _SIZES).round()).astype(np.int64)
    # Evenly spaced in probit, in which radii are linear, up to shares that so many draws hardly distinguish from 1.
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
    """Return the mean certified radius, in units of σ, for each true share (rows) and number of draws (columns)."""
    votes = stats.binom.ppf(_LEVELS, sizes[:, None], shares[:, None, None])
    return np.asarray(certified_radius(votes, sizes[:, None], 1.0, alpha).mean(axis=2))
