"""Whether an attack was strong enough: frozen values that a report or a notebook reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.metrics.alarms import ALARMS, Alarm
from fairmargin.metrics.kept import read, written
from fairmargin.metrics.results import (
    TOO_FEW,
    Estimate,
    decode_count,
    decode_estimate,
    decode_number,
    decode_text,
    encode,
)

SETTLED = "settled"
NOT_SETTLED = "not settled"
UNDECIDED = "undecided"
NOTHING = "nothing to settle"
SETTLEMENTS = (SETTLED, NOT_SETTLED, UNDECIDED, TOO_FEW, NOTHING)

_FORMAT = 2


@dataclass(frozen=True, slots=True)
class GroupAdequacy:
    """One group under a rising budget.

    Parameters
    ----------
    size, of
        How many of its samples were looked at, of how many.
    distances
        What the audit found for these samples, ascending.
    means
        The mean of the best distances found up to each budget.
    means_alone
        The mean of the distances found at each budget alone: a larger budget may end elsewhere, and farther away.
    sigmas, sigmas_alone
        σ against the rest, of the same two.
    mean_change
        The best mean over all budgets relative to the audited one, minus 1; never above 0.
    sigma_change
        σ of the best over all budgets minus σ of the audited budget: what the verdict rests on.
    last_change
        σ of the best up to the last budget minus that up to the one before.
    verdict, finding
        One of `SETTLEMENTS`, and the same as a sentence.
    """

    group: str
    size: int
    of: int
    distances: tuple[float, ...]
    means: tuple[Estimate, ...]
    means_alone: tuple[float, ...]
    sigmas: tuple[float, ...]
    sigmas_alone: tuple[float, ...]
    mean_change: Estimate
    sigma_change: Estimate
    last_change: Estimate
    verdict: str
    finding: str
    alarms: tuple[Alarm, ...]

    @property
    def raised(self) -> tuple[Alarm, ...]:
        """The alarms whose share exceeds their threshold."""
        return tuple(alarm for alarm in self.alarms if alarm.raised)


@dataclass(frozen=True, slots=True)
class Adequacy:
    """Whether the gaps between groups are those of the model or of the attack.

    Parameters
    ----------
    estimator
        The estimator, as it is spelled in options.
    budgets
        What each budget is called, least first; none where there is nothing to settle.
    audited
        Which of them is the audit's.
    tolerance
        By how much σ may change and still count as settled.
    """

    partition: str
    estimator: str
    budgets: tuple[str, ...]
    audited: int
    groups: tuple[GroupAdequacy, ...]
    verdict: str
    finding: str
    bound: Bound
    norm: Norm
    confidence: float
    tolerance: float
    up_to: float

    def __iter__(self) -> Iterator[GroupAdequacy]:
        return iter(self.groups)

    def __getitem__(self, group: str) -> GroupAdequacy:
        for row in self.groups:
            if row.group == group:
                return row
        names = ", ".join(repr(row.group) for row in self.groups)
        raise InputError(f"Partition {self.partition!r} has no group {group!r}; it has {names}.")

    @property
    def alarmed(self) -> tuple[GroupAdequacy, ...]:
        """The groups for which an alarm was raised."""
        return tuple(row for row in self.groups if row.raised)

    def to_frame(self) -> pd.DataFrame:
        """One row a group and budget."""
        return pd.DataFrame(
            {
                "partition": self.partition,
                "group": row.group,
                "size": row.size,
                "of": row.of,
                "budget": budget,
                "audited": i == self.audited,
                "mean": row.means[i].value,
                "mean_low": row.means[i].low,
                "mean_high": row.means[i].high,
                "mean_alone": row.means_alone[i],
                "sigma": row.sigmas[i],
                "sigma_alone": row.sigmas_alone[i],
                "verdict": row.verdict,
                "alarms": ", ".join(alarm.kind for alarm in row.raised),
            }
            for row in self.groups
            for i, budget in enumerate(self.budgets)
        )

    def to_json(self) -> str:
        """A JSON text from which `from_json` makes the same value again."""
        return written(encode(self), _FORMAT)

    @classmethod
    def from_json(cls, text: str) -> "Adequacy":
        """The value that `to_json` wrote."""
        return read(
            text,
            _decode,
            version=_FORMAT,
            what="adequacy",
            writer="Adequacy.to_json",
            again="Run `fairmargin audit` again",
        )

    def __str__(self) -> str:
        lines = [f"{self.partition}, {self.estimator}: {self.finding}"]
        for row in self.groups:
            lines.append(f"  {row.finding}")
            lines += [f"    {alarm.sentence}" for alarm in row.raised]
        return "\n".join(lines)


def _decode(content: dict[str, Any]) -> Adequacy:
    budgets = tuple(map(decode_text, content["budgets"]))
    return Adequacy(
        budgets=budgets,
        audited=decode_count(content["audited"]),
        groups=tuple(_group(row, len(budgets)) for row in content["groups"]),
        verdict=decode_text(content["verdict"], SETTLEMENTS),
        bound=Bound(content["bound"]),
        norm=Norm(content["norm"]),
        partition=decode_text(content["partition"]),
        estimator=decode_text(content["estimator"]),
        finding=decode_text(content["finding"]),
        confidence=decode_number(content["confidence"]),
        tolerance=decode_number(content["tolerance"]),
        up_to=decode_number(content["up_to"]),
    )


def _group(content: dict[str, Any], budgets: int) -> GroupAdequacy:
    means = tuple(map(decode_estimate, content["means"]))
    alone, sigmas, sigmas_alone = (
        tuple(map(decode_number, content[name])) for name in ("means_alone", "sigmas", "sigmas_alone")
    )
    if {len(means), len(alone), len(sigmas), len(sigmas_alone)} != {budgets}:
        raise ValueError(f"every group has a number for each of {budgets} budgets")
    return GroupAdequacy(
        group=decode_text(content["group"]),
        size=decode_count(content["size"]),
        of=decode_count(content["of"]),
        distances=tuple(map(decode_number, content["distances"])),
        means=means,
        means_alone=alone,
        sigmas=sigmas,
        sigmas_alone=sigmas_alone,
        mean_change=decode_estimate(content["mean_change"]),
        sigma_change=decode_estimate(content["sigma_change"]),
        last_change=decode_estimate(content["last_change"]),
        verdict=decode_text(content["verdict"], SETTLEMENTS),
        finding=decode_text(content["finding"]),
        alarms=tuple(map(_alarm, content["alarms"])),
    )


def _alarm(content: dict[str, Any]) -> Alarm:
    kind = decode_text(content["kind"], ALARMS)
    hits, of = decode_count(content["hits"]), decode_count(content["of"])
    return Alarm(kind, hits, of, decode_estimate(content["share"]), decode_number(content["threshold"]))
