"""Progress of long work: a callback that is told what is done, how much of it, and how much there is."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with (what, done, total)."""


def silent(what: str, done: int, total: int) -> None:
    """Ignore progress.

    >>> silent("measuring", 1, 2)
    """
