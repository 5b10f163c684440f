"""Restricted means of Kaplan–Meier curves: the values of other code, and exact derivatives by the samples' weights."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.curve import RobustnessCurve
from fairmargin.inference.survival import largest_radius_at_risk, masses, pseudo_values


def by_hand(radius: Floats, found: Bools, horizon: float, weight: Floats | None = None) -> float:
    """Walk along the radii as in a textbook: at each distance found, S falls by the share of those still at risk."""
    weight = np.ones(len(radius)) if weight is None else weight
    area, height, at = 0.0, 1.0, 0.0
    for tau in sorted(set(radius[found & (radius < horizon)].tolist())):
        area, at = area + height * (tau - at), tau
        here, risk = weight[found & (radius == tau)].sum(), weight[radius >= tau].sum()
        height *= 1 - here / risk if risk > 0 else 1.0
    return area + height * (horizon - at)


def simulated(seed: int, size: int = 60, decimals: int = 1) -> tuple[Floats, Bools]:
    """Draw distances with ties and zeros, and searches that failed at other depths."""
    rng = np.random.default_rng(seed)
    distance = np.round(rng.gamma(2, 1, size), decimals) * (rng.random(size) < 0.8)
    depth = np.round(rng.uniform(0, 5, size), decimals)
    return np.minimum(distance, depth), distance <= depth


def restricted(radius: Floats, found: Bools, horizon: float, weight: Floats | None = None) -> Floats:
    return pseudo_values(radius, found, np.zeros(len(radius), dtype=np.int64), 1, horizon, weight).values


@given(st.integers(0, 10_000), st.floats(0.3, 3.0))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_mean_of_pseudo_values_is_the_area_below_the_curve(seed: int, horizon: float) -> None:
    radius, found = simulated(seed)
    values = restricted(radius, found, horizon)
    assert values.mean() == pytest.approx(by_hand(radius, found, horizon), abs=1e-12)
    weight = np.random.default_rng(seed).uniform(0, 3, len(radius))
    values = restricted(radius, found, horizon, weight)
    assert np.average(values, weights=weight) == pytest.approx(by_hand(radius, found, horizon, weight), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_pseudo_value_is_the_derivative_of_the_mean_by_the_weight_of_the_sample(seed: int) -> None:
    radius, found = simulated(seed, size=25)
    weight, step = np.random.default_rng(seed).uniform(0.5, 2, 25), 1e-6
    mean, values = by_hand(radius, found, 2.5, weight), restricted(radius, found, 2.5, weight)
    for i in range(25):
        up, down = (by_hand(radius, found, 2.5, weight + sign * step * (np.arange(25) == i)) for sign in (1, -1))
        assert (values[i] - mean) / weight.sum() == pytest.approx((up - down) / (2 * step), abs=1e-7)


def test_where_no_search_failed_before_the_horizon_pseudo_values_are_the_distances_to_the_last_bit() -> None:
    radius, found = simulated(3)
    horizon = float(radius[~found].min())
    assert restricted(radius, found, horizon).tolist() == np.minimum(radius, horizon).tolist()
    assert restricted(radius, np.ones_like(found), 2.0).tolist() == np.minimum(radius, 2.0).tolist()


def test_cells_are_treated_alone_and_the_order_of_the_samples_changes_no_bit() -> None:
    radius, found = simulated(4, size=300, decimals=2)
    rng = np.random.default_rng(0)
    cell, weight, order = rng.integers(0, 4, 300), rng.uniform(0, 2, 300), rng.permutation(300)
    for given_weight in (None, weight):
        together = pseudo_values(radius, found, cell, 4, 3.0, given_weight)
        other = pseudo_values(
            radius[order], found[order], cell[order], 4, 3.0, None if given_weight is None else given_weight[order]
        )
        assert together.values[order].tolist() == other.values.tolist()
        for each in range(4):
            own = cell == each
            alone = restricted(radius[own], found[own], 3.0, None if given_weight is None else given_weight[own])
            assert together.values[own].tolist() == alone.tolist()


def test_a_sample_proven_unreachable_counts_as_the_horizon() -> None:
    radius, found = np.array([1.0, 2.0, 0.5, np.inf]), np.array([True, True, False, False])
    assert restricted(radius, found, 4.0).mean() == pytest.approx(by_hand(radius, found, 4.0))
    assert by_hand(radius, found, 4.0) == pytest.approx((1 + 2 + 4) / 3)  # the failed search is like the average other


@pytest.mark.parametrize("beyond", [[], [np.inf] * 2, [6.0]], ids=["none", "two proofs", "a far search that failed"])
def test_single_samples_beyond_many_failed_searches_do_not_tell_how_far_these_lie(beyond: list[float]) -> None:
    radius = np.array([*np.linspace(0.1, 1, 50), *[1.0] * 50, *beyond])
    found = np.arange(len(radius)) < 50
    known = pseudo_values(radius, found, np.zeros(len(radius), dtype=np.int64), 1, 5.0)
    assert known.reach.tolist() == [1]
    assert known.unknown[0] == pytest.approx(50 / len(radius))


def test_the_curve_is_held_beyond_the_last_search_and_the_share_that_is_not_known_is_given() -> None:
    radius, found = np.array([1.0, 2.0, 2.0, 1.5]), np.array([True, False, False, True])
    known = pseudo_values(radius, found, np.zeros(4, dtype=np.int64), 1, 3.0)
    assert known.unknown.tolist() == [0.5]
    assert known.values.mean() == pytest.approx(0.25 * 1 + 0.25 * 1.5 + 0.5 * 3)
    assert pseudo_values(radius, found, np.zeros(4, dtype=np.int64), 1, 2.0).unknown.tolist() == [0.0]


@pytest.mark.parametrize("seed", range(4))
def test_the_curve_made_of_masses_is_kaplan_and_meiers(seed: int) -> None:
    radius, found = simulated(seed)
    share = masses(radius, found)
    assert share.sum() == pytest.approx(1)
    curve = RobustnessCurve(np.where(found, radius, math.inf)[share > 0], share[share > 0])
    for horizon in (0.5, 1.7, 3.0):
        assert curve.area(up_to=horizon) == pytest.approx(by_hand(radius, found, horizon), abs=1e-12)
    for tau in (0.0, 0.4, 2.2):
        slope = (by_hand(radius, found, tau + 1e-3) - by_hand(radius, found, tau)) / 1e-3
        assert curve.at(tau) == pytest.approx(slope, abs=1e-9)


def test_lifelines_finds_the_same_means() -> None:
    lifelines = pytest.importorskip("lifelines")
    utils = pytest.importorskip("lifelines.utils")
    for seed in range(10):
        radius, found = simulated(seed, size=200)
        horizon = float(np.quantile(radius, 0.9)) + 0.05
        fitted = lifelines.KaplanMeierFitter().fit(radius, found)
        mean = utils.restricted_mean_survival_time(fitted, horizon)
        assert restricted(radius, found, horizon).mean() == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_spread_of_pseudo_values_is_greenwoods_standard_error(seed: int) -> None:
    radius, found = simulated(seed)
    values, horizon = restricted(radius, found, 2.5), 2.5
    variance = 0.0
    for tau in sorted(set(radius[found & (radius < horizon)].tolist())):
        here, risk = int((found & (radius == tau)).sum()), int((radius >= tau).sum())
        beyond = by_hand(radius, found, horizon) - by_hand(radius, found, tau)
        variance += beyond**2 * here / (risk * (risk - here)) if risk > here else 0.0
    assert values.var() / len(values) == pytest.approx(variance, rel=1e-9)


def test_a_weight_of_three_is_three_samples() -> None:
    radius, found = simulated(7)
    weight = np.random.default_rng(7).integers(1, 4, len(radius))
    rows = np.repeat(np.arange(len(radius)), weight)
    repeated, weighted = restricted(radius[rows], found[rows], 2.5), restricted(radius, found, 2.5, weight * 1.0)
    assert repeated == pytest.approx(weighted[rows])
    assert masses(radius, found, weight * 1.0) == pytest.approx(
        np.bincount(rows, weights=masses(radius[rows], found[rows]))
    )


# The rule for the horizon. -------------------------------------------------------------------------------------------


def rule(radius: list[float], failed: list[int]) -> float:
    lost = np.isin(np.arange(len(radius)), failed)
    return float(largest_radius_at_risk(np.array(radius), lost, np.zeros(len(radius), dtype=np.int64), 1, 0.05)[0])


@pytest.mark.parametrize(
    ("radius", "failed", "largest"),
    [
        ([1, 2, 3, 4], [], math.inf),
        ([1, 2, 3, 4], [0], math.inf),  # one failed search, and a later distance was found
        ([1, 2, 3, 4], [3], 4),  # nothing is known beyond the last search
        ([1, 2, 3, 4], [0, 1], 3),  # two failed: at 3 two samples are left, at 4 one
        ([1, 2, 3, math.inf], [0], math.inf),  # proven: nothing is unknown
        ([0.5, 1, 1, 1, math.inf, math.inf], [1, 2, 3], 1),  # proofs for others do not tell how far these three lie
        ([1] + [math.inf] * 99, [0], math.inf),  # 1 % of a group that is proven otherwise
        ([0.0] * 90 + [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], list(range(90, 99)), 6),  # 5 % of 100 are enough
        ([5, 5, 5, 5], [0, 1, 2, 3], 5),
        ([1, 1, 2, 2], [0, 1], math.inf),  # enough up to the farthest distance, which was found
    ],
)
def test_the_largest_radius_with_enough_samples_at_risk(radius: list[float], failed: list[int], largest: float) -> None:
    assert rule(radius, failed) == largest


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_rule_is_what_its_words_say(seed: int) -> None:
    radius, found = simulated(seed, size=50)
    allowed = [
        tau
        for tau in radius
        if (radius >= tau).sum() >= min((~found & (radius < tau)).sum(), max(2, 0.05 * len(radius)))
    ]
    is_free = len(allowed) == len(radius) and found[radius == radius.max()].all()
    assert rule(radius.tolist(), np.flatnonzero(~found).tolist()) == (math.inf if is_free else max(allowed, default=0))
