"""Results as JSON texts, by the type hints of frozen dataclasses: written with their format, read back or refused.

JSON has no NaN and no infinity: NaN is null, a NaN with a reason is {"undefined": reason}, and infinity is a word.
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
    """How a kind of result is written.

    Parameters
    ----------
    version
        The version of the format, which changes when older texts can no longer be read.
    name
        What sentences call the result, for instance "audit".
    remedy
        What to do if a text is damaged, as the first part of a sentence.
    """

    version: int
    name: str
    remedy: str


class Stored(Protocol):
    """A frozen dataclass that can be written and read back.

    If it, or a dataclass inside it, has a method `contradiction`, a text is refused when that returns a reason.
    """

    FORMAT: ClassVar[Format]


_Result = TypeVar("_Result", bound=Stored)


def to_json(result: Stored) -> str:
    """Return the text from which `from_json` makes the same result again."""
    return json.dumps({"format": result.FORMAT.version, **encode(result)}, ensure_ascii=False, allow_nan=False)


def from_json(kind: type[_Result], text: str) -> _Result:
    """Read a result that `to_json` wrote, or refuse the text in a sentence.

    >>> @dataclass(frozen=True)
    ... class Count:
    ...     FORMAT: ClassVar[Format] = Format(1, "count", "Count again")
    ...     size: int
    >>> to_json(Count(3)), from_json(Count, '{"format": 1, "size": 3}')
    ('{"format": 1, "size": 3}', Count(size=3))
    >>> from_json(Count, "{}")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: This is no count written by `Count.to_json`.
    """
    form = kind.FORMAT
    try:
        content = json.loads(text)
        given = content.pop("format")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise InputError(f"This is no {form.name} written by `{kind.__name__}.to_json`.") from None
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
    """Return plain JSON values for any result."""
    match value:
        case Enum():
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
        case Mapping():
            return {key: encode(item) for key, item in value.items()}
        case np.ndarray():
            return encode(value.tolist())
        case np.generic():
            return encode(value.item())
    if is_dataclass(value):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    return value


def decode(hint: Any, value: Any) -> Any:
    """Make a value of a type from what `encode` wrote; refuse anything else by one of Python's own errors.

    Parameters
    ----------
    hint
        A dataclass, an enumeration, a `Literal`, `RobustnessCurve`, a numpy array of numbers, a tuple, a mapping, or
        one of float (also NaN, infinite or `Undefined`), int (from 0 on, below 2**63), bool and str; None may be an
        alternative.
    value
        Plain JSON values.

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
    raise NotImplementedError(f"the codec knows no {hint!r}")


def _dataclass(kind: Any, value: Any) -> Any:
    content = _mapping(value)
    found = kind(**{name: decode(hint, content[name]) for name, hint in _hints(kind)})
    contradiction = found.contradiction() if hasattr(found, "contradiction") else ""
    if contradiction:
        raise ValueError(contradiction)
    return found


@cache
def _hints(kind: Any) -> tuple[tuple[str, Any], ...]:
    """Name and type of every field."""
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


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    float: _number,
    int: _count,
    bool: _truth,
    str: _text,
    RobustnessCurve: lambda value: RobustnessCurve([_number(item) for item in _list(value)]),
}
