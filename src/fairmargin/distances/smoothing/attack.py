"""An attack on a smoothed classifier: upper bounds on the distances that smoothing certifies from below."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor

from fairmargin.core.arrays import Floats, Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import evaluate, positive, unit
from fairmargin.distances.protocol import Found, Search, accepted_norm
from fairmargin.distances.smoothing.votes import (
    CONFIRM,
    RAY,
    SEARCH,
    Poll,
    Rows,
    check_smoothing,
    pilot_votes,
    polling,
    subject_of,
    winners,
)
from fairmargin.models.kept_classes import parted
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.planes import nearest_on_plane
from fairmargin.perturbation.tiles import by_tiles

# How far beyond the change of the vote to test, in units of the expected need; each test has a share of alpha.
_ATTEMPTS = (1.0, 2.0, 4.0, 8.0)
_STRETCHES = 10  # number of doublings along the ray before a search ends without a result
_HALVINGS = 6  # number of bisections once the vote has changed
_QUICK = 8  # a vote on the ray takes the draws of a confirming vote divided by this
_POWER = 1.5  # standard errors added so that a vote probably confirms
_NEAREST = 0.1  # minimum distance to aim for, in units of sigma
_FURTHEST = 4.0  # maximum length of a step in units of sigma, if the distance from the sample is not larger
_AVERAGED = 4  # number of steps that are taken in full before averaging begins
_FIRM = 0.999  # limit of a mean vote, beyond which its probit is noise


@dataclass(frozen=True)
class SmoothedAttack(Search):
    """Distance to an input at which the smoothed classifier g, with confidence, no longer predicts the label.

    g(x) = argmax_c Pr(f(x + ε) = c) as in `Smoothing`. A search by gradients of the mean softmax over noisy copies
    gives a direction, and the point in this direction is searched at which the most frequent class changes. Slightly
    beyond it, a binomial test on new draws must reject the hypothesis that the label is more frequent than one rival,
    which was chosen before these draws. If several classes are to be kept, this is required for each of them.

    Guarantee: an upper bound on the distance of g, not of f, which fails for each sample with probability at most α.
    `inf` where no test confirmed a change; then `tried` says how far the search went. `correct` says whether a first
    set of draws, the pilot, votes for the label; with the same pilot and seed it equals that of `Smoothing`. Where it
    is False, the distance is 0.

    Parameters
    ----------
    norm
        L2.
    sigma
        Amount of noise σ, as in `Smoothing`.
    steps
        Number of steps of the search, each a forward and a backward pass of `copies` noisy copies.
    copies
        Number of noisy copies per step.
    draws
        Number of draws of a vote that confirms: with more, the point can be nearer to the boundary. Other votes take an
        eighth of them.
    pilot
        Number of draws of the pilot.
    alpha
        Probability α that a distance is wrong, shared among at most four votes that may confirm.

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
    not_on_tables: ClassVar[str] = "adds noise to every number of a sample, and a category is no number"
    caution: ClassVar[str] = (
        "Distances found by `smoothed_attack` are of g, the vote of the model under noise, and not of the model itself."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        counts = {"steps": self.steps, "copies": self.copies, "draws": self.draws, "pilot": self.pilot}
        check_smoothing(self, self.sigma, self.alpha, counts)

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the distances and the inputs at which a vote confirmed that the class changes."""
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
                values[i], tried[i], points[i] = self._confirmed(network, poll, rows[i], int(y[i]), own, int(keys[i]))
        farthest = tried if np.isinf(values).any() else None
        return Found(Distances(values, correct, Bound.UPPER, self.norm, subject_of(self.sigma), farthest), points)

    def _confirmed(
        self, network: Network, poll: Poll, row: Rows, y: int, own: Ints, key: int
    ) -> tuple[float, float, Rows]:
        """Return the distance of a confirmed input, how far the search went if there is none, and the input or NaN.

        `y` is the class of the network that is searched on, `own` holds the classes of the poll to keep.
        """
        goal = approach_boundary(network, poll, row, y, key, self.steps, self.copies)
        ray = Ray(row, goal, *(side.cpu().numpy() for side in (network.low, network.high, network.scale)))
        crossing, rival = self._crossing(poll, ray, own, key)
        if not np.isfinite(crossing):
            return np.inf, ray.length(2.0**_STRETCHES), np.full_like(row, np.nan)
        level = self.alpha / len(_ATTEMPTS)
        # At this distance beyond the change the rival leads by more than the error of a vote of this size, if the
        # boundary is straight.
        share = 0.5 + (special.ndtri(1 - level) + _POWER) / (2 * np.sqrt(self.draws))
        beyond = self.sigma * special.ndtri(min(share, 0.999)) / max(ray.length(1.0), np.finfo(float).tiny)
        for attempt, times in enumerate(_ATTEMPTS):
            at = crossing + times * beyond
            votes = poll.count(ray.point(at), key, CONFIRM + attempt, self.draws)
            if (stats.binom.sf(votes[rival] - 1, votes[rival] + votes[own], 0.5) <= level).all():
                return ray.length(at), 0.0, ray.point(at)
        return np.inf, ray.length(at), np.full_like(row, np.nan)

    def _crossing(self, poll: Poll, ray: "Ray", own: Ints, key: int) -> tuple[float, int]:
        """Return where on the ray the vote seems to change, and to which class; `inf` where it never seems to."""
        quick, low, high, rival = max(1, self.draws // _QUICK), 0.0, np.inf, -1
        at = 1.0
        for trial in range(_STRETCHES + _HALVINGS):
            votes = poll.count(ray.point(at), key, RAY + trial, quick)
            others = votes.copy()
            others[own] = -1
            if others.max() > votes[own].max():
                high, rival = at, int(others.argmax())
            else:
                low = at
            if np.isinf(high) and trial >= _STRETCHES:
                break
            at = 2 * at if np.isinf(high) else (low + high) / 2
        return high, rival


@dataclass(frozen=True, slots=True, eq=False)
class Ray:
    """Ray from a sample through another input; features stop at the limits of the domain."""

    start: Rows
    through: Rows
    low: Floats
    high: Floats
    scale: Floats

    def point(self, position: float) -> Rows:
        """Return the input at this position on the ray: 0 is the sample, 1 the other input."""
        step = self.through.astype(np.float64) - self.start
        point = np.clip(self.start + position * step, self.low, self.high)
        return np.where(self.scale > 0, point, self.start).astype(self.start.dtype)

    def length(self, position: float) -> float:
        """Return the distance of that input from the sample, in units of the scale."""
        moved, scale = self.point(position).astype(np.float64) - self.start, np.where(self.scale > 0, self.scale, 1.0)
        return float(Norm.L2.length(np.where(self.scale > 0, moved / scale, 0.0)))


def approach_boundary(network: Network, poll: Poll, row: Rows, y: int, key: int, steps: int, copies: int) -> Rows:
    """Return the input nearest to the sample at which the smoothed margin seems to be 0.

    Each step linearises the probit of the mean soft vote from fresh noise and moves to the nearest input on the plane
    where it would be 0 (the step of Hasofer and Lind, as in Rackwitz and Fiessler). In the limit of hard votes the
    probit grows no faster than 1/σ, and it is linear if the model is. Later steps are averaged, which averages their
    noise too.

    Guarantee: inside the domain, and a function of the sample and its key; a vote must confirm that the class changes.

    Parameters
    ----------
    network
        The model, for gradients.
    poll
        The noise.
    row, y, key
        One sample.
    steps
        Number of steps.
    copies
        Number of noisy copies per step, each with a forward and a backward pass.
    """
    start = torch.from_numpy(row).to(network.device, network.dtype)[None]
    sigma = _sigma(network, poll)
    x = start
    for step in range(steps):
        level, gain = _linearised(network, poll, x, y, key, SEARCH + step, copies)
        delta = in_units(x - start, network.scale)
        needed = (gain * delta).sum(dim=1) + level
        # If the vote seems to have changed already, aim slightly outside: only the direction matters.
        needed = torch.maximum(needed, _NEAREST * sigma * norm_of(gain, Norm.L2))
        there = nearest_on_plane(network, start, gain, needed, Norm.L2)
        move = there - x
        far = norm_of(in_units(move, network.scale), Norm.L2)
        most = norm_of(delta, Norm.L2).clamp(min=_FURTHEST * sigma)
        share = torch.where(far > most, most / positive(far), 1.0)
        x = x + min(1.0, _AVERAGED / (step + 1)) * share[:, None] * move
    if not torch.any(x != start):
        # Without a gradient, take a random direction from the key: a change far along it is better than none.
        keys = torch.tensor([key], dtype=torch.uint64).view(torch.int64)
        step_out = unit(network, torch.zeros_like(start), keys, SEARCH)
        x = (start + sigma * step_out * network.scale).clamp(network.low, network.high)
    found: Rows = x[0].cpu().numpy().astype(poll.kind)
    return found


def _linearised(
    network: Network, poll: Poll, x: Tensor, y: int, key: int, stage: int, copies: int
) -> tuple[Tensor, Tensor]:
    """Return Φ⁻¹ of the mean soft vote at one row, and its decrease per step of length 1 along each feature."""

    def seen(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = evaluate(network, rows, labels, lead)  # the sign of the lead is the vote
        return found.value, found.gain, found.finite

    parts: list[tuple[Tensor, ...]] = []
    for noisy in poll.copies(x[0].cpu().numpy().astype(poll.kind), key, stage, copies):
        rows = torch.from_numpy(noisy).to(network.device, network.dtype)
        labels = torch.full((len(rows),), y, dtype=torch.int64, device=rows.device)
        parts.append(by_tiles(network, seen, rows, labels))
    value, gain, finite = (torch.cat(part) for part in zip(*parts, strict=True))
    margin = torch.where(finite, value.double(), 0.0)
    # Margins are divided by their mean size: the search must not depend on the scale of the model's scores.
    size = margin.abs().mean().clamp(min=torch.finfo(torch.float64).tiny)
    soft = torch.sigmoid(margin / size)
    mean = soft.mean().clamp(1 - _FIRM, _FIRM)
    level = torch.special.ndtri(mean)
    density = torch.exp(-(level**2) / 2) / math.sqrt(2 * math.pi)
    weight = (soft * (1 - soft) / (size * density * copies)).to(gain.dtype)
    return level[None].to(gain.dtype), (weight[:, None] * gain).sum(dim=0, keepdim=True)


def _sigma(network: Network, poll: Poll) -> float:
    """Return the noise in units of the scale."""
    deviation = torch.from_numpy(poll.deviation).to(network.device, network.dtype)
    return float(in_units(deviation[None], network.scale).max())
