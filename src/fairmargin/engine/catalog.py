"""The engines by name."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, cast, get_args, get_type_hints

from fairmargin.core.suggestion import suggest
from fairmargin.engine.local import Processes, Serial
from fairmargin.engine.task import Engine
from fairmargin.errors import InputError

ENGINES: Mapping[str, Callable[..., Engine]] = {"serial": Serial, "processes": Processes}


def parse_engine(text: str) -> Engine:
    """An engine from a name, or from a name with options: `name:option=value,option=value`.

    >>> parse_engine("processes:workers=2")
    Processes(workers=2)
    >>> parse_engine("proceses")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: Unknown engine 'proceses'. Did you mean 'processes'? There are: serial, processes.
    """
    name, _, options = text.strip().partition(":")
    if name not in ENGINES:
        raise InputError(f"Unknown engine {name!r}. {suggest(name, ENGINES)}")
    return ENGINES[name](**dict(_option(name, part) for part in options.split(",") if part.strip()))


def _option(engine: str, part: str) -> tuple[str, Any]:
    """One `option=value`, its value read as the engine's field of that name says."""
    option, equals, value = (piece.strip() for piece in part.partition("="))
    # Every entry of ENGINES is a frozen dataclass; its fields are its options.
    known = {field.name: _kind(engine, field.name) for field in fields(cast(Any, ENGINES[engine]))}
    if option not in known:
        raise InputError(f"Engine {engine!r} has no option {option!r}. {suggest(option, known)}")
    if not equals or not value:
        raise InputError(f"Option {option!r} of engine {engine!r} needs a value: `{engine}:{option}=…`.")
    try:
        return option, known[option](value)
    except ValueError:
        raise InputError(
            f"Option {option!r} of engine {engine!r} must be of type {known[option].__name__}; given {value!r}."
        ) from None


def _kind(engine: str, option: str) -> Callable[[str], Any]:
    """The type that reads an option: `int` for a field annotated `int | None`."""
    hint = get_type_hints(ENGINES[engine])[option]
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    return cast(Callable[[str], Any], kinds[0])
