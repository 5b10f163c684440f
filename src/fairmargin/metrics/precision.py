"""What an audit to a precision found, and what it saved."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.metrics.bootstrap import Limits
from fairmargin.metrics.kept import read, written
from fairmargin.metrics.permutation import holm, hypotheses
from fairmargin.metrics.results import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    TOO_FEW,
    VERDICTS,
    Estimate,
    decode_count,
    decode_estimate,
    decode_number,
    decode_text,
    encode,
    limit_text,
    radius_words,
)
from fairmargin.metrics.simultaneous import simultaneous_limits
from fairmargin.metrics.undefined import Undefined

POPULATION, THESE_SAMPLES = "population", "these samples"
TARGETS = (POPULATION, THESE_SAMPLES)
_FEWEST = 30  # samples of a group, and of its rest, for a verdict: as many as a pilot needs
_FORMAT = 2


@dataclass(frozen=True, slots=True)
class PreciseGroup:
    """One group's mean distance, and its σ.

    Parameters
    ----------
    group, size
        Its name, and how many samples it has.
    robustness
        Rob(P), the mean of the reference's distance, with the interval of this group alone.
    sigma
        Rob(P)/Rob(rest) − 1, with an interval that holds for all groups at once: it excludes 0 exactly where the
        verdict is that the group is less or more robust.
    sigma_alone
        The same with the interval for this group alone. The precision asked for is that of this interval.
    cheap_samples, reference_samples
        How many samples the cheap estimator and the reference measured.
    plain_samples
        How many the reference would have to measure on its own, drawn at random, for the same error of Rob(P). More
        than `size` if there are not so many.
    correlation
        Of the reference's distance with what the cheap one predicts of it.
    met
        Whether the interval of `sigma_alone` is as short as asked, and can be trusted to be (see `unmet`).
    p, p_adjusted
        That the group is as robust as its rest, alone and corrected by Holm for the number of groups; NaN where σ has
        no interval.
    verdict
        What that says: one of `VERDICTS`, as in an audit.
    unmet
        Why `met` is not true; empty where it is.
    """

    group: str
    size: int
    robustness: Estimate
    sigma: Estimate
    sigma_alone: Estimate
    cheap_samples: int
    reference_samples: int
    plain_samples: float
    correlation: float
    met: bool
    p: float = math.nan
    p_adjusted: float = math.nan
    verdict: str = NOT_COMPARABLE
    unmet: str = ""

    @property
    def looked_at(self) -> int:
        """How many samples of the group any estimator has seen."""
        return max(self.cheap_samples, self.reference_samples)


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
        """Whether every group is as precise as asked."""
        return all(row.met for row in self.groups)

    @property
    def size(self) -> int:
        """How many samples all groups have."""
        return sum(row.size for row in self.groups)

    def to_frame(self) -> pd.DataFrame:
        """One row per group, every number in a column of its own."""
        rows = [{**_flat(row), "finding": self.finding(row)} for row in self.groups]
        return pd.DataFrame([{"partition": self.partition, **row, "up_to": self.up_to} for row in rows])

    def to_json(self) -> str:
        """A JSON text from which `from_json` makes the same result again."""
        return written(encode(self), _FORMAT)

    @classmethod
    def from_json(cls, text: str) -> "PrecisionResult":
        """The result that `to_json` wrote."""
        return read(
            text,
            _decode,
            version=_FORMAT,
            what="audit to a precision",
            writer="PrecisionResult.to_json",
            again="Run it again",
        )

    def finding(self, row: PreciseGroup) -> str:
        """A group's verdict as a sentence that names the kind of bound it rests on."""
        if row.verdict == TOO_FEW:
            return f"{row.group}: too few samples ({_FEWEST} of it, and of its rest, are needed for a verdict)."
        if row.verdict == NOT_COMPARABLE:
            return f"{row.group}: not comparable ({row.sigma.reason or 'σ has no interval'})."
        than = "from the rest" if row.verdict == NO_DIFFERENCE else "than the rest"
        sigma = row.sigma
        whose = " for all groups at once" if len(self.groups) > 2 else ""
        low, high = (limit_text(limit, "{:+.1%}".format) for limit in (sigma.low, sigma.high))
        size = f"σ = {sigma.value:+.1%}, {self.confidence:.0%} interval{whose} {low} to {high}"
        p = "p < 0.001" if row.p_adjusted < 0.001 else f"p = {row.p_adjusted:.3f}"
        radius = f" This holds {radius_words(self.up_to)}." if math.isfinite(self.up_to) else ""
        return f"{row.group}: {row.verdict} {than}, by {self.bound.words} ({size}; {p}).{radius}"

    @property
    def saving(self) -> str:
        """What was saved, in a sentence."""
        reference = sum(row.reference_samples for row in self.groups)
        words = f"{self.reference} measured {reference:,} of {self.size:,} samples"
        if self.cheap:
            words += f", {self.cheap} {sum(row.cheap_samples for row in self.groups):,}"
        small = (
            " Trials and filled-up tiles count: so small a pool does not pay." if self.spent > self.full_cost else ""
        )
        return (
            f"{words}: {_times(self.plain_cost, self.spent)} the compute of a plain random part of the samples that is "
            f"as precise, {_times(self.full_cost, self.spent)} that of all samples.{small}"
        )

    def __str__(self) -> str:
        lines = [f"{self.partition}: σ to ±{self.precision:g} ({self.confidence:.0%}) for {_spelled(self.target)}"]
        lines[0] += f", {radius_words(self.up_to)}" if math.isfinite(self.up_to) else ""
        for row in self.groups:
            short = "" if row.met else "  (not as precise as asked)"
            sigma = f"{row.sigma}, alone [{row.sigma_alone.low:.4g}, {row.sigma_alone.high:.4g}]"
            lines.append(f"  {row.group}: Rob {row.robustness}, σ {sigma}, {row.verdict}{short}")
        return "\n".join([*lines, f"  {self.saving}", *(f"  {note}" for note in self.notes)])


def judged(
    groups: Sequence[PreciseGroup], p: Floats, limits_at: Callable[[float], Limits], confidence: float
) -> tuple[PreciseGroup, ...]:
    """Return the groups with their verdicts, and with intervals of σ that hold for all groups at once.

    Guarantee: with probability `confidence` no group at all is wrongly called less or more robust, however the groups
    depend on each other (Holm's correction), as far as each p is right; two groups against each other are one question.
    The interval of `sigma` excludes 0 exactly where a group is called so.

    Parameters
    ----------
    groups
        Without verdicts; `sigma` and `sigma_alone` are the same.
    p
        Of each group against its rest, see `log_contrast`.
    limits_at
        Limits of σ at level 1 − its argument, of which p is the inverse.
    confidence
        A difference is one if its corrected p is below 1 − confidence.
    """
    seen = np.array([row.looked_at for row in groups])
    enough = np.minimum(seen, seen.sum() - seen) >= _FEWEST
    tested = enough & np.isfinite(p)
    alone = np.where(tested, p, np.nan)
    questions = hypotheses(tested)
    adjusted = holm(alone, questions)
    value = np.array([row.sigma.value for row in groups])
    limits = simultaneous_limits(
        limits_at,
        value,
        adjusted,
        alpha=1 - confidence,
        hypotheses=questions,
        intervals=hypotheses(np.ones_like(tested)),
    )
    rows = []
    columns = (alone, adjusted, enough, limits.low, limits.high)
    for row, one, corrected, many, low, high in zip(groups, *(column.tolist() for column in columns), strict=True):
        verdict = _verdict(row, corrected, many, confidence)
        if math.isnan(corrected):
            few = f"{_FEWEST} samples of the group, and of its rest, are needed for a test"
            one = corrected = Undefined(few if verdict == TOO_FEW else row.sigma.reason or "σ has no interval")
        has_interval = not math.isnan(row.sigma_alone.low + row.sigma_alone.high)
        sigma = replace(row.sigma, low=low, high=high) if has_interval else row.sigma
        rows.append(replace(row, sigma=sigma, p=one, p_adjusted=corrected, verdict=verdict))
    return tuple(rows)


def _verdict(row: PreciseGroup, adjusted: float, enough: bool, confidence: float) -> str:
    if not row.sigma.is_defined:
        return NOT_COMPARABLE
    if not enough:
        return TOO_FEW
    if math.isnan(adjusted):
        return NOT_COMPARABLE
    if adjusted < 1 - confidence:
        return LESS_ROBUST if row.sigma.value < 0 else MORE_ROBUST
    return NO_DIFFERENCE


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
        "sigma_alone_low": row.sigma_alone.low,
        "sigma_alone_high": row.sigma_alone.high,
        "cheap_samples": row.cheap_samples,
        "reference_samples": row.reference_samples,
        "plain_samples": row.plain_samples,
        "correlation": row.correlation,
        "met": row.met,
        "unmet": row.unmet,
        "p": row.p,
        "p_adjusted": row.p_adjusted,
        "bound": row.robustness.bound.value,
        "verdict": row.verdict,
    }


def _decode(content: dict[str, Any]) -> PrecisionResult:
    if not content["groups"] or not isinstance(content["notes"], list):
        raise ValueError("an audit to a precision has groups, and a list of notes")
    numbers = ("precision", "confidence", "spent", "plain_cost", "full_cost", "up_to")
    return PrecisionResult(
        partition=decode_text(content["partition"]),
        groups=tuple(_decode_group(row) for row in content["groups"]),
        target=decode_text(content["target"], TARGETS),
        reference=decode_text(content["reference"]),
        cheap=decode_text(content["cheap"]),
        bound=Bound(content["bound"]),
        norm=Norm(content["norm"]),
        rounds=decode_count(content["rounds"]),
        notes=tuple(map(decode_text, content["notes"])),
        **{name: decode_number(content[name]) for name in numbers},
    )


def _decode_group(content: dict[str, Any]) -> PreciseGroup:
    counts: dict[str, Any] = {
        name: decode_count(content[name]) for name in ("size", "cheap_samples", "reference_samples")
    }
    numbers = {name: decode_number(content[name]) for name in ("plain_samples", "correlation", "p", "p_adjusted")}
    estimates = {name: decode_estimate(content[name]) for name in ("robustness", "sigma", "sigma_alone")}
    if not isinstance(content["met"], bool):
        raise TypeError(f"{content['met']!r} is not true or false")
    return PreciseGroup(
        group=decode_text(content["group"]),
        met=content["met"],
        verdict=decode_text(content["verdict"], VERDICTS),
        unmet=decode_text(content["unmet"]),
        **counts | numbers | estimates,
    )
