"""Catalogs: mappings from names to classes, and the text form `name:field=value` of their dataclasses."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from importlib import import_module
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fairmargin.core.norm import Norm
from fairmargin.core.radius import as_number
from fairmargin.core.suggestion import suggest
from fairmargin.errors import FairmarginError, InputError

Plain = str | int | float | bool | None
T = TypeVar("T")


class Catalog(Mapping[str, T]):
    """Mapping from names to entries of one kind. An entry is imported on first access, so listing the names is fast.

    Parameters
    ----------
    noun
        Word for an entry in error messages, for instance "estimator".
    package
        Package whose modules define the entries.
    entries
        Names with the place of each entry as "module:name"; or with the entry itself, if it needs no expensive import.

    >>> norms = Catalog("norm", "fairmargin.core", {"norm": "norm:Norm"})
    >>> norms.find("nrom")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: Unknown norm `nrom`. Did you mean 'norm'? There are: norm.
    """

    def __init__(self, noun: str, package: str, entries: Mapping[str, str | T]) -> None:
        self.noun, self.package, self.entries = noun, package, dict(entries)

    def __getitem__(self, name: str) -> T:
        if name not in self.entries:
            raise KeyError(self._unknown(name))
        entry = self.entries[name]
        return imported(self.package, entry) if isinstance(entry, str) else entry

    def __contains__(self, name: object) -> bool:
        return name in self.entries  # the default of Mapping calls __getitem__, which imports the entry

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def find(self, name: str, error: type[FairmarginError] = InputError) -> T:
        """Return the entry of that name, or raise an error that lists the known names."""
        if name not in self:
            raise error(self._unknown(name))
        return self[name]

    def _unknown(self, name: str) -> str:
        return f"Unknown {self.noun} `{name}`. {suggest(name, self)}"

    def build(self, name: str, given: Mapping[str, Plain]) -> Any:
        """Create an instance of a dataclass of this catalog from values of its fields; the inverse of `describe`."""
        kind: Any = self.find(name)
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
        """Return the fields of an instance of a dataclass in this catalog as plain values."""
        values = {field.name: getattr(entry, field.name) for field in fields(entry)}
        return {key: value.value if isinstance(value, Enum) else value for key, value in values.items()}

    def name_of(self, entry: object) -> str | None:
        """Return the name of the class of an object in this catalog, or None if it is not in the catalog."""
        kind = type(entry)
        for name, place in self.entries.items():
            if f"{kind.__module__}:{kind.__name__}" == f"{self.package}.{place}":
                return name
        return None


def imported(package: str, place: str) -> Any:
    """Import a name from a module of a package, given as "module:name".

    >>> imported("fairmargin.core", "norm:Norm").L2
    <Norm.L2: 'l2'>
    """
    file, _, name = place.partition(":")
    return getattr(import_module(f"{package}.{file}"), name)


def split_options(text: str, example: str) -> tuple[str, dict[str, Plain]]:
    """Split "name" or "name:field=value,field=value" into name and fields.

    The error message for a text of another form shows `example`.

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
    """Convert a plain value to the annotated type of a field. Errors begin with `where`."""
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
