"""What certificates say of a group, although each of them may be false with a small probability.

A certificate of randomized smoothing is false with probability at most α. Of n independent ones at most K are false,
with confidence 1 − δ, where K is the (1 − δ) quantile of the binomial distribution Bin(n, α). The statements here allow
for K false ones in a group. They hold for each group; to have all of them at once, divide δ by the number of groups.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from fairmargin.core.arrays import Floats, is_number
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.bias import capped


@dataclass(frozen=True, slots=True)
class CertifiedMean:
    """The mean certified radius of a group, and what is left of it if some certificates are false.

    Parameters
    ----------
    value
        The mean radius.
    guaranteed
        The mean distance of the group's samples is at least this, with the confidence that was asked for.
    false
        So many certificates may be false at that confidence.
    size
        How many samples the group has.
    """

    value: float
    guaranteed: float
    false: int
    size: int


@dataclass(frozen=True, slots=True)
class CertifiedShare:
    """The share of a group that is certified at a radius.

    Parameters
    ----------
    radius
        At which.
    value
        The share whose certified radius is at least that, and above 0.
    guaranteed
        The share that truly is that far from the boundary is at least this, with the confidence that was asked for.
    """

    radius: float
    value: float
    guaranteed: float


def false_certificates(size: int, alpha: float, confidence: float) -> int:
    """K: of `size` independent certificates, each false with probability alpha at most, no more than these are false.

    The smallest K with Pr(Bin(size, α) ≤ K) ≥ confidence.

    >>> false_certificates(100, 0.001, 0.95), false_certificates(1000, 0.001, 0.95)
    (1, 3)
    """
    _check(alpha, confidence)
    return int(stats.binom.ppf(confidence, size, alpha))


def certified_mean(
    distances: Distances,
    partition: Partition,
    *,
    alpha: float,
    confidence: float = 0.95,
    largest: float | None = None,
) -> dict[str, CertifiedMean]:
    """mean R − R_max · K / n for each group: a lower bound on the mean distance that counts false certificates.

    Guarantee: with probability `confidence`, for each group alone, the mean distance of its n samples is at least that.
    A false certificate overstates a distance by no more than its own radius, which is at most R_max.

    Parameters
    ----------
    distances
        Certified radii: lower bounds.
    partition
        The groups.
    alpha
        How often a certificate may be false; 0 for bounds that never are.
    confidence
        1 − δ.
    largest
        R_max, the largest radius attainable (`fm.distances.smoothing.Smoothing(…).largest`). If left out, the K largest
        radii of the group are taken off instead, which is never looser.

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
            f"`largest` must be the largest radius attainable; given {largest}, but a sample has {values.max():g}."
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
    """The share of each group with R ≥ radius, and that share − K / n, at each of the radii.

    An abstention or a wrong vote has R = 0 and is certified at no radius, not even at 0.

    Guarantee: with probability `confidence`, for all radii at once, the share of the group's samples whose distance is
    at least the radius is at least `guaranteed`: the same K certificates may be false at every radius.

    Parameters
    ----------
    distances, partition, alpha, confidence
        As in `certified_mean`.
    radii
        Where to look.

    >>> from fairmargin.core.norm import Norm
    >>> found = Distances([0.8] * 60 + [0.0] * 40, [True] * 100, Bound.LOWER, Norm.L2, "smoothed(0.25)")
    >>> certified_accuracy(found, Partition.by("group", ["all"] * 100), [0.5, 1.0], alpha=0.001)["all"]
    (CertifiedShare(radius=0.5, value=0.6, guaranteed=0.59), CertifiedShare(radius=1.0, value=0.0, guaranteed=0.0))
    """
    values = _certified(distances, partition, alpha)
    if not np.iterable(radii):
        raise InputError(f"`radii` must hold numbers, for instance [0.25, 0.5]; given {radii!r}.")
    for radius in radii:
        if not 0 <= radius < math.inf:
            raise InputError(f"`radii` must hold numbers that are not negative; given {radius!r}.")
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
    """The radii, if they are bounds from below."""
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
    return capped(distances, partition)


def _check(alpha: float, confidence: float) -> None:
    if not is_number(alpha) or not 0 <= alpha < 0.5:
        raise InputError(f"`alpha` must be at least 0 and less than 0.5, as in the estimator; given {alpha!r}.")
    if not is_number(confidence) or not 0 < confidence < 1:
        raise InputError(f"`confidence` must lie between 0 and 1, for instance 0.95; given {confidence!r}.")
