"""Measures of the papers as numbers without intervals: σ, robustness bias, errors under attack, agreement of signs.

Everything follows from one identity: the area below I_P(tau) is the mean distance of the group, so no curve is ever
integrated. Samples that no attack reached have an infinite distance; every mean over them needs `up_to=`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Bools, Floats, as_bools, same_length
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined
from fairmargin.errors import InputError, UnreachedError
from fairmargin.inference.units import sum_of_others

Complement = Literal["pooled", "mean"]
Over = Literal["all", "correct"]


def sigma(
    distances: Distances,
    partition: Partition,
    *,
    complement: Complement = "pooled",
    over: Over = "all",
    up_to: float = math.inf,
) -> dict[str, float]:
    """Return σ(P) = (AUC(I_P) − AUC(I_rest)) / AUC(I_rest): how much more robust a group is than the rest.

    Parameters
    ----------
    complement
        "pooled": the rest is all other samples together. "mean": the mean of the other groups' curves.
    over
        "all": means over all samples of a group, misclassified ones with distance 0 (the paper). "correct": over
        correct samples only (the published code), so that accuracy drops out.
    up_to
        Average min(r, up_to) instead of r.

    Undefined (NaN with a reason) where the rest has robustness 0 or a side has no sample.
    Reference: Nanda 2021, Eq. 5, with the complement of the published code; the printed sum over the other groups would
    give −0.889 for ten identical groups.

    >>> from fairmargin.core.bound import Bound
    >>> from fairmargin.core.norm import Norm
    >>> d = Distances([1.0, 3.0, 1.0, 1.0], [True] * 4, Bound.EXACT, Norm.L2)
    >>> sigma(d, Partition.by("sex", ["F", "F", "M", "M"]))
    {'F': 1.0, 'M': -0.5}
    """
    _one_of("complement", complement, ("pooled", "mean"))
    values = capped(distances, partition, up_to)
    own, rest = _own_and_rest(values, _counted(distances, over), partition, complement)
    return {label: _relative(own[i], rest[i], label, "robustness", over) for i, label in enumerate(partition.labels)}


def robustness_bias(distances: Distances, partition: Partition, radius: float) -> dict[str, float]:
    """Return RB(P, τ) = |Pr(d > τ | P, correct) − Pr(d > τ | not P, correct)| at one radius τ.

    Conditional on correct samples, unlike the curve. Reference: Nanda 2021, Eq. 2.
    """
    if not radius >= 0:
        raise InputError(f"`radius` must be a number that is not negative; given {radius!r}.")
    beyond = (distances.values > radius).astype(np.float64)
    own, rest = _own_and_rest(beyond, distances.correct, partition, "pooled")
    return {label: _defined(abs(own[i] - rest[i]), own[i], rest[i], label) for i, label in enumerate(partition.labels)}


def capped(distances: Distances, partition: Partition, up_to: float = math.inf) -> Floats:
    """Return min(r, up_to) per sample; the error names the first group with an unreached sample if there is no cap."""
    same_length(distances=distances, partition=partition)
    if not up_to > 0:
        raise InputError(f"`up_to` must be a radius above 0; given {up_to!r}.")
    if math.isinf(up_to) and distances.unreached.any():
        counts = np.bincount(partition.membership[distances.unreached], minlength=len(partition.labels))
        first = int((counts > 0).argmax())
        raise UnreachedError(
            f"{counts[first]:,} of {partition.sizes[first]:,} samples in group {partition.labels[first]!r} have no "
            "finite distance: no misclassified input was found for them. Pass `up_to=` to average "
            "min(distance, up_to), or search harder."
        )
    return np.minimum(distances.values, up_to)


def _counted(distances: Distances, over: Over) -> Bools:
    _one_of("over", over, ("all", "correct"))
    return np.ones(len(distances), dtype=np.bool_) if over == "all" else np.asarray(distances.correct)


def _means(values: Floats, partition: Partition) -> Floats:
    sums = np.bincount(partition.membership, weights=values, minlength=len(partition.labels))
    return np.asarray(sums / partition.sizes)


def _own_and_rest(
    values: Floats, counted: Bools, partition: Partition, complement: Complement
) -> tuple[Floats, Floats]:
    """Return the mean over each group and over its rest; NaN where no sample is counted."""
    same_length(values=values, partition=partition)
    groups = len(partition.labels)
    codes = partition.membership[counted]
    sums = np.bincount(codes, weights=values[counted], minlength=groups)
    counts = np.bincount(codes, minlength=groups).astype(np.float64)
    own = np.divide(sums, counts, out=np.full(groups, np.nan), where=counts > 0)
    if complement == "mean":  # of the other groups that have a mean
        counts, sums = np.minimum(counts, 1.0), np.nan_to_num(own)
    left, left_sums = sum_of_others(counts, axis=0), sum_of_others(sums.astype(np.float64), axis=0)
    rest = np.divide(left_sums, left, out=np.full(groups, np.nan), where=left > 0)
    return own, rest


def _relative(own: float, rest: float, label: str, what: str, over: Over) -> float:
    if math.isnan(own) or math.isnan(rest):
        return Undefined(_missing_side(not math.isnan(own), label, "sample" if over == "all" else "correct sample"))
    if rest == 0:
        return Undefined(f"the rest of group {label!r} has {what} 0")
    return float(own / rest - 1)


def _defined(value: float, own: float, rest: float, label: str) -> float:
    if math.isnan(own) or math.isnan(rest):
        return Undefined(_missing_side(not math.isnan(own), label))
    return float(value)


def _missing_side(own_is_there: bool, label: str, what: str = "correct sample") -> str:
    return f"no {what} outside group {label!r}" if own_is_there else f"no {what} in group {label!r}"


def _by_group(values: Floats, partition: Partition) -> dict[str, float]:
    return {label: float(value) for label, value in zip(partition.labels, values, strict=True)}


def _one_of(name: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise InputError(f"`{name}` must be one of {', '.join(map(repr, allowed))}; given {given!r}.")


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
    """Return the share of correct samples of each group; robust accuracy if `correct` says who withstood an attack.

    >>> accuracy_by_group([True, False, True, True], Partition.by("sex", ["F", "F", "M", "M"]))
    {'F': 0.5, 'M': 1.0}
    """
    hits = _booleans(correct, "correct")
    same_length(correct=hits, partition=partition)
    counts = np.bincount(partition.membership[hits], minlength=len(partition.labels))
    return {label: float(c / n) for label, c, n in zip(partition.labels, counts, partition.sizes, strict=True)}


def parity_violation(correct: Distances | npt.ArrayLike, partition: Partition) -> dict[str, float]:
    """Return |err_a − err| of each group against all samples (Tran 2024); the largest is the model's violation."""
    overall = float(_booleans(correct, "correct").mean())
    return {label: abs(accuracy - overall) for label, accuracy in accuracy_by_group(correct, partition).items()}


def error_split(correct: npt.ArrayLike, robust: npt.ArrayLike) -> ErrorSplit:
    """Return natural and boundary error over all samples.

    >>> split = error_split(correct=[True, True, False, True], robust=[True, False, False, True])
    >>> split.natural, split.boundary, split.robust
    (0.25, 0.25, 0.5)
    """
    hits, withstood = _checked(correct, robust)
    return ErrorSplit(float(np.mean(~hits)), float(np.mean(hits & ~withstood)))


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


@dataclass(frozen=True, slots=True)
class SignAgreement:
    """How often the signs of two σ agree, beside how often they would by chance.

    Attack bounds speak of the model, smoothing of the smoothed model: do not read too much into their agreement
    (Nanda 2021).
    """

    share: float
    chance: float  # agreement of independent signs with the same margins
    groups: int  # groups where both are defined
    undefined: int
    mean_difference: float
    variance_of_difference: float


def sign_agreement(sigma_a: Mapping[str, float], sigma_b: Mapping[str, float]) -> SignAgreement:
    """Return how many groups have a σ of the same sign, the chance level, and mean and variance of σ_a − σ_b.

    >>> sign_agreement({"a": -0.2, "b": 0.1, "c": 0.3}, {"a": -0.1, "b": -0.1, "c": 0.2}).share
    0.6666666666666666
    """
    if set(sigma_a) != set(sigma_b):
        only = sorted(set(sigma_a) ^ set(sigma_b))
        raise InputError(f"Both σ must be of the same groups; only one of them has {', '.join(map(repr, only))}.")
    pairs = np.array([(sigma_a[group], sigma_b[group]) for group in sigma_a], dtype=np.float64).reshape(-1, 2)
    both = ~np.isnan(pairs).any(axis=1)
    defined = pairs[both]
    if not len(defined):
        nothing = Undefined("no group has both values")
        return SignAgreement(nothing, nothing, 0, len(pairs), nothing, nothing)
    signs = np.sign(defined)
    chance = sum(float(np.prod((signs == s).mean(axis=0))) for s in (-1, 0, 1))
    difference = defined[:, 0] - defined[:, 1]
    return SignAgreement(
        float((signs[:, 0] == signs[:, 1]).mean()),
        chance,
        len(defined),
        int((~both).sum()),
        float(difference.mean()),
        float(difference.var()),
    )
