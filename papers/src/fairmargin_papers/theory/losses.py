"""Losses of two normal classes as functions of a threshold, and the thresholds that minimise their weighted sums.

For a classifier that predicts + above a threshold t, the loss L₊(t) of class + grows with t and the loss L₋(t) of class
− falls. Natural, fair and robust thresholds all minimise a·L₊(t) + b·L₋(t) on an interval, with weights that may be
negative. A point where the derivative is zero need not be that minimum, so that the ends of the interval, which may be
infinite, are always compared with it.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import ndtr

from fairmargin.core.arrays import Floats
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin_papers.theory.normal import (
    log_mass_of_window,
    log_mean_excess,
    log_mean_of_window,
    log_side,
    mass_between,
)
from fairmargin_papers.theory.search import Function, lowest_of_valley, root_between, root_of_increasing


@dataclass(frozen=True, slots=True, eq=False)
class Bells:
    """Two normal classes: − is N(low, 1) and + is N(high, spread²). All fields are arrays of the same shape.

    `low` may be greater than `high`.
    """

    low: Floats
    high: Floats
    spread: Floats


class ClassLoss(Protocol):
    """A loss as a function of the threshold, class by class."""

    is_convex: ClassVar[bool]

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """Return the local minimum of L₊(t) + exp(log_odds)·L₋(t) at a finite t; NaN if there is none."""

    def equal(self, bells: Bells) -> Floats:
        """Return the threshold at which L₊ = L₋."""

    def by_class(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """Return L₊(t) and L₋(t)."""

    def change(self, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
        """Return L₊(end) − L₊(start) and L₋(end) − L₋(start) for start ≤ end, without cancellation at ±inf."""


def least_weighted(loss: ClassLoss, bells: Bells, plus: Floats, minus: Floats, low: Floats, high: Floats) -> Floats:
    """Return the minimiser of plus·L₊(t) + minus·L₋(t) over low ≤ t ≤ high, where plus + minus > 0.

    Of several minimisers the local minimum is returned, otherwise the lower end.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        log_odds = np.log(np.maximum(minus, 0.0)) - np.log(np.maximum(plus, 0.0))
    one_sided = np.isinf(log_odds)  # if a weight is not positive, the sum is monotone
    inner = loss.local_minimum(bells, np.where(one_sided, 0.0, log_odds))
    inner = np.where(one_sided, log_odds, inner)
    if loss.is_convex:
        return np.asarray(np.clip(inner, low, high))
    within = (inner >= low) & (inner <= high)
    best = np.where(within, inner, low)
    rise_from_low = _weighted(plus, minus, loss.change(bells, low, best))
    best = np.where(rise_from_low > _rounding(low), low, best)
    rise_to_high = _weighted(plus, minus, loss.change(bells, best, high))
    return np.asarray(np.where(rise_to_high < -_rounding(high), high, best))


def least_penalised(loss: ClassLoss, bells: Bells, prior: Floats, penalty: Floats, low: Floats, high: Floats) -> Floats:
    """Return the minimiser of prior·L₊ + (1−prior)·L₋ + penalty·|L₊ − L₋| over low ≤ t ≤ high.

    L₊ − L₋ grows with t, so that this is a weighted sum on both sides of the threshold of equal losses.
    """
    if not penalty.any():
        return least_weighted(loss, bells, prior, 1 - prior, low, high)
    penalty = np.minimum(penalty, 2.0)  # from 1 on equal losses are best for every prior
    fair = np.clip(loss.equal(bells), low, high)
    weights_above, weights_below = (prior + penalty, 1 - prior - penalty), (prior - penalty, 1 - prior + penalty)
    above = least_weighted(loss, bells, *weights_above, fair, high)
    below = least_weighted(loss, bells, *weights_below, low, fair)
    if loss.is_convex:  # a loss that falls to one side rises to the other
        return np.asarray(np.where(above > fair, above, below))
    gain_above = -_weighted(*weights_above, loss.change(bells, fair, above))
    gain_below = _weighted(*weights_below, loss.change(bells, below, fair))
    is_below = (above == fair) | ((below < fair) & (gain_below > gain_above))
    return np.asarray(np.where(is_below, below, above))


def _rounding(end: Floats) -> Floats:
    """Return by how much a finite end must be better, so that rounding does not decide against a minimum nearby."""
    return np.asarray(np.where(np.isfinite(end), 4e-16, 0.0))


def _difference(loss: ClassLoss, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
    (plus, minus), (plus_end, minus_end) = loss.by_class(bells, start), loss.by_class(bells, end)
    return plus_end - plus, minus_end - minus


def _weighted(plus: Floats, minus: Floats, change: tuple[Floats, Floats]) -> Floats:
    return np.asarray(plus * change[0] + minus * change[1])


@dataclass(frozen=True, slots=True)
class ZeroOneLoss:
    """L₊(t) = Φ((t−μ̄)/K), L₋(t) = Φ(μ̲−t)."""

    is_convex: ClassVar[bool] = False

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """Return the point where the weighted densities are equal and the derivative rises through zero.

        With D = μ̄−μ̲, c = ln K + log_odds and u = t−μ̲, equal densities mean (K²−1)u² + 2Du = D² + 2K²c, hence
        u = (−D + K√(D² + 2(K²−1)c)) / (K²−1). For D > 0 its conjugate (D² + 2K²c) / (D + K√…) has no cancellation at
        K → 1, where it becomes the midpoint rule D/2 + c/D.
        """
        gap, spread = bells.high - bells.low, bells.spread
        excess = (spread - 1) * (spread + 1)
        shift = np.log(spread) + log_odds
        square = np.square(gap) + 2 * excess * shift
        root = np.sqrt(np.where(square >= 0, square, np.nan))
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = (np.square(gap) / spread + 2 * spread * shift) / (gap / spread + root)
            crossed = (spread * root - gap) / np.where(excess == 0, np.nan, excess)
        same = (gap == 0) & (excess == 0) & (log_odds == 0)  # all thresholds are equally good
        return np.asarray(bells.low + np.where(same, 0.0, np.where(gap > 0, apart, crossed)))

    def equal(self, bells: Bells) -> Floats:
        """Return θ_f = μ̲ + D/(K+1)."""
        return np.asarray(bells.low + (bells.high - bells.low) / (bells.spread + 1))

    def by_class(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """Return the errors of class + and of class −."""
        return np.asarray(ndtr((t - bells.high) / bells.spread)), np.asarray(ndtr(bells.low - t))

    def change(self, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
        """Return the mass of each class between two thresholds, which changes sides."""
        plus = mass_between((start - bells.high) / bells.spread, (end - bells.high) / bells.spread)
        return plus, -mass_between(start - bells.low, end - bells.low)


@dataclass(frozen=True, slots=True)
class ExponentialLoss:
    """L₊(t) = exp(t − μ̄ + K²/2), L₋(t) = exp(μ̲ − t + 1/2), by the moment generating function of a normal variable."""

    is_convex: ClassVar[bool] = True

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """Return (μ̲ + μ̄ + (1 − K²)/2 + log_odds) / 2, which is far below all samples for a wide class +."""
        variances = (1 - bells.spread) * (1 + bells.spread) / 2
        return np.asarray((bells.low + bells.high + variances + log_odds) / 2)

    def equal(self, bells: Bells) -> Floats:
        """Return the threshold of equal losses, which is the natural one of equally frequent classes."""
        return self.local_minimum(bells, np.zeros_like(bells.low))

    def by_class(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """Return the mean losses of class + and of class −; inf where they overflow."""
        with np.errstate(over="ignore"):
            plus = np.exp(t - bells.high + np.square(bells.spread) / 2)
            return np.asarray(plus), np.asarray(np.exp(bells.low - t + 0.5))

    def change(self, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
        """Return the differences of the mean losses between two thresholds."""
        return _difference(self, bells, start, end)


_TERMS = 24


def _alternating_weights(terms: int) -> Floats:
    """Return weights w with Σ (−1)^k a_k ≈ Σ w_k a_k (Algorithm 1 of the reference in `LogLoss`)."""
    scale = ((3 + math.sqrt(8)) ** terms + (3 - math.sqrt(8)) ** terms) / 2
    weights, step, weight = [], -1.0, -scale
    for k in range(terms):
        weight = step - weight
        weights.append(weight / scale)
        step *= (k + terms) * (k - terms) / ((k + 0.5) * (k + 1))
    return np.array(weights)


_WEIGHTS = _alternating_weights(_TERMS)
_ORDERS = np.arange(1.0, _TERMS + 1)


@dataclass(frozen=True, slots=True)
class LogLoss:
    """L₊(t) = E ln(1 + exp(t − X₊)), L₋(t) = E ln(1 + exp(X₋ − t)), with the natural logarithm.

    The mean of exp(−k|t−X|) over the samples on one side of t has a closed form, a normal tail. The logistic function
    and ln(1+exp) are alternating series of such terms. As functions of k the terms are moments of a measure on [0, 1],
    for which the weights of Cohen, Rodriguez Villegas and Zagier give n terms a relative error of about 5.8⁻ⁿ, so that
    24 terms are as good as exact, for every spread and every distance.

    Reference: H. Cohen, F. Rodriguez Villegas, D. Zagier, "Convergence acceleration of alternating series",
    Experimental Mathematics 9 (2000).
    """

    is_convex: ClassVar[bool] = True

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """Return the only point where the weighted mean slopes cancel, whose quotient grows with t."""

        def quotient(t: Floats) -> Floats:
            plus, minus = _log_mean_logistic(*_plus(bells, t)), _log_mean_logistic(*_minus(bells, t))
            return np.asarray(plus - minus - log_odds)

        return _search(quotient, bells)

    def equal(self, bells: Bells) -> Floats:
        """Return the threshold at which the mean losses are equal."""

        def quotient(t: Floats) -> Floats:
            return np.asarray(_log_mean_softplus(*_plus(bells, t)) - _log_mean_softplus(*_minus(bells, t)))

        return _search(quotient, bells)

    def by_class(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """Return the mean losses of class + and of class −; inf for the class that an infinite threshold misses."""
        inner = np.where(np.isinf(t), 0.0, t)
        plus = np.exp(_log_mean_softplus(*_plus(bells, inner)))
        minus = np.exp(_log_mean_softplus(*_minus(bells, inner)))
        finite = np.isfinite(t)
        return np.where(finite, plus, np.maximum(t, 0.0)), np.where(finite, minus, np.maximum(-t, 0.0))

    def change(self, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
        """Return the differences of the mean losses between two thresholds."""
        return _difference(self, bells, start, end)


def _plus(bells: Bells, t: Floats) -> tuple[Floats, Floats]:
    return np.asarray((t - bells.high) / bells.spread), bells.spread


def _minus(bells: Bells, t: Floats) -> tuple[Floats, Floats]:
    return np.asarray(bells.low - t), np.ones_like(bells.spread)


def _search(quotient: Function, bells: Bells) -> Floats:
    return root_of_increasing(quotient, (bells.low + bells.high) / 2, np.abs(bells.high - bells.low) + bells.spread)


def _log_mean_logistic(d: Floats, spread: Floats) -> Floats:
    """Return ln E 1/(1 + exp(−s(d−Z))), from terms exp(−ks|d−Z|) with k from 0 below d and from 1 above."""
    rates, d = _ORDERS * spread[..., None], d[..., None]
    return _log_alternating(np.logaddexp(log_side(rates, d), log_side(rates - spread[..., None], -d)))


def _log_mean_softplus(d: Floats, spread: Floats) -> Floats:
    """Return ln E ln(1 + exp(s(d−Z))), from the positive part of s(d−Z) and terms exp(−ks|d−Z|)/k."""
    rates, both = _ORDERS * spread[..., None], d[..., None]
    rest = _log_alternating(np.logaddexp(log_side(rates, both), log_side(rates, -both)) - np.log(_ORDERS))
    return np.asarray(np.logaddexp(np.log(spread) + log_mean_excess(d), rest))


def _log_alternating(log_terms: Floats) -> Floats:
    top = log_terms.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log((_WEIGHTS * np.exp(log_terms - top)).sum(axis=-1)))


_REACH = 40  # standard deviations beyond which the mass of a normal class is below the smallest float


@dataclass(frozen=True, slots=True)
class RampLoss:
    """L₊(t) = ∫₀¹ Φ((t+u−μ̄)/K) du, L₋(t) = ∫₀¹ Φ(μ̲−t+u) du.

    The ramp loss min(1, max(0, 1 − m)) is the mean of the indicator of m < u over u in [0, 1]. Hence its expectation is
    the robust error at a radius of u, averaged over all radii up to 1, and has at most one local minimum, too.
    """

    is_convex: ClassVar[bool] = False

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """Return the point where the slopes Pr(t < X₊ < t+1) and the weighted Pr(t−1 < X₋ < t) are equal.

        The logarithm of their quotient first falls and then rises for K > 1, and the reverse for K < 1, as that of two
        normal densities. The minimum lies where it rises through zero.
        """
        low, high, spread = bells.low, bells.high, bells.spread
        lowest = np.minimum(low - _REACH, high - 1 - _REACH * spread)
        highest = np.maximum(low + 1 + _REACH, high + _REACH * spread)

        def quotient(t: Floats) -> Floats:
            plus = log_mass_of_window((t - high) / spread, 1 / spread)
            return np.asarray(plus - log_mass_of_window(t - 1 - low, np.ones_like(spread)) - log_odds)

        valley = spread >= 1
        turn = lowest_of_valley(lambda t: np.where(valley, 1.0, -1.0) * quotient(t), lowest, highest)
        return root_between(quotient, np.where(valley, turn, lowest), np.where(valley, highest, turn))

    def equal(self, bells: Bells) -> Floats:
        """Return the threshold at which the mean losses are equal."""

        def quotient(t: Floats) -> Floats:
            plus = log_mean_of_window((t - bells.high) / bells.spread, 1 / bells.spread)
            return np.asarray(plus - log_mean_of_window(bells.low - t, np.ones_like(bells.low)))

        middle = (bells.low + bells.high) / 2
        return root_of_increasing(quotient, middle, 1 + np.abs(bells.high - bells.low))

    def by_class(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """Return the mean losses of class + and of class −."""
        plus = log_mean_of_window((t - bells.high) / bells.spread, 1 / bells.spread)
        return np.exp(plus), np.exp(log_mean_of_window(bells.low - t, np.ones_like(bells.low)))

    def change(self, bells: Bells, start: Floats, end: Floats) -> tuple[Floats, Floats]:
        """Return the differences of the mean losses, computed from 1 minus the losses where that is smaller."""
        losses = zip(self.by_class(bells, start), self.by_class(bells, end), strict=True)
        lacks = zip(self._lack(bells, start), self._lack(bells, end), strict=True)
        plus, minus = (
            np.where(before + after < 1, after - before, lack_before - lack_after)
            for (before, after), (lack_before, lack_after) in zip(losses, lacks, strict=True)
        )
        return plus, minus

    def _lack(self, bells: Bells, t: Floats) -> tuple[Floats, Floats]:
        """Return 1 − L₊ and 1 − L₋, without cancellation."""
        width = 1 / bells.spread
        plus = log_mean_of_window((bells.high - t) / bells.spread - width, width)
        return np.exp(plus), np.exp(log_mean_of_window(t - 1 - bells.low, np.ones_like(bells.low)))


LOSSES: dict[str, ClassLoss] = {
    "zero_one": ZeroOneLoss(),
    "log": LogLoss(),
    "exponential": ExponentialLoss(),
    "ramp": RampLoss(),
}


def loss_named(name: str) -> ClassLoss:
    """Return the loss of that name, or raise an error that lists the names.

    >>> loss_named("ramp")
    RampLoss()
    """
    if str(name) not in LOSSES:
        raise InputError(f"There is no loss {name!r}. {suggest(str(name), LOSSES)}")
    return LOSSES[name]
