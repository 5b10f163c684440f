"""Coverage, power and false alarms where searches failed at different depths are as documented."""

import math

import pytest
from scipy import stats

from tests.inference.censored_scenarios import COVERED, NULLS, POWER, alarms, coverage

AUDITS, FEW = 1_000, 30
DEPENDENT = [name for name in COVERED if "far samples" in name or name.startswith("the same")]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [name for name in COVERED if name not in DEPENDENT])
def test_intervals_hold_restricted_means_where_depths_do_not_depend_on_distances(scenario: str) -> None:
    found = coverage(COVERED[scenario], AUDITS)
    if COVERED[scenario].classes:
        found = {name: found[name] for name in ("σ", "gap", "σ at any depth")}
    least = 0.93 - 2.6 * math.sqrt(0.93 * 0.07 / AUDITS)
    missed = {name: f"{share:.1%}" for name, share in found.items() if share < least}
    assert not missed, f"in {AUDITS:,} audits of {scenario!r}, nominal 95 %, coverage was {missed}"


@pytest.mark.slow
@pytest.mark.parametrize("scenario", DEPENDENT)
def test_the_bounds_hold_where_depths_depend_on_distances_and_kaplan_and_meiers_intervals_do_not(scenario: str) -> None:
    found = coverage(COVERED[scenario], AUDITS // 2)
    assert found["σ at any depth"] > 0.95 > found["σ"]


@pytest.mark.slow
@pytest.mark.parametrize("scenario", POWER)
def test_power_is_at_least_three_quarters_of_that_of_known_distances(scenario: str) -> None:
    censored, known = (alarms(each, AUDITS) for each in (POWER[scenario], POWER[scenario].uncensored()))
    assert censored / known > 0.75 - 2.6 * 0.03


@pytest.mark.slow
@pytest.mark.parametrize("scenario", NULLS)
def test_false_alarms_stay_at_five_percent_also_where_groups_are_searched_to_different_depths(scenario: str) -> None:
    assert alarms(NULLS[scenario], AUDITS) <= 0.06 + 2 * math.sqrt(0.06 * 0.94 / AUDITS)


def test_thirty_audits_cover_about_as_often_as_they_say() -> None:
    found = coverage(COVERED["23 % at random depths"], FEW)
    fewest = stats.binom.ppf(1e-4, FEW, 0.95) / FEW
    for name, share in found.items():
        assert share >= fewest, f"{name} was covered in {share:.0%} of {FEW} audits only"
