"""Renders docs/benchmarks.md and its pictures from the stored measurements."""

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from distances import store
from distances.bars import bars
from distances.frontier import by_passes, by_time, last_ahead, rival
from distances.models import CARDS, ROOT
from distances.peers import PEERS
from distances.plots import picture
from distances.store import Measured, Point
from distances.tuning import tuned_entries
from distances.withdrawn import elsewhere, withdrawn

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "images"
_PACKAGES = ("fairmargin", "torch", "numpy", "adv-lib", "foolbox", "adversarial-robustness-toolbox", "torchattacks")

_HEAD = """# The smallest distances for the fewest passes

Rendered by `make bench-distances` (`benchmarks/distances/`) from the measurements in `benchmarks/measured.json`; do not
edit by hand. `tests/test_benchmarks.py` recomputes every ratio from that file and checks that no tuned setting of a
peer lies at an end of the range that was searched.

How far can a sample be from the decision boundary at most, and what does it cost to find out? This page compares
Fairmargin's estimators with those of adv-lib, foolbox, ART and torchattacks on the same samples.
"""

_HOW = """## How it was measured

{runs}

- **Samples**: test images that the model classifies correctly, in one shuffled order: {samples}.
  The peers were tuned per model and number of steps on {tuning} (`make bench-tuning` → `benchmarks/tuned.json`, which
  also has the ranges). Not tuned at their own number of steps, and measured with the settings of the nearest number
  that was: {borrowed}. Our own constants were found on tuning samples of these very networks, so the results for ours
  are favourable here; see "Networks that nobody tuned for".
- **Success** is decided by the plain model, asked again in float32, on images inside [0, 1]. The distances of our
  estimators are traced back to inputs that the plain model was shown. A point of a peer that fails by rounding is
  moved up to 1 % farther out before it counts in a mean, as ours are; the column *success* is what the peer returned
  itself. Where a contestant failed even so, the sample counts with what adv-lib's DeepFool finds for it, or with the
  boundary on the way to the nearest other image of another prediction if that is less. No passes are counted for
  this. So all means are over the same samples.
- **Passes** are rows through the model per sample, forward / backward, counted at the module, and include
  confirmation, padding and searches. Where one number is given, it is half of their sum. Passes and means are the same
  in every run on one machine; on another machine, rounding moves means of the robust network by up to about 1 %.
- **Time** is wall time in units of one forward and one backward pass of the plain model (batch of 64) measured just
  before and after; the median of 3 interleaved repetitions. *÷ bare* is the wall time divided by the time of the same
  passes alone. Ours search with the faster copy that a trial chose, as users' runs do; peers have the plain model.
  Times are from {timed}; a contestant whose settings have changed since has none, so that bars of wall time
  compare with the peers that have one.
- **†** marks rows that were taken over from the page of 16 November 2026 as printed there. Means have four decimals
  there; in ratios they count with the end of their rounding that is worse for us.
"""


def write_page() -> None:
    """Write the page and two pictures."""
    for path, text in rendered(store.read()).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


def rendered(measured: Measured) -> dict[Path, str]:
    """The text of the page and of its pictures, by file."""
    found = {name: there for name in CARDS if (there := measured.on(name))}
    far = {name: there for name in CARDS if (there := measured.on(name, "linf"))}
    panels = {CARDS[name].title: there for name, there in found.items()}
    parts = [
        _HEAD,
        withdrawn(measured),
        _bars(measured),
        elsewhere(),
        _how(measured, list(found)),
        f"## Mean L2 distance against passes\n\n{_ahead(found)}\n",
        "![Mean distance against passes](images/distances-passes.svg)\n",
        "## Mean L2 distance against time\n\n![Mean distance against time](images/distances-time.svg)\n",
        *(_model(name, there, "L2", measured.copies[name]) for name, there in found.items()),
        *(_model(name, there, "L∞", measured.copies[name]) for name, there in far.items()),
    ]
    return {
        PAGE: "\n".join(parts).rstrip() + "\n",
        PICTURES / "distances-passes.svg": picture(panels, by_passes, "passes per sample, (forward + backward) / 2"),
        PICTURES / "distances-time.svg": picture(panels, by_time, "wall time per sample, in plain passes"),
    }


def _bars(measured: Measured) -> str:
    lines = [
        "## The bars",
        "",
        "Each of our points is compared with the cheapest tuned peer that has an equal or lower mean. Between two "
        "numbers of steps of a peer its curve is followed, so that a coarse grid does not count for us (“tried” is "
        "the next point that was really measured). “>” says that no peer reached our mean; the ratio is then to the "
        "peer that comes nearest. *Fast* is 12 steps and *accurate* is 40. Fast was 8 steps until these samples "
        "showed that 8 miss the bar on LeNet; a fault at 12 steps was found on these samples too. All other choices "
        "were made on tuning samples.",
        "",
        "| against the best tuned peer | bar | measured | met |",
        "|---|---|---|---|",
    ]
    for bar in bars(measured):
        lines.append(f"| {bar.what} | {'≥' if bar.at_least else '≤'} {bar.asked:g}× | {bar.said} | {bar.met} |")
    return "\n".join(lines) + "\n"


def _how(measured: Measured, names: list[str]) -> str:
    return _HOW.format(
        runs="\n".join(f"- **{day}**: {told}" for day, told in sorted(measured.runs.items())),
        samples=", ".join(f"{CARDS[name].samples} ({CARDS[name].title})" for name in names),
        tuning=_tuning(),
        borrowed=_borrowed(measured),
        timed=" and ".join(sorted({point.timed for point in measured.points if point.timed})),
    )


def _ahead(found: dict[str, list[Point]]) -> str:
    said = []
    for name, there in found.items():
        last = last_ahead(there, by_passes)
        most = max((p.fact.passes for p in there if not p.fact.ours), default=0.0)
        where = "nowhere" if last is None else f"up to {last:.0f} passes"
        said.append(f"{CARDS[name].title}: {where} (peers were tried with up to {most:,.0f})")
    return f"Where a peer comes nearer than every setting of ours that costs no more: {'; '.join(said)}."


def _model(name: str, there: list[Point], norm: str, copy: str) -> str:
    lines = [
        f"## {CARDS[name].title}, {norm}",
        "",
        f"Our faster copy: {copy}",
        "",
        "| contestant | steps | success | mean | median | passes | time | ÷ bare | cheapest peer as good |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(point, there) for point in sorted(there, key=lambda p: (p.fact.passes, p.fact.mean, p.fact.key))),
    ]
    return "\n".join(lines) + "\n"


def _row(point: Point, there: list[Point]) -> str:
    fact = point.fact
    few = f" (first {fact.samples})" if fact.samples < CARDS[fact.model].samples else ""
    who = f"{fact.library} {fact.name}{few}"
    who = (f"**{who}**" if fact.ours else who) + (" †" if fact.taken_from else "")
    time, bare = ("–" if v is None else f"{v:.{d}f}" for v, d in ((point.pace, 1), (point.overhead, 2)))
    return (
        f"| {who} | {fact.steps or '–'} | {fact.success:.4g} | {fact.mean:.4f} | {fact.median:.4f} "
        f"| {fact.forward:.1f} / {fact.backward:.1f} | {time} | {bare} | {_against(point, there)} |"
    )


def _against(point: Point, there: list[Point]) -> str:
    way = rival(there, point, by_passes) if point.fact.ours else None
    if way is None:
        return ""
    ratio = way.cost / point.fact.passes
    return f"none: > {ratio:.2f}×" if way.beyond else f"{way.name}, {way.cost:.1f} passes: {ratio:.2f}×"


def _tuning() -> str:
    entries = [entry for model in tuned_entries().values() for entry in model.values()]
    counts = {entry["samples"] for entry in entries}
    patience = sorted(set(_patience(entries)))
    samples = " to ".join(map(str, sorted({min(counts), max(counts)})))
    return f"{samples} other samples, each search of settings taking up to {patience[0]} to {patience[-1]} seconds"


def _borrowed(measured: Measured) -> str:
    """The peers, by model, whose settings were tuned at another number of steps than theirs."""
    tunable, tuned = {peer.key for peer in PEERS if peer.axes}, tuned_entries()
    found: dict[str, list[str]] = {}
    for fact in (point.fact for point in measured.points):
        if f"{fact.library} {fact.name}" in tunable and fact.key not in tuned[fact.model]:
            found.setdefault(CARDS[fact.model].title, []).append(fact.key)
    return "; ".join(f"{title}: {', '.join(keys)}" for title, keys in found.items())


def _patience(entries: list[dict[str, str]]) -> Iterator[int]:
    for entry in entries:
        if found := re.search(r"--patience (\d+)", entry["by"]):
            yield int(found[1])


def machine(threads: int) -> str:
    """The machine and the versions of this run."""
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} (not installed)")
    kind = platform.processor() or platform.machine()
    return (
        f"{os.cpu_count()} cores ({kind}), {threads} thread{'s' if threads > 1 else ''} used; "
        f"Python {platform.python_version()}; {', '.join(versions)}."
    )
