"""Simulated data sets with known means, for the intervals and tests of an audit and of a comparison.

Each scenario draws one data set and gives the true means of every group and of its rest: as they are, up to a radius,
and after a change of the model. `coverage` counts how often intervals contain them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings
from tests.inference.populations import Population, empirical, gamma, lognormal, pareto

RESAMPLES = 500
NEWLY_WRONG, NEWLY_RIGHT, NOISE = 0.03, 0.02, 0.2  # of the second model; the noise is the spread of its factors
FACTORS = (1.1, 0.9, 1.0)  # by which distances grow from the first to the second model, in turn over the groups


@dataclass(frozen=True)
class Means:
    """True mean of each group and of its rest (standardised to the common mix where there is a control)."""

    groups: Floats
    rests: Floats

    @property
    def sigma(self) -> Floats:
        return self.groups / self.rests - 1

    @property
    def gap(self) -> Floats:
        return self.groups - self.rests


@dataclass(frozen=True)
class Draw:
    """One simulated data set with its true means."""

    distances: Distances
    partition: Partition
    settings: AuditSettings
    truth: Means
    up_to: float
    truth_up_to: Means
    after: Distances | None  # of the second model; None where nothing can be compared
    truth_after: Means | None


Scenario = Callable[[int], Draw]


def independent(populations: Sequence[Population], sizes: Sequence[int]) -> Scenario:
    """Return a scenario of independent samples of some populations."""
    count, weight = len(sizes), np.array(sizes, dtype=float)
    factors = np.array([FACTORS[g % len(FACTORS)] for g in range(count)])
    means, zeros = (np.array([getattr(p, name) for p in populations]) for name in ("mean", "zeros"))
    up_to = float(means.mean())

    def with_rests(groups: Floats) -> Means:
        return Means(groups, ((groups * weight).sum() - groups * weight) / (weight.sum() - weight))

    def draw(seed: int) -> Draw:
        rng = np.random.default_rng([seed, 77])
        values = np.concatenate([p.draw(rng, n) for p, n in zip(populations, sizes, strict=True)])
        group = np.repeat(np.arange(count), sizes)
        return Draw(
            _distances(values),
            Partition("g", [f"g{i}" for i in range(count)], group),
            AuditSettings(seed=seed, resamples=RESAMPLES),
            with_rests(means),
            up_to,
            with_rests(np.array([p.mean_up_to(up_to) for p in populations])),
            _distances(_second_model(rng, values, factors[group], up_to)),
            with_rests((1 - NEWLY_WRONG) * factors * means + NEWLY_RIGHT * up_to * zeros),
        )

    return draw


def _second_model(rng: np.random.Generator, values: Floats, factors: Floats, level: float) -> Floats:
    """Return distances of another model: some samples are newly wrong, and some newly right, at `level` on average."""
    noise = rng.gamma(NOISE**-2, NOISE**2, len(values)) * (rng.random(len(values)) >= NEWLY_WRONG)
    right = rng.gamma(2, level / 2, len(values)) * (rng.random(len(values)) < NEWLY_RIGHT)
    return np.where(values > 0, values * factors * noise, right)


def clusters_in_groups(seed: int, means: tuple[float, ...] = (1.0, 1.3, 1.6)) -> Draw:
    """Draw forty people per group with one to six similar photographs each."""
    rng = np.random.default_rng([seed, 78])
    values, group, person = [], [], []
    for g, mean in enumerate(means):
        for _ in range(40):
            level = rng.gamma(3, mean / 3)
            photographs = int(rng.integers(1, 7))
            values.append(level * rng.gamma(4, 1 / 4, photographs) * (rng.random(photographs) < 0.9))
            group += [g] * photographs
            person += [len(values)] * photographs
    return _clustered(seed, values, group, person, means, shape=3)


def clusters_across_groups(seed: int, means: tuple[float, ...] = (1.0, 1.3, 1.6)) -> Draw:
    """Draw a hundred people with photographs at one to three ages, which are the groups."""
    rng = np.random.default_rng([seed, 79])
    values, group, person = [], [], []
    for who in range(100):
        level = rng.gamma(4, 1 / 4)
        ages = rng.integers(0, len(means), int(rng.integers(1, 6)))
        values.append(level * np.array(means)[ages] * rng.gamma(4, 1 / 4, len(ages)) * (rng.random(len(ages)) < 0.9))
        group += ages.tolist()
        person += [who] * len(ages)
    return _clustered(seed, values, group, person, means, shape=4)


def _clustered(
    seed: int, values: list[Floats], group: list[int], person: list[int], means: tuple[float, ...], shape: int
) -> Draw:
    def with_rests(groups: Floats) -> Means:  # in expectation every group has as many samples
        return Means(groups, (groups.sum() - groups) / (len(groups) - 1))

    distances = np.concatenate(values)
    factors = np.array(FACTORS)[: len(means)]
    truth, up_to = 0.9 * np.array(means), 1.0
    return Draw(
        _distances(distances),
        Partition("g", [f"g{i}" for i in range(len(means))], group),
        AuditSettings(seed=seed, resamples=RESAMPLES, cluster=np.array(person)),
        with_rests(truth),
        up_to,
        with_rests(np.array([_photographs_up_to(up_to, shape, mean) for mean in means])),
        _distances(_second_model(np.random.default_rng([seed, 83]), distances, factors[np.array(group)], up_to)),
        with_rests((1 - NEWLY_WRONG) * factors * truth + NEWLY_RIGHT * up_to * 0.1),
    )


@cache
def _photographs_up_to(radius: float, shape: int, mean: float) -> float:
    """Return the mean of min(distance, radius) of photographs of people whose mean levels are gamma distributed."""
    rng = np.random.default_rng(84)
    values = rng.gamma(shape, mean / shape, 1_000_000) * rng.gamma(4, 1 / 4, 1_000_000)
    return empirical(values * (rng.random(1_000_000) < 0.9)).mean_up_to(radius)


_CONTROLLED = gamma(2, 1.0, 0.85)


def controlled(seed: int, effect: tuple[float, ...] = (0.8, 1.0, 1.2)) -> Draw:
    """Draw classes that differ in robustness, and groups with different mixes of them that differ by `effect`."""
    rng = np.random.default_rng([seed, 80])
    level = np.array([0.5, 1.0, 2.0])
    mixes = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
    sizes = (60, 150, 300)
    group = np.repeat(np.arange(3), sizes)
    stratum = np.concatenate([rng.choice(3, n, p=mix) for n, mix in zip(sizes, mixes, strict=True)])
    values = level[stratum] * np.array(effect)[group] * rng.gamma(2, 0.5, len(group)) * (rng.random(len(group)) < 0.85)
    cell = np.array([[((group == g) & (stratum == k)).sum() for k in range(3)] for g in range(3)], dtype=float)
    mix = cell.sum(axis=0) / cell.sum()

    def with_rests(truth: Floats) -> Means:
        others = np.array([(np.delete(cell * truth, g, 0).sum(0) / np.delete(cell, g, 0).sum(0)) for g in range(3)])
        return Means(truth @ mix, others @ mix)

    of_cells = level * np.array(effect)[:, None]
    return Draw(
        _distances(values),
        Partition("g", ["g0", "g1", "g2"], group),
        AuditSettings(seed=seed, resamples=RESAMPLES, control=Partition.by("class", stratum)),
        with_rests(0.85 * of_cells),
        1.0,
        with_rests(np.vectorize(lambda factor: _CONTROLLED.times(factor).mean_up_to(1.0))(of_cells)),
        None,  # pairs of samples need no control
        None,
    )


def _distances(values: Floats) -> Distances:
    return Distances(values, values > 0, Bound.EXACT, Norm.L2)


def rising(population: Population, count: int, last: float) -> list[Population]:
    """Return populations of one shape whose means rise in equal steps to `last` times the first one."""
    return [population.times(factor) for factor in np.linspace(1, last, count)]


SCENARIOS: dict[str, Scenario] = {
    "skewed, 30 to 200": independent([gamma(1, 1.0), gamma(1, 1.5), lognormal(0.8, 1.0)], [30, 60, 200]),
    "many zeros, 30 to 200": independent([gamma(2, 1.0, 0.5), gamma(2, 1.0, 0.75), gamma(2, 1.2, 0.95)], [30, 80, 200]),
    "30 to 1,000, other variances": independent([gamma(0.7, 1.0), gamma(4, 1.0), gamma(20, 1.2)], [30, 300, 1000]),
    "log-normal of width 0.6, 30 and 30": independent([lognormal(0.6, 1.0, 0.9), lognormal(0.6, 1.4, 0.9)], [30, 30]),
    "log-normal of width 1, 50 and 50": independent(rising(lognormal(1, 1.0), 2, 1.3), [50, 50]),
    "log-normal of width 1, 100 and 300": independent(rising(lognormal(1, 1.0), 2, 1.3), [100, 300]),
    "Pareto 3, 50 and 50": independent(rising(pareto(1.0), 2, 1.3), [50, 50]),
    "Pareto 3, three groups of 300": independent(rising(pareto(1.0), 3, 1.6), [300] * 3),
    "60 % zeros, 50 and 200": independent(rising(lognormal(0.8, 1.0, 0.4), 2, 1.3), [50, 200]),
    "60 % zeros, five groups of 100": independent(rising(lognormal(0.8, 1.0, 0.4), 5, 1.6), [100] * 5),
    "95 % zeros, 200 and 200": independent(rising(lognormal(0.8, 1.0, 0.05), 2, 1.5), [200, 200]),
    "95 % zeros, 300, 300 and 1,000": independent(rising(lognormal(0.8, 1.0, 0.05), 3, 1.5), [300, 300, 1000]),
    "95 % zeros, 1,000 and 5,000": independent([lognormal(1, 1.0, 0.05), lognormal(1, 1.2, 0.06)], [1000, 5000]),
    "30 gamma against 10,000 log-normal": independent([gamma(1, 1.0), lognormal(1, 1.0)], [30, 10_000]),
    "30 log-normal against 10,000 log-normal": independent([lognormal(1, 1.0), lognormal(1, 1.3)], [30, 10_000]),
    "two unequal groups": independent([lognormal(0.8, 1.0), gamma(2, 1.4)], [40, 300]),
    "five log-normal groups of 50": independent(rising(lognormal(1, 1.0), 5, 1.4), [50] * 5),
    "one log-normal group of 40, four gamma groups of 400": independent(
        [lognormal(1, 1.0), *[gamma(2, 1.65)] * 4], [40, 400, 400, 400, 400]
    ),
    "ten groups of 30": independent(rising(gamma(1.5, 1.0, 0.9), 10, 1.9), [30] * 10),
    "20 equal log-normal groups of 40": independent([lognormal(1, 1.0)] * 20, [40] * 20),
    "20 Pareto groups of 1,000": independent(rising(pareto(1.0), 20, 1.95), [1000] * 20),
    "50 gamma groups of 60": independent(rising(gamma(2, 1.0, 0.9), 50, 2.0), [60] * 50),
    "50 log-normal groups of 50 to 200": independent(
        rising(lognormal(1, 1.0, 0.9), 50, 2.0), [50, 60, 80, 100, 200] * 10
    ),
    "skewed, 1,000 to 20,000": independent([lognormal(1, 1.0), lognormal(1, 1.2), gamma(2, 2.0)], [1000, 3000, 20000]),
    "ten groups of 25, below any verdict": independent([gamma(2, 0.6 + 0.8 * i / 9) for i in range(10)], [25] * 10),
    "clusters": clusters_in_groups,
    "clusters across groups": clusters_across_groups,
    "control": controlled,
}

EQUAL: dict[str, Scenario] = {  # scenarios without a difference: every significant group is a false alarm
    "two log-normal groups of 100 and 300": independent([lognormal(1, 1.0)] * 2, [100, 300]),
    "Pareto 3, five groups of 100": independent([pareto(1.0)] * 5, [100] * 5),
    "log-normal, 50 to 200": independent([lognormal(0.8, 1.0, 0.8)] * 5, [50, 50, 60, 100, 200]),
    "60 % zeros, five groups of 100": independent([lognormal(0.8, 1.0, 0.4)] * 5, [100] * 5),
    "95 % zeros, four groups of 1,000 and one of 20,000": independent(
        [lognormal(1, 1.0, 0.05)] * 5, [1000, 1000, 1000, 1000, 20_000]
    ),
    "20 log-normal groups of 100": independent([lognormal(1, 1.0)] * 20, [100] * 20),
    "50 gamma groups of 60": independent([gamma(2, 1.0, 0.9)] * 50, [60] * 50),
    "20 Pareto groups of 1,000": independent([pareto(1.0)] * 20, [1000] * 20),
    "100 log-normal groups of 1,000": independent([lognormal(1, 1.0)] * 100, [1000] * 100),
    "1,000 Pareto, 10,000 gamma": independent([pareto(1.0), gamma(2, 1.0)], [1000, 10_000]),
    "clusters": lambda seed: clusters_in_groups(seed, (1.0, 1.0, 1.0)),
    "clusters across groups": lambda seed: clusters_across_groups(seed, (1.0, 1.0, 1.0)),
    "control": lambda seed: controlled(seed, (1.0, 1.0, 1.0)),
}

_LOG_NORMAL = lognormal(1, float(np.exp(-0.5)))  # of mean 1
EQUAL_MEANS: dict[str, Scenario] = {  # the same, where a group of fewer than 100 samples has another shape
    "50 skewed, 100 and 300 others": independent([gamma(0.7, 1.0), gamma(4, 1.0), gamma(20, 1.0)], [50, 100, 300]),
    "50 skewed, 200 others": independent([gamma(0.7, 1.0), gamma(8, 1.0)], [50, 200]),
    "50 log-normal, 10,000 gamma": independent([_LOG_NORMAL, gamma(8, 1.0)], [50, 10_000]),
    "60 Pareto, 1,000 gamma": independent([pareto(1.0), gamma(8, 1.0)], [60, 1000]),
}
