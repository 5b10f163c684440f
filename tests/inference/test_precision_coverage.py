"""The coverage of intervals of audits to a precision, also of groups with far samples, is as documented."""

import math

import numpy as np
import pytest
from scipy import stats

from fairmargin.inference.precision.control_variate import SAMPLES
from tests.inference.precision_scenarios import BLIND, FAR, ORDINARY, SEES, Scenario, tried

AUDITS, FEW = 500, 40


# Published in docs/inference.md: 89.3 % of the intervals that are reported as precise as requested.
KNOWN_TO_COVER_LESS_WHERE_MET = {"33 times as far, in one of two groups"}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [*FAR, *ORDINARY])
def test_intervals_to_a_precision_hold_the_truth(scenario: str) -> None:
    found = tried({**FAR, **ORDINARY}[scenario], AUDITS, first=10_000)
    slack = 3 * math.sqrt(0.05 * 0.95 / AUDITS)
    assert found.covered >= 0.94 - slack, f"{found.covered:.1%} of all intervals"
    if found.met > 0.05 and scenario not in KNOWN_TO_COVER_LESS_WHERE_MET:
        assert found.covered_met >= 0.94 - slack, f"{found.covered_met:.1%} of those that are reported as met"


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario((2_000,) * 2, BLIND, times=10.0),
        Scenario((2_000,) * 2, SEES, times=33.0),
        Scenario((300,) * 2, BLIND, times=33.0, finite=True),
        Scenario((2_000,) * 2, BLIND, times=10.0, groups=1),
    ],
    ids=["10 times", "33 times", "these samples", "one group"],
)
def test_forty_audits_of_groups_with_far_samples_cover_about_as_often_as_they_say(scenario: Scenario) -> None:
    found = tried(scenario, FEW)
    fewest = stats.binom.ppf(1e-3, FEW, 0.95) / FEW
    assert found.covered >= fewest, f"{found.covered:.0%} of {FEW} audits"
    if found.met > 0.5:
        assert found.covered_met >= fewest


@pytest.mark.parametrize("seed", [4, 18, 25])
def test_no_audit_ends_with_groups_that_are_not_precise_and_samples_that_would_help(seed: int) -> None:
    """Go on also if the first plan adds nothing to the pilot, so that the next plan is equal."""
    answer, _ = Scenario((150,) * 10, SEES, times=1.0, precision=0.1, finite=True).draw(seed)
    assert answer.met.all()
    assert (answer.contrast.half_width <= 0.1).all()


def test_rounds_go_on_until_the_precision_is_met_or_all_samples_are_measured() -> None:
    for seed in range(10):
        scenario = Scenario((400, 400, 4_000), BLIND, times=10.0, precision=0.12)
        answer, _ = scenario.draw(seed)
        looked_at = answer.means.measured / answer.means.share / scenario.sizes
        assert (answer.met | (looked_at > 0.9)).all()  # the remaining samples would not shorten the interval by 1 %


def test_no_group_is_precise_from_fewer_samples_than_show_a_far_one() -> None:
    answer, _ = Scenario((3_000, 3_000, 120), SEES, times=1.0, precision=0.5).draw(0)
    assert (answer.contrast.half_width <= 0.5).all()
    assert answer.met.tolist() == [True, True, False]
    looked_at = answer.means.measured / answer.means.share
    assert (looked_at[:2] > 0.9 * SAMPLES).all()


def test_without_enough_samples_in_all_groups_there_is_no_interval() -> None:
    answer, _ = Scenario((90, 90), SEES, times=1.0, precision=0.5).draw(0)
    assert not answer.met.any()
    assert np.isnan(answer.contrast.sigma_low).all()
    assert np.isnan(answer.contrast.p).all()
    these, truth = Scenario((90, 90), SEES, times=1.0, precision=0.5, finite=True).draw(0)
    assert these.met.all()
    assert ((these.contrast.mean_low <= truth + 1e-9) & (truth <= these.contrast.mean_high + 1e-9)).all()
