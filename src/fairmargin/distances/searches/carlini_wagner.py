"""Carlini and Wagner's attack: minimise the length plus a weighted lead, for the smallest weight that succeeds."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import (
    Best,
    Started,
    check_count,
    check_size,
    conclude,
    evaluate,
    placed,
    positive,
    started,
)
from fairmargin.distances.protocol import Found, Search, accepted_norm
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.tiles import by_tiles

_LEARNING_RATE, _PUBLISHED_LEARNING_RATE = 0.01, 0.005
_PUBLISHED_PRICE = 0.01
_RAISE, _LOWER = 10.0, 4.0  # factors of the weight while no descent has succeeded, or none has failed
_FIRST_MOMENT, _SECOND_MOMENT, _TINY = 0.9, 0.999, 1e-8  # constants of Adam
_CHECKS = 10  # number of times that the progress of a descent is checked
_PROGRESS = 0.9999  # a descent ends if its objective has not fallen below this share of the last
_INSIDE = 0.999999  # keeps tanh away from its limits, which it does not reach


@dataclass(frozen=True)
class CarliniWagner(Search):
    """Distance to a misclassified input found by minimising ‖δ‖² + c · max(0, f_y − max over k ≠ y of f_k).

    Adam takes the steps; a descent that makes no progress during a tenth of them ends. The weight c is found by a
    search: it falls after a descent that fooled the model and rises after one that did not. It starts at the value that
    would suit a straight boundary. Inputs are kept inside the domain after each step. At the end the boundary is
    searched on the straight line back to the sample. Where no misclassified input was found, it is searched on the line
    to a reference, an input of another class (see `references` of `fm.measure`).

    Guarantee: an upper bound; the model itself confirmed every input. `inf` where nothing was found; then `tried` says
    how far the search went.

    Parameters
    ----------
    norm
        L2.
    steps
        Maximum number of forward and backward passes of a descent.
    searches
        Number of weights c that are tried; at most `searches` · `steps` passes are made.
    learning_rate
        Learning rate of Adam, in units of the domain's scale; 0.01 if None (0.005 if `published`).
    published
        Use the settings of the published audits (foolbox 2.4): features with two limits are x = tanh(w) between them,
        and Adam changes w; c begins at 0.01 and is multiplied by ten until a descent succeeds; no search back, no
        references.

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

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the distances and the inputs found. Nothing is random, so `keys` is not read."""
        with model.network(tuple(x.shape[1:])) as network:
            begun = started(network, x, y)
            closest, farthest = _search(self, network, begun)
            return begun.found(closest, tried=farthest)


def _search(settings: CarliniWagner, network: Network, begun: Started) -> tuple[Closest, Tensor]:
    """Return the points found for the samples of a shard, and the largest distance of each search."""
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
    """Return a weight between one that failed and one that succeeded, or a larger one while none has succeeded."""
    between = (low + high) / 2 if published else torch.where(low > 0, (low * high).sqrt(), high / _LOWER)
    return torch.where(torch.isinf(high), low * _RAISE, between)


@dataclass(slots=True, eq=False)
class Descents:
    """The descents of a shard's samples.

    `price` is the weight c of each sample, `value` the objective at the start for c = 1, and `best` holds the nearest
    misclassified points found with any weight.
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
        """Return the state before the first descent, with the first weight of each sample."""

        def first(rows: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            seen = evaluate(network, rows, y, lead)
            slope = norm_of(seen.gain, Norm.L2)
            # If the boundary is straight, ‖u‖² + c(lead − ⟨gain, u⟩) is least at u = c · gain / 2; with this c on the
            # boundary.
            price = 2 * (seen.value / positive(slope)) / positive(slope)
            return seen.value, torch.where((slope > 0) & (price > 0) & torch.isfinite(price), 1.5 * price, 1.0)

        value, price = by_tiles(network, first, start, y)
        price = torch.full_like(price, _PUBLISHED_PRICE) if settings.published else price
        return cls(settings, network, start, y, price, value, Best.of(start))

    def run(self) -> Tensor:
        """Make one descent from each sample and return which fooled the model; those without progress end early."""
        running = torch.arange(len(self.start), device=self.start.device)
        place, first, second = (torch.zeros_like(self.start) for _ in range(3))
        last, fooled = self.price * self.value, torch.zeros_like(self.y, dtype=torch.bool)
        at_once = math.ceil(self.settings.steps / _CHECKS)
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
        """Take `count` steps of Adam for one tile, after `done` steps."""
        best, fooled = Best(point, distance, far), torch.zeros_like(y, dtype=torch.bool)
        value = torch.zeros_like(price)
        for step in range(done + 1, done + count + 1):
            x, stretch = self._input(start, place)
            seen = evaluate(self.network, x, y, lead)
            delta = in_units(x - start, self.network.scale)
            length = norm_of(delta, Norm.L2)
            best.update(x, length, seen.fooled)
            fooled |= seen.fooled
            value = torch.where(seen.finite, length.square() + price * seen.value.clamp(min=0), torch.inf)
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
        """Return the inputs for Adam's variables, and their derivatives by these variables, in units of the scale."""
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
