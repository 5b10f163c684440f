"""Populations of distances with known means, from which scenarios draw their groups."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import integrate, stats

from fairmargin.core.arrays import Floats


@dataclass(frozen=True)
class Population:
    """Distances of one group: how to draw them, their mean, and the share that lies at 0."""

    draw: Callable[[np.random.Generator, int], Floats]
    mean: float
    zeros: float
    mean_up_to: Callable[[float], float]  # mean of min(distance, radius)

    def times(self, factor: float) -> "Population":
        """Return the same population with all distances multiplied by a factor."""
        return Population(
            lambda rng, n: factor * self.draw(rng, n),
            factor * self.mean,
            self.zeros,
            lambda radius: factor * self.mean_up_to(radius / factor),
        )


def gamma(shape: float, mean: float, accuracy: float = 1.0) -> Population:
    return _continuous(stats.gamma(shape, scale=mean / shape), accuracy, lambda r, n: r.gamma(shape, mean / shape, n))


def lognormal(width: float, median: float, accuracy: float = 1.0) -> Population:
    return _continuous(stats.lognorm(width, scale=median), accuracy, lambda r, n: median * r.lognormal(0, width, n))


def pareto(mean: float, accuracy: float = 1.0) -> Population:
    """Return a population with a tail of index 3 from 0 on: its skewness is infinite."""
    return _continuous(stats.lomax(3, scale=2 * mean), accuracy, lambda r, n: 2 * mean * r.pareto(3, n))


def empirical(values: Floats) -> Population:
    """Return the population that consists of these distances."""
    return Population(
        lambda rng, n: rng.choice(values, n),
        float(values.mean()),
        float((values == 0).mean()),
        lambda radius: float(np.minimum(values, radius).mean()),
    )


def _continuous(
    distribution: object, accuracy: float, draw: Callable[[np.random.Generator, int], Floats]
) -> Population:
    beyond = distribution.sf  # type: ignore[attr-defined]

    @cache
    def mean_up_to(radius: float) -> float:
        return accuracy * float(integrate.quad(beyond, 0, radius)[0])

    return Population(
        lambda rng, n: draw(rng, n) * (rng.random(n) < accuracy),
        float(distribution.mean()) * accuracy,  # type: ignore[attr-defined]
        1 - accuracy,
        mean_up_to,
    )
