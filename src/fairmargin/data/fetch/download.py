"""Download the official files of datasets: interrupted downloads continue, and checksums are verified."""

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import urlsplit

from fairmargin.core.progress import Progress
from fairmargin.data.card import Card, OfficialFile
from fairmargin.errors import InputError
from fairmargin.store.lock import check_lock
from fairmargin.version import __version__

_BLOCK = 2**20
_RESPONSE_BLOCK = 2**18
_TIMEOUT = 30.0  # seconds without receiving a byte
_ATTEMPTS = 4  # each continues where the previous one was interrupted
_LARGEST = 2**35  # maximum number of bytes if the server announces no length
_NETWORK = (urllib.error.URLError, http.client.HTTPException, OSError)


def download(card: Card, folder: Path, progress: Progress | None = None) -> tuple[Path, ...]:
    """Download the files of a dataset that have a public address, and return their paths.

    Guarantee: a file gets its final name only when it is complete and its checksum is correct; until then it is called
    `NAME.part`, and a later call continues the download. Existing files are never overwritten.

    Parameters
    ----------
    card
        The card of the dataset.
    folder
        Folder for the files; created if it does not exist.
    progress
        Called with (description, bytes so far, total bytes).
    """
    fetchable = [file for file in card.files if file.url]
    if not fetchable:
        names = ", ".join(file.name for file in card.files) or "its files"
        raise InputError(
            f"{card.title}: this dataset is only available from its authors. Get {names} from them and put them into "
            f"{folder}."
        )
    with _download_lock(folder):
        return tuple(_fetch(file, folder, progress) for file in fetchable)


@contextmanager
def _download_lock(folder: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".download.lock")
    check_lock(folder / ".download.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"Another process is downloading into {folder}. Wait until it has finished.") from None
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        yield
    finally:
        lock.release()


def _fetch(file: OfficialFile, folder: Path, progress: Progress | None) -> Path:
    if urlsplit(file.url).scheme not in ("http", "https"):
        raise InputError(f"{file.name} can only be downloaded by http or https; its address is {file.url}.")
    if PurePosixPath(file.name).is_absolute() or ".." in PurePosixPath(file.name).parts:
        raise InputError(f"The file name {file.name} points outside of the folder {folder}.")
    target = folder / file.name
    if target.exists():
        _check_present(file, target)
        if progress is not None:
            progress(f"{file.name} exists", target.stat().st_size, target.stat().st_size)
        return target
    part = target.with_name(target.name + ".part")
    resumed = part.exists()
    transfer(file.url, part, progress)
    if not _is_genuine(file, part):
        part.unlink()
        if resumed:  # the partial file may have been of another version: download again from the beginning
            transfer(file.url, part, progress)
    if not part.exists() or not _is_genuine(file, part):
        part.unlink(missing_ok=True)
        raise InputError(
            f"The file at {file.url} is not {file.name} as published: the checksum differs. It was deleted. If you "
            f"have the file from another source, put it into {folder}."
        )
    part.replace(target)
    return target


def _check_present(file: OfficialFile, target: Path) -> None:
    if not _is_genuine(file, target):
        raise InputError(
            f"{target} exists but is not the published file: the checksum differs. Move it away to download it again, "
            "or use it as it is, without downloading."
        )


def _is_genuine(file: OfficialFile, path: Path) -> bool:
    """Return whether all known checksums agree; without a known checksum, any file is accepted."""
    if not (file.md5 or file.sha256):
        return True
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            md5.update(block)
            sha256.update(block)
    return file.md5 in ("", md5.hexdigest()) and file.sha256 in ("", sha256.hexdigest())


def transfer(url: str, part: Path, progress: Progress | None = None) -> None:
    """Download `url` into the file `part`, continuing after interruptions as long as each attempt makes progress.

    Guarantee: the file never has more bytes than the server announced; received bytes stay in `part` for a later call.

    Parameters
    ----------
    url
        Address of the file, by http or https.
    part
        File for the bytes; bytes that it already has are not requested again if the server supports ranges.
    progress
        Called with (description, bytes so far, total bytes).
    """
    if part.is_symlink() or (part.exists() and part.stat().st_nlink > 1):
        part.unlink()  # a link is not a partial download; writing through it would change another file
    reason = ""
    for _ in range(_ATTEMPTS):
        before = _size(part)
        try:
            if _continue(url, part, progress):
                return
            reason = "the connection was interrupted"
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
        except _NETWORK as error:
            reason = str(getattr(error, "reason", "") or error) or type(error).__name__
        if _size(part) <= before:
            break  # no bytes were received: another attempt would not help
    name, kept = part.name.removesuffix(".part"), _size(part)
    again = f" The {kept:,} bytes received are kept: try again to continue." if kept else ""
    raise InputError(
        f"{name} could not be downloaded from {url} ({reason.rstrip('.')}).{again} Try again, or download it in "
        f"another way and put it into {part.parent}."
    )


@dataclass(frozen=True, slots=True)
class _ByteRange:
    """The positions of the bytes of a response in the file; `end` is None if the server does not announce it."""

    start: int
    end: int | None


def _continue(url: str, part: Path, progress: Progress | None) -> bool:
    """Send one request for the missing bytes; return whether the file is complete."""
    done = _size(part)
    headers = {"User-Agent": f"fairmargin/{__version__}", **({"Range": f"bytes={done}-"} if done else {})}
    try:
        response = _opener().open(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not done:
            raise
        if error.headers.get("Content-Range", "").endswith(f"/{done}"):
            return True  # the file was complete already
        return _restart(url, part, progress)
    with response:
        byte_range = _byte_range(response, done)
        if byte_range.start > done:
            return _restart(url, part, progress)
        with _open(part, byte_range.start) as stream:
            return _copy(response, stream, byte_range, f"Downloading {part.name.removesuffix('.part')}", progress)


def _restart(url: str, part: Path, progress: Progress | None) -> bool:
    part.unlink()
    return _continue(url, part, progress)


def _byte_range(response: http.client.HTTPResponse, offset: int) -> _ByteRange:
    length = response.headers.get("Content-Length", "")
    announced = int(length) if length.isdecimal() else None
    if response.status != http.client.PARTIAL_CONTENT:
        return _ByteRange(0, announced)  # a server without support for ranges sends the whole file
    span = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")[0].partition("-")
    start = int(span[0]) if span[0].isdecimal() else offset
    return _ByteRange(start, None if announced is None else start + announced)


def _copy(
    response: http.client.HTTPResponse, stream: BinaryIO, byte_range: _ByteRange, what: str, progress: Progress | None
) -> bool:
    """Write the response to the file; return whether all announced bytes were received."""
    done, limit = byte_range.start, _LARGEST if byte_range.end is None else byte_range.end
    while done < limit:
        block = response.read(min(_RESPONSE_BLOCK, limit - done))
        if not block:
            break
        _write(stream, block)
        done += len(block)
        if progress is not None:
            progress(what, done, done if byte_range.end is None else byte_range.end)
    return byte_range.end is None or done == byte_range.end


def _opener() -> urllib.request.OpenerDirector:
    """Create an opener for http and https, with the proxies of the environment; redirections to other schemes fail."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _open(part: Path, start: int) -> BinaryIO:
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        stream = part.open("r+b" if part.exists() else "wb")
        stream.seek(start)
        stream.truncate()
    except OSError as error:
        raise cannot_write(part, error) from error
    return stream


def _write(stream: BinaryIO, block: bytes) -> None:
    try:
        stream.write(block)
        stream.flush()
    except OSError as error:
        raise cannot_write(Path(stream.name), error) from error


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error for a file or folder that cannot be written."""
    return InputError(
        f"{path} cannot be written ({error.strerror or error}). Choose another folder, or free disk space."
    )


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
