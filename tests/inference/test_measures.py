import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined, reason_of
from fairmargin.errors import InputError, UnreachedError
from fairmargin.inference.measures import (
    robustness_bias,
    sigma,
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


# The median. ---------------------------------------------------------------------------------------------------------


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


def test_an_average_over_unreached_samples_names_the_group_and_the_way_out() -> None:
    sentence = "2 of 3 samples in group 'truck' have no finite distance"
    with pytest.raises(UnreachedError, match=re.escape(sentence) + r".*`up_to=`"):
        sigma(UNREACHED, TRUCKS)
    assert sigma(UNREACHED, TRUCKS, up_to=4.0)["cat"] == pytest.approx(1.5 / (11 / 3) - 1)


@pytest.mark.parametrize("metric", [sigma, lambda d, p: robustness_bias(d, p, 1.0)])
def test_groups_of_another_length_are_refused(metric: Callable) -> None:
    with pytest.raises(InputError, match=r"has 2 entries but .* has 6"):
        metric(HAND, Partition.by("g", ["a", "b"]))
