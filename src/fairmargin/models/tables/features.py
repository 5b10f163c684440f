"""How the features that a model computes with follow from the columns of a table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints, read_only
from fairmargin.models.tables.coding import Coding

Shape = Literal["rising", "falling", "pieces"]
CONSTANT = -1
"""Source of a feature that does not depend on the columns."""
SEVERAL = -2
"""Source of a feature that mixes several columns affinely, only before a `LinearHead`."""


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMap:
    """The features that the last step of a model sees, each a function of at most one column.

    Values are never computed by formulas of our own, but by the fitted transformers themselves. Before a linear model,
    a feature may also be a weighted sum of functions of single columns, as after PCA; its source is `SEVERAL`.

    Parameters
    ----------
    coding
        The columns, and how rows are coded.
    source
        For each feature its column, as a position in `coding.columns`; `CONSTANT`, or `SEVERAL`.
    shape
        For each feature of a column of numbers, how it depends on the number: it never falls ("rising"), never rises
        ("falling"), or is constant between the numbers in `breaks` ("pieces").
    affine
        Whether each feature is an affine function of its number; of all numbers, if it mixes several.
    breaks
        For each feature of the shape "pieces", the sorted smallest numbers of all pieces but the first; () for others.
    transform
        Function from coded rows to features, which may be NaN where the last step sees a missing value. Where the model
        refuses an unknown category or a missing value, the features of its column are NaN.
    zero_is_missing
        Whether the last step reads a table that is sparse, and its absent entries, mostly zeros, as missing: features
        of any shape are then NaN instead of 0.
    state
        Hash of everything that determines `transform`.
    """

    coding: Coding
    source: Ints
    shape: tuple[Shape, ...]
    affine: Bools
    breaks: tuple[Floats, ...]
    transform: Callable[[Floats], Floats]
    zero_is_missing: bool = False
    state: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", read_only(np.asarray(self.source, dtype=np.int64)))
        object.__setattr__(self, "affine", read_only(np.asarray(self.affine, dtype=np.bool_)))

    def features_of(self, column: int) -> Ints:
        """Return the positions of the features that depend on a column."""
        return np.flatnonzero(self.source == column)
