"""Verified distances: how far a network's answer is proven not to change."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count
from fairmargin.distances.protocol import accepted_norm
from fairmargin.distances.radius_search import largest_radius
from fairmargin.distances.starting import Started, started
from fairmargin.errors import InputError, ModelError
from fairmargin.models.kept import parted
from fairmargin.models.layer_reading import layers_of
from fairmargin.models.layers import Layers
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.lengths import norm_of
from fairmargin.perturbation.regions import Region
from fairmargin.perturbation.relaxation import FUNCTIONS_AT_ONCE, Relaxation
from fairmargin.perturbation.tiles import by_tiles

METHODS = ("auto", "crown-ibp", "crown")
_SMALL = 1024  # values that bend, in all of a network: so many are bounded backwards without being asked to
_WIDE = 4096  # values of one layer: more are bounded by intervals even if asked to
_NUMBERS_AT_ONCE = 2**20  # of slopes: larger tiles leave the cache and are not faster
_HAIR = 1e-7  # how much below the first guess is tried, so that it need not be right to the last bit
_AGREEMENT = 1e-3  # of the steps' scores with the model's, relative to the largest


@dataclass(frozen=True)
class Verified:
    """The largest radius within which every input of the domain is proven to have a class that is to be kept.

    For each rival k, f_y − f_k is bounded from below over {‖δ / scale‖ ≤ r} ∩ box by a linear function of the input,
    found by one pass backwards through the network (CROWN): where a ReLU or a maximum may bend, a line below or above
    it takes its place, for which it must be known between which numbers its inputs lie. The radius is searched, each
    sample its own: r is kept if all bounds are above 0. Of several classes to keep one must be ahead of each rival,
    everywhere in the region, perhaps another one of each.

    Guarantee: a lower bound on the distance of the model itself, for every sample, 0 where nothing could be proven.
    `inf` where the whole domain was proven. Sound up to floating point, thus: the proof is calculated in double
    precision and covers the rounding of the model's own evaluation, layer by layer, whatever the order of its sums
    (`fairmargin.perturbation.relaxation` has the formula); its own rounding is covered by a factor, not by directed
    rounding; convolutions by FFT or Winograd, TF32 and flushed denormal numbers are not covered. Before any proof the
    steps as they were read must give the model's own scores. On a linear model within 0.1 % of the exact distance, in
    double precision and without limits within 1e-6.

    Parameters
    ----------
    norm
        L2 or L∞.
    method
        "crown-ibp" finds the numbers between which a layer's values lie by intervals, "crown" by a pass backwards for
        each of them (tighter on most networks, and 15 to 40 times as slow on small convolutional ones; a layer of more
        than 4,096 values has intervals even so); "auto" is "crown" for networks of at most 1,024 values that bend,
        "crown-ibp" for others.
    steps
        At most so many radii are tried.

    References
    ----------
    H. Zhang et al., "Efficient neural network robustness certification with general activation functions", NeurIPS
    2018. H. Zhang et al., "Towards stable and efficient training of verifiably robust neural networks" (CROWN-IBP),
    ICLR 2020. S. Gowal et al., "Scalable verified training for provably robust image classification", ICCV 2019.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], Verified())
    >>> bool(0.999999 <= found.values[0] <= 1)
    True
    """

    norm: Norm = Norm.L2
    method: str = "auto"
    steps: int = 16

    needs: ClassVar[str] = "layers"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1
    bound: ClassVar[Bound] = Bound.LOWER
    keeps_several: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps)
        if self.method not in METHODS:
            raise InputError(f"must be one of {', '.join(METHODS)}", field="method", given=self.method, of="Verified")

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Lower bounds; nothing here is random, so `keys` is not read."""
        whole, kept = parted(model)
        with cast(Differentiable, whole).network(tuple(x.shape[1:])) as network, torch.no_grad():
            begun = started(network, x, y)
            if kept:
                held = torch.isin(begun.scores.argmax(dim=1), torch.tensor(kept, device=network.device))
                begun = replace(begun, correct_at=torch.nonzero(held)[:, 0])
            layers = layers_of(whole, tuple(x.shape[1:]))
            wide = self._wide(layers)
            proof = _Proof(layers, _in_smaller_tiles(network, layers, wide, len(kept)), self.norm, wide, kept)
            proof.compare(begun)
            values = torch.zeros(len(begun.y), dtype=torch.float64, device=network.device)
            if len(begun.correct_at):
                values[begun.correct_at] = _search(
                    proof, begun.x[begun.correct_at], begun.y[begun.correct_at], self.steps
                )
            return begun.distances(values, self.bound, self.norm)

    def _wide(self, layers: Layers) -> int:
        """Up to how many values of a layer are bounded by backward passes."""
        if self.method == "auto":
            return _WIDE if layers.bent <= _SMALL else 0
        return _WIDE if self.method == "crown" else 0


@dataclass(frozen=True, slots=True, eq=False)
class _Proof:
    """What can be proven at a given radius."""

    layers: Layers
    network: Network
    norm: Norm
    wide: int
    kept: tuple[int, ...] = ()

    def compare(self, begun: Started) -> None:
        """Refuse a model whose steps, as they were read, do not give its scores."""

        def scores(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            region = Region.around(self.network, rows, self.norm, rows.new_zeros(len(rows)))
            end = Relaxation.of(self.layers, region).values[-1]
            return self.layers.scores(rows), end.low, end.high

        exact, low, high = by_tiles(self.network, scores, begun.x)
        given = begun.scores.double()
        near = (exact - given).abs() <= _AGREEMENT * (1 + given.abs().amax(dim=1, keepdim=True))
        wrong = ~((low <= given) & (given <= high) & near).all(dim=1)
        if wrong.any():
            at = int(wrong.nonzero()[0])
            raise ModelError(
                f"The model's layers, as they were read, give sample {at} other scores than the model "
                f"({exact[at].tolist()[:3]}… against {given[at].tolist()[:3]}…): nothing can be proven about it. Does "
                "it change values in place, or calculate in lower precision than its weights have? Please report it."
            )

    def leads(self, rows: Tensor, y: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """For one tile: the least lead over any rival that is proven, and the radius where its bound would be 0.

        The second is only a guess of a radius to try: the bounds bend. Of several classes to keep, the one that is
        proven farthest ahead of a rival counts.
        """
        region = Region.around(self.network, rows, self.norm, radius)
        relaxation = Relaxation.of(self.layers, region, self.wide)
        functions = self._differences(y)
        leads, reaches = [], []
        for some in torch.split(functions, FUNCTIONS_AT_ONCE, dim=1):
            lead, slopes = relaxation.lowest(len(self.layers.steps), some)
            fall = norm_of((slopes * region.scale).flatten(0, 1), self.norm.dual).reshape(lead.shape)
            leads.append(lead)
            reaches.append(torch.where(fall > 0, lead / torch.where(fall > 0, fall, 1.0), torch.inf))
        best = (len(rows), -1, max(1, len(self.kept)))  # a row per rival, a column per class to keep
        lead, reach = (torch.cat(parts, dim=1).reshape(best).amax(dim=2).amin(dim=1) for parts in (leads, reaches))
        return torch.nan_to_num(lead, nan=-torch.inf), reach

    def _differences(self, y: Tensor) -> Tensor:
        """Whose least values are sought: the score of each class to keep minus that of each rival, rival by rival."""
        count = self.network.classes
        classes = torch.eye(count, dtype=torch.float64, device=y.device)
        if not self.kept:
            rivals = (y[:, None] + torch.arange(1, count, device=y.device)) % count
            return classes[y][:, None] - classes[rivals]
        others = [place for place in range(count) if place not in self.kept]
        functions = (classes[list(self.kept)] - classes[others][:, None]).flatten(0, 1)
        return functions.expand(len(y), *functions.shape)

    def farthest(self, rows: Tensor) -> Tensor:
        """The radius of the smallest region around each sample that is the whole domain."""
        region = Region.around(self.network, rows, self.norm, rows.new_zeros(len(rows)))
        return region.farthest


def _search(proof: _Proof, x: Tensor, y: Tensor, steps: int) -> Tensor:
    """The largest radius at which all leads were proven, for each sample."""

    def lead(which: Tensor, radius: Tensor) -> Tensor:
        return by_tiles(proof.network, proof.leads, x[which], y[which], radius)[0]

    start, guess = by_tiles(proof.network, proof.leads, x, y, x.new_zeros(len(x), dtype=torch.float64))
    (most,) = by_tiles(proof.network, lambda rows: (proof.farthest(rows),), x)
    guess = torch.where(torch.isfinite(guess), guess, most)
    guess = torch.where(torch.isfinite(guess), guess, 1.0)
    return largest_radius(lead, start, guess * (1 - _HAIR), most, steps)


def _in_smaller_tiles(network: Network, layers: Layers, wide: int, kept: int) -> Network:
    """The same network in tiles for which the slopes of all functions fit into memory; by the model, not the data."""
    differences = max(1, kept) * (network.classes - max(1, kept))
    functions = FUNCTIONS_AT_ONCE if wide else min(FUNCTIONS_AT_ONCE, differences)
    fitting = _NUMBERS_AT_ONCE // (functions * layers.widest)
    return replace(network, tile=max(1, min(network.tile, fitting)))
