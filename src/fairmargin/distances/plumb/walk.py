"""The steps of the `plumb` search for one tile of samples: projections and slides, and the planes they start from.

All rows of a tile, projecting or sliding, share one forward and one backward pass per step, so tiles are always full.
"""

import math
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import Best, Evaluation, evaluate, placed, positive, unit
from fairmargin.distances.plumb.schedule import SCHEDULE
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units, norm_of, steepest
from fairmargin.perturbation.margins import lead, slopes
from fairmargin.perturbation.planes import nearest_on_plane, unblocked


class Planes(NamedTuple):
    """The linearised boundaries of some rivals of each sample, nearest first.

    Parameters
    ----------
    at, aim
        The nearest point of each plane, and the unit gradient towards the rival; one row per rival.
    way
        The distance to each plane; `inf` if the rival never draws level.
    """

    at: Tensor
    aim: Tensor
    way: Tensor

    def nearest(self, most: int) -> "Planes":
        """Return at most `most` of them."""
        order = self.way.argsort(dim=1, stable=True)[:, :most]
        rows = torch.arange(len(order), device=order.device)[:, None]
        return Planes(*(part[rows, order] for part in self))


def nearest_planes(network: Network, norm: Norm, most: int, start: Tensor, y: Tensor, rivals: Tensor) -> Planes:
    """Return the `most` nearest planes of each sample of one tile."""
    found = []
    for margin, gain in slopes(network, start, y, rivals):
        there, way = _on_plane(network, norm, start, gain, margin.clamp(min=0))
        there = torch.where(torch.isfinite(way)[:, None], there, start)
        found.append((there, gain / norm_of(gain, Norm.L2).clamp(min=1e-30)[:, None], way))
    return Planes(*(torch.stack(parts, dim=1) for parts in zip(*found, strict=True))).nearest(most)


def _on_plane(network: Network, norm: Norm, start: Tensor, gain: Tensor, margin: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest point where a rival draws level if its lead is linear, and its distance; `inf` if never."""
    there = nearest_on_plane(network, start, gain, margin * (1 + SCHEDULE.overshoot), norm)
    delta = in_units(there - start, network.scale)
    reached = (gain * delta).sum(dim=1) >= margin
    return there, torch.where(reached, norm_of(delta, norm), torch.inf)


class Mode(IntEnum):
    """How a sample moves: by projections, or by one of the slides of `PlumbSchedule`."""

    PROJECT = 0
    NEAR = 1
    FAR = 2
    TRIAL = 3
    BEST_TRIAL = 4
    FINE = 5


# One row per mode. The values pass through single precision, also where inputs are in double precision.
_SLIDES = torch.tensor(
    [
        (0.0,) * 4,  # of projections, not used
        SCHEDULE.near_slide,
        SCHEDULE.far_slide,
        SCHEDULE.trial_slide,
        SCHEDULE.best_trial_slide,
        SCHEDULE.fine_slide,
    ]
)


class SearchState(NamedTuple):
    """The state of the searches of a tile: one row or one number per sample.

    Parameters
    ----------
    at
        The input to evaluate next.
    mode, since, until
        How the sample moves, and the first and last step of this mode.
    radius
        The current radius of a slide.
    aim
        Moving average of the gradients of the projections so far, to which newer gradients contribute more.
    overshoot
        How far a projection goes beyond the predicted boundary, as a share of the radius.
    ray, crossing
        The direction in which the nearest crossing was predicted, and its distance.
    left
        The lead at the input evaluated last.
    point, distance
        The nearest misclassified input found and its distance, by the scores of the search.
    farthest
        The largest distance at which an input was evaluated.
    settled
        Whether the search is finished: the boundary crosses the ray as near as a straight boundary would allow.
    """

    at: Tensor
    mode: Tensor
    since: Tensor
    until: Tensor
    radius: Tensor
    aim: Tensor
    overshoot: Tensor
    ray: Tensor
    crossing: Tensor
    left: Tensor
    point: Tensor
    distance: Tensor
    farthest: Tensor
    settled: Tensor

    @classmethod
    def projecting(cls, start: Tensor, at: Tensor, aim: Tensor) -> "SearchState":
        """Return the state of projections that begin at `at`, before the first evaluation."""
        zero = torch.zeros(len(start), dtype=start.dtype, device=start.device)
        never, none = torch.full_like(zero, torch.inf), torch.zeros_like(zero, dtype=torch.int64)
        return cls(
            at=at,
            mode=torch.full_like(none, Mode.PROJECT),
            since=none,
            until=none,
            radius=never,
            aim=aim,
            overshoot=zero + SCHEDULE.overshoot,
            ray=aim,
            crossing=never,
            left=never,
            point=start,
            distance=never,
            farthest=zero,
            settled=zero > 0,
        )

    def rows(self, which: Tensor) -> "SearchState":
        """Return the state of these samples only."""
        return SearchState(*(part[which] for part in self))

    @property
    def expected(self) -> Tensor:
        """The smaller of the distance found and the distance predicted."""
        return torch.minimum(self.distance, self.crossing)

    def or_else(self, which: Tensor, other: "SearchState") -> "SearchState":
        """Return this state for the samples marked by `which` and the other state for the rest."""
        mixed = (torch.where(which[:, None] if a.dim() > 1 else which, a, b) for a, b in zip(self, other, strict=True))
        return SearchState(*mixed)._replace(farthest=torch.maximum(self.farthest, other.farthest))

    def sliding(self, which: Tensor, at: Tensor, mode: Mode, since: int, until: int) -> "SearchState":
        """Return the state in which the samples marked by `which` slide from `at`; `at` has a row for every sample."""
        return self._replace(
            at=torch.where(which[:, None], at, self.at),
            mode=torch.where(which, int(mode), self.mode),
            since=torch.where(which, since, self.since),
            until=torch.where(which, until, self.until),
            radius=torch.where(which, torch.inf, self.radius),
            settled=self.settled & ~which,
        )

    def with_nearest(self, which: Tensor, point: Tensor, distance: Tensor) -> "SearchState":
        """Return the state in which the samples marked by `which` have another nearest point."""
        return self._replace(
            point=torch.where(which[:, None], point, self.point), distance=torch.where(which, distance, self.distance)
        )


def walk(
    network: Network, norm: Norm, turns: range, steps: int, start: Tensor, y: Tensor, keys: Tensor, *state: Tensor
) -> SearchState:
    """Take the steps `turns` out of `steps`, each sample in its mode."""
    now = SearchState(*state)
    for turn in turns:
        seen = evaluate(network, now.at, y, lead)
        left = torch.where(seen.finite, seen.value, torch.inf)
        delta = in_units(now.at - start, network.scale)
        length = norm_of(delta, norm)
        best = Best(now.point, now.distance, now.farthest)
        best.update(now.at, length, seen.fooled)
        now = now._replace(left=left, point=best.point, distance=best.distance, farthest=best.farthest)
        moved = now
        if (now.mode == Mode.PROJECT).any():
            gone = (turn - now.since).to(delta.dtype) / (steps - 1 - now.since).clamp(min=1)
            share = (SCHEDULE.turn[0] + (SCHEDULE.turn[1] - SCHEDULE.turn[0]) * gone)[:, None]
            moved = _project(network, norm, start, now, seen, delta, length, share, last=turn == turns[-1])
        if (now.mode != Mode.PROJECT).any():
            slid = _slide(network, norm, turn, start, now, seen, delta, length, keys)
            moved = moved._replace(
                at=torch.where((now.mode == Mode.PROJECT)[:, None], moved.at, slid.at), radius=slid.radius
            )
        # Where scores are not finite, the search has gone too far.
        now = moved._replace(at=torch.where(seen.finite[:, None], moved.at, placed(network, start, delta / 2)))
    return now


def _project(
    network: Network,
    norm: Norm,
    start: Tensor,
    now: SearchState,
    seen: Evaluation,
    delta: Tensor,
    length: Tensor,
    share: Tensor,
    *,
    last: bool,
) -> SearchState:
    """Move to where the linearised boundary crosses the ray along the mean gradient.

    At x with lead ℓ and g = −∇ℓ, the boundary is replaced by the plane ⟨g, δ'⟩ = ⟨g, δ⟩ + ℓ. The nearest point of that
    plane lies along g; but the gradient of a network jumps from piece to piece, so the mean of all gradients is
    followed, in which the newest counts less and less. It is the iteration of Hasofer and Lind for the most likely
    failure of a structure, with averaging.
    """
    gain, slope = seen.gain, norm_of(seen.gain, norm.dual)
    fallen = (gain * delta).sum(dim=1)  # decrease of the lead on the way so far, if the gradient was always this one
    way = torch.where(fallen > SCHEDULE.least_fall * slope * length, 1 + now.left / positive(fallen), torch.inf)
    guess = torch.where(way > SCHEDULE.least_crossing, way * length, torch.inf)
    ray = torch.where((guess < now.crossing)[:, None], delta / positive(length)[:, None], now.ray)

    less, more = SCHEDULE.overshoot_factors
    smaller = (now.overshoot * less).clamp(min=SCHEDULE.least_overshoot)
    larger = (now.overshoot * more).clamp(max=SCHEDULE.most_overshoot)
    overshoot = torch.where(seen.fooled, smaller, larger)
    aim = (1 - share) * now.aim + share * gain / positive(norm_of(gain, Norm.L2))[:, None]
    aim = aim / positive(norm_of(aim, Norm.L2))[:, None]
    needed = fallen + torch.where(seen.finite, now.left, 0.0) + overshoot * slope * length
    longest = torch.where(seen.fooled, SCHEDULE.lengthen_fooled, SCHEDULE.lengthen) * length
    moved = _along(network, start, steepest(aim, norm), gain, needed, SCHEDULE.shorten * length, longest)
    settled = now.settled
    if last:
        plane = nearest_on_plane(network, start, gain, (fallen + now.left).clamp(min=0), norm)
        nearest = norm_of(in_units(plane - start, network.scale), norm)
        best = seen.fooled & (length <= now.distance)
        settled = (now.mode == Mode.PROJECT) & best & (guess <= SCHEDULE.settled * nearest)
    return now._replace(
        at=placed(network, start, moved),
        aim=aim,
        overshoot=overshoot,
        ray=ray,
        crossing=torch.minimum(guess, now.crossing),
        settled=settled,
    )


def _slide(
    network: Network,
    norm: Norm,
    turn: int,
    start: Tensor,
    now: SearchState,
    seen: Evaluation,
    delta: Tensor,
    length: Tensor,
    keys: Tensor,
) -> SearchState:
    """Move along the boundary: the radius shrinks after a success and grows after a failure.

    Only the direction of the gradient is used, close to the boundary, so a slide also works where gradients vanish
    elsewhere. It follows DDN (Rony et al. 2019); both changes fall along half a cosine.
    """
    first_change, last_change, first_step, last_step = _SLIDES.to(delta)[now.mode].T
    gone = (turn - now.since).to(delta.dtype) / (now.until - now.since).clamp(min=1)
    share = (1 + torch.cos(math.pi * gone.clamp(max=1))) / 2
    change, step = last_change + (first_change - last_change) * share, last_step + (first_step - last_step) * share
    radius = torch.where(torch.isinf(now.radius), length, now.radius)
    grown = torch.minimum(radius * (1 + change), now.distance)
    radius = torch.where(seen.fooled, torch.minimum(radius, now.distance) * (1 - change), grown)
    downhill = unit(network, unblocked(network, now.at, seen.gain), keys, turn)
    moved = delta + (step * radius)[:, None] * steepest(downhill, norm)
    return now._replace(at=_at_radius(network, start, moved, radius, norm), radius=radius)


def _along(
    network: Network, start: Tensor, push: Tensor, gain: Tensor, needed: Tensor, shortest: Tensor, longest: Tensor
) -> Tensor:
    """Return the point with ⟨gain, δ⟩ = needed of the ray along `push`, which bends at the limits of the domain."""
    low, high = in_units(network.low - start, network.scale), in_units(network.high - start, network.scale)
    straight = (gain * push).sum(dim=1)
    size = torch.where(straight > 0, needed / positive(straight), longest)
    for _ in range(SCHEDULE.newton):
        size = torch.minimum(torch.maximum(size, shortest), longest)
        free = size[:, None] * push
        bent = torch.minimum(torch.maximum(free, low), high)
        missing = needed - (gain * bent).sum(dim=1)
        slope = (gain * torch.where(free == bent, push, 0.0)).sum(dim=1)
        blind = SCHEDULE.newton_step * missing.sign() * size
        size = size + torch.where(slope > 0, missing / positive(slope), blind)
    return torch.minimum(torch.maximum(size, shortest), longest)[:, None] * push


def _at_radius(network: Network, start: Tensor, delta: Tensor, radius: Tensor, norm: Norm) -> Tensor:
    """Return the input in the direction of `delta` at the radius, inside the domain, if there is one."""
    if norm is Norm.LINF:
        return placed(network, start, torch.minimum(torch.maximum(delta, -radius[:, None]), radius[:, None]))
    size = radius / positive(norm_of(delta, norm))
    for _ in range(SCHEDULE.radius_rounds):
        there = placed(network, start, size[:, None] * delta)
        reached = norm_of(in_units(there - start, network.scale), norm)
        size = size * (radius / positive(reached)).clamp(*SCHEDULE.radius_factors)
    return placed(network, start, size[:, None] * delta)
