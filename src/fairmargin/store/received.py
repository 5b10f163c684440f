"""Read a folder that somebody else may have sent: only plain files in plain folders, never through a link."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from fairmargin.errors import StoreError

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_plain(path: Path) -> bytes:
    """Read a file of a run folder. Refuse links, and pipes or devices, which could be waited for forever.

    Raises `FileNotFoundError` and other errors of the operating system as they are.
    """
    refuse_links([path])
    with open(os.open(path, _FLAGS), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise StoreError(f"{path} is not a plain file. Delete it, and run the command that wrote the folder again.")
        return file.read()


def refuse_links(paths: Iterable[Path]) -> None:
    """Refuse files or folders inside a run folder that are symbolic links.

    >>> refuse_links([Path("no such file")])
    """
    for path in paths:
        if path.is_symlink():
            raise StoreError(
                f"{path} is a symbolic link. Inside a run folder links are not followed, since they could point to any "
                "file of this computer. Put the file or folder itself there, or delete the link."
            )


def files_below(root: Path) -> Iterator[Path]:
    """Yield every file below `root`, links to files included; links to folders are not descended into."""
    for parent, _, names in os.walk(root):
        yield from (Path(parent) / name for name in names)


def folders_below(root: Path) -> Iterator[Path]:
    """Yield every folder below `root`, links to folders included; links are not descended into."""
    for parent, names, _ in os.walk(root):
        yield from (Path(parent) / name for name in names)
