"""An attack on a smoothed classifier: the other side of what smoothing certifies."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special, stats

from fairmargin.core.arrays import Floats, Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.protocol import Found, accepted_norm
from fairmargin.distances.smoothed_search import towards_the_turn
from fairmargin.distances.smoothing_votes import (
    CONFIRM,
    RAY,
    Poll,
    Rows,
    check_smoothing,
    pilot_votes,
    polling,
    subject_of,
    winners,
)
from fairmargin.models.kept import parted
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable

_ATTEMPTS = (1.0, 2.0, 4.0, 8.0)  # times as far beyond the turn as should do; each is a test at a share of alpha
_STRETCHES = 10  # doublings of the way before a search gives up
_HALVINGS = 6
_QUICK = 8  # a vote on the way takes this fraction of the draws of one that confirms
_POWER = 1.5  # standard errors to spare when a vote is to confirm


@dataclass(frozen=True)
class SmoothedAttack:
    """The distance to an input at which the smoothed classifier g, with confidence, does not name the label any more.

    g(x) = argmax_c Pr(f(x + ε) = c) as in `Smoothing`. A search by gradients of the mean soft vote over noisy copies
    gives a direction; on that way the turn of the vote is sought, and just beyond it a vote of fresh draws must reject,
    by the binomial test of the label against one rival named before, that the label is ahead; if several classes are to
    be kept, the same of each of them.

    Guarantee: an upper bound on the distance of g, not of f, which for each sample fails with probability at most α.
    `inf` where no vote confirmed a turn; then `tried` says how far it went. `correct` is the same pilot's vote as
    `Smoothing`'s with the same pilot and seed; where that is wrong, the distance is 0.

    Parameters
    ----------
    norm
        L2.
    sigma
        σ, as in `Smoothing`.
    steps
        So many steps of the search, each a forward and a backward pass of
    copies
        noisy copies.
    draws
        For a vote that confirms: with more, it can be taken nearer to the boundary. An eighth for others.
    pilot
        Draws of the pilot.
    alpha
        α, shared among at most four votes that may confirm.

    References
    ----------
    H. Salman, J. Li, I. Razenshteyn, P. Zhang, H. Zhang, S. Bubeck, G. Yang, "Provably robust deep learning via
    adversarially trained smoothed classifiers", NeurIPS 2019 (attacks on the mean soft vote, whose Φ⁻¹ is
    1/σ-Lipschitz).
    J. Cohen, E. Rosenfeld, Z. Kolter, "Certified adversarial robustness via randomized smoothing", ICML 2019 (PREDICT).
    R. Rackwitz, B. Fiessler, "Structural reliability under combined random load sequences", Computers & Structures
    1978 (the step of the search).

    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], SmoothedAttack(sigma=0.5))
    >>> bool(1.0 <= found.values[0] <= 1.1), found.subject
    (True, 'smoothed(0.5)')
    """

    norm: Norm = Norm.L2
    sigma: float = 0.25
    steps: int = 10
    copies: int = 64
    draws: int = 4_000
    pilot: int = 100
    alpha: float = 0.001

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1
    caution: ClassVar[str] = (
        "Distances found by `smoothed_attack` are of g, the vote of the model under noise, and not of the model itself."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        counts = {"steps": self.steps, "copies": self.copies, "draws": self.draws, "pilot": self.pilot}
        check_smoothing(self, self.sigma, self.alpha, counts)

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Upper bounds; all noise of a sample comes from its key."""
        return self.find(model, x, y, keys=keys).distances

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """The distances, and the inputs at which a vote confirmed that the smoothed classifier turns."""
        shape = tuple(x.shape[1:])
        whole, kept = parted(model)
        # The search follows the lead of the best class to keep; votes are for classes of the model itself.
        with polling(whole, shape, self.sigma) as poll, model.network(shape) as network:
            rows = poll.rows(x)
            named = winners(pilot_votes(poll, rows, keys, self.pilot))
            correct = np.isin(named, kept) if kept else named == y
            values, tried, points = np.zeros(len(rows)), np.zeros(len(rows)), rows.copy()
            for i in np.flatnonzero(correct):
                own = np.array(kept) if kept else y[i : i + 1]
                values[i], tried[i], points[i] = self._turned(network, poll, rows[i], int(y[i]), own, int(keys[i]))
        looked = tried if np.isinf(values).any() else None
        return Found(Distances(values, correct, Bound.UPPER, self.norm, subject_of(self.sigma), looked), points)

    def _turned(
        self, network: Network, poll: Poll, row: Rows, y: int, own: Ints, key: int
    ) -> tuple[float, float, Rows]:
        """How far a confirmed input is, how far the search looked if there is none, and the input, else NaN.

        `y` is the class of the network that is searched on, `own` holds the classes of the poll to keep.
        """
        goal = towards_the_turn(network, poll, row, y, key, self.steps, self.copies)
        way = Way(row, goal, *(side.cpu().numpy() for side in (network.low, network.high, network.scale)))
        turn, rival = self._turn(poll, way, own, key)
        if not np.isfinite(turn):
            return np.inf, way.length(2.0**_STRETCHES), np.full_like(row, np.nan)
        level = self.alpha / len(_ATTEMPTS)
        # So far beyond the turn, if the way is straight, the rival leads by more than a vote of this size errs.
        share = 0.5 + (special.ndtri(1 - level) + _POWER) / (2 * np.sqrt(self.draws))
        beyond = self.sigma * special.ndtri(min(share, 0.999)) / max(way.length(1.0), np.finfo(float).tiny)
        for attempt, times in enumerate(_ATTEMPTS):
            at = turn + times * beyond
            votes = poll.count(way.point(at), key, CONFIRM + attempt, self.draws)
            if (stats.binom.sf(votes[rival] - 1, votes[rival] + votes[own], 0.5) <= level).all():
                return way.length(at), 0.0, way.point(at)
        return np.inf, way.length(at), np.full_like(row, np.nan)

    def _turn(self, poll: Poll, way: "Way", own: Ints, key: int) -> tuple[float, int]:
        """Where on the way the vote seems to turn, and to which class; `inf` where it never seems to."""
        quick, low, high, rival = max(1, self.draws // _QUICK), 0.0, np.inf, -1
        at = 1.0
        for asked in range(_STRETCHES + _HALVINGS):
            votes = poll.count(way.point(at), key, RAY + asked, quick)
            others = votes.copy()
            others[own] = -1
            if others.max() > votes[own].max():
                high, rival = at, int(others.argmax())
            else:
                low = at
            if np.isinf(high) and asked >= _STRETCHES:
                break
            at = 2 * at if np.isinf(high) else (low + high) / 2
        return high, rival


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """The straight way from a sample through another input and beyond; features stop at the domain's limits."""

    start: Rows
    through: Rows
    low: Floats
    high: Floats
    scale: Floats

    def point(self, share: float) -> Rows:
        """The input at that share of the way: 0 is the sample, 1 the other input."""
        step = self.through.astype(np.float64) - self.start
        point = np.clip(self.start + share * step, self.low, self.high)
        return np.where(self.scale > 0, point, self.start).astype(self.start.dtype)

    def length(self, share: float) -> float:
        """How far that is from the sample, in units of the scale."""
        moved, scale = self.point(share).astype(np.float64) - self.start, np.where(self.scale > 0, self.scale, 1.0)
        return float(Norm.L2.length(np.where(self.scale > 0, moved / scale, 0.0)))
