"""Parts of σ: accuracy, and the mean distance of correct samples.

A misclassified sample has the distance 0. Hence Rob(P) = accuracy · margin, where the margin is the mean distance of
the correct samples, and 1 + σ = (1 + accuracy part) · (1 + margin part), each part being the ratio of the group's value
and its rest's, minus 1. With a lower bound a correct sample may have distance 0; it counts in the margin part.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.bound import Bound
from fairmargin.core.partition import Partition
from fairmargin.inference.closed_form import log_ratios
from fairmargin.inference.design import Design
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import binomial_interval
from fairmargin.inference.sizes import sizes_of
from fairmargin.inference.units import sum_of_others, sums_in_order
from fairmargin.presentation.formatting import several


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
    design: Design,
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
    if settings.control is not None and len(settings.control.labels) > 1:
        reasons = [reason or f"σ has no parts at equal {settings.control.name!r}" for reason in reasons]
    shares, effective = _accuracies(correct, partition, design)
    margins = _margins(values, correct, partition, design, alpha)
    parts = []
    for i, label in enumerate(partition.labels):
        (own, rest), (own_size, rest_size) = ([float(side[i]) for side in both] for both in (shares, effective))
        reason = reasons[i] or ("" if rest else f"no sample outside group {label!r} is classified correctly")
        accuracy = Estimate.undefined(reason, Bound.EXACT)
        if not reason:
            accuracy = _ratio_of_shares(own, rest, own_size, rest_size, float(alpha[i]))
        reason = reason or ("" if own else f"no sample of group {label!r} is classified correctly")
        # Samples that belong together are correct together, at worst.
        margin = _margin(
            margins[i], min(own * own_size, rest * rest_size), label, settings.smallest_group, design, bound
        )
        parts.append(Parts(accuracy, Estimate.undefined(reason, bound) if reason else margin))
    return tuple(parts)


def _accuracies(
    correct: Bools, partition: Partition, design: Design
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return the share of correct samples in each group and in its rest, and the effective numbers of samples.

    A share is 0 if there is no rest. With weights, effective numbers are those of `Design.share`.
    """
    sizes, groups = sizes_of(partition, None, design), len(partition.labels)
    codes = partition.membership * 2 + correct
    count = np.bincount(codes, minlength=2 * groups).reshape(-1, 2).astype(np.float64)
    sums = [count, count]
    if design.weights is not None:
        powers = design.weights, design.weights**2
        sums = [sums_in_order(codes, each, 2 * groups).reshape(-1, 2) for each in powers]
    shares, numbers = [], []
    sides = (sums, sizes.own_effective), ([sum_of_others(each, axis=0) for each in sums], sizes.rest_effective)
    for (wrong_and_right, squares), number in sides:
        total = wrong_and_right.sum(axis=1)
        share = np.divide(wrong_and_right[:, 1], total, out=np.zeros(groups), where=total > 0)
        error2 = squares[:, 1] * (1 - share) ** 2 + squares[:, 0] * share**2
        known = np.divide(share * (1 - share) * total**2, error2, out=number.copy(), where=error2 > 0)
        shares.append(share)
        numbers.append(number if design.weights is None or design.cluster is not None else np.minimum(number, known))
    return (shares[0], shares[1]), (numbers[0], numbers[1])


def _margins(
    values: Floats,
    correct: Bools,
    partition: Partition,
    design: Design,
    alpha: Floats,
) -> list[list[float]]:
    """Return the margin part of every group with its limits; NaN without correct samples."""
    if not correct.any():
        return [[math.nan] * 3] * len(alpha)
    found = log_ratios(values, partition, None, design, np.flatnonzero(correct))
    # Half the degrees of freedom, as in `paired`: with all, limits of 50 Pareto distances of index 3 cover 92.7 %.
    limits = replace(found, freedom=found.freedom / 2).limits(alpha)
    with np.errstate(over="ignore"):
        columns: list[list[float]] = np.expm1(np.stack([found.value, limits.low, limits.high], axis=1)).tolist()
    return columns


def _margin(margin: list[float], correct: float, label: str, least: int, design: Design, bound: Bound) -> Estimate:
    value, low, high = margin
    side = f"group {label!r} or its rest"
    if not -1 < value < math.inf:
        return Estimate.undefined(f"no correct sample of {side} has a distance above 0", bound)
    if correct < least:
        effective = "" if design.weights is None and design.cluster is None else "effective "
        reason = f"{side} has {several(int(correct), f'correct {effective}sample')}; an interval needs {least}"
        return Estimate(value, math.nan, math.nan, bound, reason)
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
