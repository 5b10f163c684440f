"""Write files atomically, so that a file is never left incomplete, and explain why a file could not be written."""

import errno
import os
import secrets
import stat
from pathlib import Path

from fairmargin.errors import StoreError

TEMPORARY = ".tmp"  # suffix of files that are being written; those left by a killed process can be deleted

_STREAMS = ("/dev", "/dev/fd", "/proc/self/fd")  # entries such as /dev/stdout cannot be replaced by renaming a file

_REASONS = {
    errno.EACCES: "permission denied. Choose another place, or change the permissions",
    errno.EPERM: "permission denied. Choose another place, or change the permissions",
    errno.EROFS: "the file system is read-only. Choose another place",
    errno.ENOSPC: "no space is left on the device. Free some, or choose another place; existing files are unchanged",
    errno.EDQUOT: "the disk quota is used up. Free some space, or choose another place; existing files are unchanged",
    errno.EISDIR: "it is a folder. Give the name of a file",
    errno.ENOTDIR: "a part of this path is a file, not a folder. Check the path",
    errno.EEXIST: "a file of that name exists. Choose another place",
    errno.ENOENT: "its folder does not exist. Create it, or check the path",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
}


def cannot_write(path: Path, error: OSError) -> StoreError:
    """Return an error that states why a file could not be written and what to do.

    >>> str(cannot_write(Path("report.html"), OSError(errno.EISDIR, "")))
    'Cannot write report.html: it is a folder. Give the name of a file.'
    """
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error) or "the operating system refused")
    return StoreError(f"Cannot write {path}: {reason}.")


def atomic_write_text(path: Path | str, text: str) -> None:
    """Write a text file (UTF-8) atomically. An existing file of that name is replaced when the new one is complete."""
    atomic_write_bytes(Path(path), text.encode("utf-8"))


def atomic_write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically: write a temporary file in the same folder, flush it to disk, and rename it.

    Guarantee: no link is followed. A symbolic or hard link of that name is replaced, and its target is not changed.
    """
    try:
        if os.path.dirname(os.path.abspath(path)) in _STREAMS:
            path.write_bytes(content)
            return
        _check_replaceable(path)
        _write_and_rename(path, content)
    except OSError as error:
        raise cannot_write(path, error) from error


def _check_replaceable(path: Path) -> None:
    """Raise an error if the path is a folder, a pipe, a socket or a device, which must not be replaced by a file."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise StoreError(
            f"Cannot write {path}: it is a pipe, a socket or a device, not a file. Remove it, or choose another name."
        )


def _write_and_rename(path: Path, content: bytes) -> None:
    # The random part separates two writers of the same file, and cannot be guessed by another user of the folder.
    # Mode "x" refuses an existing name, including a link.
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}-{secrets.token_hex(8)}{TEMPORARY}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a renaming survives a power failure, on systems that support it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
