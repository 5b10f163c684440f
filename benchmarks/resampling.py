"""Time of a whole audit beside fairlearn's bootstrap and lifelines' survival analysis: `make bench-resampling`.

Writes docs/benchmarks-resampling.md. Every number of samples is measured in a process of its own, so that its peak
memory is known. Times are those of the processor, summed over threads, because machines are shared.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fairlearn.metrics import MetricFrame

import fairmargin as fm
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition

try:
    from lifelines import KaplanMeierFitter
    from lifelines.statistics import logrank_test
    from lifelines.utils import restricted_mean_survival_time
except ImportError:  # a library for this benchmark only
    KaplanMeierFitter = logrank_test = restricted_mean_survival_time = None

GROUPS, RESAMPLES = 100, 2_000
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
LARGEST_PEER = 1_000_000  # beyond it the peers take too long, and their times grow with the number of samples
ONCE = 1_000_000  # number of samples whose audit is promised to take 2 seconds and 500 MB
TARGET = Path(__file__).parent.parent / "docs" / "benchmarks-resampling.md"


def example(samples: int) -> tuple[np.ndarray, Partition]:
    """Return gamma distributed distances, a tenth of them 0, and groups of about equal size."""
    rng = np.random.default_rng(0)
    values = rng.gamma(2, 1, samples) * (rng.random(samples) < 0.9)
    return values, Partition("group", [f"g{i}" for i in range(GROUPS)], rng.integers(0, GROUPS, samples))


def seconds(call: Callable[[], object], rounds: int = 1) -> float:
    """Return the smallest time of the processor over some calls."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def fairlearn(values: np.ndarray, partition: Partition) -> float:
    """Return the seconds of fairlearn's bootstrap of the groups' means, from a few of its resamples."""
    few = 4 if len(values) <= 100_000 else 2

    def frame(resamples: int) -> MetricFrame:
        return MetricFrame(
            metrics=lambda y_true, y_pred: float(np.mean(y_pred)),
            y_true=values,
            y_pred=values,
            sensitive_features=partition.membership,
            n_boot=resamples,
            ci_quantiles=[0.025, 0.975],
            random_state=0,
        )

    return (seconds(lambda: frame(1 + few)) - seconds(lambda: frame(1))) / few * RESAMPLES


def lifelines(values: np.ndarray, partition: Partition) -> float:
    """Return the seconds of lifelines' curve and restricted mean of every group, and of its log-rank test."""
    few = 5 if len(values) <= 100_000 else 1
    up_to = float(np.quantile(values, 0.9))

    def analyse() -> None:
        for group in range(few):
            own = partition.membership == group
            restricted_mean_survival_time(KaplanMeierFitter().fit(values[own]), t=up_to)
            logrank_test(values[own], values[~own])

    return seconds(analyse) / few * GROUPS


def measure(samples: int) -> dict[str, float]:
    """Measure one number of samples. The peers are measured last, so that the peak of memory is that of the audit."""
    values, partition = example(samples)
    distances = Distances(values, values > 0, Bound.EXACT, Norm.L2)
    fm.audit(Distances(values[:300], values[:300] > 0, Bound.EXACT, Norm.L2), Partition.by("all", [0] * 300))  # imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {"audit": seconds(lambda: fm.audit(distances, partition), rounds=3)}
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found |= {"peak": after / 1024**2, "added": (after - before) / 1024**2}
    if samples <= LARGEST_PEER:
        found["fairlearn"] = fairlearn(values, partition)
        if KaplanMeierFitter is not None:
            found["lifelines"] = lifelines(values, partition)
    return found


def page(found: dict[int, dict[str, float]]) -> str:
    """Return the page: one row per number of samples."""

    def ratio(row: dict[str, float], peer: str) -> str:
        return f"{row[peer] / row['audit']:,.0f}×" if peer in row else "not measured"

    base = found[SIZES[0]]["audit"]
    lines = [
        "# Audits of many samples, measured",
        "",
        "Written by `make bench-resampling` (`benchmarks/resampling.py`): one run on one machine, gamma distributed",
        f"distances in {GROUPS} groups, time of the processor summed over threads. `fm.audit` gives means, σ and gaps",
        "of all groups with intervals and tests against the rest, the spread over groups and the curves",
        f"({RESAMPLES:,} resamples). Beside it: fairlearn's `MetricFrame(n_boot={RESAMPLES})` with the mean of every",
        "group (times of a few resamples, scaled), and lifelines' Kaplan–Meier curve, restricted mean and log-rank",
        "test of every group against its rest (times of a few groups, scaled).",
        "Ratios are times of the peer divided by the time of `fm.audit` of the same samples.",
        "",
        "| samples | `fm.audit` | relative to 10,000 samples | peak memory of the process | fairlearn | lifelines |",
        "|---|---|---|---|---|---|",
    ]
    for samples, row in found.items():
        lines.append(
            f"| {samples:,} | {row['audit']:.2f} s | {row['audit'] / base:.1f}× | {row['peak']:.2f} GB | "
            f"{ratio(row, 'fairlearn')} | {ratio(row, 'lifelines')} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure every number of samples and write the page."""
    found = {}
    for samples in SIZES:
        done = subprocess.run([sys.executable, __file__, str(samples)], check=True, capture_output=True, text=True)
        found[samples] = json.loads(done.stdout)
    TARGET.write_text(page(found), encoding="utf-8")
    sys.stdout.write(page(found))
    assert found[ONCE]["audit"] <= 2, "slower than promised"
    assert found[ONCE]["peak"] <= 0.5, "larger than promised"
    assert found[SIZES[-1]]["peak"] <= 4, "larger than promised"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.stdout.write(json.dumps(measure(int(sys.argv[1]))))
    else:
        main()
