import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.partition import Partition
from fairmargin.inference.units import (
    SAMPLES,
    TOTAL,
    UNITS,
    Cells,
    combined_freedom,
    common_mix,
    group_means,
    kurtosis_freedom,
    make_cells,
    mean_and_error2,
    rest_of,
    two_sides,
)

law = settings(max_examples=60, deadline=None, derandomize=True)
rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.floats(0, 100)), min_size=2, max_size=40
)  # group, stratum, value


def cells_of(values: Floats, groups: Partition, control: Partition | None = None, cluster: Ints | None = None) -> Cells:
    cells = make_cells(np.asarray(values, dtype=float), groups, control, cluster)
    assert cells is not None
    return cells


def groups_of(*sizes: int) -> Partition:
    return Partition("g", [f"g{i}" for i in range(len(sizes))], np.repeat(np.arange(len(sizes)), sizes))


def read(triples: list[tuple[int, int, float]]) -> tuple[Floats, Partition, Partition]:
    group, stratum, values = (np.array(column) for column in zip(*triples, strict=True))
    return values.astype(float), Partition.by("g", group), Partition.by("class", stratum)


# Means and their errors. ---------------------------------------------------------------------------------------------


@law
@given(rows)
def test_single_samples_have_the_mean_and_standard_error_of_scipy(triples: list[tuple[int, int, float]]) -> None:
    values, groups, _ = read(triples)
    cells = cells_of(values, groups)
    mean, error2 = group_means(cells.moments())
    for g, (_, mask) in enumerate(groups):
        assert mean[g] == pytest.approx(values[mask].mean(), abs=1e-9)
        if mask.sum() > 1:
            assert error2[g] == pytest.approx(stats.sem(values[mask]) ** 2, rel=1e-6, abs=1e-9)
        else:
            assert np.isnan(error2[g])


def loop_mean_and_error2(values: Floats, cluster: Ints) -> tuple[float, float]:
    """The formula of a ratio of cluster totals to cluster sizes, cluster by cluster."""
    mean, squares, count = float(values.mean()), 0.0, 0
    for who in set(cluster.tolist()):
        inside = values[cluster == who]
        squares += (inside.sum() - mean * len(inside)) ** 2
        count += 1
    return mean, count / (count - 1) * squares / len(values) ** 2


def test_clusters_have_the_standard_error_of_the_obvious_loop() -> None:
    rng = np.random.default_rng(0)
    cluster = np.sort(rng.integers(0, 25, 100))
    cluster = np.unique(cluster, return_inverse=True)[1]
    values = rng.gamma(2, 1, 100) + cluster
    groups = Partition.by("g", cluster < 10)
    cells = cells_of(values, groups, cluster=cluster)
    mean, error2 = group_means(cells.moments())
    for g, (_, mask) in enumerate(groups):
        assert (mean[g], error2[g]) == pytest.approx(loop_mean_and_error2(values[mask], cluster[mask]), rel=1e-9)


def test_clusters_of_one_are_single_samples() -> None:
    values = np.random.default_rng(1).gamma(2, 1, 30)
    plain, alone = cells_of(values, groups_of(10, 20)), cells_of(values, groups_of(10, 20), cluster=np.arange(30))
    assert alone.are_single
    np.testing.assert_allclose(alone.moments(), plain.moments(), rtol=1e-12)


def test_copies_do_not_shrink_the_standard_error() -> None:
    values = np.random.default_rng(2).gamma(2, 1, 30)
    once = cells_of(values, groups_of(10, 20))
    four = cells_of(np.repeat(values, 4), groups_of(40, 80), cluster=np.repeat(np.arange(30), 4))
    assert not four.are_single
    for one, other in zip(group_means(once.moments()), group_means(four.moments()), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)


def test_the_standard_error_keeps_its_digits_far_from_zero() -> None:
    values = 1e3 + np.random.default_rng(3).normal(size=50)
    cells = cells_of(values, groups_of(20, 30))
    assert group_means(cells.moments())[1][0] == pytest.approx(stats.sem(values[:20]) ** 2, rel=1e-5)


@pytest.mark.parametrize("constant", [0.0, 1 / 3, 1e9])
def test_a_constant_group_has_no_spread_at_all(constant: float) -> None:
    values = np.concatenate([np.full(10, constant), np.arange(10.0)])
    cells = cells_of(values, groups_of(10, 10))
    assert group_means(cells.moments())[1][0] == 0.0


def test_a_cell_without_units_has_neither_mean_nor_error() -> None:
    mean, error2 = mean_and_error2(np.zeros(6))
    assert np.isnan(mean)
    assert np.isnan(error2)


# Cells, the rest, and the common mix. --------------------------------------------------------------------------------


@law
@given(rows)
def test_cells_hold_the_samples_and_totals_of_their_group_and_stratum(triples: list[tuple[int, int, float]]) -> None:
    values, groups, control = read(triples)
    cells = cells_of(values, groups, control)
    moments = cells.moments()
    assert moments.shape == (len(groups.labels), len(control.labels), 6)
    for g, (_, inside) in enumerate(groups):
        for k, (_, stratum) in enumerate(control):
            cell = values[inside & stratum]
            assert moments[g, k, UNITS] == moments[g, k, SAMPLES] == len(cell)
            assert moments[g, k, TOTAL] == pytest.approx(cell.sum(), abs=1e-8)


@law
@given(rows)
def test_the_rest_of_a_group_is_everyone_else_in_the_stratum(triples: list[tuple[int, int, float]]) -> None:
    values, groups, control = read(triples)
    cells = cells_of(values, groups, control)
    rest = rest_of(cells.moments())
    for g, (_, inside) in enumerate(groups):
        for k, (_, stratum) in enumerate(control):
            others = values[~inside & stratum]
            expected = [len(others), len(others), others.sum(), (others**2).sum(), others.sum(), len(others)]
            assert rest[g, k].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-7)


def test_a_cluster_in_two_groups_or_two_strata_cannot_be_dealt_out() -> None:
    groups, control = groups_of(2, 2), Partition.by("class", [0, 1, 0, 0])
    assert make_cells(np.arange(4.0), groups, None, np.array([0, 1, 1, 2])) is None
    assert make_cells(np.arange(4.0), groups, control, np.array([0, 0, 1, 1])) is None
    assert make_cells(np.arange(4.0), groups, None, np.array([0, 0, 1, 1])) is not None


@law
@given(rows)
def test_the_weights_of_the_strata_sum_to_one_or_to_nothing(triples: list[tuple[int, int, float]]) -> None:
    values, groups, control = read(triples)
    common = common_mix(cells_of(values, groups, control).moments())
    total = common.mix.sum(axis=1)
    assert (np.isclose(total, 1) | (total == 0)).all()
    assert ((common.dropped == 1) == (total == 0)).all()
    assert ((common.dropped >= -1e-12) & (common.dropped <= 1)).all()


def test_strata_that_lack_one_side_are_left_out_and_counted() -> None:
    # class:      0   1   2
    # group a:    6   3   1
    # group b:    4   0   6    a and b share class 0; in class 2, a has one sample only
    groups = groups_of(10, 10)
    control = Partition.by("class", [0] * 6 + [1] * 3 + [2] + [0] * 4 + [2] * 6)
    common = common_mix(cells_of(np.ones(20), groups, control).moments())
    assert common.mix.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert common.dropped.tolist() == pytest.approx([0.5, 0.6])  # 10 of 20 samples; 6 of b's own 10


def test_without_a_control_nothing_is_dropped() -> None:
    common = common_mix(cells_of(np.ones(20), groups_of(10, 10)).moments())
    assert common.mix.tolist() == [[1], [1]]
    assert common.dropped.tolist() == [0, 0]


@law
@given(rows)
def test_both_sides_are_weighted_by_the_same_mix(triples: list[tuple[int, int, float]]) -> None:
    values, groups, control = read(triples)
    cells = cells_of(values, groups, control)
    moments = cells.moments()
    mix = common_mix(moments).mix
    sides = two_sides(moments, rest_of(moments), mix)
    for g, (_, inside) in enumerate(groups):
        own = rest = own2 = rest2 = 0.0
        for k, (_, stratum) in enumerate(control):
            if mix[g, k]:
                mine, others = values[inside & stratum], values[~inside & stratum]
                own, rest = own + mix[g, k] * mine.mean(), rest + mix[g, k] * others.mean()
                own2 += mix[g, k] ** 2 * stats.sem(mine) ** 2
                rest2 += mix[g, k] ** 2 * stats.sem(others) ** 2
        found = [side[g] for side in (sides.own, sides.rest, sides.own_error2, sides.rest_error2, sides.gap)]
        assert found == pytest.approx([own, rest, own2, rest2, own - rest], rel=1e-6, abs=1e-7, nan_ok=True)


# Degrees of freedom. -------------------------------------------------------------------------------------------------


def freedom_of(values: Floats) -> float:
    """Of the first of two groups with these values each."""
    size = len(values)
    return float(kurtosis_freedom(cells_of(np.tile(values, 2), groups_of(size, size)), np.ones((2, 1)))[0][0])


def test_normal_data_have_about_n_minus_one_degrees_of_freedom() -> None:
    normal = stats.norm.ppf((np.arange(1000) + 0.5) / 1000)
    assert freedom_of(normal) == pytest.approx(999, rel=0.05)


def test_heavy_tails_have_fewer_degrees_of_freedom() -> None:
    at = (np.arange(1000) + 0.5) / 1000
    freedoms = [freedom_of(q) for q in (stats.norm.ppf(at), stats.gamma.ppf(at, 1), stats.lognorm.ppf(at, 1.5))]
    assert freedoms[0] > 2 * freedoms[1] > 4 * freedoms[2]


def test_light_tails_have_no_more_than_n_minus_one_degrees_of_freedom() -> None:
    assert freedom_of(np.arange(50.0)) == 49


@law
@given(st.lists(st.floats(0, 100), min_size=3, max_size=40))
def test_degrees_of_freedom_follow_the_kurtosis_and_stay_between_two_and_n_minus_one(values: list[float]) -> None:
    found, n = freedom_of(np.array(values)), len(values)
    assert 2 - 1e-9 <= found <= max(n - 1, 2) + 1e-9
    if np.ptp(values) > 1e-3 * (1 + max(values)):
        kurtosis = float(stats.kurtosis(values, fisher=False))
        spread = kurtosis / n - (n - 3) / (n * (n - 1))
        expected = np.clip(2 / spread, 2, n - 1) if spread > 0 else n - 1
        if spread > 1e-6:
            assert found == pytest.approx(expected, rel=1e-4)


def test_two_sides_combine_as_in_welchs_test() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(0, 1, 12), rng.normal(0, 4, 30)
    own2, rest2 = stats.sem(a) ** 2, stats.sem(b) ** 2
    found = combined_freedom(np.array([own2]), np.array([11.0]), np.array([rest2]), np.array([29.0]))
    assert found[0] == pytest.approx(stats.ttest_ind(a, b, equal_var=False).df)


def test_two_constants_have_the_freedom_of_the_smaller_side() -> None:
    assert combined_freedom(np.zeros(1), np.array([9.0]), np.zeros(1), np.array([4.0]))[0] == 4.0
