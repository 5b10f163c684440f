"""Measures that the papers print without intervals: σ by group, accuracy by group, parity violation, boundary error."""

import math
from typing import Literal

import numpy as np

from fairmargin.core.arrays import Bools, Floats, same_length
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.units import sum_of_others

Over = Literal["all", "correct"]


def sigma(distances: Distances, partition: Partition, over: Over = "all") -> dict[str, float]:
    """Return σ(P) = mean(P) / mean(rest) − 1 of the distances: how much more robust a group is than the rest.

    Parameters
    ----------
    distances
        One finite distance per sample.
    partition
        The groups.
    over
        "all": misclassified samples count with distance 0, as in the paper. "correct": only correct samples count, as
        in the published code, so that the result does not depend on accuracy.

    The result is NaN where a side has no sample or the rest has mean 0. Reference: Nanda 2021, Eq. 5, with the
    complement of the published code. The printed sum over the other groups would give −0.889 for ten identical groups.

    >>> d = Distances([1.0, 3.0, 1.0, 1.0], [True] * 4, "exact", "l2")
    >>> sigma(d, Partition.by("sex", ["F", "F", "M", "M"]))
    {'F': 1.0, 'M': -0.5}
    """
    same_length(distances=distances, partition=partition)
    counted = np.ones(len(distances), dtype=np.bool_) if over == "all" else distances.correct
    groups, codes = len(partition.labels), partition.membership[counted]
    sums = np.bincount(codes, weights=distances.values[counted], minlength=groups).astype(np.float64)
    counts = np.bincount(codes, minlength=groups).astype(np.float64)
    own, rest = _quotient(sums, counts), _quotient(sum_of_others(sums, axis=0), sum_of_others(counts, axis=0))
    values = _quotient(own, rest) - 1
    return {label: float(value) for label, value in zip(partition.labels, values, strict=True)}


def _quotient(sums: Floats, counts: Floats) -> Floats:
    return np.asarray(np.divide(sums, counts, out=np.full(len(sums), math.nan), where=counts > 0))


def accuracy_by_group(correct: Bools, partition: Partition) -> dict[str, float]:
    """Return the share of correct samples of each group; the robust accuracy, given which samples withstood an attack.

    >>> accuracy_by_group(np.array([True, False, True, True]), Partition.by("sex", ["F", "F", "M", "M"]))
    {'F': 0.5, 'M': 1.0}
    """
    same_length(correct=correct, partition=partition)
    return {label: float(np.mean(correct[mask])) for label, mask in partition}


def parity_violation(correct: Bools, partition: Partition) -> dict[str, float]:
    """Return |err_a − err|, the distance of each group's error from that of all samples (Tran 2024)."""
    overall = float(np.mean(correct))
    return {label: abs(accuracy - overall) for label, accuracy in accuracy_by_group(correct, partition).items()}


def boundary_error(correct: Bools, robust: Bools) -> float:
    """Return the share of samples that are correct without the attack and wrong under it.

    >>> boundary_error(np.array([True, True, False, True]), np.array([True, False, False, True]))
    0.25
    """
    same_length(correct=correct, robust=robust)
    return float(np.mean(correct & ~robust))
