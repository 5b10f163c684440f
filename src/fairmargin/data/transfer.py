"""A file fetched by http, going on where it was cut off."""

import http.client
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fairmargin.core.progress import Progress
from fairmargin.errors import InputError
from fairmargin.version import __version__

_BLOCK = 2**18
_TIMEOUT = 30.0  # seconds without a byte
_ATTEMPTS = 4  # each goes on where the last was cut off
_LARGEST = 2**35  # where the server announces no length
_NETWORK = (urllib.error.URLError, http.client.HTTPException, OSError)


def transfer(url: str, part: Path, progress: Progress | None = None) -> None:
    """Fetch `url` into `part` until all bytes are there, going on after each interruption that brought some.

    Guarantee: never more bytes than the server announced; what came stays in `part` for a later call.

    Parameters
    ----------
    url
        Of http or https.
    part
        Where the bytes go; those it holds already are not asked for again, if the server can send ranges.
    progress
        Called with (what, bytes so far, bytes in all).
    """
    if part.is_symlink() or (part.exists() and part.stat().st_nlink > 1):
        part.unlink()  # a link is no download that was cut off, and another file must not be written through it
    reason = ""
    for _ in range(_ATTEMPTS):
        before = _size(part)
        try:
            if _went_on(url, part, progress):
                return
            reason = "the connection was cut"
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
        except _NETWORK as error:
            reason = str(getattr(error, "reason", "") or error) or type(error).__name__
        if _size(part) <= before:
            break  # nothing came: another attempt would not help
    name, kept = part.name.removesuffix(".part"), _size(part)
    again = f" The {kept:,} bytes that came are kept: try again to go on." if kept else ""
    raise InputError(
        f"{name} could not be fetched from {url} ({reason.rstrip('.')}).{again} Try again, or fetch it in another "
        f"way and put it into {part.parent}."
    )


@dataclass(frozen=True, slots=True)
class _Answer:
    """Where the bytes of an answer belong: from `start` on, up to `end` (None if the server does not say)."""

    start: int
    end: int | None


def _went_on(url: str, part: Path, progress: Progress | None) -> bool:
    """One request; whether the file is now as long as the server announced."""
    done = _size(part)
    headers = {"User-Agent": f"fairmargin/{__version__}", **({"Range": f"bytes={done}-"} if done else {})}
    try:
        response = _opener().open(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE or not done:
            raise
        if error.headers.get("Content-Range", "").endswith(f"/{done}"):
            return True  # all of it was there already
        return _restarted(url, part, progress)
    with response:
        answer = _answer(response, done)
        if answer.start > done:
            return _restarted(url, part, progress)
        with _open(part, answer.start) as stream:
            return _poured(response, stream, answer, f"Fetching {part.name.removesuffix('.part')}", progress)


def _restarted(url: str, part: Path, progress: Progress | None) -> bool:
    part.unlink()
    return _went_on(url, part, progress)


def _answer(response: http.client.HTTPResponse, asked: int) -> _Answer:
    length = response.headers.get("Content-Length", "")
    announced = int(length) if length.isdecimal() else None
    if response.status != http.client.PARTIAL_CONTENT:
        return _Answer(0, announced)  # a server that knows no ranges sends all
    span = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")[0].partition("-")
    start = int(span[0]) if span[0].isdecimal() else asked
    return _Answer(start, None if announced is None else start + announced)


def _poured(
    response: http.client.HTTPResponse, stream: BinaryIO, answer: _Answer, what: str, progress: Progress | None
) -> bool:
    done, limit = answer.start, _LARGEST if answer.end is None else answer.end
    while done < limit:
        block = response.read(min(_BLOCK, limit - done))
        if not block:
            break
        _write(stream, block)
        done += len(block)
        if progress is not None:
            progress(what, done, done if answer.end is None else answer.end)
    return answer.end is None or done == answer.end


def _opener() -> urllib.request.OpenerDirector:
    """Speaks http and https (also through the proxies of the environment), follows redirections to these only."""
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
    """A sentence for a folder that takes no files."""
    return InputError(
        f"{path} cannot be written ({error.strerror or error}). Choose another folder, or free some space."
    )


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
