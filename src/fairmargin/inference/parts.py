"""Parts of σ: accuracy, and the mean distance of correct samples.

A misclassified sample has the distance 0. Hence Rob(P) = accuracy · margin, where the margin is the mean distance of
the correct samples, and 1 + σ = (1 + accuracy part) · (1 + margin part), each part being the ratio of the group's value
and its rest's, minus 1. With a lower bound a correct sample may have distance 0; it counts in the margin part.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.bound import Bound
from fairmargin.core.partition import Partition
from fairmargin.inference.closed_form import log_ratios
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import binomial_interval
from fairmargin.inference.sizes import sizes_of
from fairmargin.inference.units import sum_of_others


@dataclass(frozen=True, slots=True)
class Parts:
    """Both parts of a group's σ."""

    accuracy: Estimate
    margin: Estimate


def sigma_parts(
    values: Floats,
    correct: Bools,
    partition: Partition,
    settings: AuditSettings,
    cluster: Ints | None,
    *,
    alpha: Floats,
    reasons: Sequence[str],
    bound: Bound,
) -> tuple[Parts, ...]:
    """Return both parts of every group's σ. They are undefined with a control of several strata.

    Parameters
    ----------
    values
        One number per sample, as the audit averages them.
    correct
        Whether each sample is classified correctly.
    alpha
        1 − level of the limits of each group.
    reasons
        Why a group has no contrast with its rest; empty if it has one.
    bound
        Kind of bound of a ratio of these values.
    """
    groups, control = len(partition.labels), settings.control
    if control is not None and len(control.labels) > 1:
        reasons = [reason or f"σ is not divided into parts at equal {control.name!r}" for reason in reasons]
    hits = np.bincount(partition.membership[correct], minlength=groups).astype(np.float64)
    size = partition.sizes.astype(np.float64)
    sides = [(hits, size), tuple(sum_of_others(each, axis=0) for each in (hits, size))]
    accuracy, rest_accuracy = (np.divide(h, n, out=np.zeros(groups), where=n > 0) for h, n in sides)
    sizes, margins = sizes_of(partition, None, cluster), np.full((3, groups), np.nan)
    if correct.any():
        found = log_ratios(values, partition, settings, cluster, np.flatnonzero(correct))
        # As in `paired`: with all of them, limits of 50 Pareto distances of index 3 cover 92.7 %, with half 94.1 %.
        limits = replace(found, freedom=found.freedom / 2).limits(alpha)
        with np.errstate(over="ignore"):
            margins = np.expm1(np.stack([found.value, limits.low, limits.high]))
    parts = []
    for i, label in enumerate(partition.labels):
        reason = reasons[i] or ("" if sides[1][0][i] else f"no sample outside group {label!r} is classified correctly")
        first = Estimate.undefined(reason, Bound.EXACT)
        if not reason:
            effective = float(sizes.own_effective[i]), float(sizes.rest_effective[i])
            first = _ratio_of_shares(float(accuracy[i]), float(rest_accuracy[i]), *effective, float(alpha[i]))
        reason = reason or ("" if hits[i] else f"no sample of group {label!r} is classified correctly")
        if not reason and not -1 < margins[0, i] < math.inf:
            reason = f"no correct sample of group {label!r} or of its rest has a distance above 0"
        second = Estimate.undefined(reason, bound)
        if not reason:
            # Samples that belong together are correct together, at worst.
            few = min(accuracy[i] * sizes.own_effective[i], rest_accuracy[i] * sizes.rest_effective[i])
            second = _margin(*margins[:, i].tolist(), bound, label, few, settings.smallest_group)
        parts.append(Parts(first, second))
    return tuple(parts)


def _margin(value: float, low: float, high: float, bound: Bound, label: str, correct: float, least: int) -> Estimate:
    if correct < least:
        side = f"group {label!r} or its rest"
        return Estimate(
            value, math.nan, math.nan, bound, f"{side} has {int(correct):,} correct samples; {least} are needed"
        )
    return Estimate(value, min(low, value), max(high, value), bound)


def _ratio_of_shares(own: float, rest: float, size: float, rest_size: float, alpha: float) -> Estimate:
    """Return own / rest − 1 with limits that are valid at shares of 0 and 1 too.

    Exact binomial limits of both shares are combined to limits of their ratio (Donner and Zou 2012, MOVER-R).

    >>> print(_ratio_of_shares(1.0, 0.5, 40, 100, 0.05))
    1 [0.6254, 1.511]
    """
    own_low, own_high = binomial_interval(own * size, size, 1 - alpha)
    rest_low, rest_high = binomial_interval(rest * rest_size, rest_size, 1 - alpha)
    product, least = own * rest, own_low * (2 * own - own_low)
    below = least * rest_high * (2 * rest - rest_high)
    above = own_high * rest_low * (2 * own - own_high) * (2 * rest - rest_low)
    # The usual quotient for the lower limit is 0/0 where rest_high = 2·rest.
    low = least / (product + math.sqrt(max(product**2 - below, 0.0))) if product else 0.0
    high = (product + math.sqrt(max(product**2 - above, 0.0))) / (rest_low * (2 * rest - rest_low))
    return Estimate(own / rest - 1, low - 1, high - 1, Bound.EXACT)
