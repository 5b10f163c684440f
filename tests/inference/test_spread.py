import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.arrays import Floats
from fairmargin.core.bound import Bound
from fairmargin.core.partition import Partition
from fairmargin.inference.contrast import GroupMeans
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.groups import draw
from fairmargin.inference.groups import means as means_in
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import share_spread
from fairmargin.inference.spread import (
    Statistic,
    debiased_variance,
    largest_gap,
    overall_limits,
    relative_variance,
    shifted_errors,
    spread_interval,
    variance,
    worst_limits,
)
from fairmargin.inference.units import make_cells
from tests.oracles import accuracy_gap, accuracy_variance

law = settings(max_examples=60, deadline=None, derandomize=True)
STATISTICS = {"variance": variance, "relative variance": relative_variance, "largest gap": largest_gap}
SIMULATIONS = 200


def groups_of(*sizes: int) -> Partition:
    return Partition("g", [f"g{i}" for i in range(len(sizes))], np.repeat(np.arange(len(sizes)), sizes))


def means_of(values: Floats, groups: Partition, seed: int = 0) -> GroupMeans:
    cells = make_cells(values, groups, None, None)
    assert cells is not None
    plan = AuditSettings(resamples=400, seed=seed)
    return means_in(cells, draw(cells, plan), plan)


def interval_of(means: GroupMeans, statistic: Statistic, confidence: float = 0.95) -> tuple[float, float, float]:
    simulate = shifted_errors(means.resampled, means.mean, means.units)
    return spread_interval(means.mean, np.sqrt(means.error2), simulate, statistic, confidence)


# The statistics. -----------------------------------------------------------------------------------------------------


def test_the_statistics_by_hand_and_over_the_last_axis() -> None:
    means = np.array([[1.0, 2.0, 6.0], [2.0, 2.0, 2.0]])
    assert variance(means).tolist() == pytest.approx([(4 + 1 + 9) / 3, 0])
    assert relative_variance(means).tolist() == pytest.approx([14 / 27, 0])
    assert largest_gap(means).tolist() == [5, 0]


def test_the_debiased_variance_is_right_on_average_where_the_plain_one_is_too_large() -> None:
    truth, error, trials = np.array([1.0, 1.5, 2.0, 3.0]), np.array([0.2, 0.4, 0.3, 0.5]), 20_000
    observed = truth + error * np.random.default_rng(0).normal(size=(trials, 4))
    debiased = np.array([debiased_variance(row, error**2) for row in observed])
    standard_error = debiased.std() / math.sqrt(trials)
    assert abs(debiased.mean() - truth.var()) < 4 * standard_error
    assert variance(observed).mean() - truth.var() > 20 * standard_error


@law
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=2, max_size=8))
def test_the_debiased_variance_lies_between_zero_and_the_plain_one(pairs: list[tuple[float, float]]) -> None:
    means, errors = (np.array(column) for column in zip(*pairs, strict=True))
    assert 0 <= debiased_variance(means, errors**2) <= variance(means) + 1e-12


# Equal groups: 0 must be allowed. ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def equal_groups() -> list[GroupMeans]:
    """Four groups of one population, many times."""
    rng, partition = np.random.default_rng(1), groups_of(30, 40, 50, 80)
    return [means_of(rng.gamma(2, 0.5, 200), partition, seed) for seed in range(SIMULATIONS)]


@pytest.mark.parametrize("name", STATISTICS)
def test_a_true_zero_lies_in_the_interval_as_often_as_it_says(name: str, equal_groups: list[GroupMeans]) -> None:
    lows = np.array([interval_of(means, STATISTICS[name])[1] for means in equal_groups])
    assert (lows == 0).mean() >= 0.93
    assert (lows >= 0).all()


@pytest.mark.parametrize("name", STATISTICS)
def test_a_plain_bootstrap_would_exclude_a_true_zero_always(name: str, equal_groups: list[GroupMeans]) -> None:
    lows = np.array([np.quantile(STATISTICS[name](means.resampled), 0.025) for means in equal_groups])
    assert (lows > 0).all()


def test_the_value_for_equal_groups_is_about_as_often_zero_as_not(equal_groups: list[GroupMeans]) -> None:
    values = np.array([interval_of(means, variance)[0] for means in equal_groups])
    assert 0.35 < (values == 0).mean() < 0.65  # median-unbiased at the edge


# Unequal groups. -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STATISTICS)
def test_a_clear_difference_excludes_zero(name: str) -> None:
    values = np.concatenate([np.random.default_rng(2).gamma(4, mean / 4, 100) for mean in (1.0, 2.0, 3.0)])
    value, low, high = interval_of(means_of(values, groups_of(100, 100, 100)), STATISTICS[name])
    assert 0 < low < value < high


TRUE_MEANS = np.array([1.0, 1.4, 1.8])


@pytest.fixture(scope="module")
def unequal_groups() -> list[GroupMeans]:
    """Three populations, many times."""
    rng, partition = np.random.default_rng(3), groups_of(60, 60, 60)
    draws = (np.concatenate([rng.gamma(3, mean / 3, 60) for mean in TRUE_MEANS]) for _ in range(100))
    return [means_of(values, partition, seed) for seed, values in enumerate(draws)]


@pytest.mark.parametrize("name", STATISTICS)
def test_a_true_spread_lies_in_the_interval_as_often_as_it_says(name: str, unequal_groups: list[GroupMeans]) -> None:
    truth, trials = float(STATISTICS[name](TRUE_MEANS)), len(unequal_groups)
    intervals = [interval_of(means, STATISTICS[name])[1:] for means in unequal_groups]
    covered = sum(low <= truth <= high for low, high in intervals)
    assert covered / trials >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)


def test_the_interval_of_the_worst_group_holds_the_smallest_true_mean(unequal_groups: list[GroupMeans]) -> None:
    limits = [worst_limits(m, 0.95, one_is_less_robust=True) for m in unequal_groups]
    covered = sum(low <= TRUE_MEANS.min() <= high for low, high in limits) / len(limits)
    assert covered >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(limits))


def test_the_interval_of_the_worst_of_equal_groups_holds_their_mean(equal_groups: list[GroupMeans]) -> None:
    limits = [worst_limits(m, 0.95, one_is_less_robust=False) for m in equal_groups]
    covered = sum(low <= 1.0 <= high for low, high in limits) / len(limits)
    assert covered >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(limits))


def test_more_confidence_makes_the_interval_wider() -> None:
    values = np.concatenate([np.random.default_rng(4).gamma(4, mean / 4, 60) for mean in (1.0, 1.6, 2.2)])
    means = means_of(values, groups_of(60, 60, 60))
    _, low, high = interval_of(means, variance, 0.8)
    _, lower, higher = interval_of(means, variance, 0.99)
    assert lower < low < high < higher


def test_simulated_errors_are_as_wide_as_the_standard_errors() -> None:
    means = means_of(np.random.default_rng(5).gamma(2, 1, 60), groups_of(20, 40))
    drawn = shifted_errors(means.resampled, means.mean, means.units)(np.array([5.0, 7.0]))
    np.testing.assert_allclose(drawn.mean(axis=0), [5, 7], atol=0.1)
    np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(means.error2), rtol=0.15)


# Accuracies. ---------------------------------------------------------------------------------------------------------


def accuracy_spread(
    statistic: Statistic, right: npt.ArrayLike, partition: Partition, *, draws: int = 2_000, seed: int = 0
) -> Estimate:
    shares = np.array([np.mean(np.asarray(right)[mask]) for _, mask in partition])
    plan = AuditSettings(resamples=draws, seed=seed)
    return share_spread(shares, partition.sizes.astype(float), statistic, plan, Bound.EXACT)


def test_a_true_zero_lies_in_the_interval_of_the_variance_of_accuracy() -> None:
    rng, partition = np.random.default_rng(6), groups_of(25, 40, 60)
    lows, plain = [], []
    for seed in range(SIMULATIONS):
        robust = rng.random(125) < 0.7
        lows.append(accuracy_spread(variance, robust, partition, draws=400, seed=seed).low)
        counts = np.array([robust[mask].sum() for _, mask in partition])
        resampled = rng.binomial(partition.sizes, counts / partition.sizes, (400, 3)) / partition.sizes
        plain.append(np.quantile(variance(resampled), 0.025))
    assert (np.array(lows) == 0).mean() >= 0.93
    assert (np.array(plain) > 0).mean() >= 0.99  # the plain bootstrap


@pytest.mark.parametrize(("statistic", "metric"), [(variance, accuracy_variance), (largest_gap, accuracy_gap)])
def test_a_clear_difference_of_accuracy_excludes_zero(statistic, metric) -> None:  # type: ignore[no-untyped-def]
    robust = np.concatenate([np.arange(100) < 40, np.arange(100) < 80])
    estimate = accuracy_spread(statistic, robust, groups_of(100, 100))
    assert 0 < estimate.low < metric(robust, groups_of(100, 100)) < estimate.high
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate.bound is Bound.EXACT


@pytest.mark.parametrize("statistic", [variance, largest_gap])
@pytest.mark.parametrize("share", [0, 1])
def test_accuracies_that_are_all_zero_or_one_have_no_spread(statistic, share: int) -> None:  # type: ignore[no-untyped-def]
    estimate = accuracy_spread(statistic, [share] * 60, groups_of(30, 30))
    assert (estimate.value, estimate.low) == (0.0, 0.0)


@pytest.mark.parametrize("correct", [15, 27, 30])
def test_groups_that_happen_to_be_equally_accurate_are_not_known_to_be(correct: int) -> None:
    # Shares of 0.90 and 0.94 in groups of 30 come out equal one time in seven, and then [0, 0] misses the true gap.
    estimate = accuracy_spread(largest_gap, np.tile(np.arange(30) < correct, 2), groups_of(30, 30))
    assert estimate.low == 0.0
    assert estimate.high > 0.04


def test_one_group_alone_has_no_spread_of_accuracy() -> None:
    estimate = accuracy_spread(variance, [True, False], Partition.by("g", ["a", "a"]))
    assert not estimate.is_defined
    assert estimate.reason == "one group alone has no spread"


def test_the_same_seed_gives_the_same_interval() -> None:
    robust = np.random.default_rng(7).random(60) < 0.6
    one, other = (accuracy_spread(variance, robust, groups_of(30, 30), seed=3) for _ in range(2))
    assert one == other


# The worst group, and the mean over groups. ---------------------------------------------------------------------------


def test_a_group_without_an_interval_bounds_the_worst_group_from_below_by_zero_only() -> None:
    values = np.concatenate([np.random.default_rng(8).gamma(4, 0.25, 40), [0.9]])
    means = means_of(values, groups_of(40, 1))
    low, high = worst_limits(means, 0.95, one_is_less_robust=False)
    assert low == 0.0
    assert means.limits.high[0] <= high < math.inf


def test_groups_that_all_lie_at_zero_bound_nothing_from_above() -> None:
    assert worst_limits(means_of(np.zeros(60), groups_of(30, 30)), 0.95, one_is_less_robust=False) == (0.0, math.inf)


def test_the_limit_of_the_worst_group_reaches_that_of_the_mean_unless_a_group_is_less_robust() -> None:
    values = np.random.default_rng(9).lognormal(0, 1, 800)
    means = means_of(values, groups_of(*[40] * 20))
    _, of_equals = worst_limits(means, 0.95, one_is_less_robust=False)
    _, of_unequal = worst_limits(means, 0.95, one_is_less_robust=True)
    assert of_unequal < of_equals == overall_limits(means, 0.95).high[0]


def test_a_group_with_one_sample_leaves_the_limits_of_the_mean_to_the_others() -> None:
    values = np.random.default_rng(10).gamma(4, 0.25, 60)
    both = means_of(np.append(values, 1.0), groups_of(60, 1))
    alone = means_of(values, groups_of(60))
    assert overall_limits(both, 0.95).high[0] == pytest.approx(overall_limits(alone, 0.95).high[0], rel=0.05)
