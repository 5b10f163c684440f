"""Simulated audits in which searches failed at different depths, for Kaplan and Meier's restricted means.

`make test-slow` writes the tables of docs/inference.md. Intervals must contain the true restricted means up to the
horizon T that each audit chose.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from scipy import stats

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.settings import AuditSettings
from tests.inference.kept import Keep
from tests.inference.populations import Population, gamma, lognormal

Depth = Callable[[np.random.Generator, Floats], Floats]  # distances -> how far the searches look

# Photographs of one person are alike: the distances of a person are multiplied by such numbers.
ALIKE = stats.gamma(20, scale=1 / 20)


@dataclass(frozen=True, eq=False)
class Group:
    """Distances of one group, and how deep their searches look."""

    population: Population
    size: int
    depth: Depth


def restricted_mean(population: Population, people: bool, up_to: float) -> float:
    """Return the true mean of min(distance, up_to)."""
    if not people:
        return population.mean_up_to(up_to)
    factors = ALIKE.ppf((np.arange(500) + 0.5) / 500)
    return float(np.mean([population.times(factor).mean_up_to(up_to) for factor in factors]))


def uniform(deepest: float) -> Depth:
    """Return depths from 0 to `deepest`, whatever the distance is."""
    return lambda rng, distance: rng.uniform(0, deepest, len(distance))


def some(share: float, deepest: float) -> Depth:
    """Return depths of which only a share ends, between 0 and `deepest`."""
    return lambda rng, distance: np.where(
        rng.random(len(distance)) < share, rng.uniform(0, deepest, len(distance)), np.inf
    )


def shallow_for_far_samples(share: float, nearest: float) -> Depth:
    """Return depths that end before the distance for a share of the samples beyond `nearest`."""

    def depth(rng: np.random.Generator, distance: Floats) -> Floats:
        stops = (distance > nearest) & (rng.random(len(distance)) < share)
        return np.where(stops, nearest * rng.uniform(0.5, 1.0, len(distance)), np.inf)

    return depth


def unlimited(rng: np.random.Generator, distance: Floats) -> Floats:
    """Return searches that find every distance."""
    return np.full(len(distance), np.inf)


@dataclass(frozen=True, eq=False)
class Scenario:
    """Groups, of which samples can belong to people or classes."""

    groups: Sequence[Group]
    stops_first: float = np.inf  # the search for the first sample that lies farther stops here
    people: bool = False
    classes: tuple[float, ...] = ()  # by how much the distances of a class are larger, if classes are controlled for

    def draw(self, seed: int) -> tuple[Distances, Partition, AuditSettings]:
        """Return one simulated data set."""
        rng = np.random.default_rng([seed, 90])
        values, depths, group, person, stratum = [], [], [], [], []
        for g, each in enumerate(self.groups):
            found = each.population.draw(rng, each.size)
            if self.people:  # photographs of one person are alike
                who = rng.integers(0, each.size // 3, each.size)
                found = each.population.draw(rng, each.size // 3)[who] * ALIKE.rvs(each.size, random_state=rng)
                person.append(who + 10_000 * g)
            if self.classes:
                kind = rng.choice(len(self.classes), each.size, p=[(0.6, 0.4), (0.4, 0.6)][g % 2])
                found = found * np.array(self.classes)[kind]
                stratum.append(kind)
            values.append(found)
            depths.append(each.depth(rng, found))
            group.append(np.full(each.size, g))
        distance, depth, member = np.concatenate(values), np.concatenate(depths), np.concatenate(group)
        depth[np.flatnonzero(distance > self.stops_first)[:1]] = self.stops_first
        reached = distance <= depth
        distances = Distances(
            np.where(reached, distance, np.inf), distance > 0, Bound.UPPER, Norm.L2, tried=np.where(reached, 0, depth)
        )
        settings = AuditSettings(
            seed=seed,
            resamples=1000,
            cluster=np.concatenate(person) if self.people else None,
            control=Partition.by("class", np.concatenate(stratum)) if self.classes else None,
        )
        return distances, Partition("g", [f"g{i}" for i in range(len(self.groups))], member), settings

    def uncensored(self) -> "Scenario":
        """Return the same groups with searches that find every distance."""
        return replace(self, groups=[replace(each, depth=unlimited) for each in self.groups], stops_first=np.inf)

    def means(self, up_to: float) -> Floats:
        """Return the true restricted mean of each group."""
        return np.array([restricted_mean(each.population, self.people, up_to) for each in self.groups])


def two(
    first: Population, second: Population, depths: tuple[Depth, Depth], sizes: tuple[int, int] = (200, 200)
) -> Scenario:
    """Return a scenario with two groups."""
    return Scenario([Group(d, n, s) for d, n, s in zip((first, second), sizes, depths, strict=True)])


GAMMA, LOGNORMAL, NEARER = gamma(2, 1.0, 0.85), lognormal(0.8, 0.75, 0.9), lognormal(0.8, 0.6, 0.9)
FAST = gamma(2, 0.8, 0.9)
SLOW = gamma(2, 1.0, 0.9)
SOME = uniform(3.4), uniform(4.4)

COVERED = {
    "23 % at random depths": two(GAMMA, LOGNORMAL, SOME),
    "23 %, groups of 50": two(GAMMA, LOGNORMAL, SOME, (50, 50)),
    "23 %, 40 against 1,000": two(LOGNORMAL, GAMMA, SOME, (40, 1_000)),
    "23 %, 2,000 each": two(GAMMA, LOGNORMAL, SOME, (2_000, 2_000)),
    "23 %, 60 % zeros": two(gamma(2, 1.0, 0.4), lognormal(0.8, 0.75, 0.4), (uniform(1.8), uniform(2.0))),
    "5 % at random depths": two(GAMMA, LOGNORMAL, (some(0.15, 3.0), some(0.15, 3.0))),
    "one search that failed at .05": replace(two(GAMMA, LOGNORMAL, (unlimited, unlimited)), stops_first=0.05),
    "10 % in one group, 40 % in the other": two(GAMMA, LOGNORMAL, (uniform(7.5), uniform(2.2))),
    "five groups of 40 to 400": Scenario(
        [Group(lognormal(0.8, 0.75 + 0.05 * i, 0.9), n, uniform(4.4)) for i, n in enumerate((40, 80, 150, 300, 400))]
    ),
    "people, 23 %": replace(two(GAMMA, LOGNORMAL, SOME, (300, 300)), people=True),
    "classes controlled for, 23 %": replace(two(FAST, FAST, SOME, (200, 300)), classes=(0.7, 1.3)),
    "far samples of one group searched less deep": two(
        GAMMA, LOGNORMAL, (shallow_for_far_samples(0.5, 1.0), unlimited)
    ),
    "the same, 2,000 each": two(GAMMA, LOGNORMAL, (shallow_for_far_samples(0.5, 1.0), unlimited), (2_000, 2_000)),
}
POWER = {
    "23 % at random depths": two(NEARER, LOGNORMAL, (uniform(4.4), uniform(4.4))),
    "23 %, gamma": two(FAST, SLOW, (uniform(4.0), uniform(4.0))),
    "23 %, 400 each": two(NEARER, LOGNORMAL, (uniform(4.4), uniform(4.4)), (400, 400)),
    "5 % at random depths": two(NEARER, LOGNORMAL, (some(0.15, 3.0), some(0.15, 3.0))),
    "one search that failed at .05": replace(two(NEARER, LOGNORMAL, (unlimited, unlimited)), stops_first=0.05),
}
NULLS = {
    "23 % at random depths": two(LOGNORMAL, LOGNORMAL, SOME),
    "10 % in one group, 40 % in the other": two(LOGNORMAL, LOGNORMAL, (uniform(9), uniform(2.2))),
    "23 %, 40 against 1,000": two(LOGNORMAL, LOGNORMAL, (uniform(4.4), uniform(4.4)), (40, 1_000)),
    "40 % of 40 against 10 % of 1,000": two(LOGNORMAL, LOGNORMAL, (uniform(2.2), uniform(9)), (40, 1_000)),
    "23 %, ten groups of 100": Scenario([Group(LOGNORMAL, 100, uniform(4.4)) for _ in range(10)]),
    "people, 23 %": replace(two(LOGNORMAL, LOGNORMAL, (uniform(4.4), uniform(4.4)), (300, 300)), people=True),
    "classes controlled for, 23 %": replace(two(FAST, FAST, SOME, (200, 300)), classes=(0.7, 1.3)),
}


def holds(estimate: Estimate | None, truth: float) -> float:
    """Return whether an interval contains the truth; NaN if there is none."""
    if estimate is None or np.isnan(estimate.low):
        return np.nan
    return float(estimate.low <= truth <= estimate.high)


def covered(scenario: Scenario, result: AuditResult) -> dict[str, float]:
    """Return which intervals of an audit contain the true restricted means and what follows from them."""
    means = scenario.means(result.up_to)
    sizes = np.array([row.size for row in result], dtype=float)
    rests = ((means * sizes).sum() - means * sizes) / (sizes.sum() - sizes)
    overall = result.overall
    out = {
        "σ": float(np.all([holds(row.sigma, m / r - 1) for row, m, r in zip(result, means, rests, strict=True)])),
        "gap": float(np.all([holds(row.gap_to_rest, m - r) for row, m, r in zip(result, means, rests, strict=True)])),
        "σ at any depth": float(
            np.all([holds(row.sigma_bounds, m / r - 1) for row, m, r in zip(result, means, rests, strict=True)])
        ),
    }
    for i, row in enumerate(result):
        out[f"Rob(P) {i}"] = holds(row.robustness, means[i])
    return out | {
        "Rob(f)": holds(overall.robustness, means.mean()),
        "V_f": holds(overall.variance, means.var()),
        "V_f/Rob²": holds(overall.relative_variance, means.var() / means.mean() ** 2),
        "max − min": holds(overall.largest_gap, means.max() - means.min()),
        "worst": holds(overall.worst_robustness, means.min()),
    }


def audited(scenario: Scenario, seed: int) -> AuditResult:
    """Audit one simulated data set, without the comparison of curves, which takes half of the time."""
    with patch("fairmargin.analyses.audit.compare_curves", return_value=None):
        return audit(*scenario.draw(seed))


def coverage(scenario: Scenario, audits: int, first: int = 0) -> dict[str, float]:
    """Return the share of audits in which each interval contains the truth."""
    found = [covered(scenario, audited(scenario, seed)) for seed in range(first, first + audits)]
    return {name: float(np.nanmean([each[name] for each in found])) for name in found[0]}


def alarms(scenario: Scenario, audits: int, first: int = 0) -> float:
    """Return the share of audits with a significant difference."""
    found = [audited(scenario, seed).overall.p_equal < 0.05 for seed in range(first, first + audits)]
    return float(np.mean(found))


COLUMNS = ("σ", "gap", "Rob(P)", "Rob(f)", "V_f", "V_f/Rob²", "max − min", "worst", "σ at any depth")


def coverage_rows(audits: int, keep: Keep) -> Iterator[str]:
    """Yield the lines of the table of coverage."""
    yield f"| searches that failed | share | {' | '.join(COLUMNS)} |"
    yield f"|---|---|{'---|' * len(COLUMNS)}"
    for title, scenario in COVERED.items():

        def row(title: str = title, scenario: Scenario = scenario) -> str:
            found = coverage(scenario, audits)
            found["Rob(P)"] = min(share for what, share in found.items() if what.startswith("Rob(P)"))
            failed = np.mean([scenario.draw(seed)[0].unreached.mean() for seed in range(20)])
            # Of classes that are controlled for, only the comparison is known: both groups are equal.
            shown = ("σ", "gap", "σ at any depth") if scenario.classes else COLUMNS
            cells = [f"{found[what]:.1%}" if what in shown else "" for what in COLUMNS]
            return f"| {title} | {failed:.1%} | {' | '.join(cells)} |"

        yield keep(f"censored coverage: {audits} {title}", row)


def power_rows(audits: int, keep: Keep) -> Iterator[str]:
    """Yield the lines of the table of power."""
    yield "| searches that failed | σ = −20 % is found | all distances known | ratio |\n|---|---|---|---|"
    for title, scenario in POWER.items():

        def row(title: str = title, scenario: Scenario = scenario) -> str:
            censored, known = alarms(scenario, audits), alarms(scenario.uncensored(), audits)
            ratio = f"{censored / known:.2f}" if known else "–"
            return f"| {title} | {censored:.1%} | {known:.1%} | {ratio} |"

        yield keep(f"censored power: {audits} {title}", row)


def alarm_rows(audits: int, keep: Keep) -> Iterator[str]:
    """Yield the lines of the table of false alarms."""
    yield "| searches that failed, no difference | false alarms |\n|---|---|"
    for title, scenario in NULLS.items():

        def row(title: str = title, scenario: Scenario = scenario) -> str:
            return f"| {title} | {alarms(scenario, audits):.1%} |"

        yield keep(f"censored alarms: {audits} {title}", row)
