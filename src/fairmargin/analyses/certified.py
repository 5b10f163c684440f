"""What a run's certificates guarantee for every group of a partition at once, although some of them may be false.

A certificate of randomized smoothing is false with probability at most α. Of n independent ones at most K are false,
with confidence 1 − δ, where K is the (1 − δ) quantile of the binomial distribution Bin(n, α). The statements here allow
for K false ones in a group. They hold for each group; to have all of them at once, divide δ by the number of groups.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairmargin.analyses.cells import SAMPLES, count, decimals_for, table_of
from fairmargin.analyses.table import GroupTable
from fairmargin.core.arrays import Floats, is_number, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.codec import Format
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.distributions import binomial_quantile
from fairmargin.presentation.formatting import (
    fixed,
    level_text,
    listed,
    number,
    percent,
    plain,
    quoted,
    table_percent,
)
from fairmargin.presentation.section import Cell, Column, Explanation, Section, Table


@dataclass(frozen=True, slots=True)
class CertifiedMean:
    """The mean certified radius of a group, and what is left of it if some certificates are false."""

    value: float
    guaranteed: float  # a lower bound of the mean distance of the group's samples, at the confidence of the call
    false: int  # number of certificates that may be false at that confidence
    size: int  # number of samples of the group


@dataclass(frozen=True, slots=True)
class CertifiedShare:
    """The share of a group that is certified at a radius."""

    radius: float
    value: float  # the share whose certified radius is at least that, and above 0
    guaranteed: float  # a lower bound of the share that truly is that far from the boundary


def false_certificates(size: int, alpha: float, confidence: float) -> int:
    """Return K: of `size` independent certificates, each false with probability at most alpha, at most K are false.

    The smallest K with Pr(Bin(size, α) ≤ K) ≥ confidence.

    >>> false_certificates(100, 0.001, 0.95), false_certificates(1000, 0.001, 0.95)
    (1, 3)
    """
    _check(alpha, confidence)
    return binomial_quantile(confidence, size, alpha)


def certified_mean(
    distances: Distances,
    partition: Partition,
    *,
    alpha: float,
    confidence: float = 0.95,
    largest: float | None = None,
) -> dict[str, CertifiedMean]:
    """Return mean R − R_max · K / n of each group: a lower bound on the mean distance despite false certificates.

    Guarantee: with probability `confidence`, for each group alone, the mean distance of its n samples is at least that.
    A false certificate overstates a distance by no more than its own radius, which is at most R_max.

    Parameters
    ----------
    distances
        Certified radii: lower bounds.
    partition
        The groups.
    alpha
        Probability with which each certificate may be false; 0 for bounds that are never false.
    confidence
        Probability 1 − δ with which the statement about a group holds.
    largest
        R_max, the largest radius attainable (`fm.distances.smoothing.estimator.Smoothing(…).largest`). If left out,
        the K largest radii of the group are taken off instead, which is never looser.

    >>> from fairmargin.core.norm import Norm
    >>> radii = Distances([0.8] * 60 + [0.0] * 40, [True] * 100, Bound.LOWER, Norm.L2, "smoothed(0.25)")
    >>> everyone = Partition.by("group", ["all"] * 100)
    >>> mean = certified_mean(radii, everyone, alpha=0.001, largest=0.8)["all"]
    >>> round(mean.value, 3), round(mean.guaranteed, 3), mean.false
    (0.48, 0.472, 1)
    """
    values = _certified(distances, partition, alpha)
    if largest is not None and not (math.isfinite(largest) and largest >= values.max()):
        raise InputError(
            f"must be the largest radius attainable; a sample has {values.max():g}", field="largest", given=largest
        )
    result = {}
    for label, mask in partition:
        radii = np.sort(values[mask])
        size = len(radii)
        false = false_certificates(size, alpha, confidence)
        off = false * largest if largest is not None else radii[size - false :].sum()
        mean = float(radii.mean())
        result[label] = CertifiedMean(mean, max(0.0, mean - float(off) / size), false, size)
    return result


def certified_accuracy(
    distances: Distances,
    partition: Partition,
    radii: Sequence[float],
    *,
    alpha: float,
    confidence: float = 0.95,
) -> dict[str, tuple[CertifiedShare, ...]]:
    """Return the share of each group with R ≥ radius, and that share − K / n, at each of the radii.

    An abstention or a wrong vote has R = 0 and is certified at no radius, not even at 0.

    Guarantee: with probability `confidence`, for all radii at once, the share of the group's samples whose distance is
    at least the radius is at least `guaranteed`: the same K certificates may be false at every radius.

    Parameters
    ----------
    distances, partition, alpha, confidence
        As in `certified_mean`.
    radii
        Radii at which to compute the shares.

    >>> from fairmargin.core.norm import Norm
    >>> found = Distances([0.8] * 60 + [0.0] * 40, [True] * 100, Bound.LOWER, Norm.L2, "smoothed(0.25)")
    >>> certified_accuracy(found, Partition.by("group", ["all"] * 100), [0.5, 1.0], alpha=0.001)["all"]
    (CertifiedShare(radius=0.5, value=0.6, guaranteed=0.59), CertifiedShare(radius=1.0, value=0.0, guaranteed=0.0))
    """
    values = _certified(distances, partition, alpha)
    if not np.iterable(radii):
        raise InputError("must hold numbers, for instance [0.25, 0.5]", field="radii", given=radii)
    for radius in radii:
        if not 0 <= radius < math.inf:
            raise InputError("must hold numbers that are not negative", field="radii", given=radius)
    result = {}
    for label, mask in partition:
        own = values[mask]
        false = false_certificates(len(own), alpha, confidence)
        hits = [int(((own >= radius) & (own > 0)).sum()) for radius in radii]
        result[label] = tuple(
            CertifiedShare(float(radius), count / len(own), max(0, count - false) / len(own))
            for radius, count in zip(radii, hits, strict=True)
        )
    return result


def _certified(distances: Distances, partition: Partition, alpha: float) -> Floats:
    """Return the certified radii; refuse distances that are no lower bounds."""
    if distances.subject != "model" and is_number(alpha) and alpha == 0:
        raise InputError(
            f"Each certificate of {distances.subject} may be false with the estimator's `alpha`, 0.001 by default; "
            "given 0, which is for bounds that never are."
        )
    if distances.bound not in (Bound.LOWER, Bound.EXACT):
        raise InputError(
            f"These distances are {distances.bound.value}, not certified: only lower bounds (such as those of "
            "`smoothing`) guarantee a distance."
        )
    same_length(distances=distances, partition=partition)
    if distances.unreached.any():
        raise InputError(
            f"{distances.unreached.sum():,} of {len(distances):,} certified distances are infinite and have no mean. "
            "Leave these samples out, or write the radius up to which they are certified."
        )
    return distances.values


def _check(alpha: float, confidence: float) -> None:
    if not is_number(alpha) or not 0 <= alpha < 0.5:
        raise InputError("must be at least 0 and less than 0.5, as in the estimator", field="alpha", given=alpha)
    if not is_number(confidence) or not 0 < confidence < 1:
        raise InputError("must lie between 0 and 1, for instance 0.95", field="confidence", given=confidence)


@dataclass(frozen=True, slots=True)
class CertifiedGroup:
    """One group's mean certified radius and certified accuracy, and what of them is guaranteed."""

    group: str
    mean: CertifiedMean
    shares: tuple[CertifiedShare, ...]  # one per radius


@dataclass(frozen=True, slots=True)
class Certified(GroupTable[CertifiedGroup]):
    """Result of `certify_groups`: what certificates that may be false guarantee of every group.

    Parameters
    ----------
    partition, groups
        The groups, in the order of the partition.
    radii
        Radii of the certified accuracies.
    alpha
        How often one certificate may be false.
    confidence
        Confidence with which all guarantees hold together, of all groups.
    norm, subject
        Norm and subject of the distances.
    """

    FORMAT: ClassVar[Format] = Format(1, "guarantee", "Run `fairmargin audit` again")

    partition: str
    groups: tuple[CertifiedGroup, ...]
    radii: tuple[float, ...]
    alpha: float
    confidence: float
    norm: Norm
    subject: str

    @property
    def title(self) -> str:
        """What was certified, in half a sentence."""
        return f"{self.partition}: guaranteed of the {self.subject} model, {self.norm}"

    @property
    def headline(self) -> str:
        """The group with the least guaranteed mean radius, in a sentence."""
        rows = sorted(self, key=lambda row: row.mean.guaranteed)
        least, most = rows[0], rows[-1]
        if most.mean.guaranteed == 0:
            return "For no group is any distance guaranteed."
        first = f"{quoted(least.group)} is guaranteed a mean distance of {number(least.mean.guaranteed)}"
        if len(rows) == 1:
            return f"{first}."
        return (
            f"{first}, the least of all groups; {quoted(most.group)} one of {number(most.mean.guaranteed)}, the most. "
            "Guarantees order nothing: who has less may be as far from the boundary."
        )

    @property
    def counting(self) -> str:
        """How many certificates may be false, in a sentence."""
        most = max(row.mean.false for row in self)
        if self.alpha == 0:
            return "None of these certificates can be false."
        allowed = f"Each certificate is false with a probability of at most {percent(self.alpha)}"
        false = "none is" if most == 0 else f"at most {most:,} {'is' if most == 1 else 'are'}"
        return f"{allowed}. At {level_text(self.confidence)} confidence, {false} false in any group."

    def section(self) -> Section:
        """Return what is certified of every group, and what of it is guaranteed."""
        return Section(
            title=f"What is guaranteed, by {plain(self.partition)}",
            about=f"of the {plain(self.subject)} model · {self.norm} norm",
            answer=self.headline,
            sentences=(self.counting,),
            findings=tuple(self.finding(row) for row in self),
            tables=(_guarantees_table(self),),
            explanations=(Explanation("What is guaranteed", _READING),),
        )

    def finding(self, row: CertifiedGroup) -> str:
        """Return what is guaranteed of one group."""
        shares = [f"{percent(share.guaranteed)} of it at least {number(share.radius)}" for share in row.shares]
        far = f", and {listed(shares)}" if shares else ""
        return f"{plain(row.group)}: guaranteed a mean distance of {number(row.mean.guaranteed)}{far}."

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group and radius; the group's mean is repeated."""
        return [
            {
                "partition": self.partition,
                "group": row.group,
                "size": row.mean.size,
                "false": row.mean.false,
                "mean": row.mean.value,
                "mean_guaranteed": row.mean.guaranteed,
                "radius": share.radius,
                "certified_accuracy": share.value,
                "certified_accuracy_guaranteed": share.guaranteed,
            }
            for row in self.groups
            for share in row.shares
        ]

    def contradiction(self) -> str:
        """Return why these values cannot be a stored result; empty if they can."""
        if not self.groups:
            return "there are no groups"
        if any(tuple(share.radius for share in row.shares) != self.radii for row in self):
            return "every group has a share at every radius"
        return ""


def certify_groups(
    distances: Distances, partition: Partition, radii: Sequence[float], *, alpha: float, confidence: float = 0.95
) -> Certified:
    """Return mean certified radius and certified accuracy of each group, counting certificates that may be false.

    Guarantee: with probability `confidence`, for all groups and radii together, the mean distance of the group's
    samples and the share of them that is at least so far are no less than what is guaranteed. Each group is allowed
    1 − (1 − confidence) / G, and the same K false certificates count for its mean and at every radius.

    Parameters
    ----------
    distances, partition, alpha
        As in `certified_mean`.
    radii
        Radii of the certified accuracies.
    confidence
        Confidence of all statements together.

    >>> from fairmargin.core.bound import Bound
    >>> found = Distances([0.8] * 60 + [0.0] * 40, [True] * 100, Bound.LOWER, Norm.L2, "smoothed(0.25)")
    >>> sex = Partition.by("sex", ["F", "M"] * 50)
    >>> row = certify_groups(found, sex, [0.5], alpha=0.001)["F"]
    >>> round(row.mean.value, 3), round(row.mean.guaranteed, 3), row.mean.false
    (0.48, 0.464, 1)
    >>> row.shares
    (CertifiedShare(radius=0.5, value=0.6, guaranteed=0.58),)
    """
    each = 1 - (1 - confidence) / len(partition.labels)
    means = certified_mean(distances, partition, alpha=alpha, confidence=each)
    shares = certified_accuracy(distances, partition, radii, alpha=alpha, confidence=each)
    return Certified(
        partition=partition.name,
        groups=tuple(CertifiedGroup(label, means[label], shares[label]) for label in partition.labels),
        radii=tuple(map(float, radii)),
        alpha=alpha,
        confidence=confidence,
        norm=distances.norm,
        subject=distances.subject,
    )


# What console and report show --------------------------------------------------------------------------------------


_READING = (
    "A certificate by smoothing says of one sample: nothing nearer than this radius changes the answer. It comes from "
    "many random trials, so that it may be false, though seldom. Of a whole group it can be said how many false ones "
    "there may be at most, and what remains true if all of these were the best ones. That is guaranteed, whatever an "
    "attacker tries; it speaks of the smoothed model, which answers by a vote under noise, and of these samples."
)


def _guarantees_table(result: Certified) -> Table:
    rows = result.groups
    decimals = decimals_for([row.mean.value for row in rows])

    def pair(found: CertifiedMean | CertifiedShare, show: Callable[[float], str]) -> Cell:
        return Cell(show(found.value), f"≥ {show(found.guaranteed)}")

    columns = [
        (
            Column("mean radius", interval="guaranteed"),
            [pair(row.mean, lambda value: fixed(value, decimals, signed=False)) for row in rows],
        ),
        *(
            (
                Column(f"certified at {number(radius)}", hidden=True),
                [pair(row.shares[i], lambda value: table_percent(value, signed=False)) for row in rows],
            )
            for i, radius in enumerate(result.radii)
        ),
        (Column("may be false", hidden=True), [count(row.mean.false) for row in rows]),
        (SAMPLES, [count(row.mean.size) for row in rows]),
    ]
    return table_of(
        rows,
        columns,
        caption=(
            "Above, what the certificates say; below, what of it is guaranteed although some may be false: at "
            f"{level_text(result.confidence)} confidence, for all groups and radii together. Certified accuracy is the "
            "share of samples that keep the right answer up to a radius."
        ),
        label=f"Guarantees by {plain(result.partition)}",
    )
