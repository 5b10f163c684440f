"""Errands that tasks run in the tests: at the top level of a module, so that a worker can import them."""

import os
import signal
import time
from pathlib import Path


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


def mark_and_sleep(folder: str, number: int, seconds: float) -> int:
    """Leave one's process id in a file, so that a test can see who ran, then take long."""
    Path(folder, f"{number}.pid").write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def whereabouts() -> tuple[int, str]:
    return os.getpid(), os.environ.get("OMP_NUM_THREADS", "")


def ignores_interrupts() -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
