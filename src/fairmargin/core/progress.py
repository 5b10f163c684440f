"""Types of callbacks that report the progress of long computations."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Callback that is called with (name of the step, units done, total units), or with (a sentence, 0, `SAID`)."""
SAID = -1
"""Total of a sentence that is shown once, and has no units."""
Count = Callable[[int, int], None]
"""Callback that is called with (units done, total units)."""


def silent(*_progress: object) -> None:
    """Ignore progress. The default callback.

    >>> silent("measuring", 1, 2)
    """
