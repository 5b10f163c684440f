"""Frozen dataclasses by name, and their spelling in configuration files and on the command line."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from importlib import import_module
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from fairmargin.core.norm import Norm
from fairmargin.core.radius import as_number
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError

Plain = str | int | float | bool | None


class Catalog(Mapping[str, type]):
    """Names to classes of one room, each imported when it is first asked for: to name them loads nothing heavy.

    Parameters
    ----------
    noun
        What an entry is called in sentences: "estimator".
    room
        The package whose files define the classes.
    places
        Name to "file:class".
    """

    def __init__(self, noun: str, room: str, places: Mapping[str, str]) -> None:
        self.noun, self.room, self.places = noun, room, dict(places)

    def __getitem__(self, name: str) -> type:
        if name not in self.places:
            raise KeyError(f"Unknown {self.noun} `{name}`. {suggest(name, self.places)}")
        module, _, kind = self.places[name].partition(":")
        found: type = getattr(import_module(f"{self.room}.{module}"), kind)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.places  # Mapping would import the class to find out

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def build(self, name: str, given: Mapping[str, Plain]) -> Any:
        """The entry of that name with those fields, from plain values; the inverse of `describe`."""
        if name not in self:
            raise InputError(f"Unknown {self.noun} `{name}`. {suggest(name, self)}")
        kind: Any = self[name]
        known = {field.name: field for field in fields(kind)}
        for key in given:
            if key not in known:
                raise InputError(f"`{name}`: unknown field `{key}`. {suggest(key, known)}")
        for field in known.values():
            if field.name not in given and not _has_default(field):
                raise InputError(f"`{name}` needs the field `{field.name}`; write `{name}:{field.name}=…`.")
        hints = get_type_hints(kind)
        typed = {key: _coerce(value, hints[key], f"`{name}`, field `{key}`") for key, value in given.items()}
        try:
            return kind(**typed)
        except InputError as error:
            raise error.about(name) from None

    def describe(self, entry: Any) -> dict[str, Plain]:
        """The entry's fields as plain values."""
        values = {field.name: getattr(entry, field.name) for field in fields(entry)}
        return {key: value.value if isinstance(value, Enum) else value for key, value in values.items()}

    def name_of(self, entry: object) -> str | None:
        """The name under which the entry's class stands here; None if it does not."""
        kind = type(entry)
        for name, place in self.places.items():
            if f"{kind.__module__}:{kind.__name__}" == f"{self.room}.{place}":
                return name
        return None


def split_options(text: str, example: str) -> tuple[str, dict[str, Plain]]:
    """Name and fields of "name" or "name:field=value,field=value"; `example` is shown to who errs.

    >>> split_options("pgd: steps=20, restarts=2", "pgd:steps=20")
    ('pgd', {'steps': '20', 'restarts': '2'})
    """
    name, _, settings = text.partition(":")
    given: dict[str, Plain] = {}
    for setting in filter(None, (part.strip() for part in settings.split(","))):
        field, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"{text!r}: expected field=value, given {setting!r}, as in {example!r}.")
        if field.strip() in given:
            raise InputError(f"{text!r}: the field `{field.strip()}` is given twice.")
        given[field.strip()] = value.strip()
    return name.strip(), given


def _coerce(value: Plain, annotation: Any, where: str) -> Any:
    """The plain value as the type the field is annotated with."""
    if get_origin(annotation) in (Union, UnionType):
        options = get_args(annotation)
        if type(None) in options and (value is None or str(value).lower() in ("none", "")):
            return None
        (annotation,) = (option for option in options if option is not type(None))
    try:
        return _CONVERT[annotation](value)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (ValueError, TypeError, KeyError, ZeroDivisionError):
        raise InputError(f"{where}: expected {_WORDS[annotation]}, given {value!r}.") from None


def _whole(value: Plain) -> int:
    number = as_number(value)
    if not number.is_integer():
        raise ValueError(value)
    return int(number)


def _truth(value: Plain) -> bool:
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[str(value).strip().lower()]


_CONVERT: dict[Any, Any] = {int: _whole, float: as_number, bool: _truth, str: str, Norm: Norm.parse}
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Norm: "a norm"}


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
