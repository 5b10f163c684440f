"""Lock of a run folder, which allows one writing process at a time."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fairmargin.errors import StoreError
from fairmargin.store.atomic import atomic_write_text, cannot_write
from fairmargin.store.plain_files import read_plain, refuse_links


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; if another process holds it, raise an error that names that process.

    The operating system releases the lock when the process ends for any reason, so a stale lock cannot remain.
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
        # The content of this file is used in the error message above only.
        atomic_write_text(holder, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        yield
    finally:
        with suppress(OSError):
            holder.unlink(missing_ok=True)
        lock.release()


def check_lock(path: Path) -> None:
    """Raise an error if the lock is a link or not empty, because opening it could truncate another file."""
    refuse_links([path])
    if path.exists() and not (path.is_file() and path.stat().st_size == 0):
        raise StoreError(f"{path} is not an empty file, so Fairmargin did not create it as a lock. Delete it.")


def _who(holder: Path) -> str:
    try:
        known = json.loads(read_plain(holder))
        return f" (pid {known['pid']}, host {known['host']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # the process has not yet written the file
