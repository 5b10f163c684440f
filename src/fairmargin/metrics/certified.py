"""What a run's certificates guarantee for every group of a partition at once: frozen values that a report reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.metrics.certificates import CertifiedMean, CertifiedShare, certified_accuracy, certified_mean
from fairmargin.metrics.kept import read, written
from fairmargin.metrics.results import decode_count, decode_number, decode_text, encode

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class CertifiedGroup:
    """One group's mean certified radius and certified accuracy, and what of them is guaranteed."""

    group: str
    mean: CertifiedMean
    shares: tuple[CertifiedShare, ...]  # one a radius


@dataclass(frozen=True, slots=True)
class Certified:
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

    partition: str
    groups: tuple[CertifiedGroup, ...]
    radii: tuple[float, ...]
    alpha: float
    confidence: float
    norm: Norm
    subject: str

    def __iter__(self) -> Iterator[CertifiedGroup]:
        return iter(self.groups)

    def __getitem__(self, group: str) -> CertifiedGroup:
        for row in self.groups:
            if row.group == group:
                return row
        names = ", ".join(repr(row.group) for row in self.groups)
        raise InputError(f"Partition {self.partition!r} has no group {group!r}; it has {names}.")

    def to_frame(self) -> pd.DataFrame:
        """One row per group and radius; the group's mean is repeated."""
        return pd.DataFrame(
            [
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
        )

    def to_json(self) -> str:
        """A JSON text from which `from_json` makes the same value again."""
        return written(encode(self), _FORMAT)

    @classmethod
    def from_json(cls, text: str) -> "Certified":
        """The value that `to_json` wrote."""
        return read(
            text,
            _decode,
            version=_FORMAT,
            what="guarantee",
            writer="Certified.to_json",
            again="Run `fairmargin audit` again",
        )


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


def _decode(content: dict[str, Any]) -> Certified:
    if not content["groups"]:
        raise ValueError("a guarantee has groups")
    found = Certified(
        partition=decode_text(content["partition"]),
        groups=tuple(map(_group, content["groups"])),
        radii=tuple(map(decode_number, content["radii"])),
        alpha=decode_number(content["alpha"]),
        confidence=decode_number(content["confidence"]),
        norm=Norm(content["norm"]),
        subject=decode_text(content["subject"]),
    )
    if any(tuple(share.radius for share in row.shares) != found.radii for row in found):
        raise ValueError("every group has a share at every radius")
    return found


def _group(content: dict[str, Any]) -> CertifiedGroup:
    mean = content["mean"]
    return CertifiedGroup(
        group=decode_text(content["group"]),
        mean=CertifiedMean(
            decode_number(mean["value"]),
            decode_number(mean["guaranteed"]),
            decode_count(mean["false"]),
            decode_count(mean["size"]),
        ),
        shares=tuple(
            CertifiedShare(*(decode_number(share[name]) for name in ("radius", "value", "guaranteed")))
            for share in content["shares"]
        ),
    )
