"""Randomized smoothing: certified distances of the vote that a model takes under Gaussian noise."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairmargin.core.arrays import Ints, Keys, is_number
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.protocol import accepted_norm
from fairmargin.distances.smoothing_plan import certified_lead, certified_radius, largest_radius, planned_draws
from fairmargin.distances.smoothing_votes import (
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
from fairmargin.models.kept import parted
from fairmargin.models.protocol import Classifier


@dataclass(frozen=True, slots=True)
class Certificate:
    """What smoothing says of one sample.

    Parameters
    ----------
    radius
        No input nearer than this changes the vote, except with probability alpha; 0 for an abstention or a wrong vote.
    correct
        Whether the pilot's vote is for the label, or for a class to keep.
    draws
        How many noisy copies were asked, the pilot's among them.
    """

    radius: float
    correct: bool
    draws: int


@dataclass(frozen=True)
class Smoothing:
    """A certified distance of the smoothed classifier g(x) = argmax_c Pr(f(x + ε) = c), ε ~ N(0, (σ · scale)²).

    R = σ Φ⁻¹(p), where p is the lower limit, at level α, of the share of votes for the class that a pilot named; 0 if
    p ≤ ½ (g abstains) or if that class is not the label. The noise is added to inputs as the domain has them (pixels
    of [0, 1], say), in units of its scale, and not to features that cannot move. It may lead out of the domain's box:
    g is defined everywhere, and what is certified for the whole space holds inside the box too.

    If a set A of several classes is to be kept, R is σ/2 (Φ⁻¹(p) + Φ⁻¹(q)), or 0 if that is negative, where q is the
    lower limit of the share of votes for A, and both limits are at level α/2: a class outside of A has at most the
    share 1 − q, and within R less than the class that the pilot named.

    Guarantee: a lower bound on the distance of g, not of f, which for each sample fails with probability at most α.
    (`fairmargin.analyses.certified` makes statements on groups from that.) `correct` is the pilot's vote, so it is
    g's own answer wherever that is clear from `pilot` draws. Copies on which the model's scores are no numbers count
    against every class.

    Parameters
    ----------
    norm
        L2.
    sigma
        σ: how much noise. With more, larger radii can be certified, of a vote that is less often right.
    draws
        At most so many for a certificate; no radius above σ Φ⁻¹(α^{1/draws}) is attainable.
    pilot
        So many draws to name the class, and to plan.
    alpha
        α: how often a certificate may be wrong.
    planned
        Whether the pilot also decides how many fresh draws the sample deserves, which about halves their number for a
        mean radius about 2 % smaller. The guarantee is the same, since fresh draws alone count.
    price
        What `draws` draws cost, in units of σ: the less, the more are made. The default suits models trained with
        noise; one whose radii are mostly small loses more than 2 % with it, and about 2 % with 0.09.

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
    bound: ClassVar[Bound] = Bound.LOWER
    at_a_time: ClassVar[int] = 16  # samples a shard: each is asked about thousands of times
    caution: ClassVar[str] = (
        "Radii certified by smoothing are of g, the vote of the model under noise, and not of the model itself: too "
        "much should not be read into their agreement with distances of the model."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_smoothing(self, self.sigma, self.alpha, {"draws": self.draws, "pilot": self.pilot})
        if not self.largest > 0:
            needed = math.floor(math.log(self.alpha) / math.log(0.5)) + 1
            raise InputError(
                f"must be at least {needed} for alpha {self.alpha:g}: with fewer no radius can be certified, however "
                "the votes fall",
                field="draws",
                given=self.draws,
                of="Smoothing",
            )
        if not is_number(self.price) or not 0 <= self.price < math.inf:
            raise InputError("must be a number that is not negative", field="price", given=self.price, of="Smoothing")

    @property
    def largest(self) -> float:
        """The largest radius that can be certified."""
        return largest_radius(self.sigma, self.draws, self.alpha)

    def __call__(self, model: Classifier, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Certified radii; all noise of a sample comes from its key."""
        whole, kept = parted(model)
        with polling(whole, tuple(x.shape[1:]), self.sigma) as poll:
            found = self.certify(poll, poll.rows(x), y, keys, kept)
        radii, correct = np.array([each.radius for each in found]), np.array([each.correct for each in found])
        return Distances(radii, correct, self.bound, self.norm, subject_of(self.sigma))

    def certify(self, poll: Poll, rows: Rows, y: Ints, keys: Keys, kept: tuple[int, ...] = ()) -> list[Certificate]:
        """One certificate a row: the pilot for all of them, then the fresh draws that each deserves.

        `kept` holds the positions of several classes to keep; without them each row keeps its own, `y`.
        """
        counts = pilot_votes(poll, rows, keys, self.pilot)
        named = winners(counts)
        deserved = self._deserved(counts[:, list(kept)].sum(axis=1) if kept else counts.max(axis=1))
        return [
            self._certificate(poll, row, key, int(vote), int(fresh), kept)
            if (vote in kept if kept else vote == label)
            else Certificate(0.0, False, self.pilot)  # whatever the fresh draws said, the radius would be 0
            for row, key, label, vote, fresh in zip(rows, keys, y, named, deserved, strict=True)
        ]

    def _certificate(
        self, poll: Poll, row: Rows, key: np.uint64, named: int, fresh: int, kept: tuple[int, ...]
    ) -> Certificate:
        votes = poll.count(row, key, FINAL, fresh)
        if kept:
            radius = certified_lead(votes[named], votes[list(kept)].sum(), fresh, self.sigma, self.alpha)
        else:
            radius = certified_radius(votes[named], fresh, self.sigma, self.alpha)
        return Certificate(float(radius), True, self.pilot + fresh)

    def _deserved(self, most: Ints) -> Ints:
        if not self.planned:
            return np.full_like(most, self.draws)
        return np.asarray(planned_draws(self.pilot, self.draws, self.alpha, self.price)[most])
