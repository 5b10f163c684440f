"""Robustness of groups and the bias between them, as the papers define them.

Everything follows from one identity: the area below I_P(tau) is the mean distance of the group, so no curve is ever
integrated. Samples that no attack reached have an infinite distance; every mean over them needs `up_to=`.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairmargin.core.arrays import Bools, Floats, same_length
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined
from fairmargin.errors import InputError, UnreachedError
from fairmargin.inference.units import sum_of_others

Complement = Literal["pooled", "mean"]
Over = Literal["all", "correct"]


@dataclass(frozen=True, slots=True)
class SigmaParts:
    """Why sigma is what it is: (1 + accuracy) · (1 + margin) = 1 + sigma.

    `accuracy` compares how often the group is classified correctly, `margin` how far its correct samples lie from the
    boundary; both are relative to the rest.
    """

    accuracy: float
    margin: float


@dataclass(frozen=True, slots=True)
class LargestBias:
    """The supremum of the robustness bias over all radii, and the radius where it is first attained."""

    value: float
    radius: float


@dataclass(frozen=True, slots=True)
class WorstGroup:
    """The least robust group and its robustness."""

    group: str
    robustness: float


def robustness(distances: Distances, partition: Partition, *, up_to: float = math.inf) -> dict[str, float]:
    """Rob(P), the area below the robustness curve: the mean of min(r, up_to) over the group.

    Misclassified samples count with distance 0. Reference: Mousavi 2023; Nanda 2021, Eq. 4.

    >>> from fairmargin.core.bound import Bound
    >>> from fairmargin.core.norm import Norm
    >>> d = Distances([1.0, 3.0, 0.0, 1.0], [True, True, False, True], Bound.EXACT, Norm.L2)
    >>> robustness(d, Partition.by("sex", ["F", "F", "M", "M"]))
    {'F': 2.0, 'M': 0.5}
    """
    values = capped(distances, partition, up_to)
    return _by_group(_means(values, partition), partition)


def overall_robustness(distances: Distances, partition: Partition, *, up_to: float = math.inf) -> float:
    """Rob(f) = mean over the groups of Rob(P), unweighted: small groups count as much as large ones (Mousavi 2023)."""
    return float(np.mean(list(robustness(distances, partition, up_to=up_to).values())))


def robustness_variance(distances: Distances, partition: Partition, *, up_to: float = math.inf) -> float:
    """V_f = population variance of Rob(P) over the groups (Mousavi 2023).

    It grows with the square of the distances: never compare it between models without
    `relative_robustness_variance`. Sampling noise alone makes it positive; `audit` gives the debiased value.
    """
    return float(np.var(list(robustness(distances, partition, up_to=up_to).values())))


def relative_robustness_variance(distances: Distances, partition: Partition, *, up_to: float = math.inf) -> float:
    """V_f / Rob(f)², which does not change when every distance is doubled."""
    mean = overall_robustness(distances, partition, up_to=up_to)
    if mean == 0:
        return Undefined("every group has robustness 0")
    return robustness_variance(distances, partition, up_to=up_to) / mean**2


def worst_group(distances: Distances, partition: Partition, *, up_to: float = math.inf) -> WorstGroup:
    """The group with the smallest Rob(P); the first in the partition's order among equals."""
    values = robustness(distances, partition, up_to=up_to)
    group = min(values, key=lambda label: values[label])
    return WorstGroup(group, values[group])


def median_distance(
    distances: Distances, partition: Partition, *, over: Over = "all", up_to: float = math.inf
) -> dict[str, float]:
    """The median of min(r, up_to) over the group, or over its correct samples; unreached samples may lie above it."""
    same_length(distances=distances, partition=partition)
    if not up_to > 0:
        raise InputError(f"`up_to` must be a radius above 0; given {up_to!r}.")
    values = np.minimum(distances.values, up_to)
    chosen = _counted(distances, over)
    result: dict[str, float] = {}
    for label, mask in partition:
        group = values[mask & chosen]
        result[label] = float(np.median(group)) if group.size else Undefined(f"no correct sample in group {label!r}")
    return result


def sigma(
    distances: Distances,
    partition: Partition,
    *,
    complement: Complement = "pooled",
    over: Over = "all",
    up_to: float = math.inf,
) -> dict[str, float]:
    """σ(P) = (AUC(I_P) − AUC(I_rest)) / AUC(I_rest): how much more robust a group is than the rest, relatively.

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


def sigma_parts(distances: Distances, partition: Partition, *, up_to: float = math.inf) -> dict[str, SigmaParts]:
    """Splits σ(P) into an accuracy part and a margin part whose (1 + part) multiply to 1 + σ(P).

    With a lower bound a correct sample may have distance 0 (an abstention): that is counted in the margin part.
    """
    values = capped(distances, partition, up_to)
    everyone = np.ones(len(values), dtype=np.bool_)
    hits, hits_rest = _own_and_rest(distances.correct.astype(np.float64), everyone, partition, "pooled")
    margin, margin_rest = _own_and_rest(values, distances.correct, partition, "pooled")
    return {
        label: SigmaParts(
            _relative(hits[i], hits_rest[i], label, "accuracy", "all"),
            _relative(margin[i], margin_rest[i], label, "mean distance of correct samples", "correct"),
        )
        for i, label in enumerate(partition.labels)
    }


def robustness_bias(distances: Distances, partition: Partition, radius: float) -> dict[str, float]:
    """RB(P, τ) = |Pr(d > τ | P, correct) − Pr(d > τ | not P, correct)| at one radius τ.

    Conditional on correct samples, unlike the curve. Reference: Nanda 2021, Eq. 2.
    """
    if not radius >= 0:
        raise InputError(f"`radius` must be a number that is not negative; given {radius!r}.")
    beyond = (distances.values > radius).astype(np.float64)
    own, rest = _own_and_rest(beyond, distances.correct, partition, "pooled")
    return {label: _defined(abs(own[i] - rest[i]), own[i], rest[i], label) for i, label in enumerate(partition.labels)}


def largest_robustness_bias(distances: Distances, partition: Partition) -> dict[str, LargestBias]:
    """sup over τ of RB(P, τ), and where: the two-sample Kolmogorov–Smirnov distance of the correct samples.

    The supremum is positive by chance alone; `largest_bias_test` says how often.
    """
    same_length(distances=distances, partition=partition)
    values = distances.values
    result: dict[str, LargestBias] = {}
    for label, mask in partition:
        own = np.sort(values[mask & distances.correct])
        rest = np.sort(values[~mask & distances.correct])
        if not own.size or not rest.size:
            reason = Undefined(_missing_side(bool(own.size), label))
            result[label] = LargestBias(reason, reason)
            continue
        radii = np.unique(np.concatenate([own, rest]))
        gaps = np.abs(
            np.searchsorted(own, radii, side="right") / own.size
            - np.searchsorted(rest, radii, side="right") / rest.size
        )
        top = int(gaps.argmax())
        result[label] = LargestBias(float(gaps[top]), float(radii[top]))
    return result


def capped(distances: Distances, partition: Partition, up_to: float = math.inf) -> Floats:
    """min(r, up_to) per sample; an error that names the first group with an unreached sample if nothing caps it."""
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
    """The mean over each group and over its rest; NaN where no sample is counted."""
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
