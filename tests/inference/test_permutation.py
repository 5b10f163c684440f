import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference import permutation
from fairmargin.inference.permutation import (
    holm,
    hypotheses,
    permutation_test,
    permutations_needed,
    sequential_test,
)
from fairmargin.inference.units import common_mix, make_cells

law = settings(max_examples=100, deadline=None, derandomize=True)


def exact(values: object) -> Distances:
    return Distances(values, np.asarray(values) > 0, Bound.EXACT, Norm.L2)  # type: ignore[arg-type]


def groups_of(*sizes: int) -> Partition:
    return Partition("g", [f"g{i}" for i in range(len(sizes))], np.repeat(np.arange(len(sizes)), sizes))


def p_of(
    values: Floats, groups: Partition, control: Partition | None = None, cluster: Ints | None = None, seed: int = 0
) -> Floats:
    cells = make_cells(np.asarray(values, dtype=float), groups, control, cluster)
    assert cells is not None
    everyone = np.ones(len(groups.labels), dtype=bool)
    return permutation_test(cells, common_mix(cells.moments()).mix, everyone, alpha=0.05, seed=seed).p


def alarm_limit(alpha: float, trials: int) -> float:
    """Three binomial standard errors above α."""
    return alpha + 3 * math.sqrt(alpha * (1 - alpha) / trials)


# Holm's correction. --------------------------------------------------------------------------------------------------


def plain_holm(p: list[float]) -> list[float]:
    """The largest (m − rank) · p among the p-values not above one's own."""
    ordered = sorted(p)
    return [min(1.0, max((len(p) - r) * q for r, q in enumerate(ordered) if q <= own)) for own in p]


@law
@given(st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.01, 0.02])), min_size=1, max_size=12))
def test_holms_correction_is_the_obvious_one(p: list[float]) -> None:
    assert holm(np.array(p)).tolist() == pytest.approx(plain_holm(p))


@law
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_corrected_p_values_keep_their_order_and_lie_between_the_raw_ones_and_bonferronis(p: list[float]) -> None:
    raw, adjusted = np.array(p), holm(np.array(p))
    assert (adjusted >= raw).all()
    assert (adjusted <= np.minimum(1, len(p) * raw) + 1e-15).all()
    assert (np.diff(adjusted[np.argsort(raw, kind="stable")]) >= 0).all()


@law
@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), min_size=1, max_size=12))
def test_p_values_that_were_not_tested_stay_nan_and_cost_nothing(p: list[float]) -> None:
    adjusted = holm(np.array(p))
    tested = [q for q in p if not math.isnan(q)]
    assert adjusted[~np.isnan(p)].tolist() == pytest.approx(plain_holm(tested))
    assert np.isnan(adjusted[np.isnan(p)]).all()


def test_two_groups_against_each_other_are_one_question() -> None:
    assert hypotheses(np.array([True, True])) == 1
    assert holm(np.array([0.03, 0.03]), hypotheses=1).tolist() == [0.03, 0.03]


def test_three_groups_are_three_questions_and_only_those_asked_count() -> None:
    assert hypotheses(np.array([True, True, True])) == 3
    assert hypotheses(np.array([True, False, True, True])) == 3


@law
@given(st.integers(1, 5_000), st.floats(0.001, 0.5), st.integers(1, 10**9))
def test_permutations_suffice_for_a_corrected_p_below_alpha(questions: int, alpha: float, units: int) -> None:
    most = permutations_needed(questions, alpha, units)
    assert questions / (1 + most) <= alpha / 2
    assert most >= 999


def test_the_smallest_corrected_p_of_many_groups_can_fall_below_alpha() -> None:
    values = np.random.default_rng(0).gamma(2, 1, 40 * 30)
    values[:30] *= 4
    adjusted = holm(p_of(values, groups_of(*[30] * 40)))
    assert adjusted[0] < 0.05
    assert (adjusted[1:] > 0.05).all()


# The test of each group against its rest. ----------------------------------------------------------------------------


def studentised(own: Floats, rest: Floats, axis: int = -1) -> Floats:
    error2 = sum(np.var(side, axis=axis, ddof=1) / side.shape[axis] for side in (own, rest))
    return np.abs(own.mean(axis=axis) - rest.mean(axis=axis)) / np.sqrt(error2)


@pytest.mark.parametrize("shift", [1.0, 2.0, 3.0, 8.0])
@pytest.mark.parametrize("sizes", [(5, 6), (3, 9)])
def test_p_agrees_with_scipys_exact_permutation_test(sizes: tuple[int, int], shift: float) -> None:
    values = np.random.default_rng(3).lognormal(size=sum(sizes))
    values[: sizes[0]] *= shift
    own, rest = values[: sizes[0]], values[sizes[0] :]
    oracle = stats.permutation_test(
        (own, rest), studentised, vectorized=True, n_resamples=np.inf, alternative="greater"
    ).pvalue
    ours = p_of(values, groups_of(*sizes))[0]
    # 100 exceedances know p within a tenth; fewer, within the error of 9,999 permutations.
    assert abs(ours - oracle) < 4 * max(0.1 * oracle, math.sqrt(oracle / 9_999))


def test_p_agrees_with_scipys_resampled_permutation_test_for_three_groups() -> None:
    rng = np.random.default_rng(4)
    values = np.concatenate([rng.gamma(2, 1, 20), rng.gamma(2, 1.3, 25), rng.gamma(2, 1.6, 30)])
    partition = groups_of(20, 25, 30)
    ours = p_of(values, partition)
    for g, (_, mask) in enumerate(partition):
        oracle = stats.permutation_test(
            (values[mask], values[~mask]), studentised, vectorized=True, n_resamples=9_999, alternative="greater", rng=0
        ).pvalue
        assert abs(ours[g] - oracle) < 5 * max(0.1 * oracle, math.sqrt(oracle / 9_999))


def test_two_groups_have_the_same_p() -> None:
    values = np.random.default_rng(5).gamma(2, 1, 50)
    one, other = p_of(values, groups_of(20, 30))
    assert one == other


@pytest.mark.parametrize("constant", [0.0, 1.0, 1 / 3, 1e9])
def test_constant_data_have_p_one(constant: float) -> None:
    assert p_of(np.full(30, constant), groups_of(10, 12, 8)).tolist() == [1.0] * 3


def test_two_different_constants_are_as_clear_as_can_be() -> None:
    assert p_of(np.repeat([1.0, 2.0], 20), groups_of(20, 20)).tolist() == pytest.approx([1e-4, 1e-4])


def test_p_does_not_change_with_the_unit_of_length() -> None:
    values = np.random.default_rng(6).gamma(2, 1, 60)
    np.testing.assert_allclose(p_of(1e-6 * values, groups_of(20, 40)), p_of(values, groups_of(20, 40)), rtol=0.02)


def test_groups_that_are_not_tested_have_no_p() -> None:
    cells = make_cells(np.arange(1.0, 31.0), groups_of(10, 10, 10), None, None)
    assert cells is not None
    tested = np.array([True, False, True])
    p = permutation_test(cells, common_mix(cells.moments()).mix, tested, alpha=0.05, seed=0).p
    assert np.isnan(p).tolist() == [False, True, False]


@pytest.mark.parametrize("sizes", [(4, 8), (4, 5, 6)])
def test_under_exchangeability_p_falls_to_alpha_at_most_a_share_alpha_of_the_time(sizes: tuple[int, ...]) -> None:
    rng, trials = np.random.default_rng(7), 400 if len(sizes) == 2 else 200
    partition = groups_of(*sizes)
    p = np.array([p_of(rng.lognormal(size=sum(sizes)), partition, seed=i) for i in range(trials)])
    for alpha in (0.05, 0.1, 0.3):
        assert (p <= alpha).mean(axis=0).max() <= alarm_limit(alpha, trials)
    assert (p <= 0.3).mean() > 0.2  # and it is no test that never speaks
    any_alarm = np.mean([holm(row, hypotheses(np.ones(len(sizes), dtype=bool))).min() <= 0.05 for row in p])
    assert any_alarm <= alarm_limit(0.05, trials)


def test_studentising_keeps_the_level_where_a_raw_difference_of_means_does_not() -> None:
    rng, trials, alpha = np.random.default_rng(8), 150, 0.05
    partition, ours, raw = groups_of(10, 60), 0, 0
    for trial in range(trials):
        values = np.concatenate([rng.normal(10, 3, 10), rng.normal(10, 0.5, 60)])
        ours += p_of(values, partition, seed=trial)[0] <= alpha
        dealt = rng.permuted(np.broadcast_to(values, (199, 70)), axis=1)
        gap = np.abs(dealt[:, :10].mean(axis=1) - dealt[:, 10:].mean(axis=1))
        raw += (1 + (gap >= abs(values[:10].mean() - values[10:].mean())).sum()) / 200 <= alpha
    assert raw / trials > 0.2
    assert ours / trials <= 0.12


# Strata and clusters. ------------------------------------------------------------------------------------------------


def simpson(seed: int) -> tuple[Floats, Partition, Partition]:
    """Easy and hard classes, groups that differ only in their mix of them."""
    rng = np.random.default_rng([seed, 9])
    hard = np.repeat([True, False, True, False], [32, 8, 8, 32])
    return np.where(hard, 1.0, 3.0) * rng.gamma(9, 1 / 9, 80), groups_of(40, 40), Partition.by("class", hard)


def test_permuting_inside_strata_does_not_report_a_mere_mix_of_classes() -> None:
    trials, alpha = 100, 0.05
    inside = sum(p_of(values, groups, control)[0] <= alpha for values, groups, control in map(simpson, range(trials)))
    assert inside / trials <= alarm_limit(alpha, trials)
    for seed in range(5):  # while without strata it is always reported
        values, groups, _ = simpson(seed)
        assert p_of(values, groups)[0] <= alpha


def test_a_difference_between_strata_alone_has_p_one() -> None:
    control = Partition.by("class", [0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1])
    values = np.where(control.membership == 0, 1.0, 5.0)
    assert p_of(values, groups_of(6, 6), control).tolist() == [1.0, 1.0]


def test_a_difference_inside_every_stratum_is_found() -> None:
    values, partition, control = simpson(0)
    values = np.where(partition.membership == 0, 2.0 * values, values)
    assert p_of(values, partition, control)[0] < 0.001


def test_a_stratum_that_lacks_one_side_causes_no_warning_of_numpy() -> None:
    values = np.random.default_rng(15).gamma(2, 1, 60)
    control = Partition.by("class", [0] * 10 + [1] * 20 + [0] * 30)  # class 1 is in the first group only
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p_of(values, groups_of(30, 30), control)


def test_clusters_are_permuted_whole() -> None:
    rng = np.random.default_rng(10)
    trials = single = whole = 0
    people = np.repeat(np.arange(20), 10)
    for trials in range(1, 31):
        values = np.repeat(rng.gamma(2, 1, 20), 10)  # ten copies of each person
        single += p_of(values, groups_of(100, 100), seed=trials)[0] <= 0.05
        whole += p_of(values, groups_of(100, 100), cluster=people, seed=trials)[0] <= 0.05
    assert single / trials > 0.3
    assert whole / trials <= alarm_limit(0.05, trials)


# Stopping early. -----------------------------------------------------------------------------------------------------


class Chance:
    """Statistics that exceed 1 − p with probability p, and a record of who was asked how often."""

    def __init__(self, groups: int) -> None:
        self.asked = np.zeros(groups, dtype=int)

    def __call__(self, groups: Ints, rows: int, stream: np.random.Generator) -> Floats:
        self.asked[groups] += rows
        return stream.random((rows, len(groups)))


TRUE_P = np.array([0.0005, 0.003, 0.02, 0.2, 0.9])
ALL_FIVE = np.ones(5, dtype=bool)


def test_stopping_early_gives_the_p_of_a_full_run_within_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    early = sequential_test(1 - TRUE_P, Chance(5), ALL_FIVE, most=9_999, units=10, seed=0)
    monkeypatch.setattr(permutation, "_ENOUGH_EXCEEDANCES", 10**9)
    full = sequential_test(1 - TRUE_P, Chance(5), ALL_FIVE, most=9_999, units=10, seed=0)
    full_error = np.sqrt(TRUE_P * (1 - TRUE_P) / 9_999) + 1e-4
    assert (np.abs(full.p - TRUE_P) < 4 * full_error).all()
    assert (np.abs(early.p - TRUE_P) < 4 * (full_error + 0.1 * TRUE_P)).all()


def test_groups_that_are_clearly_unremarkable_are_not_asked_again() -> None:
    chance = Chance(5)
    sequential_test(1 - TRUE_P, chance, ALL_FIVE, most=9_999, units=10, seed=0)
    assert chance.asked[0] == 9_999
    assert chance.asked[4] == 250
    assert (np.diff(chance.asked) <= 0).all()


def test_p_is_never_zero() -> None:
    found = sequential_test(np.array([2.0]), Chance(1), np.array([True]), most=999, units=10, seed=0)
    assert found.p[0] == 1 / 1000
    assert found.permutations == 999


def test_early_p_values_keep_their_level() -> None:
    trials = 400
    rng = np.random.default_rng(11)
    p = np.array(
        [
            sequential_test(rng.random(1), Chance(1), np.array([True]), most=999, units=10, seed=i).p[0]
            for i in range(trials)
        ]
    )
    for alpha in (0.02, 0.05, 0.2, 0.5):
        assert (p <= alpha).mean() <= alarm_limit(alpha, trials)
    assert (p <= 0.5).mean() > 0.4
