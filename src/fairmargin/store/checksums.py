"""Checksums of the results and tables in a run folder, which detect files that were changed after they were written.

They detect damage and accidental edits. They do not authenticate a file, because anyone can also edit its checksum.
"""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from fairmargin.core.keys import content_hash
from fairmargin.errors import StoreError
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.plain_files import read_plain

CHECKSUMS = "checksums.json"
_AGAIN = "Run the same command again with this folder; measured distances are reused"


def seal(folder: Path, names: Iterable[str]) -> None:
    """Store the checksums of the named files that exist. The checksums of other files do not change."""
    try:
        known = _known(folder) or {}
    except StoreError:
        known = {}  # damaged, so the checksums of other files are unreliable too
    for name in names:
        found = _checksum(folder / name)
        if found is None:
            known.pop(name, None)
        else:
            known[name] = found
    atomic_write_text(folder / CHECKSUMS, json.dumps(known, indent=1, sort_keys=True) + "\n")


def check_seal(folder: Path, names: Iterable[str], *, later: Sequence[str] = ()) -> None:
    """Raise a `StoreError` if a file was changed, added or deleted after `seal`.

    Parameters
    ----------
    folder
        Path of the run folder.
    names
        Names of the files.
    later
        Names of further files, which older versions did not seal. If none of them has a checksum, they are not checked.
    """
    known = _known(folder)
    if known is None:
        raise StoreError(
            f"{folder} has no {CHECKSUMS}, so its results cannot be checked: an older version wrote the folder, or the "
            f"run did not finish. {_AGAIN}."
        )
    sealed_too = later if any(name in known for name in later) else ()
    for name in (*names, *sealed_too):
        found, kept = _checksum(folder / name), known.get(name)
        if found == kept:
            continue
        what = "is missing" if found is None else "was added" if kept is None else "does not match its checksum"
        raise StoreError(f"{folder / name} {what}: it was edited or damaged, or the last run did not finish. {_AGAIN}.")


def stamped(text: str) -> str:
    """Return a JSON text that contains the given JSON text and its checksum; `unstamped` is the inverse.

    >>> unstamped(stamped('{"a": 1}'))
    '{"a": 1}'
    """
    content = json.loads(text)
    return json.dumps({"checksum": content_hash(content), "content": content}, ensure_ascii=False)


def unstamped(text: str) -> str:
    """Return the JSON text that was given to `stamped`; raise a ValueError if it does not match the checksum."""
    try:
        kept = json.loads(text)
        checksum, content = kept["checksum"], kept["content"]
    except (KeyError, TypeError):
        raise ValueError("it has no checksum") from None
    if checksum != content_hash(content):
        raise ValueError("it does not match its checksum")
    return json.dumps(content, ensure_ascii=False)


def _checksum(path: Path) -> str | None:
    try:
        return sha256(read_plain(path)).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror or error}.") from error


def _known(folder: Path) -> dict[str, str] | None:
    try:
        content = json.loads(read_plain(folder / CHECKSUMS))
    except FileNotFoundError:
        return None
    except StoreError:
        raise
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise StoreError(f"{folder / CHECKSUMS} is damaged. {_AGAIN}.")
    return content
