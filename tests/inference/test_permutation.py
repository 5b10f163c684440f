import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.core.partition import Partition
from fairmargin.inference import permutation
from fairmargin.inference.permutation import (
    holm,
    hypotheses,
    permutation_test,
    permutations_needed,
    sequential_test,
)
from fairmargin.inference.units import TOTAL, UNITS, common_mix
from tests.inference.builders import cells_of, groups_of

law = settings(max_examples=100, deadline=None, derandomize=True)


def p_of(values, groups, control=None, cluster=None, seed=0, tested=None):
    cells = cells_of(values, groups, control, cluster)
    which = np.ones(len(groups.labels), dtype=bool) if tested is None else np.array(tested)
    return permutation_test(cells, common_mix(cells.moments()).mix, which, alpha=0.05, seed=seed).p


def alarm_limit(alpha, trials):
    """Return a share three binomial standard errors above α."""
    return alpha + 3 * math.sqrt(alpha * (1 - alpha) / trials)


# Holm's correction. --------------------------------------------------------------------------------------------------


def plain_holm(p):
    """Return, for each p-value, the largest (m − rank) · q among the p-values q that are not larger."""
    ordered = sorted(p)
    return [min(1.0, max((len(p) - r) * q for r, q in enumerate(ordered) if q <= own)) for own in p]


@law
@given(st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.02, math.nan]), min_size=1, max_size=12))
def test_holms_correction_is_the_obvious_one_for_the_groups_that_were_tested(p):
    adjusted = holm(np.array(p))
    tested = [q for q in p if not math.isnan(q)]
    assert adjusted[~np.isnan(p)].tolist() == pytest.approx(plain_holm(tested))
    assert np.isnan(adjusted[np.isnan(p)]).all()


def test_two_groups_are_one_hypothesis_and_three_are_as_many_as_are_tested():
    assert hypotheses(np.array([True, True])) == 1
    assert hypotheses(np.array([True, True, True])) == 3
    assert hypotheses(np.array([True, False, True, True])) == 3
    assert holm(np.array([0.03, 0.03]), hypotheses=1).tolist() == [0.03, 0.03]


@law
@given(st.integers(1, 5_000), st.floats(0.001, 0.5), st.integers(1, 10**9))
def test_permutations_suffice_for_a_corrected_p_below_alpha(count, alpha, units):
    most = permutations_needed(count, alpha, units)
    assert count / (1 + most) <= alpha / 2
    assert most >= 999


def test_the_smallest_corrected_p_of_many_groups_can_fall_below_alpha():
    values = np.random.default_rng(0).gamma(2, 1, 40 * 30)
    values[:30] *= 4
    adjusted = holm(p_of(values, groups_of(*[30] * 40)))
    assert adjusted[0] < 0.05
    assert (adjusted[1:] > 0.05).all()


# The test of each group against its rest. ----------------------------------------------------------------------------


def studentised(own, rest, axis=-1):
    error2 = sum(np.var(side, axis=axis, ddof=1) / side.shape[axis] for side in (own, rest))
    return np.abs(own.mean(axis=axis) - rest.mean(axis=axis)) / np.sqrt(error2)


@pytest.mark.parametrize(
    ("sizes", "shift"),
    [(sizes, shift) for sizes in ((5, 6), (3, 9), (9, 3), (20, 25, 30), (60, 8, 7)) for shift in (1.0, 2.0, 3.0, 8.0)],
)
def test_p_agrees_with_scipys_permutation_test(sizes, shift):
    values, partition = np.random.default_rng(3).lognormal(size=sum(sizes)), groups_of(*sizes)
    values[: sizes[0]] *= shift
    draws = np.inf if len(sizes) == 2 else 9_999  # all permutations, where these are few
    own = partition.membership == 0
    oracle = stats.permutation_test(
        (values[own], values[~own]), studentised, vectorized=True, n_resamples=draws, alternative="greater", rng=0
    ).pvalue
    # A p-value from 100 exceedances has a relative error of a tenth; fewer have that of 9,999 permutations.
    assert abs(p_of(values, partition)[0] - oracle) < 5 * max(0.1 * oracle, math.sqrt(oracle / 9_999))


def test_two_groups_have_the_same_p_and_the_unit_of_length_does_not_matter():
    values = np.random.default_rng(5).gamma(2, 1, 50)
    one, other = p_of(values, groups_of(20, 30))
    assert one == other
    np.testing.assert_allclose(p_of(1e-6 * values, groups_of(20, 30)), [one, one], rtol=0.02)


@pytest.mark.parametrize("constant", [0.0, 1.0, 1 / 3, 1e9])
def test_constant_data_have_p_one_and_two_different_constants_the_smallest_p(constant):
    assert p_of(np.full(30, constant), groups_of(10, 12, 8)).tolist() == [1.0] * 3
    different = p_of(np.repeat([1.0, 2.0], 20), groups_of(20, 20))
    assert different.tolist() == pytest.approx([1e-4, 1e-4])


def test_groups_that_are_not_tested_have_no_p():
    p = p_of(np.arange(1.0, 31.0), groups_of(10, 10, 10), tested=[True, False, True])
    assert np.isnan(p).tolist() == [False, True, False]


@pytest.mark.parametrize("sizes", [(4, 8), (4, 5, 6)])
def test_under_exchangeability_p_falls_to_alpha_at_most_a_share_alpha_of_the_time(sizes):
    rng, trials = np.random.default_rng(7), 400 if len(sizes) == 2 else 200
    partition = groups_of(*sizes)
    p = np.array([p_of(rng.lognormal(size=sum(sizes)), partition, seed=i) for i in range(trials)])
    for alpha in (0.05, 0.1, 0.3):
        assert (p <= alpha).mean(axis=0).max() <= alarm_limit(alpha, trials)
    assert (p <= 0.3).mean() > 0.2  # the test does reject
    any_alarm = np.mean([holm(row, hypotheses(np.ones(len(sizes), dtype=bool))).min() <= 0.05 for row in p])
    assert any_alarm <= alarm_limit(0.05, trials)


def test_studentising_keeps_the_level_where_a_raw_difference_of_means_does_not():
    rng, trials, alpha = np.random.default_rng(8), 150, 0.05
    partition, ours, raw = groups_of(10, 60), 0, 0
    for trial in range(trials):
        values = np.concatenate([rng.normal(10, 3, 10), rng.normal(10, 0.5, 60)])
        ours += p_of(values, partition, seed=trial)[0] <= alpha
        permuted = rng.permuted(np.broadcast_to(values, (199, 70)), axis=1)
        gap = np.abs(permuted[:, :10].mean(axis=1) - permuted[:, 10:].mean(axis=1))
        raw += (1 + (gap >= abs(values[:10].mean() - values[10:].mean())).sum()) / 200 <= alpha
    assert raw / trials > 0.2
    assert ours / trials <= 0.12


def test_one_random_order_is_an_exact_draw_for_groups_of_every_size():
    """The mean of each group over all its draws, and the share of each of them, are those of all subsets."""
    values = 2.0 ** np.arange(6)
    cells = cells_of(values, groups_of(1, 2, 3))
    rows = 60_000
    drawn = permutation._draw_sums(cells, np.array([[1], [2], [3]]), None, rows, np.random.default_rng(0))
    for count in (1, 2, 3):
        totals, times = np.unique(drawn[:, count - 1, 0, TOTAL], return_counts=True)
        assert len(totals) == math.comb(6, count)  # the sum tells the subset
        assert stats.chisquare(times).pvalue > 1e-3
        assert (drawn[:, count - 1, 0, UNITS] == count).all()


# Strata and clusters. ------------------------------------------------------------------------------------------------


def simpson(seed):
    """Return easy and hard classes, and groups that differ only in their mix of them."""
    rng = np.random.default_rng([seed, 9])
    hard = np.repeat([True, False, True, False], [32, 8, 8, 32])
    return np.where(hard, 1.0, 3.0) * rng.gamma(9, 1 / 9, 80), groups_of(40, 40), Partition.by("class", hard)


def test_permuting_inside_strata_does_not_report_a_mere_mix_of_classes():
    trials, alpha = 100, 0.05
    inside = sum(p_of(values, groups, control)[0] <= alpha for values, groups, control in map(simpson, range(trials)))
    assert inside / trials <= alarm_limit(alpha, trials)
    for seed in range(5):  # while without strata it is always reported
        values, groups, _ = simpson(seed)
        assert p_of(values, groups)[0] <= alpha


def test_a_difference_between_strata_alone_has_p_one_and_one_inside_every_stratum_is_found():
    control = Partition.by("class", [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1])
    assert p_of(np.where(control.membership == 0, 1.0, 5.0), groups_of(6, 6), control).tolist() == [1.0, 1.0]
    values, partition, control = simpson(0)
    assert p_of(np.where(partition.membership == 0, 2.0 * values, values), partition, control)[0] < 0.001


def test_a_stratum_that_lacks_one_side_causes_no_warning_of_numpy():
    values = np.random.default_rng(15).gamma(2, 1, 60)
    control = Partition.by("class", [0] * 10 + [1] * 20 + [0] * 30)  # class 1 is in the first group only
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p_of(values, groups_of(30, 30), control)


def test_clusters_are_permuted_whole():
    rng, trials = np.random.default_rng(10), 30
    single = whole = 0
    people = np.repeat(np.arange(20), 10)
    for trial in range(trials):
        values = np.repeat(rng.gamma(2, 1, 20), 10)  # ten copies of each person
        single += p_of(values, groups_of(100, 100), seed=trial)[0] <= 0.05
        whole += p_of(values, groups_of(100, 100), cluster=people, seed=trial)[0] <= 0.05
    assert single / trials > 0.3
    assert whole / trials <= alarm_limit(0.05, trials)


# Stopping early. -----------------------------------------------------------------------------------------------------


class Chance:
    """Statistics that exceed 1 − p with probability p, and the number of permutations of each group."""

    def __init__(self, groups):
        self.rows = np.zeros(groups, dtype=int)

    def __call__(self, groups, rows, stream):
        self.rows[groups] += rows
        return stream.random((rows, len(groups)))


TRUE_P = np.array([0.0005, 0.003, 0.02, 0.2, 0.9])


def sequential(p, most, seed=0):
    chance = Chance(len(p))
    return sequential_test(1 - p, chance, np.ones(len(p), dtype=bool), most=most, values=10, seed=seed), chance.rows


def test_stopping_early_gives_the_p_of_a_full_run_within_its_error(monkeypatch):
    early, rows = sequential(TRUE_P, 9_999)
    monkeypatch.setattr(permutation, "_ENOUGH_EXCEEDANCES", 10**9)
    full, _ = sequential(TRUE_P, 9_999)
    full_error = np.sqrt(TRUE_P * (1 - TRUE_P) / 9_999) + 1e-4
    assert (np.abs(full.p - TRUE_P) < 4 * full_error).all()
    assert (np.abs(early.p - TRUE_P) < 4 * (full_error + 0.1 * TRUE_P)).all()
    assert (rows[0], rows[4]) == (9_999, 250)  # groups that are clearly not significant are permuted no more
    assert (np.diff(rows) <= 0).all()


def test_p_is_never_zero():
    found, rows = sequential(np.array([-1.0]), 999)
    assert (found.p[0], rows[0]) == (1 / 1000, 999)


def test_early_p_values_keep_their_level():
    trials, rng = 400, np.random.default_rng(11)
    p = np.array([sequential(1 - rng.random(1), 999, seed=i)[0].p[0] for i in range(trials)])
    for alpha in (0.02, 0.05, 0.2, 0.5):
        assert (p <= alpha).mean() <= alarm_limit(alpha, trials)
    assert (p <= 0.5).mean() > 0.4
