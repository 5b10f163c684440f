"""Engines of this machine: one process, or several."""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import wait as wait_for_end
from typing import Any

import threadpoolctl

from fairmargin.engine.task import T, Task
from fairmargin.errors import FairmarginError, InputError, exits_refused

_WAITING_PER_WORKER = 1  # tasks queued beside the one that runs: enough to keep a worker busy, few to hold in memory


@dataclass(frozen=True, slots=True)
class Serial:
    """Runs one task after the other, in this process.

    >>> [(task.key, result) for task, result in Serial().run([Task("a", abs, (-1,)), Task("b", abs, (-2,))])]
    [('a', 1), ('b', 2)]
    """

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Yield each task with its result, in the order given."""
        for task in tasks:
            yield task, task.run()


@dataclass(frozen=True, slots=True)
class Processes:
    """Runs tasks in worker processes of this machine and yields each as it finishes.

    Workers are spawned, not forked: a fork beside torch's threads can deadlock. A script that uses this engine
    therefore needs the guard `if __name__ == "__main__":`.

    Parameters
    ----------
    workers
        How many processes; by default one per processor that this process may use.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"`workers` must be at least 1; given {self.workers}. Leave it out for one per processor.")

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Yield each task with its result, in the order in which they finish."""
        if not tasks:
            return
        workers = min(self.workers or _processors(), len(tasks))
        threads = max(1, _processors() // workers)
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _prepare_worker, (threads,))
        finished = False
        try:
            yield from _as_they_finish(pool, tasks, window=workers * (1 + _WAITING_PER_WORKER))
            finished = True
        except BrokenProcessPool as error:
            raise FairmarginError(
                f"A worker process ended abruptly ({workers} at work); most often the machine ran out of memory, or "
                "the code of the model ended the process (`os._exit`). Finished tasks are kept: run again with fewer "
                "workers (`--engine processes:workers=1`) or with `--engine serial`. If this happens at once in a "
                'script of yours, put its calls below `if __name__ == "__main__":`.'
            ) from error
        finally:
            _close(pool, hurry=not finished)


def _as_they_finish(
    pool: ProcessPoolExecutor, tasks: Sequence[Task[T]], window: int
) -> Generator[tuple[Task[T], T], None, None]:
    """Keep at most `window` tasks submitted; what finished is yielded before what failed is raised."""
    waiting: Iterator[Task[T]] = iter(tasks)
    submitted: dict[Future[T], Task[T]] = {_submit(pool, task): task for task in islice(waiting, window)}
    while submitted:
        finished, _ = wait(submitted, return_when=FIRST_COMPLETED)
        done = [future for future in submitted if future in finished]  # as submitted: a set has an order of its own
        failures = [error for future in done if (error := future.exception()) is not None]
        results = [(submitted.pop(future), future.result()) for future in done if future.exception() is None]
        if not failures:
            # Before yielding, so that workers go on while the caller writes results down.
            submitted |= {_submit(pool, task): task for task in islice(waiting, len(done))}
        yield from results
        if failures:
            raise failures[0]


def _submit(pool: ProcessPoolExecutor, task: Task[T]) -> "Future[T]":
    return pool.submit(_run_pickled, pickle.dumps(task))


def _run_pickled(content: bytes) -> Any:
    """Run a task in a worker.

    The arguments are unpickled here because an exception during the pool's own unpickling would end the worker.
    """
    with exits_refused():
        task: Task[Any] = pickle.loads(content)
    return task.run()


def _close(pool: ProcessPoolExecutor, *, hurry: bool) -> None:
    """Shut the workers down; in a hurry also those amid a task, whose result nobody awaits any more."""
    if hurry:
        # The public `terminate_workers` comes only with Python 3.14.
        for process in list((pool._processes or {}).values()):
            process.terminate()
    pool.shutdown(wait=True, cancel_futures=True)


def _processors() -> int:
    """How many processors this process may use, which in a container can be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _prepare_worker(threads: int) -> None:
    """Set up a worker: limit threads, ignore Ctrl-C, exit with the parent."""
    _limit_threads(threads)
    # Ctrl-C reaches every process of the terminal; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _limit_threads(threads: int) -> None:
    """Limit the threads of numerical libraries, unless the user did so by OMP_NUM_THREADS, which all of them read."""
    if os.environ.get("OMP_NUM_THREADS"):
        return  # MKL_NUM_THREADS, if set here, would overrule it in torch
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))
    # Libraries that the user's script imports were loaded before, and do not read the variables again.
    for loaded in threadpoolctl.ThreadpoolController().lib_controllers:
        if loaded.num_threads > threads:
            loaded.set_num_threads(threads)


def _end_with_parent() -> None:
    """A parent killed outright cannot shut its workers down; without this they would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_end([parent.sentinel])
        os._exit(1)
