"""Two checks of a model that need no attack: whether it has gradients, and what random noise finds.

Both return one number per sample, as an estimator does, so that they are stored and read like distances.
"""

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fairmargin.core.arrays import Floats, Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.keys import sample_keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import distance_to_plane, farthest_corner, placed, positive, started
from fairmargin.distances.on_tables.search import noise_on_table, searches_table, unmoved
from fairmargin.models.network import Network
from fairmargin.models.protocol import Classifier, Differentiable
from fairmargin.models.references import References
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import rivals_of, slopes
from fairmargin.perturbation.tiles import by_tiles

REVISION = 1
DIRECTIONS = 24
_SHARES = (0.95, 0.75, 0.5)  # shares of the attack's distance; noise succeeds most often at the largest
_FAR = 10.0  # how far noise reaches where nothing was found in an unlimited domain, relative to the sample's length
_TURN = 2**32  # offset from the turns of searches, which draw from the same keys
_ENDLESS = 1e50  # a gradient counts as 0 if the linearised boundary is farther away


def measure_slopes(model: Classifier, norm: Norm, x: Any, y_positions: Ints) -> Distances:
    """Measure the distance to the linearised boundary; `inf` where the gradient is 0.

    Guarantee: no bound. `inf` exactly where the gradient of the lead over the strongest rival is 0 in every feature
    that can move, or is not finite: a search by gradients cannot begin there. On tables, these are the numbers.
    """
    if searches_table(model):
        model, x = unmoved(model, x, y_positions, norm)
    samples = np.asarray(x)
    with cast(Differentiable, model).network(tuple(samples.shape[1:])) as network:
        begun = started(network, samples, y_positions)
        values = torch.zeros(len(begun.y), dtype=torch.float64, device=network.device)
        chosen = begun.correct_at

        def way(rows: Tensor, y: Tensor, rivals: Tensor) -> tuple[Tensor]:
            ((margin, gain),) = slopes(network, rows, y, rivals)
            slope = norm_of(gain.double(), norm.dual)
            there = distance_to_plane(margin.double().clamp(min=0), slope)
            return (torch.where(torch.isfinite(slope) & (there < _ENDLESS), there, torch.inf),)

        if len(chosen) and (network.scale != 0).any():  # without movable features, no search needs a gradient
            rivals = rivals_of(begun.scores, begun.y, 1)[chosen]
            (values[chosen],) = by_tiles(network, way, begun.x[chosen], begun.y[chosen], rivals)
        return begun.distances(values, Bound.NEITHER, norm)


def measure_noise(
    model: Classifier, norm: Norm, x: Any, y_positions: Ints, attacked: Floats, seed: int = 0
) -> Distances:
    """Measure what noise finds nearer than an attack did: random directions, at a few shares of the attack's distance.

    Guarantee: an upper bound, confirmed by the original model; `inf` where noise found nothing. A sample's directions
    depend on its key only.

    Parameters
    ----------
    attacked
        Distances of the attack. Where they are `inf`, noise reaches to the end of the domain.
    """
    samples = np.asarray(x)
    keys = sample_keys(samples, y_positions, seed)
    if searches_table(model):
        longest = [share * np.asarray(attacked) for share in _SHARES]
        return noise_on_table(model, norm, samples, y_positions, keys, longest, range(_TURN, _TURN + DIRECTIONS))
    with cast(Differentiable, model).network(tuple(samples.shape[1:])) as network:
        begun = started(network, samples, y_positions)
        closest, which = Closest.of(network, begun.x, begun.y, norm, begun.scores), begun.correct_at
        if not len(which):
            return begun.distances(closest.distance, Bound.UPPER, norm)
        start, known = begun.x[which], torch.tensor(np.asarray(attacked), device=network.device)[which]
        own = keys[which.cpu().numpy()]

        def reached(rows: Tensor) -> tuple[Tensor]:
            end = farthest_corner(network, rows, norm)
            far = _FAR * (1 + norm_of(in_units(rows, network.scale), norm))
            return (torch.where(torch.isfinite(end), end, far).double(),)

        (reach,) = by_tiles(network, reached, start)
        radius = torch.where(torch.isfinite(known), known, reach)
        for turn in range(DIRECTIONS):
            ways = _directions(network, norm, own, turn)
            for share in _SHARES:

                def moved(rows: Tensor, way: Tensor, radius: Tensor, share: float = share) -> tuple[Tensor]:
                    size = norm_of(way, norm)
                    step = (share * radius).to(way.dtype) / positive(size)
                    return (placed(network, rows, way * step[:, None]),)

                (candidates,) = by_tiles(network, moved, start, ways, radius)
                closest.offer(which, candidates)
        return begun.distances(closest.distance, Bound.UPPER, norm)


def without_references(shape: tuple[int, ...]) -> References:
    """Return references that no search can use: one input of NaN, which no model assigns to any class.

    With `Referenced`, they show what an attack finds by itself. On tables, such a reference changes nothing.
    """
    return np.full((1, *shape), np.nan)


def _directions(network: Network, norm: Norm, keys: Keys, turn: int) -> Tensor:
    """Return a random direction for each sample; for L1 and L∞ one of the corners of the unit ball."""
    movable = (network.scale != 0).cpu().numpy()
    rows = np.zeros((len(keys), len(movable)))
    for i, key in enumerate(keys):
        source = np.random.Generator(np.random.Philox(key=[int(key), _TURN + turn]))
        if norm is Norm.L1 and movable.any():
            rows[i, source.choice(np.flatnonzero(movable))] = source.choice([-1.0, 1.0])
        else:
            drawn = source.standard_normal(len(movable)) * movable
            rows[i] = np.sign(drawn) if norm is Norm.LINF else drawn
    return torch.as_tensor(rows, device=network.device).to(network.dtype)
