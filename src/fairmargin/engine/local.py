"""Engines that run tasks on this machine, in the current process or in worker processes."""

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import wait as wait_for_end
from pathlib import Path
from typing import Any
from uuid import uuid4

import threadpoolctl

from fairmargin.engine.attempt import sendable
from fairmargin.engine.shared import Received, Sent, pickled
from fairmargin.engine.task import Engine, T, Task
from fairmargin.errors import FairmarginError, InputError, exits_refused

_WAITING_PER_WORKER = 1  # queued tasks per worker, in addition to the running one
_STARTED = "started"  # file in the folder of a pool; the first worker that is ready for tasks writes it
_NOT_STARTED = (
    "The worker processes ended before their first task. Each worker imports the script that started it: put the calls "
    'of the script below `if __name__ == "__main__":`, or use the engine "serial". If it has this line already, the '
    "reason may be printed above, or the machine ran out of memory."
)


@dataclass(frozen=True, slots=True)
class Serial:
    """Engine that runs one task after the other in the current process.

    >>> [(task.key, result) for task, result in Serial().run([Task("a", abs, (-1,)), Task("b", abs, (-2,))])]
    [('a', 1), ('b', 2)]
    """

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Run the tasks in the given order and yield each task with its result."""
        for task in tasks:
            yield task, task.run()

    def session(self) -> AbstractContextManager[Engine]:
        """Return a context manager with the engine itself, because there are no workers."""
        return nullcontext(self)


@dataclass(frozen=True, slots=True)
class Processes:
    """Engine that runs tasks in worker processes on this machine.

    Workers are spawned, not forked, because forking a process with torch's threads can deadlock. A script that uses
    this engine therefore needs the guard `if __name__ == "__main__":`.

    Each call of `run` starts new workers, which takes several seconds if the tasks import torch. Within a `session`
    all calls share the same workers.

    Parameters
    ----------
    workers
        Maximum number of worker processes; by default one per processor that this process may use. Each worker uses at
        most processors // workers threads, unless OMP_NUM_THREADS is set.

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
        """Run the tasks and yield each task with its result, in the order in which they finish."""
        with self.session() as pool:
            yield from pool.run(tasks)

    @contextmanager
    def session(self) -> Iterator["WorkerPool"]:
        """Yield a pool whose calls of `run` share workers, and stop the workers at the end of the context."""
        pool = WorkerPool(self.workers or processors())
        try:
            yield pool
        finally:
            pool.close()


class WorkerPool:
    """Pool of worker processes, shared by the calls of `run` within a session.

    Workers start when the first task is submitted. All workers are stopped if one of them ends abruptly, or if a call
    of `run` ends before its tasks have finished and no other call is active. The next call starts new workers.

    Parameters
    ----------
    workers
        Maximum number of worker processes.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._under_way = 0  # number of active calls of `run`
        self._left: list[Future[Any]] = []  # running tasks of calls that ended early
        self._folder = ""  # of the files with shared objects, and of the file `_STARTED`
        self._sent = Sent(self._written, Path.unlink)

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Run the tasks and yield each task with its result, in the order in which they finish."""
        if not tasks:
            return
        pool, submitted = self._started(), dict[Future[T], Task[T]]()
        self._under_way += 1
        try:
            yield from self._completed(pool, tasks, self.workers * (1 + _WAITING_PER_WORKER), submitted)
        except BrokenProcessPool as error:
            if not Path(self._folder, _STARTED).exists():
                raise FairmarginError(_NOT_STARTED) from error
            raise FairmarginError(
                f"A worker process ended abruptly (1 of {self.workers}). Often the machine ran out of memory, or the "
                "code of the model ended the process (`os._exit`). Results of finished tasks are kept: run again with "
                "fewer workers (`--engine processes:workers=1`) or with `--engine serial`."
            ) from error
        finally:
            self._under_way -= 1
            # A task that a worker has started cannot be cancelled; it ends only if the worker is stopped.
            self._left += [future for future in submitted if not future.cancel() and not future.done()]
            if self._is_busy() and not self._under_way and self._pool is pool:
                self._stop(terminate=True)

    @contextmanager
    def session(self) -> Iterator["WorkerPool"]:
        """Return this pool, so that a session within a session shares the workers."""
        yield self

    def close(self) -> None:
        """Stop all workers, including those that are running a task."""
        self._stop(terminate=self._under_way > 0 or self._is_busy())
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder, self._sent = "", Sent(self._written, Path.unlink)

    def _is_busy(self) -> bool:
        """Return whether workers are running tasks of calls that ended early."""
        self._left = [future for future in self._left if not future.done()]
        return bool(self._left)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is not None and self._pool._broken:  # a worker ended abruptly
            self._stop(terminate=True)
        if self._pool is None:
            threads = max(1, processors() // self.workers)
            spawn = multiprocessing.get_context("spawn")
            self._folder = self._folder or tempfile.mkdtemp(prefix="fairmargin-shared-")
            self._pool = ProcessPoolExecutor(self.workers, spawn, _prepare_worker, (threads, self._folder))
        return self._pool

    def _stop(self, *, terminate: bool) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if terminate:
            # The public `terminate_workers` comes only with Python 3.14.
            for process in list((pool._processes or {}).values()):
                process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)

    def _completed(
        self, pool: ProcessPoolExecutor, tasks: Sequence[Task[T]], window: int, submitted: "dict[Future[T], Task[T]]"
    ) -> Generator[tuple[Task[T], T], None, None]:
        """Yield tasks as they finish, with at most `window` tasks submitted at a time.

        Results of finished tasks are yielded before the exception of a failed task is raised.
        """
        waiting: Iterator[Task[T]] = iter(tasks)
        self._submit(pool, islice(waiting, window), submitted)
        while submitted:
            finished, _ = wait(submitted, return_when=FIRST_COMPLETED)
            # In the order of submission, because `finished` is a set.
            done = [future for future in submitted if future in finished]
            failures = [error for future in done if (error := future.exception()) is not None]
            results = [(submitted.pop(future), future.result()) for future in done if future.exception() is None]
            if not failures:
                # Submitted before yielding, so that workers are busy while the caller stores the results.
                self._submit(pool, islice(waiting, len(done)), submitted)
            yield from results
            if failures:
                raise failures[0]

    def _submit(
        self, pool: ProcessPoolExecutor, tasks: Iterable[Task[T]], submitted: "dict[Future[T], Task[T]]"
    ) -> None:
        for task in tasks:
            content, shared = pickled(task)
            files = self._sent.use(shared)
            with _interrupts_blocked():
                future = pool.submit(_run_pickled, content, files)
            future.add_done_callback(lambda _, names=tuple(shared): self._sent.release(names))  # type: ignore[misc]
            submitted[future] = task

    def _written(self, content: bytes) -> Path:
        """Write a shared object to a file, from which workers read it."""
        file = Path(self._folder, uuid4().hex)
        file.write_bytes(content)
        return file


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT (Ctrl-C) while a worker is started.

    The worker inherits the blocked signal. It unblocks it after it has installed its own handler.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # started first, because it unblocks SIGINT when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_received = Received()


def _run_pickled(content: bytes, files: dict[str, Path]) -> Any:
    """Unpickle and run a task in a worker.

    The task is unpickled here, because an exception during the unpickling by the pool would end the worker.
    """
    with exits_refused():
        task: Task[Any] = _received.unpickled(content, lambda name: files[name].read_bytes())
    try:
        return task.run()
    except Exception as error:
        raise sendable(error) from error


def processors() -> int:
    """Return the number of processors that this process may use, which can be lower in a container."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _prepare_worker(threads: int, folder: str) -> None:
    """Set up a worker process: limit its threads, ignore Ctrl-C, and exit when the parent process ends."""
    _limit_threads(threads)
    # The terminal sends Ctrl-C to all its processes; the parent process handles it and stops the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    Path(folder, _STARTED).touch()


def _limit_threads(threads: int) -> None:
    """Limit the number of threads of numerical libraries, unless the user has set OMP_NUM_THREADS."""
    if os.environ.get("OMP_NUM_THREADS"):
        return  # torch would prefer MKL_NUM_THREADS, if it were set below
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))
    # Libraries that the user's script imports are already loaded and do not read the variables again.
    for loaded in threadpoolctl.ThreadpoolController().lib_controllers:
        if loaded.num_threads > threads:
            loaded.set_num_threads(threads)


def _end_with_parent(folder: str) -> None:
    """Exit when the parent process ends. A parent that was killed cannot stop its workers, nor remove its files."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_end([parent.sentinel])
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)
