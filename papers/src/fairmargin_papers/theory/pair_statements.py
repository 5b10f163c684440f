"""The statements of the paper on two normal classes and a threshold, evaluated at given parameters.

Reference: C. Tran, K. Zhu, P. Van Hentenryck, F. Fioretto, "On the Effects of Fairness to Adversarial Vulnerability"
(2024). Premises are as printed, with D = μ̄ − μ̲ for the printed μ̲ − μ̄, and with the equal class frequencies that all of
them assume.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin_papers.theory.losses import Bells, ZeroOneLoss
from fairmargin_papers.theory.parameters import together
from fairmargin_papers.theory.statement import Statement

Pair = Any
"""A `GaussianPair`, whose module imports this one."""

_GRID = np.linspace(0.0, 1.0, 33)
_SLACK = 1e-10  # relative difference that may be due to rounding
_ORDERED = "½ each, ε ≤ D/2, 1 < K ≤ min{exp((D−2ε)²/2), D/ε − 1}"
_NARROWER = "½ each, ε ≤ D/4, 1 < K ≤ min{exp((D−2ε)²/2), φ⁻¹(D/ε − 2)}, φ(x) = x + 1/x"
_WIDE = "½ each, K > 1"
_FIGURE = "½ each, D = 2, K = 5 or 10, as in the figures"


def statements(pair: Pair, radius: Floats) -> tuple[Statement, ...]:
    """Return all statements in the order of the paper, with one answer per set of parameters."""
    own = {name: np.asarray(getattr(pair, name)) for name in ("low", "high", "spread", "prior")}
    low, high, spread, prior, radius = together(own | {"radius": radius})
    gap, wider = high - low, (prior == 0.5) & (spread > 1)
    # K ≤ exp(x) is ln K ≤ x, K ≤ D/ε − 1 is ε(K+1) ≤ D, and K ≤ φ⁻¹(D/ε − 2) is ε(K+1)² ≤ KD.
    apart = np.log(spread) <= np.square(gap - 2 * radius) / 2
    ordered = wider & (2 * radius <= gap) & apart & (radius * (spread + 1) <= gap)
    narrower = wider & (4 * radius <= gap) & apart & (radius * np.square(spread + 1) <= spread * gap)
    drawn = wider & (gap == 2) & ((spread == 5) | (spread == 10))
    return (
        *_of_thresholds(pair, low, high, radius, ordered),
        *_of_errors(pair, radius, ordered, narrower),
        *_of_distances(pair, low, high, radius, ordered),
        *_of_penalties(pair, low, high, spread, wider),
        *_of_losses(pair, radius, drawn),
    )


def _of_thresholds(pair: Pair, low: Floats, high: Floats, radius: Floats, ordered: Bools) -> list[Statement]:
    slack = _SLACK * (1 + np.abs(low) + np.abs(high))
    fair, natural, robust = _three(pair, radius)
    path = np.asarray(pair.robust_threshold(_along(_GRID, radius)))
    return [
        Statement(
            "Theorem 1, order",
            _ORDERED,
            "μ̲+ε ≤ θ_f ≤ θ* ≤ θ_r(ε) ≤ μ̄−ε",
            ordered,
            _ascending(low + radius, fair, natural, robust, high - radius, slack=slack),
        ),
        Statement(
            "Theorem 1, growth",
            _ORDERED,
            "θ_r grows with the radius from 0 to ε",
            ordered,
            _ascending(*path, slack=slack),
            "needs no more than ½ each and K > 1",
        ),
    ]


def _of_errors(pair: Pair, radius: Floats, ordered: Bools, narrower: Bools) -> list[Statement]:
    three = _three(pair, radius)
    robust = _falling(*(np.asarray(pair.robust_error(t, radius)) for t in three))
    boundary = _falling(*(np.asarray(pair.boundary_error(t, radius)) for t in three))
    words = "boundary errors: fair ≥ natural ≥ robust"
    return [
        Statement("Corollary 1", _ORDERED, "robust errors: fair ≥ natural ≥ robust", ordered, robust),
        Statement("Corollary 2", _NARROWER, words, narrower, boundary),
        Statement(
            "Corollary 2, wider premise",
            _ORDERED,
            words,
            ordered,
            boundary,
            "under the premise of Theorem 1 this is not proved in the paper; no violation is known",
        ),
    ]


def _of_distances(pair: Pair, low: Floats, high: Floats, radius: Floats, ordered: Bools) -> list[Statement]:
    fair, natural, robust = (np.asarray(pair.mean_distance(t)) for t in _three(pair, radius))
    others = np.asarray(pair.mean_distance(low + _along(_GRID, high - low)))
    return [
        Statement(
            "Theorem 2, order",
            _ORDERED,
            "mean distances: robust ≥ natural ≥ fair",
            ordered,
            _falling(robust, natural, fair),
        ),
        Statement(
            "Theorem 2, minimum",
            _ORDERED,
            "θ_f has the smallest mean distance of all thresholds in [μ̲, μ̄]",
            ordered,
            np.all(fair <= others * (1 + _SLACK), axis=0),
            "θ_f is the median of X if each class has ½; needs no other premise",
        ),
    ]


def _of_penalties(pair: Pair, low: Floats, high: Floats, spread: Floats, wider: Bools) -> list[Statement]:
    printed = (spread - 1) / (spread + 1)
    penalties = _along(1.5 * _GRID, np.abs(printed))
    paths = {reading: np.asarray(pair.fair_threshold(penalties, reading=reading)) for reading in ("sum", "max")}
    formula = _path(low, high, spread, penalties)
    doubled = _path(low, high, spread, 2 * penalties)
    slack = _SLACK * (1 + np.abs(low) + np.abs(high))
    found = [
        ("path, the penalty as the printed sum", formula, "sum", "Eq. 3 sums over both classes: λ counts twice"),
        ("path, the penalty as the larger term", formula, "max", "for two equal classes also half of the printed sum"),
        ("path, corrected: 2λ for λ", doubled, "sum", "saturates at half of the printed penalty"),
    ]
    words = "θ_f(λ) has ln(K(1−λ)/(1+λ)) for ln K in θ*, up to λ = (K−1)/(K+1), and is θ_f from there on"
    result = [
        Statement(
            f"Theorem 3, {name}",
            _WIDE,
            words if expected is formula else "the same with 2λ for λ, up to λ = (K−1)/(2(K+1))",
            wider,
            np.all(np.abs(paths[reading] - expected) <= slack, axis=0),
            remark,
        )
        for name, expected, reading, remark in found
    ]
    for reading, path in paths.items():
        distances = np.asarray(pair.mean_distance(path))
        falls = _ascending(*path[::-1], slack=slack) & _falling(*distances)
        result.append(
            Statement(
                f"Theorem 3, fall, {reading}", _WIDE, "θ_f(λ) and its mean distance never grow with λ", wider, falls
            )
        )
    return result


def _of_losses(pair: Pair, radius: Floats, drawn: Bools) -> list[Statement]:
    result = []
    for name, penalty in (("Figure 8, without penalty", 0.0), ("Figure 8, equal losses", None)):
        best, ramp, log, exponential = (
            np.asarray(pair.threshold_under(loss, penalty)) for loss in ("zero_one", "ramp", "log", "exponential")
        )
        with np.errstate(invalid="ignore"):  # where two are infinite
            away = [np.where(best == t, 0.0, np.abs(t - best)) for t in (ramp, log, exponential)]
        errors = [np.asarray(pair.robust_error(t, radius)) for t in (ramp, log, exponential)]
        nearest = (away[0] <= away[1]) & (away[0] <= away[2])
        safest = (errors[0] <= errors[1]) & (errors[0] <= errors[2])
        result.append(
            Statement(
                name,
                _FIGURE,
                "of ramp, log and exponential loss, ramp has the threshold nearest to that of the 0/1 loss and the "
                "smallest robust error at ε",
                drawn,
                nearest & safest,
                "one setting, not a theorem; where K is small the log-loss is often nearer",
            )
        )
    return result


def _path(low: Floats, high: Floats, spread: Floats, penalties: Floats) -> Floats:
    """Return θ_f(λ) as printed in Theorem 3."""
    loss, saturated = ZeroOneLoss(), penalties >= (spread - 1) / (spread + 1)
    log_odds = -2 * np.arctanh(np.where(saturated, 0.0, penalties))  # ln((1−λ)/(1+λ))
    low, high, spread, _ = np.broadcast_arrays(low, high, spread, penalties)
    bells = Bells(low, high, spread)
    return np.asarray(np.where(saturated, loss.equal(bells), loss.local_minimum(bells, log_odds)))


def _three(pair: Pair, radius: Floats) -> tuple[Floats, Floats, Floats]:
    found = (pair.fair_threshold(), pair.natural_threshold(), pair.robust_threshold(radius))
    fair, natural, robust = np.broadcast_arrays(*found)
    return fair, natural, robust


def _along(grid: Floats, scale: Floats) -> Floats:
    """Return `grid` multiplied by each number of `scale`, with the values of the grid along a new first axis."""
    return np.asarray(grid.reshape(-1, *(1,) * scale.ndim) * scale)


def _ascending(*values: Floats, slack: Floats) -> Bools:
    return np.asarray(np.logical_and.reduce([b >= a - slack for a, b in pairwise(values)]))


def _falling(*values: Floats) -> Bools:
    """Return whether numbers that are not negative never rise."""
    return np.asarray(np.logical_and.reduce([b <= a * (1 + _SLACK) for a, b in pairwise(values)]))
