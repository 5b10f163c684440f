"""Decoded datasets on disk, memory-mapped: the second load takes no time and no memory."""

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.keys import content_hash
from fairmargin.errors import InputError

FOLDER_VARIABLE = "FAIRMARGIN_CACHE"
_CONTENTS = "contents.json"  # the size of every array; written last
Arrays = dict[str, npt.NDArray[Any]]
Build = Callable[["CacheWriter"], None]


@dataclass(frozen=True, slots=True)
class CacheWriter:
    """Where a loader puts its arrays; they become visible to others only when all of them are complete."""

    folder: Path

    def allocate(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array on disk to be filled in piece by piece."""
        path = self.folder / f"{name}.npy"
        array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)
        if hasattr(os, "posix_fallocate"):  # else a full disk would kill the process at some later write
            with path.open("r+b") as stream:
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
        return array

    def keep(self, name: str, array: npt.ArrayLike) -> None:
        """A whole array at once; numbers or text, no objects."""
        np.save(self.folder / f"{name}.npy", np.asarray(array), allow_pickle=False)


def cache_folder() -> Path:
    """`FAIRMARGIN_CACHE` if set, else the user's cache folder."""
    from platformdirs import user_cache_path

    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else user_cache_path("fairmargin", appauthor=False)


def cached(dataset: str, key: Mapping[str, Any], build: Build) -> Arrays:
    """The arrays that `build` writes, memory-mapped; built only if they are not there yet.

    Guarantee: whoever reads sees all arrays complete, or builds them itself; a build that fails or is killed leaves
    nothing that could be mistaken for a result, and the next one clears its remains away. Of several processes that
    ask at once, one builds and the others wait for it. Arrays that were cut short or deleted are built anew. Where the
    folder cannot be written, the arrays are built in a temporary one, which goes when the process ends.

    Parameters
    ----------
    dataset
        Names the subfolder, so that a person can find and delete it.
    key
        Everything that decides the content: checksum of the source, size, revision of the loader.
    build
        Writes the arrays; called at most once.

    >>> import tempfile
    >>> os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp()
    >>> arrays = cached("numbers", {"source": "abc"}, lambda writer: writer.keep("x", [1, 2, 3]))
    >>> arrays["x"].tolist()
    [1, 2, 3]
    >>> del os.environ[FOLDER_VARIABLE]
    """
    name = content_hash(dict(key))[:24]
    target = cache_folder() / dataset / name
    arrays = _complete(target)
    if arrays is not None:
        return arrays
    with _sole_builder(target) as able:
        if not able:
            return _built_elsewhere(build)
        arrays = _complete(target)  # perhaps someone else built it while we waited
        if arrays is None:
            _build_in_place(target, build)
            arrays = _complete(target)
    if arrays is None:
        raise InputError(
            f"The decoded data in {target} are damaged right after they were written. Is the disk sound? Set "
            f"{FOLDER_VARIABLE} to a folder on another."
        )
    return arrays


def _complete(folder: Path) -> Arrays | None:
    """The arrays of a folder, or None unless every one is there and whole."""
    try:
        sizes: dict[str, int] = json.loads((folder / _CONTENTS).read_text(encoding="utf-8"))
        if any((folder / name).stat().st_size != size for name, size in sizes.items()):
            return None
        return {Path(name).stem: np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in sizes}
    except (OSError, ValueError, EOFError, AttributeError):
        return None


@contextmanager
def _sole_builder(target: Path) -> Iterator[bool]:
    """Hold the lock of a folder to be built; False where nothing can be written."""
    from filelock import FileLock

    lock = FileLock(target.parent / f".{target.name}.lock")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError):  # a read-only home, say: works all the same, only not faster the next time
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _build_in_place(target: Path, build: Build) -> None:
    # We hold the lock: what half-built folders there are, nobody is at work on.
    for remains in (*target.parent.glob(f".{target.name}.half-*"), target):
        shutil.rmtree(remains, ignore_errors=True)
    half = Path(tempfile.mkdtemp(prefix=f".{target.name}.half-", dir=target.parent))
    _fill(half, build)
    half.rename(target)


def _built_elsewhere(build: Build) -> Arrays:
    folder = Path(tempfile.mkdtemp(prefix="fairmargin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _fill(folder, build)
    arrays = _complete(folder)
    if arrays is None:
        raise InputError(f"The decoded data cannot be kept in {folder}. Set {FOLDER_VARIABLE} to a folder that can.")
    return arrays


def _fill(folder: Path, build: Build) -> None:
    """Build into a folder; whole, or the folder is gone."""
    try:
        build(CacheWriter(folder))
        paths = sorted(folder.glob("*.npy"))
        for path in paths:
            with path.open("rb") as stream:
                os.fsync(stream.fileno())  # a power cut must not leave zeros where the list of contents says pixels
        sizes = {path.name: path.stat().st_size for path in paths}
        (folder / _CONTENTS).write_text(json.dumps(sizes), encoding="utf-8")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(
            f"The decoded data cannot be kept in {folder.parent} ({error.strerror or error}). Free some space, or set "
            f"{FOLDER_VARIABLE} to a folder that has some."
        ) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
