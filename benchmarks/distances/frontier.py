"""Who needs how much for what: our points against the frontier of the peers, never rounded in our favour."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from distances.store import Point

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


def rival(found: Iterable[Point], point: Point, cost: Cost) -> Rival | None:
    """The cheapest way of any peer to the mean of a point or a lower one; a mean over fewer samples does not count."""
    mean = point.fact.counted
    curves: dict[str, list[tuple[float, float]]] = {}
    for peer in found:
        spent = None if peer.fact.ours or peer.fact.samples < point.fact.samples else cost(peer)
        if spent is not None:
            curves.setdefault(f"{peer.fact.library} {peer.fact.name}", []).append((spent, peer.fact.counted))
    ways = [way for name, curve in curves.items() if (way := _reached(name, sorted(curve), mean)) is not None]
    if ways:
        return min(ways, key=lambda way: way.cost)
    if not curves:
        return None
    _, spent, name = min((reached, spent, name) for name, curve in curves.items() for spent, reached in curve)
    return Rival(name, spent, spent, beyond=True)


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
    most = max(p.fact.samples for p in found)
    costs = [(spent, p.fact) for p in found if p.fact.samples == most and (spent := cost(p)) is not None]
    ours = [(spent, fact.counted) for spent, fact in costs if fact.ours]
    theirs = [(spent, fact.counted) for spent, fact in costs if not fact.ours]
    ahead = [
        spent for spent, mean in theirs if mean < min((own for paid, own in ours if paid <= spent), default=math.inf)
    ]
    return max(ahead, default=None)
