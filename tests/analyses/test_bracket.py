"""A bracket encloses the truth, says certain only where the bounds decide, and refuses what does not belong there."""

import math

import numpy as np
import pytest

from fairmargin.analyses.bracket import (
    CERTAINLY_LESS,
    CERTAINLY_LESS_HERE,
    CERTAINLY_MORE,
    NOT_CERTAIN,
    bracket,
)
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.estimate import NOT_COMPARABLE, TOO_FEW
from fairmargin.inference.settings import AuditSettings

QUICK = AuditSettings(resamples=300)


def bounds(truth, loose=0.2, seed=0, subject="model"):
    rng = np.random.default_rng(seed)
    correct = truth > 0
    lower = truth * rng.uniform(1 - loose, 1, len(truth))
    upper = truth * rng.uniform(1, 1 + loose, len(truth))
    return (
        Distances(lower, correct, Bound.LOWER, Norm.L2, subject),
        Distances(upper, correct, Bound.UPPER, Norm.L2, subject),
    )


def two_groups(weak=1.0, strong=2.0, size=150, seed=1):
    rng = np.random.default_rng(seed)
    truth = np.concatenate([rng.gamma(4, weak, size), rng.gamma(4, strong, size)])
    truth[rng.random(2 * size) < 0.1] = 0.0
    return truth, Partition.by("sex", ["F"] * size + ["M"] * size)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loose", [0.0, 0.1, 0.9])
def test_the_limits_for_these_samples_contain_the_truth(seed, loose):
    truth, groups = two_groups(seed=seed)
    found = bracket(*bounds(truth, loose, seed), groups, QUICK)
    for i, row in enumerate(found):
        own, rest = truth[groups.membership == i].mean(), truth[groups.membership != i].mean()
        assert row.robustness.low <= own * (1 + 1e-12)
        assert own <= row.robustness.high * (1 + 1e-12)
        assert row.gap.low <= own - rest + 1e-12
        assert own - rest <= row.gap.high + 1e-12
        assert row.sigma.low <= own / rest - 1 + 1e-12
        assert own / rest - 1 <= row.sigma.high + 1e-12
        assert row.sigma.population_low < row.sigma.low
        assert row.sigma.high < row.sigma.population_high
    means = [truth[mask].mean() for _, mask in groups]
    assert found.variance[0] - 1e-12 <= np.var(means) <= found.variance[1] + 1e-12


def test_sigma_is_bracketed_by_the_quotients_of_opposite_bounds():
    truth, groups = two_groups()
    lower, upper = bounds(truth)
    row = bracket(lower, upper, groups, QUICK)["F"]
    own = groups.membership == 0
    assert row.sigma.low == pytest.approx(lower.values[own].mean() / upper.values[~own].mean() - 1)
    assert row.sigma.high == pytest.approx(upper.values[own].mean() / lower.values[~own].mean() - 1)


def test_a_gap_that_no_distances_between_the_bounds_could_turn_is_certain():
    truth, groups = two_groups(weak=1.0, strong=2.0)
    found = bracket(*bounds(truth, 0.1), groups, QUICK)
    assert (found["F"].verdict, found["M"].verdict) == (CERTAINLY_LESS, CERTAINLY_MORE)
    assert "whatever the attack" in found.finding(found["F"])


def test_loose_bounds_make_nothing_certain_however_large_the_gap():
    truth, groups = two_groups(weak=1.0, strong=2.0)
    found = bracket(*bounds(truth, 0.95), groups, QUICK)
    assert {(row.verdict, row.p, row.p_adjusted) for row in found} == {(NOT_CERTAIN, 1.0, 1.0)}


def test_a_gap_of_these_samples_alone_is_not_said_of_the_population():
    truth, groups = two_groups(weak=1.0, strong=1.0, size=40, seed=3)
    means = [truth[mask].mean() for _, mask in groups]
    exact = Distances(truth, truth > 0, Bound.EXACT, Norm.L2)
    found = bracket(exact, exact, groups, QUICK)
    assert found.share_closed == 1
    assert means[0] < means[1]  # by chance alone
    assert found["F"].verdict == CERTAINLY_LESS_HERE


def test_the_population_is_missed_seldom_even_with_exact_distances():
    hits, rounds = 0, 50
    rng = np.random.default_rng(0)
    groups = Partition.by("sex", ["F"] * 60 + ["M"] * 60)
    for _ in range(rounds):
        truth = np.concatenate([rng.gamma(2, 1.0, 60), rng.gamma(2, 2.0, 60)])
        exact = Distances(truth, truth > 0, Bound.EXACT, Norm.L2)
        sigma = bracket(exact, exact, groups, AuditSettings(resamples=200))["F"].sigma
        hits += sigma.population_low <= -0.5 <= sigma.population_high
    assert 0.88 <= hits / rounds <= 1 - 1e-9


def test_a_smoothed_models_bounds_may_cross_by_chance_and_then_count_widely():
    truth, groups = two_groups()
    lower, upper = bounds(truth, subject="smoothed(0.5)")
    first = int(np.flatnonzero(truth > 0)[0])
    wrong = lower.values.copy()
    wrong[first] = upper.values[first] * 1.1
    crossed = Distances(wrong, lower.correct, Bound.LOWER, Norm.L2, "smoothed(0.5)")
    found, plain = bracket(crossed, upper, groups, QUICK), bracket(lower, upper, groups, QUICK)
    assert found.crossed == 1
    assert all("false certificates" in found.finding(row) for row in found)
    assert found["F"].robustness.low < plain["F"].robustness.low
    assert found["F"].robustness.high > plain["F"].robustness.high


def test_where_an_attack_found_nothing_both_bounds_are_capped_alike():
    truth, groups = two_groups()
    lower, upper = bounds(truth)
    values = upper.values.copy()
    values[np.flatnonzero(truth > 0)[:3]] = np.inf
    unreached = Distances(values, upper.correct, Bound.UPPER, Norm.L2)
    found = bracket(lower, unreached, groups, QUICK)
    assert math.isfinite(found.up_to)
    assert "3 of 300" in found.cap_reason
    assert math.isfinite(found["F"].sigma.high)


def test_what_is_certain_of_capped_distances_names_the_radius_in_every_place():
    rest, near = np.full(100, 0.905), np.full(50, 0.1)
    lower = np.concatenate([near, np.full(50, 0.905), rest])
    upper = np.concatenate([near, np.full(50, np.inf), rest])  # the true distance of those 50 is 80.5: mean 40.3
    groups = Partition.by("sex", ["F"] * 100 + ["M"] * 100)
    sides = (Distances(v, v > 0, b, Norm.L2) for v, b in ((lower, Bound.LOWER), (upper, Bound.UPPER)))
    found = bracket(*sides, groups, QUICK)
    assert found["F"].verdict == CERTAINLY_LESS
    assert found.up_to == 0.905
    radius = "up to a radius of 0.905"
    assert all(radius in found.finding(row) for row in found)
    assert radius in str(found).splitlines()[0]
    assert "50 of 200 samples have no finite upper bound" in str(found)
    assert set(found.to_frame()["up_to"]) == {0.905}


def test_a_radius_that_was_asked_for_is_named_with_what_it_cuts_and_no_radius_where_there_is_none():
    truth, groups = two_groups()
    lower, upper = bounds(truth, 0.1)
    found = bracket(lower, upper, groups, AuditSettings(resamples=300, up_to=3.0))
    assert "up to a radius of 3" in found.finding(found["F"])
    assert f"{(upper.values > 3).sum()} of {(truth > 0).sum()} finite distances above 0" in found.cap_reason
    assert "radius" not in str(bracket(lower, upper, groups, QUICK))


def test_how_far_a_failed_attack_looked_does_not_matter_between_two_bounds():
    truth, groups = two_groups()
    lower, upper = bounds(truth)
    values = upper.values.copy()
    values[np.flatnonzero(truth > 0)[0]] = np.inf
    tried = np.where(np.isinf(values), 0.05, 0.0)
    short = Distances(values, upper.correct, Bound.UPPER, Norm.L2, tried=tried)
    found = bracket(lower, short, groups, QUICK)
    assert found.up_to == values[np.isfinite(values)].max()
    assert found["F"].verdict == CERTAINLY_LESS


@pytest.mark.parametrize("seed", range(8))
def test_rounding_makes_nothing_certain_of_groups_with_the_same_distances(seed):
    rng = np.random.default_rng(seed)
    own = rng.gamma(2, 1, 40)
    times = int(rng.integers(1, 4))
    values = np.concatenate([own, rng.permutation(np.tile(own, times))])
    exact = Distances(values, values > 0, Bound.EXACT, Norm.L2)
    groups = Partition.by("g", ["a"] * 40 + ["b"] * 40 * times)
    for row in bracket(exact, exact, groups, AuditSettings(resamples=200)):
        assert row.verdict == NOT_CERTAIN
        assert 0 in row.gap
        assert 0 in row.sigma


def test_no_distances_between_the_bounds_leave_the_limits_for_these_samples():
    rng = np.random.default_rng(0)
    for _ in range(40):
        sizes = rng.integers(2, 5, rng.integers(2, 5))
        samples = int(sizes.sum())
        lower = np.round(rng.gamma(1, 1, samples), 1) * (rng.random(samples) < 0.8)
        upper = lower + np.round(rng.gamma(1, 1, samples), 1) * (rng.random(samples) < 0.7)
        correct = upper > 0
        groups = Partition("g", list("abcd"[: len(sizes)]), np.repeat(np.arange(len(sizes)), sizes))
        sides = (Distances(v, correct, b, Norm.L2) for v, b in ((lower, Bound.LOWER), (upper, Bound.UPPER)))
        found = bracket(*sides, groups, AuditSettings(resamples=200, smallest_group=2))
        ends = rng.random((300, samples)) < rng.random((300, 1))
        inside = rng.uniform(lower, np.nextafter(upper, np.inf), (300, samples)).clip(lower, upper)
        points = np.concatenate([np.where(ends, upper, lower), inside])
        means = np.stack([points[:, mask].mean(axis=1) for _, mask in groups], axis=1)
        assert (found.variance[0] <= means.var(axis=1)).all()
        assert (means.var(axis=1) <= found.variance[1]).all()
        for i, row in enumerate(found):
            own, rest = means[:, i], points[:, groups.membership != i].mean(axis=1)
            for limits, values in ((row.robustness, own), (row.gap, own - rest)):
                assert (limits.low <= values).all()
                assert (values <= limits.high).all()
            known = rest > 0
            sigma = own[known] / rest[known] - 1
            assert (row.sigma.low <= sigma).all()
            assert (sigma <= row.sigma.high).all()


def test_a_group_whose_rest_may_have_no_robustness_at_all_may_be_any_times_as_robust():
    truth, groups = two_groups()
    nothing = Distances(np.zeros(300), truth > 0, Bound.LOWER, Norm.L2)
    _, upper = bounds(truth)
    sigma = bracket(nothing, upper, groups, QUICK)["F"].sigma
    assert (sigma.low, sigma.high) == (-1.0, math.inf)


def test_small_groups_and_lonely_ones_get_no_verdict():
    truth, _ = two_groups()
    small = Partition.by("sex", ["F"] * 5 + ["M"] * 295)
    assert {row.verdict for row in bracket(*bounds(truth), small, QUICK)} == {TOO_FEW}
    alone = Partition.by("sex", ["F"] * 300)
    row = bracket(*bounds(truth), alone, QUICK)["F"]
    assert row.verdict == NOT_COMPARABLE
    assert not row.sigma.is_known
    assert row.robustness.is_known


def test_equal_bounds_and_equal_groups_are_said_to_be_equal():
    values = np.tile([1.0, 2.0], 60)
    same = [Distances(values, np.ones(120, bool), bound, Norm.L2) for bound in (Bound.LOWER, Bound.UPPER)]
    found = bracket(*same, Partition.by("half", np.repeat(["a", "b"], 60)))
    assert "there is no difference in these samples" in found.finding(found["a"])
