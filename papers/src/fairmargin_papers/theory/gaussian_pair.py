"""Two normal classes on a line and a threshold between them: natural, fair and robust in closed form.

Reference: C. Tran, K. Zhu, P. Van Hentenryck, F. Fioretto, "On the Effects of Fairness to Adversarial Vulnerability"
(2024). Where the paper prints μ̲ − μ̄ for the distance of the means, D = μ̄ − μ̲ is meant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin_papers.theory import pair_statements
from fairmargin_papers.theory.losses import Bells, ZeroOneLoss, least_penalised, least_weighted, loss_named
from fairmargin_papers.theory.normal import density, mass_of_window, mean_absolute
from fairmargin_papers.theory.parameters import Number, as_number, not_negative, plain, require, require_whole, together
from fairmargin_papers.theory.statement import Statement

Reading = Literal["sum", "max"]
READINGS: tuple[Reading, ...] = ("sum", "max")

_ERROR = ZeroOneLoss()
_LARGEST = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPair:
    """X|− ~ N(low, 1) and X|+ ~ N(high, spread²); the classifier predicts + where X > t.

    Every parameter may be an array; they broadcast with each other and with the arguments of a method. If all are
    numbers, the result is a Python float. Thresholds are true minimisers: a stationary point is returned only where it
    is the global minimum, and −inf (+inf) where always predicting + (−) is better than any finite threshold.

    Parameters
    ----------
    low, high
        μ̲ and μ̄, the means of class − and of class +; low < high.
    spread
        K, the standard deviation of class +, where that of class − is 1. The paper takes K > 1; any K > 0 is accepted,
        K = 1 being the classical midpoint rule.
    prior
        The share of class +; the paper has ½.

    References
    ----------
    C. Tran, K. Zhu, P. Van Hentenryck, F. Fioretto, "On the Effects of Fairness to Adversarial Vulnerability" (2024).

    Examples
    --------
    >>> pair = GaussianPair(low=-2.0, high=2.0, spread=2.0)
    >>> round(pair.fair_threshold(), 4), round(pair.natural_threshold(), 4), round(pair.robust_threshold(0.5), 4)
    (-0.6667, -0.3401, -0.0817)
    >>> [statement.name for statement in pair.statements(0.5) if statement.verdict == "refuted"]
    ['Theorem 3, path, the penalty as the printed sum']
    """

    low: Number
    high: Number
    spread: Number
    prior: Number = 0.5

    def __post_init__(self) -> None:
        given = {name: as_number(getattr(self, name), name) for name in ("low", "high", "spread", "prior")}
        together(given)
        low, high, spread, prior = given.values()
        require(spread > 0, spread, "spread", "is a standard deviation and must be above 0")
        limits = f"must lie between {1 / _LARGEST:g} and {_LARGEST:g}: beyond, digits are lost"
        require((spread >= 1 / _LARGEST) & (spread <= _LARGEST), spread, "spread", limits)
        for name in ("low", "high"):
            limits = f"must lie between −{_LARGEST:g} and {_LARGEST:g}: beyond, digits are lost"
            require(np.abs(given[name]) <= _LARGEST, given[name], name, limits)
        require((prior > 0) & (prior < 1), prior, "prior", "is the share of class + and must lie between 0 and 1")
        above = "is the mean of class + and must lie above the mean of class −, but the difference is not above 0"
        require(high > low, high - low, "high", above)
        for name, array in given.items():
            object.__setattr__(self, name, plain(array))

    def natural_threshold(self, *, inside: bool = False) -> Number:
        """Return θ*, which minimises the error.

        With D = μ̄−μ̲ and c = ln(K(1−π)/π) the stationary point is

        θ* = μ̲ − D/(K²−1) + K/(K²−1) · √(2(K²−1)c + D²),

        evaluated without cancellation at K → 1. `inside` restricts thresholds to [low, high], ends included, as the
        paper does.
        """
        return self.robust_threshold(0.0, inside=inside)

    def robust_threshold(self, radius: npt.ArrayLike, *, inside: bool = False) -> Number:
        """Return θ_r(ε), which minimises the robust error: the natural threshold of means that are each ε closer.

        θ_r = μ̲ − (D−(K²+1)ε)/(K²−1) + K/(K²−1) · √(2(K²−1)c + (D−2ε)²), where that is the minimum.
        """
        low, high, spread, prior, reach = self._with(radius=not_negative(radius, "radius"))
        ends = _ends(low, high, inside)
        return plain(least_weighted(_ERROR, Bells(low + reach, high - reach, spread), prior, 1 - prior, *ends))

    def fair_threshold(
        self, penalty: npt.ArrayLike | None = None, *, reading: Reading = "sum", inside: bool = False
    ) -> Number:
        """Return θ_f, where both classes have equal errors, or θ_f(λ), which minimises error + λ·violation.

        θ_f = μ̲ + D/(K+1). The violation is Σ_a |error_a − error| = |error₊ − error₋| as the paper's Eq. 3 says
        ("sum"), or the larger of its two terms, max(π, 1−π)·|error₊ − error₋| ("max"), to which the printed Theorem 3
        belongs. With λ' = λ, or λ·max(π, 1−π), and + the worse class, the stationary point is that of θ* with
        c = ln(K(1−π−λ')/(π+λ')), and θ_f(λ) = θ_f from λ' = (K(1−π)−π)/(K+1) on: for equal classes from
        λ = (K−1)/(2(K+1)) ("sum") or (K−1)/(K+1) ("max").

        Parameters
        ----------
        penalty
            λ ≥ 0; None is fully fair.
        reading
            "sum" or "max".
        inside
            Restrict thresholds to [low, high].
        """
        return self.threshold_under("zero_one", penalty, reading=reading, inside=inside)

    def threshold_under(
        self, loss: str, penalty: npt.ArrayLike | None = 0.0, *, reading: Reading = "sum", inside: bool = False
    ) -> Number:
        """Return the threshold that minimises a mean loss instead of the error, plus λ times its violation.

        The score is f_t(X) = X − t, of slope 1, and the loss a function of the margin m = Y·(X − t): "zero_one" is
        1{m < 0}, "log" is ln(1 + exp(−m)), "exponential" is exp(−m) and "ramp" is min(1, max(0, 1 − m)). Minimised over
        t is L + λ Σ_a |L_a − L|, where L_a is the mean loss of class a and L that of everyone. The paper's Figure 8
        shows such thresholds without stating the slope; with a larger slope the ramp loss is closer to the error.

        Global minima, to the last digits that the loss determines: "exponential" in closed form, "log" by a series and
        "ramp" by integrals of normal tails. Convex losses have a finite minimiser; the bounded ones may have ±inf.

        Parameters
        ----------
        loss
            "zero_one", "log", "exponential" or "ramp".
        penalty
            λ ≥ 0; None is fully fair: the classes have the same mean loss.
        reading, inside
            As for `fair_threshold`.

        >>> pair = GaussianPair(low=-2.0, high=2.0, spread=2.0)
        >>> {loss: round(pair.threshold_under(loss), 3) for loss in ("zero_one", "ramp", "log", "exponential")}
        {'zero_one': -0.34, 'ramp': -0.057, 'log': -0.298, 'exponential': -0.75}
        """
        chosen, share = loss_named(loss), _reading(reading)
        if penalty is None:
            low, high, spread, _ = self._with()
            return plain(np.asarray(np.clip(chosen.equal(Bells(low, high, spread)), *_ends(low, high, inside))))
        low, high, spread, prior, weight = self._with(penalty=not_negative(penalty, "penalty", infinite=True))
        if share == "max":
            weight = weight * np.maximum(prior, 1 - prior)
        return plain(least_penalised(chosen, Bells(low, high, spread), prior, weight, *_ends(low, high, inside)))

    def error_by_class(self, threshold: npt.ArrayLike) -> tuple[Number, Number]:
        """Return (Φ((t−μ̄)/K), Φ(μ̲−t)), the shares of class + and class − that are misclassified."""
        return self.loss_by_class("zero_one", threshold)

    def loss_by_class(self, loss: str, threshold: npt.ArrayLike) -> tuple[Number, Number]:
        """Return the mean losses of class + and of class −, with the losses and scores of `threshold_under`."""
        low, high, spread, _, t = self._with(threshold=as_number(threshold, "threshold", infinite=True))
        plus, minus = loss_named(loss).by_class(Bells(low, high, spread), t)
        return plain(plus), plain(minus)

    def natural_error(self, threshold: npt.ArrayLike) -> Number:
        """Return Pr(f(X) ≠ Y) = π Φ((t−μ̄)/K) + (1−π) Φ(μ̲−t)."""
        low, high, spread, prior, t = self._with(threshold=as_number(threshold, "threshold", infinite=True))
        plus, minus = _ERROR.by_class(Bells(low, high, spread), t)
        return plain(np.asarray(prior * plus + (1 - prior) * minus))

    def boundary_error(self, threshold: npt.ArrayLike, radius: npt.ArrayLike) -> Number:
        """Return π Pr(t < X₊ ≤ t+ε) + (1−π) Pr(t−ε < X₋ ≤ t), the share that is correct but within ε of t."""
        low, high, spread, prior, t, reach = self._with(
            threshold=as_number(threshold, "threshold", infinite=True), radius=not_negative(radius, "radius")
        )
        plus = mass_of_window((t - high) / spread, reach / spread)
        minus = mass_of_window(low - t, reach)
        return plain(np.asarray(prior * plus + (1 - prior) * minus))

    def robust_error(self, threshold: npt.ArrayLike, radius: npt.ArrayLike) -> Number:
        """Return π Φ((t+ε−μ̄)/K) + (1−π) Φ(μ̲+ε−t), the sum of the natural and the boundary error (Eq. 5)."""
        return self.natural_error(threshold) + self.boundary_error(threshold, radius)

    def mean_distance(self, threshold: npt.ArrayLike) -> Number:
        """Return E|X − t|, the mean distance to the boundary of all samples; inf for an infinite threshold."""
        plus, minus = self.mean_distance_by_class(threshold)
        return plain(np.asarray(np.asarray(self.prior) * plus + (1 - np.asarray(self.prior)) * minus))

    def mean_distance_by_class(self, threshold: npt.ArrayLike) -> tuple[Number, Number]:
        """Return E|X − t| of class + and of class −: s·(2φ(z) + z(2Φ(z)−1)) at z = (t−μ)/s."""
        low, high, spread, _, t = self._with(threshold=as_number(threshold, "threshold", infinite=True))
        return plain(np.asarray(spread * mean_absolute((t - high) / spread))), plain(mean_absolute(t - low))

    def density_by_class(self, x: npt.ArrayLike) -> tuple[Number, Number]:
        """Return the densities of class + and of class − at x."""
        low, high, spread, _, at = self._with(x=as_number(x, "x"))
        return plain(np.asarray(density((at - high) / spread) / spread)), plain(density(at - low))

    def statements(self, radius: npt.ArrayLike) -> Sequence[Statement]:
        """Evaluate the printed premise and conclusion of each theorem and corollary of the paper.

        Conclusions are calculated from true minimisers over thresholds on the whole line. Conclusions about all radii
        or penalties are evaluated on a grid, with radii up to `radius`.
        """
        reach = not_negative(radius, "radius")
        self._with(radius=reach)
        return pair_statements.statements(self, reach)

    def sample(self, n: int, seed: int = 0) -> tuple[Floats, Ints]:
        """Return independent samples: x of shape (n, 1), and y in {−1, +1}.

        >>> x, y = GaussianPair(-1.0, 1.0, 2.0).sample(4)
        >>> x.shape, y.tolist()
        ((4, 1), [-1, 1, 1, 1])
        """
        if any(np.ndim(value) for value in (self.low, self.high, self.spread, self.prior)):
            raise InputError("Samples are drawn from one pair, but the parameters are arrays: make one pair for each.")
        require_whole(n, "n", 1)
        require_whole(seed, "seed", 0)
        stream = np.random.default_rng(seed)
        is_plus = stream.random(n) < self.prior
        noise = stream.standard_normal(n)
        x = np.where(is_plus, self.high + self.spread * noise, self.low + noise)
        return x[:, None], np.where(is_plus, 1, -1).astype(np.int64)

    def _with(self, **others: Floats) -> list[Floats]:
        """Broadcast the parameters and the arguments of a method to their common shape."""
        own = {name: np.asarray(getattr(self, name)) for name in ("low", "high", "spread", "prior")}
        return together(own | others)


def _ends(low: Floats, high: Floats, inside: bool) -> tuple[Floats, Floats]:
    return (low, high) if inside else (np.full_like(low, -np.inf), np.full_like(high, np.inf))


def _reading(reading: str) -> str:
    if reading not in READINGS:
        raise InputError(f"There is no reading {reading!r} of the fairness penalty. {suggest(str(reading), READINGS)}")
    return reading
