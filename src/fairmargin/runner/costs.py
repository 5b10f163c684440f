"""The cost of an estimator per sample: passes through the model, counted in a trial on one tile.

Passes are counted, not timed: the same trial gives the same number on a busy machine, so that the plan made from it
does not change from run to run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fairmargin.attacks.outcomes import attack_shard
from fairmargin.attacks.protocol import Attack
from fairmargin.core.arrays import Ints
from fairmargin.core.domain import Domain
from fairmargin.distances.measure import measure_shard
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.models.protocol import Classifier, Differentiable

if TYPE_CHECKING:
    from torch import Tensor

    from fairmargin.models.network import Network


@dataclass(slots=True)
class _Rows:
    """Number of rows that have passed through the model, forward or backward."""

    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Counted:
    """A classifier that counts the rows that it predicts or differentiates."""

    model: Any
    rows: _Rows = field(default_factory=_Rows)

    @property
    def classes(self) -> tuple[Any, ...]:
        return tuple(self.model.classes)

    @property
    def domain(self) -> Domain:
        domain: Domain = self.model.domain
        return domain

    @property
    def offers(self) -> frozenset[str]:
        return frozenset(self.model.offers)

    @property
    def tile(self) -> int:
        return int(self.model.tile)

    def fingerprint(self) -> str:
        return str(self.model.fingerprint())

    def predict(self, x: Any) -> Ints:
        self.rows.count += len(x)
        positions: Ints = self.model.predict(x)
        return positions

    @contextmanager
    def network(self, shape: tuple[int, ...]) -> "Iterator[Network]":
        with self.model.network(shape) as network:

            def scores(rows: "Tensor") -> "Tensor":
                out: Tensor = network.scores(rows)
                self.rows.count += len(rows)
                if out.requires_grad:
                    out.register_hook(lambda _: self._back(len(rows)))  # type: ignore[no-untyped-call]
                return out

            def plain(rows: "Tensor") -> "Tensor":
                self.rows.count += len(rows)
                answer: Tensor = network.plain(rows)
                return answer

            yield replace(network, scores=scores, plain=plain)

    def _back(self, rows: int) -> None:
        self.rows.count += rows


def passes_of(model: Classifier, estimator: DistanceEstimator, x: Any, positions: Ints, seed: int) -> float:
    """Return the number of passes of an estimator per sample; at least 1, even if it only reads the weights.

    Rows that only fill up a tile count too, since they cost the same. Searches in the rows of a table are not counted.
    """
    if (
        model.domain.columns
        or not isinstance(model, Differentiable)
        or ("linear" in model.offers and estimator.needs == "linear")
    ):
        return 1.0
    counted = _Counted(model)
    measure_shard(counted, estimator, x, positions, seed)
    return max(1.0, counted.rows.count / len(positions))


def passes_of_attack(model: Classifier, attack: Attack, x: Any, positions: Ints, radius: float, seed: int) -> float:
    """Return the passes that an attack takes for each of some samples."""
    counted = _Counted(model)
    attack_shard(counted, attack, x, positions, radius, seed, 0)
    return counted.rows.count / len(positions)
