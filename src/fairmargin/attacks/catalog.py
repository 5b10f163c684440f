"""Catalog of attacks, and the text form of an attack in configuration files and on the command line."""

from collections.abc import Mapping

from fairmargin.attacks.protocol import Attack
from fairmargin.core.catalog import Catalog, Plain, split_options
from fairmargin.core.suggestion import there_are
from fairmargin.errors import InputError

# To add an attack, add a line with its name and the module and class that define it.
ATTACKS: Catalog[type] = Catalog(
    "attack",
    "fairmargin.attacks",
    {
        "fgsm": "fgsm:FGSM",
        "rfgsm": "rfgsm:RFGSM",
        "pgd": "pgd:PGD",
        "margin_pgd": "margin_pgd:MarginPGD",
        "apgd": "apgd:APGD",
        "square": "square:Square",
        "autoattack": "autoattack:AutoAttack",
    },
)


def parse_attack(text: str) -> Attack:
    """Create an attack from "name" or "name:field=value,field=value". Numbers can be fractions.

    >>> parse_attack("fgsm:norm=l2")
    FGSM(norm=<Norm.L2: 'l2'>, random_start=False)
    """
    name, given = split_options(text, "pgd:steps=20,restarts=2")
    return build_attack(name, given)


def build_attack(name: str, given: Mapping[str, Plain]) -> Attack:
    """Create an attack from its name and plain values of its fields; the inverse of `describe_attack`.

    >>> build_attack("pgd", {"steps": 5}).steps
    5
    """
    made: Attack = ATTACKS.build(name, given)
    return made


def describe_attack(attack: Attack) -> dict[str, Plain]:
    """Return the attack's name and fields as plain values, for configuration files, records and store keys.

    >>> describe_attack(parse_attack("fgsm"))
    {'name': 'fgsm', 'norm': 'linf', 'random_start': False}
    """
    name = ATTACKS.name_of(attack)
    if name is None:
        raise InputError(
            f"`{type(attack).__name__}` is not in the catalog of attacks, so its results cannot be stored. "
            f"{there_are(ATTACKS)}"
        )
    return {"name": name, **ATTACKS.describe(attack)}
