"""The steps of a plumb line towards the boundary, for one tile: some rows project, others slide, all look once a step.

Everything works with δ, the way from the sample in units of the domain's scale. A look is one forward and one backward
pass of the model's (maybe faster) copy; projecting and sliding rows share it, so that tiles are always full.
"""

import math
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import Best, Look, look, placed, unit
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units, norm_of, steepest
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.planes import nearest_on_plane, unblocked

# Found on tuning samples of the four networks in benchmarks/distances/models.py.
_TURN = 0.6, 0.05  # share of the newest slope in the direction, at first and at last
_OVERSHOOT, _LEAST_OVERSHOOT, _MOST_OVERSHOOT = 0.015, 0.004, 0.12  # beyond the guessed boundary, of the radius
_SHORTEN, _LENGTHEN_FOOLED, _LENGTHEN = 0.4, 1.05, 2.0  # how much a radius may change in one projection
_NEWTON = 4  # rounds of Newton's method along a ray that bends at the domain's limits
_SETTLED = 1.0003  # times the distance of the plane that the boundary looks like: as near as can be


class Mode(IntEnum):
    """How a row moves. The slides differ in how much they change the radius and how far they step, at first."""

    PROJECT = 0
    NEAR = 1  # a slide that goes on from projections
    FAR = 2  # a slide from the way to a reference, for all steps that are left
    TRIAL = 3  # a short one, to see where it leads
    BEST_TRIAL = 4  # a slide from the best of these
    FINE = 5  # a slide from the best point that many searches have found


# For each mode: change of the radius at first and at last, length of a step (of the radius) at first and at last.
_SLIDES = torch.tensor(
    [
        [0.0, 0.0, 0.0, 0.0],
        [0.05, 0.002, 0.2, 0.02],
        [0.3, 0.003, 0.7, 0.05],
        [0.35, 0.1, 1.0, 0.3],
        [0.15, 0.003, 0.4, 0.03],
        [0.03, 0.001, 0.1, 0.01],
    ]
)


class Trail(NamedTuple):
    """Where a tile's searches stand: a row or a number a sample.

    Parameters
    ----------
    at
        The input to look at next.
    mode, since, until
        How it moves, from which step on, and to which.
    radius
        Of a slide: where the boundary is believed to be.
    aim
        Of projections: the mean slope so far, newest first.
    overshoot
        How far beyond the guessed boundary to go, of the radius.
    ray, crossing
        The direction in which the boundary was guessed to be nearest, and at which distance.
    left
        The lead at the last input looked at.
    point, distance
        The nearest misclassified input met and how far it is, by the scores that are searched on.
    farthest
        How far the search has gone.
    settled
        Whether the boundary crosses the ray to the point found as near as a straight boundary would allow.
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
    def beginning(cls, start: Tensor, at: Tensor, aim: Tensor) -> "Trail":
        """Projections from `at`, with nothing looked at yet."""
        nought = torch.zeros(len(start), dtype=start.dtype, device=start.device)
        never, none = torch.full_like(nought, torch.inf), torch.zeros_like(nought, dtype=torch.int64)
        project = torch.full_like(none, Mode.PROJECT)
        return cls(
            at,
            project,
            none,
            none,
            never,
            aim,
            nought + _OVERSHOOT,
            aim,
            never,
            never,
            start,
            never,
            nought,
            nought > 0,
        )

    def of(self, which: Tensor) -> "Trail":
        """Those of these samples."""
        return Trail(*(part[which] for part in self))

    @property
    def expected(self) -> Tensor:
        """How near this search has come, or has seen the boundary ahead of it."""
        return torch.minimum(self.distance, self.crossing)

    def instead_of(self, other: "Trail", which: Tensor) -> "Trail":
        """These searches for some samples, the others for the rest; how far both went."""
        mixed = (torch.where(which[:, None] if a.dim() > 1 else which, a, b) for a, b in zip(self, other, strict=True))
        return Trail(*mixed)._replace(farthest=torch.maximum(self.farthest, other.farthest))

    def sliding(self, which: Tensor, at: Tensor, mode: Mode, since: int, until: int) -> "Trail":
        """The same, but for some samples that slide from now on; `which` marks them, `at` holds all samples' inputs."""
        return self._replace(
            at=torch.where(which[:, None], at, self.at),
            mode=torch.where(which, int(mode), self.mode),
            since=torch.where(which, since, self.since),
            until=torch.where(which, until, self.until),
            radius=torch.where(which, torch.inf, self.radius),
            settled=self.settled & ~which,
        )

    def nearest(self, which: Tensor, point: Tensor, distance: Tensor) -> "Trail":
        """The same, but for some samples another nearest point."""
        return self._replace(
            point=torch.where(which[:, None], point, self.point), distance=torch.where(which, distance, self.distance)
        )


def walk(
    network: Network, norm: Norm, turns: range, steps: int, start: Tensor, y: Tensor, keys: Tensor, *trail: Tensor
) -> Trail:
    """The steps `turns` out of `steps`, each row in its mode."""
    now = Trail(*trail)
    for turn in turns:
        seen = look(network, now.at, y, lead)
        left = torch.where(seen.sound, seen.value, torch.inf)
        delta = in_units(now.at - start, network.scale)
        length = norm_of(delta, norm)
        best = Best(now.point, now.distance, now.farthest)
        best.see(now.at, length, seen.fooled)
        now = now._replace(left=left, point=best.point, distance=best.distance, farthest=best.farthest)
        moved = now
        if (now.mode == Mode.PROJECT).any():
            gone = (turn - now.since).to(delta.dtype) / (steps - 1 - now.since).clamp(min=1)
            share = (_TURN[0] + (_TURN[1] - _TURN[0]) * gone)[:, None]
            moved = _projected(network, norm, start, now, seen, delta, length, share, last=turn == turns[-1])
        if (now.mode != Mode.PROJECT).any():
            slid = _slid(network, norm, turn, start, now, seen, delta, length, keys)
            moved = moved._replace(
                at=torch.where((now.mode == Mode.PROJECT)[:, None], moved.at, slid.at), radius=slid.radius
            )
        # Where scores are no numbers the search has gone too far.
        now = moved._replace(at=torch.where(seen.sound[:, None], moved.at, placed(network, start, delta / 2)))
    return now


def _projected(
    network: Network,
    norm: Norm,
    start: Tensor,
    now: Trail,
    seen: Look,
    delta: Tensor,
    length: Tensor,
    share: Tensor,
    *,
    last: bool,
) -> Trail:
    """To where the boundary, as it looks from here, crosses the ray along the mean slope.

    At x with lead ℓ and slope g = −∇ℓ, the boundary is taken for the plane ⟨g, δ'⟩ = ⟨g, δ⟩ + ℓ. The nearest point of
    that plane lies along g; but the slope jumps from piece to piece of a network, so that the mean of all slopes is
    followed, the newest counting less and less. It is the iteration of Hasofer and Lind for the nearest failure of a
    structure, with averaging.
    """
    gain, slope = seen.gain, norm_of(seen.gain, norm.dual)
    melted = (gain * delta).sum(dim=1)  # of the lead, on the way here, if the slope was always this one
    way = torch.where(melted > 0.05 * slope * length, 1 + now.left / _positive(melted), torch.inf)
    guess = torch.where(way > 0.3, way * length, torch.inf)
    ray = torch.where((guess < now.crossing)[:, None], delta / _positive(length)[:, None], now.ray)

    fewer, more = (now.overshoot / 2).clamp(min=_LEAST_OVERSHOOT), (now.overshoot * 1.6).clamp(max=_MOST_OVERSHOOT)
    overshoot = torch.where(seen.fooled, fewer, more)
    aim = (1 - share) * now.aim + share * gain / _positive(norm_of(gain, Norm.L2))[:, None]
    aim = aim / _positive(norm_of(aim, Norm.L2))[:, None]
    needed = melted + torch.where(seen.sound, now.left, 0.0) + overshoot * slope * length
    longest = torch.where(seen.fooled, _LENGTHEN_FOOLED, _LENGTHEN) * length
    moved = _along(network, start, steepest(aim, norm), gain, needed, _SHORTEN * length, longest)
    settled = now.settled
    if last:
        plane = nearest_on_plane(network, start, gain, (melted + now.left).clamp(min=0), norm)
        nearest = norm_of(in_units(plane - start, network.scale), norm)
        best = seen.fooled & (length <= now.distance)
        settled = (now.mode == Mode.PROJECT) & best & (guess <= _SETTLED * nearest)
    return now._replace(
        at=placed(network, start, moved),
        aim=aim,
        overshoot=overshoot,
        ray=ray,
        crossing=torch.minimum(guess, now.crossing),
        settled=settled,
    )


def _slid(
    network: Network,
    norm: Norm,
    turn: int,
    start: Tensor,
    now: Trail,
    seen: Look,
    delta: Tensor,
    length: Tensor,
    keys: Tensor,
) -> Trail:
    """Along the boundary, inwards: after success the radius shrinks, after failure it grows; each step goes downhill.

    It asks of slopes only their direction, close to the boundary, and so also works where they vanish elsewhere. In the
    manner of DDN (Rony et al. 2019), with both changes falling along half a cosine.
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
    """The point of the ray along `push`, bent at the domain's limits, where ⟨gain, δ⟩ = needed; within two lengths."""
    low, high = in_units(network.low - start, network.scale), in_units(network.high - start, network.scale)
    straight = (gain * push).sum(dim=1)
    size = torch.where(straight > 0, needed / _positive(straight), longest)
    for _ in range(_NEWTON):
        size = torch.minimum(torch.maximum(size, shortest), longest)
        free = size[:, None] * push
        bent = torch.minimum(torch.maximum(free, low), high)
        missing = needed - (gain * bent).sum(dim=1)
        slope = (gain * torch.where(free == bent, push, 0.0)).sum(dim=1)
        size = size + torch.where(slope > 0, missing / _positive(slope), 0.2 * missing.sign() * size)
    return torch.minimum(torch.maximum(size, shortest), longest)[:, None] * push


def _at_radius(network: Network, start: Tensor, delta: Tensor, radius: Tensor, norm: Norm) -> Tensor:
    """The input in the direction of `delta`, at that radius in spite of the domain's limits where there is room."""
    if norm is Norm.LINF:
        return placed(network, start, torch.minimum(torch.maximum(delta, -radius[:, None]), radius[:, None]))
    size = radius / _positive(norm_of(delta, norm))
    for _ in range(3):
        there = placed(network, start, size[:, None] * delta)
        reached = norm_of(in_units(there - start, network.scale), norm)
        size = size * (radius / _positive(reached)).clamp(0.5, 2)
    return placed(network, start, size[:, None] * delta)


def _positive(numbers: Tensor) -> Tensor:
    """The numbers, with 1 where a division by them would fail."""
    return torch.where(numbers > 0, numbers, 1.0)
