import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.core.partition import Partition
from fairmargin.inference.units import (
    SAMPLES,
    TOTAL,
    UNITS,
    combined_freedom,
    common_mix,
    group_means,
    kurtosis_freedom,
    make_cells,
    mean_and_error2,
    rest_of,
    two_sides,
)
from tests.inference.builders import cells_of, groups_of

law = settings(max_examples=60, deadline=None, derandomize=True)
rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.floats(0, 100)), min_size=2, max_size=40
)  # group, stratum, value


def read(triples):
    group, stratum, values = (np.array(column) for column in zip(*triples, strict=True))
    return values.astype(float), Partition.by("g", group), Partition.by("class", stratum)


def error2_of(values):
    """Return the squared standard error of a mean, NaN for a single sample."""
    return stats.sem(values) ** 2 if len(values) > 1 else np.nan


# Means and their errors. ---------------------------------------------------------------------------------------------


@law
@given(rows)
def test_single_samples_have_the_mean_and_standard_error_of_scipy(triples):
    values, groups, _ = read(triples)
    mean, error2 = group_means(cells_of(values, groups).moments())
    for g, (_, mask) in enumerate(groups):
        assert mean[g] == pytest.approx(values[mask].mean(), abs=1e-9)
        assert error2[g] == pytest.approx(error2_of(values[mask]), rel=1e-6, abs=1e-9, nan_ok=True)


def loop_mean_and_error2(values, cluster):
    """Return the mean and its squared error as a ratio of cluster totals to cluster sizes, cluster by cluster."""
    mean, inside = float(values.mean()), [values[cluster == who] for who in set(cluster.tolist())]
    squares = sum((each.sum() - mean * len(each)) ** 2 for each in inside)
    return mean, len(inside) / (len(inside) - 1) * squares / len(values) ** 2


def test_clusters_have_the_standard_error_of_the_obvious_loop():
    rng = np.random.default_rng(0)
    cluster = np.unique(np.sort(rng.integers(0, 25, 100)), return_inverse=True)[1]
    values = rng.gamma(2, 1, 100) + cluster
    groups = Partition.by("g", cluster < 10)
    mean, error2 = group_means(cells_of(values, groups, cluster=cluster).moments())
    for g, (_, mask) in enumerate(groups):
        assert (mean[g], error2[g]) == pytest.approx(loop_mean_and_error2(values[mask], cluster[mask]), rel=1e-9)


@pytest.mark.parametrize("copies", [1, 4])
def test_clusters_of_copies_count_as_single_samples(copies):
    values = np.random.default_rng(2).gamma(2, 1, 30)
    once = cells_of(values, groups_of(10, 20))
    repeated = np.repeat(values, copies), groups_of(10 * copies, 20 * copies)
    cells = cells_of(*repeated, cluster=np.repeat(np.arange(30), copies))
    assert cells.are_single == (copies == 1)
    for one, other in zip(group_means(once.moments()), group_means(cells.moments()), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)


def test_the_standard_error_keeps_its_digits_far_from_zero():
    values = 1e3 + np.random.default_rng(3).normal(size=50)
    assert group_means(cells_of(values, groups_of(20, 30)).moments())[1][0] == pytest.approx(
        error2_of(values[:20]), rel=1e-5
    )


@pytest.mark.parametrize("constant", [0.0, 1 / 3, 1e9])
def test_a_constant_group_has_no_spread_and_an_empty_cell_neither_mean_nor_error(constant):
    values = np.concatenate([np.full(10, constant), np.arange(10.0)])
    assert group_means(cells_of(values, groups_of(10, 10)).moments())[1][0] == 0.0
    assert np.isnan(mean_and_error2(np.zeros(6))).all()


# Cells, the rest, and the common mix. --------------------------------------------------------------------------------


@law
@given(rows)
def test_cells_and_rests_hold_the_sums_of_their_samples_and_both_sides_have_the_same_mix(triples):
    values, groups, control = read(triples)
    moments = cells_of(values, groups, control).moments()
    rest = rest_of(moments)
    mix = common_mix(moments).mix
    sides = two_sides(moments, rest, mix)
    assert moments.shape == (len(groups.labels), len(control.labels), 6)
    for g, (_, inside) in enumerate(groups):
        expected = np.zeros(4)
        for k, (_, stratum) in enumerate(control):
            mine, others = values[inside & stratum], values[~inside & stratum]
            assert moments[g, k, [UNITS, SAMPLES, TOTAL]].tolist() == pytest.approx([len(mine)] * 2 + [mine.sum()])
            sums = [len(others), len(others), others.sum(), (others**2).sum(), others.sum(), len(others)]
            assert rest[g, k].tolist() == pytest.approx(sums, rel=1e-9, abs=1e-7)
            if mix[g, k]:
                means, errors2 = [mine.mean(), others.mean()], [error2_of(mine), error2_of(others)]
                expected += [*(mix[g, k] * np.array(means)), *(mix[g, k] ** 2 * np.array(errors2))]
        found = [side[g] for side in (sides.own, sides.rest, sides.own_error2, sides.rest_error2)]
        assert found == pytest.approx(expected.tolist(), rel=1e-6, abs=1e-7, nan_ok=True)
        assert sides.gap[g] == pytest.approx(expected[0] - expected[1], rel=1e-6, abs=1e-7)


def test_a_cluster_in_two_groups_or_two_strata_cannot_be_permuted():
    groups, control = groups_of(2, 2), Partition.by("class", [0, 1, 0, 0])
    assert make_cells(np.arange(4.0), groups, None, np.array([0, 1, 1, 2])) is None
    assert make_cells(np.arange(4.0), groups, control, np.array([0, 0, 1, 1])) is None
    assert make_cells(np.arange(4.0), groups, None, np.array([0, 0, 1, 1])) is not None


@law
@given(rows)
def test_the_weights_of_the_strata_sum_to_one_or_everything_is_dropped(triples):
    common = common_mix(cells_of(*read(triples)).moments())
    total = common.mix.sum(axis=1)
    assert (np.isclose(total, 1) | (total == 0)).all()
    assert ((common.dropped == 1) == (total == 0)).all()
    assert ((common.dropped >= -1e-12) & (common.dropped <= 1)).all()


def test_strata_that_lack_one_side_are_left_out_and_counted():
    # class:      0   1   2
    # group a:    6   3   1
    # group b:    4   0   6    a and b share class 0; in class 2, a has one sample only
    control = Partition.by("class", [0] * 6 + [1] * 3 + [2] + [0] * 4 + [2] * 6)
    common = common_mix(cells_of(np.ones(20), groups_of(10, 10), control).moments())
    assert common.mix.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert common.dropped.tolist() == pytest.approx([0.5, 0.6])  # 10 of 20 samples; 6 of b's own 10
    plain = common_mix(cells_of(np.ones(20), groups_of(10, 10)).moments())
    assert (plain.mix.tolist(), plain.dropped.tolist()) == ([[1], [1]], [0, 0])


# Degrees of freedom. -------------------------------------------------------------------------------------------------


def freedom_of(values):
    """Return the degrees of freedom of the first of two groups with these values each."""
    size = len(values)
    return float(kurtosis_freedom(cells_of(np.tile(values, 2), groups_of(size, size)), np.ones((2, 1)))[0][0])


def test_heavy_tails_have_fewer_degrees_of_freedom_and_light_ones_n_minus_one():
    at = (np.arange(1000) + 0.5) / 1000
    freedoms = [freedom_of(q) for q in (stats.norm.ppf(at), stats.gamma.ppf(at, 1), stats.lognorm.ppf(at, 1.5))]
    assert freedoms[0] == pytest.approx(999, rel=0.05)
    assert freedoms[0] > 2 * freedoms[1] > 4 * freedoms[2]
    assert freedom_of(np.arange(50.0)) == 49


@law
@given(st.lists(st.floats(0, 100), min_size=3, max_size=40))
def test_degrees_of_freedom_follow_the_kurtosis_and_stay_between_two_and_n_minus_one(values):
    found, n = freedom_of(np.array(values)), len(values)
    assert 2 - 1e-9 <= found <= max(n - 1, 2) + 1e-9
    if np.ptp(values) > 1e-3 * (1 + max(values)):
        spread = float(stats.kurtosis(values, fisher=False)) / n - (n - 3) / (n * (n - 1))
        if spread > 1e-6:
            assert found == pytest.approx(np.clip(2 / spread, 2, n - 1), rel=1e-4)


def test_two_sides_combine_as_in_welchs_test_and_two_constants_as_the_smaller_side():
    rng = np.random.default_rng(5)
    a, b = rng.normal(0, 1, 12), rng.normal(0, 4, 30)
    parts = error2_of(a), 11.0, error2_of(b), 29.0
    found = combined_freedom(*(np.array([part]) for part in parts))
    assert found[0] == pytest.approx(stats.ttest_ind(a, b, equal_var=False).df)
    assert combined_freedom(np.zeros(1), np.array([9.0]), np.zeros(1), np.array([4.0]))[0] == 4.0
