"""Errands that tasks run in the tests: at the top level of a module, so that a worker can import them."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import threadpoolctl


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


def leave_at_once(_: int) -> int:
    os._exit(0)


class Unusual(BaseException):
    """An exception that `except Exception` does not catch."""


def leave(number: int, how: str) -> int:
    """Try to end the process at the third task, as a model that was written as a script may."""
    if number == 2:
        if how == "sys.exit":
            sys.exit(0)
        if how == "exit":
            exit()
        raise {"GeneratorExit": GeneratorExit, "Unusual": Unusual}[how]("enough")
    return number


class LeavesWhenReceived:
    """An argument that tries to end the process that receives it."""

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return sys.exit, (0,)


def threads_in_use() -> dict[str, int]:
    """Return the number of threads of torch and of each library that calculates in threads."""
    import numpy as np
    import torch

    _ = np.ones((8, 8)) @ np.ones((8, 8)), torch.ones(8, 8) @ torch.ones(8, 8)
    pools = {pool["internal_api"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    return {"torch": torch.get_num_threads(), **pools}


def mark_and_sleep(folder: str, number: int, seconds: float) -> int:
    """Leave one's process id in a file, so that a test can see who ran, then take long."""
    Path(folder, f"{number}.pid").write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def whereabouts() -> tuple[int, str]:
    return os.getpid(), os.environ.get("OMP_NUM_THREADS", "")


def ignores_interrupts() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
