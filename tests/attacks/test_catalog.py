from dataclasses import dataclass

import pytest

from fairmargin.attacks.catalog import ATTACKS, describe_attack, parse_attack
from fairmargin.attacks.pgd import PGD
from fairmargin.attacks.rfgsm import RFGSM
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError


def test_a_name_alone_gives_the_defaults():
    assert parse_attack("pgd") == PGD()


def test_fields_are_read_as_the_types_they_are_annotated_with():
    assert parse_attack("pgd: steps=20, restarts=2, norm=l2, step=1/8") == PGD(Norm.L2, 20, 0.125, 2)
    assert parse_attack("rfgsm:variant=projected,start=none") == RFGSM(variant="projected")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pdg", r"Unknown attack `pdg`. Did you mean 'pgd'\?"),
        ("", "Unknown attack"),
        ("pgd:step_size=1", r"`pgd`: unknown field `step_size`. Did you mean 'steps'\?"),
        ("pgd:steps=many", "`pgd`, field `steps`: expected a whole number, given 'many'"),
        ("pgd:steps", "expected field=value, given 'steps', as in 'pgd:steps=20,restarts=2'"),
        ("pgd:steps=1,steps=2", "`steps` is given twice"),
        ("pgd:steps=0", "`steps` of `pgd` must be at least 1"),
        ("pgd:norm=l1", "`pgd` does not support the norm L1"),
        ("margin_pgd:restarts=2,random_start=no", "`restarts` of `margin_pgd` is 2"),
        ("pgd:loss=hinge", "`loss` of `pgd` must be one of"),
    ],
)
def test_errors_name_the_invalid_field(text, said):
    with pytest.raises(InputError, match=said):
        parse_attack(text)


def test_refuses_to_name_an_attack_outside_the_catalog():
    @dataclass(frozen=True)
    class Mine:
        norm: Norm = Norm.L2

    with pytest.raises(InputError, match="`Mine` is not in the catalog of attacks"):
        describe_attack(Mine())


def test_an_unknown_name_is_not_in_the_catalog():
    assert "squares" not in ATTACKS
    with pytest.raises(KeyError, match="Unknown attack"):
        ATTACKS["squares"]
