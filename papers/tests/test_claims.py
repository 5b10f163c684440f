"""Claims and the rules that give verdicts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmargin.core.bound import Bound
from fairmargin.errors import InputError
from fairmargin.inference.estimate import Estimate
from fairmargin_papers.shared.claims import (
    Claim,
    by_agreement,
    by_direction,
    by_number,
    by_settings,
    limits_of,
)

BLANK = Claim("tran", 9, "The natural error rises with λ.", "Figure 4", "direction")
NUMBERS = st.floats(-10, 10)


@pytest.mark.parametrize(
    ("interval", "side", "verdict"),
    [
        ((0.1, 0.2), "above", "holds"),
        ((0.1, 0.2), "below", "does not hold"),
        ((-0.2, -0.1), "below", "holds"),
        ((-0.2, -0.1), "above", "does not hold"),
        ((-0.1, 0.2), "above", "undecided"),
        ((0.0, 0.2), "above", "undecided"),  # an interval that touches 0 does not exclude it
        ((-0.2, 0.0), "below", "undecided"),
        ((0.1, math.inf), "above", "holds"),
        ((math.nan, math.nan), "above", "undecided"),
        ((0.1, math.nan), "above", "undecided"),
    ],
)
def test_a_direction_is_decided_only_by_an_interval_that_excludes_zero(interval, side, verdict):
    assert by_direction(interval, side) == verdict


@given(NUMBERS, NUMBERS, NUMBERS)
def test_what_holds_above_does_not_hold_below(one, other, than):
    interval = (min(one, other), max(one, other))
    opposite = {"holds": "does not hold", "does not hold": "holds", "undecided": "undecided"}
    assert by_direction(interval, "below", than) == opposite[by_direction(interval, "above", than)]


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((0.38, 0.42), "holds"),
        ((0.30, 0.42), "undecided"),  # contains the printed number, and much else
        ((0.10, 0.20), "does not hold"),
        ((0.50, 0.90), "does not hold"),
        ((-math.inf, math.inf), "undecided"),
        ((math.nan, math.nan), "undecided"),
    ],
)
def test_a_wide_interval_around_the_printed_number_decides_nothing(interval, verdict):
    assert by_number(interval, 0.40, 0.05) == verdict


def test_one_counter_example_is_enough_against_a_theorem():
    assert by_settings(10, 10) == "holds"
    assert by_settings(9, 10) == "does not hold"
    assert by_settings(0, 0) == "undecided"
    with pytest.raises(InputError, match="between 0 and all 10"):
        by_settings(11, 10)


def test_agreement_is_held_against_chance_and_not_against_a_half():
    assert by_agreement((0.75, 0.9), chance=0.8) == "undecided"
    assert by_agreement((0.75, 0.9), chance=0.5) == "holds"
    assert by_agreement((0.3, 0.4), chance=0.5) == "does not hold"


def test_an_estimate_of_an_audit_gives_its_interval():
    assert limits_of(Estimate(-0.2, -0.3, -0.1, Bound.UPPER)) == (-0.3, -0.1)
    assert by_direction(limits_of(Estimate.undefined("no sample", Bound.EXACT)), "above") == "undecided"


def test_a_claim_is_not_tested_until_something_is_found():
    assert BLANK.verdict == "not tested"
    row = BLANK.found("+0.02", "holds", interval=(0.01, 0.03), letter="b", chance=0.5)
    assert (row.name, row.verdict, row.interval, row.text) == ("9b", "holds", (0.01, 0.03), BLANK.text)
    again = row.untested("no data")
    assert (again.name, again.verdict, again.interval, again.remark, again.chance) == (
        "9",
        "not tested",
        None,
        "no data",
        None,
    )


def test_limits_in_the_wrong_order_and_impossible_chances_are_refused():
    with pytest.raises(InputError, match="must not exceed"):
        BLANK.found("", "holds", interval=(1.0, 0.0))
    with pytest.raises(InputError, match="must not exceed"):
        by_direction((1.0, 0.0), "above")
    with pytest.raises(InputError, match="share between 0 and 1"):
        BLANK.found("", "holds", chance=94)
    with pytest.raises(InputError, match="'above' or 'below'"):
        by_direction((0.0, 1.0), "up")
