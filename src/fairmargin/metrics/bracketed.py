"""What a bracket found: frozen values that a report or a notebook reads."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.metrics.kept import read, written
from fairmargin.metrics.results import (
    NOT_COMPARABLE,
    TOO_FEW,
    decode_count,
    decode_number,
    decode_text,
    encode,
    radius_words,
)

CERTAINLY_LESS = "certainly less robust"
CERTAINLY_MORE = "certainly more robust"
CERTAINLY_LESS_HERE = "certainly less robust in these samples"
CERTAINLY_MORE_HERE = "certainly more robust in these samples"
NOT_CERTAIN = "not certain"
CERTAINTIES = (
    CERTAINLY_LESS,
    CERTAINLY_MORE,
    CERTAINLY_LESS_HERE,
    CERTAINLY_MORE_HERE,
    NOT_CERTAIN,
    TOO_FEW,
    NOT_COMPARABLE,
)

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Range:
    """Limits between which a number lies: for these samples for certain, for the population with some confidence."""

    low: float
    high: float
    population_low: float
    population_high: float

    @classmethod
    def unknown(cls) -> "Range":
        """Nothing is known."""
        return cls(math.nan, math.nan, math.nan, math.nan)

    @property
    def is_known(self) -> bool:
        """Whether there are limits at all."""
        return not math.isnan(self.low)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:.4g} to {self.high:.4g}" if self.is_known else "unknown"


@dataclass(frozen=True, slots=True)
class GroupBracket:
    """One group between its bounds.

    Parameters
    ----------
    robustness, gap, sigma
        Rob(P), Rob(P) − Rob(rest) and Rob(P)/Rob(rest) − 1.
    p, p_adjusted
        That the population's gap has the other sign, by the bounds least in favour of a gap; corrected by Holm.
    verdict, finding
        One of `CERTAINTIES`, and the same as a sentence.
    """

    group: str
    size: int
    robustness: Range
    gap: Range
    sigma: Range
    p: float
    p_adjusted: float
    verdict: str
    finding: str

    @property
    def is_certain(self) -> bool:
        """Whether the bounds alone decide which side is more robust."""
        return self.verdict in CERTAINTIES[:4]


@dataclass(frozen=True, slots=True)
class Bracket:
    """Between what limits the robustness of every group of a partition lies.

    Parameters
    ----------
    variance
        Limits of V_f, the variance of Rob(P) over the groups, for these samples.
    share_closed
        Of the samples whose bounds are equal, so that their distance is known.
    crossed
        Samples of a smoothed model whose certificate exceeds the attack's distance: one of both was wrong by chance.
    up_to
        The radius at which distances were capped: everything here holds for min(distance, up_to). `inf` if they were
        not.
    cap_reason
        Why they were capped, and how many finite upper bounds that cuts.
    """

    partition: str
    groups: tuple[GroupBracket, ...]
    variance: tuple[float, float]
    share_closed: float
    crossed: int
    norm: Norm
    subject: str
    confidence: float
    up_to: float
    cap_reason: str = ""

    def __iter__(self) -> Iterator[GroupBracket]:
        return iter(self.groups)

    def __getitem__(self, group: str) -> GroupBracket:
        for row in self.groups:
            if row.group == group:
                return row
        names = ", ".join(repr(row.group) for row in self.groups)
        raise InputError(f"Partition {self.partition!r} has no group {group!r}; it has {names}.")

    def to_frame(self) -> pd.DataFrame:
        """One row per group, every limit in a column of its own."""
        rows = []
        for row in self.groups:
            columns: dict[str, Any] = {"partition": self.partition, "group": row.group, "size": row.size}
            for name in ("robustness", "gap", "sigma"):
                limits: Range = getattr(row, name)
                columns |= {f"{name}_{side}": getattr(limits, side) for side in limits.__dataclass_fields__}
            columns |= {"p_adjusted": row.p_adjusted, "verdict": row.verdict, "finding": row.finding}
            rows.append(columns | {"up_to": self.up_to})
        return pd.DataFrame(rows)

    def to_json(self) -> str:
        """A JSON text from which `from_json` makes the same value again."""
        return written(encode(self), _FORMAT)

    @classmethod
    def from_json(cls, text: str) -> "Bracket":
        """The value that `to_json` wrote."""
        return read(
            text,
            _decode,
            version=_FORMAT,
            what="bracket",
            writer="Bracket.to_json",
            again="Run `fairmargin audit` again",
        )

    def __str__(self) -> str:
        whose = "" if self.subject == "model" else f", {self.subject}"
        lines = [f"{self.partition}: between a lower and an upper bound, {self.norm}{whose}"]
        if math.isfinite(self.up_to):
            lines[0] += f", {radius_words(self.up_to)}"
            lines += [f"  {self.cap_reason}."] if self.cap_reason else []
        if self.crossed:
            lines.append(
                f"  In {self.crossed:,} samples a certificate exceeds the attack's distance: one of both was wrong by "
                "chance; they count from 0 to the larger."
            )
        return "\n".join(lines + [f"  {row.finding}" for row in self.groups])


def _decode(content: dict[str, Any]) -> Bracket:
    low, high = content["variance"]
    return Bracket(
        partition=decode_text(content["partition"]),
        groups=tuple(map(_group, content["groups"])),
        variance=(decode_number(low), decode_number(high)),
        share_closed=decode_number(content["share_closed"]),
        crossed=decode_count(content["crossed"]),
        norm=Norm(content["norm"]),
        subject=decode_text(content["subject"]),
        confidence=float(content["confidence"]),
        up_to=decode_number(content["up_to"]),
        cap_reason=decode_text(content["cap_reason"]),
    )


def _group(content: dict[str, Any]) -> GroupBracket:
    robustness, gap, sigma = (
        Range(**{side: decode_number(value) for side, value in content[name].items()})
        for name in ("robustness", "gap", "sigma")
    )
    return GroupBracket(
        group=decode_text(content["group"]),
        size=decode_count(content["size"]),
        robustness=robustness,
        gap=gap,
        sigma=sigma,
        p=decode_number(content["p"]),
        p_adjusted=decode_number(content["p_adjusted"]),
        verdict=decode_text(content["verdict"], CERTAINTIES),
        finding=decode_text(content["finding"]),
    )
