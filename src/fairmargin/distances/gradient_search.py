"""What searches that follow a gradient share: a look at the scores, directions, the best point met, and the end."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys, is_number
from fairmargin.core.norm import Norm
from fairmargin.distances.protocol import Found
from fairmargin.distances.starting import Started, started
from fairmargin.errors import InputError
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import gradient_of, refuse_without_gradient
from fairmargin.perturbation.tiles import by_tiles


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What one forward and one backward pass tell of a tile of rows.

    Parameters
    ----------
    value
        What was asked for, a number a row: the less, the nearer to another class.
    gain
        How fast a step of length 1 along each feature lowers it: −∂value/∂x · scale; a row of 0 where it is no number.
    fooled
        Whether another class is ahead. So far away that a score is no number, the model says nothing.
    sound
        Whether all scores are numbers.
    """

    value: Tensor
    gain: Tensor
    fooled: Tensor
    sound: Tensor


def look(network: Network, rows: Tensor, y: Tensor, value: Callable[[Tensor, Tensor], Tensor]) -> Look:
    """Ask the model, which may be a faster copy, for one tile; `value` takes its scores and the classes."""
    with torch.enable_grad():
        x = rows.detach().requires_grad_(True)
        scores = network.scores(x)
        refuse_without_gradient(scores)
        values = value(scores, y)
        gradient = gradient_of(values, x)
    scores, gain = scores.detach(), -gradient * network.scale
    sound = torch.isfinite(scores).all(dim=1)
    gain = torch.where((sound & torch.isfinite(gain).all(dim=1))[:, None], gain, 0.0)
    return Look(values.detach(), gain, (scores.argmax(dim=1) != y) & sound, sound)


@dataclass(slots=True, eq=False)
class Best:
    """The nearest misclassified row that a tile's search has met, by the scores it searches on."""

    point: Tensor
    distance: Tensor
    farthest: Tensor

    @classmethod
    def of(cls, start: Tensor) -> "Best":
        """Nothing met yet: at distance `inf`."""
        nowhere = torch.zeros(len(start), dtype=start.dtype, device=start.device)
        return cls(start.clone(), torch.full_like(nowhere, torch.inf), nowhere)

    def see(self, rows: Tensor, distance: Tensor, fooled: Tensor) -> None:
        """Keep what is nearer, and note how far the search has gone."""
        better = fooled & (distance < self.distance)
        self.point = torch.where(better[:, None], rows, self.point)
        self.distance = torch.where(better, distance, self.distance)
        self.farthest = torch.maximum(self.farthest, distance)


Descend = Callable[[Network, Tensor, Tensor, Tensor], Best]
"""A search from one tile's samples: network, samples, classes and keys to the best rows met."""


def search(model: Differentiable, x: Any, y: Ints, keys: Keys, norm: Norm, descend: Descend) -> Found:
    """Inputs found by a search for all correctly classified samples, tile by tile, with how far each search went."""

    def descended(start: Tensor, y: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        best = descend(network, start, y, keys)
        return best.point, best.distance, best.farthest

    with model.network(tuple(x.shape[1:])) as network:
        begun = started(network, x, y)
        closest, which = Closest.of(network, begun.x, begun.y, norm, begun.scores), begun.correct_at
        farthest = torch.zeros_like(closest.distance)
        if len(which):
            point, distance, far = by_tiles(
                network, descended, begun.x[which], begun.y[which], key_rows(keys, begun)[which]
            )
            farthest[which] = far.double()
            conclude(closest, which, point, torch.isfinite(distance))
        return begun.found(closest, tried=farthest)


def conclude(closest: Closest, which: Tensor, point: Tensor, met: Tensor) -> None:
    """Have the plain model confirm what was met, search the boundary on the way back, and fall back for the lost."""
    if met.any():
        closest.settle(which[met], point[met])
    closest.search_back(which)
    closest.fall_back(which)


def key_rows(keys: Keys, begun: Started) -> Tensor:
    """The samples' keys as a tensor; torch has no arithmetic for 64 bits without a sign, and needs none here."""
    return torch.as_tensor(np.array(keys, dtype=np.uint64).view(np.int64), device=begun.y.device)


def unit(network: Network, gain: Tensor, keys: Tensor, turn: int) -> Tensor:
    """Each gain at Euclidean length 1; where it is 0, a direction at random, by the sample's key and the turn."""
    size = norm_of(gain, Norm.L2)
    flat = torch.nonzero(size == 0)[:, 0]
    if len(flat):
        gain = gain.clone()
        for i in flat.tolist():
            source = np.random.Generator(np.random.Philox(key=[int(keys[i]) % 2**64, turn]))
            gain[i] = torch.as_tensor(source.standard_normal(gain.shape[1])).to(gain) * (network.scale != 0)
        size = norm_of(gain, Norm.L2)
    return gain / torch.where(size > 0, size, 1.0)[:, None]


def farthest_corner(network: Network, start: Tensor, norm: Norm) -> Tensor:
    """How far the most distant input of the domain is from each sample; `inf` where there are no limits."""
    reach = torch.maximum(in_units(network.high - start, network.scale), in_units(start - network.low, network.scale))
    longest = norm_of(torch.where(torch.isfinite(reach), reach, 0.0), norm)
    return torch.where(torch.isfinite(reach).all(dim=1), longest, torch.inf)


def placed(network: Network, start: Tensor, delta: Tensor) -> Tensor:
    """The input that lies `delta`, in units of the domain's scale, from each sample, or the nearest in the domain."""
    x = (start + delta * network.scale).clamp(network.low, network.high)
    return torch.where(torch.isfinite(x).all(dim=1)[:, None], x, start)


def cosine(step: int, steps: int, first: float, last: float) -> float:
    """From `first` to `last` along half a cosine.

    >>> cosine(0, 10, 1.0, 0.5), round(cosine(5, 10, 1.0, 0.5), 6)
    (1.0, 0.75)
    """
    return last + (first - last) * (1 + math.cos(math.pi * step / steps)) / 2


def check_count(estimator: object, **given: int) -> None:
    """Refuse numbers of steps that lead nowhere."""
    for name, value in given.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError("must be a whole number", field=name, given=value, of=type(estimator).__name__)
        if value < 1:
            raise InputError("must be at least 1", field=name, given=value, of=type(estimator).__name__)


def check_size(estimator: object, **given: float) -> None:
    """Refuse lengths and rates that are not positive."""
    for name, value in given.items():
        if not is_number(value) or not 0 < value < math.inf:
            raise InputError("must be a positive number", field=name, given=value, of=type(estimator).__name__)


def check_share(estimator: object, **given: float) -> None:
    """Refuse shares outside of (0, 1)."""
    for name, value in given.items():
        if not is_number(value) or not 0 < value < 1:
            raise InputError("must lie between 0 and 1", field=name, given=value, of=type(estimator).__name__)
