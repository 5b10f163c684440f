"""Settings of a comparison of groups, declared once for Python, the command line and study files."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import ValidationInfo, field_validator, model_validator

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.options import STORED_BELOW, Number, Options, Whole
from fairmargin.core.partition import MISSING, Partition, label_text
from fairmargin.errors import InputError
from fairmargin.inference.estimate import FEWEST_FOR_VERDICT

_LEAST_RATIO = 1e-9  # of two weights; differences of sums of weights have rounding errors of 1e-16 of the sum

_ALLOWED: dict[str, tuple[Callable[[float], bool], str]] = {
    "confidence": (lambda value: 0.5 <= value < 1, "must lie in [0.5, 1), for instance 0.95"),
    "up_to": (
        lambda value: 0 < value < STORED_BELOW or value == math.inf,
        "must be a radius above 0 and below 2**63, or inf",
    ),
    "smallest_group": (lambda value: value >= 2, "must be at least 2: one sample has no spread"),
    "resamples": (lambda value: value >= 200, "must be at least 200, for a quantile of 2.5 %"),
}


class CompareOptions(Options):
    """Options of a comparison of groups that are numbers."""

    panel: ClassVar[str] = "Comparing"

    confidence: Number = 0.95
    """Confidence of every interval; 1 − confidence is the level of the tests."""
    up_to: Number = math.inf
    """Radius at which distances are capped: means are those of min(distance, up_to)."""
    smallest_group: Whole = 30
    """With fewer effective samples in the group or its rest: "too few samples". From this number to 49: an interval,
    but no verdict. From 50: a verdict."""
    resamples: Whole = 2_000
    """Number of bootstrap resamples and of permutations."""

    @field_validator("confidence", "up_to", "smallest_group", "resamples")
    @classmethod
    def _check(cls, value: float, info: ValidationInfo) -> float:
        is_allowed, expected = _ALLOWED[str(info.field_name)]
        if not is_allowed(value):
            raise InputError(expected)
        return value


class AuditSettings(CompareOptions):
    """Settings of `fairmargin.audit`: how groups are compared.

    Parameters
    ----------
    confidence
        Confidence of every interval; 1 − confidence is the level of the tests.
    up_to
        Radius at which distances are capped: means are those of min(distance, up_to).
    smallest_group
        Groups with fewer effective samples, or with fewer in their rest, get the verdict "too few samples". From this
        number to 49 they have an interval but "no verdict", and from 50 on a verdict. The effective number is below the
        size where samples have weights or form clusters.
    resamples
        Number of bootstrap resamples and of permutations.
    control
        A second partition, usually by class. Groups are compared inside its strata, with a common mix of strata.
    cluster
        One id per sample if samples are not independent, for instance the person of a photograph. Clusters are
        resampled and permuted whole.
    sample_weight
        One weight per sample, 0 or more, for samples that stand for unequal parts of the population, for instance the
        reciprocals of their probabilities of being drawn. Only their ratios matter; samples with weight 0 count as
        absent.
    seed
        Seed of the random numbers.

    >>> AuditSettings(confidence=0.75).alpha
    0.25
    >>> AuditSettings(confidence=95)
    Traceback (most recent call last):
    ...
    fairmargin.errors.InputError: `confidence` must lie in [0.5, 1), for instance 0.95; given 95.
    """

    control: Partition | None = None
    cluster: Any = None
    sample_weight: Any = None
    seed: Whole = 0

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if self.seed < 0:
            raise InputError("must not be negative", field="seed", given=self.seed)
        if self.sample_weight is not None:
            checked_weights(self.sample_weight)
        return self

    @property
    def fewest_for_verdict(self) -> int:
        """Effective number of samples from which on a group gets a verdict."""
        return max(self.smallest_group, FEWEST_FOR_VERDICT)

    @property
    def alpha(self) -> float:
        """Level of the tests."""
        return 1 - self.confidence

    def cluster_codes(self, samples: int) -> Ints | None:
        """Return the clusters as numbers 0, 1, …; each sample without an id is a cluster of its own."""
        if self.cluster is None:
            return None
        ids = self.cluster.tolist() if hasattr(self.cluster, "tolist") else list(self.cluster)
        if len(ids) != samples:
            raise InputError(f"`cluster` has {len(ids):,} ids but there are {samples:,} samples.")
        codes: dict[Any, int] = {}
        keys = (("missing", i) if label_text(unit) == MISSING else unit for i, unit in enumerate(ids))
        return np.array([codes.setdefault(key, len(codes)) for key in keys], dtype=np.int64)

    def weights(self, samples: int) -> Floats | None:
        """Return the weights with a mean of 1; None if there are none, or if all are equal.

        They are None exactly where an analysis without weights has the same result, so that `if weights is None` leads
        to the faster code for single samples.
        """
        if self.sample_weight is None:
            return None
        given = checked_weights(self.sample_weight)
        if len(given) != samples:
            raise InputError(f"has {len(given):,} weights, but there are {samples:,} samples", field="sample_weight")
        relative = given / given.max()  # exactly 1 if all are equal; no sum of them overflows
        if (relative == 1).all():
            return None
        # Rounding depends on the order of a sum, and the order of the rows must not matter.
        return np.asarray(relative * (samples / np.sort(relative).sum()))

    def present(self, samples: int) -> Ints | None:
        """Return the indices of the samples whose weight is above 0; None if these are all."""
        weights = self.weights(samples)
        return None if weights is None or (weights > 0).all() else np.flatnonzero(weights > 0)

    def refuse_weights(self, analysis: str) -> None:
        """Raise an error if there are weights, which an analysis cannot use; `analysis` names it and says why."""
        if self.sample_weight is not None:
            raise InputError(f"does not go with {analysis}: leave it out", field="sample_weight")

    def take(self, rows: Ints) -> Self:
        """Return the settings for some of the samples."""
        columns: dict[str, Any] = {
            "control": None if self.control is None else self.control.take(rows),
            "cluster": None if self.cluster is None else np.asarray(self.cluster, dtype=object)[rows],
            "sample_weight": None if self.sample_weight is None else checked_weights(self.sample_weight)[rows],
        }
        return self.model_copy(update=columns)


def checked_weights(given: Any) -> Floats:
    """Return weights of samples as numbers; refuse those that are negative, infinite, missing, or all 0.

    >>> checked_weights([1, 0.5, 0]).tolist()
    [1.0, 0.5, 0.0]
    """
    expected = "must hold one number per sample, 0 or more"
    try:
        array = np.asarray(given)
    except ValueError:  # lists of different lengths
        array = np.empty(())
    if array.ndim != 1 or array.dtype.kind not in "biufOUS":
        raise InputError(expected, field="sample_weight", given=given)
    try:
        weights = array.astype(np.float64)
    except (TypeError, ValueError):
        where = next((i for i, each in enumerate(array) if not _is_number(each)), 0)
        raise InputError(
            f"{expected}; it has {str(array[where])!r} at index {where:,}", field="sample_weight"
        ) from None
    lowest = float(np.nanmin(weights, initial=np.inf))
    wrong = ((np.isnan(weights), "no number"), (np.isinf(weights), "infinity"), (weights < 0, f"{lowest:g}"))
    for mask, what in wrong:
        if mask.any():
            raise InputError(f"{expected}; it has {what} at index {int(mask.argmax()):,}", field="sample_weight")
    if not (weights > 0).any():
        raise InputError("has no number above 0, and samples with weight 0 count as absent", field="sample_weight")
    least = weights[weights > 0].min()
    if least / weights.max() < _LEAST_RATIO:
        raise InputError(
            f"has weights from {least:g} to {weights.max():g}, whose sums cannot be computed: a weight above 0 must be "
            f"at least {_LEAST_RATIO:g} times the largest. Give smaller ones the weight 0",
            field="sample_weight",
        )
    return weights


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
