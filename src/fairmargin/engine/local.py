"""Engines of this machine: one process, or several."""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import wait as wait_for_end
from typing import Any

import threadpoolctl

from fairmargin.engine.task import Engine, T, Task
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

    def session(self) -> AbstractContextManager[Engine]:
        """Return the engine itself: there are no workers to keep."""
        return nullcontext(self)


@dataclass(frozen=True, slots=True)
class Processes:
    """Runs tasks in worker processes of this machine and yields each as it finishes.

    Workers are spawned, not forked: a fork beside torch's threads can deadlock. A script that uses this engine
    therefore needs the guard `if __name__ == "__main__":`.

    Each call of `run` starts workers of its own, which takes seconds where the tasks import torch. Within a `session`
    all calls share the same workers.

    Parameters
    ----------
    workers
        Maximum number of processes; by default one per processor that this process may use. Each worker is limited to
        its share of the processors (processors // workers threads), unless OMP_NUM_THREADS is set.

    >>> Processes(workers=0)
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: `workers` must be at least 1; given 0. Leave it out for one per processor.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"`workers` must be at least 1; given {self.workers}. Leave it out for one per processor.")

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Yield each task with its result, in the order in which they finish."""
        with self.session() as pool:
            yield from pool.run(tasks)

    @contextmanager
    def session(self) -> Iterator["WorkerPool"]:
        """Keep the workers until the block is left, for all calls of `run` of the pool that is yielded."""
        pool = WorkerPool(self.workers or _processors())
        try:
            yield pool
        finally:
            pool.close()


class WorkerPool:
    """The worker processes of a session.

    Workers are started when there is work for them. If one ends abruptly, or a call of `run` ends before its tasks do
    and no other call is under way, all workers are stopped at once; the next call starts new ones.

    Parameters
    ----------
    workers
        Maximum number of processes.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._under_way = 0  # calls of `run` that have not ended
        self._left: list[Future[Any]] = []  # tasks that calls which ended early left with the workers

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Yield each task with its result, in the order in which they finish."""
        if not tasks:
            return
        pool, submitted = self._started(), dict[Future[T], Task[T]]()
        self._under_way += 1
        try:
            yield from _as_they_finish(pool, tasks, self.workers * (1 + _WAITING_PER_WORKER), submitted)
        except BrokenProcessPool as error:
            raise FairmarginError(
                f"A worker process ended abruptly ({self.workers} at work); most often the machine ran out of memory, "
                "or the code of the model ended the process (`os._exit`). Finished tasks are kept: run again with "
                "fewer workers (`--engine processes:workers=1`) or with `--engine serial`. If this happens at once in "
                'a script of yours, put its calls below `if __name__ == "__main__":`.'
            ) from error
        finally:
            self._under_way -= 1
            # A task that a worker has taken cannot be cancelled, only ended with its worker.
            self._left += [future for future in submitted if not future.cancel() and not future.done()]
            if self._is_busy() and not self._under_way and self._pool is pool:
                self._stop(hurry=True)

    @contextmanager
    def session(self) -> Iterator["WorkerPool"]:
        """Share these workers: a session within a session starts no others."""
        yield self

    def close(self) -> None:
        """Stop all workers, also those amid a task."""
        self._stop(hurry=self._under_way > 0 or self._is_busy())

    def _is_busy(self) -> bool:
        """Whether workers run tasks whose result nobody awaits."""
        self._left = [future for future in self._left if not future.done()]
        return bool(self._left)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is not None and self._pool._broken:  # a worker died while nobody waited for it, or with its task
            self._stop(hurry=True)
        if self._pool is None:
            threads = max(1, _processors() // self.workers)
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, spawn, _prepare_worker, (threads,))
        return self._pool

    def _stop(self, *, hurry: bool) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if hurry:
            # The public `terminate_workers` comes only with Python 3.14.
            for process in list((pool._processes or {}).values()):
                process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _as_they_finish(
    pool: ProcessPoolExecutor, tasks: Sequence[Task[T]], window: int, submitted: "dict[Future[T], Task[T]]"
) -> Generator[tuple[Task[T], T], None, None]:
    """Keep at most `window` tasks in `submitted`; what finished is yielded before what failed is raised."""
    waiting: Iterator[Task[T]] = iter(tasks)
    _submit(pool, islice(waiting, window), submitted)
    while submitted:
        finished, _ = wait(submitted, return_when=FIRST_COMPLETED)
        done = [future for future in submitted if future in finished]  # as submitted: a set has an order of its own
        failures = [error for future in done if (error := future.exception()) is not None]
        results = [(submitted.pop(future), future.result()) for future in done if future.exception() is None]
        if not failures:
            # Before yielding, so that workers go on while the caller writes results down.
            _submit(pool, islice(waiting, len(done)), submitted)
        yield from results
        if failures:
            raise failures[0]


def _submit(pool: ProcessPoolExecutor, tasks: Iterable[Task[T]], submitted: "dict[Future[T], Task[T]]") -> None:
    for task in tasks:
        content = pickle.dumps(task)
        with _interrupts_held():
            submitted[pool.submit(_run_pickled, content)] = task


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while a worker is started, which inherits this: until it is prepared it has no answer to it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would let Ctrl-C through when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run_pickled(content: bytes) -> Any:
    """Run a task in a worker.

    The arguments are unpickled here because an exception during the pool's own unpickling would end the worker.
    """
    with exits_refused():
        task: Task[Any] = pickle.loads(content)
    return task.run()


def _processors() -> int:
    """Return how many processors this process may use, which in a container can be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _prepare_worker(threads: int) -> None:
    """Set up a worker: limit threads, ignore Ctrl-C, exit with the parent."""
    _limit_threads(threads)
    # Ctrl-C reaches every process of the terminal; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
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
    """End this worker with its parent: one that was killed cannot shut its workers down."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_end([parent.sentinel])
        os._exit(1)
