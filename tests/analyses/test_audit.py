import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import reason_of
from fairmargin.inference.estimate import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NO_VERDICT,
    NOT_COMPARABLE,
    TOO_FEW,
    UNJUDGED,
    Estimate,
)
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import binomial_interval, kolmogorov_band
from tests.oracles import accuracy_by_group, robustness, sigma

QUICK = AuditSettings(resamples=400)


def quick(**changes: Any) -> AuditSettings:
    """Return the quick settings with some of them changed."""
    return AuditSettings(resamples=400, **changes)


def distances_of(values: object, bound: Bound = Bound.EXACT, **more: object) -> Distances:
    return Distances(values, np.asarray(values) > 0, bound, Norm.L2, **more)  # type: ignore[arg-type]


def groups_of(*sizes: int, labels: str = "abcdefghij") -> Partition:
    return Partition("g", list(labels[: len(sizes)]), np.repeat(np.arange(len(sizes)), sizes))


def gammas(*means: float, size: int = 60, seed: int = 0, shape: float = 4.0) -> Floats:
    """Return `size` distances around each mean, of which about a tenth are 0."""
    rng = np.random.default_rng(seed)
    values = [rng.gamma(shape, mean / shape, size) * (rng.random(size) < 0.9) for mean in means]
    return np.concatenate(values)


def width(estimate: Estimate) -> float:
    return estimate.high - estimate.low


def verdicts(result: AuditResult) -> list[str]:
    return [row.verdict for row in result]


THREE = audit(distances_of(gammas(0.5, 1.0, 2.0)), groups_of(60, 60, 60), QUICK)


# Verdicts. -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "sizes", "settings", "expected"),
    [
        (gammas(0.5, 1.0, 2.0), (60, 60, 60), {}, {"a": LESS_ROBUST, "c": MORE_ROBUST}),
        (gammas(1.0, 1.0, 1.0), (60, 60, 60), {}, dict.fromkeys("abc", NO_DIFFERENCE)),
        (gammas(1.0, 5.0)[10:], (50, 60), {}, {"a": LESS_ROBUST, "b": MORE_ROBUST}),
        (gammas(1.0, 5.0)[11:], (49, 60), {}, {"a": NO_VERDICT, "b": NO_VERDICT}),
        (gammas(1.0, 9.0)[50:], (10, 60), {"smallest_group": 5}, {"a": NO_VERDICT}),
        (gammas(1.0, 5.0), (60, 60), {"smallest_group": 61}, {"a": TOO_FEW, "b": TOO_FEW}),
        (np.full(120, 0.3), (60, 60), {}, dict.fromkeys("ab", NO_DIFFERENCE)),
        (np.zeros(120), (60, 60), {}, dict.fromkeys("ab", NO_DIFFERENCE)),
    ],
    ids=[
        "different groups",
        "equal groups",
        "50 samples",
        "49 samples",
        "a small smallest group",
        "a large smallest group",
        "constants",
        "always wrong",
    ],
)
def test_groups_that_differ_clearly_and_only_these_get_a_verdict_of_difference(
    values: Floats, sizes: tuple[int, ...], settings: dict, expected: dict
) -> None:
    result = audit(distances_of(values), groups_of(*sizes), quick(**settings))
    assert {group: result[group].verdict for group in expected} == expected


def test_a_finding_holds_sigma_its_interval_and_p() -> None:
    row = THREE["c"]
    value, low, high = (f"+{100 * number:.0f} %" for number in (row.sigma.value, row.sigma.low, row.sigma.high))
    numbers = f"σ = {value}, 95 % interval for all groups at once {low} to {high}; p < 0.001"
    assert THREE.finding(row) == f"c: more robust than the rest, by exact distances ({numbers})."


def test_below_the_smallest_group_there_is_no_verdict_and_no_p() -> None:
    result = audit(distances_of(gammas(1.0, 5.0)[31:]), groups_of(29, 60), QUICK)
    assert verdicts(result) == [TOO_FEW, TOO_FEW]
    assert (
        result.finding(result["a"])
        == "a: too few samples (it has 29 samples; a reliable interval needs 30, a verdict 50)."
    )
    assert (
        result.finding(result["b"])
        == "b: too few samples (its rest has 29 samples; a reliable interval needs 30, a verdict 50)."
    )
    assert all(math.isnan(p) for row in result for p in (row.p, row.p_adjusted))
    assert math.isnan(result.overall.p_equal)


def test_from_30_to_49_samples_there_is_an_interval_but_no_verdict_and_no_hypothesis() -> None:
    result = audit(distances_of(gammas(1.0, 5.0, 5.5)[20:]), groups_of(40, 60, 60), QUICK)
    row = result["a"]
    assert result.finding(row) == "a: no verdict (it has 40 samples, enough for an interval; a verdict needs 50)."
    assert row.sigma.low < row.sigma.value < 0 == row.sigma.high
    assert row.sigma_alone.high < 0
    assert [reason_of(p) for p in (row.p, row.p_adjusted)] == [
        "it has 40 samples, enough for an interval; a verdict needs 50"
    ] * 2
    said = "Not judged (fewer than 50 samples on a side, which have an interval only): “a”."
    assert said in result.summary()
    judged = [row for row in result if row.group != "a"]
    assert result.overall.p_equal == pytest.approx(2 * min(row.p for row in judged))


def test_small_groups_do_not_cost_the_others_a_correction() -> None:
    values = gammas(1.0, 1.2, 1.4)
    with_small = audit(distances_of(np.append(values, [1.0, 1.2])), groups_of(60, 60, 60, 2), QUICK)
    assert with_small["d"].verdict == TOO_FEW
    smallest = min(row.p for row in with_small if not math.isnan(row.p))
    assert with_small.overall.p_equal == pytest.approx(3 * smallest)


# Two groups. ---------------------------------------------------------------------------------------------------------


def test_two_groups_mirror_each_other() -> None:
    result = audit(distances_of(gammas(1.0, 1.3)), groups_of(60, 60), QUICK)
    a, b = result
    assert a.p == b.p == a.p_adjusted == b.p_adjusted
    assert (1 + a.sigma.value) * (1 + b.sigma.value) == pytest.approx(1)
    assert (1 + a.sigma.low) * (1 + b.sigma.high) == pytest.approx(1)
    assert a.gap_to_rest.value == pytest.approx(-b.gap_to_rest.value)
    assert a.gap_to_rest.low == pytest.approx(-b.gap_to_rest.high)
    assert {a.verdict, b.verdict} in ({LESS_ROBUST, MORE_ROBUST}, {NO_DIFFERENCE})


# Values and intervals. -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("up_to", [math.inf, 0.8])
def test_point_values_are_those_of_the_definitions(up_to: float) -> None:
    distances, partition = distances_of(gammas(0.5, 1.0, 2.0)[40:]), groups_of(20, 60, 60)
    result = audit(distances, partition, quick(up_to=up_to))
    assert result.up_to == up_to
    for name, expected in (
        ("robustness", robustness(distances, partition, up_to)),
        ("sigma", sigma(distances, partition, up_to=up_to)),
        ("accuracy", accuracy_by_group(distances.correct, partition)),
    ):
        assert {row.group: getattr(row, name).value for row in result} == pytest.approx(expected)
    means = list(robustness(distances, partition, up_to).values())
    assert result.overall.robustness.value == pytest.approx(np.mean(means))
    assert result.overall.worst_group == partition.labels[int(np.argmin(means))]
    assert result.overall.variance.value == pytest.approx(np.var(means), rel=0.1)
    assert result.overall.size == 140


def test_the_largest_robustness_bias_is_the_statistic_of_kolmogorov_and_smirnov_among_correct_samples() -> None:
    values, groups = gammas(1.0, 1.1, 2.0), groups_of(60, 60, 60)
    frame = audit(distances_of(values), groups, QUICK).to_frame().set_index("group")
    for label, mask in groups:
        expected = stats.ks_2samp(values[mask & (values > 0)], values[~mask & (values > 0)])
        found = frame.loc[label, ["robustness_bias_max", "robustness_bias_radius"]].tolist()
        assert found == pytest.approx([expected.statistic, expected.statistic_location])


def test_the_largest_robustness_bias_looks_below_the_cap_only_and_needs_correct_samples_on_both_sides() -> None:
    values = np.array([0.0, 1.0, 2.0, 8.0, 0.0, 2.0, 9.0, 9.0])
    lower = Distances(values, [True] * 4 + [False] + [True] * 3, Bound.LOWER, Norm.L2)  # a certificate may be 0
    frame = audit(lower, groups_of(4, 4), quick(up_to=5.0)).to_frame()
    assert frame[["robustness_bias_max", "robustness_bias_radius"]].to_numpy().tolist() == [[0.5, 1.0]] * 2
    nobody = audit(distances_of([0.0, 0.0, 1.0, 2.0]), groups_of(2, 2), QUICK).records()
    assert [reason_of(row["robustness_bias_max"]) for row in nobody] == [
        "no correct sample in group 'a'",
        "no correct sample outside group 'b'",
    ]


def test_accuracy_has_the_exact_binomial_interval_and_the_curve_kolmogorovs_band() -> None:
    row = THREE["a"]
    hits = round(row.accuracy.value * 60)
    assert (row.accuracy.low, row.accuracy.high) == pytest.approx(binomial_interval(hits, 60, 0.95))
    assert row.band == kolmogorov_band(60, 0.95)
    assert row.curve.area() == pytest.approx(row.robustness.value)
    assert row.curve.at(0.0) == pytest.approx(row.accuracy.value)


@pytest.mark.parametrize("seed", range(3))
def test_every_interval_holds_its_value_and_stays_where_it_can_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 120, 4)
    values = np.concatenate([rng.lognormal(0, 1, n) * (rng.random(n) < 0.7) for n in sizes])
    result = audit(distances_of(values), groups_of(*sizes), quick(smallest_group=5))
    for row in result:
        for estimate in (row.accuracy, row.robustness, row.sigma, row.gap_to_rest):
            assert estimate.low <= estimate.value <= estimate.high
        assert row.robustness.low > 0
        assert row.sigma.low > -1
        assert row.verdict in UNJUDGED or 0 < row.p <= row.p_adjusted <= 1
    overall = result.overall
    for estimate in (overall.accuracy, overall.robustness, overall.variance, overall.largest_gap):
        assert 0 <= estimate.low <= estimate.value <= estimate.high
    assert overall.worst_robustness.low <= overall.worst_robustness.value <= overall.worst_robustness.high


def test_more_confidence_makes_intervals_wider_and_equal_means_are_not_known_to_be_equal() -> None:
    distances, partition = distances_of(gammas(1.0, 1.2)), groups_of(60, 60)
    equal = audit(distances_of(np.tile(gammas(1.0), 2)), partition, QUICK)
    assert min(equal["a"].gap_to_rest.high, equal.overall.largest_gap.high) > 0.1
    widths = [width(audit(distances, partition, quick(confidence=c))["a"].sigma) for c in (0.8, 0.95, 0.99)]
    assert widths == sorted(widths)
    assert len(set(widths)) == 3


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_many_normal_distances_have_the_textbooks_intervals(confidence: float) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(10, 1, 400), rng.normal(11, 2, 300)
    row = audit(distances_of(np.append(a, b)), groups_of(400, 300), AuditSettings(confidence=confidence))["a"]
    welch = stats.ttest_ind(a, b, equal_var=False).confidence_interval(confidence)
    student = stats.t.interval(confidence, 399, a.mean(), stats.sem(a))
    slack = 0.05 * (welch.high - welch.low)
    assert (row.gap_to_rest.low, row.gap_to_rest.high) == pytest.approx((welch.low, welch.high), abs=slack)
    assert (row.sigma.low, row.sigma.high) == pytest.approx((welch.low / b.mean(), welch.high / b.mean()), abs=0.003)
    assert (row.robustness.low, row.robustness.high) == pytest.approx(student, abs=slack)


# The same again. -----------------------------------------------------------------------------------------------------


def test_a_seed_decides_the_last_digits_of_intervals_and_nothing_else_changes() -> None:
    values, partition = gammas(0.8, 1.0, 1.2), groups_of(60, 60, 60)
    before, state = values.copy(), np.random.get_state()[1].tolist()
    one, same, other = (audit(distances_of(values), partition, AuditSettings(seed=seed)) for seed in (1, 1, 2))
    assert (values == before).all()
    assert np.random.get_state()[1].tolist() == state
    assert one.to_json() == same.to_json()
    for a, b in zip(one, other, strict=True):
        assert (a.sigma.value, a.robustness.value) == (b.sigma.value, b.robustness.value)
        limits, others = ([row.sigma_alone.low, row.sigma_alone.high] for row in (a, b))
        assert limits != others
        assert limits == pytest.approx(others, abs=0.05)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_the_order_of_samples_changes_nothing_to_the_last_bit(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 10**6))
    clusters = data.draw(st.sampled_from(["none", "inside groups", "across groups"]))
    strata, size = data.draw(st.sampled_from([1, 2])), data.draw(st.sampled_from([20, 90, 3_500]))
    rng = np.random.default_rng(seed)
    size = min(size, 90) if clusters == "across groups" else size
    group = rng.permutation(np.arange(size) % data.draw(st.integers(1, 4)))
    values = rng.lognormal(0, 1, size) * 10.0 ** rng.integers(-3, 3, size)
    values[rng.random(size) < 0.1] = 0.0
    if data.draw(st.booleans()):
        values[rng.random(size) < 0.05] = math.inf
    person = rng.integers(0, size // 3, size)
    cluster = {"none": None, "inside groups": person * 10 + group, "across groups": person}[clusters]
    stratum, tried = rng.integers(0, strata, size), rng.uniform(5, 9, size)
    order = rng.permutation(size)

    def result(which: Ints) -> str:
        chosen = AuditSettings(
            resamples=200,
            cluster=None if cluster is None else cluster[which],
            control=None if strata == 1 else Partition.by("stratum", stratum[which]),
        )
        distances = Distances(values[which], values[which] > 0, Bound.UPPER, Norm.L2, tried=tried[which])
        return audit(distances, Partition.by("group", group[which]), chosen).to_json()

    assert result(np.arange(size)) == result(order)


def test_neither_the_order_of_samples_nor_that_of_labels_changes_a_groups_row() -> None:
    values, order = gammas(0.6, 1.0, 1.6), np.random.default_rng(1).permutation(180)
    one = audit(distances_of(values), Partition("g", ["a", "b", "c"], np.repeat([0, 1, 2], 60)), AuditSettings())
    shuffled = Partition("g", ["c", "a", "b"], np.repeat([1, 2, 0], 60)[order])
    other = audit(distances_of(values[order]), shuffled, AuditSettings())
    assert [row.group for row in other] == ["c", "a", "b"]
    for row in one:
        twin = other[row.group]
        assert (twin.size, twin.verdict) == (row.size, row.verdict)
        for name in ("accuracy", "robustness", "sigma", "gap_to_rest"):
            assert getattr(twin, name).value == pytest.approx(getattr(row, name).value, rel=1e-12)
        assert width(twin.sigma) == pytest.approx(width(row.sigma), rel=0.25)
        assert twin.p == pytest.approx(row.p, rel=0.5, abs=1e-3)


# Groups at the edge. -------------------------------------------------------------------------------------------------


def test_a_single_group_has_robustness_but_nothing_to_be_compared_with() -> None:
    result = audit(distances_of(gammas(1.0)), groups_of(60), QUICK)
    row = result["a"]
    assert row.robustness.low < row.robustness.value < row.robustness.high
    assert row.sigma.reason == row.gap_to_rest.reason == "there is no sample outside group 'a'"
    assert not row.sigma.is_defined
    assert row.verdict == NOT_COMPARABLE
    assert result.finding(row) == "a: not comparable (there is no sample outside the group)."
    assert not result.overall.largest_gap.is_defined
    assert result.overall.largest_gap.reason == "fewer than two groups have two independent samples"
    assert AuditResult.from_json(result.to_json())["a"].sigma.reason == row.sigma.reason


def test_a_group_of_one_sample_has_a_mean_but_no_interval() -> None:
    distances, partition = distances_of(np.append(gammas(1.0, 1.0), 3.0)), groups_of(60, 60, 1)
    result = audit(distances, partition, QUICK)
    row = result["c"]
    assert row.robustness.value == 3.0
    assert math.isnan(row.robustness.low)
    assert row.robustness.reason == "group 'c' has 1 independent sample; an interval needs at least 2"
    assert row.verdict == TOO_FEW
    assert math.isnan(row.sigma.low)
    assert row.sigma.value == pytest.approx(sigma(distances, partition)["c"])
    assert row.gap_to_rest.value == pytest.approx(3.0 - distances.values[:120].mean())
    assert "1 sample" in row.sigma.reason
    assert result["a"].sigma.is_defined
    assert result.overall.variance.is_defined  # of the groups that have an interval


@pytest.mark.parametrize("values", [np.tile([1.0, 3.0], 30), gammas(1.0)])
def test_sigma_against_a_rest_that_is_always_misclassified_is_undefined(values: Floats) -> None:
    result = audit(distances_of(np.append(values, np.zeros(60))), groups_of(60, 60), QUICK)
    strong, weak = result
    assert strong.sigma.reason == "the rest of group 'a' has robustness 0"
    assert "σ undefined: the rest of group 'a' has robustness 0" in result.finding(strong)
    assert strong.gap_to_rest.low > 0
    assert (weak.robustness.value, weak.sigma.value, weak.accuracy.value) == (0.0, -1.0, 0.0)
    assert weak.sigma.reason == "no sample of group 'b' has a distance above 0"
    assert verdicts(result) == [MORE_ROBUST, LESS_ROBUST]
    nobody = audit(distances_of(np.zeros(120)), groups_of(60, 60), QUICK)
    assert nobody["a"].p == 1.0
    assert nobody.overall.variance.reason == "every group has robustness 0"


# Unreached samples. --------------------------------------------------------------------------------------------------

FOUND = gammas(1.0, 1.2)
MISSED = np.where(np.arange(120) % 40 == 7, np.inf, FOUND)  # 3 of 120
FARTHEST = float(MISSED[np.isfinite(MISSED)].max())


@pytest.mark.parametrize(
    ("tried", "settings", "cap"),
    [
        (None, {}, FARTHEST),
        (np.where(np.isinf(MISSED), FARTHEST, np.nan), {}, FARTHEST),
        (None, {"up_to": 0.5}, 0.5),
    ],
)
def test_unreached_samples_cap_every_distance_at_one_radius(tried: Floats | None, settings: dict, cap: float) -> None:
    result = audit(distances_of(MISSED, Bound.UPPER, tried=tried), groups_of(60, 60), quick(**settings))
    assert result.up_to == cap
    assert result["a"].robustness.value == pytest.approx(np.minimum(MISSED, cap)[:60].mean())
    assert [row.unreached for row in result] == pytest.approx([2 / 60, 1 / 60])
    assert result["a"].curve.at(1e9) == pytest.approx(2 / 60)
    assert result.cap_reason.startswith("3 of 120 samples (2.5 %) have no finite distance")
    everything = audit(distances_of(np.full(120, np.inf), tried=np.full(120, 2.0)), groups_of(60, 60), QUICK)
    assert (everything.up_to, everything["a"].robustness.value, verdicts(everything)) == (2.0, 2.0, [NO_DIFFERENCE] * 2)


# Control. ------------------------------------------------------------------------------------------------------------


def simpson(effect: float = 1.0) -> tuple[Distances, Partition, Partition]:
    """Group a is mostly in the hard class, b in the easy one; inside a class a's distances are `effect` times b's."""
    rng = np.random.default_rng(2)
    hard = np.repeat([True, False, True, False], [80, 20, 20, 80])
    values = np.where(hard, 1.0, 3.0) * rng.gamma(9, 1 / 9, 200)
    values[:100] *= effect
    return distances_of(values), groups_of(100, 100), Partition.by("class", np.where(hard, "hard", "easy"))


def test_inside_strata_a_mere_mix_of_classes_vanishes_and_a_hidden_difference_is_found() -> None:
    distances, partition, control = simpson()
    assert verdicts(audit(distances, partition, QUICK)) == [LESS_ROBUST, MORE_ROBUST]
    result = audit(distances, partition, quick(control=control))
    assert verdicts(result) == [NO_DIFFERENCE] * 2
    assert abs(result["a"].sigma.value) < 0.1
    assert result["a"].sigma.low < 0 < result["a"].sigma.high
    assert result.control == "class"
    assert "permuted inside strata" in result.method
    distances, partition, control = simpson(effect=1.5)  # a difference that the mix hides
    assert audit(distances, partition, QUICK)["a"].sigma.value < 0
    row = audit(distances, partition, quick(control=control))["a"]
    assert row.verdict == MORE_ROBUST
    assert row.sigma.value == pytest.approx(0.5, abs=0.15)


def test_sigma_under_control_compares_means_in_the_overall_mix() -> None:
    distances, partition, control = simpson(effect=1.2)
    row = audit(distances, partition, quick(control=control))["a"]
    a, hard = partition.membership == 0, control.membership == control.labels.index("hard")
    own, rest = (
        0.5 * distances.values[side & hard].mean() + 0.5 * distances.values[side & ~hard].mean() for side in (a, ~a)
    )
    assert row.sigma.value == pytest.approx(own / rest - 1)
    assert row.gap_to_rest.value == pytest.approx(own - rest)
    assert row.robustness.value == pytest.approx(distances.values[a].mean())  # Rob(P) itself is not standardised


def test_a_control_with_one_class_changes_nothing() -> None:
    distances, partition = distances_of(gammas(1.0, 1.3)), groups_of(60, 60)
    plain = audit(distances, partition, QUICK)
    controlled = audit(distances, partition, quick(control=Partition.by("class", ["x"] * 120)))
    assert controlled.to_frame().equals(plain.to_frame())


@pytest.mark.parametrize(("alone", "verdict"), [(20, NO_DIFFERENCE), (25, NOT_COMPARABLE), (100, NOT_COMPARABLE)])
def test_above_a_fifth_of_samples_without_a_counterpart_groups_are_not_comparable(alone: int, verdict: str) -> None:
    values = gammas(1.0, 1.0, size=100, seed=3)
    control = Partition.by("class", ["rare"] * alone + ["common"] * (200 - alone))
    result = audit(distances_of(values), groups_of(100, 100), quick(control=control))
    row = result["a"]
    assert row.verdict == verdict
    assert row.dropped == pytest.approx(alone / 100)
    assert row.robustness.is_defined
    if verdict == NOT_COMPARABLE:
        said = f"a: not comparable ({alone} % of the samples lie in strata of 'class' that lack one side)."
        assert result.finding(row) == said
        assert math.isnan(row.p)
    if alone == 100:
        assert row.sigma.reason == "no stratum has two samples of group 'a' and two others"


# Clusters. -----------------------------------------------------------------------------------------------------------


def test_copies_of_each_sample_as_clusters_add_no_certainty() -> None:
    values, people = gammas(1.0, 1.25, size=50), np.repeat(np.arange(100), 4)
    once = audit(distances_of(values), groups_of(50, 50), QUICK)
    copies = distances_of(np.repeat(values, 4))
    clustered = audit(copies, groups_of(200, 200), quick(cluster=people))
    careless = audit(copies, groups_of(200, 200), QUICK)
    assert clustered.clustered
    for name in ("sigma", "gap_to_rest", "robustness", "accuracy"):
        one, other, short = (getattr(result["a"], name) for result in (once, clustered, careless))
        assert other.value == pytest.approx(one.value)
        assert width(other) == pytest.approx(width(one), rel=0.05)
        assert width(short) < 0.65 * width(one)
    assert clustered["a"].band == pytest.approx(once["a"].band)
    assert clustered["a"].p == pytest.approx(once["a"].p, rel=0.5)
    assert careless["a"].p < once["a"].p / 5


def test_clusters_are_counted_and_not_samples_for_a_verdict() -> None:
    people = np.repeat(np.arange(24), 10)
    result = audit(distances_of(gammas(1.0, 9.0, size=120)), groups_of(120, 120), quick(cluster=people))
    assert verdicts(result) == [TOO_FEW] * 2
    assert result.finding(result["a"]).startswith("a: too few samples (it has 12 effective samples;")


def test_a_sample_whose_cluster_is_missing_is_a_cluster_of_its_own() -> None:
    distances, partition = distances_of(gammas(1.0, 1.3)), groups_of(60, 60)
    alone = audit(distances, partition, quick(cluster=[None, float("nan")] * 60))
    plain = audit(distances, partition, QUICK)
    assert alone["a"].sigma.low == pytest.approx(plain["a"].sigma.low)
    for cluster, codes in (
        ([None, "x", None, "x"], [0, 1, 2, 1]),
        (pd.Series([1, None, 1, None], dtype="Int64"), [0, 1, 0, 2]),
    ):
        assert AuditSettings(cluster=cluster).cluster_codes(4).tolist() == codes  # type: ignore[union-attr]


def paired(effect: float, seed: int = 4) -> tuple[Distances, Partition, np.ndarray]:
    """Fifty people photographed young and old: very different people, nearly the same effect in each."""
    rng = np.random.default_rng(seed)
    level = rng.lognormal(0, 1, 50)
    values = np.concatenate([level, effect * level]) * rng.gamma(100, 1 / 100, 100)
    return distances_of(values), groups_of(50, 50), np.tile(np.arange(50), 2)


def test_clusters_that_span_groups_are_compared_within_themselves() -> None:
    distances, ages, people = paired(1.3)
    careless = audit(distances, ages, QUICK)
    result = audit(distances, ages, quick(cluster=people))
    assert verdicts(careless) == [NO_DIFFERENCE] * 2
    assert verdicts(result) == [LESS_ROBUST, MORE_ROBUST]
    assert "clusters span groups or strata: sign-flip test of whole clusters" in result.method
    assert result["b"].sigma.value == pytest.approx(careless["b"].sigma.value)
    assert width(result["b"].sigma) < 0.3 * width(careless["b"].sigma)
    assert result["b"].sigma.low < 0.3 < result["b"].sigma.high
    same, ages, people = paired(1.0)
    assert verdicts(audit(same, ages, quick(cluster=people))) == [NO_DIFFERENCE] * 2
    strata = Partition.by("class", np.arange(100) % 2)
    controlled = audit(distances, ages, quick(cluster=people // 2, control=strata))
    assert controlled["b"].sigma.value == pytest.approx(0.3, abs=0.1)


def test_a_single_cluster_over_everything_is_too_few_and_causes_no_warning_of_numpy() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = audit(distances_of(gammas(1.0, 2.0)), groups_of(60, 60), quick(cluster=["one"] * 120))
    assert verdicts(result) == [TOO_FEW] * 2
    assert result["a"].robustness.reason == "group 'a' has 1 independent sample; an interval needs at least 2"


# What the verdict rests on. ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", Bound)
def test_every_finding_names_the_kind_of_bound_and_every_estimate_the_direction_of_its_error(bound: Bound) -> None:
    result = audit(distances_of(gammas(0.5, 1.0), bound, subject="smoothed(0.25)"), groups_of(60, 60), QUICK)
    assert all(f", by {bound.words} (" in result.finding(row) for row in result)
    assert bound.words in result.title
    assert (result.subject, result.norm, result.bound) == ("smoothed(0.25)", Norm.L2, bound)
    relative = Bound.EXACT if bound is Bound.EXACT else Bound.NEITHER
    row, overall = result["a"], result.overall
    assert row.robustness.bound is overall.robustness.bound is overall.worst_robustness.bound is bound
    assert row.sigma.bound is row.gap_to_rest.bound is relative
    assert overall.variance.bound is overall.relative_variance.bound is overall.largest_gap.bound is relative
    assert row.accuracy.bound is overall.accuracy.bound is Bound.EXACT


@pytest.mark.parametrize(
    ("bound", "words", "always"),
    [
        (Bound.EXACT, (), ()),
        (Bound.UPPER, ("upper bounds",), ()),
        (Bound.LOWER, ("lower bounds",), ()),
        (Bound.NEITHER, ("a proxy",), ("a proxy",)),
    ],
)
def test_a_difference_between_bounds_is_warned_of_and_proxies_always_are(
    bound: Bound, words: tuple[str, ...], always: tuple[str, ...]
) -> None:
    for means, expected in (((0.5, 1.0), words), ((1.0, 1.0), always)):
        result = audit(distances_of(gammas(*means), bound), groups_of(60, 60), QUICK)
        assert len(result.warnings) == len(expected)
        assert all(word in warning for word, warning in zip(expected, result.warnings, strict=True))


def test_one_very_weak_group_that_makes_all_others_look_strong_is_warned_of() -> None:
    result = audit(distances_of(gammas(0.1, 1.0, 1.0, 1.0)), groups_of(60, 60, 60, 60), QUICK)
    assert verdicts(result)[0] == LESS_ROBUST
    assert MORE_ROBUST in verdicts(result)[1:]
    (warning,) = result.warnings
    assert warning.startswith("Group 'a' is so much weaker that it lowers the rest of every other group")
    assert all(repr(row.group) in warning for row in result if row.verdict == MORE_ROBUST)
    for means in ((0.8, 1.0, 1.0, 1.9), (1.0, 1.0, 1.0, 1.0), (0.1, 2.0)):
        assert audit(distances_of(gammas(*means)), groups_of(*[60] * len(means)), QUICK).warnings == ()
