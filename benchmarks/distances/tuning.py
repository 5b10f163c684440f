"""Tunes the peers, per model and number of steps, on samples of their own.

    make bench-tuning          (hours on a laptop; the result is committed, so that `make bench` need not do it again)

At the smallest number of steps settings are drawn at random, then one after the other is moved as long as that helps;
each further number of steps starts from the best of the one before. What counts is the mean distance on the tuning
samples; a failure counts with three times the fallback, so that success comes first. An interrupted run goes on.
"""

import argparse
import json
import math
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from distances.models import CARDS, OUT, ROOT, Subject, load_subject
from distances.outcome import Fallback, fallback, lengths, successes
from distances.peers import PEERS, Peer, Settings, guard, in_batches
from fairmargin.models.acceleration import Acceleration, accelerated

COMMAND = "make bench-tuning"
TUNED = ROOT / "benchmarks" / "tuned.json"
USUAL = {  # the models' usual distances, by norm: what settings in units of them are multiples of
    "lenet": {2.0: 0.7, float("inf"): 0.03},
    "resnet20": {2.0: 0.1, float("inf"): 0.004},
    "robust": {2.0: 1.5, float("inf"): 0.33},
    "clean": {2.0: 1.5, float("inf"): 0.13},
}
_FAILURE = 3.0
_DRAWS, _FURTHER_DRAWS, _ROUNDS = 40, 8, 2


def score(peer: Peer, subject: Subject, steps: int, settings: Settings, missing: Fallback, most: int) -> float:
    """The mean distance on the tuning samples, failures weighing heavily."""
    x, y = subject.x_tuning[:most], subject.y_tuning[:most]
    found = in_batches(peer.attack, subject.model, x, y, steps, settings)
    success = successes(subject.model, x, y, found)
    values = missing.fill(lengths(found - x, peer.norm), success)
    return float(torch.where(success, values, _FAILURE * values).mean())


def tune(
    peer: Peer, subject: Subject, steps: int, start: Settings | None, most: int, patience: float
) -> tuple[dict[str, float], float]:
    """The best settings found and what they came to; begins nothing new after `patience` seconds."""
    axes = ranges(peer, subject)
    missing, begun = fallback(subject, peer.norm, tuning=True), time.monotonic()
    known: dict[tuple[float, ...], float] = {}

    def ask(settings: dict[str, float]) -> float:
        key = tuple(settings[name] for name in axes)
        if key not in known:
            late = known and time.monotonic() - begun > patience
            known[key] = float("inf") if late else score(peer, subject, steps, settings, missing, most)
        return known[key]

    chance = random.Random(0)
    trials = [_drawn(axes, chance) for _ in range(_FURTHER_DRAWS if start else _DRAWS)]
    middle = {name: math.sqrt(low * high) for name, (low, high) in axes.items()}
    best = min([dict(start) if start else middle, *trials], key=ask)
    for factor in (2.0, 1.4)[:_ROUNDS]:
        for name, (low, high) in axes.items():
            moved = [best[name] / factor, best[name] * factor]
            best = min([best, *({**best, name: v} for v in moved if low / 2 <= v <= high * 2)], key=ask)
    return best, ask(best)


def ranges(peer: Peer, subject: Subject) -> dict[str, tuple[float, float]]:
    """Between what each setting is drawn, on a logarithmic scale; "@" is in units of the model's usual distance."""
    usual = USUAL[subject.name][peer.norm]
    return {
        name.rstrip("@"): (low * usual, high * usual) if name.endswith("@") else (low, high)
        for name, (low, high) in peer.axes.items()
    }


def _drawn(axes: dict[str, tuple[float, float]], chance: random.Random) -> dict[str, float]:
    return {n: math.exp(chance.uniform(math.log(low), math.log(high))) for n, (low, high) in axes.items()}


def _quoted(argument: str) -> str:
    return f"'{argument}'" if " " in argument else argument


def main() -> None:
    """Every peer that has something to tune, for the models named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(CARDS))
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--patience", type=float, default=300.0, help="seconds for one peer at one budget")
    parser.add_argument("--most-steps", type=int, default=1000)
    parser.add_argument("--peers", nargs="*", default=[peer.key for peer in PEERS])
    options = parser.parse_args()
    torch.set_num_threads(1)
    guard()
    for name in options.models:
        subject = load_subject(name)
        if subject.card.normalised:  # a third faster; distances differ by a hundred-thousandth
            subject = replace(subject, model=accelerated(subject.model, Acceleration(fold=True, channels_last=True)))
        path = OUT / f"tuned-{name}.json"
        tuned = json.loads(path.read_text()) if path.is_file() else {}
        for peer in PEERS:
            if not peer.axes or peer.key not in options.peers:
                continue
            best = None
            for steps in peer.budgets:
                if steps > options.most_steps:
                    continue
                if f"{peer.key} {steps}" not in tuned:
                    best, mean = tune(peer, subject, steps, best, options.samples, options.patience)
                    tuned[f"{peer.key} {steps}"] = {
                        "settings": best,
                        "mean": mean,
                        "samples": options.samples,
                        "by": f'{COMMAND} BENCH_ARGS="{" ".join(map(_quoted, sys.argv[1:]))}"',
                    }
                    path.write_text(json.dumps(tuned, indent=1))
                    print(
                        name,
                        peer.key,
                        steps,
                        f"{mean:.5g}",
                        {k: float(f"{v:.4g}") for k, v in best.items()},
                        flush=True,
                    )
                best = tuned[f"{peer.key} {steps}"]["settings"]
    merge(OUT, TUNED)


def merge(folder: Path, target: Path) -> None:
    """What was tuned for each model, in one file, for everyone."""
    parts = {name: folder / f"tuned-{name}.json" for name in CARDS}
    content = {
        "made_by": f"{COMMAND}, where an entry does not say otherwise",
        "models": {name: json.loads(path.read_text()) for name, path in parts.items() if path.is_file()},
    }
    target.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
