"""Comparison of each group's mean with that of the rest on the log scale, from means and their errors alone."""

from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.inference.bootstrap import Limits
from fairmargin.inference.hall import Studentised, log_mean, log_ratio
from fairmargin.inference.units import sum_of_others


@dataclass(frozen=True, slots=True, eq=False)
class LogContrast:
    """Mean and σ of each group with their limits, which are computed on the log scale.

    Parameters
    ----------
    mean
        Mean of each group.
    alone, against_rest
        Logarithms of the means, and of the ratios to the means of the rest.
    confidence
        Confidence of the limits.
    """

    mean: Floats
    alone: Studentised
    against_rest: Studentised
    confidence: float

    @property
    def sigma(self) -> Floats:
        """σ of every group."""
        return np.expm1(self.against_rest.value)

    def sigma_limits(self, alpha: float) -> Limits:
        """Return limits of σ at level 1 − `alpha`, for each group alone."""
        return self.against_rest.limits(alpha).transformed(np.expm1)

    @property
    def sigma_low(self) -> Floats:
        """Lower limit of σ, for each group alone."""
        return self.sigma_limits(1 - self.confidence).low

    @property
    def sigma_high(self) -> Floats:
        """Upper limit of σ, for each group alone."""
        return self.sigma_limits(1 - self.confidence).high

    @property
    def mean_low(self) -> Floats:
        """Lower limit of the mean."""
        return np.exp(self.alone.limits(1 - self.confidence).low)

    @property
    def mean_high(self) -> Floats:
        """Upper limit of the mean."""
        return np.exp(self.alone.limits(1 - self.confidence).high)

    @property
    def p(self) -> Floats:
        """Two-sided p-values of equality with the rest, not corrected for the number of groups."""
        return self.against_rest.p()

    @property
    def half_width(self) -> Floats:
        """Half the width of the interval of σ, or for a single group that of its mean divided by the mean."""
        if len(self.mean) == 1:
            return self.own_half_width
        return (self.sigma_high - self.sigma_low) / 2

    @property
    def own_half_width(self) -> Floats:
        """Half the width that the interval of σ would have if the mean of the rest were known exactly."""
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = self.mean if len(self.mean) == 1 else self.mean / np.exp(self.against_rest.value)
            return np.asarray((self.mean_high - self.mean_low) / 2 / scale)

    def without_limits(self) -> "LogContrast":
        """Return the same estimates with unknown errors, so that limits and p-values are NaN."""
        nan = np.full_like(self.mean, np.nan)
        alone, against_rest = replace(self.alone, error=nan), replace(self.against_rest, error=nan)
        return replace(self, alone=alone, against_rest=against_rest)


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Mean of everyone outside each group, with its squared error, third cumulant and degrees of freedom."""

    mean: Floats
    error2: Floats
    third: Floats
    freedom: Floats


def rest_means(mean: Floats, error2: Floats, third: Floats, freedom: Floats, sizes: Ints, *, finite: bool) -> Rest:
    """Return the mean of each rest: the mean of the other groups, weighted by their sizes.

    For a population (`finite` is False) the error includes that of the weights, which are random too.
    """
    size = sizes.astype(np.float64)
    total = sum_of_others(size, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = sum_of_others(size * mean, axis=0) / total
        own = sum_of_others(size**2 * error2, axis=0) / total**2
        squares = sum_of_others(size * mean**2, axis=0) / total - rest**2
        mix = np.zeros_like(rest) if finite else np.maximum(squares, 0.0) / total
        noise = sum_of_others(np.where(error2 > 0, (size**2 * error2) ** 2 / freedom, 0.0), axis=0) / total**4
        cubes = sum_of_others(size**3 * third, axis=0) / total**3
        return Rest(rest, own + mix, cubes, np.where(noise > 0, (own + mix) ** 2 / noise, np.inf))


def log_contrast(
    mean: Floats, error2: Floats, third: Floats, freedom: Floats, sizes: Ints, *, finite: bool, confidence: float
) -> LogContrast:
    """Return σ(P) = Rob(P) / Rob(rest) − 1 with limits above −1, by the delta method for independent groups.

    A p-value is below α exactly where the limits at level 1 − α exclude 0.

    >>> found = log_contrast(np.array([1.0, 2.0]), np.array([0.01, 0.04]), np.zeros(2), np.array([50.0, 50.0]),
    ...     np.array([100, 100]), finite=True, confidence=0.95)
    >>> found.sigma.tolist(), found.sigma_low.round(2).tolist(), found.sigma_high.round(2).tolist()
    ([-0.5, 1.0], [-0.62, 0.51], [-0.34, 1.65])
    """
    rest = rest_means(mean, error2, third, freedom, sizes, finite=finite)
    with np.errstate(divide="ignore", invalid="ignore"):
        own2, rest2 = error2 / mean**2, rest.error2 / rest.mean**2
        both = own2 + rest2
        noise = own2**2 / freedom + rest2**2 / rest.freedom
        joint = np.where(noise > 0, both**2 / np.where(noise > 0, noise, 1.0), np.inf)
        ratio = np.log(mean / rest.mean)
        contrast = log_ratio(
            ratio, own2, rest2, np.zeros_like(mean), third / mean**3 - rest.third / rest.mean**3, joint
        )
        return LogContrast(mean, log_mean(mean, error2, third, freedom), contrast, confidence)
