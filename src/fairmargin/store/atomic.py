"""Writing a file so that it is there whole or not at all, and saying in a sentence why it could not be written."""

import errno
import os
import secrets
from pathlib import Path

from fairmargin.errors import StoreError

TEMPORARY = ".tmp"  # the ending of files amid being written; whoever finds one later may ignore it

_REASONS = {
    errno.EACCES: "this user may not write there. Choose another place, or ask for the right to write",
    errno.EPERM: "this user may not write there. Choose another place, or ask for the right to write",
    errno.EROFS: "the file system is read-only. Choose another place",
    errno.ENOSPC: "no space is left on the device. Free some, or choose another place; what was there is unharmed",
    errno.EDQUOT: "the disk quota is used up. Free some space, or choose another place; what was there is unharmed",
    errno.EISDIR: "it is a folder. Give the name of a file",
    errno.ENOTDIR: "a part of this path is a file, not a folder. Check the path",
    errno.EEXIST: "a file of that name is in the way. Choose another place",
    errno.ENOENT: "its folder does not exist. Create it, or check the path",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter one",
}


def cannot_write(path: Path, error: OSError) -> StoreError:
    """The sentence for a failed write.

    >>> str(cannot_write(Path("report.html"), OSError(errno.EISDIR, "")))
    'Cannot write report.html: it is a folder. Give the name of a file.'
    """
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error) or "the operating system refused")
    return StoreError(f"Cannot write {path}: {reason}.")


def atomic_write_text(path: Path | str, text: str) -> None:
    """Write a text file (UTF-8) whole or not at all; an older file of that name stays until the new one is complete."""
    atomic_write_bytes(Path(path), text.encode("utf-8"))


def atomic_write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: to a temporary name beside it, flushed to disk, then renamed over it."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():
            path.write_bytes(content)  # a pipe or /dev/stdout: nothing to rename over
            return
        _write_and_rename(path.resolve(), content)  # resolved, so that a link stays a link
    except OSError as error:
        raise cannot_write(path, error) from error


def _write_and_rename(path: Path, content: bytes) -> None:
    # The random part lets two writers of one name not disturb each other; the last to finish wins.
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")
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
    """Make the renaming itself survive a power cut, where the system lets one flush a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
