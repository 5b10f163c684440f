"""Populations with far samples and known truth, on which audits to a precision are tried out.

`python -m tests.metrics.precision_scenarios 2000 [far|ordinary]` prints the tables of docs/inference.md.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.metrics.to_precision import REFERENCE, Answer, Question, to_precision

ACCURACY = 0.9
Cheap = Callable[[np.random.Generator, Floats, Floats], Floats]  # from distances without and with far samples

# What the cheap estimator makes of the base distances b and of the reference's distances r.
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
    times: float = 10.0  # how many times as far the far samples lie
    share: float = 0.02  # of the samples of a group that has far ones
    groups: int | None = None  # the first so many groups have far samples; None: all
    finite: bool = False
    precision: float = 0.2
    shape: str = "gamma"
    pilot: int = 30

    def draw(self, seed: int) -> tuple[Answer, Floats]:
        """One audit, and the true mean of each group."""
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

        def ask(which: int, rows: Ints) -> Distances:
            values = r if which == REFERENCE else c
            return Distances(values[rows], correct[rows], "upper" if which == REFERENCE else "neither", "l2")

        partition = Partition("group", [f"g{g}" for g in range(count)], group)
        keys = rng.integers(0, 2**63, n).astype(np.uint64)
        asked = Question(self.precision, 0.95, self.finite, self.pilot, np.inf, (3.0, 100.0))
        answer = to_precision(ask, partition, keys, asked)
        truth = np.bincount(group, weights=r) / self.sizes if self.finite else ACCURACY * (1 + share * (self.times - 1))
        return answer, truth


def sigma_of(truth: Floats, sizes: tuple[int, ...]) -> Floats:
    """Each group's σ from the means."""
    size = np.array(sizes, dtype=float)
    total = truth @ size
    return truth / ((total - truth * size) / (size.sum() - size)) - 1


@dataclass(frozen=True)
class Found:
    """Over all audits: what is covered, by group, and what it took."""

    covered: Floats  # of the intervals there are
    covered_met: Floats  # of those reported as met
    given: float  # share of groups with an interval
    met: float  # share of groups
    references: float  # a group
    rounds: float


def tried(scenario: Scenario, audits: int, first: int = 0) -> Found:
    """Audit again and again."""
    rows = []
    for seed in range(first, first + audits):
        answer, truth = scenario.draw(seed)
        sigma, contrast = sigma_of(truth, scenario.sizes), answer.contrast
        met = contrast.half_width <= scenario.precision if not hasattr(answer, "met") else answer.met
        inside = (contrast.sigma_low <= sigma + 1e-9) & (sigma <= contrast.sigma_high + 1e-9)
        given = np.isfinite(contrast.sigma_low) & np.isfinite(contrast.sigma_high)
        rows.append((inside, met, given, answer.means.measured.astype(float), np.full(len(met), answer.rounds)))
    inside, met, given, measured, rounds = (np.array(column) for column in zip(*rows, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        covered = (inside & given).sum(axis=0) / given.sum(axis=0)
        covered_met = (inside & met).sum(axis=0) / met.sum(axis=0)
    return Found(covered, covered_met, given.mean(), met.mean(), measured.mean(), rounds.mean())
