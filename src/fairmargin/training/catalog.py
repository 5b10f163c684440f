"""The training methods by name, imported when asked for: to name them loads no torch."""

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from fairmargin.core.catalog import Catalog, Plain, split_options

if TYPE_CHECKING:
    from fairmargin.training.recipe import TrainingMethod

# A new method is one line here, and its class in a file beside this one.
METHODS: Catalog[type] = Catalog(
    "method",
    "fairmargin.training",
    {
        "erm": "methods:ERM",
        "adverm": "methods:AdvERM",
        "penalty": "methods:Penalty",
        "group_dro": "methods:GroupDRO",
        "fair_robust": "attacked_methods:FairRobust",
        "ramp": "methods:RampTraining",
        "madry": "attacked_methods:Madry",
        "trades": "attacked_methods:Trades",
        "fat": "attacked_methods:FAT",
        "fat_trades": "attacked_methods:FATTrades",
        "farmur": "farmur:Farmur",
        "gaussian": "noise_methods:Gaussian",
        "smooth_adv": "noise_methods:SmoothAdv",
    },
)


def parse_method(text: str) -> "TrainingMethod":
    """Make a method from its spelling in options.

    >>> parse_method("fat:weight=0.5,radius=4/255").weight
    0.5
    """
    name, given = split_options(text, "fat:weight=0.5")
    made: TrainingMethod = METHODS.build(name, given)
    return made


def describe_method(method: "TrainingMethod") -> dict[str, Plain | Any]:
    """Return its name and fields as plain values; of one that is in no catalog, the class's name.

    >>> describe_method(parse_method("erm"))
    {'name': 'erm'}
    """
    name = METHODS.name_of(method)
    described: dict[str, Plain] = METHODS.describe(method) if is_dataclass(method) else {}
    return {"name": name or type(method).__qualname__, **described}
