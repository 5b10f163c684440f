"""Catalog of engines, and the text form of an engine with its options."""

from typing import Any

from fairmargin.core.catalog import Catalog, split_options
from fairmargin.engine.task import Engine
from fairmargin.errors import InputError

# To add an engine, add its class (a frozen dataclass) in a module of this package and one line here.
ENGINES: Catalog[type] = Catalog(
    "engine",
    "fairmargin.engine",
    {
        "serial": "local:Serial",
        "processes": "local:Processes",
        "ray": "ray:Ray",
    },
)


def parse_engine(text: str) -> Engine:
    """Create an engine from its name, optionally with options: `name:option=value,option=value`.

    >>> parse_engine("processes:workers=2")
    Processes(workers=2)
    >>> parse_engine("sreial")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: Unknown engine `sreial`. Did you mean 'serial'? There are: serial, ...
    """
    name, given = split_options(text, "processes:workers=2")
    made: Engine = ENGINES.build(name, given)
    return made


def as_engine(given: Any) -> Engine:
    """Return an engine that is given by its name or as an object.

    >>> as_engine("serial")
    Serial()
    """
    if isinstance(given, str):
        return parse_engine(given)
    if isinstance(given, type) or not callable(getattr(given, "run", None)):
        raise InputError(
            "must be a name such as 'processes:workers=2', or an engine such as fm.Serial()",
            field="engine",
            given=given,
        )
    engine: Engine = given
    return engine
