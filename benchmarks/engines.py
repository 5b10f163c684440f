"""What engines cost and gain: start-up, overhead per task, bytes per task, and two workers against one.

    OMP_NUM_THREADS=1 nice .venv/bin/python benchmarks/engines.py

Prints the tables of docs/scale.md. Needs Ray (pip install 'fairmargin[ray]') and about three minutes on two idle
processors. All workers use one thread.
"""

import argparse
import os
import pickle
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

import fairmargin as fm
from fairmargin.distances.catalog import parse_estimator
from fairmargin.distances.measure import measure_shard
from fairmargin.engine.catalog import parse_engine
from fairmargin.engine.shared import Shared, pickled
from fairmargin.engine.task import Engine, Task
from fairmargin.runner.costs import passes_of

ENGINES = ("serial", "processes:workers=1", "processes:workers=2", "ray:workers=1", "ray:workers=2")
ESTIMATORS = ("first_order", "deepfool", "ddn", "fmn", "plumb")
ROWS = 64  # samples per task: one tile
TINY = 2000  # tasks that do nothing


def network(name: str, shape: tuple[int, ...]) -> Any:
    torch.manual_seed(0)
    return fm.as_classifier(fm.build_architecture(name, shape, 10))


def searches(model: Any, count: int, estimator: str) -> list[Task[Any]]:
    """Return tasks that measure distances of random images."""
    random = np.random.default_rng(0)
    tasks, shared = [], Shared("network", model)
    for i in range(count):
        x = random.random((ROWS, 3, 32, 32), dtype=np.float32)
        samples = Shared(f"images {i}", x)
        tasks.append(Task(str(i), measure_shard, (shared, parse_estimator(estimator), samples, model.predict(x), 0)))
    return tasks


def seconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def finish(engine: Engine, tasks: Sequence[Task[Any]]) -> None:
    for _ in engine.run(tasks):
        pass


def start_up(text: str) -> tuple[float, float]:
    """Return the seconds until the first result of a session, and until the first result of a search."""
    model = network("resnet8", (3, 32, 32))
    tasks = searches(model, 1, "deepfool:steps=1")
    began = time.perf_counter()
    with parse_engine(text).session() as session:
        finish(session, [Task("a", abs, (-1,))])
        first = time.perf_counter() - began
        finish(session, tasks)
        return first, time.perf_counter() - began


def per_task(session: Engine) -> float:
    """Return the milliseconds that a task costs which does nothing."""
    tasks = [Task(str(i), abs, (i,)) for i in range(TINY)]
    return 1000 * seconds(lambda: finish(session, tasks)) / TINY


def bytes_per_task() -> tuple[int, int, int]:
    """Return how much a task with a network of 100 MB carried, how much it carries, and what is sent once."""
    model = fm.as_classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 8138)))
    x = np.zeros((ROWS, 3, 32, 32), dtype=np.float32)
    y, estimator = np.zeros(ROWS, dtype=np.int64), parse_estimator("deepfool")
    whole = Task("a", measure_shard, (model, estimator, x, y, 0))
    task = Task("a", measure_shard, (Shared("network", model), estimator, Shared("images", x), y, 0))
    content, shared = pickled(task)
    return len(pickle.dumps(whole)), len(content), sum(len(pickled(each.value)[0]) for each in shared.values())


def per_image(estimator: str) -> tuple[float, float]:
    """Return the passes and the seconds of processor time that an image takes on ResNet-20."""
    model = network("resnet20", (3, 32, 32))
    (task,) = searches(model, 1, estimator)
    x, y = task.arguments[2].value, task.arguments[3]
    task.run()  # the copy for searches is made once
    began = time.process_time()
    task.run()
    return passes_of(model, parse_estimator(estimator), x, y, 0), (time.process_time() - began) / ROWS


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=8)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")

    print("| engine | first result | first search |\n|---|---|---|")
    for text in ("serial", "processes:workers=2", "ray:workers=2"):
        found = [start_up(text) for _ in range(given.repeats)]
        first, search = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"| `{text}` | {first:.1f} s | {search:.1f} s |", flush=True)

    before, after, once = bytes_per_task()
    print(f"\nBytes per task with a network of 100 MB: {before:,} before, {after:,} now; {once:,} once per worker.\n")

    print("| estimator | passes per image | processor time per image |\n|---|---|---|")
    found = {text: per_image(text) for text in ESTIMATORS}
    for text, (passes, each) in found.items():
        print(f"| `{text}` | {passes:.0f} | {1000 * each:.0f} ms |")
    print(f"| all | {sum(p for p, _ in found.values()):.0f} | {1000 * sum(s for _, s in found.values()):.0f} ms |\n")

    tasks = searches(network("resnet8", (3, 32, 32)), given.tasks, "deepfool")
    with ExitStack() as stack:
        # The last engine is entered first: a Ray that runs already serves the other one too.
        sessions = {text: stack.enter_context(parse_engine(text).session()) for text in reversed(ENGINES)}
        for session in sessions.values():
            finish(session, tasks[:4])  # workers import torch
        print("| engine | overhead per task | time of the searches | least | most | gain over one worker |")
        print("|---|---|---|---|---|---|")
        times: dict[str, list[float]] = {text: [] for text in ENGINES}
        for _ in range(given.repeats):  # in turns, because the load of the machine changes
            for text in ENGINES:
                times[text].append(seconds(lambda session=sessions[text]: finish(session, tasks)))
        for text in ENGINES:
            own = times[text]
            one = times[text.replace("workers=2", "workers=1")]
            gain = statistics.median(a / b for a, b in zip(one, own, strict=True))
            overhead = statistics.median(per_task(sessions[text]) for _ in range(given.repeats))
            print(
                f"| `{text}` | {overhead:.2f} ms | {statistics.median(own):.1f} s | {min(own):.1f} s | "
                f"{max(own):.1f} s | {f'{gain:.2f}' if text.endswith('2') else ''} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
