"""Common parts of gradient-based estimators: start, evaluation of the model, directions, confirmation."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys, is_number
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.protocol import Found, Search
from fairmargin.errors import InputError
from fairmargin.models.network import Network, finite
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import gradient_of, refuse_without_gradient
from fairmargin.perturbation.tiles import by_tiles


@dataclass(frozen=True, slots=True, eq=False)
class Started:
    """Samples in the precision of the model, with the scores of the original model.

    Parameters
    ----------
    x, y
        Flattened samples and class positions.
    scores
        Scores of the original model, not those of a faster copy (see `fairmargin.models.search_copy`).
    correct_at
        Positions of the samples that the model classifies correctly. Only these are searched for.
    """

    x: Tensor
    y: Tensor
    scores: Tensor
    correct_at: Tensor

    def distances(self, values: Tensor, bound: Bound, norm: Norm, tried: Tensor | None = None) -> Distances:
        """Return distances that are 0 for misclassified samples; `tried` is kept where nothing was found."""
        correct = torch.zeros(len(self.y), dtype=torch.bool, device=self.y.device)
        correct[self.correct_at] = True
        found = torch.where(correct, values.double(), 0.0).cpu().numpy()
        farthest = None
        if tried is not None and np.isinf(found).any():
            farthest = np.where(np.isinf(found), tried.double().cpu().numpy(), 0.0)
        return Distances(found, correct.cpu().numpy(), bound, norm, tried=farthest)

    def found(self, closest: Closest, tried: Tensor | None = None) -> Found:
        """Return upper bounds and the nearest misclassified inputs that were found."""
        lost = torch.zeros_like(closest.distance, dtype=torch.bool)
        lost[self.correct_at] = torch.isinf(closest.distance[self.correct_at])
        points = torch.where(lost[:, None], torch.nan, closest.point)
        return Found(self.distances(closest.distance, Bound.UPPER, closest.norm, tried), points.cpu().numpy())


def started(network: Network, x: Any, y: Ints) -> Started:
    """Convert the samples to the precision of the model and compute the model's scores."""
    # Convert with numpy, which supports more dtypes than torch (other byte orders, for instance).
    kind = np.float64 if network.dtype is torch.float64 else np.float32
    with np.errstate(over="ignore"):  # values too large for single precision become infinity; the scores show it
        held = np.array(x, dtype=kind)
    rows = torch.as_tensor(held, device=network.device).to(network.dtype).flatten(1)
    labels = torch.as_tensor(np.array(y), device=network.device)
    (scores,) = by_tiles(network, lambda tile: (finite(network.plain(tile)),), rows)
    return Started(rows, labels, scores, torch.nonzero(scores.argmax(dim=1) == labels)[:, 0])


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Result of one forward and one backward pass for a tile of rows.

    Parameters
    ----------
    value
        The objective of each row: the smaller, the nearer to another class.
    gain
        Decrease of the objective per step of length 1 along each feature, −∂value/∂x · scale; 0 where it is not finite.
    fooled
        Whether another class has the highest score. False where a score is not finite.
    finite
        Whether all scores are finite.
    """

    value: Tensor
    gain: Tensor
    fooled: Tensor
    finite: Tensor


def evaluate(network: Network, rows: Tensor, y: Tensor, value: Callable[[Tensor, Tensor], Tensor]) -> Evaluation:
    """Evaluate the model, or its faster copy, on one tile; `value` computes the objective from scores and classes."""
    with torch.enable_grad():
        x = rows.detach().requires_grad_(True)
        scores = network.scores(x)
        refuse_without_gradient(scores)
        values = value(scores, y)
        gradient = gradient_of(values, x)
    scores, gain = scores.detach(), -gradient * network.scale
    finite_scores = torch.isfinite(scores).all(dim=1)
    gain = torch.where((finite_scores & torch.isfinite(gain).all(dim=1))[:, None], gain, 0.0)
    return Evaluation(values.detach(), gain, (scores.argmax(dim=1) != y) & finite_scores, finite_scores)


@dataclass(slots=True, eq=False)
class Best:
    """The nearest misclassified row of each sample that a search has found, by the scores of the search.

    Parameters
    ----------
    point, distance
        The row and its distance; `inf` if none was found.
    farthest
        The largest distance at which a row was evaluated.
    """

    point: Tensor
    distance: Tensor
    farthest: Tensor

    @classmethod
    def of(cls, start: Tensor) -> "Best":
        """Return the value before the first evaluation: no row, at distance `inf`."""
        nowhere = torch.zeros(len(start), dtype=start.dtype, device=start.device)
        return cls(start.clone(), torch.full_like(nowhere, torch.inf), nowhere)

    def update(self, rows: Tensor, distance: Tensor, fooled: Tensor) -> None:
        """Keep rows that are misclassified and nearer, and the largest distance evaluated."""
        better = fooled & (distance < self.distance)
        self.point = torch.where(better[:, None], rows, self.point)
        self.distance = torch.where(better, distance, self.distance)
        self.farthest = torch.maximum(self.farthest, distance)


class TileSearch(Search):
    """Base class of searches that treat the samples of one tile in `descend`."""

    norm: Norm

    def descend(self, network: Network, start: Tensor, y: Tensor, keys: Tensor) -> Best:
        """Return the best rows found for samples, classes and keys of one tile."""
        raise NotImplementedError

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Search for all correctly classified samples, and confirm the result with the original model."""

        def descended(start: Tensor, y: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            best = self.descend(network, start, y, keys)
            return best.point, best.distance, best.farthest

        with model.network(tuple(x.shape[1:])) as network:
            begun = started(network, x, y)
            closest, which = Closest.of(network, begun.x, begun.y, self.norm, begun.scores), begun.correct_at
            farthest = torch.zeros_like(closest.distance)
            if len(which):
                rows = begun.x[which], begun.y[which], key_rows(keys, begun)[which]
                point, distance, far = by_tiles(network, descended, *rows)
                farthest[which] = far.double()
                conclude(closest, which, point, torch.isfinite(distance))
            return begun.found(closest, tried=farthest)


def conclude(closest: Closest, which: Tensor, point: Tensor, met: Tensor) -> None:
    """Confirm the points found with the original model, search back to the boundary, use references for the rest."""
    if met.any():
        closest.settle(which[met], point[met])
    closest.search_back(which)
    closest.fall_back(which)


def key_rows(keys: Keys, begun: Started) -> Tensor:
    """Return the keys as a tensor of signed integers with the same bits; torch cannot compute with uint64."""
    return torch.as_tensor(np.array(keys, dtype=np.uint64).view(np.int64), device=begun.y.device)


def positive(numbers: Tensor) -> Tensor:
    """Return the numbers, with 1 instead of those that are not positive, to divide by."""
    return torch.where(numbers > 0, numbers, 1.0)


def distance_to_plane(margin: Tensor, slope: Tensor) -> Tensor:
    """Return margin / slope, the distance of a linearised boundary; `inf` where the slope is 0."""
    return torch.where(slope > 0, margin / positive(slope), torch.inf)


def unit(network: Network, gain: Tensor, keys: Tensor, turn: int) -> Tensor:
    """Return each gain at Euclidean length 1; where it is 0, a random direction drawn from key and turn."""
    size = norm_of(gain, Norm.L2)
    flat = torch.nonzero(size == 0)[:, 0]
    if len(flat):
        gain = gain.clone()
        for i in flat.tolist():
            source = np.random.Generator(np.random.Philox(key=[int(keys[i]) % 2**64, turn]))
            gain[i] = torch.as_tensor(source.standard_normal(gain.shape[1])).to(gain) * (network.scale != 0)
        size = norm_of(gain, Norm.L2)
    return gain / positive(size)[:, None]


def farthest_corner(network: Network, start: Tensor, norm: Norm) -> Tensor:
    """Return the distance of the farthest input of the domain from each sample; `inf` for an unlimited domain."""
    reach = torch.maximum(in_units(network.high - start, network.scale), in_units(start - network.low, network.scale))
    longest = norm_of(torch.where(torch.isfinite(reach), reach, 0.0), norm)
    return torch.where(torch.isfinite(reach).all(dim=1), longest, torch.inf)


def placed(network: Network, start: Tensor, delta: Tensor) -> Tensor:
    """Return the inputs at displacement `delta`, in units of the scale, from each sample, clipped to the domain."""
    x = (start + delta * network.scale).clamp(network.low, network.high)
    return torch.where(torch.isfinite(x).all(dim=1)[:, None], x, start)


def cosine(step: int, steps: int, first: float, last: float) -> float:
    """Return a value that falls from `first` to `last` along half a cosine.

    >>> cosine(0, 10, 1.0, 0.5), round(cosine(5, 10, 1.0, 0.5), 6)
    (1.0, 0.75)
    """
    return last + (first - last) * (1 + math.cos(math.pi * step / steps)) / 2


def check_count(estimator: object, **given: int) -> None:
    """Refuse counts that are not whole numbers of at least 1."""
    for name, value in given.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < 1:
            problem = "must be at least 1" if whole else "must be a whole number"
            raise InputError(problem, field=name, given=value, of=type(estimator).__name__)


def check_size(estimator: object, **given: float) -> None:
    """Refuse lengths and rates that are not positive finite numbers."""
    for name, value in given.items():
        if not is_number(value) or not 0 < value < math.inf:
            raise InputError("must be a positive number", field=name, given=value, of=type(estimator).__name__)


def check_share(estimator: object, **given: float) -> None:
    """Refuse shares that are not between 0 and 1, both excluded."""
    for name, value in given.items():
        if not is_number(value) or not 0 < value < 1:
            raise InputError("must lie between 0 and 1", field=name, given=value, of=type(estimator).__name__)
