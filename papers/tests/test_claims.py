"""Claims, their rows, and the rules that give verdicts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmargin.core.bound import Bound
from fairmargin.inference.estimate import Estimate
from fairmargin_papers.shared.claims import (
    Claim,
    Decision,
    agreed,
    by_direction,
    by_number,
    by_settings,
    directed,
    lettered,
    near,
)
from fairmargin_papers.shared.trained import SeedMean

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
    undefined = any(map(math.isnan, interval))
    assert directed(SeedMean(0.0, *interval), side) == Decision(verdict, None if undefined else interval)


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
    assert near(SeedMean(0.0, *interval), 0.40, 0.05).verdict == verdict


def test_one_counter_example_refutes_a_theorem():
    assert [by_settings(*counts) for counts in ((10, 10), (9, 10), (0, 0))] == ["holds", "does not hold", "undecided"]


def test_agreement_is_compared_with_chance_and_not_with_a_half():
    assert agreed(SeedMean(0.8, 0.75, 0.9), chance=0.8) == Decision("undecided", (0.75, 0.9), 0.8)
    assert agreed(SeedMean(0.8, 0.75, 0.9), chance=0.5).verdict == "holds"
    assert agreed(SeedMean(0.35, 0.3, 0.4), chance=0.5).verdict == "does not hold"


def test_an_estimate_of_an_audit_gives_its_interval():
    assert directed(Estimate(-0.2, -0.3, -0.1, Bound.UPPER), "below") == Decision("holds", (-0.3, -0.1))
    assert directed(Estimate.undefined("no sample", Bound.EXACT), "above") == Decision("undecided")
    assert directed(None, "above") == Decision("undecided")


def test_a_claim_is_not_tested_until_there_is_a_result():
    assert BLANK.verdict == "not tested"
    row = BLANK.found("+0.02", Decision("holds", (0.01, 0.03), 0.5))
    assert (row.name, row.verdict, row.interval, row.text) == ("9", "holds", (0.01, 0.03), BLANK.text)
    again = row.untested("no data")
    assert (again.verdict, again.interval, again.remark, again.chance) == ("not tested", None, "no data", None)


def test_rows_of_one_claim_get_letters_in_their_order():
    rows = [BLANK.found(ours, "holds") for ours in ("first", "second")]
    assert [(row.name, row.ours) for row in lettered(rows)] == [("9a", "first"), ("9b", "second")]
    assert [row.name for row in lettered(rows[:1])] == ["9"]
