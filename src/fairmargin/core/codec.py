"""Write results, which are frozen dataclasses, as JSON texts and read them back according to their type hints.

JSON has no NaN and no infinity. NaN is written as null, `Undefined` (NaN with a reason) as {"undefined": reason}, and
infinite numbers as the texts "inf" and "-inf".
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.undefined import Undefined, reason_of
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True)
class Format:
    """Format in which a kind of result is stored.

    Parameters
    ----------
    version
        Version of the format. It is increased when older texts can no longer be read.
    name
        Word for the result in error messages, for instance "audit".
    remedy
        What to do if a text is damaged, as a sentence without its full stop.
    """

    version: int
    name: str
    remedy: str


class Stored(Protocol):
    """Protocol of frozen dataclasses that can be written as JSON and read back.

    If the class, or a dataclass among its fields, has a method `contradiction`, it is called on every object that is
    read. The text is refused if the method returns a reason.
    """

    FORMAT: ClassVar[Format]


_Result = TypeVar("_Result", bound=Stored)


def to_json(result: Stored) -> str:
    """Return a result as a JSON text, from which `from_json` restores an equal result."""
    return json.dumps({"format": result.FORMAT.version, **encode(result)}, ensure_ascii=False, allow_nan=False)


def from_json(kind: type[_Result], text: str) -> _Result:
    """Read a result from a JSON text written by `to_json`; raise an `InputError` if the text is invalid.

    >>> @dataclass(frozen=True)
    ... class Count:
    ...     FORMAT: ClassVar[Format] = Format(1, "count", "Count again")
    ...     size: int
    >>> to_json(Count(3)), from_json(Count, '{"format": 1, "size": 3}')
    ('{"format": 1, "size": 3}', Count(size=3))
    >>> from_json(Count, "{}")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: This is not a text written by `Count.to_json`.
    """
    form = kind.FORMAT
    try:
        content = json.loads(text)
        given = content.pop("format")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise InputError(f"This is not a text written by `{kind.__name__}.to_json`.") from None
    if given != form.version:
        raise InputError(
            f"This {form.name} has format {given}; this version of Fairmargin reads format {form.version}."
        )
    try:
        result: _Result = decode(kind, content)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise InputError(f"This {form.name} is damaged: {error}. {form.remedy}.") from None
    return result


def encode(value: Any) -> Any:
    """Convert a result, or any value inside it, to plain JSON values."""
    match value:
        case Enum():
            return value.value
        case RobustnessCurve():
            if value.weights is None:
                return encode(value.values)
            return {"values": encode(value.values), "weights": encode(value.weights)}
        case Undefined():
            return {"undefined": reason_of(value)}
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        case tuple() | list():
            return [encode(item) for item in value]
        case Mapping():
            return {key: encode(item) for key, item in value.items()}
        case np.ndarray():
            # Finite numbers are plain already; there can be millions of them.
            plain = value.dtype == np.float64 and np.isfinite(value).all()
            return value.tolist() if plain else encode(value.tolist())
        case np.generic():
            return encode(value.item())
    if is_dataclass(value):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    return value


def decode(hint: Any, value: Any) -> Any:
    """Convert plain JSON values written by `encode` back to a value of the hinted type.

    Raises KeyError, TypeError, ValueError, OverflowError or AttributeError if the values do not fit the type.

    Parameters
    ----------
    hint
        Type of the value: a dataclass, an enumeration, a `Literal`, `RobustnessCurve`, a numpy array of numbers, a
        tuple, a mapping, float (including NaN, infinity and `Undefined`), int (0 to 2**63 − 1), bool or str; or one of
        these and None.
    value
        Plain JSON values: the content of a JSON text after `json.loads`.

    >>> decode(tuple[float, ...], [1, None, "inf"])
    (1.0, nan, inf)
    >>> decode(int, -1)
    Traceback (most recent call last):
        ...
    ValueError: -1 is not a number of samples
    """
    origin, inside = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint](value)
    if origin is Literal:
        return _word(value, inside)
    if origin in (Union, UnionType):
        return _alternative(inside, value)
    if origin is tuple:
        return _tuple(inside, value)
    if origin is np.ndarray:
        return np.array([_number(item) for item in _list(value)])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_text(key): decode(inside[1], item) for key, item in _mapping(value).items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if is_dataclass(hint):
        return _dataclass(hint, value)
    raise NotImplementedError(f"the codec does not support the type {hint!r}")


def _dataclass(kind: Any, value: Any) -> Any:
    content = _mapping(value)
    found = kind(**{name: decode(hint, content[name]) for name, hint in _hints(kind)})
    contradiction = found.contradiction() if hasattr(found, "contradiction") else ""
    if contradiction:
        raise ValueError(contradiction)
    return found


@cache
def _hints(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Return the name and the type of every field of a dataclass."""
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))


def _alternative(kinds: tuple[Any, ...], value: Any) -> Any:
    if NoneType in kinds and value is None:
        return None
    first, *others = [kind for kind in kinds if kind not in (NoneType, Undefined)]
    if others:
        raise NotImplementedError(f"the codec cannot tell {kinds!r} apart")
    return decode(first, value)


def _tuple(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    items = _list(value)
    if len(kinds) == 2 and kinds[1] is ...:
        return tuple(decode(kinds[0], item) for item in items)
    return tuple(decode(kind, item) for kind, item in zip(kinds, items, strict=True))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} has no fields")
    return value


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, dict):
        return Undefined(_text(value["undefined"]))
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a number of samples")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _word(value: Any, allowed: tuple[str, ...]) -> str:
    if _text(value) not in allowed:
        raise ValueError(f"{value!r} is not one of {', '.join(allowed)}")
    return str(value)


def _curve(value: Any) -> RobustnessCurve:
    values, weights = (value["values"], value["weights"]) if isinstance(value, dict) else (value, None)
    numbers = [_number(item) for item in _list(values)]
    return RobustnessCurve(numbers, None if weights is None else [_number(item) for item in _list(weights)])


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    float: _number,
    int: _count,
    bool: _truth,
    str: _text,
    RobustnessCurve: _curve,
}
