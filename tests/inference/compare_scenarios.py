"""Simulated pairs of models with a known change, for intervals and tests of `compare`.

`make test-slow` writes their tables to docs/inference.md (`coverage_table`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fairmargin.analyses.comparison import Comparison, compare
from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings
from tests.inference.kept import Keep

SIZES = (50, 300)
Change = Callable[[np.random.Generator, Floats], tuple[Floats, Floats]]  # distances before -> before, after


@dataclass(frozen=True)
class Draw:
    """One simulated pair of models, with the true change of every group's mean distance and of its σ."""

    before: Floats
    after: Floats
    partition: Partition
    plan: AuditSettings
    change: Floats
    sigma_change: Floats

    def compared(self) -> Comparison:
        before, after = (Distances(v, v > 0, Bound.EXACT, Norm.L2) for v in (self.before, self.after))
        return compare(before, after, self.partition, self.plan)


def independent(change: Change, truth: float = 0.0, sizes: tuple[int, ...] = SIZES) -> Callable[[int], Draw]:
    """Return a scenario whose groups have mean 1 before and change alike, so that every σ stays 0."""

    def draw(seed: int) -> Draw:
        rng = np.random.default_rng([seed, 81])
        before, after = change(rng, rng.gamma(2, 0.5, sum(sizes)))
        partition = Partition("g", [f"g{i}" for i in range(len(sizes))], np.repeat(np.arange(len(sizes)), sizes))
        count = len(sizes)
        return Draw(before, after, partition, AuditSettings(seed=seed), np.full(count, truth), np.zeros(count))

    return draw


def newly_wrong(share: float, noise: float = 0.0) -> Change:
    """Make a share of the samples wrong, and the distances of the others larger, so that the mean stays."""

    def change(rng: np.random.Generator, before: Floats) -> tuple[Floats, Floats]:
        wrong = rng.random(len(before)) < share
        return before, np.where(wrong, 0, before / (1 - share)) * _noise(rng, len(before), noise)

    return change


def newly_right(share: float) -> Change:
    """Make a share of the samples right, and the distances of the others smaller, so that the mean stays."""

    def change(rng: np.random.Generator, before: Floats) -> tuple[Floats, Floats]:
        wrong = rng.random(len(before)) < share
        return np.where(wrong, 0, before), before * (1 - share)

    return change


def both_ways(share: float) -> Change:
    """Make a share of the samples wrong, and another one right."""

    def change(rng: np.random.Generator, before: Floats) -> tuple[Floats, Floats]:
        which = rng.random(len(before))
        return np.where(which < share, 0, before), np.where(which > 1 - share, 0, before)

    return change


def lognormal_ratio(width: float) -> Change:
    """Multiply distances by lognormal factors with mean 1."""

    def change(rng: np.random.Generator, before: Floats) -> tuple[Floats, Floats]:
        return before, before * np.exp(width * rng.normal(size=len(before)) - width**2 / 2)

    return change


def times(factor: float, noise: float = 0.0) -> Change:
    """Multiply every distance by a factor, which varies by `noise`."""

    def change(rng: np.random.Generator, before: Floats) -> tuple[Floats, Floats]:
        return before, before * factor * _noise(rng, len(before), noise)

    return change


def two_networks(rng: np.random.Generator, before: Floats) -> tuple[Floats, Floats]:
    """Return two equally good models, whose distances vary about common values and of which each is 8 % wrong."""
    pair = [before * _noise(rng, len(before), 0.3) * (rng.random(len(before)) < 0.92) for _ in range(2)]
    return pair[0], pair[1]


def _noise(rng: np.random.Generator, count: int, width: float) -> Floats:
    """Return factors with mean 1 and this standard deviation."""
    return rng.gamma(width**-2, width**2, count) if width else np.ones(count)


def clusters(share: float) -> Callable[[int], Draw]:
    """Return a scenario of 70 and 150 people with one to four photographs, in which whole people become wrong."""

    def draw(seed: int) -> Draw:
        rng = np.random.default_rng([seed, 82])
        people = np.repeat([0, 1], [70, 150])
        person = np.repeat(np.arange(len(people)), rng.integers(1, 5, len(people)))
        before = rng.gamma(3, 1 / 3, len(people))[person] * rng.gamma(4, 1 / 4, len(person))
        after = np.where((rng.random(len(people)) < share)[person], 0, before / (1 - share))
        partition = Partition("g", ["g0", "g1"], people[person])
        return Draw(before, after, partition, AuditSettings(seed=seed, cluster=person), np.zeros(2), np.zeros(2))

    return draw


def one_group_all_wrong(seed: int) -> Draw:
    """Return two models that misclassify every sample of one group; of the other groups, 5 % become wrong."""
    draw = independent(newly_wrong(0.05), sizes=(50, 50, 300))(seed)
    wrong = draw.partition.membership == 0
    before, after = (np.where(wrong, 0, values) for values in (draw.before, draw.after))
    return Draw(before, after, draw.partition, draw.plan, draw.change, draw.sigma_change)


NULLS: dict[str, Callable[[int], Draw]] = {
    "2 % newly wrong": independent(newly_wrong(0.02)),
    "5 % newly wrong": independent(newly_wrong(0.05)),
    "10 % newly wrong": independent(newly_wrong(0.10)),
    "5 % newly wrong, others vary by 10 %": independent(newly_wrong(0.05, noise=0.1)),
    "5 % newly wrong, five groups of 50": independent(newly_wrong(0.05), sizes=(50,) * 5),
    "5 % newly right": independent(newly_right(0.05)),
    "5 % newly wrong, 5 % newly right": independent(both_ways(0.05)),
    "lognormal ratio of width 0.5": independent(lognormal_ratio(0.5)),
    "lognormal ratio of width 1": independent(lognormal_ratio(1.0)),
    "two networks, equally good": independent(two_networks),
    "5 % of the people newly wrong (clusters)": clusters(0.05),
    "one group all wrong before and after": one_group_all_wrong,
    "the same model twice": independent(times(1.0)),
}

EFFECTS: dict[str, Callable[[int], Draw]] = {
    "all 10 % farther": independent(times(1.1), 0.1),
    "10 % farther, varying by 14 %": independent(times(1.1, noise=0.14), 0.1),
    "20 % farther, varying by 32 %": independent(times(1.2, noise=0.32), 0.2),
    "20 % nearer, varying by 32 %": independent(times(0.8, noise=0.32), -0.2),
}


@dataclass(frozen=True)
class Rates:
    """Shares of the comparisons in which something happened."""

    alarms: float  # the mean distance of any group changed significantly
    sigma_alarms: float  # σ of any group changed significantly
    found: Floats  # the mean distance of each group changed significantly
    alone: Floats  # each group's own interval of the change contains the truth
    together: float  # the simultaneous intervals of all groups contain the truth
    sigma_together: float


def rates(draw: Callable[[int], Draw], comparisons: int, first: int = 0) -> Rates:
    """Compare many simulated pairs of models."""
    rows = []
    for seed in range(first, first + comparisons):
        case = draw(seed)
        result = case.compared()
        changed = np.array([row.p_adjusted < case.plan.alpha for row in result])
        sigma_changed = any(row.sigma_p_adjusted < case.plan.alpha for row in result)
        rows.append(
            (
                changed.any(),
                sigma_changed,
                changed,
                _covers(result, "change_alone", case.change),
                _covers(result, "change", case.change).all(),
                _covers(result, "sigma_change", case.sigma_change).all(),
            )
        )
    alarms, sigma, found, alone, together, sigma_together = (np.mean(part, axis=0) for part in zip(*rows, strict=True))
    return Rates(float(alarms), float(sigma), found, alone, float(together), float(sigma_together))


def _covers(result: Comparison, name: str, truth: Floats) -> Bools:
    """Return whether each group's interval contains the truth; an undefined one counts as such."""
    estimates = [getattr(row, name) for row in result]
    return np.array([not (e.low > t or e.high < t) for e, t in zip(estimates, truth, strict=True)])


def alarm_rows(comparisons: int, keep: Keep) -> Iterator[str]:
    """Yield the lines of the table of scenarios without a change."""
    yield "| no change | false alarms | of σ | single interval | all intervals | of σ |\n|---|---|---|---|---|---|"
    for title, scenario in NULLS.items():

        def row(title: str = title, scenario: Callable[[int], Draw] = scenario) -> str:
            r = rates(scenario, comparisons)
            single = f"{r.alone.min():.1%} to {r.alone.max():.1%}"
            cells = f"{r.alarms:.1%} | {r.sigma_alarms:.1%} | {single} | {r.together:.1%} | {r.sigma_together:.1%}"
            return f"| {title} | {cells} |"

        yield keep(f"comparisons: {comparisons} {title}", row)


def power_rows(comparisons: int, keep: Keep) -> Iterator[str]:
    """Yield the lines of the table of scenarios with a change."""
    small, large = SIZES
    yield f"| change | found at {small} | found at {large} | single interval | all intervals |\n|---|---|---|---|---|"
    for title, scenario in EFFECTS.items():

        def row(title: str = title, scenario: Callable[[int], Draw] = scenario) -> str:
            r = rates(scenario, comparisons)
            single = f"{r.alone.min():.1%} to {r.alone.max():.1%}"
            return f"| {title} | {r.found[0]:.1%} | {r.found[1]:.1%} | {single} | {r.together:.1%} |"

        yield keep(f"comparisons: {comparisons} {title}", row)
