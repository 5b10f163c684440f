"""Stores of shards: in a folder, safe against killed processes and concurrent writers, and in memory."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmargin.core.distances import Distances
from fairmargin.errors import InputError, StoreError
from fairmargin.store.atomic import TEMPORARY, atomic_write_bytes, atomic_write_text, cannot_write
from fairmargin.store.lock import sole_writer
from fairmargin.store.plain_files import read_plain, refuse_links
from fairmargin.store.shard import decode, encode

FORMAT = 1
LABEL = "store.json"
"""File that marks a folder as a store."""
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Store:
    """Store of shards in a run folder. Use `Store.open` to create or open it.

    A shard is a set of distances in one Parquet file, `shards/<2 hex>/<key>.parquet`. The file gets this name when it
    is complete, and its checksum is verified on every read. Writers must hold `lock()`; readers need no lock. `folder`
    can be a symbolic link, but links inside of it are not followed.

    Parameters
    ----------
    folder
        Path of the run folder.

    >>> from tempfile import TemporaryDirectory
    >>> from fairmargin.store.shard import shard_key
    >>> key = shard_key({"estimator": "ddn", "seed": 0})
    >>> with TemporaryDirectory() as run:
    ...     store = Store.open(Path(run), create=True)
    ...     with store.lock():
    ...         store.write(key, Distances([0.5, 0.0], [True, False], "upper", "l2"), about={"estimator": "ddn"})
    ...     store.has(key), store.read(key)
    (True, Distances(2 samples, 1 correct, 0 unreached, upper, L2))
    """

    folder: Path

    @classmethod
    def open(cls, folder: Path, *, create: bool) -> "Store":
        """Open the store in `folder`. With `create`, create a new store if the folder is missing or empty."""
        folder = Path(folder)
        if os.path.exists(folder) and not os.path.isdir(folder):  # False for names that are too long, without an error
            raise StoreError(f"{folder} is a file, but a run is stored in a folder. Choose another --out.")
        label = folder / LABEL
        try:
            text = read_plain(label).decode()
        except (FileNotFoundError, NotADirectoryError):
            if not create:
                what = "a folder without a run (it has no store.json)" if folder.exists() else "no folder"
                raise StoreError(f"There is {what} at {folder}. Check the path, or run the audit first.") from None
            _check_free(folder)
            _make_folder(folder)
            atomic_write_text(label, json.dumps({"format": FORMAT}) + "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"Cannot read {label}: {error}. Choose another --out.") from error
        else:
            _check_format(label, text)
        _refuse_linked_shards(folder / "shards")
        return cls(folder)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Acquire the lock for writing; raise an error if another process holds it. Delete incomplete files."""
        with sole_writer(self.folder):
            for place in ("", "results/", "shards/*/", "trainings/*/"):
                for incomplete in self.folder.glob(f"{place}.*{TEMPORARY}"):
                    incomplete.unlink(missing_ok=True)
            yield

    def has(self, key: str) -> bool:
        """Return whether the shard exists, without reading it."""
        return self._path(key).is_file()

    def write(self, key: str, distances: Distances, about: Mapping[str, Any]) -> None:
        """Write a shard; the caller must hold `lock()`. `about` is stored with it and must be plain JSON values."""
        path = self._path(key)
        content = encode(key, distances, about)
        _make_folder(path.parent)
        atomic_write_bytes(path, content)

    def read(self, key: str) -> Distances:
        """Return the distances of a shard, identical to those that were written."""
        path = self._path(key)
        try:
            content = read_plain(path)
        except FileNotFoundError:
            raise StoreError(
                f"The run in {self.folder} has no shard {key}. Run the audit again to measure it."
            ) from None
        except OSError as error:
            raise StoreError(f"Cannot read {path}: {error.strerror or error}.") from error
        try:
            return decode(key, content)[0]
        except Exception as error:  # reading a damaged Parquet file can raise many kinds of exceptions
            first, *_ = (str(error) or type(error).__name__).splitlines()
            raise StoreError(
                f"The shard {path} is damaged ({first.rstrip('.')[:120]}). Delete it, or run the audit again, which "
                "renames it and measures its samples again."
            ) from error

    def keys(self) -> Iterator[str]:
        """Return the keys of all shards in sorted order."""
        names = (path.name.removesuffix(".parquet") for path in self.folder.glob("shards/??/*.parquet"))
        return iter(sorted(name for name in names if _KEY.fullmatch(name)))

    def set_aside(self, key: str) -> Path:
        """Rename a damaged shard to `*.corrupt`, so that it is measured again, and return the new path."""
        path = self._path(key)
        aside = path.with_name(path.name + ".corrupt")
        try:
            os.replace(path, aside)
        except OSError as error:
            raise cannot_write(aside, error) from error
        return aside

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise InputError(f"A shard key is 64 hexadecimal digits, made by `shard_key`; given {key!r}.")
        return self.folder / "shards" / key[:2] / f"{key}.parquet"


class MemoryStore:
    """Store of shards in memory, for a run without a folder. It has the methods of `Store` that a run needs."""

    def __init__(self) -> None:
        self._shards: dict[str, Distances] = {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Do nothing, because no other process can write to this store."""
        yield

    def has(self, key: str) -> bool:
        """Return whether the shard exists."""
        return key in self._shards

    def write(self, key: str, distances: Distances, about: Mapping[str, Any]) -> None:
        """Store a shard without `about`."""
        self._shards[key] = distances

    def read(self, key: str) -> Distances:
        """Return the distances of a shard."""
        return self._shards[key]

    def set_aside(self, key: str) -> None:
        """Delete a shard, so that it is measured again."""
        self._shards.pop(key, None)


def _refuse_linked_shards(shards: Path) -> None:
    refuse_links([shards])
    if shards.is_dir():
        refuse_links(shards.iterdir())


def _check_free(folder: Path) -> None:
    """Raise an error if the folder holds other files, so that the files of a run are not mixed with others."""
    try:
        others = (
            sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.exists() else []
        )
    except OSError as error:
        raise StoreError(f"Cannot list {folder}: {error.strerror or error}. Choose another --out.") from error
    if others:
        names = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise StoreError(f"{folder} holds other files ({names}) and no run. Choose a new folder for --out.")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def _check_format(label: Path, text: str) -> None:
    try:
        found = json.loads(text)["format"]
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            f"{label} does not state the format of the run, so the folder was not written by Fairmargin or is damaged. "
            "Choose another --out."
        ) from None
    if found != FORMAT:
        raise StoreError(
            f"The run in {label.parent} has format {found}; this version of Fairmargin reads format {FORMAT}. "
            "Continue it with the version that wrote it, or choose another --out to start a new run."
        )
