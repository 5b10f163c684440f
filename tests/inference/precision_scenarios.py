"""Simulated populations with far samples and known means, for audits to a precision.

`make test-slow` writes their tables to docs/inference.md (`coverage_table`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.precision.rounds import REFERENCE, PrecisionOutcome, PrecisionTarget, to_precision
from tests.inference.kept import Keep

ACCURACY = 0.9
_RARE = 0.01  # share of precise groups below which their coverage is not printed
Cheap = Callable[[np.random.Generator, Floats, Floats], Floats]  # from distances without and with far samples

# Cheap distances, from the distances b without far samples and the reference distances r.
SEES: Cheap = lambda rng, b, r: r * rng.lognormal(0, 0.25, len(r))  # noqa: E731
BLIND: Cheap = lambda rng, b, r: b * rng.lognormal(0, 0.25, len(r))  # noqa: E731
POOR: Cheap = lambda rng, b, r: b * rng.lognormal(0, 1.0, len(r))  # noqa: E731
USELESS: Cheap = lambda rng, b, r: rng.gamma(1, 1, len(r))  # noqa: E731
CURVED: Cheap = lambda rng, b, r: b**2 * rng.lognormal(0, 0.3, len(r))  # noqa: E731


@dataclass(frozen=True)
class Scenario:
    """Groups of one shape, of which some contain far samples."""

    sizes: tuple[int, ...]
    cheap: Cheap = SEES
    times: float = 10.0  # factor by which the distances of far samples are larger
    share: float = 0.02  # share of far samples in a group that has them
    groups: int | None = None  # number of groups with far samples, the first ones; None for all
    finite: bool = False
    precision: float = 0.2
    shape: str = "gamma"
    pilot: int = 30

    def draw(self, seed: int) -> tuple[PrecisionOutcome, Floats]:
        """Return the outcome of one audit, and the true mean of each group."""
        rng = np.random.default_rng([seed, 5])
        count = len(self.sizes)
        group = np.repeat(np.arange(count), self.sizes)
        n = len(group)
        has_far = np.arange(count) < (count if self.groups is None else self.groups)
        base = rng.gamma(2, 0.5, n) if self.shape == "gamma" else rng.lognormal(-0.5, 1.0, n)
        share = np.where(has_far, self.share, 0.0)
        r = base * np.where(rng.random(n) < share[group], self.times, 1.0)
        correct = rng.random(n) < ACCURACY
        r, c = np.where(correct, r, 0.0), np.where(correct, self.cheap(rng, base, r), 0.0)

        def measure(which: int, rows: Ints) -> Distances:
            values = r if which == REFERENCE else c
            return Distances(values[rows], correct[rows], "upper" if which == REFERENCE else "neither", "l2")

        partition = Partition("group", [f"g{g}" for g in range(count)], group)
        keys = rng.integers(0, 2**63, n).astype(np.uint64)
        target = PrecisionTarget(self.precision, 0.95, self.finite, self.pilot, np.inf, (3.0, 100.0))
        answer = to_precision(measure, partition, keys, target)
        truth = np.bincount(group, weights=r) / self.sizes if self.finite else ACCURACY * (1 + share * (self.times - 1))
        return answer, truth


def sigma_of(truth: Floats, sizes: tuple[int, ...]) -> Floats:
    """Return σ of each group from the means."""
    size = np.array(sizes, dtype=float)
    total = truth @ size
    return truth / ((total - truth * size) / (size.sum() - size)) - 1


FEW, MANY, UNEQUAL = (2_000,) * 2, (1_000,) * 10, (100, 300, 1_000, 1_000, 3_000)
FAR: dict[str, Scenario] = {}
for _times in (10.0, 33.0):
    FAR |= {
        f"{_times:.0f} times as far, {title}": replace(scenario, times=_times)
        for title, scenario in {
            "two groups, the cheap estimator sees it": Scenario(FEW, SEES),
            "two groups, the cheap one does not see it": Scenario(FEW, BLIND),
            "two groups, poor cheap estimator": Scenario(FEW, POOR),
            "two groups, useless cheap estimator": Scenario(FEW, USELESS),
            "two groups of 20,000, to ±0.1": Scenario((20_000,) * 2, SEES, precision=0.1),
            "ten groups": Scenario(MANY, BLIND),
            "ten groups of 60": Scenario((60,) * 10, BLIND),
            "unequal groups": Scenario(UNEQUAL, BLIND),
            "unequal groups, seen by the cheap estimator": Scenario(UNEQUAL, SEES),
            "two groups of 300, these samples": Scenario((300,) * 2, BLIND, finite=True),
            "two groups, these samples": Scenario(FEW, BLIND, finite=True),
            "ten groups, these samples, seen by the cheap estimator": Scenario(MANY, SEES, finite=True),
            "in one of two groups": Scenario(FEW, BLIND, groups=1),
            "in one of ten groups": Scenario(MANY, BLIND, groups=1),
        }.items()
    }
THREE = (3_000,) * 3
ORDINARY = {
    f"{title}, to ±{precision:g}": replace(scenario, precision=precision, times=1.0)
    for title, scenario in {
        "well correlated": Scenario(THREE, SEES),
        "badly correlated": Scenario(THREE, POOR),
        "not correlated": Scenario(THREE, USELESS),
        "curved": Scenario(THREE, CURVED),
        "lognormal, well correlated": Scenario(THREE, SEES, shape="lognormal"),
        "well correlated, these samples": Scenario((1_000,) * 10, SEES, finite=True),
    }.items()
    for precision in (0.2, 0.1, 0.05)
}


@dataclass(frozen=True)
class Found:
    """Coverage and effort over all audits."""

    covered: float  # share of the intervals that contain the truth
    lowest: float  # the same for the group with the lowest share
    covered_met: float  # the same for the intervals that are reported as precise as requested
    met: float  # share of the groups with such an interval
    references: float  # mean number of reference samples per group
    rounds: float


def tried(scenario: Scenario, audits: int, first: int = 0) -> Found:
    """Audit simulated data with the seeds from `first` on."""
    rows = []
    for seed in range(first, first + audits):
        answer, truth = scenario.draw(seed)
        sigma, contrast = sigma_of(truth, scenario.sizes), answer.contrast
        low, high = contrast.sigma_low - 1e-9, contrast.sigma_high + 1e-9  # allow for rounding errors
        given = np.isfinite(low) & np.isfinite(high)
        rows.append((given, given & (low <= sigma) & (sigma <= high), answer.met))
        rows[-1] += (np.full(len(given), answer.counts[-1] / len(given)), np.full(len(given), answer.rounds))
    given, inside, met, asked, rounds = (np.array(column) for column in zip(*rows, strict=True))
    with np.errstate(invalid="ignore"):
        return Found(
            float(inside.sum() / given.sum()),
            float((inside.sum(axis=0) / given.sum(axis=0)).min()),
            float((inside & met).sum() / met.sum()),
            float(met.mean()),
            float(asked.mean()),
            float(rounds.mean()),
        )


def table_rows(scenarios: dict[str, Scenario], audits: int, keep: Keep) -> Iterator[str]:
    """Yield the lines of a table."""
    yield "| scenario | covered | lowest group | covered where met | met | reference samples per group | rounds |"
    yield "|---|---|---|---|---|---|---|"
    for title, scenario in scenarios.items():

        def row(title: str = title, scenario: Scenario = scenario) -> str:
            one = tried(scenario, audits)
            covered_met = "–" if one.met < _RARE else f"{one.covered_met:.1%}"
            cells = (f"{one.covered:.1%}", f"{one.lowest:.1%}", covered_met, f"{one.met:.0%}", f"{one.references:,.0f}")
            return f"| {title} | {' | '.join(cells)} | {one.rounds:.1f} |"

        yield keep(f"precision: {audits} {title}", row)
