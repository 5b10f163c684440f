"""Verified distances: radii within which the class of a network is proven not to change."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import Started, check_count, started
from fairmargin.distances.protocol import accepted_norm
from fairmargin.errors import InputError, ModelError
from fairmargin.models.kept_classes import parted
from fairmargin.models.layers.steps import Layers
from fairmargin.models.layers.tracing import layers_of
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.lengths import norm_of
from fairmargin.perturbation.relaxation import FUNCTIONS_AT_ONCE, Region, Relaxation
from fairmargin.perturbation.tiles import by_tiles

METHODS = ("auto", "crown-ibp", "crown")
_SMALL = 1024  # "auto": maximum number of inputs of ReLUs and maxima for which all are bounded backwards
_WIDE = 4096  # maximum number of values of a layer that are bounded backwards
_NUMBERS_AT_ONCE = 2**20  # maximum number of slopes in a tile: larger ones leave the cache and are not faster
_BELOW = 1e-7  # relative distance below the first guess that is tried, so rounding of the guess does not matter
_AGREEMENT = 1e-3  # tolerance of the layers' scores against the model's, relative to the largest
PRECISION = 1e-3  # relative distance of a proven radius from a failed one at which a search ends
_PUSH = 0.4 * PRECISION  # shift of a guess, so that two good guesses lie on either side of the end
_GROWTH = 4.0  # maximum factor of the radius while nothing has failed
_POWERS = (0.02, 8.0)  # range of the exponent


@dataclass(frozen=True)
class Verified:
    """The largest radius within which every input of the domain is proven to have a class that is to be kept.

    For each rival k, f_y − f_k is bounded from below over {‖δ / scale‖ ≤ r} ∩ box by a linear function of the input,
    found by one pass backwards through the network (CROWN): a ReLU or a maximum that is not linear over this region is
    replaced by a line below or above it, for which bounds of its inputs are needed. The radius of each sample is
    searched separately: r is proven if all bounds are above 0. Of several classes to keep one must lead each rival
    everywhere in the region, and it may be a different one for each rival.

    Guarantee: a lower bound on the distance of the model itself, for every sample, 0 where nothing could be proven.
    `inf` where the whole domain was proven. Sound up to floating point in this sense: the proof is computed in double
    precision and covers the rounding of the model's own evaluation, layer by layer, for any order of its sums
    (`fairmargin.perturbation.relaxation` has the formula); its own rounding is covered by a factor, not by directed
    rounding; convolutions by FFT or Winograd, TF32 and flushed denormal numbers are not covered. Before any proof, the
    layers that were read must reproduce the model's own scores. On a linear model within 0.1 % of the exact distance,
    in double precision and without limits within 1e-6.

    Parameters
    ----------
    norm
        L2 or L∞.
    method
        How the bounds of a layer's values are computed: "crown-ibp" uses intervals, "crown" one pass backwards for each
        value (tighter on most networks, and 15 to 40 times as slow on small convolutional ones; a layer of more than
        4,096 values uses intervals even so); "auto" is "crown" for networks in which at most 1,024 values enter a ReLU
        or a maximum, "crown-ibp" for others.
    steps
        Maximum number of radii that are tried.

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
    not_on_tables: ClassVar[str] = (
        "bounds the scores for all inputs of a ball, and the rows that a table allows are no ball"
    )
    bound: ClassVar[Bound] = Bound.LOWER
    keeps_several: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps)
        if self.method not in METHODS:
            raise InputError(f"must be one of {', '.join(METHODS)}", field="method", given=self.method, of="Verified")

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return lower bounds. Nothing is random, so `keys` is not read."""
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
        """Return up to how many values of a layer are bounded by backward passes."""
        if self.method == "auto":
            return _WIDE if layers.bent <= _SMALL else 0
        return _WIDE if self.method == "crown" else 0


@dataclass(frozen=True, slots=True, eq=False)
class _Proof:
    """The lower bounds of a network's leads at a given radius.

    `wide` is the maximum number of values of a layer that are bounded by backward passes; `kept` holds the positions of
    several classes to keep, and is empty for each sample's own class.
    """

    layers: Layers
    network: Network
    norm: Norm
    wide: int
    kept: tuple[int, ...] = ()

    def compare(self, begun: Started) -> None:
        """Refuse a model whose layers, as they were read, do not reproduce its scores."""

        def scores(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """Return the scores of the layers for one tile, and their proven bounds at radius 0."""
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
                f"({exact[at].tolist()[:3]}… against {given[at].tolist()[:3]}…), so nothing can be proven. Check "
                "whether it changes values in place or computes in lower precision than its weights; else report it."
            )

    def leads(self, rows: Tensor, y: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smallest proven lead over any rival, and the radius where its bound would be 0, for one tile.

        The second value is only a guess of a radius to try, since the bounds are not linear. Of several classes to
        keep, the one with the largest proven lead over a rival counts.
        """
        region = Region.around(self.network, rows, self.norm, radius)
        relaxation = Relaxation.of(self.layers, region, self.wide)
        functions = self._differences(y)
        leads, reaches = [], []
        for part in torch.split(functions, FUNCTIONS_AT_ONCE, dim=1):
            lead, slopes = relaxation.lowest(len(self.layers.steps), part)
            fall = norm_of((slopes * region.scale).flatten(0, 1), self.norm.dual).reshape(lead.shape)
            leads.append(lead)
            reaches.append(torch.where(fall > 0, lead / torch.where(fall > 0, fall, 1.0), torch.inf))
        best = (len(rows), -1, max(1, len(self.kept)))  # one row per rival, one column per class to keep
        lead, reach = (torch.cat(parts, dim=1).reshape(best).amax(dim=2).amin(dim=1) for parts in (leads, reaches))
        return torch.nan_to_num(lead, nan=-torch.inf), reach

    def _differences(self, y: Tensor) -> Tensor:
        """Return the functions to bound: the score of each class to keep minus that of each rival, rival by rival."""
        count = self.network.classes
        classes = torch.eye(count, dtype=torch.float64, device=y.device)
        if not self.kept:
            rivals = (y[:, None] + torch.arange(1, count, device=y.device)) % count
            return classes[y][:, None] - classes[rivals]
        others = [place for place in range(count) if place not in self.kept]
        functions = (classes[list(self.kept)] - classes[others][:, None]).flatten(0, 1)
        return functions.expand(len(y), *functions.shape)

    def farthest(self, rows: Tensor) -> Tensor:
        """Return the radius of the smallest region around each sample that contains the whole domain."""
        region = Region.around(self.network, rows, self.norm, rows.new_zeros(len(rows)))
        return region.farthest


def _search(proof: _Proof, x: Tensor, y: Tensor, steps: int) -> Tensor:
    """Return the largest radius of each sample at which all leads were proven."""

    def lead(which: Tensor, radius: Tensor) -> Tensor:
        return by_tiles(proof.network, proof.leads, x[which], y[which], radius)[0]

    start, guess = by_tiles(proof.network, proof.leads, x, y, x.new_zeros(len(x), dtype=torch.float64))
    (most,) = by_tiles(proof.network, lambda rows: (proof.farthest(rows),), x)
    guess = torch.where(torch.isfinite(guess), guess, most)
    guess = torch.where(torch.isfinite(guess), guess, 1.0)
    return largest_radius(lead, start, guess * (1 - _BELOW), most, steps)


def _in_smaller_tiles(network: Network, layers: Layers, wide: int, kept: int) -> Network:
    """Return the network with tiles for which the slopes of all functions fit into memory; independent of the data."""
    differences = max(1, kept) * (network.classes - max(1, kept))
    functions = FUNCTIONS_AT_ONCE if wide else min(FUNCTIONS_AT_ONCE, differences)
    fitting = _NUMBERS_AT_ONCE // (functions * layers.widest)
    return replace(network, tile=max(1, min(network.tile, fitting)))


def largest_radius(
    lead: Callable[[Tensor, Tensor], Tensor], start: Tensor, guess: Tensor, most: Tensor, steps: int
) -> Tensor:
    """Return the largest radius tried whose lead is above 0; 0 if there is none, `inf` if it is the largest possible.

    The decrease of a lead grows about like a power of the radius. The next radius is where the power through the last
    two results would reach 0, slightly beyond. A proof for one radius holds whatever the results at others, so leads
    need not fall monotonically; a guess outside of the open interval is replaced by its middle.

    Parameters
    ----------
    lead
        Function that takes positions of samples and one radius for each, and returns a lower bound of their leads.
    start
        The leads at radius 0; samples whose lead is not above 0 are not tried.
    guess
        The first radii.
    most
        The largest radii that make a difference, or `inf`.
    steps
        Maximum number of radii tried for each sample.

    >>> one = torch.ones(2, dtype=torch.float64)
    >>> most = torch.tensor([torch.inf, 1.5], dtype=torch.float64)
    >>> found = largest_radius(lambda at, radius: 4 - radius**2, 4 * one, 10 * one, most, steps=12)
    >>> [round(radius, 2) for radius in found.tolist()]
    [2.0, inf]
    """
    low, high = torch.zeros_like(start), torch.full_like(start, torch.inf)
    radius, before = guess.minimum(most), torch.zeros_like(start)
    lost_before, runs = torch.zeros_like(start), torch.zeros_like(start)  # runs: > 0 for proofs, < 0 for failures
    for _ in range(steps):
        apart = torch.isinf(high) | (high - low > PRECISION * high)
        at = torch.nonzero((start > 0) & apart & (low < most) & (radius > 0))[:, 0]
        if not len(at):
            break
        tried = radius[at]
        left = lead(at, tried)
        proven = left > 0  # False for NaN
        low[at] = torch.where(proven, torch.maximum(low[at], tried), low[at])
        high[at] = torch.where(proven, high[at], torch.minimum(high[at], tried))
        lost = ((start[at] - left) / start[at]).nan_to_num(nan=torch.inf).clamp(min=1e-9)
        end = _crossing(tried, lost, before[at], lost_before[at], proven)
        before[at], lost_before[at] = tried, lost
        runs[at] = torch.where(proven, runs[at].clamp(min=0) + 1, runs[at].clamp(max=0) - 1)
        radius[at] = _inside(end, low[at], high[at], runs[at].abs()).minimum(most[at])
    return torch.where((low >= most) & (start > 0), torch.inf, low)


def _crossing(radius: Tensor, lost: Tensor, before: Tensor, lost_before: Tensor, proven: Tensor) -> Tensor:
    """Return the radius, slightly shifted, where the lead would be 0 if its decrease were a power of the radius."""
    power = (lost / lost_before).log() / (radius / before).log()
    usual = torch.where(proven, 1.0, 2.0).to(radius.dtype)
    usable = (before > 0) & torch.isfinite(power) & (power > 0)
    power = torch.where(usable, power, usual).clamp(*_POWERS)
    push = torch.where(proven, 1 + _PUSH, 1 - _PUSH).to(radius.dtype)
    return radius * (-lost.log() / power).clamp(min=-math.log(64), max=math.log(_GROWTH)).exp() * push


def _inside(guess: Tensor, low: Tensor, high: Tensor, run: Tensor) -> Tensor:
    """Return the guess if it lies between the proven and the failed radii, otherwise their middle.

    While only one end is known, guesses move farther from it with every result on the same side, since a lead may not
    depend on the radius for a while. When both are known, a third such guess is replaced by the middle.
    """
    stride = (_PUSH * 4 ** (run - 1)).clamp(max=_GROWTH - 1)
    outwards = torch.maximum(guess, low * (1 + stride))
    inwards = torch.minimum(guess, high * (1 - stride).clamp(min=1 / 8))
    middle = (low * high).sqrt()
    astray = (guess < low * (1 + _PUSH)) | (guess > high * (1 - _PUSH)) | ((run > 2) & (high > 1.1 * low))
    between = torch.where(astray, middle, guess)
    return torch.where(torch.isinf(high), outwards, torch.where(low > 0, between, inwards))
