"""The training methods by name, imported when first used: listing the names does not load torch."""

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from fairmargin.core.catalog import Catalog, Plain, split_options

if TYPE_CHECKING:
    from fairmargin.training.recipe import TrainingMethod

# A new method adds one line here, and its class to a file of `methods/`.
METHODS: Catalog[type] = Catalog(
    "method",
    "fairmargin.training",
    {
        "erm": "methods.plain:ERM",
        "adverm": "methods.plain:AdvERM",
        "penalty": "methods.plain:Penalty",
        "group_dro": "methods.plain:GroupDRO",
        "fair_robust": "methods.adversarial:FairRobust",
        "ramp": "methods.plain:RampTraining",
        "madry": "methods.adversarial:Madry",
        "trades": "methods.adversarial:Trades",
        "fat": "methods.adversarial:FAT",
        "fat_trades": "methods.adversarial:FATTrades",
        "farmur": "methods.farmur:Farmur",
        "gaussian": "methods.noise:Gaussian",
        "smooth_adv": "methods.noise:SmoothAdv",
    },
)


def parse_method(text: str) -> "TrainingMethod":
    """Build a method from its spelling in options.

    >>> parse_method("fat:weight=0.5,radius=4/255").weight
    0.5
    """
    name, given = split_options(text, "fat:weight=0.5")
    method: TrainingMethod = METHODS.build(name, given)
    return method


def describe_method(method: "TrainingMethod") -> dict[str, Plain | Any]:
    """Return a method's name and fields as plain values; for one that is in no catalog, the name of its class.

    >>> describe_method(parse_method("erm"))
    {'name': 'erm'}
    """
    name = METHODS.name_of(method)
    described: dict[str, Plain] = METHODS.describe(method) if is_dataclass(method) else {}
    return {"name": name or type(method).__qualname__, **described}
