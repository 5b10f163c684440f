"""The test of equal curves, and the largest robustness bias, against independent answers."""

import math

import numpy as np
import pytest
from scipy import stats

from fairmargin.analyses.curves import compare_curves
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.curves import curve_test, tail_probability
from fairmargin.inference.settings import AuditSettings
from tests.inference.curve_scenarios import NULLS, UNEQUAL, alarms, clusters, controlled, coverage

FEW = 60


def groups_of(codes):
    return Partition("g", [f"g{i}" for i in range(max(codes) + 1)], codes)


def curves_of(values, codes, end=math.inf, **settings):
    chosen = AuditSettings(**settings)
    cluster = chosen.cluster_codes(len(values))
    return curve_test(np.asarray(values, dtype=float), end, groups_of(codes), chosen, cluster)


def obvious_z(values, codes, radius):
    """Return the studentised difference of two shares, with the variance under permutation, for group 0."""
    beyond, own = np.asarray(values) > radius, np.asarray(codes) == 0
    n, m, pooled = own.sum(), (~own).sum(), beyond.mean()
    variance = pooled * (1 - pooled) * (1 / n + 1 / m) * (n + m) / (n + m - 1)
    return (beyond[own].mean() - beyond[~own].mean()) / math.sqrt(variance)


def test_scores_are_studentised_differences_of_shares_where_both_sides_have_the_same_size():
    rng = np.random.default_rng(0)
    values, codes = rng.lognormal(0, 1, 200).round(1), np.repeat([0, 1], 100)
    found = curves_of(values, codes)
    judged = np.flatnonzero(found.score[0])
    assert len(judged) > 15
    for k in judged:  # there is no skewness to correct
        assert found.score[0, k] == pytest.approx(obvious_z(values, codes, found.radii[k]))
        assert found.own[0, k] == pytest.approx(np.mean(values[:100] > found.radii[k]))
    assert found.score[1] == pytest.approx(-found.score[0])
    assert set(found.radii) <= {0.0, *values}


def test_the_variance_and_the_skewness_are_those_of_all_permutations():
    """Twelve samples, five of them in the group: all 792 assignments."""
    from itertools import combinations

    values = np.array([0, 0, 1, 1, 2, 3, 4, 5, 5, 6, 7, 8.0])
    drawn = np.array(list(combinations(values, 5)))
    codes = np.repeat([0, 1], [5, 7])
    for radius in (0.0, 3.0, 5.0):
        shares = (drawn > radius).mean(axis=1)
        rest = ((values > radius).sum() - (drawn > radius).sum(axis=1)) / 7
        deviation = (shares - rest) / (shares - rest).std()
        assert obvious_z(values, codes, radius) == pytest.approx(
            ((values[:5] > radius).mean() - (values[5:] > radius).mean()) / (shares - rest).std()
        )
        assert deviation.mean() == pytest.approx(0)


def test_a_single_radius_gives_nearly_the_chi_squared_test_of_two_shares():
    """Distances that are all 0 or 1 leave one radius: the accuracy."""
    values = np.repeat([0, 1, 0, 1], [60, 140, 90, 110])
    found = curves_of(values, np.repeat([0, 1], 200))
    expected = stats.chi2_contingency([[60, 140], [90, 110]], correction=False).pvalue
    assert found.p[0] == pytest.approx(expected, rel=0.02)


def test_p_is_close_to_that_of_permutations_and_not_below():
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.gamma(2, 0.5, 150), rng.gamma(4, 0.25, 300)])
    codes = np.repeat([0, 1], [150, 300])
    shift = 0.13 * (codes == 0)
    observed = curves_of(values + shift, codes)
    largest = np.abs(observed.score[0]).max()
    exceeded = [np.abs(curves_of(values + shift, rng.permutation(codes)).score[0]).max() >= largest for _ in range(400)]
    permuted = np.mean(exceeded)
    assert permuted - 0.02 <= observed.p[0] <= 3 * permuted + 0.02


def test_the_tail_probability_is_that_of_a_brownian_bridge():
    """The largest |B(t)| / √(t(1 − t)) over 5 % ≤ t ≤ 95 %, simulated at 1,000 times."""
    rng = np.random.default_rng(4)
    steps = np.cumsum(rng.normal(size=(3_000, 1_000)), axis=1) / math.sqrt(1_000)
    t = np.arange(1, 1_001) / 1_000
    bridge, inside = steps - t * steps[:, -1:], (t >= 0.05) & (t <= 0.95)
    largest = np.abs(bridge[:, inside] / np.sqrt(t * (1 - t))[inside]).max(axis=1)
    for level in (2.5, 3.0, 3.5):
        expected = tail_probability(np.array([level]), np.array([2 * math.log(19)]), np.array([1e9]))[0]
        assert 0.8 * expected - 0.003 <= np.mean(largest >= level) <= expected + 0.01


def test_critical_scores_are_inverses_of_p():
    found = curves_of(np.random.default_rng(5).lognormal(0, 1, 300), np.arange(300) % 3)
    for alpha in (0.05, 0.001):
        assert tail_probability(found.critical(alpha), found.roughness, found.judged) == pytest.approx([alpha] * 3)


def test_clusters_of_one_sample_and_equal_weights_change_nothing():
    rng = np.random.default_rng(6)
    values, codes = rng.lognormal(0, 1, 240), np.arange(240) % 3
    plain = curves_of(values, codes)
    assert curves_of(values, codes, sample_weight=np.full(240, 7.0)).p.tolist() == plain.p.tolist()
    alone = curves_of(values, codes, cluster=np.arange(240))
    judged = (alone.score != 0) & (plain.score != 0)
    sizes = [np.abs(each.score[judged]) for each in (alone, plain)]
    assert (sizes[0] <= sizes[1] + 0.1).all()  # the variance of clusters is the larger of two
    assert sizes[0] == pytest.approx(sizes[1], abs=0.5)


def test_copies_of_samples_in_clusters_are_no_evidence():
    rng = np.random.default_rng(7)
    values, codes = rng.lognormal(0, 1, 100), np.arange(100) % 2
    values[codes == 0] *= 0.75
    copies = curves_of(np.tile(values, 4), np.tile(codes, 4), cluster=np.tile(np.arange(100), 4))
    assert np.abs(copies.score).max() == pytest.approx(np.abs(curves_of(values, codes).score).max(), rel=0.1)
    assert curves_of(np.tile(values, 4), np.tile(codes, 4)).p[0] < 0.1 * copies.p[0]
    assert copies.effective.tolist() == [50, 50]


def test_whole_weights_compare_the_same_curves_as_repeated_samples():
    rng = np.random.default_rng(8)
    values, codes, weights = rng.lognormal(0, 1, 300), np.arange(300) % 2, rng.integers(1, 4, 300)
    one = curves_of(values, codes, sample_weight=weights)
    many = curves_of(np.repeat(values, weights), np.repeat(codes, weights))
    at = np.isin(one.radii, many.radii)
    assert one.own[:, at] == pytest.approx(many.own[:, np.isin(many.radii, one.radii)])
    assert (one.p > many.p).all()  # repeated samples are not independent


def test_a_difference_that_only_mirrors_the_control_does_not_show():
    drawn = [controlled(seed) for seed in range(5)]
    inside = [compare_curves(each.distances, each.partition, each.settings) for each in drawn]
    without = [compare_curves(each.distances, each.partition) for each in drawn]
    assert min(row.p_adjusted for found in inside for row in found) > 0.01
    assert np.mean([min(row.p for row in found) < 0.01 for found in without]) == 1


def test_the_largest_bias_is_the_statistic_of_kolmogorov_and_smirnov_with_ties_and_many_groups():
    rng = np.random.default_rng(9)
    values = rng.gamma(2, 1, 3_000).round(2) * (rng.random(3_000) < 0.8)
    partition = groups_of(rng.integers(0, 40, 3_000))
    found = compare_curves(Distances(values, values > 0, "exact", "l2"), partition)
    for row, own in zip(found, partition.rows(), strict=True):
        mask = np.isin(np.arange(3_000), own)
        expected = stats.ks_2samp(values[mask & (values > 0)], values[~mask & (values > 0)])
        assert row.robustness_bias_max.value == pytest.approx(expected.statistic)
        at = [np.mean(values[side & (values > 0)] > row.robustness_bias_radius) for side in (mask, ~mask)]
        assert abs(at[0] - at[1]) == pytest.approx(expected.statistic)


def test_the_band_of_a_group_against_a_huge_rest_is_kolmogorovs():
    values = np.random.default_rng(10).lognormal(0, 1, 200_100)
    partition = groups_of(np.repeat([0, 1], [100, 200_000]))
    row = compare_curves(Distances(values, values > 0, "exact", "l2"), partition)["g0"]
    assert row.robustness_bias_band == pytest.approx(stats.kstwo.ppf(0.95, 100), rel=0.02)


@pytest.mark.parametrize("across", [False, True])
def test_bands_with_clusters_are_at_least_as_wide_as_without(across):
    drawn = clusters(0, across=across)
    for one, other in zip(
        compare_curves(drawn.distances, drawn.partition, drawn.settings),
        compare_curves(drawn.distances, drawn.partition),
        strict=True,
    ):
        assert one.robustness_bias_band > 1.2 * other.robustness_bias_band


@pytest.mark.parametrize(
    "scenario", ["lognormal 1, 30 and 30", "95 % zeros, 100 and 1,000", "clusters across groups", "control", "weights"]
)
def test_equal_curves_are_seldom_said_to_differ(scenario):
    assert alarms(NULLS[scenario], FEW) <= 0.06 + 3 * math.sqrt(0.06 * 0.94 / FEW)


@pytest.mark.parametrize("scenario", list(UNEQUAL)[1:2])
def test_bands_and_differences_hold(scenario):
    assert min(coverage(*UNEQUAL[scenario], FEW).values()) >= 0.93 - 3 * math.sqrt(0.93 * 0.07 / FEW)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", NULLS)
def test_equal_curves_are_said_to_differ_in_six_percent_at_most(scenario):
    assert alarms(NULLS[scenario], 1_000, first=10_000) <= 0.06 + 2 * math.sqrt(0.06 * 0.94 / 1_000)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", UNEQUAL)
def test_bands_biases_differences_and_stretches_hold_in_93_percent_at_least(scenario):
    found = coverage(*UNEQUAL[scenario], 1_000, first=10_000)
    assert min(found.values()) >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / 1_000), found


def test_infinite_distances_of_weighted_samples_are_compared_without_a_numpy_warning():
    values = np.append(np.random.default_rng(0).gamma(2, 1, 118), [np.inf, np.inf])
    distances = Distances(values, np.ones(120, dtype=bool), "exact", "l2", tried=np.full(120, np.inf))
    settings = AuditSettings(sample_weight=np.arange(1, 121))
    with np.errstate(all="raise"):
        row = compare_curves(distances, groups_of(np.arange(120) % 2), settings)["g0"]
    assert row.robustness_bias_max.is_defined


def test_clusters_without_any_correct_sample_have_no_robustness_bias_and_a_reason():
    distances = Distances(np.zeros(80), np.zeros(80, dtype=bool), "exact", "l2")
    row = compare_curves(distances, groups_of(np.arange(80) % 2), AuditSettings(cluster=np.arange(80) // 2))["g0"]
    assert row.robustness_bias_max.reason == "no correct sample in group 'g0'"


def test_a_difference_at_a_radius_without_an_interval_names_the_reason():
    values, weights = np.random.default_rng(0).gamma(2, 1, 60), np.arange(1, 61)
    distances = Distances(values, np.ones(60, dtype=bool), "exact", "l2")
    groups = groups_of([0] + [1] * 59)
    for row in compare_curves(distances, groups, AuditSettings(sample_weight=weights), radii=(1.0,)):
        assert math.isnan(row.differences[0].high)
        assert row.differences[0].reason == f"group {row.group!r} or its rest has 1 independent sample: no interval"


def test_weighted_curves_of_which_nothing_is_known_beyond_radius_0_are_compared_there():
    values = np.where(np.arange(80) % 4 == 0, 0.0, np.inf)
    distances = Distances(values, values > 0, "exact", "l2", tried=np.zeros(80))
    settings = AuditSettings(sample_weight=np.arange(1, 81), up_to=1.0)
    row = compare_curves(distances, groups_of(np.arange(80) // 40), settings)["g0"]
    assert (row.robustness_bias_max.value, row.robustness_bias_radius) == pytest.approx((0.0, 0.0))


def test_a_small_group_without_a_rare_near_sample_does_not_differ_where_clusters_span_groups():
    values = np.append(np.full(60, 1.0), np.where(np.arange(240) % 24 == 0, 0.05, 1.0))
    clusters = np.random.default_rng(0).permutation(300) // 2
    distances = Distances(values, np.ones(300, dtype=bool), "exact", "l2")
    for row in compare_curves(
        distances, groups_of([0] * 60 + [1] * 240), AuditSettings(cluster=clusters), radii=(0.1,)
    ):
        (difference,) = row.differences
        assert math.isnan(row.differences_p[0])
        assert difference.low <= 0 <= difference.high
