"""Tunes the peers, per model and number of steps, on samples of their own.

    make bench-tuning          (hours on a laptop; the result is committed, so that `make bench` need not do it again)

Settings are drawn at random over the whole range, beside those of the next smaller number of steps and those that
tuned.json holds already. From the best one, one setting after the other is moved as long as that helps. What counts
is the mean distance on the tuning samples; a failure counts with three times the fallback, so that success comes
first. What is missing in tuned.json or lies at an end of its range is tuned; `--again` tunes the rest anew. An
interrupted run continues with what is left.
"""

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import torch

from distances.models import CARDS, OUT, ROOT, Subject, load_subject
from distances.outcome import Fallback, fallback, lengths, successes
from distances.peers import PEERS, Peer, Settings, guard, in_batches
from fairmargin.models.search_copy import SearchCopy, copied

COMMAND = "make bench-tuning"
TUNED = ROOT / "benchmarks" / "tuned.json"
USUAL = {  # the models' usual distances, by norm: what settings in units of them are multiples of
    "lenet": {2.0: 0.7, float("inf"): 0.03},
    "resnet20": {2.0: 0.1, float("inf"): 0.004},
    "robust": {2.0: 1.5, float("inf"): 0.33},
    "clean": {2.0: 1.5, float("inf"): 0.13},
}
_FAILURE = 3.0
_DRAWS, _FURTHER_DRAWS = 40, 8
_EDGE = 0.05  # of the range, on a logarithmic scale: a value nearer to an end than this lies at the edge


def score(peer: Peer, subject: Subject, steps: int, settings: Settings, missing: Fallback, most: int) -> float:
    """The mean distance on the tuning samples, failures weighing heavily."""
    x, y = subject.x_tuning[:most], subject.y_tuning[:most]
    found = in_batches(peer.attack, subject.model, x, y, steps, settings)
    success = successes(subject.model, x, y, found)
    values = missing.fill(lengths(found - x, peer.norm), success)
    return float(torch.where(success, values, _FAILURE * values).mean())


def tune(
    peer: Peer, subject: Subject, steps: int, starts: Sequence[Settings], most: int, patience: float
) -> tuple[dict[str, float], float]:
    """The best settings found and their mean; begins nothing new after `patience` seconds of processor time."""
    axes = ranges(peer, subject.name)
    missing, begun = fallback(subject, peer.norm, tuning=True), time.process_time()
    known: dict[tuple[float, ...], float] = {}

    def ask(settings: Settings, share: float = 1.0) -> float:
        key = tuple(settings[name] for name in axes)
        if key not in known:
            if known and time.process_time() - begun > share * patience:
                return math.inf
            known[key] = score(peer, subject, steps, settings, missing, most)
        return known[key]

    chance = random.Random(0)
    trials = [_drawn(axes, chance) for _ in range(_FURTHER_DRAWS if starts else _DRAWS)]
    middle = {name: math.sqrt(low * high) for name, (low, high) in axes.items()}
    best = dict(min([*(starts or [middle]), *trials], key=lambda trial: ask(trial, share=0.5)))
    for factor in (2.0, 1.4):
        for name, (low, high) in axes.items():
            for step in (factor, 1 / factor):
                while low <= best[name] * step <= high and ask(moved := {**best, name: best[name] * step}) < ask(best):
                    best = moved
    return best, ask(best)


def ranges(peer: Peer, model: str) -> dict[str, tuple[float, float]]:
    """The range in which each setting is searched, on a logarithmic scale."""
    usual = USUAL[model][peer.norm]
    return {
        name.rstrip("@"): (low * usual, high * usual) if name.endswith("@") else (low, high)
        for name, (low, high) in peer.axes.items()
    }


def edges(settings: Settings, searched: Mapping[str, Sequence[float]]) -> list[str]:
    """The settings that lie outside the range that was searched, or at an end of it."""
    return [name for name, (low, high) in searched.items() if not _inside(settings[name], low, high)]


def _inside(value: float, low: float, high: float) -> bool:
    margin = _EDGE * math.log(high / low)
    return math.log(low) + margin < math.log(value) < math.log(high) - margin


def _drawn(axes: Mapping[str, tuple[float, float]], chance: random.Random) -> dict[str, float]:
    return {n: math.exp(chance.uniform(math.log(low), math.log(high))) for n, (low, high) in axes.items()}


def _quoted(argument: str) -> str:
    return f"'{argument}'" if " " in argument else argument


def main() -> None:
    """Tune every peer that has settings, for the models named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(CARDS))
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--patience", type=float, default=300.0, help="processor seconds for one peer at one budget")
    parser.add_argument("--most-steps", type=int, default=1000)
    parser.add_argument("--peers", nargs="*", default=[peer.key for peer in PEERS])
    parser.add_argument("--steps", nargs="*", type=int, help="only these numbers of steps")
    parser.add_argument("--again", action="store_true", help="tune also what tuned.json holds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    guard()
    OUT.mkdir(exist_ok=True)
    for name in options.models:
        subject = load_subject(name)
        if subject.card.normalised:  # a third faster; distances differ by a hundred-thousandth
            subject = replace(subject, model=copied(subject.model, SearchCopy(fold=True, channels_last=True)))
        for peer in PEERS:
            if peer.axes and peer.key in options.peers:
                _tune_budgets(peer, subject, options)
    TUNED.write_text(json.dumps(merged(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _tune_budgets(peer: Peer, subject: Subject, options: argparse.Namespace) -> None:
    path = OUT / f"tuned-{subject.name}.json"
    new: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    committed = tuned_entries().get(subject.name, {})
    below: Settings | None = None  # the settings of the next smaller number of steps
    for steps in peer.budgets:
        place = f"{peer.key} {steps}"
        old = committed.get(place)
        wanted = old is None or options.again or edges(old["settings"], old["searched"])
        asked = steps <= options.most_steps and (not options.steps or steps in options.steps)
        if place not in new and wanted and asked:
            starts = [start for start in (below, old["settings"] if old else None) if start is not None]
            best, mean = tune(peer, subject, steps, starts, options.samples, options.patience)
            new[place] = {
                "settings": best,
                "mean": mean,
                "samples": options.samples,
                "searched": ranges(peer, subject.name),
                "by": f'{COMMAND} BENCH_ARGS="{" ".join(map(_quoted, sys.argv[1:]))}"',
                "on": date.today().isoformat(),
            }
            path.write_text(json.dumps(new, indent=1), encoding="utf-8")
            shown = {setting: float(f"{value:.4g}") for setting, value in best.items()}
            at = edges(best, new[place]["searched"])
            warning = f"; {', '.join(at)} at the edge: widen the range in peers.py" if at else ""
            print(subject.name, place, f"{mean:.5g}", shown, warning, flush=True)
        below = (new.get(place) or old or {}).get("settings", below)


def tuned_entries() -> dict[str, dict[str, Any]]:
    """The committed entries, by model and by peer with its number of steps."""
    entries: dict[str, dict[str, Any]] = json.loads(TUNED.read_text(encoding="utf-8"))["models"]
    return entries


def merged() -> dict[str, Any]:
    """The committed entries, replaced by those that were tuned since."""
    models = tuned_entries()
    for name in CARDS:
        path = OUT / f"tuned-{name}.json"
        if path.is_file():
            models[name] = {**models.get(name, {}), **json.loads(path.read_text(encoding="utf-8"))}
    return {"made_by": f"{COMMAND}, where an entry does not say otherwise", "models": models}


if __name__ == "__main__":
    main()
