"""What an audit found: frozen values that a report, a gate or a notebook reads."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.core.bound import Bound
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError
from fairmargin.metrics.kept import read, written
from fairmargin.metrics.undefined import Undefined, reason_of

LESS_ROBUST = "less robust"
MORE_ROBUST = "more robust"
NO_DIFFERENCE = "no significant difference"
TOO_FEW = "too few samples"
NOT_COMPARABLE = "not comparable"
VERDICTS = (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, TOO_FEW, NOT_COMPARABLE)

JUST_BEYOND_ZERO = 1e-12  # a limit that the correction for the number of groups moved to the other side of 0

_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its confidence interval and the direction of its measurement error.

    The interval speaks of sampling; `bound` of the estimator. NaN means undefined, and `reason` says why.
    """

    value: float
    low: float
    high: float
    bound: Bound
    reason: str = ""

    @classmethod
    def undefined(cls, reason: str, bound: Bound) -> "Estimate":
        """An estimate of something that does not exist here."""
        return cls(math.nan, math.nan, math.nan, bound, reason)

    @property
    def is_defined(self) -> bool:
        """Whether there is a value at all."""
        return not math.isnan(self.value)

    def __str__(self) -> str:
        if not self.is_defined:
            return f"undefined ({self.reason})" if self.reason else "undefined"
        low, high = (limit_text(end, lambda value: f"{value:.4g}", abs(self.value)) for end in (self.low, self.high))
        return f"{self.value:.4g} [{low}, {high}]"


def limit_text(limit: float, show: Callable[[float], str], size: float = 1.0) -> str:
    """Format a limit; one that would be rounded to 0, or lies just beyond it, is shown as below or above 0.

    `size` is that of the estimate, on which it depends what is "just beyond".

    >>> limit_text(-JUST_BEYOND_ZERO, "{:.1%}".format), limit_text(-0.3, "{:.1%}".format)
    ('below 0', '-30.0%')
    """
    text = show(limit)
    if limit == 0 or not math.isfinite(limit):
        return text
    if abs(limit) <= 10 * JUST_BEYOND_ZERO * size < math.inf or not any(digit in text for digit in "123456789"):
        return "below 0" if limit < 0 else "above 0"
    return text


@dataclass(frozen=True, slots=True, eq=False)
class GroupResult:
    """One row of an audit: a group against the rest."""

    group: str
    size: int
    accuracy: Estimate
    unreached: float  # share of the group without a finite distance
    robustness: Estimate  # Rob(P), the mean distance
    sigma: Estimate  # Rob(P) / Rob(rest) - 1; the interval holds for all groups at once and agrees with the verdict
    sigma_alone: Estimate  # the same with the interval of this group alone, as if no other had been looked at
    gap_to_rest: Estimate  # Rob(P) - Rob(rest), with an interval that holds for all groups at once
    p: float
    p_adjusted: float
    verdict: str  # one of VERDICTS
    finding: str  # the verdict as a sentence that names the kind of bound it rests on
    curve: RobustnessCurve
    band: float  # half-width of the confidence band of the curve
    dropped: float = 0.0  # share of the group's samples in strata without a counterpart


@dataclass(frozen=True, slots=True)
class OverallResult:
    """The partition as a whole."""

    size: int
    accuracy: Estimate
    robustness: Estimate  # Rob(f), the unweighted mean over the groups
    variance: Estimate  # V_f, debiased, with an interval that can hold 0
    relative_variance: Estimate  # V_f / Rob(f)^2
    largest_gap: Estimate  # max - min
    worst_group: str
    worst_robustness: Estimate
    p_equal: float  # that no group differs at all: the smallest corrected p


@dataclass(frozen=True, slots=True, eq=False)
class AuditResult:
    """Everything that an audit of one partition found.

    `to_frame()` is the table a person reads, `to_json()` and `from_json()` round-trip without loss.
    """

    partition: str
    groups: tuple[GroupResult, ...]
    overall: OverallResult
    bound: Bound
    norm: Norm
    subject: str
    confidence: float
    up_to: float  # the radius at which distances were capped; inf if they were not
    cap_reason: str = ""  # why, and how many distances it cuts
    control: str = ""  # name of the partition held constant
    clustered: bool = False
    method: str = ""  # how intervals and p-values were made, in words
    warnings: tuple[str, ...] = field(default=())

    def __iter__(self) -> Iterator[GroupResult]:
        return iter(self.groups)

    def __getitem__(self, group: str) -> GroupResult:
        for row in self.groups:
            if row.group == group:
                return row
        names = ", ".join(repr(row.group) for row in self.groups)
        raise InputError(f"Partition {self.partition!r} has no group {group!r}; it has {names}.")

    def to_frame(self) -> pd.DataFrame:
        """One row per group, every number in a column of its own."""
        return pd.DataFrame([{"partition": self.partition, **_flat(row), "up_to": self.up_to} for row in self.groups])

    def to_json(self) -> str:
        """A JSON text from which `from_json` makes the same result again."""
        return written(encode(self), _FORMAT)

    @classmethod
    def from_json(cls, text: str) -> "AuditResult":
        """The result that `to_json` wrote."""
        return read(
            text,
            _decode_result,
            version=_FORMAT,
            what="audit",
            writer="AuditResult.to_json",
            again="Run `fairmargin audit` again",
        )

    def __str__(self) -> str:
        lines = [f"{self.partition}: {self.bound.words}, {self.norm}, {self.overall.size:,} samples"]
        if math.isfinite(self.up_to):
            lines[0] += f", {radius_words(self.up_to)}"
            lines += [f"  {self.cap_reason}."] if self.cap_reason else []
        lines += [f"  {row.finding}" for row in self.groups]
        return "\n".join(lines)


def _flat(row: GroupResult) -> dict[str, Any]:
    columns: dict[str, Any] = {"group": row.group, "size": row.size}
    for name in ("accuracy", "robustness", "sigma", "gap_to_rest"):
        estimate: Estimate = getattr(row, name)
        columns |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    columns |= {"sigma_alone_low": row.sigma_alone.low, "sigma_alone_high": row.sigma_alone.high}
    return columns | {
        "unreached": row.unreached,
        "p": row.p,
        "p_adjusted": row.p_adjusted,
        "dropped": row.dropped,
        "bound": row.robustness.bound.value,
        "verdict": row.verdict,
        "finding": row.finding,
    }


def radius_of(up_to: float) -> str:
    """Name the radius up to which statements about capped distances hold; empty if they were not capped.

    >>> radius_of(0.7), radius_of(math.inf)
    ('up to a radius of 0.7', '')
    """
    return f"up to a radius of {up_to:.4g}" if math.isfinite(up_to) else ""


def radius_words(up_to: float) -> str:
    """Name the radius at which distances were capped, and what that means."""
    return f"{radius_of(up_to)} (distances beyond it count as {up_to:.4g})"


# JSON has no NaN and no infinity: NaN is null, infinity a word. ------------------------------------------------------


def encode(value: Any) -> Any:
    """Plain JSON values for any result of ours."""
    match value:
        case Bound() | Norm():
            return value.value
        case RobustnessCurve():
            return [encode(float(v)) for v in value.values]
        case Undefined():
            return {"undefined": reason_of(value)}
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case tuple() | list():
            return [encode(item) for item in value]
        case dict():
            return {key: encode(item) for key, item in value.items()}
        case np.generic():
            return encode(value.item())
    if hasattr(value, "__dataclass_fields__"):
        return {name: encode(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def decode_number(value: Any) -> float:
    """Decode a number that `encode` wrote. Refuse anything else, a number in a text too."""
    if value is None:
        return math.nan
    if isinstance(value, dict):
        return Undefined(decode_text(value["undefined"]))
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def decode_count(value: Any) -> int:
    """Decode a whole number from 0 on that `encode` wrote."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a number of samples")
    return value


def decode_text(value: Any, allowed: tuple[str, ...] | None = None) -> str:
    """A text that `encode` wrote; one of those allowed."""
    if not isinstance(value, str) or (allowed and value not in allowed):
        raise ValueError(f"{value!r} is not {'a text' if allowed is None else 'one of ' + ', '.join(allowed)}")
    return value


def decode_estimate(content: dict[str, Any]) -> Estimate:
    """The estimate that `encode` wrote."""
    value, low, high = (decode_number(content[name]) for name in ("value", "low", "high"))
    # Limits of a group without spread differ from its mean by rounding.
    slack = 1e-9 * max((abs(number) for number in (value, low, high) if math.isfinite(number)), default=0.0)
    if value < low - slack or value > high + slack or low > high + slack:
        raise ValueError(f"the value {value} and its interval from {low} to {high} contradict each other")
    return Estimate(value, low, high, Bound(content["bound"]), decode_text(content["reason"]))


def _decode_group(content: dict[str, Any]) -> GroupResult:
    numbers: dict[str, Any] = {
        n: decode_number(content[n]) for n in ("unreached", "p", "p_adjusted", "band", "dropped")
    }
    estimates = {
        n: decode_estimate(content[n]) for n in ("accuracy", "robustness", "sigma", "sigma_alone", "gap_to_rest")
    }
    return GroupResult(
        group=decode_text(content["group"]),
        size=decode_count(content["size"]),
        verdict=decode_text(content["verdict"], VERDICTS),
        finding=decode_text(content["finding"]),
        curve=RobustnessCurve([decode_number(v) for v in content["curve"]]),
        **numbers | estimates,
    )


def _decode_overall(content: dict[str, Any]) -> OverallResult:
    names = ("accuracy", "robustness", "variance", "relative_variance", "largest_gap", "worst_robustness")
    return OverallResult(
        size=decode_count(content["size"]),
        worst_group=decode_text(content["worst_group"]),
        p_equal=decode_number(content["p_equal"]),
        **{name: decode_estimate(content[name]) for name in names},
    )


def _decode_result(content: dict[str, Any]) -> AuditResult:
    texts = ("partition", "subject", "cap_reason", "control", "method")
    if not content["groups"] or not isinstance(content["warnings"], list):
        raise ValueError("an audit has groups, and a list of warnings")
    return AuditResult(
        clustered=bool(content["clustered"]),
        groups=tuple(_decode_group(row) for row in content["groups"]),
        overall=_decode_overall(content["overall"]),
        bound=Bound(content["bound"]),
        norm=Norm(content["norm"]),
        confidence=decode_number(content["confidence"]),
        up_to=decode_number(content["up_to"]),
        warnings=tuple(map(decode_text, content["warnings"])),
        **{name: decode_text(content[name]) for name in texts},
    )
