"""Intervals of medians and of the parts of σ contain the truth as often as docs/inference.md says."""

import numpy as np
import pytest
from scipy import stats

from tests.inference.measure_scenarios import CASES, MEASURES, coverage

DRAWS = 2_000
FEW = 60


@pytest.mark.slow
@pytest.mark.parametrize("title", CASES)
def test_no_measure_is_covered_in_clearly_less_than_93_percent(title: str) -> None:
    """A scenario fails if the upper 99 % limit of its coverage is below 93 %."""
    least = stats.binom.ppf(0.01, DRAWS, 0.93) / DRAWS
    found = coverage(CASES[title], DRAWS, seed=1)
    shares = {name: np.append(found[name].alone, found[name].together) for name in MEASURES}
    missed = {name: share for name, share in shares.items() if found[name].undefined < 0.2 and (share < least).any()}
    assert not missed, f"in {DRAWS:,} data sets of {title!r}, nominal 95 %, coverage was {missed}"


@pytest.mark.parametrize(
    "title",
    [
        "Pareto, 50 against 50",
        "steps of 0.25, 50 against 50",
        "clusters of 4, 200 against 400",
        "control of two strata",
    ],
)
def test_sixty_data_sets_are_covered_about_as_often_as_they_say(title: str) -> None:
    fewest = stats.binom.ppf(1e-4, FEW, 0.95) / FEW
    for name, covered in coverage(CASES[title], FEW, seed=2).items():
        if covered.undefined < 1:
            assert covered.alone.min() >= fewest, f"{name} was covered in {covered.alone} of {FEW} data sets only"


def test_twenty_groups_are_covered_together() -> None:
    fewest = stats.binom.ppf(1e-4, FEW // 3, 0.95) / (FEW // 3)
    for name, covered in coverage(CASES["log-normal, 20 groups of 60"], FEW // 3, seed=3).items():
        assert covered.together >= fewest, f"{name} of all groups was covered in {covered.together:.0%} of {FEW // 3}"


def test_the_median_is_undefined_where_more_than_half_of_a_group_is_misclassified() -> None:
    found = coverage(CASES["60 % zeros, 300 against 300"], FEW, seed=4)
    assert found["median"].undefined > 0.9
    assert found["accuracy"].undefined == found["margin"].undefined == 0
