"""Results as JSON texts: written with their format, read back or refused in a sentence."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fairmargin.errors import InputError

_Result = TypeVar("_Result")


def written(content: Mapping[str, Any], version: int) -> str:
    """The text from which `read` makes the same content again.

    >>> written({"size": 3}, 1)
    '{"format": 1, "size": 3}'
    """
    return json.dumps({"format": version, **content}, ensure_ascii=False, allow_nan=False)


def read(
    text: str, decode: Callable[[dict[str, Any]], _Result], *, version: int, what: str, writer: str, again: str
) -> _Result:
    """The result in a text that `written` made.

    Parameters
    ----------
    text
        The JSON text.
    decode
        Plain values to the result; what it raises of Python's own errors means that the text is damaged.
    version
        The format that is understood.
    what, writer, again
        How the result is called, who writes it, and what to do if it is damaged: for sentences.

    >>> read('{"format": 1, "size": 3}', lambda c: c["size"], version=1, what="audit", writer="x", again="Run it again")
    3
    >>> read("{}", lambda c: c["size"], version=1, what="audit", writer="AuditResult.to_json", again="Run it again")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: This is no audit written by `AuditResult.to_json`.
    """
    try:
        content = json.loads(text)
        given = content.pop("format")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise InputError(f"This is no {what} written by `{writer}`.") from None
    if given != version:
        raise InputError(f"This {what} has format {given}; this version of Fairmargin reads format {version}.")
    try:
        return decode(content)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(f"This {what} is damaged: {error}. {again}.") from None
