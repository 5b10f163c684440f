"""Robust accuracy at a radius, group by group: frozen values that a table, a gate or a notebook reads."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairmargin.analyses.attacked import (
    EveryoneUnderAttack,
    GroupUnderAttack,
    at_most,
    decode_everyone,
    decode_group,
    flat,
    share_text,
)
from fairmargin.core.bound import Bound
from fairmargin.core.codec import decode_number, decode_text, encode, read
from fairmargin.core.norm import Norm
from fairmargin.core.radius import spelled_radius
from fairmargin.errors import InputError

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustAccuracy:
    """What an attack at a radius did to every group of a partition.

    An attack that finds nothing does not prove that there is nothing: robust accuracy is at most what is shown, and
    its `bound` says so. `to_frame()` is the table a person reads, `to_json()` and `from_json()` round-trip.

    Parameters
    ----------
    radius, smallest_radius
        Equal, unless samples have radii of their own: then the largest and the smallest.
    bound
        On which side of the truth robust accuracy lies: UPPER for attacks, LOWER for certificates.
    control, clustered, method
        As in an audit: what was held constant, whether samples were taken as clusters, how intervals were made.

    `plain_gap`, `plain_vcra` and `plain_vca` are of the observed accuracies, as papers print them; `overall` has the
    same without what noise adds.
    """

    partition: str
    attack: str
    norm: Norm
    radius: float
    smallest_radius: float
    groups: tuple[GroupUnderAttack, ...]
    overall: EveryoneUnderAttack
    bound: Bound
    confidence: float
    control: str = ""
    clustered: bool = False
    method: str = ""
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[GroupUnderAttack]:
        return iter(self.groups)

    def __getitem__(self, group: str) -> GroupUnderAttack:
        for row in self.groups:
            if row.group == group:
                return row
        names = ", ".join(repr(row.group) for row in self.groups)
        raise InputError(f"Partition {self.partition!r} has no group {group!r}; it has {names}.")

    @property
    def plain_vcra(self) -> float:
        """(1/L) Σ (p_i − p̄)² of the observed robust accuracies, as papers print it: noise makes it too large."""
        return float(np.var([row.robust_accuracy.value for row in self.groups]))

    @property
    def plain_vca(self) -> float:
        """The same of natural accuracy."""
        return float(np.var([row.natural_accuracy.value for row in self.groups]))

    @property
    def plain_gap(self) -> float:
        """Largest minus smallest of the observed robust accuracies: noise makes it too large."""
        shares = [row.robust_accuracy.value for row in self.groups]
        return max(shares) - min(shares)

    @property
    def title(self) -> str:
        """What was done, in half a sentence."""
        return f"{self.partition}: {self.attack} at radius {self.radius_text} in {self.norm}"

    @property
    def radius_text(self) -> str:
        """The radius as one says it."""
        if self.smallest_radius != self.radius:
            return f"{spelled_radius(self.smallest_radius)} to {spelled_radius(self.radius)}"
        return spelled_radius(self.radius)

    def to_frame(self) -> pd.DataFrame:
        """One row per group, every number in a column of its own."""
        about = {"partition": self.partition, "attack": self.attack, "norm": self.norm.value, "radius": self.radius}
        return pd.DataFrame([about | flat(row) for row in self.groups])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON knows them."""
        plain = {"plain_vcra": self.plain_vcra, "plain_vca": self.plain_vca, "plain_gap": self.plain_gap}
        return {"format": _FORMAT, **encode(self), **plain}

    def to_json(self) -> str:
        """A JSON text from which `from_json` makes the same value again."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "RobustAccuracy":
        """The value that `to_json` wrote."""
        return read(
            text,
            _decode,
            version=_FORMAT,
            what="robust accuracy",
            writer="RobustAccuracy.to_json",
            again="Run `fairmargin attack` again, or `fm.robust_accuracy`",
        )

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.title}, {self.overall.size:,} samples", *_table(self), *summary_of(self), *self.warnings]
        )


def summary_of(found: RobustAccuracy) -> list[str]:
    """The partition as a whole, in a few lines."""
    whole, hedge = found.overall, at_most(found.bound)
    p = "" if math.isnan(whole.p_equal) else f"; all groups equal: p {_p_text(whole.p_equal)}"
    return [
        f"all samples: natural error {whole.natural_error:.1%} + boundary error {whole.boundary_error:.1%} = robust "
        f"error {whole.robust_error:.1%}; robust accuracy {hedge}{share_text(whole.robust_accuracy)}",
        f"mean over groups {hedge}{share_text(whole.mean_accuracy)}; worst group {whole.worst_group!r}, "
        f"{hedge}{share_text(whole.worst_accuracy)}{_whose_interval(found)}",
        f"{gap_text(found)}; VCRA {whole.vcra} (with its noise, {found.plain_vcra:.4g}); VCA {whole.vca} "
        f"({found.plain_vca:.4g}); coefficient of variation {whole.variation}{p}",
    ]


def gap_text(found: RobustAccuracy) -> str:
    """Largest minus smallest robust accuracy: as the table shows it, and what is left of it without noise.

    The largest of several noisy numbers minus the smallest is too large on average, even where all groups are equal.
    """
    gap = found.overall.gap
    if not gap.is_defined:
        return f"gap {share_text(gap)}"
    return f"gap in these samples {found.plain_gap:.1%}; without its noise {share_text(gap)}"


def _whose_interval(found: RobustAccuracy) -> str:
    """Why the interval of the worst group is another one here than in its row."""
    if len(found.groups) < 2:
        return ""
    return " (this interval is for whichever group is truly the worst, the one in the table for this group alone)"


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _table(found: RobustAccuracy) -> list[str]:
    """Columns of text, the worst group first."""
    head = ("group", "size", "natural", "boundary", "robust error", f"robust accuracy {at_most(found.bound)}".strip())
    rows = [
        (
            row.group,
            f"{row.size:,}",
            f"{row.natural_error:.1%}",
            f"{row.boundary_error:.1%}",
            f"{row.robust_error:.1%}",
            share_text(row.robust_accuracy),
            row.verdict,
        )
        for row in sorted(found.groups, key=lambda row: row.robust_accuracy.value)
    ]
    cells = [(*head, "verdict"), *rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    return [
        "  "
        + line[0].ljust(widths[0])
        + "".join(f"  {text.rjust(width)}" for text, width in zip(line[1:-1], widths[1:], strict=True))
        + f"  {line[-1]}"
        for line in cells
    ]


def _decode(content: dict[str, Any]) -> RobustAccuracy:
    if not content["groups"] or not isinstance(content["warnings"], list):
        raise ValueError("there are no groups, or no list of warnings")
    return RobustAccuracy(
        groups=tuple(map(decode_group, content["groups"])),
        overall=decode_everyone(content["overall"]),
        norm=Norm(content["norm"]),
        radius=decode_number(content["radius"]),
        smallest_radius=decode_number(content["smallest_radius"]),
        bound=Bound(content["bound"]),
        confidence=float(content["confidence"]),
        clustered=bool(content["clustered"]),
        warnings=tuple(map(decode_text, content["warnings"])),
        **{name: decode_text(content[name]) for name in ("partition", "attack", "control", "method")},
    )
