"""Writing a file so that it is there whole or not at all, and saying in a sentence why it could not be written."""

import errno
import os
import secrets
import stat
from pathlib import Path

from fairmargin.errors import StoreError

TEMPORARY = ".tmp"  # the ending of files amid being written; whoever finds one later may ignore it

_STREAMS = ("/dev", "/dev/fd", "/proc/self/fd")  # what lies there, such as /dev/stdout, cannot be renamed over

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
    """Write a file whole or not at all: to a temporary name beside it, flushed to disk, then renamed over it.

    Guarantee: no link is followed. A symbolic or hard link of that name is replaced; what it points to stays as it is.
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
    """Refuse a folder, and a pipe or device, which nobody expects to be replaced by a file."""
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
    # The random part keeps two writers of one name apart, and cannot be guessed by whoever made the folder. Mode "x"
    # refuses a name that exists, be it a link.
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
    """Make the renaming itself survive a power cut, where the system lets one flush a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
