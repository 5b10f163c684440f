"""Simulations of the comparison of curves: false alarms, power, and coverage of bands and differences.

`python -m tests.inference.curve_scenarios 2000 [PART]` prints the tables of docs/inference.md; a part is one of `all`,
`alarms`, `coverage` and `power`.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fairmargin.analyses.audit import audit
from fairmargin.analyses.curves import DIFFERENT, compare_curves
from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.estimate import NO_DIFFERENCE
from fairmargin.inference.settings import AuditSettings

Population = Callable[[np.random.Generator, int], Floats]
_REFERENCE = 400_000  # samples that stand for a population


def lognormal(width: float = 1.0) -> Population:
    """Return a population of mean 1."""
    return lambda rng, n: rng.lognormal(-(width**2) / 2, width, n)


def gamma(shape: float, mean: float = 1.0) -> Population:
    return lambda rng, n: rng.gamma(shape, mean / shape, n)


def pareto(rng: np.random.Generator, n: int) -> Floats:
    """Draw from a population with a tail of index 3 and mean 1."""
    return 2 * rng.pareto(3, n)


def whole(rng: np.random.Generator, n: int) -> Floats:
    """Draw one of five distances."""
    return rng.integers(0, 5, n).astype(np.float64)


def partly(population: Population, accuracy: float) -> Population:
    """Return a population with misclassified samples, whose distance is 0."""
    return lambda rng, n: population(rng, n) * (rng.random(n) < accuracy)


@dataclass(frozen=True)
class Case:
    distances: Distances
    partition: Partition
    settings: AuditSettings


def case(values: Floats, group: Ints, **settings: object) -> Case:
    names = [f"g{i}" for i in range(int(group.max()) + 1)]
    return Case(
        Distances(values, values > 0, Bound.EXACT, Norm.L2), Partition("g", names, group), AuditSettings(**settings)
    )


Draw = Callable[[int], Case]


def independent(populations: list[Population], sizes: list[int]) -> Draw:
    def draw(seed: int) -> Case:
        rng = np.random.default_rng([seed, 271])
        values = np.concatenate([each(rng, n) for each, n in zip(populations, sizes, strict=True)])
        return case(values, np.repeat(np.arange(len(sizes)), sizes))

    return draw


def alike(population: Population, sizes: list[int]) -> Draw:
    return independent([population] * len(sizes), sizes)


def clusters(seed: int, *, across: bool, people: int = 120) -> Case:
    """Draw people with one to six similar photographs each, of one group or of groups that change."""
    rng = np.random.default_rng([seed, 272])
    person = np.repeat(np.arange(people), rng.integers(1, 7, people))
    values = rng.gamma(3, 1 / 3, people)[person] * rng.gamma(4, 1 / 4, len(person)) * (rng.random(len(person)) < 0.9)
    group = rng.integers(0, 3, len(person)) if across else (np.arange(people) % 3)[person]
    return case(values, group, cluster=person)


def controlled(seed: int) -> Case:
    """Draw classes that differ in robustness, and groups with different mixes of them."""
    rng = np.random.default_rng([seed, 273])
    sizes, mixes = (60, 150, 300), ((0.6, 0.3, 0.1), (0.3, 0.4, 0.3), (0.1, 0.3, 0.6))
    group = np.repeat(np.arange(3), sizes)
    stratum = np.concatenate([rng.choice(3, n, p=mix) for n, mix in zip(sizes, mixes, strict=True)])
    values = np.array([0.5, 1.0, 2.0])[stratum] * rng.gamma(2, 0.5, len(group)) * (rng.random(len(group)) < 0.85)
    return case(values, group, control=Partition.by("class", stratum))


def weighted(seed: int) -> Case:
    """Draw samples with weights that depend on the distances in the same way in every group."""
    rng = np.random.default_rng([seed, 274])
    pool = partly(lognormal(), 0.9)(rng, 4_000)
    chance = np.where(pool > 1, 0.1, 0.4)
    drawn = rng.random(len(pool)) < chance
    return case(pool[drawn], rng.choice(3, int(drawn.sum()), p=(0.1, 0.3, 0.6)), sample_weight=1 / chance[drawn])


POPULATIONS: dict[str, Population] = {
    "lognormal 1": lognormal(),
    "Pareto 3": pareto,
    "60 % zeros": partly(lognormal(), 0.4),
    "95 % zeros": partly(lognormal(), 0.05),
    "five different distances": whole,
}
SIZES: dict[str, list[int]] = {
    "30 and 30": [30, 30],
    "30 and 10,000": [30, 10_000],
    "100 and 1,000": [100, 1_000],
    "1,000 and 20,000": [1_000, 20_000],
    "20 of 100": [100] * 20,
    "50 of 40 to 400": list(range(40, 400, 7))[:50],
}
NULLS: dict[str, Draw] = {
    **{f"{what}, {how}": alike(p, n) for what, p in POPULATIONS.items() for how, n in SIZES.items()},
    "clusters inside of groups": lambda seed: clusters(seed, across=False),
    "clusters across groups": lambda seed: clusters(seed, across=True),
    "control": controlled,
    "weights": weighted,
}
UNEQUAL: dict[str, tuple[list[Population], list[int]]] = {
    "lognormal 1 and gamma, 30 and 10,000": ([lognormal(), gamma(2)], [30, 10_000]),
    "lognormal 1 and gamma, 50 and 50": ([lognormal(), gamma(4)], [50, 50]),
    "Pareto 3 and lognormal, 100 and 1,000": ([pareto, lognormal(0.5)], [100, 1_000]),
    "60 % zeros, 100 and 1,000": ([partly(gamma(6), 0.4), partly(gamma(2), 0.5)], [100, 1_000]),
    "95 % zeros, 100 and 1,000": ([partly(gamma(2), 0.05), partly(gamma(2), 0.08)], [100, 1_000]),
    "20 groups of 100": ([gamma(1 + i / 5) for i in range(20)], [100] * 20),
    "50 groups of 40": ([gamma(2, 0.7 + i / 80) for i in range(50)], [40] * 50),
}
POWER: dict[str, tuple[Population, Population, list[int]]] = {
    "equal means, lognormal of width 0.6 and gamma of shape 2": (lognormal(0.6), gamma(2), [200, 200]),
    "equal means, gamma of shape 2 and 4": (gamma(2), gamma(4), [200, 200]),
    "equal means, gamma of shape 2 and 4, 50 and 450": (gamma(2), gamma(4), [50, 450]),
    "equal means, 80 % and 95 % right": (partly(gamma(4, 0.95 / 0.8), 0.8), partly(gamma(4), 0.95), [200, 200]),
    "20 % nearer, gamma of shape 4, 50 and 450": (gamma(4, 0.8), gamma(4), [50, 450]),
    "20 % nearer, lognormal of width 1": (lambda rng, n: 0.8 * lognormal()(rng, n), lognormal(), [200, 200]),
}


def alarms(draw: Draw, runs: int, first: int = 0) -> float:
    """Return the share of comparisons in which any curve is said to differ."""
    found = 0
    for seed in range(first, first + runs):
        each = draw(seed)
        result = compare_curves(each.distances, each.partition, each.settings)
        found += any(row.verdict in DIFFERENT for row in result)
    return found / runs


def coverage(populations: list[Population], sizes: list[int], runs: int, first: int = 0) -> dict[str, float]:
    """Return how often all bands, limits of biases, differences at three radii, and stated stretches are right."""
    rng, radii = np.random.default_rng([9, 275]), (0.25, 1.0, 2.0)
    curves = [np.sort(each(rng, _REFERENCE)) for each in populations]
    at = np.quantile(np.concatenate(curves), np.linspace(0, 0.9995, 300))
    beyond = np.array([1 - np.searchsorted(each, at, side="right") / _REFERENCE for each in curves])
    chosen = np.array([1 - np.searchsorted(each, radii, side="right") / _REFERENCE for each in curves])
    right = np.array([np.mean(each > 0) for each in curves])
    n = np.array(sizes, dtype=float)[:, None]
    weights = (n.ravel() * right)[:, None]

    def to_rest(own: Floats, weight: Floats) -> Floats:
        return np.asarray(own - ((weight * own).sum(axis=0) - weight * own) / (weight.sum() - weight))

    bias, difference = to_rest(beyond / right[:, None], weights), to_rest(chosen, n)
    whole_difference = to_rest(beyond, n)
    hits = dict.fromkeys(("band", "bias", "differences", "stretches"), 0)
    for seed in range(first, first + runs):
        each = independent(populations, sizes)(seed)
        result = compare_curves(each.distances, each.partition, each.settings, radii=radii)
        values, correct = each.distances.values, each.distances.correct
        ok = dict.fromkeys(hits, True)
        for i, row in enumerate(result):
            own = each.partition.membership == i
            sides = (np.sort(values[side & correct]) for side in (own, ~own))
            shares = [1 - np.searchsorted(side, at, side="right") / max(len(side), 1) for side in sides]
            largest = row.robustness_bias_max
            if largest.is_defined:
                ok["band"] &= bool((np.abs(shares[0] - shares[1] - bias[i]) <= row.robustness_bias_band + 0.002).all())
                ok["bias"] &= largest.low - 0.002 <= np.abs(bias[i]).max() <= largest.high + 0.002
            for k, estimate in enumerate(row.differences):
                ok["differences"] &= estimate.low - 1e-3 <= difference[i, k] <= estimate.high + 1e-3
            for sign, stretch in ((-1, row.fewer), (1, row.more)):
                if stretch is not None:
                    inside = (at >= stretch.start) & (at < stretch.end)
                    ok["stretches"] &= bool((sign * whole_difference[i, inside] > -0.002).all())
        for name, held in ok.items():
            hits[name] += held
    return {name: count / runs for name, count in hits.items()}


def power(one: Population, other: Population, sizes: list[int], runs: int) -> dict[str, float]:
    """Return how often each test rejects: of curves, of means, and Kolmogorov and Smirnov's."""
    found = dict.fromkeys(("curves", "means", "Kolmogorov–Smirnov"), 0)
    for seed in range(runs):
        each = independent([one, other], sizes)(seed)
        result = audit(each.distances, each.partition, each.settings.model_copy(update={"resamples": 400}))
        assert result.curves is not None
        found["curves"] += result.curves.groups[0].verdict in DIFFERENT
        found["means"] += result.groups[0].verdict != NO_DIFFERENCE
        values, first = each.distances.values, sizes[0]
        found["Kolmogorov–Smirnov"] += stats.ks_2samp(values[:first], values[first:], method="asymp").pvalue < 0.05
    return {name: count / runs for name, count in found.items()}


def _print(head: list[str], rows: dict[str, Callable[[], list[float]]]) -> None:
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for title, row in rows.items():
        print(f"| {title} | " + " | ".join(f"{each:.1%}" for each in row()) + " |", flush=True)
    print()


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    what = sys.argv[2] if len(sys.argv) > 2 else "all"
    if what in ("all", "alarms"):
        _print(
            ["equal curves", "any curve said to differ"], {k: lambda d=d: [alarms(d, number)] for k, d in NULLS.items()}
        )
    if what in ("all", "coverage"):
        _print(
            ["unequal curves", "bands", "largest bias", "differences at 3 radii", "stretches"],
            {k: lambda d=d: list(coverage(*d, number).values()) for k, d in UNEQUAL.items()},
        )
    if what in ("all", "power"):
        _print(
            ["difference", "curves", "means", "Kolmogorov–Smirnov"],
            {k: lambda d=d: list(power(*d, number).values()) for k, d in POWER.items()},
        )
