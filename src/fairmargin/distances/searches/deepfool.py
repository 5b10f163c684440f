"""DeepFool: repeated steps to the linearised decision boundary."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import Started, check_count, distance_to_plane, started
from fairmargin.distances.protocol import Found, Search, accepted_norm
from fairmargin.errors import InputError
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import in_units, length, norm_of, steepest
from fairmargin.perturbation.margins import rivals_of, slopes
from fairmargin.perturbation.planes import nearest_on_plane, unblocked
from fairmargin.perturbation.tiles import by_tiles

_OVERSHOOT, _PUBLISHED_OVERSHOOT = 0.02, 0.05
_STEPS_AGAIN = 3  # number of steps after the boundary was linearised again


@dataclass(frozen=True)
class DeepFool(Search):
    """Distance to a misclassified input found by repeated projection onto the linearised boundary.

    From x, each rival k is (f_y − f_k)(x) / ‖∇(f_y − f_k)(x)‖_q away if the scores were linear. Each step goes slightly
    beyond the nearest of these planes, inside the domain, until the prediction changes; then the boundary is searched
    on the way back. Features at a limit that could only move beyond it are left out of a step. Before the search back,
    the boundary is linearised once at the point found, and the search continues from the nearest point of that plane.

    Guarantee: an upper bound; the model itself confirmed every input. On a linear model without limits and with all
    rivals it is within 0.1 % of the exact distance. Where no step reaches another class, the search follows the way to
    a reference of another class; `inf` where there is none, and then `tried` says how far the steps went.

    Parameters
    ----------
    norm
        L2 or L∞.
    steps
        Maximum number of steps.
    rivals
        Number of the strongest other classes that are considered; None for all. After the first step only the nearest
        of them is considered. If that finds nothing, the search starts again with all classes at every step.
    published
        Use the settings of the published audits (foolbox 2.4): each step 5 % too long, clipped to the domain, all
        rivals at every step, and no search back; 1.05 times the distance on a linear model.

    References
    ----------
    S.-M. Moosavi-Dezfooli, A. Fawzi, P. Frossard, "DeepFool: a simple and accurate method to fool deep neural
    networks", CVPR 2016. Published settings: V. Nanda et al., "Fairness through robustness", FAccT 2021. Looking again
    from the point found, as in F. Croce, M. Hein, "Minimally distorted adversarial examples with a fast adaptive
    boundary attack", ICML 2020.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], DeepFool())
    >>> bool(1.0 <= found.values[0] <= 1.001)
    True
    """

    norm: Norm = Norm.L2
    steps: int = 100
    rivals: int | None = 9
    published: bool = False

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps)
        if self.rivals is not None and self.rivals < 1:
            raise InputError("must be at least 1, or None for all", field="rivals", given=self.rivals, of="DeepFool")

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the distances and the inputs found. Nothing is random, so `keys` is not read."""
        with model.network(tuple(x.shape[1:])) as network:
            state = search(self, network, started(network, x, y))
            return state.begun.found(state.closest, tried=state.farthest)


@dataclass(slots=True, eq=False)
class Projections:
    """The searches of a shard's samples.

    Parameters
    ----------
    settings, network, begun
        The estimator, the model, and the samples.
    closest
        The nearest confirmed points.
    radius, radius_before
        Distances of the inputs after the last step and after the one before.
    farthest
        The largest distance of any input.
    """

    settings: DeepFool
    network: Network
    begun: Started
    closest: Closest
    radius: Tensor
    radius_before: Tensor
    farthest: Tensor

    def run(self, left: Tensor, at: Tensor, rivals: Tensor, steps: int, *, prune: bool = False) -> None:
        """Step until the model is fooled; finished samples are removed, so that tiles hold only the others.

        `left` holds the positions of the samples; `at` and `rivals` hold one row for each of them: the inputs to
        start from and the classes to move to. With `prune`, only the nearest rival is kept after the first step, since
        a farther one is rarely reached first.
        """
        for step in range(steps):
            if not len(left):
                return
            start, y = self.begun.x[left], self.begun.y[left]
            moved, radius, order = by_tiles(self.network, self._step, at, start, y, rivals)
            if prune and step == 0:
                rivals = rivals.gather(1, order)[:, :1]
            self.radius_before[left], self.radius[left] = self.radius[left], radius
            self.farthest[left] = torch.maximum(self.farthest[left], radius)
            fooled = self.closest.offer(left, moved)
            onward = ~fooled & (moved != at).any(dim=1)  # a sample that could not move now never will
            left, at, rivals = left[onward], moved[onward], rivals[onward]

    def linearise_again(self, which: Tensor) -> None:
        """Linearise the boundary at the points found and continue from the nearest point of that plane."""
        which = which[torch.isfinite(self.closest.distance[which])]
        if not len(which):
            return
        at, rivals = by_tiles(
            self.network, self._tangent, self.closest.point[which], self.begun.x[which], self.begun.y[which]
        )
        fooled = self.closest.offer(which, at)
        self.run(which[~fooled], at[~fooled], rivals[~fooled], _STEPS_AGAIN)

    def _step(self, rows: Tensor, start: Tensor, y: Tensor, rivals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take one step of one tile; return the rows, their distances from the start, and the order of the rivals."""
        network, norm, published = self.network, self.settings.norm, self.settings.published
        nearest = torch.full((len(rows),), torch.inf, dtype=rows.dtype, device=rows.device)
        push = torch.zeros_like(rows)
        ways = []
        for margin, gain in slopes(network, rows, y, rivals):
            # A feature at its limit cannot move farther; published runs moved it and clipped it.
            free = gain if published else unblocked(network, rows, gain)
            slope = norm_of(free, norm.dual)
            # A rival that already leads by rounding is at distance 0; one without a gradient cannot be reached.
            way = distance_to_plane(margin.clamp(min=0), slope)
            ways.append(way)
            nearer = way < nearest
            nearest = torch.where(nearer, way, nearest)
            push = torch.where(nearer[:, None], steepest(free, norm), push)
        overshoot = _PUBLISHED_OVERSHOOT if published else _OVERSHOOT
        # Where two scores are equal, the distance is 0 but the prediction has not changed: move by a last bit.
        bit = 4 * torch.finfo(rows.dtype).eps * (1 + in_units(rows, network.scale).abs().amax(dim=1))
        size = torch.where(torch.isfinite(nearest), nearest * (1 + overshoot) + bit, 0.0)
        moved = (rows + size[:, None] * push * network.scale).clamp(network.low, network.high)
        moved = torch.where(torch.isfinite(moved).all(dim=1)[:, None], moved, rows)
        radius = length(moved.double() - start.double(), norm, network.scale)
        return moved, radius, torch.stack(ways, dim=1).argsort(dim=1, stable=True)

    def _tangent(self, point: Tensor, start: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the point nearest to the start on the boundary linearised at `point`, and the nearest rival."""
        network = self.network
        rivals = rivals_of(network.plain(point), y, 1)
        ((margin, gain),) = slopes(network, point, y, rivals)
        needed = (gain * in_units(point - start, network.scale)).sum(dim=1) + margin
        return nearest_on_plane(
            network, start, gain, needed.clamp(min=0) * (1 + _OVERSHOOT), self.settings.norm
        ), rivals


def search(settings: DeepFool, network: Network, begun: Started) -> Projections:
    """Run DeepFool for the samples of a shard."""
    closest = Closest.of(network, begun.x, begun.y, settings.norm, begun.scores)
    state = Projections(settings, network, begun, closest, *(torch.zeros_like(closest.distance) for _ in range(3)))
    which, rivals = begun.correct_at, rivals_of(begun.scores, begun.y, settings.rivals)
    state.run(which, begun.x[which], rivals[which], settings.steps, prune=not settings.published)
    if settings.published:
        return state
    lost = which[torch.isinf(closest.distance[which])]
    state.run(lost, begun.x[lost], rivals_of(begun.scores[lost], begun.y[lost], None), settings.steps)
    closest.fall_back(which)
    state.linearise_again(which)
    closest.search_back(which)
    return state
