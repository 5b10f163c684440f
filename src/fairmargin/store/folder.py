"""The store: a folder of shards that survives kills, full disks and second writers."""

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
from fairmargin.store.received import read_plain, refuse_links
from fairmargin.store.shard import decode, encode

FORMAT = 1
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Store:
    """A run folder; `Store.open` makes or checks it.

    A shard is one Parquet file, `shards/<2 hex>/<key>.parquet`. It appears under its name only when complete, and its
    checksum is verified whenever it is read. Writers hold `lock()`; readers need not. `folder` may be a link; links
    inside it are not followed.

    >>> from tempfile import TemporaryDirectory
    >>> from fairmargin.store.shard import shard_key
    >>> key = shard_key({"estimator": "ddn", "seed": 0})
    >>> with TemporaryDirectory() as run:
    ...     store = Store.open(Path(run), create=True)
    ...     with store.lock():
    ...         store.write(key, Distances([0.5, 0.0], [True, False], "upper", "l2"), about={"estimator": "ddn"})
    ...     store.has(key), store.read(key), store.about(key)
    (True, Distances(2 samples, 1 correct, 0 unreached, upper, L2), {'estimator': 'ddn'})
    """

    folder: Path

    @classmethod
    def open(cls, folder: Path, *, create: bool) -> "Store":
        """The store in `folder`; with `create`, a new one if there is none yet."""
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder} is a file; a run is kept in a folder. Choose another --out.")
        label = folder / "store.json"
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
        """Be the only writer; another one is refused at once. What a killed writer left half-written is removed."""
        with sole_writer(self.folder):
            for stale in self.folder.glob(f"shards/*/.*{TEMPORARY}"):
                stale.unlink(missing_ok=True)
            yield

    def has(self, key: str) -> bool:
        """Whether the shard is there; its content is not looked at."""
        return self._path(key).is_file()

    def verified(self, key: str) -> bool:
        """Whether the shard is there and its content is what was written."""
        try:
            self.read(key)
        except StoreError:
            return False
        return True

    def write(self, key: str, distances: Distances, about: Mapping[str, Any]) -> None:
        """Keep a shard; hold `lock()` meanwhile. `about` is kept beside it and must be plain JSON."""
        path = self._path(key)
        content = encode(key, distances, about)
        _make_folder(path.parent)
        atomic_write_bytes(path, content)

    def read(self, key: str) -> Distances:
        """The distances of a shard, bit for bit as written."""
        return self._load(key)[0]

    def about(self, key: str) -> dict[str, Any]:
        """What was kept beside the distances of a shard."""
        return self._load(key)[1]

    def keys(self) -> Iterator[str]:
        """The keys of all shards, sorted."""
        names = (path.name.removesuffix(".parquet") for path in self.folder.glob("shards/??/*.parquet"))
        return iter(sorted(name for name in names if _KEY.fullmatch(name)))

    def set_aside(self, key: str) -> Path:
        """Rename a damaged shard to `*.corrupt`, so that it is measured anew; the new path."""
        path = self._path(key)
        aside = path.with_name(path.name + ".corrupt")
        try:
            os.replace(path, aside)
        except OSError as error:
            raise cannot_write(aside, error) from error
        return aside

    def _load(self, key: str) -> tuple[Distances, dict[str, Any]]:
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
            return decode(key, content)
        except Exception as error:  # damaged bytes fail in as many ways as a decoder has; all mean the same
            raise StoreError(
                f"The shard {path} is damaged ({_first_line(error)}). Delete it, or run the audit again, which sets "
                "it aside and measures its samples anew."
            ) from error

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise InputError(f"A shard key is 64 hexadecimal digits, made by `shard_key`; given {key!r}.")
        return self.folder / "shards" / key[:2] / f"{key}.parquet"


def _refuse_linked_shards(shards: Path) -> None:
    refuse_links([shards])
    if shards.is_dir():
        refuse_links(shards.iterdir())


def _check_free(folder: Path) -> None:
    """A run does not spread among other files: one could not tell later which are whose."""
    try:
        others = (
            sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.exists() else []
        )
    except OSError as error:
        raise StoreError(f"Cannot look into {folder}: {error.strerror or error}. Choose another --out.") from error
    if others:
        some = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise StoreError(f"{folder} holds other files ({some}) and no run. Choose a new folder for --out.")


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
            f"{label} does not say which format the run has, so this is not a run of Fairmargin's, or it is damaged. "
            "Choose another --out."
        ) from None
    if found != FORMAT:
        raise StoreError(
            f"The run in {label.parent} has format {found}; this version of Fairmargin reads format {FORMAT}. "
            "Continue it with the version that wrote it, or choose another --out to start anew."
        )


def _first_line(error: Exception) -> str:
    """What went wrong, short enough to stand in brackets."""
    text = str(error) or type(error).__name__
    return text.splitlines()[0].rstrip(".")[:120]
