"""Numbers of draws planned from a pilot, and the level of certificates with any plan."""

import numpy as np
import pytest
from scipy import special, stats

from fairmargin.distances.smoothing.estimator import certified_radius, largest_radius, lower_share, planned_draws

PLAN = {"pilot": 100, "draws": 10_000, "alpha": 0.001, "price": 0.17}


def test_the_lower_limit_is_the_share_at_which_so_many_votes_have_probability_alpha():
    for votes, draws, alpha in [(60, 100, 0.01), (1, 5, 0.2), (5, 5, 0.001), (9_990, 10_000, 0.001)]:
        limit = float(lower_share(votes, draws, alpha))
        assert stats.binom.sf(votes - 1, draws, limit) == pytest.approx(alpha, rel=1e-6)
    assert lower_share(0, 10, 0.1) == 0
    assert lower_share(0, 0, 0.1) == 0


def test_the_largest_radius_is_sigma_times_the_probit_of_the_nth_root_of_alpha():
    for draws in (10, 1_000, 100_000):
        expected = 0.5 * stats.norm.ppf(0.001 ** (1 / draws))
        assert largest_radius(0.5, draws, 0.001) == pytest.approx(max(0, expected), rel=1e-9)
    assert largest_radius(0.5, 5, 0.001) == 0  # 0.001 ** (1 / 5) is below a half


def test_a_plan_gives_more_draws_to_more_votes_and_never_more_than_allowed():
    fresh = planned_draws(**PLAN)
    assert (np.diff(fresh) >= 0).all()
    assert (fresh[:51] == 0).all()
    assert 0 < fresh[55] < fresh[100] <= 10_000
    assert len(fresh) == 101


def test_draws_that_cost_more_are_fewer_and_free_ones_are_all_made():
    cheap, expensive = (planned_draws(**{**PLAN, "price": price}) for price in (0.05, 0.5))
    assert (expensive <= cheap).all()
    assert expensive[51:].sum() < 0.5 * cheap[51:].sum()
    assert (planned_draws(**{**PLAN, "price": 0.0})[51:] == 10_000).all()


@pytest.mark.parametrize(("pilot", "draws"), [(1, 1), (2, 7), (10, 50), (300, 200)])
def test_small_pilots_and_few_draws_have_a_plan_too(pilot, draws):
    fresh = planned_draws(pilot, draws, 0.001, 0.17)
    assert fresh.shape == (pilot + 1,)
    assert ((fresh >= 0) & (fresh <= draws)).all()


def test_a_plan_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        planned_draws(**PLAN)[0] = 7


@pytest.mark.parametrize("share", [0.5, 0.55, 0.8, 0.97, 0.999])
def test_with_a_plan_certificates_are_false_no_more_often_than_alpha(share):
    alpha, times = 0.05, 40_000
    rng = np.random.default_rng(int(1000 * share))
    fresh = planned_draws(50, 400, alpha, 0.17)[rng.binomial(50, share, times)]
    radii = certified_radius(rng.binomial(fresh, share), fresh, 1.0, alpha)
    false = (radii > max(0.0, special.ndtri(share))).mean()
    assert false <= alpha + 4 * np.sqrt(alpha * (1 - alpha) / times)
    if share == 0.8:
        assert false > alpha / 4  # the test has power


def test_planned_draws_are_at_most_five_ninths_for_at_most_two_per_cent_of_radius():
    # Shares as of a network trained with noise: many unanimous, some undecided, some wrong.
    rng = np.random.default_rng(0)
    share = special.ndtr(rng.normal(2, 1.2, 100_000))
    votes = rng.binomial(100, share)
    fresh = np.where(votes > 50, planned_draws(**PLAN)[votes], 0)
    planned = certified_radius(rng.binomial(fresh, share), fresh, 1.0, 0.001).mean()
    fixed = np.where(votes > 50, certified_radius(rng.binomial(10_000, share), 10_000, 1.0, 0.001), 0).mean()
    assert 10_100 / (100 + fresh.mean()) > 1.8
    assert planned > 0.98 * fixed
