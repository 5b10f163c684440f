"""The engines by name."""

from fairmargin.core.catalog import Catalog, split_options
from fairmargin.engine.task import Engine

# A new engine is one line here, and its class, a frozen dataclass, in a file beside this one.
ENGINES: Catalog[type] = Catalog(
    "engine", "fairmargin.engine", {"serial": "local:Serial", "processes": "local:Processes"}
)


def parse_engine(text: str) -> Engine:
    """Make an engine from a name, or from a name with options: `name:option=value,option=value`.

    >>> parse_engine("processes:workers=2")
    Processes(workers=2)
    >>> parse_engine("proceses")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: Unknown engine `proceses`. Did you mean 'processes'? There are: serial, processes.
    """
    name, given = split_options(text, "processes:workers=2")
    made: Engine = ENGINES.build(name, given)
    return made
