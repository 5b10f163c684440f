"""Functions that are told how far a long computation is."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much
Count = Callable[[int, int], None]  # how much is done, of how much


def silent(*_told: object) -> None:
    """Ignore what is told: the default where nobody asked for progress.

    >>> silent("measuring", 1, 10)
    """
