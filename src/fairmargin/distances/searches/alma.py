"""ALMA: minimise the length subject to misclassification, by an augmented Lagrangian."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import (
    Best,
    TileSearch,
    check_count,
    check_share,
    check_size,
    evaluate,
    placed,
    positive,
    unit,
)
from fairmargin.distances.protocol import accepted_norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units, norm_of, steepest
from fairmargin.perturbation.margins import lead

# Constants of the paper: the decay of η, M, τ, γ, and the limits of μ.
_LAST_RATE, _CHECK_EVERY, _IMPROVED, _FIRMER = 0.01, 10, 0.95, 1.2
_LEAST_PRICE, _HIGHEST_PRICE = 1e-6, 1e12
_AHEAD = 1e-4  # minimum lead of a rival, in units of the scores
_FLAT, _TINY = 1e-6, 1e-8  # gradients below the first count as 0; the second avoids divisions by 0
_HALVINGS = 20


@dataclass(frozen=True)
class ALMA(TileSearch):
    """Distance to a misclassified input found by minimising ‖δ‖ + P(g; ρ, μ), with g ≤ 0 once the model is fooled.

    g is the lead over the strongest rival relative to the span of the three highest scores. The multiplier μ follows
    P'(g), smoothed; ρ makes P steeper where nothing was found and g does not fall. Steps are those of RMSProp with
    momentum; the first one has length `first_step`, and after the first success they fall to a hundredth. At the end
    the boundary is searched on the straight line back to the sample. Where no misclassified input was found, it is
    searched on the line to a reference, an input of another class (see `references` of `fm.measure`).

    Guarantee: an upper bound; the model itself confirmed every input. `inf` where nothing was found; then `tried` says
    how far the search went.

    Parameters
    ----------
    norm
        L2.
    steps
        Number of forward and backward passes.
    first_step
        Length of the first step; a good value is a fraction of the expected distances.
    smoothing
        Share of the past in the moving averages of multipliers, squares and momentum; 0.5 suits 100 steps, 0.9 suits
        1,000.

    References
    ----------
    J. Rony, E. Granger, M. Pedersoli, I. Ben Ayed, "Augmented Lagrangian adversarial attacks", ICCV 2021.

    >>> import numpy as np
    >>> from fairmargin.distances.measure import measure
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], ALMA())
    >>> bool(1.0 <= found.values[0] <= 1.02)
    True
    """

    norm: Norm = Norm.L2
    steps: int = 100
    first_step: float = 0.5
    smoothing: float = 0.5

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, steps=self.steps)
        check_size(self, first_step=self.first_step)
        check_share(self, smoothing=self.smoothing)

    def descend(self, network: Network, start: Tensor, y: Tensor, keys: Tensor) -> Best:
        """Run the search for one tile; the keys give random directions where a gradient is 0."""
        x, best, keep = start, Best.of(start), self.smoothing
        violation = relative_lead(network, start, y)
        square, momentum = torch.ones_like(start), torch.zeros_like(start)
        price, firmness, rate, before, success_at = (torch.ones_like(best.distance) for _ in range(5))
        for step in range(self.steps):
            seen = evaluate(network, x, y, violation)
            value = torch.where(seen.finite, seen.value, 0.0)
            delta = in_units(x - start, network.scale)
            if step == 0:
                before = value
            elif (step + 1) % _CHECK_EVERY == 0:
                improved = torch.isfinite(best.distance) | (value < _IMPROVED * before)
                firmness, before = torch.where(improved, firmness, _FIRMER * firmness), value
            if step > 0:
                price = price.lerp(_slope_of_penalty(value, firmness, price), 1 - keep)
                price = price.clamp(_LEAST_PRICE, _HIGHEST_PRICE)
            success_at = torch.where(torch.isfinite(best.distance), success_at, float(step))
            best.update(x, norm_of(delta, self.norm), seen.fooled)
            pull = _slope_of_penalty(value, firmness, price)[:, None] * seen.gain
            if step == 0:
                # A rate that compensates for an almost vanishing gradient would move later steps out of the domain.
                pull = torch.where((norm_of(pull, self.norm) > _FLAT)[:, None], pull, 0.0)
                pull = torch.where((pull == 0).all(dim=1)[:, None], unit(network, pull, keys, step), pull)
                rate = _rate(network, start, pull, self.first_step)
            slope = steepest(delta, self.norm) - pull
            fading = _LAST_RATE ** ((step - success_at) / (self.steps - success_at).clamp(min=1))
            square = keep * square + (1 - keep) * slope.square()
            momentum = keep * momentum + slope / (square.sqrt() + _TINY)
            x = placed(network, start, delta - (rate * fading)[:, None] * momentum)
        return best


def _slope_of_penalty(value: Tensor, firmness: Tensor, price: Tensor) -> Tensor:
    """Return the derivative P' of the paper's penalty P₂: μ at g = 0, smaller below, larger above."""
    outside = price + 2 * price * firmness * value + (firmness * value).square() / 2
    return torch.where(value >= 0, outside, price / (1 - firmness * value.clamp(max=0)).square())


def _rate(network: Network, start: Tensor, pull: Tensor, target: float) -> Tensor:
    """Return the factor of `pull` that reaches the target distance inside the domain, found by doubling and halving."""

    def arrived(rate: Tensor) -> Tensor:
        """Return whether a step with this factor reaches the target distance."""
        return norm_of(in_units(placed(network, start, rate[:, None] * pull) - start, network.scale), Norm.L2) >= target

    slope = norm_of(pull, Norm.L2)
    low = torch.where(slope > 0, target / positive(slope), 0.0)  # the factor without limits
    high = low
    for _ in range(_HALVINGS):
        short = ~arrived(high)
        low, high = torch.where(short, high, low), torch.where(short, 2 * high, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        reached = arrived(middle)
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    return high


def relative_lead(network: Network, start: Tensor, y: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the objective g: the lead divided by the span of the three highest scores, independent of their size.

    With two classes, the lead is divided by the lead at the start.
    """
    if network.classes > 2:

        def relative(scores: Tensor, y: Tensor) -> Tensor:
            highest = scores.topk(3, dim=1).values
            return (lead(scores, y) + _AHEAD) / (highest[:, 0] - highest[:, 2] + _TINY)

        return relative
    with torch.no_grad():
        span = lead(network.scores(start), y).abs() + _TINY
    return lambda scores, y: (lead(scores, y) + _AHEAD) / span
