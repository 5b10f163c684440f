"""Official files fetched from their makers: resumed where they stopped, checked before they count."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from fairmargin.core.progress import Progress
from fairmargin.data.card import Card, OfficialFile
from fairmargin.data.transfer import cannot_write, transfer
from fairmargin.errors import InputError
from fairmargin.store.lock import check_lock

_BLOCK = 2**20


def download(card: Card, folder: Path, progress: Progress | None = None) -> tuple[Path, ...]:
    """Fetch the files of a dataset that have an address into `folder`, and return where they are.

    Guarantee: a file bears its name only when it is complete and its checksum is right; until then it is called
    `NAME.part`, from which a later call goes on. A file that is there already is never overwritten.

    Parameters
    ----------
    card
        Of the dataset.
    folder
        Made if it is not there.
    progress
        Called with (what, bytes so far, bytes in all).
    """
    fetchable = [file for file in card.files if file.url]
    if not fetchable:
        names = ", ".join(file.name for file in card.files) or "its files"
        raise InputError(
            f"{card.title}: it cannot be fetched without asking its makers. Get {names} from them and put them into "
            f"{folder}."
        )
    with _sole_downloader(folder):
        return tuple(_fetched(file, folder, progress) for file in fetchable)


@contextmanager
def _sole_downloader(folder: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".download.lock")
    check_lock(folder / ".download.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"Another process is downloading into {folder}. Wait for it.") from None
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        yield
    finally:
        lock.release()


def _fetched(file: OfficialFile, folder: Path, progress: Progress | None) -> Path:
    if urlsplit(file.url).scheme not in ("http", "https"):
        raise InputError(f"{file.name} can only be fetched by http or https; its address is {file.url}.")
    if PurePosixPath(file.name).is_absolute() or ".." in PurePosixPath(file.name).parts:
        raise InputError(f"{file.name} is no name inside the folder {folder}.")
    target = folder / file.name
    if target.exists():
        _check_present(file, target)
        if progress is not None:
            progress(f"{file.name} is there", target.stat().st_size, target.stat().st_size)
        return target
    part = target.with_name(target.name + ".part")
    resumed = part.exists()
    transfer(file.url, part, progress)
    if not _is_genuine(file, part):
        part.unlink()
        if resumed:  # the old piece may have been of another file: once more, from the beginning
            transfer(file.url, part, progress)
    if not part.exists() or not _is_genuine(file, part):
        part.unlink(missing_ok=True)
        raise InputError(
            f"What {file.url} sends is not {file.name} as published: the checksum differs. It was not kept. If you "
            f"have the file from elsewhere, put it into {folder}."
        )
    part.replace(target)
    return target


def _check_present(file: OfficialFile, target: Path) -> None:
    if not _is_genuine(file, target):
        raise InputError(
            f"{target} is there but is not the published file: the checksum differs. Move it away to fetch it again, "
            "or use it as it is, without downloading."
        )


def _is_genuine(file: OfficialFile, path: Path) -> bool:
    """Whether every known checksum agrees; a file of which none is known is taken as it comes."""
    if not (file.md5 or file.sha256):
        return True
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            md5.update(block)
            sha256.update(block)
    return file.md5 in ("", md5.hexdigest()) and file.sha256 in ("", sha256.hexdigest())
