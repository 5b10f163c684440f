"""A fair race between ways to calculate one tile, each of which must first show that it is right."""

import statistics
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Generic, TypeVar

import torch
from torch import Tensor

Way = TypeVar("Way", bound=Hashable)

_SECONDS = 8.0  # that a trial may take, or _SHARE of the whole run if that is longer
_SHARE = 0.02
_ROUNDS = 3
_AGREEMENT = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One tile, forward and backward: scores, gradients of the lead over the strongest rival, and seconds."""

    scores: Tensor
    slopes: Tensor
    seconds: float


def one_pass(scores_of: Callable[[Tensor], Tensor], rows: Tensor) -> Pass:
    """Calculate a tile as a search does, and look at the clock."""
    with torch.enable_grad():
        begin = perf_counter()
        x = rows.detach().requires_grad_(True)
        scores = scores_of(x)
        first, second = scores.topk(2, dim=1).values.unbind(1)
        # A search asks for several gradients of one pass: a way that cannot keep its graph must show it here.
        (slopes,) = torch.autograd.grad((first - second).sum(), x, retain_graph=True)
        if rows.is_cuda:
            torch.cuda.synchronize()
        return Pass(scores.detach(), slopes, perf_counter() - begin)


@dataclass(slots=True, eq=False)
class Trial(Generic[Way]):
    """Ways to calculate one tile, and how long each took.

    Parameters
    ----------
    plain
        The way that is right by definition.
    run
        Calculates rows that way; what it raises disqualifies the way.
    rows
        One tile.
    passes
        How many tiles the whole run will calculate: a long run affords a longer trial.
    """

    plain: Way
    run: Callable[[Way, Tensor], Pass]
    rows: Tensor
    passes: int = 0
    reasons: dict[Way, str] = field(default_factory=dict)
    _times: dict[Way, list[float]] = field(default_factory=dict)
    _began: float = field(init=False)
    _right: Tensor = field(init=False)
    _each: float = field(init=False)

    def __post_init__(self) -> None:
        self._right = self.run(self.plain, self.rows).scores
        self._began = perf_counter()  # the first pass warmed up, which can take long
        self._each = self.run(self.plain, self.rows).seconds
        self._times[self.plain] = []

    @property
    def seconds(self) -> dict[Way, float]:
        """The median of each way that raced."""
        return {way: statistics.median(times) for way, times in self._times.items() if times}

    @property
    def best(self) -> Way:
        """The fastest so far."""
        seconds = self.seconds
        return min(seconds, key=lambda way: seconds[way])

    def restart(self) -> None:
        """Give what comes now its full time, however long the first ways took."""
        self._began = perf_counter()

    def admit(self, way: Way) -> None:
        """Try a way out; if it is possible and right it takes part, otherwise the reason is kept."""
        if not self._has_time_for(3):
            self.reasons[way] = "the time of the trial was over"
            return
        try:
            straight, turned = self.run(way, self.rows), self.run(way, self.rows.roll(1, 0))
        except Exception as error:  # compilers and layouts fail in ways of their own; the plain way is always there
            self.reasons[way] = (str(error) or type(error).__name__).strip().splitlines()[0]
            return
        if not torch.allclose(straight.scores, self._right, rtol=0, atol=_AGREEMENT * float(self._right.abs().max())):
            self.reasons[way] = "its scores are not those of the model"
        elif not all(
            torch.equal(moved, still.roll(1, 0))
            for moved, still in ((turned.scores, straight.scores), (turned.slopes, straight.slopes))
        ):
            self.reasons[way] = "a sample's last digits depend on its place in the tile"
        else:
            self._times[way] = []

    def race(self, *ways: Way) -> None:
        """Time those of the ways that are right in turn: so a busy moment of the machine hits all of them."""
        racing = [way for way in ways if way in self._times]
        for done in range(_ROUNDS if len(racing) > 1 else 1):  # whoever is alone is timed once
            if done and not self._has_time_for(len(racing)):
                break
            for way in racing:
                self._times[way].append(self.run(way, self.rows).seconds)

    def _has_time_for(self, passes: int) -> bool:
        each = min([self._each, *self.seconds.values()])
        return perf_counter() - self._began + passes * each < max(_SECONDS, _SHARE * self.passes * each)
