"""Square: a random search that asks for scores only."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fairmargin.attacks.losses import margin
from fairmargin.attacks.protocol import accepted_norm
from fairmargin.attacks.survivors import Survivors, attacked
from fairmargin.attacks.windows import Moves, Windows, windows_for
from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import check_count
from fairmargin.errors import InputError
from fairmargin.perturbation.balls import Ball
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.tiles import by_tiles

_HALVINGS = 10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000  # ten-thousandths of all queries after which squares shrink
_TURN = 1 << 40  # the part of a sample's randomness that is this attack's
_LEG, _NUMBERS = 100, 1 << 13  # queries, and numbers drawn for each sample, after which the fooled leave


@dataclass(frozen=True)
class Square:
    """Random squares of the image, kept where the margin shrinks; smaller and smaller ones.

    In L∞ a square is moved to one side of the ball, x + ε or x − ε for each channel; in L2 it gets a pattern with a
    hill and a hollow, whose length is taken from another square. It starts from stripes (L∞) or a grid of patterns
    (L2). Gradients are not needed, so that neither saturated scores nor steps nor masks in the model hold it up.

    Samples that are no images, (height, width) or (channels, height, width), have no squares: there some features are
    chosen at random, each with a sign or a value of its own.

    Guarantee: within the radius and the domain; what counts as success was misclassified by the model itself. More
    restarts never lose a sample that fewer found.

    Parameters
    ----------
    norm
        L∞ or L2.
    queries
        How often the model is asked at most, each start.
    share
        Of the image that the first squares cover; it is halved after .1, .5, 2, 5, 10, 20, 40, 60 and 80 % of queries.
    restarts
        How many random starts, later ones for samples that earlier ones did not find.

    References
    ----------
    M. Andriushchenko, F. Croce, N. Flammarion, M. Hein, "Square Attack: a query-efficient black-box adversarial attack
    via random search", ECCV 2020; the defaults are those of AutoAttack (F. Croce, M. Hein, ICML 2020).

    >>> x, y, keys = np.array([[0.0, 0.0]]), np.array([0]), np.array([7], dtype=np.uint64)
    >>> Square(queries=50)(([3.0, 4.0], -5.0), x, y, radius=0.75, keys=keys).tolist()
    [[0.75, 0.75]]
    """

    norm: Norm = Norm.LINF
    queries: int = 5000
    share: float = 0.8
    restarts: int = 1

    needs: ClassVar[str] = "predict"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2, Norm.LINF})
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        check_count(self, queries=self.queries, restarts=self.restarts)
        if isinstance(self.share, bool) or not isinstance(self.share, (int, float)) or not 0 < self.share <= 1:
            raise InputError("must be more than 0 and at most 1", field="share", given=self.share, of="Square")

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """The best input for each sample; its key says which squares are tried."""
        return attacked(self, model, x, y, radius, keys, loss=margin, search=self.search)

    def search(self, survivors: Survivors) -> None:
        """All restarts."""
        windows = windows_for(survivors.shape)
        for restart in range(self.restarts):
            if len(survivors.left):
                self._tried(survivors, windows, _TURN + restart)

    def _tried(self, survivors: Survivors, windows: Windows, turn: int) -> None:
        """One random search of who is left, in legs; who is fooled leaves after the leg."""
        network, begun, which = survivors.network, survivors.begun, survivors.left
        rows = (begun.x[which], begun.y[which], survivors.radius[which])
        first = partial(_first, survivors, windows)
        best, height = by_tiles(network, first, *rows, survivors.draws(which, turn))
        for leg in _legs(self.queries, windows):
            which, best, height = _onward(survivors, which, best, height)
            if not len(which):
                return
            shares = [share_at(query, self.queries, self.share) for query in leg]
            numbers = survivors.uniforms(which, turn, leg.start, len(leg) * windows.numbers).to(best)
            rows = (begun.x[which], begun.y[which], survivors.radius[which])
            best, height = by_tiles(network, partial(_asked, survivors, windows, shares), *rows, best, height, numbers)
        survivors.offer(which, best)


def _legs(queries: int, windows: Windows) -> Iterator[range]:
    """All queries but the first in parts, at first as long as all before: easy samples leave soon."""
    done, most = 1, max(1, min(_LEG, _NUMBERS // windows.numbers))
    while done < queries:
        yield range(done, min(done + min(done, most), queries))
        done += min(done, most)


def _onward(survivors: Survivors, which: Tensor, best: Tensor, height: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Those who are not fooled, after asking."""
    met = torch.nonzero(height >= 0)[:, 0]  # at 0 another class may come first
    onward = torch.ones(len(which), dtype=torch.bool, device=which.device)
    onward[met] = ~survivors.offer(which[met], best[met])
    return which[onward], best[onward], height[onward]


def _first(
    survivors: Survivors, windows: Windows, start: Tensor, y: Tensor, radius: Tensor, draws: Tensor
) -> tuple[Tensor, Tensor]:
    """Where a tile begins, and its margins there."""
    ball = survivors.ball(start, radius)
    if ball.norm is Norm.LINF:
        direction = windows.first_signs(draws)
    else:
        direction = _unit(windows.first_direction(draws) * (ball.scale != 0))
    at = ball.project(ball.center + ball.radius * ball.scale * direction)
    return at, _height(survivors, at, y)


def _asked(
    survivors: Survivors,
    windows: Windows,
    shares: list[float],
    start: Tensor,
    y: Tensor,
    radius: Tensor,
    best: Tensor,
    height: Tensor,
    numbers: Tensor,
) -> tuple[Tensor, Tensor]:
    """The best of a tile's queries, and its margin."""
    ball = survivors.ball(start, radius)
    for share, drawn in zip(shares, numbers.reshape(len(numbers), len(shares), -1).unbind(dim=1), strict=True):
        there = _moved(ball, windows, best, drawn, share)
        value = _height(survivors, there, y)
        better = value > height
        best, height = torch.where(better[:, None], there, best), torch.where(better, value, height)
    return best, height


def share_at(query: int, queries: int, first: float) -> float:
    """The share of an image that a query changes.

    >>> [share_at(query, 5000, 0.8) for query in (1, 10, 50, 4999)]
    [0.8, 0.4, 0.2, 0.0015625]
    """
    now = 10_000 * query // queries
    return first * 0.5 ** len([after for after in _HALVINGS if now > after])


def _height(survivors: Survivors, x: Tensor, y: Tensor) -> Tensor:
    """The strongest rival's lead by the plain model; −inf where its scores are no numbers."""
    scores = survivors.network.plain(x)
    return torch.where(torch.isfinite(scores).all(dim=1), margin(scores, y), -torch.inf).to(x)


def _moved(ball: Ball, windows: Windows, x: Tensor, numbers: Tensor, share: float) -> Tensor:
    """The point with some features changed, inside the ball."""
    parts = (len(x), windows.channels, x.shape[1] // windows.channels)
    reach = ball.radius * ball.scale
    if ball.norm is Norm.LINF:
        moves = windows.signs(numbers, share)
        sides = ball.center + reach * moves.pattern.expand(parts).flatten(1)
        return ball.project(torch.where(moves.taken, sides.reshape(parts), x.reshape(parts)).flatten(1))
    moves = windows.directions(numbers, share)
    free = (ball.scale != 0).reshape(1, *parts[1:])
    delta = _redistributed(in_units(x - ball.center, reach).reshape(parts), moves, free)
    # It is no longer than the radius: to keep to the box is all that is left to do.
    return (ball.center + reach * delta.flatten(1)).clamp(ball.lowest, ball.highest)


def _redistributed(delta: Tensor, moves: Moves, free: Tensor) -> Tensor:
    """A perturbation of length up to 1, with what one place had, and what was not used, given to another in L2.

    On what is taken, channel by channel, (pattern + what was there) at length √(‖both places‖² + unused/channels).
    """
    unused = (1 - delta.square().sum(dim=(1, 2), keepdim=True)).clamp(min=0)
    both = moves.taken | moves.emptied
    available = (_squares(delta, both) + unused / delta.shape[1]).sqrt()
    here = torch.where(moves.taken, delta, 0.0)
    new = _unit(_unit(here) + torch.where(free, moves.pattern, 0.0)) * available
    return torch.where(moves.taken, new, torch.where(moves.emptied, 0.0, delta))


def _squares(delta: Tensor, where: Tensor) -> Tensor:
    return torch.where(where, delta, 0.0).square().sum(dim=2, keepdim=True)


def _unit(rows: Tensor) -> Tensor:
    """At Euclidean length 1 along the last dimension; 0 stays 0."""
    size = norm_of(rows.reshape(-1, rows.shape[-1]), Norm.L2).reshape(*rows.shape[:-1], 1)
    return rows / torch.where(size > 0, size, 1.0)
