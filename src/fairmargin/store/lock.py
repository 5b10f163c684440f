"""One writer at a time."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fairmargin.errors import StoreError
from fairmargin.store.atomic import atomic_write_text, cannot_write
from fairmargin.store.received import read_plain, refuse_links


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, or say at once who holds it.

    The operating system frees the lock when its holder ends, however it ends: nothing stale is left to clean up.
    """
    lock, holder = FileLock(folder / ".lock"), folder / ".writer.json"
    check_lock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreError(
            f"Another process{_who(holder)} is writing to the run in {folder}; wait for it, or choose another --out."
        ) from None
    except OSError as error:
        raise cannot_write(folder / ".lock", error) from error
    try:
        # Only for the sentence above: the lock itself is what excludes.
        atomic_write_text(holder, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        yield
    finally:
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def check_lock(path: Path) -> None:
    """Refuse a lock that is another file by a link: opening it may truncate it or change its mode."""
    refuse_links([path])
    if path.exists() and not (path.is_file() and path.stat().st_size == 0):
        raise StoreError(f"{path} is not an empty file, so that it is no lock of Fairmargin's. Delete it.")


def _who(holder: Path) -> str:
    try:
        known = json.loads(read_plain(holder))
        return f" (pid {known['pid']}, host {known['host']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # it has the lock but has not yet written its name
