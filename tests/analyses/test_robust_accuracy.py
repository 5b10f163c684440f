import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from fairmargin.analyses.robust_accuracy import RobustAccuracy, accuracy_under_attack
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.permutation import permutation_test
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import binomial_interval, share_contrasts, share_spread, variation, worst_share
from fairmargin.inference.spread import largest_gap, variance
from fairmargin.inference.units import common_mix, make_cells

QUICK = AuditSettings(resamples=200)
SIMULATIONS = 200


def ten_groups(size: int) -> Partition:
    return Partition("class", [str(i) for i in range(10)], np.repeat(np.arange(10), size))


def attacked(correct, robust, groups: Partition, plan: AuditSettings = QUICK, **more) -> RobustAccuracy:
    about = {"attack": "pgd", "norm": "linf", "radius": "4/255"} | more
    return accuracy_under_attack(correct, robust, groups, plan, **about)


def drawn(shares, size: int, seed: int):
    """Draw samples that are correct in nine of ten cases and withstand with the probability of their group."""
    rng = np.random.default_rng(seed)
    correct = rng.random(len(shares) * size) < 0.9
    robust = correct & (rng.random(len(correct)) < np.repeat(shares, size) / 0.9)
    return correct, robust


# Counts. -------------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=30))
def test_natural_and_boundary_error_add_up_to_the_robust_one_exactly(samples) -> None:
    state, group = np.array(samples).T  # 0 wrong, 1 fooled, 2 withstood
    groups = Partition.by("g", group)
    found = attacked(state > 0, state > 1, groups)
    for row, (label, mask) in zip(found, groups, strict=True):
        assert row.group == label
        assert (row.wrong, row.fooled, row.withstood) == tuple(np.bincount(state[mask], minlength=3))
        assert Fraction(row.wrong, row.size) + Fraction(row.fooled, row.size) == 1 - Fraction(row.withstood, row.size)
        assert row.natural_error + row.boundary_error == pytest.approx(row.robust_error, abs=1e-15)
    for name in ("size", "wrong", "fooled", "withstood"):
        assert getattr(found.overall, name) == sum(getattr(row, name) for row in found)


def test_every_number_is_what_counting_by_hand_gives() -> None:
    # F: 4 samples, 1 wrong, 1 fooled; M: 6 samples, 0 wrong, 1 fooled.
    sex = Partition.by("sex", ["F"] * 4 + ["M"] * 6)
    correct = [False, True, True, True, True, True, True, True, True, True]
    robust = [False, False, True, True, False, True, True, True, True, True]
    found = attacked(correct, robust, sex)
    women, men = found
    assert (women.natural_error, women.boundary_error, women.robust_error) == (0.25, 0.25, 0.5)
    assert (men.natural_error, men.boundary_error, men.robust_error) == (0, 1 / 6, 1 / 6)
    assert (women.robust_accuracy.low, women.robust_accuracy.high) == binomial_interval(2, 4, 0.95)
    assert women.gap_to_rest.value == pytest.approx(1 / 2 - 5 / 6)
    assert found.overall.robust_error == 0.3
    assert found.overall.mean_accuracy.value == pytest.approx((1 / 2 + 5 / 6) / 2)
    assert found.plain_vcra == pytest.approx((1 / 6) ** 2)
    assert found.plain_vca == pytest.approx((1 / 8) ** 2)
    assert (found.overall.worst_group, found.overall.worst_accuracy.value) == ("F", 0.5)
    assert (found.attack, found.norm, found.radius, found.smallest_radius) == ("pgd", Norm.LINF, 4 / 255, 4 / 255)
    assert {row.verdict for row in found} == {"too few samples"}


def test_counts_that_do_not_add_up_are_refused() -> None:
    content = attacked(*drawn(np.full(10, 0.5), 8, seed=11), ten_groups(8)).to_dict()
    content["groups"][0]["wrong"] = 1000
    with pytest.raises(InputError, match="do not add up"):
        RobustAccuracy.from_json(json.dumps(content))


# What is claimed. ----------------------------------------------------------------------------------------------------


def test_an_attack_bounds_robust_accuracy_from_above_a_certificate_from_below_and_findings_say_so() -> None:
    correct, robust = drawn(np.full(10, 0.5), 40, seed=2)
    found = attacked(correct, robust, ten_groups(40))
    assert found["3"].robust_accuracy.bound is Bound.UPPER
    assert found["3"].natural_accuracy.bound is Bound.EXACT
    assert found.overall.worst_accuracy.bound is Bound.UPPER
    assert found["3"].gap_to_rest.bound is found.overall.vcra.bound is found.overall.gap.bound is Bound.NEITHER
    assert found.overall.vca.bound is Bound.EXACT
    assert "at most" in found.finding(found["3"])
    assert "robust accuracy at most" in str(found)
    assert "An attack that finds nothing proves nothing" in found.warnings[0]
    certified, exact = (attacked(correct, robust, ten_groups(40), bound=bound) for bound in ("lower", "exact"))
    assert "at least" in certified.finding(certified["3"])
    assert "at most" not in str(exact)
    assert exact.overall.vcra.bound is Bound.EXACT
    assert exact.warnings == ()


def test_all_groups_with_the_lowest_robust_accuracy_are_named() -> None:
    correct, robust = np.ones(400, dtype=bool), np.arange(400) >= 80  # no sample of the first two groups withstands
    found = attacked(correct, robust, ten_groups(40))
    assert found.worst_groups == ["0", "1"]
    assert "worst groups “0” and “1”, at most" in " ".join(found.summary())
    robust[79] = True
    assert "worst group “0”, at most" in " ".join(attacked(correct, robust, ten_groups(40)).summary())


def test_where_hardly_anyone_is_left_a_small_variance_is_called_forced() -> None:
    correct, robust = drawn(np.full(10, 0.01), 40, seed=3)
    assert any("forced towards 0" in warning for warning in attacked(correct, robust, ten_groups(40)).warnings)
    nobody = attacked(correct, np.zeros(400, dtype=bool), ten_groups(40))
    assert not nobody.overall.variation.is_defined
    assert nobody.overall.worst_accuracy.value == 0


# What is inferred. ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", [variance, largest_gap, variation])
def test_the_spread_of_ten_equal_groups_is_compatible_with_none_as_often_as_it_says(statistic) -> None:
    simulations = SIMULATIONS if statistic is variance else 30
    shares = np.random.default_rng(4).binomial(50, 0.4, (simulations, 10)) / 50
    held = sum(share_spread(row, np.full(10, 50.0), statistic, QUICK, Bound.UPPER).low == 0 for row in shares)
    assert held >= 0.93 * simulations - 1
    assert all(np.var(row) > 0 for row in shares)  # which is what a plain number would have claimed


def test_equal_groups_raise_no_more_alarms_than_promised() -> None:
    rng, groups = np.random.default_rng(5), Partition("g", ["a", "b", "c"], np.repeat([0, 1, 2], [30, 40, 50]))
    found = [share_contrasts((rng.random(120) < 0.2).astype(float), groups, QUICK, None).p for _ in range(SIMULATIONS)]
    alarms = (3 * np.min(found, axis=1) < 0.05).sum()
    assert alarms <= 0.09 * SIMULATIONS  # 5 % and three standard errors


def test_the_worst_groups_interval_holds_it_as_often_as_it_says() -> None:
    rng, truth, sizes = np.random.default_rng(6), np.array([0.35, 0.4, 0.4, 0.5, 0.8]), np.full(5, 80.0)
    shares = rng.binomial(80, truth, (SIMULATIONS, 5)) / 80
    limits = [worst_share(row, sizes, QUICK, Bound.EXACT) for row in shares]
    assert sum(each.low <= 0.35 <= each.high for each in limits) >= 0.93 * SIMULATIONS


def test_a_real_gap_is_found_with_its_group_and_its_size() -> None:
    shares = np.full(10, 0.6)
    shares[3] = 0.3
    found = attacked(*drawn(shares, 120, seed=7), ten_groups(120))
    weak = found["3"]
    assert weak.verdict == "less robust"
    assert weak.p_adjusted < 0.001
    assert weak.gap_to_rest.low < -0.3 < weak.gap_to_rest.high < 0
    assert found.overall.p_equal < 0.001
    assert found.overall.vcra.low > 0
    assert found.overall.vcra.low <= 0.0081 <= found.overall.vcra.high  # the variance of the shares drawn from
    assert found.overall.gap.low > 0
    assert found.overall.vca.low == 0  # natural accuracy is the same for all
    assert found.overall.worst_group == "3"
    assert "less robust than the rest" in found.finding(weak)


def test_the_exact_p_is_what_drawing_permutations_comes_to() -> None:
    groups = Partition("g", ["a", "b", "c"], np.repeat([0, 1, 2], [50, 60, 90]))
    values = (np.random.default_rng(8).random(200) < np.repeat([0.75, 0.5, 0.55], [50, 60, 90])).astype(float)
    cells = make_cells(values, groups, None, None)
    mix = common_mix(cells.moments()).mix
    simulated = permutation_test(cells, mix, np.ones(3, dtype=bool), alpha=0.05, seed=0).p
    assert share_contrasts(values, groups, QUICK, None).p == pytest.approx(simulated, rel=0.35, abs=0.003)


def test_a_group_far_below_the_rest_is_found_also_where_hardly_anyone_errs() -> None:
    # 20 of 65 against 67 of 654: a studentised statistic found a group without errors more surprising than this.
    robust = np.concatenate([np.arange(65) >= 20, np.arange(654) >= 67])
    partition = Partition.by("digit", ["8"] * 65 + ["rest"] * 654)
    found = attacked(robust, robust, partition)
    one_sided = fisher_exact([[45, 20], [587, 67]], alternative="less").pvalue
    assert found["8"].p == pytest.approx(2 * one_sided)
    assert found["8"].verdict == "less robust"


def test_a_gap_between_groups_that_all_withstand_is_not_known_to_be_zero() -> None:
    groups = Partition.by("sex", ["F"] * 50 + ["M"] * 50)
    found = attacked(np.ones(100), np.ones(100), groups)
    assert found["F"].gap_to_rest.value == 0
    assert found["F"].gap_to_rest.low < -0.05
    assert found["F"].gap_to_rest.high > 0.05
    assert found["F"].verdict == "no significant difference"
    assert found.overall.gap.low == 0 < found.overall.gap.high <= 1


def test_copies_of_a_sample_in_one_cluster_prove_no_more_than_the_sample() -> None:
    correct, robust = drawn(np.full(10, 0.5), 40, seed=9)
    once = attacked(correct, robust, ten_groups(40))
    cluster = np.repeat(np.arange(400), 3)
    thrice = attacked(
        np.repeat(correct, 3), np.repeat(robust, 3), ten_groups(120), AuditSettings(resamples=200, cluster=cluster)
    )
    for one, three in zip(once, thrice, strict=True):
        assert three.robust_accuracy.low == pytest.approx(one.robust_accuracy.low)
        assert three.robust_accuracy.high == pytest.approx(one.robust_accuracy.high)
    assert thrice.overall.vcra.high == pytest.approx(once.overall.vcra.high, rel=1e-6)
    assert thrice.clustered


def test_a_gap_that_the_class_explains_disappears_inside_the_classes() -> None:
    rng = np.random.default_rng(10)
    sex = rng.random(2000) < 0.5
    hard = rng.random(2000) < np.where(sex, 0.8, 0.2)
    robust = rng.random(2000) < np.where(hard, 0.2, 0.8)
    groups = Partition.by("sex", np.where(sex, "F", "M"))
    plain = attacked(np.ones(2000), robust, groups)
    inside = attacked(np.ones(2000), robust, groups, AuditSettings(resamples=200, control=Partition.by("class", hard)))
    assert plain["F"].verdict == "less robust"
    assert inside["F"].verdict == "no significant difference"
    assert abs(inside["F"].gap_to_rest.value) < 0.06 < abs(plain["F"].gap_to_rest.value)
    assert inside.control == "class"


def test_one_group_alone_is_described_and_not_compared() -> None:
    found = attacked([True, True, False], [True, False, False], Partition.by("all", ["a"] * 3))
    assert found["a"].verdict == "not comparable"
    assert found["a"].robust_accuracy.value == pytest.approx(1 / 3)
    assert math.isnan(found.overall.p_equal)
    assert "one group alone" in found.overall.vcra.reason
    assert "Gap undefined (one group alone has no spread)" in str(found)
    assert "whichever" not in str(found)


def test_observed_gaps_and_variances_stand_beside_those_without_their_noise() -> None:
    correct = np.ones(120, dtype=bool)
    robust = np.array([True] * 45 + [False] * 15 + [True] * 15 + [False] * 45)
    radii = np.linspace(8 / 255, 0.3, 120)
    found = attacked(correct, robust, Partition.by("g", ["a"] * 60 + ["b"] * 60), radius=radii)
    assert (found.smallest_radius, found.radius) == (8 / 255, 0.3)
    assert "8/255 to 0.3" in found.title
    assert found.plain_gap == 0.5
    assert found.overall.gap.low < found.overall.gap.value < 0.5 < found.overall.gap.high
    assert found.plain_vcra == pytest.approx(0.0625)
    assert found.overall.vcra.value < 0.0625
    text = str(found)
    assert f"Gap in these samples 50.0 %; without its noise {100 * found.overall.gap.value:.1f} % [" in text
    assert "this interval is for whichever group is truly the worst" in text
    assert found.to_dict()["plain_gap"] == 0.5
    assert found.to_dict()["overall"]["gap"]["value"] == found.overall.gap.value
    assert "−50.0 points" in found.finding(found["b"])
    assert "-" not in found.finding(found["b"])
