"""What an audit to a precision saves, on two networks: the cheap and the reference estimator once, then many replays.

    OMP_NUM_THREADS=1 nice .venv/bin/python benchmarks/precision.py

Test images of one shuffled order, misclassified ones included; groups are the classes. Distances are kept in
benchmarks/out/precision-*.npz as they come, and measured only if they are not there: about six minutes for LeNet,
twenty for ResNet-20, on one core. A replay draws a pool of `POOL` samples from them with replacement, as from a
population whose means are known, and audits it; what an estimator "measures" is looked up. Costs are passes, as the
audit counts them, and seconds of processor time, as they were measured here.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from distances.models import CARDS, OUT, SHARED, load_subject
from distances.passes import counted

import fairmargin as fm
from fairmargin.core.distances import Distances
from fairmargin.core.domain import Domain
from fairmargin.core.partition import Partition
from fairmargin.distances.catalog import parse_estimator
from fairmargin.inference.precision.control_variate import Pool, chances, control_variate_means, sizes_by
from fairmargin.inference.precision.log_contrast import log_contrast
from fairmargin.inference.precision.rounds import REFERENCE, PrecisionTarget, to_precision
from fairmargin.models.torch_model import TorchClassifier

_REFERENCES = 256  # training samples that searches may fall back on


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured on a network."""

    network: str
    samples: int
    cheap: tuple[str, ...]
    reference: str
    precisions: tuple[float, ...]


BENCHES = {
    # References of two prices: the dearer it is, the more a cheap estimator saves.
    "lenet": Bench("lenet", 6_000, ("first_order",), "plumb:steps=40", (0.12, 0.08, 0.06)),
    "lenet-100": Bench("lenet", 6_000, ("first_order",), "plumb:steps=100", (0.12, 0.08, 0.06)),
    "resnet20": Bench("resnet20", 1_500, ("first_order",), "plumb:steps=20", (0.12, 0.08, 0.06)),
    "resnet20-100": Bench("resnet20", 1_500, ("first_order",), "plumb:steps=100", (0.12, 0.08, 0.06)),
}


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Distances of all samples by one estimator, and what a sample cost."""

    values: np.ndarray
    correct: np.ndarray
    classes: np.ndarray
    passes: float
    seconds: float


def measured(name: str, text: str, samples: int) -> Measured:
    """From the file if there is one, else measured now."""
    path = OUT / f"precision-{name}-{samples}-{text.replace(':', '-').replace('=', '-')}.npz"
    if not path.is_file():
        _measure(name, text, samples, path)
    kept = np.load(path)
    return Measured(kept["values"], kept["correct"], kept["classes"], float(kept["passes"]), float(kept["seconds"]))


def _measure(name: str, text: str, samples: int, path: Path) -> None:
    card, subject = CARDS[name], load_subject(name)
    test = fm.load(card.data, root=SHARED / "data", split="test")
    train = fm.load(card.data, root=SHARED / "data", split="train")
    order = np.random.default_rng(1).permutation(len(test))[:samples]
    x, y = np.asarray(test.x[:], dtype=np.float32)[order], np.asarray(test.y)[order]
    model = TorchClassifier(subject.model, classes=tuple(range(10)), domain=Domain(0, 1))
    references = np.asarray(train.x[:_REFERENCES], dtype=np.float32)
    print(f"{name}: measuring {text} on {samples:,} samples…", flush=True)
    start = time.process_time()  # of this one thread: the clock would count what others do on the machine
    with counted(subject.model) as passes:
        found = fm.measure(model, x, y, parse_estimator(text), references=references, progress=_said)
    seconds = (time.process_time() - start) / samples
    each = (passes.forward + passes.backward) / samples
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, values=found.values, correct=found.correct, classes=y, passes=each, seconds=seconds)
    print(f"{name}: {text}: {each:.1f} passes, {1000 * seconds:.2f} ms a sample", flush=True)


def _said(done: int, total: int) -> None:
    print(f"  {done:,} of {total:,}", end="\r", flush=True)


POOL, REPLAYS = 24_000, 100


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """Averages over replays: what was reached, and at which cost, in units of the reference on one sample."""

    precision: float
    width: float  # half of it, the mean over groups
    met: float
    covered: float
    cheap: float
    reference: float
    plain: float
    chosen: str


def replays(bench: Bench, data: list[Measured], precision: float, pool: int, costs: tuple[float, ...]) -> Replayed:
    """Audits of pools drawn from what was measured."""
    truth = data[-1]
    sigma = _sigma(truth)
    rows = []
    for seed in range(REPLAYS):
        rng = np.random.default_rng(seed)
        drawn = rng.integers(0, len(truth.values), pool)

        def ask(which: int, at: np.ndarray, drawn: np.ndarray = drawn) -> Distances:
            one, where = data[which], drawn[at]
            return Distances(one.values[where], one.correct[where], "upper" if which == REFERENCE else "neither", "l2")

        partition = Partition.by("class", truth.classes[drawn])
        keys = rng.integers(0, 2**63, pool).astype(np.uint64)
        answer = to_precision(ask, partition, keys, PrecisionTarget(precision, 0.95, False, 30, np.inf, costs))
        found, means = answer.contrast, answer.means
        covered = (found.sigma_low <= sigma) & (sigma <= found.sigma_high)
        chosen = -1 if answer.cheap is None else answer.cheap
        asked = (sum(answer.counts[:-1]), answer.counts[-1])
        plain = float((means.spread2 / means.error2).sum())
        spent = float(np.dot(answer.counts, costs)) / costs[-1]
        rows.append(
            (
                found.half_width.mean(),
                answer.met.mean(),
                covered.mean(),
                *asked,
                plain / spent,
                chosen,
            )
        )
    width, met, covered, cheap, reference, plain, chosen = np.mean(rows, axis=0)
    names = [*bench.cheap, "none"]
    commonest = names[int(np.bincount([int(r[-1]) % len(names) for r in rows]).argmax())]
    return Replayed(precision, width, met, covered, cheap, reference, plain, commonest)


def _sigma(truth: Measured) -> np.ndarray:
    """Of every class against the rest, as it is in the population."""
    own = np.array([truth.values[truth.classes == g].mean() for g in range(10)])
    rest = np.array([truth.values[truth.classes != g].mean() for g in range(10)])
    return own / rest - 1


def _same_pool(data: list[Measured], costs: tuple[float, ...], share: float = 0.2) -> tuple[float, float]:
    """With `share` of the compute of the reference on all: how much wider than that, and what is covered."""
    truth, cheap = data[-1], data[0]
    group = truth.classes.astype(np.int64)
    sigma = _sigma(truth)
    rows = []
    for seed in range(REPLAYS):
        rng = np.random.default_rng(seed)
        drawn = rng.integers(0, len(group), len(group))
        g, r, c, ok = group[drawn], truth.values[drawn], cheap.values[drawn], cheap.correct[drawn]
        count = np.bincount(g, minlength=10)
        chance, reference, size = np.ones(len(g)), np.full(len(g), np.nan), np.ones(len(g))
        n = (share - costs[0] / costs[-1]) * len(g)
        for k in range(10):
            own = np.flatnonzero((g == k) & ok)
            size[own] = sizes_by(c[own])
            chance[own] = chances(size[own], round(n * count[k] / len(g)))
            place = (rng.permutation(len(own)) + 0.5) / len(own)
            taken = own[np.argsort(place / chance[own])[: round(n * count[k] / len(g))]]
            reference[taken] = r[taken]
        some = control_variate_means(Pool(g, count, ok, c, reference, chance, size), finite=False)
        nothing = np.zeros(len(g))
        full = control_variate_means(Pool(g, count, nothing == 0, nothing, r, nothing + 1, nothing + 1), finite=False)
        one, other = (
            log_contrast(m.mean, m.error2, m.third, m.freedom, count, finite=False, confidence=0.95)
            for m in (some, full)
        )
        rows.append(
            ((one.half_width / other.half_width).mean(), ((one.sigma_low <= sigma) & (sigma <= one.sigma_high)).mean())
        )
    ratio, covered = np.mean(rows, axis=0)
    return float(ratio), float(covered)


def main() -> None:
    """Measure what is missing, replay, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*BENCHES], help=f"some of {', '.join(BENCHES)}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.models:
        bench = BENCHES[name]
        data = [measured(bench.network, text, bench.samples) for text in (*bench.cheap, bench.reference)]
        for unit in ("passes", "seconds"):
            costs = tuple(getattr(one, unit) for one in data)
            shares = ", ".join(f"{t} {c / costs[-1]:.4f}" for t, c in zip(bench.cheap, costs, strict=False))
            title = CARDS[bench.network].title
            print(f"\n{title}: reference {bench.reference}; cost in {unit} of {shares}; pool of {POOL:,}")
            print("precision  half-width   met  covered  cheap on  reference on  less than plain  preferred")
            for precision in bench.precisions:
                one = replays(bench, data, precision, POOL, costs)
                print(
                    f"{one.precision:9.2f}  {one.width:10.4f}  {one.met:4.2f}  {one.covered:7.3f}  {one.cheap:8,.0f}  "
                    f"{one.reference:12,.0f}  {one.plain:14.2f}×  {one.chosen}", flush=True,
                )  # fmt: skip
            ratio, covered = _same_pool(data, costs)
            print(
                f"a fifth of the compute of the reference on all {bench.samples:,}: {ratio:.3f}× as wide, "
                f"covers {covered:.3f}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
