"""Read files of a folder that may come from an untrusted source: regular files only, and no links."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from fairmargin.errors import StoreError

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_plain(path: Path) -> bytes:
    """Read a regular file of a run folder. Refuse links, and refuse pipes and devices, which could block forever.

    Raises `FileNotFoundError` and other errors of the operating system unchanged.
    """
    refuse_links([path])
    with open(os.open(path, _FLAGS), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise StoreError(
                f"{path} is not a regular file. Delete it, and run the command that wrote the folder again."
            )
        return file.read()


def refuse_links(paths: Iterable[Path]) -> None:
    """Raise a `StoreError` if a file or folder inside a run folder is a symbolic link.

    >>> refuse_links([Path("no such file")])
    """
    for path in paths:
        if path.is_symlink():
            raise StoreError(
                f"{path} is a symbolic link. Links inside a run folder are not followed, because they could point to "
                "any file on this computer. Replace the link by the file or folder itself, or delete it."
            )


def files_below(root: Path) -> Iterator[Path]:
    """Yield every file below `root`, including links to files. Links to folders are not followed."""
    for parent, _, names in os.walk(root):
        yield from (Path(parent) / name for name in names)


def folders_below(root: Path) -> Iterator[Path]:
    """Yield every folder below `root`, including links to folders, which are not followed."""
    for parent, names, _ in os.walk(root):
        yield from (Path(parent) / name for name in names)
