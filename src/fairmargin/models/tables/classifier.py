"""A classifier of raw table rows, whose predictions are those of the user's own model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol, cast

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.domain import Domain
from fairmargin.errors import InputError, ModelError
from fairmargin.models.tables.additive import Additive, additive_of
from fairmargin.models.tables.coding import Coding
from fairmargin.models.tables.features import FeatureMap
from fairmargin.models.tables.trees import of_columns
from fairmargin.models.trees.ensemble import TreeEnsemble

_AT_A_TIME = 16_384  # rows of a linear model, which are searched faster than they are predicted


class Head(Protocol):
    """The last step of a model, which decides by the features: a linear model, trees or a network."""

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities that it gives a classifier, see `Classifier.offers`."""

    def fingerprint(self) -> str:
        """Return a hash of everything that determines its scores."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearHead:
    """Scores ⟨w_k, z⟩ + b_k of the features z, one row of weights per class; the first of equal scores wins."""

    weight: Floats
    bias: Floats

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of a linear model."""
        return frozenset({"predict", "linear"})

    def fingerprint(self) -> str:
        """Return a hash of weights and biases."""
        return sha256(self.weight.astype("<f8").tobytes() + self.bias.astype("<f8").tobytes()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class TableClassifier:
    """A classifier of the rows of a table. The original model makes all predictions; searches read `features`, `head`.

    Parameters
    ----------
    original
        The model as the user gave it.
    classes
        Label values, in the order of the scores.
    features_map
        How the features of the last step follow from the columns.
    head
        The last step: `LinearHead`, `TreeEnsemble` or `NetworkHead`.
    positions
        Function that returns the class positions which the original model predicts for a table.
    notes
        Sentences about how rows were coded, for the report.
    """

    original: Any
    classes: tuple[Any, ...]
    features_map: FeatureMap
    head: Any
    positions: Callable[[Any, Any], Ints]
    notes: tuple[str, ...] = ()
    domain: Domain = field(init=False)
    _additive: Additive | None = field(init=False, default=None, repr=False)
    _ensemble: TreeEnsemble | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", Domain.of_table(self.coding.columns))

    @property
    def coding(self) -> Coding:
        """How rows are coded as numbers."""
        return self.features_map.coding

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of the last step."""
        return frozenset(self.head.offers)

    @property
    def additive(self) -> Additive:
        """The scores of a linear last step as a sum over the columns; made when it is first asked for."""
        if self._additive is None:
            if not isinstance(self.head, LinearHead):
                raise ModelError(f"The last step of the {type(self.original).__name__} is not linear.")
            object.__setattr__(self, "_additive", additive_of(self.features_map, self.head.weight, self.head.bias))
        return cast(Additive, self._additive)

    @property
    def ensemble(self) -> TreeEnsemble:
        """The trees of the last step, expressed on the columns of coded rows; made when it is first asked for."""
        if self._ensemble is None:
            if not isinstance(self.head, TreeEnsemble):
                raise ModelError(f"The last step of the {type(self.original).__name__} is not an ensemble of trees.")
            object.__setattr__(self, "_ensemble", of_columns(self.head, self.features_map))
        return cast(TreeEnsemble, self._ensemble)

    @property
    def tile(self) -> int:
        """The fixed batch size, 1: each row is answered separately."""
        return 1

    @property
    def at_a_time(self) -> int:
        """How many rows are worth predicting together: `predict` of a pipeline takes long even for a single row."""
        return _AT_A_TIME if isinstance(self.head, LinearHead) else 0

    @property
    def features(self) -> int:
        """The number of columns of a coded row."""
        return len(self.coding.columns)

    @property
    def accepts_missing(self) -> bool:
        """Whether coded rows may hold NaN; the model itself decides about missing values."""
        return True

    def encode(self, x: Any, argument: str = "x") -> Floats:
        """Return the coded rows of a table."""
        return self.coding.encode(x, argument)

    def predict(self, x: Any) -> Ints:
        """Predict the position of the class of each coded row, by the original model."""
        rows = np.asarray(x)
        if rows.dtype.kind not in "fiub" or rows.ndim != 2 or rows.shape[1] != self.features:
            raise InputError(
                f"Rows must be coded by {self.features:,} numbers each, as `encode` returns them; given an array of "
                f"the type {rows.dtype} and the shape {rows.shape}."
            )
        rows = rows.astype(np.float64, copy=False)
        if not len(rows):
            return np.zeros(0, dtype=np.int64)
        parts = self.coding.alike(rows)
        found = [self.positions(self.original, self.coding.decode(rows[part])) for part in parts]
        positions = np.empty(len(rows), dtype=np.int64)
        positions[np.concatenate(parts)] = np.concatenate(found)
        return positions

    def fingerprint(self) -> str:
        """Compute a hash of all steps, the classes, the coding and the rules of the columns."""
        kind = type(self.original)
        parts = (kind.__module__, kind.__name__, self.classes, self.coding.fingerprint(), self.domain.fingerprint())
        probe = np.ascontiguousarray(self.features_map.transform(_probe(self.coding)), dtype="<f8").tobytes()
        steps = (self.features_map.state + self.head.fingerprint()).encode()
        return sha256(repr(parts).encode() + steps + probe).hexdigest()

    def __repr__(self) -> str:
        kind = type(self.original).__name__
        return f"TableClassifier({kind}, {len(self.classes)} classes, {self.features} columns)"


def _probe(coding: Coding) -> Floats:
    """Return a few rows that tell different preprocessing apart: each category once, and numbers over their range."""
    most = max([16, *(len(column.categories) for column in coding.columns)])
    rows = np.empty((most, len(coding.columns)))
    for place, column in enumerate(coding.columns):
        if column.is_number:
            low = column.low if np.isfinite(column.low) else -10.0 * column.unit
            high = column.high if np.isfinite(column.high) else 10.0 * column.unit
            rows[:, place] = np.linspace(low, high, most)
        else:
            rows[:, place] = np.arange(most) % max(1, len(column.categories))
    return rows
