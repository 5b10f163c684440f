"""Who needs how much for what: our points against the frontier of the peers, never rounded in our favour."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from distances import facts, timing
from distances.facts import Fact
from distances.ours import code_version
from distances.timing import Timed


@dataclass(frozen=True, slots=True)
class Point:
    """A contestant's facts, with its wall time where that was measured.

    Parameters
    ----------
    pace
        Wall time in plain passes: the time of one forward and one backward pass of the plain model at that moment is 1.
    overhead
        Wall time over the time of its own passes, done bare.
    seconds
        Per sample, the median of the repetitions.
    """

    fact: Fact
    pace: float | None
    overhead: float | None
    seconds: float | None


def points(model: str, norm: str = "l2") -> list[Point]:
    """The newest facts of every contestant on a model; of ours, those of the present code."""
    newest = {fact.key: fact for fact in facts.kept(model) if fact.norm == norm}
    current = [fact for fact in newest.values() if not fact.ours or fact.version == code_version()]
    times = list(timing.kept(model))
    return [_point(f, [t for t in times if (t.key, t.version) == (f.key, f.version)]) for f in current]


def _point(fact: Fact, times: Sequence[Timed]) -> Point:
    if not times:
        return Point(fact, None, None, None)
    return Point(
        fact,
        median(t.seconds / t.bare.of(1, 1) for t in times),
        median(t.seconds / t.bare.of(fact.forward, fact.backward) for t in times),
        median(t.seconds for t in times),
    )


Cost = Callable[[Point], float | None]


def by_passes(point: Point) -> float | None:
    """Half of forward and backward."""
    return point.fact.passes


def by_time(point: Point) -> float | None:
    """Plain passes that take as long."""
    return point.pace


@dataclass(frozen=True, slots=True)
class Rival:
    """The cheapest way of a peer to a mean: `cost` where the curve through its points gets there, `at` the next point.

    `beyond` says that no peer gets there; then both costs are those of the peer that comes nearest.
    """

    name: str
    cost: float
    at: float
    beyond: bool


def rival(peers: Iterable[Point], mean: float, cost: Cost) -> Rival | None:
    """The cheapest way of any peer to that mean or a lower one."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for point in peers:
        spent = cost(point)
        if spent is not None:
            curves.setdefault(f"{point.fact.library} {point.fact.name}", []).append((spent, point.fact.mean))
    found = [way for name, curve in curves.items() if (way := _reached(name, sorted(curve), mean)) is not None]
    if found:
        return min(found, key=lambda way: way.cost)
    if not curves:
        return None
    _, dearest, name = min((mean, spent, name) for name, curve in curves.items() for spent, mean in curve)
    return Rival(name, dearest, dearest, beyond=True)


def _reached(name: str, curve: Sequence[tuple[float, float]], mean: float) -> Rival | None:
    """Where the curve through (cost, mean) first comes down to the mean; between two points log cost is linear."""
    for i, (spent, reached) in enumerate(curve):
        if reached <= mean:
            if i == 0 or curve[i - 1][1] <= reached:
                return Rival(name, spent, spent, beyond=False)
            before, higher = curve[i - 1]
            share = (higher - mean) / (higher - reached)
            between = math.exp(math.log(before) + share * (math.log(spent) - math.log(before)))
            return Rival(name, between, spent, beyond=False)
    return None


def last_ahead(found: Sequence[Point], cost: Cost) -> float | None:
    """The dearest point of a peer that is nearer than all of ours that cost no more; None if there is none."""
    ours = [(spent, p.fact.mean) for p in found if p.fact.ours and (spent := cost(p)) is not None]
    theirs = [(spent, p.fact.mean) for p in found if not p.fact.ours and (spent := cost(p)) is not None]
    ahead = [
        spent for spent, mean in theirs if mean < min((own for paid, own in ours if paid <= spent), default=math.inf)
    ]
    return max(ahead, default=None)
