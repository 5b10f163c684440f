"""Which features a random search changes together: a square of an image, some columns of a table."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

_GRID = 5  # squares along each side of an image that an L2 search begins with
_NARROWEST = 3  # an L2 pattern has a middle and two sides


class Moves(NamedTuple):
    """What a query changes, for each sample, channel and place (n, channels, places).

    Parameters
    ----------
    taken
        Which features get new values.
    pattern
        Their signs in L∞; in L2 a direction of length 1 in each channel, 0 where nothing is taken.
    emptied
        Which features give their share away, in L2.
    """

    taken: Tensor
    pattern: Tensor
    emptied: Tensor


class Windows(Protocol):
    """How samples of one shape are changed; all randomness comes as numbers, so that it can come from keys."""

    @property
    def channels(self) -> int:
        """Parts of a sample that have a pattern each."""

    @property
    def numbers(self) -> int:
        """How many numbers between 0 and 1 a query needs."""

    def first_signs(self, draws: Tensor) -> Tensor:
        """Where an L∞ search begins: a sign for each feature, from one draw for each, positive or negative."""

    def first_direction(self, draws: Tensor) -> Tensor:
        """Where an L2 search begins: a direction, from the same."""

    def signs(self, numbers: Tensor, share: float) -> Moves:
        """A query in L∞, which changes about that share of the features."""

    def directions(self, numbers: Tensor, share: float) -> Moves:
        """A query in L2."""


def windows_for(shape: tuple[int, ...]) -> Windows:
    """Squares for (channels, height, width) and (height, width); anything else has features without neighbours.

    >>> windows_for((3, 8, 8))
    Squares(channels=3, height=8, width=8)
    >>> windows_for((10,))
    Columns(features=10)
    """
    if len(shape) in (2, 3):
        return Squares(*(1, *shape)[-3:])
    return Columns(math.prod(shape))


@dataclass(frozen=True, slots=True)
class Squares:
    """Squares of an image, at the same place in all channels, with a sign for each channel."""

    channels: int
    height: int
    width: int

    @property
    def numbers(self) -> int:
        """Two places, which way round a pattern lies, and the signs."""
        return 5 + self.channels

    def first_signs(self, draws: Tensor) -> Tensor:
        """Vertical stripes one pixel wide."""
        columns = self._image(draws)[:, :, :1].sign()
        return columns.expand(-1, -1, self.height, -1).flatten(1)

    def first_direction(self, draws: Tensor) -> Tensor:
        """A grid of patterns side by side."""
        side = max(1, min(self.height, self.width) // _GRID)
        rows, columns = (torch.arange(size, device=draws.device) for size in (self.height, self.width))
        signs = self._image(draws).sign()[:, :, rows // side][..., columns // side]
        grid = _pattern(side).to(draws)[rows % side][:, columns % side]
        return (signs * grid).flatten(1)

    def signs(self, numbers: Tensor, share: float) -> Moves:
        """A square at a random place."""
        side = min(max(1, round(math.sqrt(share * self.height * self.width))), self.height, self.width)
        taken = self._square(numbers[:, 0], numbers[:, 1], side)[0]
        return Moves(taken, self._channel_signs(numbers).expand(-1, -1, self.height * self.width), taken)

    def directions(self, numbers: Tensor, share: float) -> Moves:
        """A square that gets a pattern, and one that gives its length away."""
        side = max(_NARROWEST, round(math.sqrt(share * self.height * self.width)))
        side = min(side + 1 - side % 2, self.height, self.width)
        taken, row, column = self._square(numbers[:, 0], numbers[:, 1], side)
        emptied = self._square(numbers[:, 2], numbers[:, 3], side)[0]
        flat = _pattern(side).to(numbers)
        upright = flat.T[row[:, :, None], column[:, None, :]]
        pattern = torch.where((numbers[:, 4] > 0.5)[:, None, None], flat[row[:, :, None], column[:, None, :]], upright)
        pattern = torch.where(taken, pattern.flatten(1)[:, None], 0.0) * self._channel_signs(numbers)
        return Moves(taken, pattern, emptied)

    def _square(self, down: Tensor, right: Tensor, side: int) -> tuple[Tensor, Tensor, Tensor]:
        """Its features, and how far each row and column of the image lies inside of it."""
        inside = []
        for number, size in ((down, self.height), (right, self.width)):
            first = (number * (size - side + 1)).long().clamp(max=size - side)
            inside.append(torch.arange(size, device=number.device) - first[:, None])
        row, column = inside
        hit = [(each >= 0) & (each < side) for each in inside]
        taken = (hit[0][:, :, None] & hit[1][:, None, :]).flatten(1)[:, None]
        return taken, row.clamp(0, side - 1), column.clamp(0, side - 1)

    def _channel_signs(self, numbers: Tensor) -> Tensor:
        return torch.where(numbers[:, 5:] < 0.5, -1.0, 1.0).to(numbers)[:, :, None]

    def _image(self, draws: Tensor) -> Tensor:
        features = self.channels * self.height * self.width
        return draws[:, :features].reshape(-1, self.channels, self.height, self.width)


@dataclass(frozen=True, slots=True)
class Columns:
    """Some columns of a table, each with a value of its own: there are no neighbours to change alike."""

    features: int
    channels: ClassVar[int] = 1

    @property
    def numbers(self) -> int:
        """Two for the choice of columns, and one for the values."""
        return 3 * self.features

    def first_signs(self, draws: Tensor) -> Tensor:
        """At random."""
        return draws[:, : self.features].sign()

    def first_direction(self, draws: Tensor) -> Tensor:
        """At random."""
        return draws[:, : self.features]

    def signs(self, numbers: Tensor, share: float) -> Moves:
        """Some columns, each with a sign."""
        taken = self._chosen(numbers[:, : self.features], max(1, round(share * self.features)))
        values = numbers[:, 2 * self.features :]
        return Moves(taken, torch.where(values < 0.5, -1.0, 1.0).to(numbers)[:, None], taken)

    def directions(self, numbers: Tensor, share: float) -> Moves:
        """Some columns that get a random direction, and some that give their length away."""
        # One column alone could only grow or shrink, and never change its sign.
        count = min(max(2, round(share * self.features)), self.features)
        taken = self._chosen(numbers[:, : self.features], count)
        emptied = self._chosen(numbers[:, self.features : 2 * self.features], count)
        values = torch.where(taken, 2 * numbers[:, None, 2 * self.features :] - 1, 0.0)
        size = values.square().sum(dim=2, keepdim=True).sqrt()
        return Moves(taken, values / torch.where(size > 0, size, 1.0), emptied)

    def _chosen(self, numbers: Tensor, count: int) -> Tensor:
        limit = numbers.kthvalue(count, dim=1).values
        return (numbers <= limit[:, None])[:, None]


@cache
def _pattern(side: int) -> Tensor:
    """A square of length 1 with a hill in one half and a hollow in the other, as (side, side)."""
    upper = side // 2
    both = torch.cat([_hill(upper, side), -_hill(side - upper, side)])
    return both / both.square().sum().sqrt()


def _hill(height: int, width: int) -> Tensor:
    """Σ 1/(j + 1)² over the rings j from a place outwards, of length 1: highest in the middle."""
    rows, columns = ((torch.arange(size, dtype=torch.float64) - size // 2).abs() for size in (height, width))
    ring = torch.maximum(rows[:, None], columns[None, :]).long()
    weights = 1 / torch.arange(1, max(height, width) // 2 + 2, dtype=torch.float64).square()
    outwards = weights.flip(0).cumsum(0).flip(0)
    hill = outwards[ring]
    return hill / hill.square().sum().sqrt() if height else hill
