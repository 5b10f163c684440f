"""Distances whose search failed: the horizon T of restricted means, what is known up to it, and bounds.

An unreached sample is one of three kinds. If its search failed at a known depth, it is right-censored there
(`survival`). If it is proven that no allowed change leads to another class (`tried` is `inf`), nothing is censored: it
counts as T. If the depth is unknown, nothing can be learned from its radius; it counts as T too, which is true only if
the search looked that far.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.capping import capped, cut_words, without_contrasts
from fairmargin.inference.survival import COMFORTABLE, MOST_UNKNOWN, largest_radius_at_risk, masses, pseudo_values
from fairmargin.inference.units import sum_of_others, sums_in_order
from fairmargin.presentation.formatting import number, percent, quoted

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Row = TypeVar("_Row", bound="DataclassInstance")
_DECIDES = 10  # cells with fewer samples do not lower the horizon of all others


@dataclass(frozen=True, slots=True, eq=False)
class Searches:
    """What searches found: for each sample its distance, or how far the search for it looked.

    Parameters
    ----------
    radius
        Distance of a sample that was reached; the depth of a failed search; `inf` if it is proven that there is no
        distance, or if the depth is unknown.
    found, failed, proven, unknown
        Masks of the four kinds of samples.
    """

    radius: Floats
    found: Bools
    failed: Bools
    proven: Bools
    unknown: Bools

    @classmethod
    def of(cls, distances: Distances) -> "Searches":
        """Read what is known of each sample."""
        missing = distances.unreached
        depth = np.full(len(missing), np.nan) if distances.tried is None else distances.tried
        failed, proven, unknown = missing & np.isfinite(depth), missing & np.isinf(depth), missing & np.isnan(depth)
        return cls(np.where(failed, depth, distances.values), ~missing, failed, proven, unknown)

    def take(self, which: Ints) -> "Searches":
        """Return the samples that indices select."""
        masks = (self.found, self.failed, self.proven, self.unknown)
        return Searches(self.radius[which], *(mask[which] for mask in masks))

    def curve(self, weights: Floats | None) -> RobustnessCurve:
        """Return the robustness curve; that of Kaplan and Meier if searches failed before the largest distance."""
        values = np.where(self.found, self.radius, np.inf)
        if not self.failed.any() or self.radius[self.failed].min() >= self.radius[self.found].max(initial=0.0):
            return RobustnessCurve(values, weights)
        size = len(values) if weights is None else np.sort(weights).sum()
        falls = masses(self.radius, self.found, weights) * size
        return RobustnessCurve(values[falls > 0], falls[falls > 0])


@dataclass(frozen=True, slots=True)
class Horizon:
    """Radius T of restricted means, and why; `inf` and "" if every sample was reached and no radius was asked for."""

    up_to: float
    reason: str


def horizon_of(several: Sequence[Distances], partition: Partition, control: Partition | None, asked: float) -> Horizon:
    """Return the common radius T of the means of all groups: `asked`, or what the failed searches allow.

    In every group (and every group inside a stratum) with at least 10 samples, the curve must rest on enough samples at
    T, see `largest_radius_at_risk`. If any sample is unreached, T is not beyond the largest distance found.
    """
    searches = [Searches.of(distances) for distances in several]
    missing = _missing_in_words(searches)
    if not missing:
        return Horizon(asked, _cut(several, asked, "the radius asked for"))
    if math.isfinite(asked):
        radius, which = asked, "the radius asked for"
    else:
        largest = max(float(each.radius[each.found].max(initial=0.0)) for each in searches)
        limits = [(largest if largest > 0 else math.inf, "the largest distance found")]
        for each in searches:
            limits += _limits_by_cells(each, partition, control)
        radius, which = min(limits, key=lambda limit: limit[0])
    if not 0 < radius < math.inf:
        raise InputError(_nothing_known(searches))
    depths = np.concatenate([each.radius[each.failed] for each in searches])
    early = depths[depths < radius]
    if early.size:
        nearest, farthest = number(float(early.min())), number(float(early.max()))
        where = nearest if nearest == farthest else f"{nearest} to {farthest}"
        count = f"{len(early):,} search{'' if len(early) == 1 else 'es'}"
        how = f"{count} failed before, at {where}; means are up to {radius:.4g}, {which}"
    elif math.isfinite(asked):
        how = f"they count as {radius:.4g}, the radius asked for"
    else:
        how = f"every distance is capped at {radius:.4g}, {which}, the same for all groups"
    return Horizon(radius, "; ".join((missing, how, *filter(None, [_cut(several, radius)]))))


def _limits_by_cells(searches: Searches, partition: Partition, control: Partition | None) -> list[tuple[float, str]]:
    """Return the largest radius that groups, and groups inside strata, allow, and what decides it."""
    limits = []
    for cell, labels in _cells(partition, control):
        size = np.bincount(cell, minlength=len(labels))
        radius = largest_radius_at_risk(searches.radius, searches.failed, cell, len(labels), COMFORTABLE)
        decides = size >= _DECIDES if (size >= _DECIDES).any() else size > 0
        decides &= radius > 0  # of other cells nothing is known at any radius
        first = int(np.where(decides, radius, np.inf).argmin())
        if decides[first]:
            what = f"the largest radius at which enough samples of {quoted(labels[first])} are still at risk"
            limits.append((float(radius[first]), what))
    return limits


def _cells(partition: Partition, control: Partition | None) -> list[tuple[Ints, Sequence[str]]]:
    """Return the groups, and under a control the groups inside strata: the cell of each sample, and all names."""
    cells: list[tuple[Ints, Sequence[str]]] = [(partition.membership, partition.labels)]
    if control is not None:
        inside = partition.membership * len(control.labels) + control.membership
        cells.append((inside, [f"{group} & {stratum}" for group in partition.labels for stratum in control.labels]))
    return cells


def _missing_in_words(searches: Sequence[Searches]) -> str:
    """Return how many samples have no finite distance, and why; empty if all have one."""
    total = sum(len(each.radius) for each in searches)
    failed, proven, unknown = (
        sum(int(getattr(each, kind).sum()) for each in searches) for kind in ("failed", "proven", "unknown")
    )
    missing = failed + proven + unknown
    if not missing:
        return ""
    samples = "samples" if len(searches) == 1 else "samples of both runs"
    share = f"{missing:,} of {total:,} {samples} ({percent(missing / total)}) have no finite distance"
    kinds = []
    if proven:
        which = "it" if proven == missing else f"for {proven:,} it"
        kinds.append(f"{which} is proven that no allowed change leads to another class")
    if unknown:
        kinds.append(f"nothing says how far the search for {unknown:,} looked: it is taken to be as far as means go")
    return f"{share} ({'; '.join(kinds)})" if kinds else share


def _nothing_known(searches: Sequence[Searches]) -> str:
    total = sum(len(each.radius) for each in searches)
    proven, missing = (
        sum(int(part.sum()) for part in parts)
        for parts in ((each.proven for each in searches), (~each.found for each in searches))
    )
    if proven == missing:
        return (
            f"It is proven for {missing:,} of {total:,} samples that no allowed change leads to another class, and the "
            "others are misclassified: there are no distances to compare. Let more columns change."
        )
    return (
        f"{missing:,} of {total:,} samples have no finite distance, the others are 0, and no search is known to have "
        "looked beyond 0. Set `up_to=` (--up-to) to the radius up to which robustness matters."
    )


def _cut(several: Sequence[Distances], radius: float, what: str = "") -> str:
    found = [cut_words(each, radius, what) for each in several]
    if len(set(found)) == 1:
        both = "" if len(found) == 1 else " in each run"
        return found[0] and f"{found[0]}{both}"
    whens = zip(("before", "after"), found, strict=True)
    return "; ".join(f"{when}, {words}" for when, words in whens if words)


@dataclass(frozen=True, slots=True, eq=False)
class Restricted:
    """Distances up to a horizon, as numbers whose means are restricted means.

    Parameters
    ----------
    values
        Pseudo-values inside the groups (`survival`): min(distance, T) where no search failed before T.
    within
        Pseudo-values inside the groups of each stratum of the control; the same without a control.
    low, high
        Smallest and largest possible min(distance, T) of each sample, whatever depth and distance have to do with each
        other.
    is_censored
        Whether a search failed before T.
    widening
        For each group, by how much the failed searches widen the confidence band of its curve.
    own_gaps, gaps
        For each group, why its mean, and its comparison with the rest, are not known up to T; empty if they are.
    remedy
        Advice if any of them is not known.
    """

    values: Floats
    within: Floats
    low: Floats
    high: Floats
    is_censored: bool
    widening: Floats
    own_gaps: tuple[str, ...]
    gaps: tuple[str, ...]
    remedy: str = ""

    @property
    def warning(self) -> str:
        """How many groups cannot be compared, and what to do; empty if all can."""
        lost = sum(map(bool, self.gaps))
        count = f"{lost:,} of {len(self.gaps):,} groups"
        return (
            f"{count} cannot be compared, because too many searches failed before the cap. {self.remedy}"
            if lost
            else ""
        )

    def withheld(self, rows: tuple[_Row, ...]) -> tuple[_Row, ...]:
        """Return rows without the numbers of which nothing is known up to T."""
        return tuple(
            without_contrasts(row, gap, "", own_gap) if gap else row
            for row, gap, own_gap in zip(rows, self.gaps, self.own_gaps, strict=True)
        )

    @property
    def bounds_differ(self) -> bool:
        """Whether the means are not known without an assumption on the depth of the searches."""
        return bool((self.low < self.high).any())


def restrict(
    distances: Distances,
    partition: Partition,
    control: Partition | None,
    up_to: float,
    weights: Floats | None = None,
) -> Restricted:
    """Return distances up to the horizon `up_to`, by Kaplan and Meier's method where searches failed before it."""
    searches, groups = Searches.of(distances), len(partition.labels)
    radius, up_to = capped(searches.radius, np.inf), float(capped(np.array([up_to]), np.inf)[0])
    nearest = np.minimum(radius, up_to)
    low, high = np.where(searches.unknown, 0.0, nearest), np.where(searches.found, nearest, up_to)
    if not (searches.failed & (radius < up_to)).any():
        none = ("",) * groups
        return Restricted(nearest, nearest, low, high, False, np.ones(groups), none, none)
    plain = within = _pseudo_values(searches, radius, partition.membership, (groups, 1), up_to, weights)
    if control is not None:
        strata = len(control.labels)
        cell = partition.membership * strata + control.membership
        within = _pseudo_values(searches, radius, cell, (groups, strata), up_to, weights)
    own_gaps, gaps = (
        tuple(_gap(label, own, rest, up_to) for label, own, rest in zip(partition.labels, *shares, strict=True))
        for shares in ((plain.unknown[0], np.zeros(groups)), within.unknown)
    )
    remedy = "Set `up_to=` (--up-to) to a smaller radius, or search farther."
    short = plain.reach[plain.unknown[0] > 0]
    if short.size and short.min() == 0:
        remedy = "Search farther."
    elif short.size:
        remedy = f"Set `up_to=` (--up-to) to at most {_not_above(float(short.min()))}, or search farther."
    return Restricted(plain.values, within.values, low, high, True, plain.widening, own_gaps, gaps, remedy)


@dataclass(frozen=True, slots=True, eq=False)
class _InCells:
    """Pseudo-values, and of each group and of its rest the share of which nothing is known up to T."""

    values: Floats
    reach: Floats  # of each cell
    widening: Floats
    unknown: tuple[Floats, Floats]


def _pseudo_values(
    searches: Searches, radius: Floats, cell: Ints, shape: tuple[int, int], up_to: float, weights: Floats | None
) -> _InCells:
    cells, everyone = shape[0] * shape[1], np.ones(len(radius)) if weights is None else weights
    found = pseudo_values(radius, searches.found, cell, cells, up_to, weights)
    size = sums_in_order(cell, everyone, cells)
    lost, of = ((part.reshape(shape).sum(axis=1)) for part in (found.unknown * size, size))
    rest_lost, rest_of = (sum_of_others(part, axis=0) for part in (lost, of))
    rest_share = np.divide(rest_lost, rest_of, out=np.zeros(len(of)), where=rest_of > 0)
    return _InCells(found.values, found.reach, found.widening, (lost / of, rest_share))


def _not_above(radius: float) -> str:
    """Return a radius above 0 in four digits, rounded down, so that what is known up to it is enough.

    >>> _not_above(1.15678), _not_above(1.0), _not_above(0.00123456)
    ('1.156', '1', '0.001234')
    """
    step = 10.0 ** (math.floor(math.log10(radius)) - 3)
    nearest = f"{radius:.4g}"
    return nearest if float(nearest) <= radius else f"{float(nearest) - step:.4g}"


def _gap(label: str, own: float, rest: float, up_to: float) -> str:
    """Return why a group cannot be compared up to T, from the shares of both sides of which nothing is known there."""
    if max(own, rest) <= MOST_UNKNOWN:
        return ""
    share, whose = (own, f"of {quoted(label)}") if own > MOST_UNKNOWN else (rest, f"of the rest of {quoted(label)}")
    return (
        f"searches failed for {percent(share)} {whose} before {up_to:.4g}, and too few other samples tell how far "
        "those distances reach"
    )
