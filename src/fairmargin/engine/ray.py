"""Engine that runs tasks on a Ray cluster, or on a Ray that it starts on this machine."""

import logging
import os
import pickle
import pkgutil
import secrets
import shutil
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from urllib.parse import urlsplit

import cloudpickle

from fairmargin.engine.attempt import sendable
from fairmargin.engine.local import processors
from fairmargin.engine.shared import Received, Sent, pickled
from fairmargin.engine.task import DEVICE, T, Task
from fairmargin.errors import FairmarginError, InputError, exits_refused
from fairmargin.version import __version__

_logger = logging.getLogger(__name__)

_RETRIES = 3  # how often a task is run again because its worker or node was lost
_IN_FLIGHT = 2  # tasks in flight for each task that can run: one runs, one waits
_LOOK_EVERY = 5.0  # seconds between looks at the size of the cluster, which may grow
_VERSION = "fairmargin.version:__version__"  # what workers must be able to import
_CONNECT = 5.0  # seconds for reaching a cluster
_LONGEST_REASON = 300  # characters of an error of Ray that are shown
_LONGEST = 20  # length of a path to temporary files; Ray adds 80 characters, and names of sockets end at 107


@dataclass(frozen=True, slots=True)
class Ray:
    """Engine that runs tasks on a Ray cluster, or on a Ray that it starts on this machine.

    Tasks that were lost with their worker or node run again. A Ray that is already initialised in this process is used,
    whatever the address, and left running.

    Parameters
    ----------
    address
        Cluster to join: "auto" for the one on this machine, "HOST:6379" from one of its nodes, "ray://HOST:10001" from
        elsewhere. By default Ray is started on this machine, and stopped at the end.
    workers
        Maximum number of tasks that run at the same time; by default as many as there are resources for.
    cpus
        Processors that each task reserves, and the number of its threads unless OMP_NUM_THREADS is set; by default 1 on
        a cluster, and the share of a worker on this machine.
    gpus
        GPUs that each task reserves; by default 1 if the cluster has GPUs, otherwise 0.

    >>> Ray(workers=0)
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: `workers` of Ray must be at least 1; given 0.
    """

    shares_files: ClassVar[bool] = False

    address: str = ""
    workers: int | None = None
    cpus: int | None = None
    gpus: int | None = None

    def __post_init__(self) -> None:
        for field, least in (("workers", 1), ("cpus", 1), ("gpus", 0)):
            value = getattr(self, field)
            if value is not None and value < least:
                raise InputError(f"must be at least {least}", field=field, given=value, of="Ray")

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Run the tasks and yield each task with its result, in the order in which they finish."""
        if tasks:
            with self.session() as session:
                yield from session.run(tasks)

    @contextmanager
    def session(self) -> "Iterator[RaySession]":
        """Yield a session with the cluster; at its end, leave the cluster, or stop it if it was started here."""
        ray = _imported()
        if ray.is_initialized():
            with _explained(ray):
                _check_package(ray)
            yield RaySession(ray, self, started=False)
        elif self.address:
            with _explained(ray), _silent(), _joined(ray, self.address):
                _check_package(ray)
                yield RaySession(ray, self, started=False)
        else:
            with _explained(ray), _silent(), _started(ray, self):
                yield RaySession(ray, self, started=True)


class RaySession:
    """Connection to a Ray cluster, shared by the calls of `run` within a session.

    Parameters
    ----------
    ray
        The module.
    engine
        Number of tasks at a time, and what each of them reserves.
    started
        Whether Ray was started for this session alone.
    """

    shares_files = False

    def __init__(self, ray: Any, engine: Ray, *, started: bool) -> None:
        self._ray, self._most = ray, None if started else engine.workers
        self._cpus = engine.cpus or (_share(engine) if started else 1)
        self._gpus = engine.gpus if engine.gpus is not None else int(ray.cluster_resources().get("GPU", 0) >= 1)
        self._device = "cuda" if self._gpus else "cpu"
        self._looked, self._room = -_LOOK_EVERY, 1
        self._sent = Sent(self._put, lambda reference: None)
        self._function = ray.remote(_run).options(
            num_cpus=self._cpus, num_gpus=self._gpus, max_retries=_RETRIES, retry_exceptions=False
        )
        self._check_resources()

    def run(self, tasks: Sequence[Task[T]]) -> Generator[tuple[Task[T], T], None, None]:
        """Run the tasks and yield each task with its result, in the order in which they finish.

        Results of finished tasks are yielded before the exception of a failed task is raised.
        """
        waiting, running = iter(tasks), dict[Any, tuple[Task[T], tuple[str, ...]]]()
        try:
            self._submit(islice(waiting, self._window()), running)
            while running:
                done = self._finished(running)
                results, failure = [], None
                for reference in done:
                    task, names = running.pop(reference)
                    self._sent.release(names)
                    try:
                        results.append((task, self._result(reference)))
                    except Exception as error:
                        failure = failure or error
                if failure is None:
                    # Submitted before yielding, so that workers are busy while the caller stores the results.
                    self._submit(islice(waiting, max(0, self._window() - len(running))), running)
                yield from results
                if failure is not None:
                    raise failure
        finally:
            for reference, (_, names) in running.items():
                self._sent.release(names)
                self._cancel(reference)

    @contextmanager
    def session(self) -> "Iterator[RaySession]":
        """Return this session, so that a session within a session shares the connection."""
        yield self

    def _finished(self, running: Mapping[Any, Any]) -> list[Any]:
        """Wait for a task to finish, and return all that have, in the order of submission."""
        references = list(running)
        self._ray.wait(references, num_returns=1)
        ready = set(self._ray.wait(references, num_returns=len(references), timeout=0)[0])
        return [reference for reference in references if reference in ready]

    def _submit(self, tasks: Iterable[Task[T]], running: dict[Any, tuple[Task[T], tuple[str, ...]]]) -> None:
        for task in tasks:
            content, shared = pickled(task)
            places = self._sent.use(shared)
            running[self._function.remote(content, places, self._device)] = (task, tuple(shared))

    def _put(self, content: bytes) -> Any:
        """Put a shared object into the object store."""
        import numpy as np

        with _explained(self._ray):
            # As an array, which tasks read in place; bytes would be copied for each.
            return self._ray.put(np.frombuffer(content, dtype=np.uint8))

    def _result(self, reference: Any) -> Any:
        with _explained(self._ray):
            succeeded, result = pickle.loads(self._ray.get(reference))
        if not succeeded:
            raise result
        return result

    def _cancel(self, reference: Any) -> None:
        try:
            self._ray.cancel(reference, force=True)
        except Exception:  # the connection may be lost, and then there is nothing to cancel
            return

    def _window(self) -> int:
        """Return how many tasks may be in flight."""
        if time.monotonic() - self._looked >= _LOOK_EVERY:
            self._looked = time.monotonic()
            resources = self._ray.cluster_resources()
            rooms = [resources.get("CPU", 0) // self._cpus]
            rooms += [resources.get("GPU", 0) // self._gpus] if self._gpus else []
            self._room = max(1, int(min(rooms)))
        window = self._room * _IN_FLIGHT
        return window if self._most is None else min(window, self._most)

    def _check_resources(self) -> None:
        there = self._ray.cluster_resources()
        for field, kind, asked in (("cpus", "CPU", self._cpus), ("gpus", "GPU", self._gpus)):
            if asked > there.get(kind, 0):
                raise InputError(
                    f"asks for {asked} {kind}s per task, and the cluster has {there.get(kind, 0):g}",
                    field=field,
                    of="Ray",
                )


# In a worker ----------------------------------------------------------------------------------------------------------

_received = Received()


def _run(content: bytes, places: Mapping[str, Any], device: str) -> bytes:
    """Unpickle and run a task in a worker; return whether it succeeded, with its result or its exception."""
    ray = _imported()
    os.environ[DEVICE] = device
    try:
        with exits_refused():
            task: Task[Any] = _received.unpickled(content, lambda name: ray.get(places[name]))
        return bytes(cloudpickle.dumps((True, task.run())))
    except Exception as error:
        error.add_note(f"In a worker of Ray:\n{''.join(traceback.format_exception(error))}")
        return pickle.dumps((False, sendable(error)))


# Starting and joining -------------------------------------------------------------------------------------------------


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        version = ".".join(map(str, sys.version_info[:2]))
        raise InputError(
            f"The engine `ray` needs the package Ray, which cannot be imported ({error}): pip install "
            f"'fairmargin[ray]'. If pip finds no version of it, Ray has no wheel for Python {version} on this machine."
        ) from None
    return ray


@contextmanager
def _started(ray: Any, engine: Ray) -> Iterator[None]:
    """Start Ray on this machine, for this process only, and stop it at the end."""
    share = _share(engine)
    with _private_folder() as folder, _environment(_settings()), _loopback():
        try:
            ray.init(
                address="local",
                num_cpus=share * (engine.workers or max(1, processors() // share)),
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
                _node_ip_address="127.0.0.1",
                _temp_dir=str(folder / "ray"),
            )
            yield
        finally:
            ray.shutdown()


def _settings() -> dict[str, str]:
    """Return the variables of the environment with which Ray is started on this machine."""
    settings = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # see `_loopback`
        # Workers import what this process can import.
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    given = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    if not given and not (Path.home() / ".ray" / "auth_token").is_file():
        settings["RAY_AUTH_TOKEN"] = _TOKEN  # otherwise Ray writes one to that file, readable by every user
    return settings


@contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    """Join a cluster, and leave it at the end."""
    _check_reachable(address)
    _read_token_again()
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        raise _refusal(ray, address, error) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Refuse an address that nothing listens to, for which Ray itself would wait for half a minute."""
    if address == "auto":
        return
    where = urlsplit(address if "//" in address else f"//{address}")
    try:
        host, port, scheme = where.hostname, where.port, where.scheme
    except ValueError:
        host = port = None
    if not host or not port or scheme not in ("", "ray"):
        raise InputError("must be auto, HOST:PORT or ray://HOST:PORT", field="address", given=address, of="Ray")
    try:
        socket.create_connection((host, port), timeout=_CONNECT).close()
    except OSError as error:
        raise InputError(
            f"There is no Ray cluster at {address} that this machine can reach ({error}). Check the address; ports are "
            "6379 for HOST:PORT and 10001 for ray://HOST:PORT, unless `ray start` was told others."
        ) from None


def _refusal(ray: Any, address: str, error: Exception) -> InputError:
    """Return in a sentence why a cluster could not be joined."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = " ".join(" ".join(lines[-1:] if "Traceback" in str(error) else lines).split())[:_LONGEST_REASON]
    if isinstance(error, ImportError):
        return InputError(f"An address ray://… needs further packages ({text}): pip install 'fairmargin[ray]'.")
    if "ersion" in text and ("mismatch" in text or "differ" in text):
        return InputError(
            f"This machine and the cluster at {address} must have the same versions of Ray and Python. {text}"
        )
    if isinstance(error, ray.exceptions.AuthenticationError) or "oken" in text:
        return InputError(
            f"The cluster at {address} expects a token. Set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or "
            f"RAY_AUTH_TOKEN_PATH) to the one with which it was started. ({text})"
        )
    if address == "auto":
        return InputError(
            "No Ray cluster runs on this machine: start one by `ray start --head`, or leave out the address."
        )
    return InputError(
        f"Ray could not join the cluster at {address} ({text}). HOST:PORT is for nodes of the cluster; from another "
        "machine use ray://HOST:10001."
    )


def _check_package(ray: Any) -> None:
    """Refuse a cluster whose workers cannot import this version of this package."""
    ship = (
        f'runtime_env={{"pip": ["fairmargin[ray]=={__version__}"]}} in `ray.init`, before the engine is used, or '
        f'`ray job submit --runtime-env-json \'{{"pip": ["fairmargin[ray]=={__version__}"]}}\' -- fairmargin …`'
    )
    look = ray.remote(pkgutil.resolve_name).options(num_cpus=0, max_retries=_RETRIES)
    try:
        found = ray.get(look.remote(_VERSION))
    except ray.exceptions.RayTaskError as error:
        raise InputError(
            f"The workers of the cluster cannot import fairmargin ({error.cause}). Install it on all nodes, or ship "
            f"it: {ship}."
        ) from None
    if found != __version__:
        raise InputError(
            f"The cluster has fairmargin {found}, and this machine {__version__}. Install the same version, or ship "
            f"it: {ship}."
        )


@contextmanager
def _explained(ray: Any) -> Iterator[None]:
    """Convert the exceptions of Ray to sentences."""
    errors = ray.exceptions
    kept = "Results of finished tasks are kept: run again"
    try:
        yield
    except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
        raise FairmarginError(
            "The object store of Ray is too small for a model or for samples. Start Ray with more memory for it "
            f"(`ray start --object-store-memory BYTES`), or with more room for temporary files. {kept}."
        ) from error
    except errors.OutOfMemoryError as error:
        raise FairmarginError(
            f"A node of Ray ran out of memory. {kept} with fewer tasks per node, for instance `--engine ray:cpus=4`."
        ) from error
    except (
        errors.WorkerCrashedError,
        errors.NodeDiedError,
        errors.ObjectLostError,
        errors.LocalRayletDiedError,
    ) as error:
        raise FairmarginError(
            f"A task lost its worker or its node {_RETRIES + 1} times. Often a node ran out of memory, or the code of "
            f"the model ended the process (`os._exit`). {kept} with `--engine serial` to see which."
        ) from error
    except errors.RayTaskError as error:
        raise FairmarginError(
            f"A worker of Ray could not start a task ({str(error.cause).strip().splitlines()[0]}). Is the same version "
            f"of fairmargin installed on all nodes? {kept}."
        ) from error
    except errors.RayError as error:
        first = (str(error) or "no message").strip().splitlines()[0]
        raise FairmarginError(f"Ray failed with {type(error).__name__}: {first} {kept}.") from error


def _share(engine: Ray) -> int:
    """Return the processors of a worker on this machine."""
    return engine.cpus or max(1, processors() // (engine.workers or processors()))


_TOKEN = secrets.token_hex(32)  # of every Ray that this process starts


@contextmanager
def _private_folder() -> Iterator[Path]:
    """Make a folder for temporary files that other users cannot read, and remove it at the end."""
    short = "/tmp" if len(tempfile.gettempdir()) > _LONGEST and Path("/tmp").is_dir() else None
    folder = tempfile.mkdtemp(prefix="fairmargin-", dir=short)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, and restore them at the end, with the mode of authentication that Ray sets."""
    before = {name: os.environ.get(name) for name in (*settings, "RAY_AUTH_MODE")}
    os.environ.update(settings)
    _read_token_again()
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        _read_token_again()


def _read_token_again() -> None:
    """Let Ray read the token and the mode of authentication again, which it otherwise keeps until the process ends."""
    with suppress(ImportError, AttributeError):  # older versions have no tokens
        internals: Any = import_module("ray._raylet")
        internals.AuthenticationTokenLoader.instance().reset_cache()
        internals.Config.initialize("")


@contextmanager
def _loopback() -> Iterator[None]:
    """Let Ray listen to this machine only.

    Ray replaces 127.0.0.1 by the address of the machine and listens to all networks, except where it supports no
    clusters. Its processes learn this from the environment, and this process, where it may be imported already, here.
    """
    from ray._private import ray_constants

    with _replaced(ray_constants, "ENABLE_RAY_CLUSTER", False):
        yield


@contextmanager
def _silent() -> Iterator[None]:
    """Keep messages of Ray about lost workers and nodes out of the standard output, which can be read by programs."""
    from ray._private import worker

    with _replaced(worker, "print_to_stdstream", lambda data, ignore_prefix: _logger.info("%s", data["lines"])):
        yield


@contextmanager
def _replaced(module: ModuleType, name: str, value: object) -> Iterator[None]:
    before = getattr(module, name, value)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
