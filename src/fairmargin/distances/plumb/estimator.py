"""The estimator `plumb` and the order in which its searches are made; the package's docstring is its pseudo-code."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import Started, check_count, key_rows, started
from fairmargin.distances.plumb.schedule import SCHEDULE
from fairmargin.distances.plumb.walk import Mode, Planes, SearchState, nearest_planes, walk
from fairmargin.distances.protocol import Found, Search, accepted_norm
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import lead, rivals_of
from fairmargin.perturbation.references import references_by_class, references_of
from fairmargin.perturbation.tiles import by_tiles


@dataclass(frozen=True)
class Plumb(Search):
    """Distance to the nearest misclassified input found by repeated projection onto the decision boundary.

    The boundaries of the strongest rivals are linearised at the sample, and the search moves to the nearest of these
    planes. Each further step linearises the boundary at the current input and moves to it along the mean of all
    gradients so far. After a few steps the search is repeated from the next nearest planes and continues from the best;
    the last steps slide along the boundary towards the sample. A sample that keeps most of its lead after the first
    step has gradients that carry no information (it is *saturated*): its search slides from the boundary on the way to
    the nearest reference of another class. From 100 steps on, further searches of 40 steps start from other references.
    The docstring of `fairmargin.distances.plumb` is the pseudo-code; its `PlumbSchedule` holds all constants.

    Guarantee: an upper bound; the model itself confirmed every input. `inf` only if neither a search nor any reference
    led to another prediction; then `tried` says how far they went.

    Parameters
    ----------
    norm
        L2 or L∞.
    steps
        Number of steps, each one forward and one backward pass; about five forward passes are added. 12 is fast, 40
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

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the distances and the inputs found; `keys` are used only where a gradient is 0."""
        with model.network(tuple(x.shape[1:])) as network:
            begun = started(network, x, y)
            search = self.searched(network, begun, key_rows(keys, begun))
            return begun.found(search.closest, tried=search.farthest)

    def searched(self, network: Network, begun: Started, keys: Tensor) -> "_Search":
        """Return the finished search, whose `closest` also holds the points."""
        search = _Search.of(self.norm, network, begun, keys)
        if len(begun.correct_at):
            search.run(self.steps)
        return search


@dataclass(slots=True, eq=False)
class _Search:
    """The searches of a shard's correctly classified samples, with one row per sample unless stated otherwise.

    `which` are the positions of the samples in the shard; `closest` and `farthest`, the points confirmed and the
    largest distances evaluated, have one row per sample of the shard. `saturated` samples have gradients without
    information; `trials` and `best_trial` are the number of references they tried and the best point and distance.
    `order` holds the references of each sample, nearest class first; None until it is needed.
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
    best_trial: tuple[Tensor, Tensor]
    order: Tensor | None = None

    @classmethod
    def of(cls, norm: Norm, network: Network, begun: Started, keys: Tensor) -> "_Search":
        """Return the search before its first step."""
        closest, which = Closest.of(network, begun.x, begun.y, norm, begun.scores), begun.correct_at
        x, y, keys, scores = (part[which] for part in (begun.x, begun.y, keys, begun.scores))
        none, nowhere = torch.zeros_like(y), torch.full_like(scores[:, 0], torch.inf)
        farthest = torch.zeros_like(closest.distance)
        return cls(norm, network, x, y, keys, scores, which, closest, farthest, none > 0, none, (x, nowhere))

    def run(self, steps: int) -> None:
        """Make all searches for which there are steps."""
        rounds = max(0, steps - SCHEDULE.round_steps - SCHEDULE.refining_steps) // SCHEDULE.round_steps
        refining = SCHEDULE.refining_steps if rounds else 0
        self._search_from_samples(steps - rounds * SCHEDULE.round_steps - refining)
        for turn in range(rounds):
            self._search_from_references(turn)
        if refining:
            self._refine_best(refining)
        self.closest.fall_back(self.which)

    def _search_from_samples(self, steps: int) -> None:
        """Make the main search: project, then slide; saturated samples slide from a reference."""
        slides = steps >= SCHEDULE.sliding_from
        others = min(SCHEDULE.other_planes, max(1, steps // SCHEDULE.steps_per_plane)) if slides else 0
        looks = min(steps, SCHEDULE.looks if steps >= SCHEDULE.steps_per_plane else SCHEDULE.patience)
        several = max(SCHEDULE.rivals, steps // SCHEDULE.steps_per_rival)
        rivals = rivals_of(self.scores, self.y, min(SCHEDULE.most_rivals, several))
        planes = self._nearest_planes(self.start, self.y, rivals[:, : SCHEDULE.rivals])
        ahead, unreached = lead(self.scores, self.y), torch.isinf(planes.way[:, 0])
        state = self._walk(SearchState.projecting(self.start, planes.at[:, 0], planes.aim[:, 0]), range(1), steps)
        state = self._move_to_reference(state, (state.left > SCHEDULE.saturated * ahead) | unreached, 1, steps)
        planes = self._add_planes(planes, state.mode == Mode.PROJECT, rivals[:, SCHEDULE.rivals :])
        state = self._advance(state, range(1, looks), steps)
        lost = torch.isinf(state.distance) & (state.left > SCHEDULE.stuck * ahead) & (state.mode == Mode.PROJECT)
        state, now = self._move_to_reference(state, lost, looks, steps), looks
        for turn in range(1, 1 + others):
            state, now = self._try_plane(state, planes, turn, range(now, now + looks), steps), now + looks
        if slides:
            share, whole = SCHEDULE.sliding_share
            sliding = max(now, steps - share * steps // whole)
            state, now = self._advance(state, range(now, sliding), steps), sliding
            # A sample that has not crossed the boundary continues to project: there is nothing to slide along.
            arrived = (state.mode == Mode.PROJECT) & ~state.settled & torch.isfinite(state.distance)
            state = state.sliding(arrived, state.at, Mode.NEAR, now, steps)
        self._confirm(self._advance(state, range(now, steps), steps))

    def _try_plane(self, state: SearchState, planes: Planes, turn: int, turns: range, steps: int) -> SearchState:
        """Return the nearer of the current search and one from another plane; only advance if none is worth trying."""
        way = planes.way[:, min(turn, planes.way.shape[1] - 1)]
        tried = (state.mode == Mode.PROJECT) & (way < SCHEDULE.worth_trying * planes.way[:, 0])
        if turn >= planes.way.shape[1] or not tried.any():
            return self._advance(state, turns, steps)
        other = SearchState.projecting(self.start, planes.at[:, turn], planes.aim[:, turn])
        other = other._replace(since=other.since + turns.start)
        other = self._advance(other.or_else(tried, state), turns, steps)
        better = ~tried | (other.expected < state.expected)
        return other.or_else(better, state).with_nearest(state.distance < other.distance, state.point, state.distance)

    def _search_from_references(self, turn: int) -> None:
        """Search again from the references of another class, where another part of the boundary may be nearer."""
        there, found = self._reference(turn + 1)
        # References that saturated samples have tried.
        already = SCHEDULE.most_trials + turn * SCHEDULE.round_steps // SCHEDULE.steps_per_trial
        at = self._halfway_to(there)
        state = SearchState.projecting(self.start, at, in_units(at - self.start, self.network.scale))
        # Saturated samples begin with a trial that is over.
        self.trials, self.best_trial = torch.full_like(self.trials, already), (self.start, state.distance)
        state = state.sliding(self.saturated, self.start, Mode.TRIAL, 0, 0)
        state = state._replace(settled=~found & ~self.saturated)
        self._confirm(self._advance(state, range(SCHEDULE.round_steps), SCHEDULE.round_steps, 0, already))

    def _refine_best(self, steps: int) -> None:
        """Slide from the best point that was confirmed for each sample."""
        point, distance = self.closest.point[self.which], self.closest.distance[self.which].to(self.start)
        known = torch.isfinite(distance)
        state = SearchState.projecting(self.start, point, torch.zeros_like(point)).with_nearest(known, point, distance)
        state = state.sliding(known, point, Mode.FINE, 0, steps)._replace(settled=~known)
        self._confirm(self._walk(state, range(steps), steps))

    def _advance(self, state: SearchState, turns: range, steps: int, origin: int = 1, already: int = 0) -> SearchState:
        """Take the steps `turns`; between trials, counted from step `origin`, start the next trials."""
        most = already + min(SCHEDULE.most_trials, steps // SCHEDULE.steps_per_trial)
        ends = (turn for turn in turns if (turn - origin) % SCHEDULE.trial_steps == 0)
        for begin, end in pairwise(sorted({turns.start, turns.stop, *ends})):
            state = self._walk(self._start_next_trials(state, begin, steps, most), range(begin, end), steps)
        return state

    def _start_next_trials(self, state: SearchState, now: int, steps: int, most: int) -> SearchState:
        """Let samples whose trial is over start the next trial or, after the last, continue from the best."""
        over = (state.mode == Mode.TRIAL) & (state.until <= now)
        if not over.any():
            return state
        nearer = over & (state.distance < self.best_trial[1])
        self.best_trial = (
            torch.where(nearer[:, None], state.point, self.best_trial[0]),
            torch.where(nearer, state.distance, self.best_trial[1]),
        )
        again = torch.zeros_like(over)
        for trial in sorted(set(self.trials[over & (self.trials < most)].tolist())):
            there, found = self._reference(trial)
            chosen = over & found & (self.trials == trial)
            state = state.sliding(chosen, self._halfway_to(there), Mode.TRIAL, now, now + SCHEDULE.trial_steps)
            again |= chosen
        self.trials = self.trials + again.to(self.trials)
        state = state.with_nearest(again, self.start, torch.full_like(state.distance, torch.inf))
        last = over & ~again
        begun = last & torch.isfinite(self.best_trial[1])
        at = torch.where(begun[:, None], self.best_trial[0], state.at)
        state = state.with_nearest(begun, *self.best_trial).sliding(last, at, Mode.BEST_TRIAL, now, steps)
        # Without any reference there is nothing to slide from.
        return state._replace(settled=state.settled | (last & ~begun & (state.at == self.start).all(dim=1)))

    def _add_planes(self, planes: Planes, chosen: Tensor, rivals: Tensor) -> Planes:
        """Add the planes of weaker rivals for the chosen samples, behind the first, which was tried already."""
        rows = torch.nonzero(chosen)[:, 0]
        if not rivals.shape[1] or not len(rows):
            return planes
        weaker = self._nearest_planes(self.start[rows], self.y[rows], rivals[rows])
        behind = Planes(*(torch.cat([old[rows, 1:], new], dim=1) for old, new in zip(planes, weaker, strict=True)))
        behind = behind.nearest(planes.way.shape[1] - 1)
        for part, new in zip(planes, behind, strict=True):
            part[rows, 1:] = new
        return planes

    def _nearest_planes(self, start: Tensor, y: Tensor, rivals: Tensor) -> Planes:
        """Return the planes of the rivals that the search may try, in tiles."""
        function = partial(nearest_planes, self.network, self.norm, 1 + SCHEDULE.other_planes)
        return Planes(*by_tiles(self.network, function, start, y, rivals))

    def _length(self, way: Tensor) -> Tensor:
        """Return the lengths of displacements, in tiles."""
        (length,) = by_tiles(self.network, lambda rows: (norm_of(in_units(rows, self.network.scale), self.norm),), way)
        return length

    def _walk(self, state: SearchState, turns: range, steps: int) -> SearchState:
        """Take the steps `turns` for all samples that are not settled, so that tiles hold only these."""
        going = torch.nonzero(~state.settled)[:, 0]
        if not len(going) or not len(turns):
            return state
        function = partial(walk, self.network, self.norm, turns, steps)
        rows = (part[going] for part in (self.start, self.y, self.keys))
        moved = SearchState(*by_tiles(self.network, function, *rows, *state.rows(going)))
        if len(going) == len(self.which):
            return moved
        return SearchState(*(old.index_copy(0, going, new) for old, new in zip(state, moved, strict=True)))

    def _move_to_reference(self, state: SearchState, lost: Tensor, now: int, steps: int) -> SearchState:
        """Let lost samples slide from the way to their nearest reference, if it is not too far."""
        if not lost.any():
            return state
        there, found = self._reference(0)
        radius, far = (self._length(to - self.start) for to in (state.at, there))
        lost = lost & found & ((radius == 0) | (far < SCHEDULE.worthwhile * radius))
        self.saturated, self.trials = self.saturated | lost, torch.where(lost, 1, self.trials)
        at = self._halfway_to(there)
        if steps < 2 * SCHEDULE.steps_per_trial:
            return state.sliding(lost, at, Mode.FAR, now, steps)
        return state.sliding(lost, at, Mode.TRIAL, now, now + SCHEDULE.trial_steps)

    def _confirm(self, state: SearchState) -> None:
        """Evaluate the last input, two inputs near the predicted crossing, and the best input by the original model."""
        self.farthest[self.which] = torch.maximum(self.farthest[self.which], state.farthest.double())
        self._offer(~state.settled, state.at)
        best = torch.minimum(state.distance.double(), self.closest.distance[self.which])
        chosen = (state.mode == Mode.PROJECT) & (state.crossing < best)
        way = torch.where(chosen, state.crossing, 0.0)[:, None] * state.ray * self.network.scale
        # The predicted crossing of a settled sample is almost exact.
        factors = (SCHEDULE.beyond_first, SCHEDULE.beyond_less, SCHEDULE.beyond_more)
        first, less, more = (torch.where(state.settled, *factor)[:, None] for factor in factors)
        fooled = self._offer(chosen, self.start + first * way)
        self._offer(chosen & ~(fooled & state.settled), self.start + torch.where(fooled[:, None], less, more) * way)
        better = torch.nonzero(state.distance.double() < self.closest.distance[self.which])[:, 0]
        if len(better):
            self.closest.settle(self.which[better], state.point[better])

    def _offer(self, chosen: Tensor, rows: Tensor) -> Tensor:
        """Evaluate the inputs of the chosen samples by the original model; return which of them are misclassified."""
        at = torch.nonzero(chosen)[:, 0]
        fooled = torch.zeros_like(chosen)
        if len(at):
            fooled[at] = self.closest.offer(self.which[at], rows[at].clamp(self.network.low, self.network.high))
        return fooled

    def _reference(self, turn: int) -> tuple[Tensor, Tensor]:
        """Return reference number `turn` of each sample, with its immutable features, and which samples have one."""
        if self.order is None:
            self.order = references_by_class(self.network, self.start, self.y, self.norm)
        if turn >= self.order.shape[1]:
            return self.start, torch.zeros_like(self.saturated)
        row = self.order[:, turn]
        there = torch.where(self.network.scale != 0, references_of(self.network)[row], self.start)
        return there, row >= 0

    def _halfway_to(self, there: Tensor) -> Tensor:
        """Return the input on the way to a reference that is expected to be a little beyond the boundary."""
        return self.start + SCHEDULE.halfway * (there - self.start)
