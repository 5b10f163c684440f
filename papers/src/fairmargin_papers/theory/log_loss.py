"""The log-loss ln(1 + exp(−m)) of two normal classes, by series of normal tails.

The mean of exp(−k|t−X|) over the samples on one side of t has a closed form, a normal tail. The logistic function and
ln(1+exp) are alternating series of such terms. As functions of k the terms are moments of a measure on [0, 1], for
which the weights of Cohen, Rodriguez Villegas and Zagier give n terms a relative error of about 5.8⁻ⁿ: 24 terms are as
good as exact, for every spread and every distance.

Reference: H. Cohen, F. Rodriguez Villegas, D. Zagier, "Convergence acceleration of alternating series", Experimental
Mathematics 9 (2000).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin_papers.theory.normal import log_mean_excess, log_side
from fairmargin_papers.theory.search import Function, root_of_increasing
from fairmargin_papers.theory.thresholds import Bells

_TERMS = 24


def _alternating_weights(terms: int) -> Floats:
    """Weights w with Σ (−1)^k a_k ≈ Σ w_k a_k (Algorithm 1 of the reference)."""
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
    """L₊(t) = E ln(1 + exp(t − X₊)), L₋(t) = E ln(1 + exp(X₋ − t)), with the natural logarithm."""

    is_convex: ClassVar[bool] = True

    def local_minimum(self, bells: Bells, log_odds: Floats) -> Floats:
        """Where the weighted mean slopes cancel; their quotient grows with t, so that there is one such point."""

        def quotient(t: Floats) -> Floats:
            plus, minus = _log_mean_logistic(*_plus(bells, t)), _log_mean_logistic(*_minus(bells, t))
            return np.asarray(plus - minus - log_odds)

        return _search(quotient, bells)

    def equal(self, bells: Bells) -> Floats:
        """Where the mean losses are equal, by halving."""

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
        (plus, minus), (plus_end, minus_end) = self.by_class(bells, start), self.by_class(bells, end)
        return plus_end - plus, minus_end - minus


def _plus(bells: Bells, t: Floats) -> tuple[Floats, Floats]:
    return np.asarray((t - bells.high) / bells.spread), bells.spread


def _minus(bells: Bells, t: Floats) -> tuple[Floats, Floats]:
    return np.asarray(bells.low - t), np.ones_like(bells.spread)


def _search(quotient: Function, bells: Bells) -> Floats:
    return root_of_increasing(quotient, (bells.low + bells.high) / 2, np.abs(bells.high - bells.low) + bells.spread)


def _log_mean_logistic(d: Floats, spread: Floats) -> Floats:
    """ln E 1/(1 + exp(−s(d−Z))): exp(−ks|d−Z|) with alternating signs, from k = 0 below d and from k = 1 above."""
    rates, d = _ORDERS * spread[..., None], d[..., None]
    return _log_alternating(np.logaddexp(log_side(rates, d), log_side(rates - spread[..., None], -d)))


def _log_mean_softplus(d: Floats, spread: Floats) -> Floats:
    """ln E ln(1 + exp(s(d−Z))): the positive part of s(d−Z), and exp(−ks|d−Z|)/k with alternating signs."""
    rates, both = _ORDERS * spread[..., None], d[..., None]
    rest = _log_alternating(np.logaddexp(log_side(rates, both), log_side(rates, -both)) - np.log(_ORDERS))
    return np.asarray(np.logaddexp(np.log(spread) + log_mean_excess(d), rest))


def _log_alternating(log_terms: Floats) -> Floats:
    top = log_terms.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log((_WEIGHTS * np.exp(log_terms - top)).sum(axis=-1)))
