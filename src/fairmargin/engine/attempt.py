"""Calls whose failure is a value, so that one failing task does not end the others."""

import pickle
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairmargin.engine.shared import call
from fairmargin.errors import FairmarginError, exits_refused


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of a call, or the reason why there is none.

    Parameters
    ----------
    result
        What the call returned; None if it failed.
    failure
        Why it failed, in a sentence; empty if it did not.
    trace
        Where an unexpected error arose.
    seconds
        Duration of the call.
    """

    result: Any = None
    failure: str = ""
    trace: str = ""
    seconds: float = 0.0


def attempted(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Attempt:
    """Call a function and catch what it raises.

    >>> attempted(abs, (-1,)).result, attempted(abs, ("x",)).failure
    (1, "TypeError: bad operand type for abs(): 'str'")
    """
    began = time.perf_counter()
    try:
        with exits_refused():
            result = call(function, arguments)
    except Exception as error:
        failure, trace = described(error)
        return Attempt(None, failure, trace, time.perf_counter() - began)
    return Attempt(result, seconds=time.perf_counter() - began)


def described(error: Exception) -> tuple[str, str]:
    """Return an error as a sentence, and where it arose unless it is one of the user's input."""
    if isinstance(error, FairmarginError):
        return str(error), ""
    said = (str(error) or "no message").strip().splitlines()[0]
    return f"{type(error).__name__}: {said}", "".join(traceback.format_exception(error))


def sendable(error: Exception) -> Exception:
    """Return the exception, or an error that says the same if another process could not receive it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # exceptions of the user's code can hold anything
        return FairmarginError(described(error)[0])
    return error
