"""Writes docs/benchmarks.md and its pictures from what was measured, whatever that is."""

import json
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from distances.bars import bars
from distances.frontier import Point, by_passes, by_time, last_ahead, points, rival
from distances.models import CARDS, OUT, ROOT, TUNING
from distances.plots import picture
from distances.tuning import TUNED

PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "images"
_PACKAGES = ("fairmargin", "torch", "numpy", "adv-lib", "foolbox", "adversarial-robustness-toolbox", "torchattacks")

_HEAD = """# The smallest distances for the fewest passes

Written by `make bench-distances` (`benchmarks/distances/`); do not edit by hand. {machine}

How far can a sample be from the boundary at most, and what does it cost to find out? Here Fairmargin's estimators stand
beside those of adv-lib, foolbox, ART and torchattacks, on the same samples, in one process.

- **Samples**: test images that the model classifies correctly, in one shuffled order: {samples}.
  The peers were tuned on {tuning} per model and number of steps (`make bench-tuning` →
  `benchmarks/tuned.json`).
- **Success** is decided by the plain model, asked again in float32, on images inside [0, 1]. Our estimators' distances
  are traced back to inputs that the plain model was shown. A peer's point that fails by rounding is
  moved up to 1 % farther out before it counts in a mean, as ours are; *success* is what the peer returned itself.
  Where someone failed even so, the sample counts with what
  adv-lib's DeepFool finds for it, or what lies on the way to the nearest other image of another prediction if that is
  less (free of charge), so that means are over the same samples.
- **Passes** are rows through the model a sample, forward / backward, counted at the module, with everything:
  confirmation, padding, searches. Where one number is asked for, it is half of their sum. They are the same in every
  run.
- **Time** is wall time in units of a forward and a backward pass of the plain model (batch of 64) measured just before
  and after; the median of {repetitions} interleaved repetitions. *÷ bare* is the wall time over the time of the very
  passes made. Ours search with the faster copy that a trial chose, as users' runs do; peers have the plain model.
"""


def write(threads: int) -> None:
    """The page and two pictures."""
    found = {name: points(name) for name in CARDS}
    far = {name: points(name, "linf") for name in CARDS}
    PICTURES.mkdir(exist_ok=True)
    panels = {CARDS[name].title: there for name, there in found.items()}
    (PICTURES / "distances-passes.svg").write_text(
        picture(panels, by_passes, "passes a sample, (forward + backward) / 2"), encoding="utf-8"
    )
    (PICTURES / "distances-time.svg").write_text(
        picture(panels, by_time, "wall time a sample, in plain passes"), encoding="utf-8"
    )
    parts = [
        _HEAD.format(
            machine=_machine(threads),
            samples=", ".join(f"{card.samples} ({card.title})" for card in CARDS.values()),
            tuning=_tuning(),
            repetitions=3,
        ),
        _bars(),
        f"## Mean L2 distance against passes\n\n{_ahead(found)}\n",
        "![Mean distance against passes](images/distances-passes.svg)\n",
        "## Mean L2 distance against time\n\n![Mean distance against time](images/distances-time.svg)\n",
        *(_model(name, there, "L2") for name, there in found.items() if there),
        *(_model(name, there, "L∞") for name, there in far.items() if there),
    ]
    PAGE.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} and two pictures")


def _bars() -> str:
    lines = [
        "## The bars",
        "",
        "Each of our points is held against the cheapest tuned peer with an equal or lower mean; between two numbers "
        "of steps of a peer its curve is followed, so that a coarse grid does not count for us (“tried” is the next "
        "point really measured). “>” says that no peer reached it at all; the ratio is then to the peer that comes "
        "nearest. "
        "*Fast* is 12 steps and *accurate* 40. Fast was 8 steps until these samples showed that 8 miss LeNet's bar "
        "(1.39×); a fault at 12 steps was found on these samples too. All other choices were made on tuning samples.",
        "",
        "| against the best tuned peer | bar | measured | met |",
        "|---|---|---|---|",
    ]
    for bar in bars():
        lines.append(f"| {bar.what} | {'≥' if bar.at_least else '≤'} {bar.asked:g}× | {bar.said} | {bar.met} |")
    return "\n".join(lines) + "\n"


def _ahead(found: dict[str, list[Point]]) -> str:
    said = []
    for name, there in found.items():
        last = last_ahead(there, by_passes) if there else None
        most = max((p.fact.passes for p in there if not p.fact.ours), default=0.0)
        if there and most:
            where = "nowhere" if last is None else f"up to {last:.0f} passes"
            said.append(f"{CARDS[name].title}: {where} (peers tried with up to {most:,.0f})")
    return f"Where a peer comes nearer than every setting of ours that costs no more: {'; '.join(said)}."


def _model(name: str, there: list[Point], norm: str) -> str:
    card = CARDS[name]
    lines = [
        f"## {card.title}, {norm}",
        "",
        _acceleration(name),
        "",
        "| contestant | steps | success | mean | median | passes | time | ÷ bare | cheapest peer as good |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    peers = [p for p in there if not p.fact.ours]
    for point in sorted(there, key=lambda p: (p.fact.passes, p.fact.mean)):
        fact = point.fact
        who = f"{fact.library} {fact.name}" + (f" (first {fact.samples})" if fact.samples < card.samples else "")
        who = f"**{who}**" if fact.ours else who
        time, bare = ("–" if v is None else f"{v:.{d}f}" for v, d in ((point.pace, 1), (point.overhead, 2)))
        lines.append(
            f"| {who} | {fact.steps or '–'} | {fact.success:.4g} | {fact.mean:.4f} | {fact.median:.4f} "
            f"| {fact.forward:.1f} / {fact.backward:.1f} | {time} | {bare} | {_against(point, peers)} |"
        )
    return "\n".join(lines) + "\n"


def _against(point: Point, peers: list[Point]) -> str:
    whole = [p for p in peers if p.fact.samples >= point.fact.samples]
    way = rival(whole, point.fact.mean, by_passes) if point.fact.ours else None
    if way is None:
        return ""
    ratio = way.cost / point.fact.passes
    return f"none: > {ratio:.2f}×" if way.beyond else f"{way.name}, {way.cost:.1f} passes: {ratio:.2f}×"


def _acceleration(name: str) -> str:
    path: Path = OUT / f"acceleration-{name}.json"
    sentence = json.loads(path.read_text(encoding="utf-8"))["sentence"] if path.is_file() else "not measured yet."
    return f"Our faster copy: {sentence}"


def _tuning() -> str:
    if not TUNED.is_file():
        return str(TUNING)
    models = json.loads(TUNED.read_text(encoding="utf-8"))["models"]
    counts = {entry.get("samples", TUNING) for entries in models.values() for entry in entries.values()}
    by = [str(entry.get("by")) for entries in models.values() for entry in entries.values()]
    patience = sorted(int(found[1]) for name in by if (found := re.search(r"--patience (\d+)", name)))
    said = " to ".join(map(str, sorted({min(counts), max(counts)}))) if counts else str(TUNING)
    if not patience:
        return f"{said} others,"
    return f"{said} others, each search of settings lasting up to {patience[0]} to {patience[-1]} seconds,"


def _machine(threads: int) -> str:
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(f"{name} (not installed)")
    kind = platform.processor() or platform.machine()
    return (
        f"Machine: {os.cpu_count()} cores ({kind}), {threads} thread{'s' if threads > 1 else ''} used; "
        f"Python {platform.python_version()}; {', '.join(versions)}."
    )
