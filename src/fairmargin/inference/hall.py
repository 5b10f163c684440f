"""Confidence limits and p-values in closed form for skewed statistics.

For skewed data, a studentised estimate T = (estimate − truth) / standard error has a bias and a skewness that shrink
only with the square root of the sample size. Hall's monotone cubic transformation removes both (P. Hall, "On the
removal of skewness by transformation", 1992), and the result is compared with Student's t. Each limit is at least as
far from the estimate as that of Student's t without the transformation. Limits and p-values are exact inverses of each
other: p is below α exactly where the limits at level 1 − α exclude 0. No random numbers are needed.
"""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.distributions import student_quantile, student_tail

_ALMOST_LINEAR = 1e-9  # with a smaller curvature the transformation is treated as a shift
_ALMOST_NORMAL = 1e9  # degrees of freedom from which Student's t is drawn as if there were no more


@dataclass(frozen=True, slots=True, eq=False)
class Studentised:
    """Estimates with cumulants of (estimate − truth) / error, one entry per group."""

    value: Floats
    error: Floats
    bias: Floats  # first cumulant of the studentised deviation
    skewness: Floats  # third cumulant of the studentised deviation
    freedom: Floats  # degrees of freedom of the squared error

    def limits(self, alpha: float | Floats) -> Limits:
        """Return two-sided confidence limits at level 1 − `alpha`. NaN where the error is unknown."""
        quantile = -student_quantile(np.asarray(alpha) / 2, self.freedom)
        # Beside the distances of the rest, those of a group can be so tiny that powers of its skewness overflow.
        with np.errstate(invalid="ignore", over="ignore"):
            above = np.fmax(self._untransformed(quantile), quantile)
            below = np.fmin(self._untransformed(-quantile), -quantile)
            return Limits(self.value - above * self.error, self.value - below * self.error)

    def p(self) -> Floats:
        """Return the two-sided p-value of the hypothesis that the truth is 0. NaN where the error is unknown."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            t = np.where(self.value == 0, 0.0, self.value / self.error)
            transformed = self._transformed(t)
        # The tail on the side of 0 decides, and in it the less extreme of the two statistics.
        extreme = np.where(t > 0, np.minimum(t, transformed), np.minimum(-t, -transformed))
        return np.asarray(np.minimum(2 * student_tail(np.maximum(extreme, 0.0), self.freedom), 1.0))

    def deviations(self, draws: int, stream: np.random.Generator, correlation: Floats | None = None) -> Floats:
        """Draw deviations of the estimates from the truth, of shape (draws, groups); 0 where the error is unknown.

        Groups are independent unless their `correlation` is given.
        """
        normal = stream.standard_normal((draws, len(self.value)))
        if correlation is not None:
            normal = normal @ _root(correlation)
        is_known = self.error > 0
        freedom = np.where(is_known, np.minimum(self.freedom, _ALMOST_NORMAL), 1.0)
        t = normal * np.sqrt(freedom / stream.chisquare(freedom, normal.shape))
        with np.errstate(invalid="ignore", over="ignore"):  # as in `limits`
            drawn = self._untransformed(t) * self.error
        return np.where(is_known & ~np.isnan(drawn), drawn, 0.0)

    def _transformed(self, t: Floats) -> Floats:
        curvature, shift = self._coefficients()
        finite = np.where(np.isfinite(t), t, 0.0)
        cubic = finite + curvature * finite**2 + curvature**2 * finite**3 / 3 + shift
        return np.where(np.isinf(t), t, cubic)

    def _untransformed(self, z: Floats) -> Floats:
        curvature, shift = self._coefficients()
        bent = np.abs(curvature) > _ALMOST_LINEAR
        safe = np.where(bent, curvature, 1.0)
        return np.asarray(np.where(bent, (np.cbrt(1 + 3 * safe * (z - shift)) - 1) / safe, z - shift))

    def _coefficients(self) -> tuple[Floats, Floats]:
        """Return curvature a and shift c of g(t) = ((1 + a·t)³ − 1) / (3a) + c; both are 0 without an error."""
        bias, skewness = (np.where(self.error > 0, part, 0.0) for part in (self.bias, self.skewness))
        return -skewness / 6, -bias + skewness / 6


def _root(matrix: Floats) -> Floats:
    """Return the symmetric square root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def log_mean(mean: Floats, error2: Floats, third: Floats, freedom: Floats) -> Studentised:
    """Studentise the logarithm of a mean, given its squared error, third cumulant and degrees of freedom."""
    none = np.zeros_like(mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_ratio(np.log(mean), error2 / mean**2, none, none, third / mean**3, freedom)


def log_ratio(
    value: Floats, own2: Floats, rest2: Floats, shared: Floats, third: Floats, freedom: Floats
) -> Studentised:
    """Studentise ln(own) − ln(rest), the logarithm of a ratio of two means.

    Parameters
    ----------
    value
        The log ratio.
    own2, rest2
        Squared relative standard errors of both means.
    shared
        Relative covariance of both means; 0 for independent sides.
    third
        Third cumulant of the linearised log ratio: the sum of cubes of the units' relative influences.
    freedom
        Degrees of freedom of the squared error.
    """
    error2 = own2 + rest2 - 2 * shared
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(np.maximum(error2, 0.0))
        with_own, with_rest = own2 - shared, shared - rest2  # covariances of the log ratio with both sides
        with_error2 = third - 2 * with_own**2 + 2 * with_rest**2
        bias = (rest2 - own2) / 2 / error - with_error2 / 2 / error**3
        skewness = (3 * with_own**2 - 3 * with_rest**2 - 2 * third) / error**3
    return Studentised(value, error, bias, skewness, freedom)


def mean(value: Floats, error: Floats, third: Floats, freedom: Floats) -> Studentised:
    """Studentise a mean (or a paired difference of means); `third` is its third cumulant."""
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = third / error**3
    return Studentised(value, error, -skewness / 2, -2 * skewness, freedom)
