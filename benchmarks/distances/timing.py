"""Wall times, as ratios: each run stands between plain passes of the same model, timed just before and just after."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from distances.models import OUT
from distances.peers import BATCH

_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Bare:
    """Seconds that the plain model takes for one sample, in a batch of 64."""

    forward: float
    backward: float

    def of(self, forward: float, backward: float) -> float:
        """Seconds of so many passes."""
        return forward * self.forward + backward * self.backward


@dataclass(frozen=True, slots=True)
class Timed:
    """One repetition of one contestant; seconds are per sample."""

    model: str
    key: str
    version: str
    repetition: int
    seconds: float
    bare: Bare


def bare_passes(model: nn.Module, x: Tensor) -> Bare:
    """The medians of a few plain passes."""
    batch = x[:BATCH]
    forward, both = [], []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        with torch.no_grad():
            model(batch)
        forward.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        given = batch.clone().requires_grad_(True)
        torch.autograd.grad(model(given).sum(), given)
        both.append(time.perf_counter() - begun)
    one, two = sorted(forward)[_ROUNDS // 2] / BATCH, sorted(both)[_ROUNDS // 2] / BATCH
    return Bare(one, max(two - one, 0.0))


def timed(run: Callable[[], object], model: nn.Module, x: Tensor, samples: int) -> tuple[float, Bare]:
    """Seconds a sample of a run, and those of bare passes around it."""
    before = bare_passes(model, x)
    begun = time.perf_counter()
    run()
    seconds = (time.perf_counter() - begun) / samples
    after = bare_passes(model, x)
    return seconds, Bare((before.forward + after.forward) / 2, (before.backward + after.backward) / 2)


def keep(line: Timed, folder: Path = OUT) -> None:
    """Add a line."""
    with (folder / f"times-{line.model}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def kept(model: str, folder: Path = OUT) -> Iterator[Timed]:
    """All lines of a model."""
    path = folder / f"times-{model}.jsonl"
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            content = json.loads(line)
            yield Timed(**content | {"bare": Bare(**content["bare"])})
