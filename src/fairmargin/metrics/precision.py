"""What an audit to a precision found, and what it saved."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.metrics.results import Estimate

POPULATION, THESE_SAMPLES = "population", "these samples"
TARGETS = (POPULATION, THESE_SAMPLES)


@dataclass(frozen=True, slots=True)
class PreciseGroup:
    """One group's mean distance, and its σ.

    Parameters
    ----------
    group, size
        Its name, and how many samples it has.
    robustness, sigma
        Rob(P), the mean of the reference's distance, and Rob(P)/Rob(rest) − 1, each with its interval.
    cheap_samples, reference_samples
        How many samples the cheap estimator and the reference measured.
    plain_samples
        How many the reference would have to measure on its own, drawn at random, for the same error of Rob(P). More
        than `size` if there are not so many.
    correlation
        Of the reference's distance with what the cheap one predicts of it.
    met
        Whether the interval is as short as asked.
    """

    group: str
    size: int
    robustness: Estimate
    sigma: Estimate
    cheap_samples: int
    reference_samples: int
    plain_samples: float
    correlation: float
    met: bool


@dataclass(frozen=True, slots=True)
class PrecisionResult:
    """Every group's robustness and σ to a precision, and what it took.

    Costs are passes through the model, forward and backward, of all samples together.

    Parameters
    ----------
    precision, confidence, target
        What was asked: half the width of every group's σ (of Rob, relative to it, where there is one group), how
        confident, and whether it is about the population or these samples.
    cheap
        The cheap estimator that the pilot preferred; empty if none paid.
    spent
        By all estimators on all samples, the pilot and the trial of costs included.
    plain_cost
        Of the reference on a random part of each group that gives the same errors.
    full_cost
        Of the reference on every sample.
    rounds
        Of drawing samples, the pilot among them.
    """

    partition: str
    groups: tuple[PreciseGroup, ...]
    precision: float
    confidence: float
    target: str
    reference: str
    cheap: str
    bound: Bound
    norm: Norm
    spent: float
    plain_cost: float
    full_cost: float
    rounds: int
    up_to: float
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[PreciseGroup]:
        return iter(self.groups)

    def __getitem__(self, group: str) -> PreciseGroup:
        for row in self.groups:
            if row.group == group:
                return row
        names = ", ".join(repr(row.group) for row in self.groups)
        raise InputError(f"Partition {self.partition!r} has no group {group!r}; it has {names}.")

    @property
    def met(self) -> bool:
        """Whether every group's interval is as short as asked."""
        return all(row.met for row in self.groups)

    def to_frame(self) -> pd.DataFrame:
        """One row per group, every number in a column of its own."""
        return pd.DataFrame([{"partition": self.partition, **_flat(row)} for row in self.groups])

    @property
    def saving(self) -> str:
        """What was saved, in a sentence."""
        reference = sum(row.reference_samples for row in self.groups)
        size = sum(row.size for row in self.groups)
        words = f"{self.reference} measured {reference:,} of {size:,} samples"
        if self.cheap:
            words += f", {self.cheap} {sum(row.cheap_samples for row in self.groups):,}"
        return (
            f"{words}: {_times(self.plain_cost, self.spent)} the compute of a plain random part of the samples that is "
            f"as precise, {_times(self.full_cost, self.spent)} that of all samples."
        )

    def __str__(self) -> str:
        lines = [f"{self.partition}: σ to ±{self.precision:g} ({self.confidence:.0%}) for {_spelled(self.target)}"]
        for row in self.groups:
            short = "" if row.met else "  (not as precise as asked)"
            lines.append(f"  {row.group}: Rob {row.robustness}, σ {row.sigma}{short}")
        return "\n".join([*lines, f"  {self.saving}", *(f"  {note}" for note in self.notes)])


def _times(other: float, spent: float) -> str:
    """How this compares, in words that are right on either side of 1."""
    ratio = other / spent if spent > 0 else float("inf")
    return f"{ratio:.1f}× less than" if ratio >= 1 else f"{1 / ratio:.1f}× more than"


def _spelled(target: str) -> str:
    return "the population" if target == POPULATION else target


def _flat(row: PreciseGroup) -> dict[str, Any]:
    columns: dict[str, Any] = {"group": row.group, "size": row.size}
    for name in ("robustness", "sigma"):
        estimate: Estimate = getattr(row, name)
        columns |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return columns | {
        "cheap_samples": row.cheap_samples,
        "reference_samples": row.reference_samples,
        "plain_samples": row.plain_samples,
        "correlation": row.correlation,
        "met": row.met,
        "bound": row.robustness.bound.value,
    }
