"""Simulated populations with known medians, accuracies and margins, for the measures beside σ.

`make test-slow` writes the tables of docs/inference.md (`coverage_table`).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize, stats

from fairmargin.analyses.audit import audit
from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.design import Design
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.medians import median_contrasts
from fairmargin.inference.parts import sigma_parts
from fairmargin.inference.settings import AuditSettings
from tests.inference.kept import Keep
from tests.inference.scenarios import EQUAL, SCENARIOS, Scenario

_FAR = 1e6  # no median of a population lies beyond


@dataclass(frozen=True)
class Population:
    """Distances `scale`·X of correct samples with X as in scipy, rounded up to multiples of `step`; others are 0."""

    shape: stats.rv_continuous
    scale: float = 1.0
    accuracy: float = 0.9
    step: float = 0.0

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Return distances, and whether samples are correct."""
        values = self.shape.rvs(size=n, random_state=rng) * self.scale
        if self.step:
            values = np.ceil(values / self.step) * self.step
        correct = rng.random(n) < self.accuracy
        return values * correct, correct

    def below(self, x: float) -> float:
        """Return the probability of a distance of at most `x`."""
        x = np.floor(x / self.step + 1e-9) * self.step if self.step else x
        return float(1 - self.accuracy + self.accuracy * self.shape.cdf(x / self.scale))

    @property
    def margin(self) -> float:
        """Mean distance of correct samples."""
        if not self.step:
            return float(self.shape.mean() * self.scale)
        return float(self.step * self.shape.sf(np.arange(10_000) * self.step / self.scale).sum())


GAMMA, LOGNORMAL, PARETO = stats.gamma(2, scale=0.5), stats.lognorm(1), stats.lomax(3, scale=2)


@dataclass(frozen=True)
class Case:
    """Groups, each with one or more (population, size) per stratum, and the mean size of a cluster."""

    groups: tuple[tuple[tuple[Population, int], ...], ...]
    per_cluster: int = 1  # samples of a cluster share half of the variance of their logarithm

    def draw(self, rng: np.random.Generator) -> tuple[Distances, Partition, AuditSettings]:
        """Return one data set."""
        values, correct, group, stratum = [], [], [], []
        for g, cells in enumerate(self.groups):
            for k, (population, size) in enumerate(cells):
                found, hits = population.draw(rng, size)
                if self.per_cluster > 1:  # of lognormal distances
                    shared = np.repeat(rng.normal(size=-(-size // self.per_cluster)), self.per_cluster)[:size]
                    found = population.scale * np.exp(np.sqrt(0.5) * (shared + rng.normal(size=size))) * hits
                values.append(found)
                correct.append(hits)
                group.append(np.full(size, g))
                stratum.append(np.full(size, k))
        every, hit = np.concatenate(values), np.concatenate(correct)
        sizes = [size for cells in self.groups for _, size in cells]
        clusters = [np.arange(size) // self.per_cluster + 1_000_000 * i for i, size in enumerate(sizes)]
        settings = AuditSettings(
            control=Partition.by("stratum", np.concatenate(stratum)) if len(self.groups[0]) > 1 else None,
            cluster=np.concatenate(clusters) if self.per_cluster > 1 else None,
        )
        names = [f"g{i}" for i in range(len(self.groups))]
        return Distances(every, hit, Bound.EXACT, Norm.L2), Partition("g", names, np.concatenate(group)), settings

    def truth(self) -> dict[str, Floats]:
        """Return the true contrast of medians, accuracy part and margin part of every group."""
        size = np.array([[n for _, n in cells] for cells in self.groups], dtype=float)
        mix = size.sum(axis=0) / size.sum()
        accuracy = np.array([[p.accuracy for p, _ in cells] for cells in self.groups])
        margin = np.array([[p.margin for p, _ in cells] for cells in self.groups])
        found: dict[str, list[float]] = {"median": [], "accuracy": [], "margin": []}
        for g in range(len(size)):
            own, rest = np.zeros_like(size), np.delete(size, g, 0) / np.delete(size, g, 0).sum(axis=0)
            own[g] = 1.0
            rest = np.insert(rest, g, 0.0, axis=0)
            medians = [self._median(side * mix) for side in (own, rest)]
            found["median"].append(medians[0] / medians[1] - 1 if medians[1] else np.inf)
            hits = [(side * mix * accuracy).sum() for side in (own, rest)]
            margins = [
                (side * mix * accuracy * margin).sum() / hit for side, hit in zip((own, rest), hits, strict=True)
            ]
            found["accuracy"].append(hits[0] / hits[1] - 1)
            found["margin"].append(margins[0] / margins[1] - 1)
        return {name: np.array(column) for name, column in found.items()}

    def _median(self, weight: Floats) -> float:
        """Return the median of a mixture of the populations, with a weight for each group and stratum."""
        parts = [
            (p, w) for cells, row in zip(self.groups, weight, strict=True) for (p, _), w in zip(cells, row, strict=True)
        ]
        parts = [(p, w) for p, w in parts if w > 0]

        def excess(x: float) -> float:
            return sum(w * p.below(x) for p, w in parts) - 0.5

        step = parts[0][0].step
        if step:  # the smallest multiple with half of the distances at or below it
            return next(k * step for k in range(10_000) if excess(k * step) >= 0)
        return float(optimize.brentq(excess, 0.0, _FAR, xtol=1e-12)) if excess(0.0) < 0 else 0.0


def _two(first: Population, second: Population, *sizes: int) -> Case:
    return Case((((first, sizes[0]),), ((second, sizes[1]),)))


def _sizes(shape: stats.rv_continuous, *sizes: int) -> Case:
    return _two(Population(shape, 1.0), Population(shape, 1.3, 0.95), *sizes)


def _twenty(shape: stats.rv_continuous, size: int) -> Case:
    return Case(tuple(((Population(shape, 1 + 0.03 * i, 0.8 + 0.01 * i), size),) for i in range(20)))


CASES: dict[str, Case] = {
    **{
        f"{name}, {sizes[0]:,} against {sizes[1]:,}": _sizes(shape, *sizes)
        for sizes in ((30, 10_000), (50, 50), (300, 300))
        for name, shape in (("gamma", GAMMA), ("log-normal", LOGNORMAL), ("Pareto", PARETO))
    },
    "Pareto, 50 against 10,000": _sizes(PARETO, 50, 10_000),
    "log-normal, 20 groups of 60": _twenty(LOGNORMAL, 60),
    "Pareto, 20 groups of 500": _twenty(PARETO, 500),
    "steps of 0.25, 50 against 50": _two(Population(GAMMA, 1.0, step=0.25), Population(GAMMA, 1.5, step=0.25), 50, 50),
    "steps of 1, 300 against 300": _two(Population(GAMMA, 1.2, step=1.0), Population(GAMMA, 1.9, step=1.0), 300, 300),
    "40 % zeros, 50 against 50": _two(Population(GAMMA, 1.0, 0.6), Population(GAMMA, 1.3, 0.7), 50, 50),
    "40 % zeros, 300 against 300": _two(Population(GAMMA, 1.0, 0.6), Population(GAMMA, 1.3, 0.7), 300, 300),
    "60 % zeros, 300 against 300": _two(Population(GAMMA, 1.0, 0.4), Population(GAMMA, 1.3, 0.7), 300, 300),
    "no mistakes, 50 against 300": _two(Population(GAMMA, 1.0, 1.0), Population(GAMMA, 1.3, 1.0), 50, 300),
    "clusters of 4, 200 against 400": replace(
        _two(Population(LOGNORMAL, 1.0), Population(LOGNORMAL, 1.3), 200, 400), per_cluster=4
    ),
    "control of two strata": Case(
        (
            ((Population(GAMMA, 0.5), 60), (Population(GAMMA, 2.0), 40)),
            ((Population(GAMMA, 0.6), 100), (Population(GAMMA, 2.5), 300)),
        )
    ),
}
MEASURES = ("median", "accuracy", "margin")


def measures(case: Case, rng: np.random.Generator, *, together: bool) -> dict[str, list[Estimate]]:
    """Return the measures of one data set, with intervals for all groups together or for each group alone."""
    distances, partition, settings = case.draw(rng)
    groups = len(case.groups)
    alpha = np.full(groups, 0.05 / (groups if together and groups > 2 else 1))
    design, reasons = Design.of(settings, len(distances)), [""] * groups
    medians = median_contrasts(distances, partition, settings.control, design, alpha=alpha, reasons=reasons)
    parts = sigma_parts(
        distances.values, distances.correct, partition, settings, design,
        alpha=alpha, reasons=reasons, bound=Bound.EXACT,
    )  # fmt: skip
    return {
        "median": list(medians),
        "accuracy": [each.accuracy for each in parts],
        "margin": [each.margin for each in parts],
    }


@dataclass(frozen=True)
class Covered:
    """Share of the intervals of a measure that contain the truth, of those that exist; NaN if there are none."""

    alone: Floats  # of each group, with intervals for one group
    together: float  # of data sets in which the intervals of all groups contain the truth at once
    undefined: float  # share of groups without an interval


def coverage(case: Case, draws: int, seed: int) -> dict[str, Covered]:
    """Return the coverage of every measure."""
    truth, found = case.truth(), {}
    rng = np.random.default_rng([seed, 27])
    levels = (False, True) if len(case.groups) > 2 else (False,)  # two groups are one hypothesis
    hits = {name: np.zeros((draws, len(levels), len(case.groups))) for name in MEASURES}
    for draw in range(draws):
        for place, together in enumerate(levels):
            for name, estimates in measures(case, rng, together=together).items():
                hits[name][draw, place] = [_holds(e, t) for e, t in zip(estimates, truth[name], strict=True)]
    for name, held in hits.items():
        known = ~np.isnan(held)
        count = known[:, 0].sum(axis=0)
        alone = np.divide(np.nansum(held[:, 0], axis=0), count, out=np.full(len(count), np.nan), where=count > 0)
        whole = known[:, -1].any(axis=1)
        together = float((held[:, -1][whole] != 0).all(axis=1).mean()) if whole.any() else np.nan
        found[name] = Covered(alone, together, float(1 - known.mean()))
    return found


def _holds(estimate: Estimate, truth: float) -> float:
    if np.isnan(estimate.low) or np.isnan(estimate.high):
        return np.nan
    slack = 1e-9 * (1 + abs(truth))  # with ties a limit can be the truth
    return float(estimate.low - slack <= truth <= estimate.high + slack)


def table_rows(draws: int, keep: Keep) -> list[str]:
    """Return the lines of the table of coverage."""
    lines = ["| scenario | contrast of medians | accuracy part | margin part |", "|---|---|---|---|"]
    return lines + [keep(f"measures: {title} {draws}", lambda t=title: _row(t, draws)) for title in CASES]


def _row(title: str, draws: int) -> str:
    cells = [_cell(covered) for covered in coverage(CASES[title], draws, seed=draws).values()]
    return f"| {title} | {' | '.join(cells)} |"


def _cell(covered: Covered) -> str:
    if covered.undefined > 0.9:
        return "no interval"
    low, high = np.nanmin(covered.alone), np.nanmax(covered.alone)
    alone = f"{low:.1%}" if len(covered.alone) == 2 and low == high else f"{low:.1%} to {high:.1%}"
    missing = f" ({covered.undefined:.0%} undefined)" if covered.undefined > 0.005 else ""
    return f"{alone}{missing}" if len(covered.alone) == 2 else f"{alone}; all {covered.together:.1%}{missing}"


NOTED: dict[str, Scenario] = {  # scenarios in which notes on the largest distances are counted
    **{title: SCENARIOS[title] for title in ("log-normal of width 1, 100 and 300", "Pareto 3, three groups of 300")},
    **{
        f"no difference: {title}": EQUAL[title]
        for title in ("two log-normal groups of 100 and 300", "Pareto 3, five groups of 100", "clusters")
    },
}


def note_rows(audits: int, keep: Keep) -> list[str]:
    """Return the lines of the table of notes on verdicts that depend on the 1 % largest distances."""
    lines = ["| scenario | audits with a note on the largest distances |", "|---|---|"]
    for title in NOTED:
        share = keep(f"notes: {title} {audits}", lambda t=title: f"{tail_notes(NOTED[t], audits):.0%}")
        lines.append(f"| {title} | {share} |")
    return lines


def tail_notes(draw: Scenario, audits: int) -> float:
    """Return the share of audits with a note that a verdict depends on the 1 % largest distances."""
    count = 0
    for seed in range(audits):
        case = draw(seed)
        result = audit(case.distances, case.partition, case.settings)
        count += any("largest distance" in warning for warning in result.warnings)
    return count / audits
