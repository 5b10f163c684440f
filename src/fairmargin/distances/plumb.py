"""Plumb: lets a line down on the boundary until it hangs straight; what to use where nothing speaks against it."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count, key_rows
from fairmargin.distances.plumb_planes import Planes, nearest_planes
from fairmargin.distances.plumb_steps import Mode, Trail, walk
from fairmargin.distances.protocol import Found, accepted_norm
from fairmargin.distances.starting import Started, started
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import lead, rivals_of
from fairmargin.perturbation.references import references_by_class, references_of
from fairmargin.perturbation.tiles import by_tiles

_RIVALS, _MOST_RIVALS = 3, 9  # asked at the sample itself: on small networks the nearest may be none of the strongest
_SATURATED = 0.35  # of the lead is left after the first step: nine of ten samples of ordinary networks have less
_PATIENCE, _STUCK = 4, 0.2  # so many looks without success, and more than this share of the lead still left
_WORTHWHILE = 8.0  # times as far as the search has come a reference may be; the boundary is about halfway
_TRIAL, _STEPS_A_TRIAL, _MOST_TRIALS = 5, 10, 6  # steps of a trial, steps in all that allow for one, at most so many
_SLIDING = 12  # from so many steps on, the last two fifths of them slide
_LOOKS, _STEPS_A_PLANE, _MOST_OTHERS = 5, 20, 2  # looks at where a plane leads, steps that allow for another, at most
_WORTH_TRYING = 1.5  # times as far as the nearest plane another may be
_ROUND, _REFINING = 40, 20  # steps of one search, of which more begin elsewhere, and of the last one, from the best
_HALFWAY = 0.6  # of the way to a reference is a little beyond the boundary where both are alike
_BEYOND = (1.0003, 1.004), (1.0, 0.995), (1.001, 1.02)  # times a guessed crossing, if settled or not: first, less, more


@dataclass(frozen=True)
class Plumb:
    """The distance to a misclassified input found by projecting the sample on the boundary, over and over.

    First the boundaries of three rivals (nine from 36 steps on) are taken for planes, and the nearest is gone to. Then
    each step takes the boundary for a plane as it looks from where one stands, and goes to it along the mean of all
    slopes so far. After a few steps the same is tried from the next nearest plane (two from 40 steps on), and the
    better way is gone on; the last steps slide along the boundary towards the sample. A sample that keeps its
    lead after the first step has slopes that tell nothing (they are *saturated*): it starts at the boundary on the way
    to the nearest reference of another prediction, if that is not far, and slides from there; with 20 steps or more it
    tries references of two to six classes and goes on from the best. From 100 steps on, searches of 40 steps begin at
    further references, and the best point is refined at last.

    Guarantee: an upper bound; every input was checked by the model itself. `inf` only where neither a search nor any
    reference led to another prediction; then `tried` says how far they went.

    Parameters
    ----------
    norm
        L2 or L∞.
    steps
        The number of steps of one forward and one backward pass; about five forward passes are added. 12 is fast, 40
        is more accurate, and more steps come nearer still. It is not the best search everywhere: on the robust MNIST
        network of docs/benchmarks.md, DDN with a large initial norm is nearer for the passes of 40 steps. `Tightest`
        takes the nearer of both.

    References
    ----------
    A. M. Hasofer, N. C. Lind, "Exact and invariant second-moment code format", J. Eng. Mech. 1974 (repeated projection
    on the linearised limit state); F. Croce, M. Hein, ICML 2020 (FAB); J. Rony et al., CVPR 2019 (DDN).
    docs/benchmarks.md compares it with DDN, FMN, ALMA and others.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], Plumb())
    >>> bool(1.0 <= found.values[0] <= 1.001)
    True
    """

    norm: Norm = Norm.L2
    steps: int = 40

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps)

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Upper bounds; randomness is needed only where a slope is 0."""
        return self.find(model, x, y, keys=keys).distances

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """The distances and the inputs found."""
        with model.network(tuple(x.shape[1:])) as network:
            begun = started(network, x, y)
            search = self.searched(network, begun, key_rows(keys, begun))
            return begun.found(search.closest, tried=search.farthest)

    def searched(self, network: Network, begun: Started, keys: Tensor) -> "_Search":
        """The finished search, whose `closest` holds the points themselves too."""
        search = _Search.of(self.norm, network, begun, keys)
        if len(begun.correct_at):
            search.run(self.steps)
        return search


@dataclass(slots=True, eq=False)
class _Search:
    """The searches of a shard's samples; `saturated` marks those whose slopes tell nothing at the sample.

    Tensors without index in a method's arguments have a row for each of the samples `which` that are searched for.
    """

    norm: Norm
    network: Network
    start: Tensor
    y: Tensor
    keys: Tensor
    scores: Tensor
    which: Tensor
    closest: Closest
    farthest: Tensor
    saturated: Tensor
    trials: Tensor
    kept: tuple[Tensor, Tensor]
    order: Tensor | None = None

    @classmethod
    def of(cls, norm: Norm, network: Network, begun: Started, keys: Tensor) -> "_Search":
        closest, which = Closest.of(network, begun.x, begun.y, norm, begun.scores), begun.correct_at
        x, y, keys, scores = (part[which] for part in (begun.x, begun.y, keys, begun.scores))
        none, nowhere = torch.zeros_like(y), torch.full_like(scores[:, 0], torch.inf)
        farthest = torch.zeros_like(closest.distance)
        return cls(norm, network, x, y, keys, scores, which, closest, farthest, none > 0, none, (x, nowhere))

    def run(self, steps: int) -> None:
        """All searches that so many steps allow."""
        rounds = max(0, steps - _ROUND - _REFINING) // _ROUND
        refining = _REFINING if rounds else 0
        self._from_the_sample(steps - rounds * _ROUND - refining)
        for turn in range(rounds):
            self._from_references(turn)
        if refining:
            self._from_the_best(refining)
        self.closest.fall_back(self.which)

    def _from_the_sample(self, steps: int) -> None:
        """The main search: project, then slide; slide from a reference where slopes tell nothing."""
        others = min(_MOST_OTHERS, max(1, steps // _STEPS_A_PLANE)) if steps >= _SLIDING else 0
        looks = min(steps, _LOOKS if steps >= _STEPS_A_PLANE else _PATIENCE)
        rivals = rivals_of(self.scores, self.y, min(_MOST_RIVALS, max(_RIVALS, steps // 4)))
        planes = self._planes(self.start, self.y, rivals[:, :_RIVALS])
        ahead, unreached = lead(self.scores, self.y), torch.isinf(planes.way[:, 0])
        trail = self._walk(Trail.beginning(self.start, planes.at[:, 0], planes.aim[:, 0]), range(1), steps)
        trail = self._elsewhere(trail, (trail.left > _SATURATED * ahead) | unreached, 1, steps)
        planes = self._further(planes, trail.mode == Mode.PROJECT, rivals[:, _RIVALS:])
        trail = self._go_on(trail, range(1, looks), steps)
        lost = torch.isinf(trail.distance) & (trail.left > _STUCK * ahead) & (trail.mode == Mode.PROJECT)
        trail, now = self._elsewhere(trail, lost, looks, steps), looks
        for turn in range(1, 1 + others):
            trail, now = self._tried(trail, planes, turn, range(now, now + looks), steps), now + looks
        if steps >= _SLIDING:
            sliding = max(now, steps - 2 * steps // 5)
            trail, now = self._go_on(trail, range(now, sliding), steps), sliding
            # Who has not crossed the boundary yet goes on projecting: there is nothing to slide along.
            arrived = (trail.mode == Mode.PROJECT) & ~trail.settled & torch.isfinite(trail.distance)
            trail = trail.sliding(arrived, trail.at, Mode.NEAR, now, steps)
        self._finish(self._go_on(trail, range(now, steps), steps))

    def _tried(self, trail: Trail, planes: Planes, turn: int, turns: range, steps: int) -> Trail:
        """The nearer of where they are and where another plane leads; who has none that is worth it just goes on."""
        way = planes.way[:, min(turn, planes.way.shape[1] - 1)]
        tried = (trail.mode == Mode.PROJECT) & (way < _WORTH_TRYING * planes.way[:, 0])
        if turn >= planes.way.shape[1] or not tried.any():
            return self._go_on(trail, turns, steps)
        other = Trail.beginning(self.start, planes.at[:, turn], planes.aim[:, turn])
        other = other._replace(since=other.since + turns.start)
        other = self._go_on(other.instead_of(trail, tried), turns, steps)
        better = ~tried | (other.expected < trail.expected)
        return other.instead_of(trail, better).nearest(trail.distance < other.distance, trail.point, trail.distance)

    def _from_references(self, turn: int) -> None:
        """Search again from references of one class after the other: another valley of the boundary may be nearer."""
        there, found = self._reference(turn + 1)
        already = _MOST_TRIALS + turn * _ROUND // _STEPS_A_TRIAL  # references that saturated samples have tried
        at = self._on_the_way(there)
        trail = Trail.beginning(self.start, at, in_units(at - self.start, self.network.scale))
        # Who slides begins with a trial that is over.
        self.trials, self.kept = torch.full_like(self.trials, already), (self.start, trail.distance)
        trail = trail.sliding(self.saturated, self.start, Mode.TRIAL, 0, 0)
        trail = trail._replace(settled=~found & ~self.saturated)
        self._finish(self._go_on(trail, range(_ROUND), _ROUND, 0, already))

    def _from_the_best(self, steps: int) -> None:
        point, distance = self.closest.point[self.which], self.closest.distance[self.which].to(self.start)
        known = torch.isfinite(distance)
        trail = Trail.beginning(self.start, point, torch.zeros_like(point)).nearest(known, point, distance)
        trail = trail.sliding(known, point, Mode.FINE, 0, steps)._replace(settled=~known)
        self._finish(self._walk(trail, range(steps), steps))

    def _go_on(self, trail: Trail, turns: range, steps: int, origin: int = 1, already: int = 0) -> Trail:
        """These steps; every fifth from `origin` on, trials that are over are followed by others."""
        most = already + min(_MOST_TRIALS, steps // _STEPS_A_TRIAL)
        ends = (turn for turn in turns if (turn - origin) % _TRIAL == 0)
        for begin, end in pairwise(sorted({turns.start, turns.stop, *ends})):
            trail = self._walk(self._next_trials(trail, begin, steps, most), range(begin, end), steps)
        return trail

    def _next_trials(self, trail: Trail, now: int, steps: int, most: int) -> Trail:
        """Whose trial is over begins the next, or goes on from the best of them."""
        over = (trail.mode == Mode.TRIAL) & (trail.until <= now)
        if not over.any():
            return trail
        nearer = over & (trail.distance < self.kept[1])
        self.kept = (
            torch.where(nearer[:, None], trail.point, self.kept[0]),
            torch.where(nearer, trail.distance, self.kept[1]),
        )
        again = torch.zeros_like(over)
        for trial in sorted(set(self.trials[over & (self.trials < most)].tolist())):
            there, found = self._reference(trial)
            chosen = over & found & (self.trials == trial)
            trail = trail.sliding(chosen, self._on_the_way(there), Mode.TRIAL, now, now + _TRIAL)
            again |= chosen
        self.trials = self.trials + again.to(self.trials)
        trail = trail.nearest(again, self.start, torch.full_like(trail.distance, torch.inf))
        last = over & ~again
        begun = last & torch.isfinite(self.kept[1])
        at = torch.where(begun[:, None], self.kept[0], trail.at)
        trail = trail.nearest(begun, *self.kept).sliding(last, at, Mode.BEST_TRIAL, now, steps)
        # Without any reference there is nothing to slide from.
        return trail._replace(settled=trail.settled | (last & ~begun & (trail.at == self.start).all(dim=1)))

    def _further(self, planes: Planes, asked: Tensor, rivals: Tensor) -> Planes:
        """The nearest planes but the first, which is gone to already, with those of weaker rivals for who is asked."""
        rows = torch.nonzero(asked)[:, 0]
        if not rivals.shape[1] or not len(rows):
            return planes
        weaker = self._planes(self.start[rows], self.y[rows], rivals[rows])
        behind = Planes(*(torch.cat([old[rows, 1:], new], dim=1) for old, new in zip(planes, weaker, strict=True)))
        behind = behind.nearest(planes.way.shape[1] - 1)
        for part, new in zip(planes, behind, strict=True):
            part[rows, 1:] = new
        return planes

    def _planes(self, start: Tensor, y: Tensor, rivals: Tensor) -> Planes:
        function = partial(nearest_planes, self.network, self.norm, 1 + _MOST_OTHERS)
        return Planes(*by_tiles(self.network, function, start, y, rivals))

    def _length(self, way: Tensor) -> Tensor:
        (length,) = by_tiles(self.network, lambda rows: (norm_of(in_units(rows, self.network.scale), self.norm),), way)
        return length

    def _walk(self, trail: Trail, turns: range, steps: int) -> Trail:
        """These steps of all who are not finished: they have left, so that tiles hold only those still on their way."""
        going = torch.nonzero(~trail.settled)[:, 0]
        if not len(going) or not len(turns):
            return trail
        function = partial(walk, self.network, self.norm, turns, steps)
        rows = (part[going] for part in (self.start, self.y, self.keys))
        moved = Trail(*by_tiles(self.network, function, *rows, *trail.of(going)))
        if len(going) == len(self.which):
            return moved
        return Trail(*(old.index_copy(0, going, new) for old, new in zip(trail, moved, strict=True)))

    def _elsewhere(self, trail: Trail, lost: Tensor, now: int, steps: int) -> Trail:
        """Those who are lost go to the boundary on the way to a reference that is not far, and slide from there."""
        if not lost.any():
            return trail
        there, found = self._reference(0)
        radius, far = (self._length(to - self.start) for to in (trail.at, there))
        lost = lost & found & ((radius == 0) | (far < _WORTHWHILE * radius))
        self.saturated, self.trials = self.saturated | lost, torch.where(lost, 1, self.trials)
        at = self._on_the_way(there)
        if steps < 2 * _STEPS_A_TRIAL:
            return trail.sliding(lost, at, Mode.FAR, now, steps)
        return trail.sliding(lost, at, Mode.TRIAL, now, now + _TRIAL)

    def _finish(self, trail: Trail) -> None:
        """Have the plain model judge the last input, the best ray's crossing, a little more or less, and the best."""
        self.farthest[self.which] = torch.maximum(self.farthest[self.which], trail.farthest.double())
        self._offer(~trail.settled, trail.at)
        best = torch.minimum(trail.distance.double(), self.closest.distance[self.which])
        chosen = (trail.mode == Mode.PROJECT) & (trail.crossing < best)
        way = torch.where(chosen, trail.crossing, 0.0)[:, None] * trail.ray * self.network.scale
        # A settled guess is almost exact.
        first, less, more = (torch.where(trail.settled, *two)[:, None] for two in _BEYOND)
        fooled = self._offer(chosen, self.start + first * way)
        self._offer(chosen & ~(fooled & trail.settled), self.start + torch.where(fooled[:, None], less, more) * way)
        better = torch.nonzero(trail.distance.double() < self.closest.distance[self.which])[:, 0]
        if len(better):
            self.closest.settle(self.which[better], trail.point[better])

    def _offer(self, chosen: Tensor, rows: Tensor) -> Tensor:
        """Offer the rows of those who are chosen; who is fooled."""
        at = torch.nonzero(chosen)[:, 0]
        fooled = torch.zeros_like(chosen)
        if len(at):
            fooled[at] = self.closest.offer(self.which[at], rows[at].clamp(self.network.low, self.network.high))
        return fooled

    def _reference(self, turn: int) -> tuple[Tensor, Tensor]:
        """The reference of that turn for each sample, immutable features as the sample has them, and who has one."""
        if self.order is None:
            self.order = references_by_class(self.network, self.start, self.y, self.norm)
        if turn >= self.order.shape[1]:
            return self.start, torch.zeros_like(self.saturated)
        row = self.order[:, turn]
        there = torch.where(self.network.scale != 0, references_of(self.network)[row], self.start)
        return there, row >= 0

    def _on_the_way(self, there: Tensor) -> Tensor:
        """Where the boundary is about to be expected on the way to a reference; a slide finds it soon if it is not."""
        return self.start + _HALFWAY * (there - self.start)
