"""The bars that the benchmark was built for, and what was measured against each."""

from collections.abc import Iterable
from dataclasses import dataclass

from distances.frontier import Cost, by_passes, by_time, rival
from distances.store import Measured, Point

# The two settings that are offered to users, by the names of their facts.
SETTINGS = {"fast": "plumb 12", "accurate": "plumb 40"}
_MOST_PASSES = 1000


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of the table; `value` is None where nothing was measured yet."""

    what: str
    asked: float
    at_least: bool
    value: float | None
    said: str

    @property
    def met(self) -> str:
        """Yes, no, or a dash."""
        if self.value is None:
            return "–"
        return "yes" if (self.value >= self.asked if self.at_least else self.value <= self.asked) else "**no**"


def bars(measured: Measured) -> list[Bar]:
    """All bars, in the order of the page."""
    lenet, resnet, robust = (measured.on(name) for name in ("lenet", "resnet20", "robust"))
    return [
        _fewer("passes, LeNet, fast", 2.0, lenet, "fast", by_passes),
        _fewer("passes, LeNet, accurate", 2.0, lenet, "accurate", by_passes),
        _fewer("passes, ResNet-20, fast", 1.25, resnet, "fast", by_passes),
        _fewer("passes, ResNet-20, accurate", 1.8, resnet, "accurate", by_passes),
        _fewer("passes, robust MNIST, fast", 1.4, robust, "fast", by_passes),
        _fewer("passes, robust MNIST, accurate", 1.4, robust, "accurate", by_passes),
        _fewer("wall time, ResNet-20, fast", 1.7, resnet, "fast", by_time),
        _fewer("wall time, ResNet-20, accurate", 1.7, resnet, "accurate", by_time),
        _lowest("lowest mean, LeNet", 1.0, lenet),
        _lowest("lowest mean, ResNet-20", 1.0, resnet),
        _lowest("lowest mean, robust MNIST", 0.95, robust),
        _overhead("wall time / bare passes, ResNet-20, fast", resnet, "fast"),
        _overhead("wall time / bare passes, ResNet-20, accurate", resnet, "accurate"),
        *(
            _deepfool(f"`deepfool` against {library}'s, wall, {title}", asked, found, f"{library} DeepFool 100")
            for library, asked in (("foolbox", 2.0), ("adv-lib", 1.2))
            for title, found in (("LeNet", lenet), ("ResNet-20", resnet))
        ),
    ]


def _ours(found: Iterable[Point], name: str) -> Point | None:
    return next((point for point in found if point.fact.key == f"fairmargin {name}"), None)


def _fewer(what: str, asked: float, found: list[Point], setting: str, cost: Cost) -> Bar:
    mine = _ours(found, SETTINGS[setting])
    spent = cost(mine) if mine else None
    way = rival(found, mine, cost) if mine and spent else None
    if mine is None or spent is None or way is None:
        return Bar(what, asked, True, None, "not measured yet")
    if mine.fact.success < 1:
        return Bar(what, asked, True, 0.0, f"success {mine.fact.success:.4f}")
    ratio = way.cost / spent
    if way.beyond:
        whom = "timed peer" if cost is by_time else "peer"
        theirs = f"no {whom} reaches it; the nearest is {way.name} at {way.cost:.1f}"
    else:
        theirs = f"{way.name} needs {way.cost:.1f}" + ("" if way.at == way.cost else f" (tried: {way.at:.1f})")
    sign = ">" if way.beyond else ""
    return Bar(what, asked, True, ratio, f"{sign}{ratio:.2f}×: mean {mine.fact.mean:.4f} at {spent:.1f}; {theirs}")


def _lowest(what: str, asked: float, found: list[Point]) -> Bar:
    able = [p.fact for p in found if p.fact.passes <= _MOST_PASSES + 0.5]
    mine = min((f for f in able if f.ours and f.success == 1), key=lambda f: f.counted, default=None)
    theirs = [f for f in able if not f.ours and mine and f.samples == mine.samples]
    best = min(theirs, key=lambda f: f.counted, default=None)
    if mine is None or best is None:
        return Bar(what, asked, False, None, "not measured yet")
    ratio = mine.counted / best.counted
    said = (
        f"{ratio:.3f}×: {mine.mean:.4f} ({mine.name} {mine.steps}, {mine.passes:.0f} passes) "
        f"against {best.mean:.4f} ({best.key})"
    )
    return Bar(what, asked, False, ratio, said)


def _overhead(what: str, found: list[Point], setting: str) -> Bar:
    mine = _ours(found, SETTINGS[setting])
    if mine is None or mine.overhead is None:
        return Bar(what, 1.2, False, None, "not measured yet")
    return Bar(what, 1.2, False, mine.overhead, f"{mine.overhead:.2f}×")


def _deepfool(what: str, asked: float, found: list[Point], key: str) -> Bar:
    mine, peer = _ours(found, "deepfool 0"), next((p for p in found if p.fact.key == key), None)
    if mine is None or peer is None or mine.pace is None or peer.pace is None:
        return Bar(what, asked, True, None, "not measured yet")
    means = f"mean {mine.fact.mean:.4f} against {peer.fact.mean:.4f}"
    ratio = peer.pace / mine.pace
    return Bar(what, asked, True, ratio if mine.fact.mean <= peer.fact.mean else 0.0, f"{ratio:.2f}×, {means}")
