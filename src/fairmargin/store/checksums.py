"""Checksums of the results in a run folder, which show whether a file is still what was written.

They detect damage and edits by accident. They are no signature: whoever edits a file can also edit its checksum.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from fairmargin.core.keys import content_hash
from fairmargin.errors import StoreError
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.received import read_plain

CHECKSUMS = "checksums.json"
_AGAIN = "Run the same command again into this folder, which keeps what was measured"


def seal(folder: Path, names: Iterable[str]) -> None:
    """Keep the checksums of these files, as far as they exist. The checksums of other files stay as they are."""
    try:
        known = _known(folder) or {}
    except StoreError:
        known = {}  # damaged: whatever it said of other files cannot be relied on
    for name in names:
        found = _checksum(folder / name)
        if found is None:
            known.pop(name, None)
        else:
            known[name] = found
    atomic_write_text(folder / CHECKSUMS, json.dumps(known, indent=1, sort_keys=True) + "\n")


def check_seal(folder: Path, names: Iterable[str]) -> None:
    """Refuse files that are not what was written: changed, added or deleted since `seal`."""
    known = _known(folder)
    if known is None:
        raise StoreError(
            f"{folder} has no {CHECKSUMS}, so that its results cannot be checked: an older version wrote it, or it did "
            f"not finish. {_AGAIN}."
        )
    for name in names:
        found, kept = _checksum(folder / name), known.get(name)
        if found == kept:
            continue
        what = "is missing" if found is None else "was added" if kept is None else "does not match its checksum"
        raise StoreError(f"{folder / name} {what}: it was edited or damaged, or the last run did not finish. {_AGAIN}.")


def stamped(text: str) -> str:
    """A JSON text together with its checksum; `unstamped` gives it back.

    >>> unstamped(stamped('{"a": 1}'))
    '{"a": 1}'
    """
    content = json.loads(text)
    return json.dumps({"checksum": _of(content), "content": content}, ensure_ascii=False)


def unstamped(text: str) -> str:
    """The JSON text that `stamped` was given; a ValueError if it is not that any more."""
    try:
        kept = json.loads(text)
        checksum, content = kept["checksum"], kept["content"]
    except (KeyError, TypeError):
        raise ValueError("it has no checksum") from None
    if checksum != _of(content):
        raise ValueError("it does not match its checksum")
    return json.dumps(content, ensure_ascii=False)


def _of(content: Any) -> str:
    return content_hash(content)


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
