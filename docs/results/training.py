"""Makes docs/results/training.md: `python docs/results/training.py`, with ../shared beside the project (1–2 hours).

The papers' training methods on Fashion-MNIST. Hyper-parameters are chosen on validation data, one seed; then every
method is trained with three seeds, and the test data are looked at once. Every step is kept in
fairmargin-results/training, so that an interrupted run goes on where it stopped. Whatever comes out is written.
"""

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes, a thread each

import numpy as np
import torch

import fairmargin as fm
from fairmargin.attacks.robust_accuracy import attack_samples
from fairmargin.metrics.accuracy import accuracy_by_group, accuracy_variance
from fairmargin.metrics.bias import overall_robustness, relative_robustness_variance, robustness_variance
from fairmargin.training.catalog import parse_method
from fairmargin.training.schedules import Schedule

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = ROOT / "fairmargin-results" / "training"
RADIUS = 0.1
ATTACK = f"radius={RADIUS},steps=7,step=0.25"
EPOCHS, PER_CLASS, SEEDS = 10, 1500, (0, 1, 2)
PLAN = {"rate": 0.05, "momentum": 0.9, "weight_decay": 5e-4, "batch": 128, "schedule": Schedule("cosine")}

# Each method with the settings to choose from; the first word of the reason says what validation data decide by.
CANDIDATES = {
    "erm": ["erm"],
    "penalty": ["penalty:weight=0.1", "penalty:weight=0.3", "penalty:weight=1"],
    "adverm": ["adverm:weight=0.02,radius=0.5", "adverm:weight=0.1,radius=0.5", "adverm:weight=0.5,radius=0.5"],
    "madry": [f"madry:{ATTACK}"],
    "trades": [f"trades:beta={beta},{ATTACK}" for beta in (1, 3, 6)],
    "fat": [f"fat:weight={weight},{ATTACK}" for weight in (0.1, 0.5, 2)],
    "fat_trades": [f"fat_trades:weight={weight},beta=3,{ATTACK}" for weight in (0.1, 0.5, 2)],
    "farmur": [f"farmur:beta={beta},{ATTACK}" for beta in (3, 6)],
}
NATURAL = {"erm", "penalty", "adverm"}  # chosen by the worst class's natural accuracy, the others by its robust one


@dataclass(frozen=True)
class Task:
    """One network: a method's spelling, a seed, and the data that it is looked at with."""

    method: str
    seed: int
    on: str  # "validation" or "test"

    @property
    def file(self) -> Path:
        """Where its numbers are kept."""
        name = f"{self.method}-seed{self.seed}-{self.on}".replace("/", "_").replace(":", "_").replace(",", "_")
        return KEPT / f"{name}.json"


def data(root: str) -> dict[str, fm.Dataset]:
    """Training and validation samples, drawn once for all, and the test samples."""
    whole = fm.load("fashion-mnist", root=root, split="train")
    order = np.random.default_rng(0).permutation(len(whole))
    ranks = np.empty(len(whole), dtype=int)
    for label in range(10):
        own = order[whole.y[order] == label]
        ranks[own] = np.arange(len(own))
    return {
        "train": whole.take(ranks < PER_CLASS),
        "validation": whole.take((ranks >= PER_CLASS) & (ranks < PER_CLASS + 300)),
        "test": fm.load("fashion-mnist", root=root, split="test"),
    }


def carry_out(task: Task) -> dict[str, float]:
    """Train, look, keep; what was kept is read."""
    if task.file.exists():
        return json.loads(task.file.read_text())
    torch.set_num_threads(1)
    sets = data(str(ROOT.parent / "shared" / "data"))
    torch.manual_seed(task.seed)
    network = fm.build_architecture("lenet5", (1, 28, 28), 10)
    folder = KEPT / task.file.stem.removesuffix(f"-{task.on}")
    trained = fm.train(
        network,
        sets["train"],
        parse_method(task.method),
        epochs=EPOCHS,
        plan=fm.TrainingPlan(**PLAN, seed=task.seed),
        validation=sets["validation"] if "farmur" in task.method else None,
        out=folder,
    )
    found = look(trained.classifier, sets[task.on], task.seed)
    found |= {"stopped": trained.stopped, "seconds": sum(epoch.seconds for epoch in trained.history)}
    task.file.write_text(json.dumps(found, indent=1))
    print(task.file.stem, {k: round(v, 4) for k, v in found.items() if isinstance(v, float)}, flush=True)
    return found


def look(model: object, samples: fm.Dataset, seed: int) -> dict[str, float]:
    """Accuracies, natural and under attack, and how far the classes are from the boundary."""
    classes = samples.partition("class")
    pgd = fm.ATTACKS["pgd"](steps=20, step=0.25)
    attacked = attack_samples(model, samples.x, samples.y, pgd, radius=RADIUS, seed=seed, progress=False)
    some = samples.sample(per_group=200, by="class")
    plumb = fm.ESTIMATORS["plumb"](steps=12)
    distances = fm.measure(model, some.x, some.y, plumb, progress=False)
    groups = some.partition("class")
    cap = {"up_to": float(distances.values[np.isfinite(distances.values)].max(initial=1.0))}
    natural, robust = (accuracy_by_group(held, classes) for held in (attacked.correct, attacked.unreached))
    return {
        "natural": float(attacked.correct.mean()),
        "worst_natural": min(natural.values()),
        "robust": float(attacked.unreached.mean()),
        "worst_robust": min(robust.values()),
        "worst_class": min(robust, key=robust.__getitem__),
        "vca": accuracy_variance(attacked.correct, classes),
        "vcra": accuracy_variance(attacked.unreached, classes),
        "rob": overall_robustness(distances, groups, **cap),
        "v_f": robustness_variance(distances, groups, **cap),
        "v_f_relative": relative_robustness_variance(distances, groups, **cap),
    }


def chosen(results: dict[Task, dict[str, float]]) -> dict[str, str]:
    """Of each method the setting with the best worst class on validation data."""
    best = {}
    for name, settings in CANDIDATES.items():
        key = "worst_natural" if name in NATURAL else "worst_robust"
        best[name] = max(settings, key=lambda s: results[Task(s, 0, "validation")][key])
    return best


def main() -> None:
    """All tasks, two at a time."""
    KEPT.mkdir(parents=True, exist_ok=True)
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with ProcessPoolExecutor(workers) as pool:
        first = [Task(setting, 0, "validation") for settings in CANDIDATES.values() for setting in settings]
        tried = dict(zip(first, pool.map(carry_out, first), strict=True))
        settled = chosen(tried)
        second = [Task(setting, seed, "test") for seed in SEEDS for setting in settled.values()]
        list(pool.map(carry_out, second))


if __name__ == "__main__":
    main()
