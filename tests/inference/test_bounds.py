"""Limits of σ that hold whatever the depth of a search and the distance have to do with each other."""

import math

import numpy as np
import pytest
from scipy import stats

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.partition import Partition
from fairmargin.inference.bounds import sigma_bounds
from fairmargin.inference.design import Design

GROUPS = Partition("g", ["a", "b", "c"], np.repeat([0, 1, 2], [60, 90, 150]))
STRATA = Partition("s", ["x", "y"], np.arange(300) % 2)


def sigma(values: Floats, weights: Floats, control: Partition | None) -> list[float]:
    """Average every stratum in the mix of all samples."""
    strata = np.zeros(300, dtype=int) if control is None else control.membership
    out = []
    for _, own in GROUPS:
        sides = []
        for side in (own, ~own):
            cells = [side & (strata == k) for k in np.unique(strata)]
            mix = [weights[strata == k].sum() for k in np.unique(strata)]
            sides.append(np.average([np.average(values[c], weights=weights[c]) for c in cells], weights=mix))
        out.append(sides[0] / sides[1] - 1)
    return out


@pytest.mark.parametrize("clusters", ["none", "inside groups", "across groups"])
@pytest.mark.parametrize("control", [None, STRATA], ids=["no control", "control"])
@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_no_distances_between_depth_and_horizon_have_a_sigma_outside(
    clusters: str, control: Partition | None, weighted: bool
) -> None:
    rng = np.random.default_rng(0)
    high = rng.gamma(2, 1, 300)
    low = np.where(rng.random(300) < 0.2, high * rng.random(300), high)
    weights = rng.uniform(0.5, 1.5, 300) if weighted else np.ones(300)
    person: dict[str, Ints | None] = {
        "none": None,
        "inside groups": 2 * (np.arange(300) // 6) + STRATA.membership,
        "across groups": rng.integers(0, 80, 300),
    }
    design = Design(person[clusters], weights if weighted else None)
    limits = sigma_bounds(low, high, GROUPS, control, design, 0.999)  # almost without the error of sampling
    for fill in range(50):
        share = rng.random(300) if fill else (GROUPS.membership == 0) * 1.0
        found = sigma(low + share * (high - low), weights, control)
        assert all(limits.low <= found)
        assert all(found <= limits.high)
    assert limits.high[0] == pytest.approx(
        sigma(np.where(GROUPS.membership == 0, high, low), weights, control)[0], 0.02
    )


def test_where_all_distances_are_known_the_limits_are_students_limits_of_the_log_ratio() -> None:
    values = np.random.default_rng(1).normal(10, 2, 300)
    limits = sigma_bounds(values, values, GROUPS, None, Design(None, None), 0.05)
    a, rest = values[:60], values[60:]
    errors = [stats.sem(a) / a.mean(), stats.sem(rest) / rest.mean()]
    freedom = math.hypot(*errors) ** 4 / (errors[0] ** 4 / 59 + errors[1] ** 4 / 239)
    reach = stats.t.ppf(0.975, freedom) * math.hypot(*errors)
    center = math.log(a.mean() / rest.mean())
    assert limits.low[0] == pytest.approx(math.expm1(center - reach), abs=2e-3)
    assert limits.high[0] == pytest.approx(math.expm1(center + reach), abs=2e-3)


def test_two_samples_of_which_little_is_known_have_an_infinite_limit_without_a_numpy_warning() -> None:
    values = np.append([1e-9, 1.0], np.random.default_rng(0).gamma(2, 1, 58))
    groups = Partition("g", ["few", "many"], np.repeat([0, 1], [2, 58]))
    with np.errstate(all="raise", under="ignore"):
        limits = sigma_bounds(values, values, groups, None, Design(None, None), 1e-7)
    assert limits.high[0] == math.inf
