"""Paths that a caller gives."""

import errno
import os
from pathlib import Path
from typing import Any

from fairmargin.errors import InputError


def as_path(given: Any, field: str) -> Path:
    r"""Return a path given as a text or a `Path`; refuse other values, and names that no file can have.

    >>> as_path("a\0b", "out")
    Traceback (most recent call last):
    ...
    fairmargin.errors.InputError: `out` must be a path without null characters; given 'a\x00b'.
    """
    if not isinstance(given, str | os.PathLike):
        raise InputError("must be a path, as a text or a Path", field=field, given=given)
    try:
        os.lstat(given)
    except ValueError:
        raise InputError("must be a path without null characters", field=field, given=str(given)) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError("is too long for the name of a file. Choose a shorter one", field=field) from None
    return Path(given)
