"""Settings of a comparison of groups, declared once for Python, the command line and study files."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import ValidationInfo, field_validator, model_validator

from fairmargin.core.arrays import Ints
from fairmargin.core.options import STORED_BELOW, Number, Options, Whole
from fairmargin.core.partition import MISSING, Partition, label_text
from fairmargin.errors import InputError

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
    """Groups with fewer independent samples, or with fewer in their rest, get the verdict "too few samples"."""
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
        Groups with fewer independent samples, or with fewer in their rest, get the verdict "too few samples".
    resamples
        Number of bootstrap resamples and of permutations.
    control
        A second partition, usually by class. Groups are compared inside its strata, with a common mix of strata.
    cluster
        One id per sample if samples are not independent, for instance the person of a photograph. Clusters are
        resampled and permuted whole.
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
    seed: Whole = 0

    @model_validator(mode="after")
    def _check_seed(self) -> Self:
        if self.seed < 0:
            raise InputError("must not be negative", field="seed", given=self.seed)
        return self

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
