"""What an audit is asked to do."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmargin.core.arrays import Ints
from fairmargin.core.partition import MISSING, Partition, label_text
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class AuditSettings:
    """How groups are compared.

    Parameters
    ----------
    confidence
        Of every interval; 1 − confidence is the level of the tests.
    control
        A second partition, usually the class: groups are compared inside its strata and standardised to a common mix.
    cluster
        An id per sample, where samples are not independent (the same person twice): clusters are resampled and permuted
        whole.
    up_to
        Average min(distance, up_to).
    smallest_group
        Groups with fewer independent samples, or with fewer in their rest, get the verdict "too few samples".
    resamples
        Of the bootstrap.
    seed
        The same seed gives the same numbers.
    """

    confidence: float = 0.95
    control: Partition | None = None
    cluster: Any = None
    up_to: float = math.inf
    smallest_group: int = 30
    resamples: int = 2_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise InputError(f"`confidence` must lie in [0.5, 1), for instance 0.95; given {self.confidence!r}.")
        if not self.up_to > 0:
            raise InputError(f"`up_to` must be a radius above 0; given {self.up_to!r}.")
        if self.smallest_group < 2:
            raise InputError(
                f"`smallest_group` must be at least 2: one sample has no spread; given {self.smallest_group}."
            )
        if self.seed < 0:
            raise InputError(f"`seed` must not be negative; given {self.seed}.")
        if self.resamples < 200:
            raise InputError(f"`resamples` must be at least 200, for a quantile of 2.5 %; given {self.resamples}.")

    @property
    def alpha(self) -> float:
        """The level of the tests."""
        return 1 - self.confidence

    def cluster_codes(self, samples: int) -> Ints | None:
        """The clusters as numbers 0, 1, …; a sample whose id is missing is a cluster of its own."""
        if self.cluster is None:
            return None
        ids = self.cluster.tolist() if hasattr(self.cluster, "tolist") else list(self.cluster)
        if len(ids) != samples:
            raise InputError(f"`cluster` has {len(ids):,} ids but there are {samples:,} samples.")
        codes: dict[Any, int] = {}
        keys = (("missing", i) if label_text(unit) == MISSING else unit for i, unit in enumerate(ids))
        return np.array([codes.setdefault(key, len(codes)) for key in keys], dtype=np.int64)
