"""Results as JSON texts: written with their format, read back or refused in a sentence."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from fairmargin.core.bound import Bound
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.norm import Norm
from fairmargin.core.undefined import Undefined, reason_of
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


# JSON has no NaN and no infinity: NaN is null, infinity a word. ------------------------------------------------------


def encode(value: Any) -> Any:
    """Plain JSON values for any result of ours."""
    match value:
        case Bound() | Norm():
            return value.value
        case RobustnessCurve():
            return [encode(float(v)) for v in value.values]
        case Undefined():
            return {"undefined": reason_of(value)}
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case tuple() | list():
            return [encode(item) for item in value]
        case dict():
            return {key: encode(item) for key, item in value.items()}
        case np.generic():
            return encode(value.item())
    if hasattr(value, "__dataclass_fields__"):
        return {name: encode(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def decode_number(value: Any) -> float:
    """Decode a number that `encode` wrote. Refuse anything else, a number in a text too."""
    if value is None:
        return math.nan
    if isinstance(value, dict):
        return Undefined(decode_text(value["undefined"]))
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def decode_count(value: Any) -> int:
    """Decode a whole number from 0 on that `encode` wrote."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a number of samples")
    return value


def decode_text(value: Any, allowed: tuple[str, ...] | None = None) -> str:
    """A text that `encode` wrote; one of those allowed."""
    if not isinstance(value, str) or (allowed and value not in allowed):
        raise ValueError(f"{value!r} is not {'a text' if allowed is None else 'one of ' + ', '.join(allowed)}")
    return value
