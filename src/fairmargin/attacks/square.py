"""Square Attack: random search that needs only the scores of a model."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from fairmargin.attacks.losses import Loss, margin
from fairmargin.attacks.survivors import BallAttack, Survivors
from fairmargin.core.arrays import is_number
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count, positive
from fairmargin.errors import InputError
from fairmargin.perturbation.balls import Ball
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.tiles import by_tiles

_HALVINGS = 10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000  # the share is halved after these, of 10,000 queries
_STREAM = 1 << 40  # first random stream of this attack
_ROUND, _NUMBERS = 100, 1 << 13  # maximum number of queries, and of random numbers per sample, in a round
_GRID = 5  # patterns along each side of the initial grid of an L2 search
_NARROWEST = 3  # minimum side of an L2 pattern, which has a center and two sides


class Moves(NamedTuple):
    """Change of a query, as tensors of shape (samples, channels, pixels) or broadcastable to it.

    Parameters
    ----------
    taken
        Mask of the features that get new values.
    pattern
        Signs of the new values in L∞; in L2, a direction of length 1 in each channel, which is 0 outside of `taken`.
    emptied
        Mask of the features that are reset to the sample's values in L2.
    """

    taken: Tensor
    pattern: Tensor
    emptied: Tensor


@dataclass(frozen=True, slots=True)
class Squares:
    """Squares of an image, at the same position in all channels, with a separate sign for each channel."""

    channels: int
    height: int
    width: int

    @property
    def numbers(self) -> int:
        """Number of random numbers of a query: two positions, the orientation of the pattern, and the signs."""
        return 5 + self.channels

    def first_signs(self, draws: Tensor) -> Tensor:
        """Return the initial signs in L∞: vertical stripes of one pixel width."""
        columns = self._image(draws)[:, :, :1].sign()
        return columns.expand(-1, -1, self.height, -1).flatten(1)

    def first_direction(self, draws: Tensor) -> Tensor:
        """Return the initial direction in L2: a grid of adjacent patterns."""
        side = max(1, min(self.height, self.width) // _GRID)
        rows, columns = (torch.arange(size, device=draws.device) for size in (self.height, self.width))
        signs = self._image(draws).sign()[:, :, rows // side][..., columns // side]
        grid = _pattern(side).to(draws)[rows % side][:, columns % side]
        return (signs * grid).flatten(1)

    def signs(self, numbers: Tensor, share: float) -> Moves:
        """Return a query in L∞ that changes a square at a random position, about this fraction of the features."""
        side = min(max(1, round(math.sqrt(share * self.height * self.width))), self.height, self.width)
        taken = self._square(numbers[:, 0], numbers[:, 1], side)[0]
        return Moves(taken, self._channel_signs(numbers).expand(-1, -1, self.height * self.width), taken)

    def directions(self, numbers: Tensor, share: float) -> Moves:
        """Return a query in L2 that adds a pattern to one square and takes its length from another."""
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
        """Return the mask of a square, and the row and column inside of it for each row and column of the image."""
        inside = []
        for number, size in ((down, self.height), (right, self.width)):
            first = (number * (size - side + 1)).long().clamp(max=size - side)
            inside.append(torch.arange(size, device=number.device) - first[:, None])
        row, column = inside
        hit = [(each >= 0) & (each < side) for each in inside]
        taken = (hit[0][:, :, None] & hit[1][:, None, :]).flatten(1)[:, None]
        return taken, row.clamp(0, side - 1), column.clamp(0, side - 1)

    def _channel_signs(self, numbers: Tensor) -> Tensor:
        """Return a sign for each channel."""
        return torch.where(numbers[:, 5:] < 0.5, -1.0, 1.0).to(numbers)[:, :, None]

    def _image(self, draws: Tensor) -> Tensor:
        """Return one number per feature in the shape of an image."""
        features = self.channels * self.height * self.width
        return draws[:, :features].reshape(-1, self.channels, self.height, self.width)


@dataclass(frozen=True, slots=True)
class Columns:
    """Random columns of a table, each with its own sign or value, because tables have no adjacent features."""

    features: int
    channels: ClassVar[int] = 1

    @property
    def numbers(self) -> int:
        """Number of random numbers of a query: per column, two for the choice of columns and one for its value."""
        return 3 * self.features

    def first_signs(self, draws: Tensor) -> Tensor:
        """Return the initial signs in L∞: one random sign for each column."""
        return draws[:, : self.features].sign()

    def first_direction(self, draws: Tensor) -> Tensor:
        """Return the initial direction in L2, which is random."""
        return draws[:, : self.features]

    def signs(self, numbers: Tensor, share: float) -> Moves:
        """Return a query in L∞ that changes random columns, each with its own sign."""
        taken = self._chosen(numbers[:, : self.features], max(1, round(share * self.features)))
        values = numbers[:, 2 * self.features :]
        return Moves(taken, torch.where(values < 0.5, -1.0, 1.0).to(numbers)[:, None], taken)

    def directions(self, numbers: Tensor, share: float) -> Moves:
        """Return a query in L2 that adds a random direction to some columns and takes its length from others."""
        # At least two columns, because a query on a single column could not change the sign of its perturbation.
        count = min(max(2, round(share * self.features)), self.features)
        taken = self._chosen(numbers[:, : self.features], count)
        emptied = self._chosen(numbers[:, self.features : 2 * self.features], count)
        values = torch.where(taken, 2 * numbers[:, None, 2 * self.features :] - 1, 0.0)
        size = values.square().sum(dim=2, keepdim=True).sqrt()
        return Moves(taken, values / positive(size), emptied)

    def _chosen(self, numbers: Tensor, count: int) -> Tensor:
        """Return the mask of the columns with the smallest numbers."""
        limit = numbers.kthvalue(count, dim=1).values
        return (numbers <= limit[:, None])[:, None]


Windows = Squares | Columns
"""The features that a query changes. Random numbers are arguments of all methods, so that keys can seed them."""


def windows_for(shape: tuple[int, ...]) -> Windows:
    """Return squares for images, (channels, height, width) or (height, width), and columns for samples of other shapes.

    >>> windows_for((3, 8, 8))
    Squares(channels=3, height=8, width=8)
    >>> windows_for((10,))
    Columns(features=10)
    """
    if len(shape) in (2, 3):
        return Squares(*(1, *shape)[-3:])
    return Columns(math.prod(shape))


@dataclass(frozen=True)
class Square(BallAttack):
    """Random search that changes squares of an image and keeps a change if it decreases the margin.

    In L∞ a random square is set to x + ε or x − ε in each channel. In L2 a pattern with a positive and a negative peak
    is added to a random square, and its length is taken from another square. The search begins with vertical stripes
    (L∞) or a grid of patterns (L2), and the squares become smaller. Gradients are not needed, so the attack also works
    for models with saturated scores, step functions or masked gradients.

    Images have the shape (height, width) or (channels, height, width). For samples of other shapes, random features are
    changed instead of squares, each with its own sign (L∞) or value (L2).

    Guarantee: every result is within the radius and the domain, and success means that the original model misclassifies
    it. With more restarts, every sample that was found with fewer is found again.

    Parameters
    ----------
    norm
        Norm of the radius: L∞ or L2.
    queries
        Maximum number of evaluations of the model in each start.
    share
        Fraction of the image that the first squares cover. It is halved after .1, .5, 2, 5, 10, 20, 40, 60 and 80 % of
        all queries.
    restarts
        Number of random starts. A restart attacks the samples that earlier ones did not find.

    References
    ----------
    M. Andriushchenko, F. Croce, N. Flammarion, M. Hein, "Square Attack: a query-efficient black-box adversarial attack
    via random search", ECCV 2020; the defaults are those of AutoAttack (F. Croce, M. Hein, ICML 2020).

    >>> import numpy as np
    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> Square(queries=50)(([3.0, 4.0], -5.0), x, y, radius=0.75, keys=keys).tolist()
    [[0.75, 0.75]]
    """

    norm: Norm = Norm.LINF
    queries: int = 5000
    share: float = 0.8
    restarts: int = 1

    needs: ClassVar[str] = "predict"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self, queries=self.queries, restarts=self.restarts)
        if not is_number(self.share) or not 0 < self.share <= 1:
            raise InputError("must be more than 0 and at most 1", field="share", given=self.share, of="Square")

    @property
    def objective(self) -> Loss:
        """Loss that orders inputs that are not misclassified."""
        return margin

    def search(self, survivors: Survivors) -> None:
        """Run all restarts on the remaining samples."""
        windows = windows_for(survivors.shape)
        for restart in range(self.restarts):
            if len(survivors.remaining):
                self._search_once(survivors, windows, _STREAM + restart)

    def _search_once(self, survivors: Survivors, windows: Windows, stream: int) -> None:
        """Run one random search for the remaining samples, in rounds after each of which misclassified ones leave."""
        network, samples, which = survivors.network, survivors.samples, survivors.remaining
        rows = (samples.x[which], samples.y[which], survivors.radius[which])
        first = partial(_begin, survivors, windows)
        best, best_margin = by_tiles(network, first, *rows, survivors.draws(which, stream))
        for part in _rounds(self.queries, windows):
            # At margin 0 the scores are equal, and the other class can be predicted.
            keep = survivors.offer_some(which, best_margin >= 0, best)
            which, best, best_margin = which[keep], best[keep], best_margin[keep]
            if not len(which):
                return
            shares = [share_at(number, self.queries, self.share) for number in part]
            numbers = survivors.uniforms(which, stream, part.start, len(part) * windows.numbers).to(best)
            rows = (samples.x[which], samples.y[which], survivors.radius[which])
            query = partial(_query, survivors, windows, shares)
            best, best_margin = by_tiles(network, query, *rows, best, best_margin, numbers)
        survivors.offer(which, best)


def _rounds(queries: int, windows: Windows) -> Iterator[range]:
    """Yield consecutive ranges of all queries but the first, at first each as long as all before it."""
    done, most = 1, max(1, min(_ROUND, _NUMBERS // windows.numbers))
    while done < queries:
        yield range(done, min(done + min(done, most), queries))
        done += min(done, most)


def _begin(
    survivors: Survivors, windows: Windows, start: Tensor, y: Tensor, radius: Tensor, draws: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the initial points of a tile and their margins."""
    ball = survivors.ball(start, radius)
    if ball.norm is Norm.LINF:
        direction = windows.first_signs(draws)
    else:
        direction = _unit(windows.first_direction(draws) * (ball.scale != 0))
    at = ball.project(ball.center + ball.radius * ball.scale * direction)
    return at, _rival_margin(survivors, at, y)


def _query(
    survivors: Survivors,
    windows: Windows,
    shares: list[float],
    start: Tensor,
    y: Tensor,
    radius: Tensor,
    best: Tensor,
    best_margin: Tensor,
    numbers: Tensor,
) -> tuple[Tensor, Tensor]:
    """Evaluate the queries of a round for a tile and return the best points and their margins."""
    ball = survivors.ball(start, radius)
    for share, drawn in zip(shares, numbers.reshape(len(numbers), len(shares), -1).unbind(dim=1), strict=True):
        there = _propose(ball, windows, best, drawn, share)
        value = _rival_margin(survivors, there, y)
        better = value > best_margin
        best, best_margin = torch.where(better[:, None], there, best), torch.where(better, value, best_margin)
    return best, best_margin


def share_at(query: int, queries: int, first: float) -> float:
    """Return the fraction of the image that a query changes.

    >>> [share_at(query, 5000, 0.8) for query in (1, 10, 50, 4999)]
    [0.8, 0.4, 0.2, 0.0015625]
    """
    now = 10_000 * query // queries
    return first * 0.5 ** len([after for after in _HALVINGS if now > after])


def _rival_margin(survivors: Survivors, x: Tensor, y: Tensor) -> Tensor:
    """Return the margin of the strongest other class by the original model; −inf where scores are not finite."""
    scores = survivors.network.plain(x)
    return torch.where(torch.isfinite(scores).all(dim=1), margin(scores, y), -torch.inf).to(x)


def _propose(ball: Ball, windows: Windows, x: Tensor, numbers: Tensor, share: float) -> Tensor:
    """Return a candidate: the point with some features changed, inside the ball."""
    parts = (len(x), windows.channels, x.shape[1] // windows.channels)
    reach = ball.radius * ball.scale
    if ball.norm is Norm.LINF:
        moves = windows.signs(numbers, share)
        sides = ball.center + reach * moves.pattern.expand(parts).flatten(1)
        return ball.project(torch.where(moves.taken, sides.reshape(parts), x.reshape(parts)).flatten(1))
    moves = windows.directions(numbers, share)
    free = (ball.scale != 0).reshape(1, *parts[1:])
    delta = _redistributed(in_units(x - ball.center, reach).reshape(parts), moves, free)
    # The perturbation lies within the radius, so only the box remains to be enforced.
    return (ball.center + reach * delta.flatten(1)).clamp(ball.lowest, ball.highest)


def _redistributed(delta: Tensor, moves: Moves, free: Tensor) -> Tensor:
    """Move length of an L2 perturbation from one square to another, and use the length that is left of the radius.

    Lengths are multiples of the radius. In each channel, the new values of the square are proportional to the pattern
    plus the old values (scaled to length 1), with length √(‖old values of both squares‖² + unused / channels).
    """
    unused = (1 - delta.square().sum(dim=(1, 2), keepdim=True)).clamp(min=0)
    both = moves.taken | moves.emptied
    available = (_squared_length(delta, both) + unused / delta.shape[1]).sqrt()
    here = torch.where(moves.taken, delta, 0.0)
    new = _unit(_unit(here) + torch.where(free, moves.pattern, 0.0)) * available
    return torch.where(moves.taken, new, torch.where(moves.emptied, 0.0, delta))


def _squared_length(delta: Tensor, where: Tensor) -> Tensor:
    """Return the squared L2 length of the features in the mask, in each channel."""
    return torch.where(where, delta, 0.0).square().sum(dim=2, keepdim=True)


def _unit(rows: Tensor) -> Tensor:
    """Scale rows to L2 length 1 along the last dimension. Rows of length 0 do not change."""
    size = norm_of(rows.reshape(-1, rows.shape[-1]), Norm.L2).reshape(*rows.shape[:-1], 1)
    return rows / positive(size)


@cache
def _pattern(side: int) -> Tensor:
    """Return a pattern of shape (side, side) and L2 length 1, with a positive and a negative peak side by side."""
    upper = side // 2
    both = torch.cat([_peak(upper, side), -_peak(side - upper, side)])
    return both / both.square().sum().sqrt()


def _peak(height: int, width: int) -> Tensor:
    """Return a peak of L2 length 1. A pixel on ring k around the center has the weight Σ_{j ≥ k} 1/(j + 1)²."""
    rows, columns = ((torch.arange(size, dtype=torch.float64) - size // 2).abs() for size in (height, width))
    ring = torch.maximum(rows[:, None], columns[None, :]).long()
    weights = 1 / torch.arange(1, max(height, width) // 2 + 2, dtype=torch.float64).square()
    outwards = weights.flip(0).cumsum(0).flip(0)
    peak = outwards[ring]
    return peak / peak.square().sum().sqrt() if height else peak
