"""A store that lives as long as its run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fairmargin.core.distances import Distances


class MemoryStore:
    """Shards in memory, for a run without a folder; it has the methods of `Store` that a run needs."""

    def __init__(self) -> None:
        self._shards: dict[str, Distances] = {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Do nothing: nobody else writes here."""
        yield

    def has(self, key: str) -> bool:
        """Whether the shard is there."""
        return key in self._shards

    def write(self, key: str, distances: Distances, about: Mapping[str, Any]) -> None:
        """Keep a shard."""
        self._shards[key] = distances

    def read(self, key: str) -> Distances:
        """Return the distances of a shard."""
        return self._shards[key]

    def set_aside(self, key: str) -> None:
        """Forget a shard."""
        self._shards.pop(key, None)
