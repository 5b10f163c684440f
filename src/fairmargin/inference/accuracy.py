"""Errors and their spread over groups, from booleans: was the sample right, and did it stay right under attack?"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, as_bools, same_length
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True)
class ErrorSplit:
    """robust = natural + boundary, exactly: wrong already, or wrong only under attack."""

    natural: float
    boundary: float

    @property
    def robust(self) -> float:
        """The share that is wrong already or becomes so under attack."""
        return self.natural + self.boundary


def accuracy_by_group(correct: Distances | npt.ArrayLike, partition: Partition) -> dict[str, float]:
    """The share of correct samples of each group; robust accuracy if `correct` says who withstood an attack.

    >>> accuracy_by_group([True, False, True, True], Partition.by("sex", ["F", "F", "M", "M"]))
    {'F': 0.5, 'M': 1.0}
    """
    hits = _booleans(correct, "correct")
    same_length(correct=hits, partition=partition)
    counts = np.bincount(partition.membership[hits], minlength=len(partition.labels))
    return {label: float(c / n) for label, c, n in zip(partition.labels, counts, partition.sizes, strict=True)}


def parity_violation(correct: Distances | npt.ArrayLike, partition: Partition) -> dict[str, float]:
    """|err_a − err| of each group against all samples (Tran 2024); its largest value is the violation of the model."""
    overall = float(_booleans(correct, "correct").mean())
    return {label: abs(accuracy - overall) for label, accuracy in accuracy_by_group(correct, partition).items()}


def error_split(correct: npt.ArrayLike, robust: npt.ArrayLike) -> ErrorSplit:
    """Natural and boundary error over all samples.

    >>> split = error_split(correct=[True, True, False, True], robust=[True, False, False, True])
    >>> split.natural, split.boundary, split.robust
    (0.25, 0.25, 0.5)
    """
    hits, withstood = _checked(correct, robust)
    return ErrorSplit(float(np.mean(~hits)), float(np.mean(hits & ~withstood)))


def error_split_by_group(correct: npt.ArrayLike, robust: npt.ArrayLike, partition: Partition) -> dict[str, ErrorSplit]:
    """Natural and boundary error of each group."""
    hits, withstood = _checked(correct, robust)
    same_length(correct=hits, partition=partition)
    return {label: error_split(hits[mask], withstood[mask]) for label, mask in partition}


def natural_error(correct: Distances | npt.ArrayLike) -> float:
    """The share of misclassified samples."""
    return float(np.mean(~_booleans(correct, "correct")))


def boundary_error(correct: npt.ArrayLike, robust: npt.ArrayLike) -> float:
    """The share that is correct, but no longer under attack."""
    return error_split(correct, robust).boundary


def robust_error(robust: npt.ArrayLike) -> float:
    """The share that is wrong already or becomes so under attack."""
    return float(np.mean(~_booleans(robust, "robust")))


def accuracy_variance(robust: Distances | npt.ArrayLike, partition: Partition) -> float:
    """VCRA = (1/L) Σ (p_i − p̄)², the population variance of the groups' robust accuracy (Ma 2022); VCA of natural ones.

    It is forced towards 0 as accuracy nears 0 or 1: read it beside the worst group and the gap.
    """
    return float(np.var(list(accuracy_by_group(robust, partition).values())))


def accuracy_gap(robust: Distances | npt.ArrayLike, partition: Partition) -> float:
    """Largest minus smallest (robust) accuracy of a group."""
    values = accuracy_by_group(robust, partition).values()
    return max(values) - min(values)


def accuracy_variation(robust: Distances | npt.ArrayLike, partition: Partition) -> float:
    """The coefficient of variation √VCRA / p̄ of the groups' accuracies."""
    mean = float(np.mean(list(accuracy_by_group(robust, partition).values())))
    if mean == 0:
        return Undefined("every group has accuracy 0")
    return math.sqrt(accuracy_variance(robust, partition)) / mean


def _booleans(values: Distances | npt.ArrayLike, name: str) -> Bools:
    hits = np.asarray(values.correct) if isinstance(values, Distances) else as_bools(values, name)
    if not hits.size:
        raise InputError(f"`{name}` is empty: there is no sample.")
    return hits


def _checked(correct: npt.ArrayLike, robust: npt.ArrayLike) -> tuple[Bools, Bools]:
    hits, withstood = _booleans(correct, "correct"), _booleans(robust, "robust")
    same_length(correct=hits, robust=withstood)
    bad = withstood & ~hits
    if bad.any():
        raise InputError(
            f"{bad.sum():,} samples are said to withstand the attack but are misclassified without it (first at index "
            f"{int(bad.argmax())}). `robust` must be True only where `correct` is."
        )
    return hits, withstood
