"""What a run's certificates guarantee for every group of a partition at once: frozen values that a report reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fairmargin.analyses.table import GroupTable
from fairmargin.core.codec import Format
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.certificates import CertifiedMean, CertifiedShare, certified_accuracy, certified_mean
from fairmargin.presentation.formatting import listed, number, percent, plain, quoted


@dataclass(frozen=True, slots=True)
class CertifiedGroup:
    """One group's mean certified radius and certified accuracy, and what of them is guaranteed."""

    group: str
    mean: CertifiedMean
    shares: tuple[CertifiedShare, ...]  # one a radius


@dataclass(frozen=True, slots=True)
class Certified(GroupTable[CertifiedGroup]):
    """What certificates that may be false say of every group.

    Parameters
    ----------
    partition, groups
        The groups, in the order of the partition.
    radii
        At which certified accuracy is told.
    alpha
        How often one certificate may be false.
    confidence
        With which all that is guaranteed here holds together, of all groups.
    norm, subject
        Of the distances, and whose they are.
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
        """What was certified."""
        return f"{self.partition}: guaranteed of the {self.subject} model, {self.norm}"

    def sentences(self) -> list[str]:
        """Return who has the least guarantee, how many certificates may be false, and a finding for each group."""
        return [self.headline, self.counting, *(self.finding(row) for row in self)]

    @property
    def headline(self) -> str:
        """The group with the least guaranteed mean radius, in a sentence."""
        rows = sorted(self, key=lambda row: row.mean.guaranteed)
        least, most = rows[0], rows[-1]
        if most.mean.guaranteed == 0:
            return "For no group is any distance guaranteed."
        said = f"{quoted(least.group)} is guaranteed a mean distance of {number(least.mean.guaranteed)}"
        if len(rows) == 1:
            return f"{said}."
        return (
            f"{said}, the least of all groups; {quoted(most.group)} one of {number(most.mean.guaranteed)}, the most. "
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
        return f"{allowed}. At {percent(self.confidence)} confidence, {false} false in any group."

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
        """Return why this cannot be what was written; empty if it can."""
        if not self.groups:
            return "there are no groups"
        if any(tuple(share.radius for share in row.shares) != self.radii for row in self):
            return "every group has a share at every radius"
        return ""


def certify_groups(
    distances: Distances, partition: Partition, radii: Sequence[float], *, alpha: float, confidence: float = 0.95
) -> Certified:
    """The mean certified radius and the certified accuracy of each group, counting certificates that may be false.

    Guarantee: with probability `confidence`, for all groups and radii together, the mean distance of the group's
    samples and the share of them that is at least so far are no less than what is guaranteed. Each group is allowed
    1 − (1 − confidence) / G, and the same K false certificates count for its mean and at every radius.

    Parameters
    ----------
    distances, partition, alpha
        As in `certified_mean`.
    radii
        At which to tell certified accuracy.
    confidence
        Of all statements together.

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
