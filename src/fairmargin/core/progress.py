"""Progress of long work: a callback that is told what is done, how much of it, and how much there is."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with (what, done, total)."""
Count = Callable[[int, int], None]
"""Called with (done, total)."""


def silent(*_told: object) -> None:
    """Ignore progress: the default where nobody asked for it.

    >>> silent("measuring", 1, 2)
    """
