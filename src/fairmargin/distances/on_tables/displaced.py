"""A table as estimators by gradients see it: displacements of numbers, from fixed rows with switched categories."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.domain import Domain
from fairmargin.distances.on_tables.candidates import Candidates, Table
from fairmargin.distances.on_tables.values import limits

if TYPE_CHECKING:
    from torch import Tensor

    from fairmargin.models.network import Network

_FAR = 100.0  # limit of displacements of a number whose column has none, in units
_REFERENCES = 16  # number of displacements that searches try where they find nothing


@dataclass(frozen=True, slots=True, eq=False)
class Displaced:
    """A classifier of displacements of numbers.

    A sample holds the displacement of each movable number in units, followed by the position of a candidate, which does
    not move: the row that is displaced. Within the limits of its columns, the scores are those of the displaced row;
    beyond them, those at the limit. Samples of different rows and switches can thus be searched in one batch, by
    estimators that know nothing of tables. Numbers move continuously, whatever their step.

    Parameters
    ----------
    table
        The rows and the model.
    start
        The rows that are displaced, whose numbers have not changed yet.
    """

    table: Table
    start: Candidates

    @property
    def classes(self) -> tuple[Any, ...]:
        """The label values of the model."""
        return self.table.layer.model.classes

    @property
    def domain(self) -> Domain:
        """The displacements that the rules allow for some row of the table."""
        low, high = [0.0], [0.0]
        for at in reversed(self.table.numbers):
            column = self.table.columns[at]
            # Twice the range, for values outside of it that move into it.
            width = 2 * (column.high - column.low) / column.unit
            width = width if np.isfinite(width) and width > 0 else _FAR
            low.insert(0, 0.0 if column.direction == "up" else -width)
            high.insert(0, 0.0 if column.direction == "down" else width)
        return Domain(low, high, [1.0] * len(self.table.numbers) + [0.0])

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities: predictions and gradients."""
        return frozenset({"predict", "gradient"})

    @property
    def tile(self) -> int:
        """The fixed batch size."""
        return 256

    def samples(self) -> Floats:
        """Return the samples that are not displaced, one for each candidate."""
        found = np.zeros((len(self.start), len(self.table.numbers) + 1))
        found[:, -1] = np.arange(len(found))
        return found

    def numbers(self, samples: Floats) -> Floats:
        """Return the numbers of displaced rows, one column for each movable number; NaN for samples that are NaN."""
        own = self.table.rows[self.start.of]
        found = np.empty((len(samples), len(self.table.numbers)))
        for i, at in enumerate(self.table.numbers):
            low, high = limits(self.table.columns[at], own[:, at])
            moved = own[:, at] + samples[:, i] * self.table.columns[at].unit
            found[:, i] = np.where(samples[:, i] == 0, own[:, at], np.clip(moved, low, high))
        return found

    def predict(self, x: Any) -> Ints:
        """Predict the position of the class of each sample."""
        import torch

        with self.network(tuple(np.shape(x)[1:])) as network:
            rows = torch.as_tensor(np.asarray(x, dtype=np.float64))
            return np.asarray(network.plain(rows).argmax(dim=1).numpy(), dtype=np.int64)

    def fingerprint(self) -> str:
        """Compute the hash of the model."""
        return self.table.layer.model.fingerprint()

    @contextmanager
    def network(self, shape: tuple[int, ...]) -> "Iterator[Network]":
        """Open the model as a torch network in double precision."""
        import torch

        from fairmargin.models.network import Network, space

        table, numbers = self.table, self.table.numbers
        own = table.rows[self.start.of][:, list(numbers)]
        ends = np.empty((2, *own.shape))
        for i, at in enumerate(numbers):
            ends[:, :, i] = limits(table.columns[at], own[:, i])
        unit = np.array([table.columns[at].unit for at in numbers])
        known = np.where(np.isnan(own), 0.0, own)
        lowest, highest = (torch.tensor((np.where(np.isnan(own), 0.0, end) - known) / unit) for end in ends)
        start, sums, rest = torch.tensor(known), torch.tensor(self.start.sums), table.layer.head.module(first=1)
        slopes = [i for i, at in enumerate(numbers) if at in table.layer.slopes]
        slope = torch.tensor(np.array([table.layer.slopes[numbers[i]] * unit[i] for i in slopes]))
        curves = [(i, _Curve.of(table, numbers[i])) for i in range(len(numbers)) if i not in slopes]

        def scores(rows: "Tensor") -> "Tensor":
            which = rows[:, -1].detach().round().long().clamp(0, len(start) - 1)
            moved = torch.minimum(torch.maximum(rows[:, :-1], lowest[which]), highest[which])
            total = sums[which] + 0.0 * rows[:, -1:]  # differentiable, even if no number can move
            if slopes:
                total = total + moved[:, slopes] @ slope
            for i, curve in curves:
                before = start[which, i]
                total = total + curve.at(before + moved[:, i] * unit[i]) - curve.at(before)
            found: Tensor = rest(total)
            return found

        low, high, scale = space(self.domain, shape, torch.float64, torch.device("cpu"))
        yield Network(
            scores=scores,
            plain=lambda rows: scores(rows).detach(),
            classes=len(self.classes),
            tile=self.tile,
            low=low,
            high=high,
            scale=scale,
            references=torch.tensor(_references(self.domain)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """The contribution of a number in torch, whose slope is that between the middles of its jumps."""

    points: "Tensor"
    values: "Tensor"

    @classmethod
    def of(cls, table: Table, column: int) -> "_Curve":
        import torch

        curve = table.layer.curves[column]
        jumps = np.flatnonzero(np.diff(curve.points) <= 4 * np.spacing(np.abs(curve.points[1:])))
        if not len(jumps):
            return cls(torch.tensor(curve.points), torch.tensor(curve.values))
        edges = np.concatenate([[curve.points[0]], curve.points[jumps + 1], [curve.points[-1]]])
        middles = (edges[1:] + edges[:-1]) / 2
        points = np.unique(np.concatenate([[curve.points[0]], middles, [curve.points[-1]]]))
        return cls(torch.tensor(points), torch.tensor(curve.at(points)))

    def at(self, numbers: "Tensor") -> "Tensor":
        """Return the contributions of numbers."""
        import torch

        left = torch.searchsorted(self.points, numbers.detach().contiguous(), right=True) - 1
        left = left.clamp(0, len(self.points) - 2)
        share = (numbers - self.points[left]) / (self.points[left + 1] - self.points[left])
        change = self.values[left + 1] - self.values[left]
        return self.values[left] + share.clamp(0, 1)[:, None] * change


def _references(domain: Domain) -> Floats:
    """Return displacements to the limits: of single numbers, of all, and random ones."""
    low, high = domain.low, domain.high
    count = len(low)
    axes = np.zeros((2 * count, count))
    axes[np.arange(count), np.arange(count)], axes[count + np.arange(count), np.arange(count)] = low, high
    drawn = np.random.Generator(np.random.Philox(key=[0, count])).uniform(size=(_REFERENCES, count))
    return np.concatenate([axes[np.abs(axes).sum(axis=1) > 0][:_REFERENCES], low + drawn * (high - low)])
