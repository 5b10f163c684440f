"""Functions that tasks run in the tests. They are at the top level of a module, so that workers can import them."""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import threadpoolctl

from fairmargin.engine.shared import Shared


def double(number: int) -> int:
    return 2 * number


def slow_double(number: int, seconds: float) -> int:
    time.sleep(seconds)
    return 2 * number


def fail_on_three(number: int) -> int:
    if number == 3:
        raise LookupError("three is not here")
    return number


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(folder: str, number: int) -> int:
    """Kill the worker when the task runs for the first time."""
    mark = Path(folder, f"{number}.died")
    if not mark.exists():
        mark.touch()
        die(number)
    return double(number)


def span(seconds: float) -> tuple[float, float]:
    began = time.time()
    time.sleep(seconds)
    return began, time.time()


def leave_at_once(_: int) -> int:
    os._exit(0)


class Unusual(BaseException):
    """Exception that `except Exception` does not catch."""


def leave(number: int, how: str) -> int:
    """Try to exit the process at the third task, as the code of a user's model might."""
    if number == 2:
        if how == "sys.exit":
            sys.exit(0)
        if how == "exit":
            exit()
        raise {"GeneratorExit": GeneratorExit, "Unusual": Unusual}[how]("enough")
    return number


class LeavesWhenReceived:
    """Argument that tries to exit the process when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return sys.exit, (0,)


class UnpicklableError(Exception):
    """Exception that cannot be sent to another process."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.lock = threading.Lock()


def raise_unpicklable() -> None:
    raise UnpicklableError("this holds a lock")


class ReceivedOnce:
    """Object that has another name each time that it is unpickled."""

    def __init__(self) -> None:
        self.name = uuid4().hex

    def __reduce__(self) -> tuple[Any, ...]:
        return ReceivedOnce, ()


def name_of(received: ReceivedOnce, _: int) -> tuple[str, int]:
    return received.name, os.getpid()


def total(numbers: Any, further: list[Shared[Any]]) -> int:
    return int(numbers.sum() + sum(np.sum(each.value) for each in further))


def threads_in_use() -> dict[str, int]:
    """Return the number of threads of torch and of each numerical library."""
    import numpy as np
    import torch

    _ = np.ones((8, 8)) @ np.ones((8, 8)), torch.ones(8, 8) @ torch.ones(8, 8)
    pools = {pool["internal_api"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    return {"torch": torch.get_num_threads(), **pools}


def mark_and_sleep(folder: str, number: int, seconds: float) -> int:
    """Write the process id to a file, so that a test can find the worker, then sleep."""
    Path(folder, f"{number}.pid").write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def variable(name: str) -> str:
    return os.environ.get(name, "")


def whereabouts() -> tuple[int, str]:
    return os.getpid(), os.environ.get("OMP_NUM_THREADS", "")


def ignores_interrupts() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
