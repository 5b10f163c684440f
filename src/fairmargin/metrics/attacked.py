"""A group under attack: who was wrong already, who was fooled, who withstood, and how that compares."""

import math
from dataclasses import dataclass
from typing import Any

from fairmargin.core.bound import Bound
from fairmargin.metrics.results import VERDICTS, Estimate, decode_count, decode_estimate, decode_number, decode_text

_ESTIMATES = ("natural_accuracy", "robust_accuracy", "gap_to_rest")
_SPREADS = ("mean_accuracy", "vcra", "vca", "gap", "variation", "worst_accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Who was wrong already, who was fooled, and who withstood: size = wrong + fooled + withstood, exactly.

    >>> counts = Counts(size=10, wrong=2, fooled=3)
    >>> counts.withstood, counts.natural_error, counts.boundary_error, counts.robust_error
    (5, 0.2, 0.3, 0.5)
    """

    size: int
    wrong: int  # misclassified without any attack
    fooled: int  # correct, until attacked

    @property
    def withstood(self) -> int:
        """Correct, and the attack found nothing against it."""
        return self.size - self.wrong - self.fooled

    @property
    def natural_error(self) -> float:
        """The share that is wrong already."""
        return self.wrong / self.size

    @property
    def boundary_error(self) -> float:
        """The share that is correct, but no longer under attack."""
        return self.fooled / self.size

    @property
    def robust_error(self) -> float:
        """Natural and boundary error together, from the counts."""
        return (self.wrong + self.fooled) / self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUnderAttack(Counts):
    """One group, and how it compares with the rest."""

    group: str
    natural_accuracy: Estimate
    robust_accuracy: Estimate  # p_adv, the share that withstood
    gap_to_rest: Estimate  # robust accuracy of the group minus that of everyone else
    p: float
    p_adjusted: float  # corrected for the number of groups
    verdict: str  # one of VERDICTS
    finding: str  # the same as a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryoneUnderAttack(Counts):
    """The partition as a whole. Variances and gaps are debiased, and their intervals can hold 0.

    Parameters
    ----------
    natural_accuracy, robust_accuracy
        Of all samples.
    mean_accuracy
        The unweighted mean of the groups' robust accuracies.
    vcra, vca
        The population variance over groups of robust accuracy, and of natural accuracy.
    gap
        Largest minus smallest robust accuracy of a group.
    variation
        The coefficient of variation √VCRA / mean. VCRA is forced to 0 as accuracy nears 0 or 1; this is not at 0.
    worst_group, worst_accuracy
        The group of least robust accuracy.
    p_equal
        That no group differs at all: the smallest corrected p.
    """

    natural_accuracy: Estimate
    robust_accuracy: Estimate
    mean_accuracy: Estimate
    vcra: Estimate
    vca: Estimate
    gap: Estimate
    variation: Estimate
    worst_group: str
    worst_accuracy: Estimate
    p_equal: float


def at_most(bound: Bound) -> str:
    """How a number of that kind is introduced: an attack leaves "at most", a certificate "at least"."""
    return {Bound.UPPER: "at most ", Bound.LOWER: "at least ", Bound.NEITHER: "about "}.get(bound, "")


def share_text(estimate: Estimate) -> str:
    """A share and its interval, in percent."""
    if not estimate.is_defined:
        return f"undefined ({estimate.reason})" if estimate.reason else "undefined"
    if math.isnan(estimate.low):
        return f"{estimate.value:.1%}"
    return f"{estimate.value:.1%} [{estimate.low:.1%}, {estimate.high:.1%}]"


def points_text(gap: float) -> str:
    """A difference of shares in points of percent, with its sign.

    >>> points_text(0.05), points_text(-0.123)
    ('+5.0', '−12.3')
    """
    return f"{100 * gap:+.1f}".replace("-", "−")


def flat(row: GroupUnderAttack) -> dict[str, Any]:
    """A group as the columns of a table."""
    columns: dict[str, Any] = {"group": row.group, "size": row.size, "wrong": row.wrong, "fooled": row.fooled}
    columns |= {name: getattr(row, name) for name in ("natural_error", "boundary_error", "robust_error")}
    for name in _ESTIMATES:
        estimate: Estimate = getattr(row, name)
        columns |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return columns | {
        "p": row.p,
        "p_adjusted": row.p_adjusted,
        "bound": row.robust_accuracy.bound.value,
        "verdict": row.verdict,
        "finding": row.finding,
    }


def decode_group(content: dict[str, Any]) -> GroupUnderAttack:
    """The group that `encode` wrote."""
    estimates: dict[str, Any] = {name: decode_estimate(content[name]) for name in _ESTIMATES}
    return GroupUnderAttack(
        group=decode_text(content["group"]),
        p=decode_number(content["p"]),
        p_adjusted=decode_number(content["p_adjusted"]),
        verdict=decode_text(content["verdict"], VERDICTS),
        finding=decode_text(content["finding"]),
        **estimates,
        **_decode_counts(content),
    )


def decode_everyone(content: dict[str, Any]) -> EveryoneUnderAttack:
    """The partition as a whole that `encode` wrote."""
    estimates: dict[str, Any] = {name: decode_estimate(content[name]) for name in (*_ESTIMATES[:2], *_SPREADS)}
    return EveryoneUnderAttack(
        worst_group=decode_text(content["worst_group"]),
        p_equal=decode_number(content["p_equal"]),
        **estimates,
        **_decode_counts(content),
    )


def _decode_counts(content: dict[str, Any]) -> dict[str, Any]:
    counts = {name: decode_count(content[name]) for name in ("size", "wrong", "fooled")}
    if min(counts.values()) < 0 or counts["wrong"] + counts["fooled"] > counts["size"]:
        raise ValueError(f"its counts do not add up: {counts}")
    return counts
