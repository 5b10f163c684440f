import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined, reason_of
from fairmargin.errors import InputError, UnreachedError
from fairmargin.inference.bias import (
    largest_robustness_bias,
    median_distance,
    overall_robustness,
    relative_robustness_variance,
    robustness,
    robustness_bias,
    robustness_variance,
    sigma,
    sigma_parts,
    worst_group,
)

law = settings(max_examples=50, deadline=None, derandomize=True)
COMPLEMENTS, OVER = ("pooled", "mean"), ("all", "correct")


def exact(values: object, correct: object = None) -> Distances:
    hits = np.asarray(values) > 0 if correct is None else correct
    return Distances(values, hits, Bound.EXACT, Norm.L2)  # type: ignore[arg-type]


# Three groups by hand: a has 2 of 3 correct, b 1 of 2, c all of 1.
#   all samples:    Rob a = 6/3 = 2    b = 4/2 = 2    c = 5
#   correct only:       a = 6/2 = 3    b = 4/1 = 4    c = 5
HAND = exact([2.0, 4.0, 0.0, 4.0, 0.0, 5.0])
GROUPS = Partition.by("g", list("aaabbc"))

samples = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.just(0.0), st.floats(0.01, 100), st.integers(1, 4).map(float))),
    min_size=1,
    max_size=30,
)


def read(pairs: list[tuple[str, float]]) -> tuple[Distances, Partition]:
    groups, values = zip(*pairs, strict=True)
    return exact(values), Partition.by("g", groups)


# Robustness of groups and of the model. ------------------------------------------------------------------------------


def test_robustness_is_the_mean_distance_with_misclassified_samples_at_zero() -> None:
    assert robustness(HAND, GROUPS) == {"a": 2.0, "b": 2.0, "c": 5.0}


def test_robustness_up_to_a_radius_is_the_mean_of_capped_distances() -> None:
    assert robustness(HAND, GROUPS, up_to=3) == {"a": 5 / 3, "b": 1.5, "c": 3.0}


def test_overall_robustness_counts_small_groups_as_much_as_large_ones() -> None:
    assert overall_robustness(HAND, GROUPS) == 3.0  # (2 + 2 + 5) / 3, not 15 / 6


def test_robustness_variance_is_the_population_variance_over_groups() -> None:
    assert robustness_variance(HAND, GROUPS) == pytest.approx((1 + 1 + 4) / 3)
    assert relative_robustness_variance(HAND, GROUPS) == pytest.approx((1 + 1 + 4) / 3 / 9)


def test_doubling_every_distance_changes_the_variance_fourfold_and_the_relative_one_not() -> None:
    double = exact(2 * HAND.values)
    assert robustness_variance(double, GROUPS) == pytest.approx(4 * robustness_variance(HAND, GROUPS))
    assert relative_robustness_variance(double, GROUPS) == pytest.approx(relative_robustness_variance(HAND, GROUPS))


def test_the_relative_variance_of_nothing_but_zeros_is_undefined() -> None:
    value = relative_robustness_variance(exact([0.0, 0.0]), Partition.by("g", ["a", "b"]))
    assert math.isnan(value)
    assert reason_of(value) == "every group has robustness 0"


def test_the_worst_group_is_the_first_of_the_least_robust() -> None:
    worst = worst_group(HAND, GROUPS)
    assert (worst.group, worst.robustness) == ("a", 2.0)
    assert worst_group(HAND, GROUPS, up_to=3).group == "b"


@law
@given(samples)
def test_merging_groups_takes_the_weighted_mean_of_their_robustness(pairs: list[tuple[str, float]]) -> None:
    distances, partition = read(pairs)
    sizes = dict(zip(partition.labels, partition.sizes, strict=True))
    weighted = sum(sizes[g] * value for g, value in robustness(distances, partition).items()) / len(pairs)
    everyone = robustness(distances, partition.merge(smaller_than=10**6, into="all"))["all"]
    assert everyone == pytest.approx(weighted, rel=1e-12)


# The median. ---------------------------------------------------------------------------------------------------------


def test_the_median_is_taken_over_all_or_over_correct_samples() -> None:
    assert median_distance(HAND, GROUPS) == {"a": 2.0, "b": 2.0, "c": 5.0}
    assert median_distance(HAND, GROUPS, over="correct") == {"a": 3.0, "b": 4.0, "c": 5.0}


def test_a_median_may_lie_below_unreached_samples() -> None:
    distances, one = exact([1.0, 2.0, np.inf]), Partition.by("g", list("aaa"))
    assert median_distance(distances, one) == {"a": 2.0}
    assert median_distance(distances, one, up_to=1.5) == {"a": 1.5}


def test_a_median_over_no_correct_sample_is_undefined() -> None:
    value = median_distance(exact([0.0, 1.0]), Partition.by("g", ["a", "b"]), over="correct")["a"]
    assert reason_of(value) == "no correct sample in group 'a'"


def test_a_median_over_groups_of_another_length_is_refused() -> None:
    with pytest.raises(InputError, match="entries"):
        median_distance(HAND, Partition.by("g", ["a", "b"]))


def test_a_median_up_to_a_negative_radius_is_refused() -> None:
    with pytest.raises(InputError, match="`up_to` must be a radius above 0"):
        median_distance(HAND, GROUPS, up_to=-1)


# Sigma. --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("complement", "over", "expected"),
    [
        ("pooled", "all", {"a": 2 / 3 - 1, "b": 2 / (11 / 4) - 1, "c": 5 / 2 - 1}),
        ("mean", "all", {"a": 2 / 3.5 - 1, "b": 2 / 3.5 - 1, "c": 5 / 2 - 1}),
        ("pooled", "correct", {"a": 3 / 4.5 - 1, "b": 4 / (11 / 3) - 1, "c": 5 / (10 / 3) - 1}),
        ("mean", "correct", {"a": 3 / 4.5 - 1, "b": 4 / 4 - 1, "c": 5 / 3.5 - 1}),
    ],
)
def test_sigma_by_hand(complement: str, over: str, expected: dict[str, float]) -> None:
    assert sigma(HAND, GROUPS, complement=complement, over=over) == pytest.approx(expected)  # type: ignore[arg-type]


def test_sigma_up_to_a_radius_compares_capped_means() -> None:
    assert sigma(HAND, GROUPS, up_to=3)["c"] == pytest.approx(3 / (8 / 5) - 1)


@pytest.mark.parametrize("complement", COMPLEMENTS)
@pytest.mark.parametrize("over", OVER)
def test_ten_identical_groups_have_sigma_zero(complement: str, over: str) -> None:
    values, ten = np.tile([0.0, 1.0, 2.5], 10), Partition("g", list("abcdefghij"), np.repeat(np.arange(10), 3))
    found = sigma(exact(values), ten, complement=complement, over=over)  # type: ignore[arg-type]
    assert list(found.values()) == pytest.approx([0.0] * 10, abs=1e-12)


def test_the_printed_formula_would_give_minus_0_889_for_ten_identical_groups() -> None:
    area = np.full(10, 7 / 6)
    printed = (area - (area.sum() - area)) / (area.sum() - area)  # Nanda's Eq. 5 with the sum over the other groups
    np.testing.assert_allclose(printed, -8 / 9)
    assert round(float(printed[0]), 3) == -0.889


@law
@given(samples, st.floats(1e-3, 1e3), st.sampled_from(COMPLEMENTS), st.sampled_from(OVER))
def test_sigma_does_not_change_when_every_distance_is_scaled(
    pairs: list[tuple[str, float]], factor: float, complement: str, over: str
) -> None:
    distances, partition = read(pairs)
    scaled = exact(factor * distances.values)
    one = sigma(distances, partition, complement=complement, over=over)  # type: ignore[arg-type]
    other = sigma(scaled, partition, complement=complement, over=over)  # type: ignore[arg-type]
    assert other == pytest.approx(one, rel=1e-9, abs=1e-9, nan_ok=True)


@law
@given(samples)
def test_pooled_sigma_is_one_group_against_everybody_else(pairs: list[tuple[str, float]]) -> None:
    distances, partition = read(pairs)
    for label, value in sigma(distances, partition).items():
        own = [v for g, v in pairs if g == label]
        rest = [v for g, v in pairs if g != label]
        if not rest or not sum(rest):
            assert isinstance(value, Undefined)
        else:
            assert value == pytest.approx(np.mean(own) / np.mean(rest) - 1, rel=1e-9, abs=1e-9)


@law
@given(samples)
def test_merging_the_other_groups_does_not_change_pooled_sigma(pairs: list[tuple[str, float]]) -> None:
    distances, partition = read(pairs)
    against_rest = Partition.by("g", ["a" if g == "a" else "rest" for g, _ in pairs])
    if "a" in partition.labels:
        merged = sigma(distances, against_rest)["a"]
        assert merged == pytest.approx(sigma(distances, partition)["a"], rel=1e-9, abs=1e-12, nan_ok=True)


@law
@given(samples)
def test_with_two_groups_of_any_size_both_complements_agree(pairs: list[tuple[str, float]]) -> None:
    distances, _ = read(pairs)
    two = Partition.by("g", [g == "a" for g, _ in pairs])
    if len(two.labels) == 2:
        pooled, mean = (sigma(distances, two, complement=c) for c in COMPLEMENTS)  # type: ignore[arg-type]
        assert pooled == pytest.approx(mean, rel=1e-9, abs=1e-12, nan_ok=True)


def test_accuracy_drops_out_over_correct_samples() -> None:
    alike = exact([2.0, 2.0, 2.0, 0.0])
    two = Partition.by("g", list("aabb"))
    assert sigma(alike, two, over="correct") == {"a": 0.0, "b": 0.0}
    assert sigma(alike, two, over="all") == {"a": 1.0, "b": -0.5}


def test_a_dominating_group_does_not_wash_out_its_rest() -> None:
    found = sigma(exact([1e8, 1e-3, 2e-3]), Partition.by("g", ["a", "b", "c"]))
    assert found["a"] == pytest.approx(1e8 / 1.5e-3 - 1, rel=1e-4)


def test_not_even_when_the_group_lies_1e17_times_as_far() -> None:
    found = sigma(exact([1e17, 1.0]), Partition.by("g", ["a", "b"]))
    assert found["a"] == pytest.approx(1e17, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"complement": "sum"}, "`complement` must be one of 'pooled', 'mean'; given 'sum'"),
        ({"over": "wrong"}, "`over` must be one of 'all', 'correct'; given 'wrong'"),
        ({"up_to": 0}, "`up_to` must be a radius above 0; given 0"),
        ({"up_to": math.nan}, "`up_to` must be a radius above 0; given nan"),
    ],
)
def test_options_that_do_not_exist_are_refused(options: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        sigma(HAND, GROUPS, **options)


# Accuracy part and margin part. --------------------------------------------------------------------------------------


@law
@given(samples)
def test_the_parts_of_sigma_multiply_to_one_plus_sigma(pairs: list[tuple[str, float]]) -> None:
    distances, partition = read(pairs)
    whole, parts = sigma(distances, partition), sigma_parts(distances, partition)
    for label, value in whole.items():
        product = (1 + parts[label].accuracy) * (1 + parts[label].margin)
        if not math.isnan(product):
            assert 1 + value == pytest.approx(product, rel=1e-9, abs=1e-12)
        elif not math.isnan(value):  # only a group without any correct sample has a sigma but no margin
            assert value == -1
            assert reason_of(parts[label].margin) == f"no correct sample in group {label!r}"


def test_the_parts_of_sigma_by_hand() -> None:
    parts = sigma_parts(HAND, GROUPS)["a"]
    assert parts.accuracy == pytest.approx((2 / 3) / (2 / 3) - 1)
    assert parts.margin == pytest.approx(3 / 4.5 - 1)


def test_an_abstention_of_a_certificate_counts_in_the_margin_part() -> None:
    lower = Distances([2.0, 0.0, 2.0, 2.0], [True] * 4, Bound.LOWER, Norm.L2)
    parts = sigma_parts(lower, Partition.by("g", list("aabb")))["a"]
    assert (parts.accuracy, parts.margin) == (0.0, -0.5)


# Robustness bias at a radius, and its supremum. ----------------------------------------------------------------------


@law
@given(samples, st.one_of(st.floats(0, 100), st.integers(0, 4).map(float)))
def test_robustness_bias_is_the_difference_of_shares_among_correct_samples(
    pairs: list[tuple[str, float]], radius: float
) -> None:
    distances, partition = read(pairs)
    for label, value in robustness_bias(distances, partition, radius).items():
        own = [v > radius for g, v in pairs if g == label and v > 0]
        rest = [v > radius for g, v in pairs if g != label and v > 0]
        if own and rest:
            assert value == pytest.approx(abs(np.mean(own) - np.mean(rest)), abs=1e-12)
        else:
            assert isinstance(value, Undefined)


def test_robustness_bias_of_the_round_and_cross_toy() -> None:
    tau, ten = 1.0, [0.5] * 7 + [2.0] * 3
    fair, unfair = ten[::-1], [0.5] * 3 + [2.0] * 7
    two = Partition.by("shape", ["round"] * 10 + ["cross"] * 10)
    assert robustness_bias(exact(ten + unfair), two, tau)["round"] == pytest.approx(0.4)
    assert robustness_bias(exact(ten + fair), two, tau)["round"] == pytest.approx(0.0)


@pytest.mark.parametrize("radius", [-0.1, math.nan])
def test_a_radius_that_is_none_is_refused(radius: float) -> None:
    with pytest.raises(InputError, match="`radius` must be a number that is not negative"):
        robustness_bias(HAND, GROUPS, radius)


@law
@given(samples)
def test_the_largest_bias_is_scipys_kolmogorov_smirnov_distance_and_is_attained(pairs: list[tuple[str, float]]) -> None:
    distances, partition = read(pairs)
    for label, found in largest_robustness_bias(distances, partition).items():
        own = [v for g, v in pairs if g == label and v > 0]
        rest = [v for g, v in pairs if g != label and v > 0]
        if own and rest:
            assert found.value == pytest.approx(stats.ks_2samp(own, rest, method="asymp").statistic, abs=1e-12)
            assert robustness_bias(distances, partition, found.radius)[label] == pytest.approx(found.value, abs=1e-12)
        else:
            assert isinstance(found.value, Undefined)
            assert isinstance(found.radius, Undefined)


def test_the_largest_bias_is_reported_at_the_first_radius_that_attains_it() -> None:
    found = largest_robustness_bias(exact([1.0, 2.0, 3.0, 4.0]), Partition.by("g", list("aabb")))
    assert (found["a"].value, found["a"].radius) == (1.0, 2.0)


def test_the_largest_bias_needs_no_cap_for_unreached_samples() -> None:
    found = largest_robustness_bias(exact([1.0, np.inf, np.inf, np.inf]), Partition.by("g", list("aabb")))
    assert (found["a"].value, found["a"].radius) == (0.5, 1.0)


# Values that do not exist, and distances that were not found. --------------------------------------------------------

Metric = Callable[[Distances, Partition], dict[str, float]]


@pytest.mark.parametrize(
    ("metric", "values", "reason"),
    [
        (sigma, [1.0, 0.0], "the rest of group 'a' has robustness 0"),
        (lambda d, p: sigma(d, p, complement="mean"), [1.0, 0.0], "the rest of group 'a' has robustness 0"),
        (lambda d, p: sigma(d, p, over="correct"), [1.0, 0.0], "no correct sample outside group 'a'"),
        (lambda d, p: sigma(d, p, over="correct"), [0.0, 1.0], "no correct sample in group 'a'"),
        (lambda d, p: robustness_bias(d, p, 1), [1.0, 0.0], "no correct sample outside group 'a'"),
        (lambda d, p: robustness_bias(d, p, 1), [0.0, 1.0], "no correct sample in group 'a'"),
        (lambda d, p: {"a": sigma_parts(d, p)["a"].accuracy}, [1.0, 0.0], "the rest of group 'a' has accuracy 0"),
        (lambda d, p: {"a": sigma_parts(d, p)["a"].margin}, [1.0, 0.0], "no correct sample outside group 'a'"),
    ],
)
def test_what_does_not_exist_is_undefined_with_the_reason(metric: Metric, values: list[float], reason: str) -> None:
    value = metric(exact(values), Partition.by("g", ["a", "b"]))["a"]
    assert isinstance(value, Undefined)
    assert math.isnan(value)
    assert value.reason == reason


@pytest.mark.parametrize("complement", COMPLEMENTS)
def test_sigma_of_the_only_group_is_undefined(complement: str) -> None:
    value = sigma(exact([1.0, 2.0]), Partition.by("g", ["a", "a"]), complement=complement)["a"]  # type: ignore[arg-type]
    assert reason_of(value) == "no sample outside group 'a'"


def test_sigma_is_not_undefined_because_the_group_itself_has_robustness_zero() -> None:
    assert sigma(exact([0.0, 1.0]), Partition.by("g", ["a", "b"]))["a"] == -1.0


def test_the_reason_of_an_undefined_mean_complement_is_true() -> None:
    three = sigma(exact([0.0, 1.0, 2.0]), Partition.by("g", ["a", "b", "c"]), complement="mean", over="correct")
    assert "outside group 'c'" not in reason_of(three["c"])  # b lies outside c and has a correct sample


UNREACHED = exact([1.0, 2.0, np.inf, np.inf, 3.0])
TRUCKS = Partition.by("g", ["cat", "cat", "truck", "truck", "truck"])


@pytest.mark.parametrize(
    "metric", [robustness, sigma, sigma_parts, overall_robustness, robustness_variance, worst_group]
)
def test_an_average_over_unreached_samples_names_the_group_and_the_way_out(metric: Callable) -> None:
    sentence = "2 of 3 samples in group 'truck' have no finite distance"
    with pytest.raises(UnreachedError, match=re.escape(sentence) + r".*`up_to=`"):
        metric(UNREACHED, TRUCKS)
    metric(UNREACHED, TRUCKS, up_to=4.0)


def test_unreached_samples_count_as_the_radius_up_to_which_is_averaged() -> None:
    assert robustness(UNREACHED, TRUCKS, up_to=4.0) == {"cat": 1.5, "truck": 11 / 3}


@pytest.mark.parametrize(
    "metric", [robustness, sigma, sigma_parts, largest_robustness_bias, lambda d, p: robustness_bias(d, p, 1.0)]
)
def test_groups_of_another_length_are_refused(metric: Callable) -> None:
    with pytest.raises(InputError, match=r"has 2 entries but .* has 6"):
        metric(HAND, Partition.by("g", ["a", "b"]))
