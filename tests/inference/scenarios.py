"""Simulated populations with known means, for the intervals and tests of an audit.

Each scenario draws one data set and gives the true σ and gap of every group. A part is one of `all`, `coverage`,
`many`, `small`, `hard`, `large`, `alarms`, `large alarms`, and `very large alarms`.
`python -m tests.inference.scenarios 1000 [PART]` prints the tables of docs/inference.md.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmargin.analyses.audit import audit
from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.settings import AuditSettings


@dataclass(frozen=True)
class Draw:
    """One simulated data set with its true means."""

    distances: Distances
    partition: Partition
    plan: AuditSettings
    means: Floats  # true mean of each group (standardised to the common mix where there is a control)
    rests: Floats  # true mean of each group's rest

    @property
    def sigma(self) -> Floats:
        return self.means / self.rests - 1

    @property
    def gap(self) -> Floats:
        return self.means - self.rests


Population = Callable[[np.random.Generator, int], Floats]


def gamma(shape: float, mean: float, accuracy: float = 1.0) -> tuple[Population, float]:
    def draw(rng: np.random.Generator, n: int) -> Floats:
        return rng.gamma(shape, mean / shape, n) * (rng.random(n) < accuracy)

    return draw, mean * accuracy


def lognormal(width: float, median: float, accuracy: float = 1.0) -> tuple[Population, float]:
    def draw(rng: np.random.Generator, n: int) -> Floats:
        return median * np.exp(width * rng.normal(size=n)) * (rng.random(n) < accuracy)

    return draw, median * float(np.exp(width**2 / 2)) * accuracy


def pareto(mean: float) -> tuple[Population, float]:
    """Return a population with a tail of index 3 from 0 on: its skewness is infinite."""

    def draw(rng: np.random.Generator, n: int) -> Floats:
        return 2 * mean * rng.pareto(3, n)

    return draw, mean


def independent(populations: list[tuple[Population, float]], sizes: list[int]) -> Callable[[int], Draw]:
    def draw(seed: int) -> Draw:
        rng = np.random.default_rng([seed, 77])
        values = np.concatenate([p(rng, n) for (p, _), n in zip(populations, sizes, strict=True)])
        partition = Partition("g", [f"g{i}" for i in range(len(sizes))], np.repeat(np.arange(len(sizes)), sizes))
        means, weight = np.array([m for _, m in populations]), np.array(sizes, dtype=float)
        rests = ((means * weight).sum() - means * weight) / (weight.sum() - weight)
        return Draw(_distances(values), partition, AuditSettings(seed=seed, resamples=1000), means, rests)

    return draw


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
    return _clustered(seed, values, group, person, 0.9 * np.array(means))


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
    return _clustered(seed, values, group, person, 0.9 * np.array(means))


def _clustered(seed: int, values: list[Floats], group: list[int], person: list[int], means: Floats) -> Draw:
    partition = Partition("g", [f"g{i}" for i in range(len(means))], group)
    rests = (means.sum() - means) / (len(means) - 1)  # in expectation every group has as many samples
    plan = AuditSettings(seed=seed, resamples=1000, cluster=np.array(person))
    return Draw(_distances(np.concatenate(values)), partition, plan, means, rests)


def controlled(seed: int, effect: tuple[float, ...] = (0.8, 1.0, 1.2)) -> Draw:
    """Draw classes that differ in robustness, and groups with different mixes of them that differ by `effect`."""
    rng = np.random.default_rng([seed, 80])
    level = np.array([0.5, 1.0, 2.0])
    mixes = np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]])
    sizes = (60, 150, 300)
    group = np.repeat(np.arange(3), sizes)
    stratum = np.concatenate([rng.choice(3, n, p=mix) for n, mix in zip(sizes, mixes, strict=True)])
    values = level[stratum] * np.array(effect)[group] * rng.gamma(2, 0.5, len(group)) * (rng.random(len(group)) < 0.85)
    plan = AuditSettings(seed=seed, resamples=1000, control=Partition.by("class", stratum))
    cell = np.array([[((group == g) & (stratum == k)).sum() for k in range(3)] for g in range(3)], dtype=float)
    mix = cell.sum(axis=0) / cell.sum()
    truth = 0.85 * level * np.array(effect)[:, None]
    others = np.array([(np.delete(cell * truth, g, 0).sum(0) / np.delete(cell, g, 0).sum(0)) for g in range(3)])
    return Draw(_distances(values), Partition("g", ["g0", "g1", "g2"], group), plan, truth @ mix, others @ mix)


def _distances(values: Floats) -> Distances:
    return Distances(values, values > 0, Bound.EXACT, Norm.L2)


SCENARIOS: dict[str, Callable[[int], Draw]] = {
    "skewed": independent([gamma(1, 1.0), gamma(1, 1.5), lognormal(0.8, 1.0)], [30, 60, 200]),
    "atom at 0": independent([gamma(2, 1.0, 0.5), gamma(2, 1.0, 0.75), gamma(2, 1.2, 0.95)], [30, 80, 200]),
    "unequal sizes and variances": independent([gamma(0.7, 1.0), gamma(4, 1.0), gamma(20, 1.2)], [30, 300, 1000]),
    "two small groups": independent([lognormal(0.6, 1.0, 0.9), lognormal(0.6, 1.4, 0.9)], [30, 30]),
    "ten groups of 30": independent([gamma(1.5, 1 + 0.1 * i, 0.9) for i in range(10)], [30] * 10),
    "clusters": clusters_in_groups,
    "clusters across groups": clusters_across_groups,
    "control": controlled,
}

MANY: dict[str, Callable[[int], Draw]] = {  # scenarios for the worst group and the mean over groups
    "20 log-normal groups of 40": independent([lognormal(1, 1.0)] * 20, [40] * 20),
    "5 log-normal groups of 50": independent([lognormal(1, 1 + 0.1 * i) for i in range(5)], [50] * 5),
    "one log-normal group of 40, four gamma groups of 400": independent(
        [lognormal(1, 1.0), *[gamma(2, 1.65)] * 4], [40, 400, 400, 400, 400]
    ),
    "two unequal groups": independent([lognormal(0.8, 1.0), gamma(2, 1.4)], [40, 300]),
}

_TEN = [gamma(2, 0.6 + 0.8 * i / 9) for i in range(10)]
SMALL: dict[str, Callable[[int], Draw]] = {  # too small for a verdict, but with an interval for all groups at once
    "ten groups of 25": independent(_TEN, [25] * 10),
    "one group of 300, nine of 25": independent([_TEN[5], *_TEN[:5], *_TEN[6:]], [300] + [25] * 9),
}

LARGE: dict[str, Callable[[int], Draw]] = {  # sides from 1,000 samples on are described by their sums
    "skewed, 1,000 to 20,000": independent([lognormal(1, 1.0), lognormal(1, 1.2), gamma(2, 2.0)], [1000, 3000, 20000]),
    "95 % zeros, 1,000 and 5,000": independent([lognormal(1, 1.0, 0.05), lognormal(1, 1.2, 0.06)], [1000, 5000]),
    "20 Pareto groups of 1,000": independent([pareto(1 + 0.05 * i) for i in range(20)], [1000] * 20),
    "30 gamma against 10,000 log-normal": independent([gamma(1, 1.0), lognormal(1, 1.0)], [30, 10_000]),
    "100 log-normal against 2,000 Pareto": independent([lognormal(1, 1.0), pareto(1.5)], [100, 2_000]),
}

HARD: dict[str, Callable[[int], Draw]] = {  # scenarios for which nothing is promised; their coverage is published
    "log-normal of width 1, 30 in one group": independent([lognormal(1, 1.0, 0.9), lognormal(1, 1.5, 0.9)], [300, 30]),
    "30 % accuracy, 30 in one group": independent([gamma(1, 1.0, 0.3), gamma(1, 1.5, 0.9)], [30, 300]),
}

NULLS: dict[str, Callable[[int], Draw]] = {
    "equal means, unequal variances": independent([gamma(0.7, 1.0), gamma(4, 1.0), gamma(20, 1.0)], [30, 100, 300]),
    "equal and skewed": independent([lognormal(0.8, 1.0, 0.8)] * 5, [30, 30, 60, 100, 200]),
    "two groups, unequal": independent([gamma(0.7, 1.0), gamma(8, 1.0)], [40, 200]),
    "clusters": lambda seed: clusters_in_groups(seed, (1.0, 1.0, 1.0)),
    "clusters across groups": lambda seed: clusters_across_groups(seed, (1.0, 1.0, 1.0)),
    "control": lambda seed: controlled(seed, (1.0, 1.0, 1.0)),
}

LARGE_NULLS: dict[str, Callable[[int], Draw]] = {  # groups that are not permuted
    "20 Pareto groups of 1,000": independent([pareto(1.0)] * 20, [1000] * 20),
    "100 log-normal groups of 1,000": independent([lognormal(1, 1.0)] * 100, [1000] * 100),
    "1,000 Pareto, 10,000 gamma": independent([pareto(1.0), gamma(2, 1.0)], [1000, 10_000]),
    "95 % zeros, four groups of 1,000 and one of 20,000": independent(
        [lognormal(1, 1.0, 0.05)] * 5, [1000, 1000, 1000, 1000, 20_000]
    ),
}
VERY_LARGE_NULLS = {"100 Pareto groups of 10,000": independent([pareto(1.0)] * 100, [10_000] * 100)}


def coverage(draw: Callable[[int], Draw], audits: int, first: int = 0) -> dict[str, Floats]:
    """Return the share of the audits in which intervals contain the truth.

    There is one number per group for the intervals of single groups (`sigma_alone`, `robustness`), and one number for
    simultaneous intervals (`sigma`, `gap_to_rest`) and for the partition as a whole (`overall`, `worst`).
    """
    counts: dict[str, Floats] = {}
    for seed in range(first, first + audits):
        case = draw(seed)
        result = audit(case.distances, case.partition, case.plan)
        hits = {
            "sigma_alone": _holds([row.sigma_alone for row in result], case.sigma),
            "sigma": _holds([row.sigma for row in result], case.sigma).min(keepdims=True),
            "gap_to_rest": _holds([row.gap_to_rest for row in result], case.gap).min(keepdims=True),
        }
        if not result.control:
            overall = result.overall
            hits["robustness"] = _holds([row.robustness for row in result], case.means)
            hits["overall"] = _holds([overall.robustness], case.means.mean(keepdims=True))
            hits["worst"] = _holds([overall.worst_robustness], case.means.min(keepdims=True))
        for name, hit in hits.items():
            counts[name] = counts.get(name, np.zeros(len(hit))) + hit
    return {name: count / audits for name, count in counts.items()}


def _holds(estimates: list[Estimate], truth: Floats) -> Floats:
    return np.array([float(e.low <= t <= e.high) for e, t in zip(estimates, truth, strict=True)])


def false_alarms(draw: Callable[[int], Draw], audits: int, alpha: float = 0.05) -> tuple[float, float]:
    """Return the share of audits in which any corrected p is at most α, and the largest share for one group's raw p."""
    any_alarm, raw = 0, np.zeros(0)
    for seed in range(audits):
        case = draw(seed)
        result = audit(case.distances, case.partition, case.plan)
        any_alarm += min(row.p_adjusted for row in result) <= alpha
        hits = np.array([row.p <= alpha for row in result], dtype=float)
        raw = hits if not raw.size else raw + hits
    return any_alarm / audits, float(raw.max() / audits)


def _coverage_table(scenarios: dict[str, Callable[[int], Draw]], audits: int) -> None:
    print("| scenario | σ, one group | σ, all groups | gap, all groups | Rob(P), one group | Rob(f) | worst group |")
    print("|---|---|---|---|---|---|---|")
    for title, scenario in scenarios.items():
        found = coverage(scenario, audits)
        columns = [
            found.get(name) for name in ("sigma_alone", "sigma", "gap_to_rest", "robustness", "overall", "worst")
        ]
        cells = ["" if c is None else _share_text(c) for c in columns]
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


def _share_text(shares: Floats) -> str:
    low, high = f"{shares.min():.1%}", f"{shares.max():.1%}"
    return low if len(shares) == 1 else f"{low} to {high}"


def _alarm_table(scenarios: dict[str, Callable[[int], Draw]], audits: int) -> None:
    print("| no difference | any corrected p ≤ 0.05 | worst single raw p ≤ 0.05 |\n|---|---|---|")
    for title, scenario in scenarios.items():
        print("| {} | {:.1%} | {:.1%} |".format(title, *false_alarms(scenario, audits)), flush=True)


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    what = sys.argv[2] if len(sys.argv) > 2 else "all"
    print(f"{number:,} audits per row, nominal 95 %; for single groups, the lowest and the highest group\n")
    if what in ("all", "coverage"):
        _coverage_table(SCENARIOS, number)
    if what in ("all", "many"):
        _coverage_table(MANY, number)
    if what in ("all", "small"):
        _coverage_table(SMALL, number)
    if what in ("all", "hard"):
        _coverage_table(HARD, number)
    if what in ("all", "large"):
        _coverage_table(LARGE, number)
    if what in ("all", "alarms"):
        _alarm_table(NULLS, number)
    if what in ("all", "large alarms"):
        _alarm_table(LARGE_NULLS, number)
    if what in ("all", "very large alarms"):
        _alarm_table(VERY_LARGE_NULLS, number)
