"""Carlini and Wagner's attack: trade length against lead, and search for the price that just buys success."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import Best, check_count, check_size, conclude, look, placed
from fairmargin.distances.protocol import Found, accepted_norm
from fairmargin.distances.starting import Started, started
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.tiles import by_tiles

_LEARNING_RATE, _PUBLISHED_LEARNING_RATE = 0.01, 0.005
_PUBLISHED_PRICE = 0.01
_DEARER, _CHEAPER = 10.0, 4.0  # while nothing has succeeded, or nothing has failed
_FIRST_MOMENT, _SECOND_MOMENT, _TINY = 0.9, 0.999, 1e-8  # of Adam
_LOOKS = 10  # how often a descent is asked whether it still gets anywhere
_PROGRESS = 0.9999
_INSIDE = 0.999999  # tanh reaches the limits nowhere


@dataclass(frozen=True)
class CarliniWagner:
    """The distance to a misclassified input found by minimising ‖δ‖² + c · max(0, f_y − max over k ≠ y of f_k).

    Adam takes the steps; a descent that gets nowhere for a tenth of them ends. The price c is searched for: a descent
    that fooled the model makes it cheaper, one that did not dearer. It starts from the price at which a straight
    boundary would be met, and inputs are kept inside the domain after each step. At last the boundary is searched on
    the straight way back, and samples that were not fooled fall back on a reference.

    Guarantee: an upper bound; every input was checked by the model itself. `inf` where nothing was found; then `tried`
    says how far it went.

    Parameters
    ----------
    norm
        L2.
    steps
        At most so many forward and backward passes a descent.
    searches
        How many prices are tried: at most `searches` · `steps` passes in all.
    learning_rate
        Adam's, in units of the domain's scale; .01 if None (.005 published).
    published
        As the published audits ran it (foolbox 2.4): features with two limits are x = tanh(w) between them, and w is
        what Adam moves; c begins at .01 and is ten times as dear until it buys success; no search back, no fallback.

    References
    ----------
    N. Carlini, D. Wagner, "Towards evaluating the robustness of neural networks", IEEE S&P 2017. Published settings:
    V. Nanda et al., "Fairness through robustness", FAccT 2021, with 100 or 1,000 steps.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], CarliniWagner(learning_rate=0.05))
    >>> bool(1.0 <= found.values[0] <= 1.01)
    True
    """

    norm: Norm = Norm.L2
    steps: int = 100
    searches: int = 5
    learning_rate: float | None = None
    published: bool = False

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps, searches=self.searches)
        if self.learning_rate is not None:
            check_size(self, learning_rate=self.learning_rate)

    @property
    def rate(self) -> float:
        """The learning rate that is used."""
        if self.learning_rate is None:
            return _PUBLISHED_LEARNING_RATE if self.published else _LEARNING_RATE
        return self.learning_rate

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Upper bounds; nothing here is random, so `keys` is not read."""
        return self.find(model, x, y, keys=keys).distances

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """The distances and the inputs found."""
        with model.network(tuple(x.shape[1:])) as network:
            begun = started(network, x, y)
            closest, farthest = found(self, network, begun)
            return begun.found(closest, tried=farthest)


def found(settings: CarliniWagner, network: Network, begun: Started) -> tuple[Closest, Tensor]:
    """The points found for a shard, and how far each search went."""
    closest, which = Closest.of(network, begun.x, begun.y, settings.norm, begun.scores), begun.correct_at
    farthest = torch.zeros_like(closest.distance)
    if len(which):
        descents = Descents.of(settings, network, begun.x[which], begun.y[which])
        low, high = torch.zeros_like(descents.price), torch.full_like(descents.price, torch.inf)
        for _ in range(settings.searches):
            fooled = descents.run()
            high, low = torch.where(fooled, descents.price, high), torch.where(fooled, low, descents.price)
            descents.price = _next_price(low, high, published=settings.published)
        farthest[which] = descents.best.farthest.double()
        met = torch.isfinite(descents.best.distance)
        if not settings.published:
            conclude(closest, which, descents.best.point, met)
        elif met.any():
            closest.settle(which[met], descents.best.point[met])
    return closest, farthest


def _next_price(low: Tensor, high: Tensor, *, published: bool) -> Tensor:
    """Between what failed and what succeeded, or far beyond while nothing has succeeded."""
    between = (low + high) / 2 if published else torch.where(low > 0, (low * high).sqrt(), high / _CHEAPER)
    return torch.where(torch.isinf(high), low * _DEARER, between)


@dataclass(slots=True, eq=False)
class Descents:
    """The descents of a shard's samples at their prices.

    Parameters
    ----------
    start, y
        The samples that are searched for.
    price
        c, one a sample.
    value
        What is minimised, at the start for a price of 1.
    best
        The nearest misclassified points met at any price.
    """

    settings: CarliniWagner
    network: Network
    start: Tensor
    y: Tensor
    price: Tensor
    value: Tensor
    best: Best

    @classmethod
    def of(cls, settings: CarliniWagner, network: Network, start: Tensor, y: Tensor) -> "Descents":
        """Before the first, with the first price."""

        def first(rows: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            seen = look(network, rows, y, lead)
            slope = norm_of(seen.gain, Norm.L2)
            # If the boundary is straight, ‖u‖² + c(lead − ⟨gain, u⟩) is least at u = c · gain / 2: on it, at this c.
            price = 2 * (seen.value / torch.where(slope > 0, slope, 1.0)) / torch.where(slope > 0, slope, 1.0)
            return seen.value, torch.where((slope > 0) & (price > 0) & torch.isfinite(price), 1.5 * price, 1.0)

        value, price = by_tiles(network, first, start, y)
        price = torch.full_like(price, _PUBLISHED_PRICE) if settings.published else price
        return cls(settings, network, start, y, price, value, Best.of(start))

    def run(self) -> Tensor:
        """One descent of every sample from its start; whether it fooled the model. Who gets nowhere leaves."""
        running = torch.arange(len(self.start), device=self.start.device)
        place, first, second = (torch.zeros_like(self.start) for _ in range(3))
        last, fooled = self.price * self.value, torch.zeros_like(self.y, dtype=torch.bool)
        at_once = math.ceil(self.settings.steps / _LOOKS)
        for done in range(0, self.settings.steps, at_once):
            count = min(at_once, self.settings.steps - done)

            def go(*rows: Tensor, done: int = done, count: int = count) -> tuple[Tensor, ...]:
                return self._go(done, count, *rows)

            known = (self.best.point, self.best.distance, self.best.farthest)
            parts = (self.start, self.y, self.price, *known)
            place, first, second, point, distance, far, success, value = by_tiles(
                self.network, go, place, first, second, *(part[running] for part in parts)
            )
            self.best.point[running], self.best.distance[running], self.best.farthest[running] = point, distance, far
            fooled[running] |= success
            onward = value <= _PROGRESS * last
            running, place, first, second, last = (part[onward] for part in (running, place, first, second, value))
            if not len(running):
                break
        return fooled

    def _go(
        self,
        done: int,
        count: int,
        place: Tensor,
        first: Tensor,
        second: Tensor,
        start: Tensor,
        y: Tensor,
        price: Tensor,
        point: Tensor,
        distance: Tensor,
        far: Tensor,
    ) -> tuple[Tensor, ...]:
        """So many steps of Adam for one tile."""
        best, fooled = Best(point, distance, far), torch.zeros_like(y, dtype=torch.bool)
        value = torch.zeros_like(price)
        for step in range(done + 1, done + count + 1):
            x, stretch = self._input(start, place)
            seen = look(self.network, x, y, lead)
            delta = in_units(x - start, self.network.scale)
            length = norm_of(delta, Norm.L2)
            best.see(x, length, seen.fooled)
            fooled |= seen.fooled
            value = torch.where(seen.sound, length.square() + price * seen.value.clamp(min=0), torch.inf)
            pull = torch.where(seen.value > 0, price, 0.0)
            slope = (2 * delta - pull[:, None] * seen.gain) * stretch
            first = _FIRST_MOMENT * first + (1 - _FIRST_MOMENT) * slope
            second = _SECOND_MOMENT * second + (1 - _SECOND_MOMENT) * slope.square()
            size = (second / (1 - _SECOND_MOMENT**step)).sqrt() + _TINY
            place = place - self.settings.rate * first / (1 - _FIRST_MOMENT**step) / size
            if not self.settings.published:
                place = in_units(placed(self.network, start, place) - start, self.network.scale)
        return place, first, second, best.point, best.distance, best.farthest, fooled, value

    def _input(self, start: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        """The inputs that Adam's variables stand for, and how fast they move with them, in units of the scale."""
        network = self.network
        straight, ones = placed(network, start, place), torch.ones_like(place)
        if not self.settings.published:
            return straight, ones
        middle, half = (network.low + network.high) / 2, (network.high - network.low) / 2
        limited = torch.isfinite(half) & (network.scale > 0)
        middle, half = torch.where(limited, middle, 0.0), torch.where(limited, half, 1.0)
        bent = torch.tanh(torch.atanh(((start - middle) / half).clamp(-1, 1) * _INSIDE) + place)
        stretch = in_units(half * (1 - bent.square()), network.scale)
        return torch.where(limited, middle + half * bent, straight), torch.where(limited, stretch, ones)
