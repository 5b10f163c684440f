"""The common radius at which audits to a precision cap all distances, and whether groups can still be compared.

There, unreached samples force a common cap, which is the shortest search that failed (see `common_cap`). One short
search can make nearly all distances equal; then a comparison of groups means nothing. Audits and comparisons of models
use Kaplan and Meier's method instead (`censoring`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined
from fairmargin.errors import InputError
from fairmargin.inference.estimate import NOT_COMPARABLE, Estimate
from fairmargin.presentation.formatting import percent

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SMALLEST = 1e-60  # statistics sum fourth powers of distances, which must not underflow; see `Distances` for the largest
MOST_CUT = 0.2  # share of the finite distances above 0 that a forced cap may cut on either side of a comparison

_Row = TypeVar("_Row", bound="DataclassInstance")
# Fields that describe one group alone, or that no cap changes. All other numbers of a row compare groups.
_MEANS = ("robustness", "before", "after")
_ALONE = (
    *_MEANS, "accuracy", "sigma_median", "unreached", "unreachable", "band", "dropped", "plain_samples", "correlation"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cut:
    """Effect of a cap on the comparison of groups.

    Parameters
    ----------
    up_to
        Radius at which all distances are capped; `inf` if they are not.
    reasons
        For each group, why it cannot be compared; empty if it can.
    remedy
        Advice for the user; empty if every group can be compared.
    """

    up_to: float
    reasons: tuple[str, ...]
    remedy: str = ""

    @property
    def warning(self) -> str:
        """Reason and remedy for the partition as a whole; empty if every group can be compared."""
        if not any(self.reasons):
            return ""
        count = f"{sum(map(bool, self.reasons)):,} of {len(self.reasons):,} groups cannot be compared"
        return (
            f"{count}: the cap that unreached samples force on all distances cuts more than {percent(MOST_CUT)} of the "
            f"finite distances above 0. {self.remedy}"
        )


def forced_cut(several: Sequence[Distances], partition: Partition, cap: float, requested: float) -> Cut:
    """Find the groups that cannot be compared because a forced cap cuts more than 20 % of the distances.

    Only finite distances above 0 count, because those of misclassified samples are 0 and are never cut. A group and its
    rest are checked separately, so that a small group whose distances are all cut is found too.

    Parameters
    ----------
    several
        Distances that are compared: those of one audit, or those of two models.
    partition
        The groups.
    cap
        Radius at which all distances are capped.
    requested
        Radius that the user requested, which is always accepted; `inf` if the cap is forced by unreached samples.
    """
    if math.isfinite(requested) or math.isinf(cap):
        return Cut(cap, ("",) * len(partition.labels))
    found = [_found(distances) for distances in several]
    shares = np.array([_shares(each, partition, cap) for each in found]).max(axis=0)
    reasons = tuple(_reason(float(own), float(rest), cap, alone=len(shares) == 1) for own, rest in shares)
    if not any(reasons):
        return Cut(cap, reasons)
    return Cut(cap, reasons, _remedy(several, max(_enough(each, partition) for each in found)))


def within_cap(rows: tuple[_Row, ...], cut: Cut) -> tuple[_Row, ...]:
    """Replace the verdict of each group that cannot be compared by "not comparable".

    Every number in its row that compares groups becomes undefined.
    """
    pairs = zip(rows, cut.reasons, strict=True)
    return tuple(without_contrasts(row, reason, cut.remedy) if reason else row for row, reason in pairs)


def cut_words(distances: Distances, cap: float, what: str = "") -> str:
    """Return how many of the finite distances above 0 a cap cuts, as a part of a sentence; empty if none."""
    found = _found(distances)
    cut, known = int((found > cap).sum()), int((~np.isnan(found)).sum())
    beyond = f"{cap:.4g}, {what}" if what else f"{cap:.4g}"
    return f"{cut:,} of {known:,} finite distances above 0 ({percent(cut / known)}) lie beyond {beyond}" if cut else ""


def without_contrasts(row: _Row, reason: str, remedy: str, own_mean: str = "") -> _Row:
    """Return a row with the verdict "not comparable", in which every number that compares groups is undefined.

    `own_mean` is why the means of the group itself are undefined too; empty if they are not.
    """
    changed: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        why = own_mean if field.name in _MEANS else "" if field.name in _ALONE else reason
        if why and isinstance(value, (Estimate, float)):
            changed[field.name] = undefined_like(value, why)
    changed |= {"verdict": NOT_COMPARABLE} | ({"met": False} if hasattr(row, "met") else {})
    if hasattr(row, "reason"):
        changed["reason"] = f"{reason}. {remedy}".rstrip(". ")
    return replace(row, **changed)


def undefined_like(value: Estimate | float, reason: str) -> Estimate | float:
    """Return an undefined estimate or number, for the given reason."""
    return Estimate.undefined(reason, value.bound) if isinstance(value, Estimate) else Undefined(reason)


def _found(distances: Distances) -> Floats:
    """Return the finite distances above 0, and NaN for other samples."""
    return np.where((distances.values > 0) & ~distances.unreached, distances.values, np.nan)


def _shares(found: Floats, partition: Partition, cap: float) -> list[tuple[float, float]]:
    """Return the share of the distances of every group, and of its rest, that the cap cuts."""
    groups = len(partition.labels)
    known = np.bincount(partition.membership[~np.isnan(found)], minlength=groups)
    cut = np.bincount(partition.membership[found > cap], minlength=groups)
    sides = ((cut, known), (cut.sum() - cut, known.sum() - known))
    own, rest = (np.divide(part, of, out=np.zeros(groups), where=of > 0) for part, of in sides)
    return list(zip(own.tolist(), rest.tolist(), strict=True))


def _reason(own: float, rest: float, cap: float, *, alone: bool) -> str:
    if max(own, rest) <= MOST_CUT:
        return ""
    whose = f"{percent(own)} of the" if alone else f"{percent(own)} of the group's and {percent(rest)} of the rest's"
    return (
        f"the cap of {cap:.4g}, which unreached samples force on all distances, cuts {whose} finite distances above 0; "
        f"more than {percent(MOST_CUT)} is too much"
    )


def _enough(found: Floats, partition: Partition) -> float:
    """Return the smallest cap that cuts no more than 20 % of any group's distances."""
    known = [each[~np.isnan(each)] for each in (found[own] for own in partition.rows())]
    return max((float(np.quantile(each, 1 - MOST_CUT, method="higher")) for each in known if each.size), default=0.0)


def _remedy(several: Sequence[Distances], enough: float) -> str:
    searched = np.concatenate([d.tried[d.unreached] for d in several if d.tried is not None] or [np.empty(0)])
    short = searched[(searched > 0) & (searched < enough)]
    which = "Some samples are unreached, and nothing says how far the search for them looked"
    if short.size:
        whom = f"{len(short):,} unreached sample{'' if len(short) == 1 else 's'}"
        which = f"The search for {whom} looked only as far as {short.min():.4g}"
        which += f" to {short.max():.4g}" if short.max() > short.min() else ""
    return (
        f"{which}. Search as far as {enough:.4g} (more steps, or a larger radius), leave those samples out, or set "
        "`up_to=` (--up-to) to the radius up to which robustness matters."
    )


def capped(values: Floats, up_to: float, tiny: float = 0.0) -> Floats:
    """Cap distances at `up_to`, and replace those above 0 that are too small for their powers to be computed.

    >>> capped(np.array([0.0, 1e-200, 1.0, 3.0]), 2.0).tolist()
    [0.0, 0.0, 1.0, 2.0]
    """
    values = np.minimum(values, up_to)
    return np.where((values > 0) & (values < SMALLEST), tiny, values)


def tiny_words(several: Sequence[Distances], up_to: float) -> str:
    """Return a warning that counts the distances which `capped` replaces by 0; empty if there are none."""
    values = np.minimum(np.concatenate([distances.values for distances in several]), up_to)
    tiny = int(((values > 0) & (values < SMALLEST)).sum())
    if not tiny:
        return ""
    return (
        f"{tiny:,} of {len(values):,} distances lie above 0 but below {SMALLEST:g} and count as 0: their powers are "
        "too small to be computed. Measure in another unit if they matter."
    )


def common_cap(distances: Distances, up_to: float) -> tuple[float, str]:
    """Return the radius at which every distance is capped, requested or forced by unreached samples, and why.

    The distance of an unreached sample is only known to be greater than the radius of the search. The forced cap is the
    smaller of the largest distance found and the shortest search that failed, so that min(r, cap) is known for every
    sample. `forced_cut` decides whether groups can still be compared.
    """
    missing = distances.unreached
    if not missing.any():
        return up_to, cut_words(distances, up_to, "the radius asked for")
    searched = np.empty(0) if distances.tried is None else distances.tried[missing]
    proven = searched.size > 0 and bool(np.isinf(searched).all())
    share = f"{missing.sum():,} of {len(missing):,} samples ({percent(float(missing.mean()))}) have no finite distance"
    share += " (it is proven that no allowed change leads to another class)" if proven else ""
    shortest = float(searched[searched > 0].min(initial=np.inf))  # NaN if not recorded
    if math.isfinite(up_to):
        known = "" if up_to <= shortest else f", although the search for them looked only as far as {shortest:.4g}"
        cut = cut_words(distances, up_to)
        return up_to, f"{share} and count as {up_to:.4g}, the radius asked for{known}{cut and f'; {cut}'}"
    found = float(distances.values[~missing].max(initial=0.0))
    cap = min(c for c in (found, shortest) if c > 0)
    if not math.isfinite(cap) and proven:
        raise InputError(
            f"It is proven for {missing.sum():,} of {len(missing):,} samples that no allowed change leads to another "
            "class, and the others are misclassified: there are no distances to compare. Let more columns change."
        )
    if not math.isfinite(cap):
        raise InputError(
            f"{missing.sum():,} of {len(missing):,} samples have no finite distance, the others are 0, and nothing "
            "says how far the search looked. Set `up_to=` (--up-to) to the radius up to which robustness matters."
        )
    cut = cut_words(distances, cap, "the shortest search that found nothing")
    return cap, f"{share}, so that every distance is capped at {cap:.4g}, the same for all groups{cut and f'; {cut}'}"
