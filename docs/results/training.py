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
from safetensors.torch import load_file
from scipy import stats

import fairmargin as fm
from fairmargin.attacks.robust_accuracy import attack_samples
from fairmargin.study.schedule import Schedule
from fairmargin.training.catalog import parse_method
from fairmargin_papers.shared.measures import accuracy_by_group

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
COLLAPSED = 0.15  # a natural accuracy below: one class for everyone
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
    cap = float(distances.values[np.isfinite(distances.values)].max(initial=1.0))
    means = [float(np.minimum(distances.values, cap)[mask].mean()) for _, mask in groups]
    natural, robust = (accuracy_by_group(held, classes) for held in (attacked.correct, attacked.unreached))
    return {
        "natural": float(attacked.correct.mean()),
        "worst_natural": min(natural.values()),
        "robust": float(attacked.unreached.mean()),
        "worst_robust": min(robust.values()),
        "worst_class": min(robust, key=robust.__getitem__),
        "vca": float(np.var(list(natural.values()))),
        "vcra": float(np.var(list(robust.values()))),
        "rob": float(np.mean(means)),
        "v_f": float(np.var(means)),
        "v_f_relative": float(np.var(means) / np.mean(means) ** 2),
    }


def chosen(results: dict[Task, dict[str, float]]) -> dict[str, str]:
    """Of each method the setting with the best worst class on validation data."""
    best = {}
    for name, settings in CANDIDATES.items():
        kind = "natural" if name in NATURAL else "robust"
        # The mean breaks ties: where a class is lost, the worst is 0 for several.
        best[name] = max(
            settings, key=lambda s: [results[Task(s, 0, "validation")][key] for key in (f"worst_{kind}", kind)]
        )
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
        final = dict(zip(second, pool.map(carry_out, second), strict=True))
        strongest = stronger(settled, final)
        third = [(settled[name], seed) for name in strongest for seed in SEEDS]
        survived = dict(zip(third, pool.map(under_autoattack, third), strict=True))
    (HERE / "training.md").write_text(page(tried, settled, final, survived), encoding="utf-8")


def stronger(settled: dict[str, str], final: dict[Task, dict[str, float]]) -> list[str]:
    """Madry's, and the method with the best worst class under PGD: these meet AutoAttack too."""
    others = [name for name in settled if name not in NATURAL]
    best = max(others, key=lambda name: np.mean([final[Task(settled[name], s, "test")]["worst_robust"] for s in SEEDS]))
    return list(dict.fromkeys(["madry", best]))


def under_autoattack(which: tuple[str, int]) -> dict[str, float]:
    """Robust accuracy of a trained network on 100 test samples of each class."""
    method, seed = which
    file = KEPT / f"{Task(method, seed, 'test').file.stem}-autoattack.json"
    if file.exists():
        return json.loads(file.read_text())
    torch.set_num_threads(1)
    samples = data(str(ROOT.parent / "shared" / "data"))["test"].sample(per_group=100, by="class")
    network = fm.build_architecture("lenet5", (1, 28, 28), 10)
    network.load_state_dict(
        load_file(KEPT / Task(method, seed, "test").file.stem.removesuffix("-test") / "model.safetensors")
    )
    model = fm.as_classifier(network, bounds=(0, 1))
    found = {}
    for name, attack in (("pgd", fm.ATTACKS["pgd"](steps=20, step=0.25)), ("autoattack", fm.ATTACKS["autoattack"]())):
        held = attack_samples(model, samples.x, samples.y, attack, radius=RADIUS, seed=seed, progress=False).unreached
        by_class = accuracy_by_group(held, samples.partition("class"))
        found |= {name: float(held.mean()), f"worst_{name}": min(by_class.values())}
    file.write_text(json.dumps(found, indent=1))
    return found


def spread(values: list[float], scale: float = 1.0, digits: int = 1) -> str:
    """The mean over seeds and half of its 95 % interval by Student's t, with two degrees of freedom."""
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{scale * np.mean(values):.{digits}f} ± {scale * half:.{digits}f}"


def page(
    tried: dict[Task, dict[str, float]],
    settled: dict[str, str],
    final: dict[Task, dict[str, float]],
    survived: dict[tuple[str, int], dict[str, float]],
) -> str:
    """The page, whatever came out."""
    columns = [("natural", 100, 1), ("robust", 100, 1), ("worst_robust", 100, 1), ("vcra", 100, 2)]
    columns += [("rob", 1, 3), ("v_f", 1, 3), ("v_f_relative", 1, 3)]
    rows = []
    for name, setting in settled.items():
        values = {key: [final[Task(setting, s, "test")][key] for s in SEEDS] for key, _, _ in columns}
        classes = {str(final[Task(setting, s, "test")]["worst_class"]) for s in SEEDS}
        cells = [spread(values[key], scale, digits) for key, scale, digits in columns]
        rows.append(f"| `{name}` | {' | '.join(cells)} | {', '.join(sorted(classes))} |")
    each = [
        f"| `{name}` | "
        + " | ".join(
            f"collapsed ({100 * found['natural']:.1f})"
            if found["natural"] < COLLAPSED
            else f"{100 * found['natural']:.1f} / {100 * found['robust']:.1f} / {100 * found['worst_robust']:.1f}"
            for found in (final[Task(setting, seed, "test")] for seed in SEEDS)
        )
        + " |"
        for name, setting in settled.items()
    ]
    choices = []
    for settings in CANDIDATES.values():
        for setting in settings:
            found, mark = tried[Task(setting, 0, "validation")], "**" if setting in settled.values() else ""
            choices.append(
                f"| {mark}`{setting}`{mark} | {100 * found['natural']:.1f} | {100 * found['worst_natural']:.1f} | "
                f"{100 * found['robust']:.1f} | {100 * found['worst_robust']:.1f} |"
            )
    checked = []
    for name in dict.fromkeys(method for method, _ in survived):
        own = [survived[name, seed] for seed in SEEDS]
        keys = ("pgd", "autoattack", "worst_pgd", "worst_autoattack")
        checked.append(f"| `{name}` | " + " | ".join(spread([each[key] for each in own], 100) for key in keys) + " |")
    text = (HERE / "training.template.md").read_text(encoding="utf-8")
    for word, lines in (("ROWS", rows), ("EACH", each), ("CHOICES", choices), ("CHECKED", checked)):
        text = text.replace(f"{{{word}}}", "\n".join(lines))
    return text


if __name__ == "__main__":
    main()
