"""Cache of decoded datasets: arrays on disk that are memory-mapped, so that they load quickly."""

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
_CONTENTS = "contents.json"  # the file size of every array; written last
Arrays = dict[str, npt.NDArray[Any]]
Build = Callable[["CacheWriter"], None]


@dataclass(frozen=True, slots=True)
class CacheWriter:
    """Writes the arrays of a dataset to a folder; other processes see them only when all are complete."""

    folder: Path

    def allocate(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Create an array on disk that the caller fills piece by piece."""
        path = self.folder / f"{name}.npy"
        array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=np.dtype(dtype), shape=shape)
        if hasattr(os, "posix_fallocate"):  # otherwise a full disk would kill the process at a later write
            with path.open("r+b") as stream:
                os.posix_fallocate(stream.fileno(), 0, path.stat().st_size)
        return array

    def keep(self, name: str, array: npt.ArrayLike) -> None:
        """Save a complete array of numbers or text; arrays of objects are refused."""
        np.save(self.folder / f"{name}.npy", np.asarray(array), allow_pickle=False)


def cache_folder() -> Path:
    """Return the folder of the cache: `FAIRMARGIN_CACHE` if set, else the user's cache folder."""
    from platformdirs import user_cache_path

    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else user_cache_path("fairmargin", appauthor=False)


def cached(dataset: str, key: Mapping[str, Any], build: Build) -> Arrays:
    """Return the memory-mapped arrays that `build` writes, building them only if they are not in the cache.

    Guarantee: the arrays returned are complete. A build that fails or is killed leaves nothing that could be mistaken
    for a result, and the next build removes its files. If several processes need the same arrays, one builds them and
    the others wait. Truncated or deleted arrays are built again. If the folder cannot be written, the arrays are built
    in a temporary folder, which is removed when the process ends.

    Parameters
    ----------
    dataset
        Name of the subfolder, so that users can find and delete it.
    key
        Everything that determines the content: checksum of the source, image size, revision of the loader.
    build
        Function that writes the arrays; called at most once.

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
    with _build_lock(target) as locked:
        if not locked:
            return _build_in_temporary_folder(build)
        arrays = _complete(target)  # another process may have built it while this one waited
        if arrays is None:
            _build_in_place(target, build)
            arrays = _complete(target)
    if arrays is None:
        raise InputError(
            f"The decoded data in {target} were damaged right after they were written. Check the disk, or set "
            f"{FOLDER_VARIABLE} to a folder on another disk."
        )
    return arrays


def _complete(folder: Path) -> Arrays | None:
    """Return the arrays in a folder, or None if any array is missing or incomplete."""
    try:
        sizes: dict[str, int] = json.loads((folder / _CONTENTS).read_text(encoding="utf-8"))
        if any((folder / name).stat().st_size != size for name, size in sizes.items()):
            return None
        return {Path(name).stem: np.load(folder / name, mmap_mode="r", allow_pickle=False) for name in sizes}
    except (OSError, ValueError, EOFError, AttributeError):
        return None


@contextmanager
def _build_lock(target: Path) -> Iterator[bool]:
    """Hold the lock of a folder while it is built; yield False if the folder cannot be written."""
    from filelock import FileLock

    lock = FileLock(target.parent / f".{target.name}.lock")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError):  # e.g. a read-only home: loading still works, but without a cache
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _build_in_place(target: Path, build: Build) -> None:
    # This process holds the lock, so no other process is working on the incomplete folders.
    for remains in (*target.parent.glob(f".{target.name}.half-*"), target):
        shutil.rmtree(remains, ignore_errors=True)
    half = Path(tempfile.mkdtemp(prefix=f".{target.name}.half-", dir=target.parent))
    _fill(half, build)
    half.rename(target)


def _build_in_temporary_folder(build: Build) -> Arrays:
    folder = Path(tempfile.mkdtemp(prefix="fairmargin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _fill(folder, build)
    arrays = _complete(folder)
    if arrays is None:
        raise InputError(f"The decoded data cannot be kept in {folder}. Set {FOLDER_VARIABLE} to another folder.")
    return arrays


def _fill(folder: Path, build: Build) -> None:
    """Build the arrays in a folder; remove the folder if the build fails."""
    try:
        build(CacheWriter(folder))
        paths = sorted(folder.glob("*.npy"))
        for path in paths:
            with path.open("rb") as stream:
                os.fsync(stream.fileno())  # otherwise a power failure could leave zeros in arrays listed as complete
        sizes = {path.name: path.stat().st_size for path in paths}
        (folder / _CONTENTS).write_text(json.dumps(sizes), encoding="utf-8")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(
            f"The decoded data cannot be kept in {folder.parent} ({error.strerror or error}). Free disk space, or set "
            f"{FOLDER_VARIABLE} to a folder on a disk with free space."
        ) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
