"""Every group's mean against that of the rest, from means and their errors alone, on the log scale."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from fairmargin.core.arrays import Floats, Ints
from fairmargin.metrics.units import sum_of_others


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """σ of every group, limits of σ and of the mean, and p: that the group's mean is that of its rest."""

    mean: Floats
    sigma: Floats
    sigma_low: Floats
    sigma_high: Floats
    mean_low: Floats
    mean_high: Floats
    p: Floats

    @property
    def half_width(self) -> Floats:
        """Half the width of the interval of σ; of the mean, relative to it, if there is one group. NaN: undefined."""
        if len(self.mean) == 1:
            return (self.mean_high - self.mean_low) / 2 / self.mean
        return (self.sigma_high - self.sigma_low) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """The mean of everyone outside each group, its squared error, and the degrees of freedom of that."""

    mean: Floats
    error2: Floats
    freedom: Floats


def rest_means(mean: Floats, error2: Floats, freedom: Floats, sizes: Ints, *, finite: bool) -> Rest:
    """The others in proportion to their sizes; unless the target is these samples, their proportions are random too."""
    size = sizes.astype(np.float64)
    total = sum_of_others(size, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = sum_of_others(size * mean, axis=0) / total
        own = sum_of_others(size**2 * error2, axis=0) / total**2
        squares = sum_of_others(size * mean**2, axis=0) / total - rest**2
        mix = np.zeros_like(rest) if finite else np.maximum(squares, 0.0) / total
        noise = sum_of_others(np.where(error2 > 0, (size**2 * error2) ** 2 / freedom, 0.0), axis=0) / total**4
        return Rest(rest, own + mix, np.where(noise > 0, (own + mix) ** 2 / noise, np.inf))


def log_contrast(
    mean: Floats, error2: Floats, freedom: Floats, sizes: Ints, *, finite: bool, confidence: float
) -> Contrast:
    """σ(P) = Rob(P) / Rob(rest) − 1 with limits that stay above −1, by the delta method; groups are independent.

    p is two-sided, of Student's statistic ln(1 + σ) / error from which the limits come: it is below 1 − confidence
    exactly where they exclude 0. It is not corrected for the number of groups.

    >>> found = log_contrast(np.array([1.0, 2.0]), np.array([0.01, 0.04]), np.array([50.0, 50.0]),
    ...     np.array([100, 100]), finite=True, confidence=0.95)
    >>> found.sigma.tolist(), found.sigma_low.round(2).tolist(), found.sigma_high.round(2).tolist()
    ([-0.5, 1.0], [-0.62, 0.51], [-0.34, 1.65])
    """
    rest = rest_means(mean, error2, freedom, sizes, finite=finite)
    tail = (1 + confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        own2, rest2 = error2 / mean**2, rest.error2 / rest.mean**2
        both = own2 + rest2
        noise = own2**2 / freedom + rest2**2 / rest.freedom
        joint = np.where(noise > 0, both**2 / np.where(noise > 0, noise, 1.0), np.inf)
        ratio = np.log(mean / rest.mean)
        reach = stats.t.ppf(tail, joint) * np.sqrt(both)
        own_reach = stats.t.ppf(tail, freedom) * np.sqrt(own2)
        statistic = np.where(ratio == 0, 0.0, np.abs(ratio) / np.sqrt(both))  # no error at all: 0 or infinite
        return Contrast(
            mean,
            np.expm1(ratio),
            np.expm1(ratio - reach),
            np.expm1(ratio + reach),
            mean * np.exp(-own_reach),
            mean * np.exp(own_reach),
            np.asarray(2 * stats.t.sf(statistic, joint)),
        )
