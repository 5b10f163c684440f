"""Tables of what the Python API refuses, one file per package; `tests/spec/test_every_refusal.py` checks every row."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fairmargin.errors import FairmarginError, InputError


@dataclass(frozen=True)
class Refusal:
    """A call that must raise an error.

    Parameters
    ----------
    call
        The call. It is given an empty folder, in which it may write the files that it needs.
    words
        Part of the message; several parts are separated by "; ".
    field
        Name of the invalid parameter that the error carries; empty if the message is about no single parameter.
    error
        Class of the error, exactly.
    """

    call: Callable[[Path], object]
    words: str
    field: str = ""
    error: type[FairmarginError] = InputError
