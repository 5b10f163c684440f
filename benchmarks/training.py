"""What the training loop costs beside the passes themselves, and a fair method beside a robust one.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.training [--batches 16] [--epochs 4] [--repeats 11]

Prints ratios of processor times, medians over repeats that alternate, so that a busy machine slows both sides: a
whole `fm.train`, with its checks beforehand, over a bare loop with as many forward and backward passes on as many
batches, for erm and madry; and fat over madry. Networks: LeNet-5 on 28 × 28, ResNet-8 on 32 × 32; random pixels, since
times do not depend on what they show.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

import fairmargin as fm
from fairmargin.study.schedule import Schedule
from fairmargin.training.catalog import parse_method

BATCH, STEPS, PLAIN = 128, 7, 6


def bare(network: torch.nn.Module, dataset: fm.Dataset, attack_steps: int, epochs: int) -> Callable[[], None]:
    """The loop that one would write by hand: nothing is counted, checked or kept."""
    x, y = torch.as_tensor(np.asarray(dataset.x)), torch.as_tensor(dataset.y)

    def run() -> None:
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
        for which in (which for _ in range(epochs) for which in torch.randperm(len(x)).split(BATCH)):
            a, b = x[which], y[which]
            if attack_steps:
                network.eval()
                for parameter in network.parameters():
                    parameter.requires_grad_(False)
                moved = (a + 0.1 * (2 * torch.rand_like(a) - 1)).clamp(0, 1)
                for _ in range(attack_steps):
                    moved.requires_grad_(True)
                    (slope,) = torch.autograd.grad(functional.cross_entropy(network(moved), b, reduction="sum"), moved)
                    moved = (moved.detach() + 0.025 * slope.sign()).clamp(a - 0.1, a + 0.1).clamp(0, 1)
                for parameter in network.parameters():
                    parameter.requires_grad_(True)
                a = moved
            network.train()
            optimizer.zero_grad()
            functional.cross_entropy(network(a), b).backward()
            optimizer.step()

    return run


def ours(network: torch.nn.Module, dataset: fm.Dataset, method: str, epochs: int) -> Callable[[], None]:
    """The same number of steps by `fm.train`."""
    plan = fm.TrainingPlan(batch=BATCH, rate=0.01, schedule=Schedule())

    def run() -> None:
        fm.train(network, dataset, parse_method(method), epochs=epochs, plan=plan)

    return run


def ratio(first: Callable[[], None], second: Callable[[], None], repeats: int) -> tuple[float, float, float]:
    """Median, least and most of the times of the first over those of the second, taken turn about."""
    found = []
    for turn in range(repeats + 1):
        times = []
        for each in (first, second) if turn % 2 else (second, first):
            began = time.process_time()
            each()
            times.append(time.process_time() - began)
        one, two = times if turn % 2 else reversed(times)
        found.append(one / two)
    return statistics.median(found[1:]), min(found[1:]), max(found[1:])  # the first turn warms up


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=11)
    given = parser.parse_args()
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    print("network  what              median   least    most", flush=True)
    for name, shape, batches in (
        ("lenet5", (1, 28, 28), given.batches),
        ("resnet8", (3, 32, 32), max(1, given.batches // 8)),
    ):
        torch.manual_seed(0)
        network = fm.build_architecture(name, shape, 10)
        attack = f"radius=0.1,steps={STEPS},step=0.25"
        # A step with attacks costs as much as several without: fewer of them take as long.
        few, many = (_samples(random, shape, times * batches * BATCH) for times in (1, PLAIN))
        rows = {
            "erm / bare": (ours(network, many, "erm", given.epochs), bare(network, many, 0, given.epochs)),
            "madry / bare": (
                ours(network, few, f"madry:{attack}", given.epochs),
                bare(network, few, STEPS, given.epochs),
            ),
            "fat / madry": tuple(ours(network, few, f"{method}:{attack}", given.epochs) for method in ("fat", "madry")),
        }
        for what, (first, second) in rows.items():
            median, least, most = ratio(first, second, given.repeats)
            print(f"{name:8} {what:16} {median:7.3f} {least:7.3f} {most:7.3f}", flush=True)


def _samples(random: np.random.Generator, shape: tuple[int, ...], count: int) -> fm.Dataset:
    pixels = random.random((count, *shape), dtype=np.float32)
    return fm.Dataset(pixels, random.integers(0, 10, count), domain=fm.Domain(0, 1))


if __name__ == "__main__":
    main()
