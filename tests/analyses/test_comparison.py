"""Two models on the same samples: each sample is its own control."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.analyses.comparison import compare
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.errors import InputError
from fairmargin.inference.crossing import cluster_sums
from fairmargin.inference.estimate import UNJUDGED, Estimate
from fairmargin.inference.paired import paired_changes
from fairmargin.inference.permutation import holm
from fairmargin.inference.settings import AuditSettings
from tests.inference.compare_scenarios import EFFECTS, NULLS, rates

QUICK = AuditSettings(resamples=400)


def exact(values, estimator: str = "exact_linear:norm=l2") -> Distances:
    values = np.asarray(values, dtype=float)
    return Distances(values, values > 0, Bound.EXACT, Norm.L2, estimator=estimator)


def groups(*sizes: int) -> Partition:
    return Partition("g", [f"g{i}" for i in range(len(sizes))], np.repeat(np.arange(len(sizes)), sizes))


def pairs(seed: int, sizes: tuple[int, ...] = (60, 90)) -> tuple[Distances, Distances, Partition]:
    """Return the distances of two models, which are correlated and differ."""
    rng = np.random.default_rng(seed)
    before = rng.gamma(2, 1, sum(sizes))
    return exact(before), exact(before * rng.gamma(20, 1 / 18, len(before))), groups(*sizes)


def numbers(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


# Laws


@pytest.mark.parametrize("seed", range(3))
def test_a_model_does_not_differ_from_itself(seed):
    before, _, partition = pairs(seed)
    found = compare(before, before, partition, QUICK)
    for row in found:
        assert row.change.value == 0
        assert row.change.low == pytest.approx(-row.change.high)
        assert 0 < row.change.high < 0.1 * row.before  # a few samples that differ may not have been drawn
        assert row.p == row.p_adjusted == 1
        assert row.sigma_change.value == 0
        assert row.sigma_change.low < 0 < row.sigma_change.high
        assert row.sigma_p == row.sigma_p_adjusted == 1
        assert row.verdict == "no significant difference"
        assert "no significant change" in found.finding(row)


@pytest.mark.parametrize("shift", [0.15, -0.15])
def test_a_constant_shift_far_smaller_than_the_spread_is_found(shift):
    before = exact(np.random.default_rng(0).gamma(2, 1, 700) + 1)  # standard deviation 1.4
    after = exact(before.values + shift)
    found = compare(before, after, groups(300, 400), QUICK)
    for row in found:
        assert row.change.value == pytest.approx(shift)
        assert row.change.low < shift < row.change.high
        assert row.p_adjusted < 0.05
        assert row.verdict == ("more robust" if shift > 0 else "less robust")
        assert f"{row.verdict} than before" in found.finding(row)


def test_a_change_that_three_newly_wrong_samples_would_undo_is_not_significant():
    """Check that the interval allows for 5 % of the population that 60 samples miss with a probability of 5 %."""
    before = exact(np.random.default_rng(0).gamma(2, 1, 120))
    for row in compare(before, exact(before.values / 0.95), groups(60, 60), QUICK):
        assert row.verdict == "no significant difference"
        assert row.change.low <= 0 < row.change.high


def test_only_the_group_that_changed_is_found_to_have_changed_and_p_values_are_corrected_for_all_groups():
    before = exact(np.random.default_rng(1).gamma(2, 1, 300))
    after = exact(before.values * np.repeat([0.8, 1.0, 1.0], 100))
    found = compare(before, after, groups(100, 100, 100), QUICK)
    assert [row.verdict for row in found] == ["less robust", *["no significant difference"] * 2]
    assert found["g0"].sigma_after < found["g0"].sigma_before
    assert found["g0"].sigma_p_adjusted < 0.05
    assert [row.p_adjusted for row in found] == holm(np.array([row.p for row in found])).tolist()
    assert [row.sigma_p_adjusted for row in found] == holm(np.array([row.sigma_p for row in found])).tolist()


def test_everybody_gaining_by_the_same_factor_leaves_the_gap_as_it_was():
    before, _, partition = pairs(2)
    for row in compare(before, exact(before.values * 1.5), partition, QUICK):
        assert row.verdict == "more robust"
        assert row.sigma_change.value == pytest.approx(0, abs=1e-12)
        assert row.sigma_change.low <= 1e-12
        assert row.sigma_change.high >= -1e-12


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_swapping_before_and_after_swaps_the_signs(seed):
    before, after, partition = pairs(seed)
    there, back = compare(before, after, partition, QUICK), compare(after, before, partition, QUICK)
    for row, reverse in zip(there, back, strict=True):
        for one, other in ((row.change, reverse.change), (row.sigma_change, reverse.sigma_change)):
            assert numbers(one) == pytest.approx([-other.value, -other.high, -other.low])
        assert (row.p, row.sigma_p) == pytest.approx((reverse.p, reverse.sigma_p))
        opposite = {"more robust": "less robust", "less robust": "more robust"}
        assert opposite.get(row.verdict, row.verdict) == reverse.verdict


@pytest.mark.parametrize("unit", [1e-15, 1e-3, 1e12])
def test_neither_the_order_of_samples_nor_seed_resamples_and_unit_change_more_than_the_scale(unit):
    before, after, partition = pairs(5, (200, 300))
    order = np.random.default_rng(0).permutation(len(before))
    shuffled = (exact(unit * distances.values[order]) for distances in (before, after))
    other = compare(*shuffled, partition.take(order), AuditSettings(seed=1))
    for row in compare(before, after, partition, QUICK):
        twin = other[row.group]
        assert row.verdict == twin.verdict == "more robust"
        assert (row.p, row.p_adjusted, row.sigma_p) == pytest.approx((twin.p, twin.p_adjusted, twin.sigma_p))
        for name, scale in (("change", unit), ("change_alone", unit), ("sigma_change", 1), ("sigma_change_alone", 1)):
            assert numbers(getattr(twin, name)) == pytest.approx(scale * np.array(numbers(getattr(row, name))))


@given(st.integers(0, 10_000))
@settings(max_examples=10, deadline=None)
def test_values_are_the_obvious_means_and_ratios(seed):
    before, after, partition = pairs(seed, (50, 60, 70))
    for (_, mask), row in zip(partition, compare(before, after, partition, QUICK), strict=True):
        means = [d.values[mask].mean() for d in (before, after)]
        sigmas = [d.values[mask].mean() / d.values[~mask].mean() - 1 for d in (before, after)]
        assert (row.before, row.after) == pytest.approx(tuple(means))
        assert row.change.value == pytest.approx(means[1] - means[0])
        assert (row.sigma_before, row.sigma_after) == pytest.approx(tuple(sigmas))
        assert row.sigma_change.value == pytest.approx(sigmas[1] - sigmas[0])
        assert row.change.low <= row.change.value <= row.change.high
        assert row.sigma_change.low <= row.sigma_change.value <= row.sigma_change.high
        assert 0 <= row.p <= row.p_adjusted <= 1
        assert row.size == mask.sum()


# Clusters


def test_copies_in_clusters_say_no_more_than_their_originals():
    before, after, partition = pairs(5)
    twice = np.repeat(np.arange(len(before)), 2)
    single = compare(before, after, partition, QUICK)
    plan = AuditSettings(resamples=400, cluster=twice)
    clustered = compare(before.take(twice), after.take(twice), partition.take(twice), plan)
    naive = compare(before.take(twice), after.take(twice), partition.take(twice), QUICK)
    for one, many, wrong in zip(single, clustered, naive, strict=True):
        assert many.change.value == pytest.approx(one.change.value)
        width, other, narrow = (row.change.high - row.change.low for row in (one, many, wrong))
        assert other == pytest.approx(width, rel=0.02)
        assert narrow / width == pytest.approx(math.sqrt(0.5), rel=0.15)


@pytest.mark.parametrize(
    ("sizes", "cluster"), [((1, 100), None), ((100, 100), np.arange(200) // 10)], ids=["one sample", "20 clusters"]
)
def test_a_group_of_too_few_samples_or_clusters_has_no_verdict_and_no_p(sizes, cluster):
    before, after, partition = pairs(6, sizes)
    row = compare(before, after, partition, AuditSettings(resamples=400, cluster=cluster))["g0"]
    assert row.verdict == "too few samples"
    assert math.isnan(row.p)
    assert not row.change.low == row.change.high == row.change.value
    few_outside = compare(*pairs(7, (100, 10)), QUICK)["g0"]
    assert few_outside.p < 1
    assert math.isnan(few_outside.sigma_p)


# What is refused, capped, warned of


def test_an_unknown_estimator_is_noted():
    before, after, partition = pairs(8)
    for one, other, words in (("", "a", "distances before:"), ("a", "", "after:"), ("", "", "before and after:")):
        (note,) = compare(exact(before.values, one), exact(after.values, other), partition, QUICK).warnings
        assert "not known which estimator" in note
        assert words in note


def test_what_measure_returns_names_its_estimator_and_cannot_be_mixed_with_other_settings():
    x, y = np.random.default_rng(0).normal(size=(80, 2)), np.zeros(80, int)
    model = ([1.0, 1.0], 0.0)
    first = measure(model, x, y, ExactLinear())
    assert compare(first, measure(([1.0, 0.5], 0.0), x, y, ExactLinear()), groups(40, 40), QUICK).warnings == ()
    with pytest.raises(InputError, match=r"same estimator; given deepfool:.* and deepfool:"):
        compare(*(measure(model, x, y, DeepFool(steps=steps)) for steps in (20, 30)), groups(40, 40), QUICK)


def test_unreached_samples_cap_both_models_alike():
    before, after, partition = pairs(9)
    values = after.values.copy()
    values[3] = np.inf
    found = compare(before, exact(values), partition, QUICK)
    finite = values[np.isfinite(values)].max()
    assert found.up_to == finite
    assert "capped" in found.cap_reason
    assert found["g0"].before == pytest.approx(np.minimum(before.values[:60], finite).mean())
    assert found["g0"].after == pytest.approx(np.minimum(values[:60], finite).mean())


def test_the_reason_of_the_cap_counts_the_cut_distances_of_each_run_once():
    values = np.append(np.random.default_rng(2).gamma(2, 1, 119), np.inf)
    tried, partition = np.where(np.isinf(values), 1.0, np.nan), groups(60, 60)
    left, right = (Distances(each, values > 0, "upper", "l2", tried=tried) for each in (values, 2 * values))
    alike = compare(left, left, partition, AuditSettings(up_to=1)).cap_reason
    assert alike.count("lie beyond 1") == alike.count("in each run") == 1
    differing = compare(left, right, partition, AuditSettings(up_to=1)).cap_reason
    assert [differing.count(part) for part in ("before, ", "after, ", "lie beyond 1")] == [1, 1, 2]


def test_searches_whose_depth_is_kept_in_one_run_only_are_counted_alike_or_refused():
    values = np.random.default_rng(3).gamma(2, 1, 120)
    depth = np.where(values > 1.5, 1.0, np.nan)
    found = np.where(values > 1.5, np.inf, values)
    with_depth = Distances(found, found > 0, "upper", "l2", tried=depth)
    without = Distances(found, found > 0, "upper", "l2")
    count = int(np.isinf(found).sum())
    for pair in ((with_depth, without), (without, with_depth)):
        with pytest.raises(InputError, match=rf"{count} of 120 samples failed before and after, but the depth"):
            compare(*pair, groups(60, 60), QUICK)
        for change in compare(*pair, groups(60, 60), AuditSettings(resamples=200, up_to=1)):
            assert change.change.value == 0


def test_changes_between_bounds_are_warned_of_and_exact_ones_are_not():
    before, after, partition = pairs(10)
    upper = Distances(after.values, after.correct, Bound.UPPER, after.norm, estimator=after.estimator)
    assert compare(before, after, partition, QUICK).warnings == ()
    found = compare(upper, upper, partition, QUICK)
    assert "can come from the estimator" in found.warnings[0]
    assert found["g0"].change.bound is Bound.NEITHER
    assert compare(before, upper, partition, QUICK)["g0"].change.bound is Bound.UPPER
    assert compare(upper, before, partition, QUICK)["g0"].change.bound is Bound.LOWER


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (0.5, 0.8, "The gap to the rest narrowed for “g0” (σ from −50.0 % to −20.0 %) and “g1” (σ from"),
        (0.8, 0.5, "The gap to the rest widened for “g0” (σ from −20.0 % to −50.0 %) and “g1” (σ from"),
        (0.8, 1.25, "The gap to the rest changed sides for “g0” (σ from −20.0 % to +25.0 %) and “g1” (σ from"),
        (0.8, 0.8, "No significant change of a gap between a group and its rest (σ) was found."),
    ],
)
def test_a_comparison_says_whether_gaps_closed(before: float, after: float, said: str) -> None:
    values = np.tile(np.random.default_rng(0).gamma(4, 1, 200), 2)
    first, second = (exact(values * np.repeat([factor, 1.0], 200)) for factor in (before, after))
    found = compare(first, second, groups(200, 200), QUICK)
    assert found.gaps.startswith(said)
    assert found.gaps in found.sentences()
    few = [Distances(each.values[::8], each.correct[::8], "exact", "l2") for each in (first, second)]
    assert compare(*few, groups(25, 25), QUICK).gaps == ""


def test_the_only_group_has_no_sigma_and_the_reason_is_that_there_is_no_other_group() -> None:
    values = np.random.default_rng(0).gamma(2, 1, 60)
    found = compare(exact(values), exact(2 * values), groups(60), QUICK)
    row = found["g0"]
    assert row.verdict == "more robust"
    assert row.sigma_change.reason == "there is no other group"
    assert "its change of σ is undefined (there is no other group)" in found.finding(row)


@pytest.mark.parametrize("rest_is_wrong_too", [False, True])
def test_a_group_that_both_models_always_misclassify_has_no_certain_change(rest_is_wrong_too):
    values = np.concatenate([np.zeros(50), np.random.default_rng(0).gamma(2, 1, 50) * (not rest_is_wrong_too)])
    found = compare(exact(values), exact(values), groups(50, 50), QUICK)
    row = found["g0"]
    assert (row.before, row.after, row.change.value, row.p) == (0, 0, 0, 1)
    if rest_is_wrong_too:
        assert math.isnan(row.change.low)
        assert math.isnan(row.change_alone.high)
        assert "both models misclassify every sample: no interval" in found.finding(row)
    else:
        assert row.change.low < 0 < row.change.high
        assert "rest has robustness 0" in found["g1"].sigma_change.reason
    zero, other = exact(np.zeros(100)), exact(np.random.default_rng(0).gamma(2, 1, 100))
    for before, after, verdict in ((zero, other, "more robust"), (other, zero, "less robust")):
        for row in compare(before, after, groups(50, 50), QUICK):
            assert row.verdict == verdict
            assert not row.sigma_change.is_defined


# What the numbers promise


def test_intervals_of_the_change_hold_the_truth():
    """At least 90 % of 200 intervals at 95 % confidence must; fewer would happen by chance once in about 500 tests."""
    draws, held, held_sigma = 200, np.zeros(2), np.zeros(2)
    means, factors = np.array([1.0, 1.5]), np.array([0.9, 1.1])
    change = means * factors - means
    sigma = (means * factors) / (means * factors)[::-1] - means / means[::-1]
    partition = groups(40, 60)
    for seed in range(draws):
        rng = np.random.default_rng([seed, 1])
        before = rng.gamma(2, means[partition.membership] / 2)
        after = before * factors[partition.membership] * rng.gamma(10, 0.1, len(before))
        found = compare(
            exact(before), exact(after), partition, AuditSettings(resamples=200, smallest_group=1_000, seed=seed)
        )
        for row, i in zip(found, range(2), strict=True):
            held[i] += row.change_alone.low <= change[i] <= row.change_alone.high
            held_sigma[i] += row.sigma_change_alone.low <= sigma[i] <= row.sigma_change_alone.high
    assert (held / draws >= 0.90).all(), held / draws
    assert (held_sigma / draws >= 0.90).all(), held_sigma / draws
    assert (held / draws < 1).all()  # nor so wide that they say nothing


def drawn_pair(seed: int) -> tuple[Distances, Distances, Partition, AuditSettings]:
    """Draw two models on one to eight groups of 5 to 200 samples, with wrong samples, heavy tails and clusters."""
    rng = np.random.default_rng([seed, 3])
    partition = groups(*rng.integers(5, 200, rng.integers(1, 9)).tolist())
    count = len(partition.membership)
    before = rng.lognormal(0, rng.uniform(0.1, 1), count) * (rng.random(count) < rng.uniform(0.3, 1.3))
    factor = 1 + rng.choice([0, 0, 0.05, 0.2, -0.1], len(partition.labels))[partition.membership]
    noise = rng.lognormal(0, rng.choice([0, 0.05, 0.3, 1]), count)
    after = before * factor * noise * (rng.random(count) < rng.choice([0.9, 0.98, 1]))
    cluster = rng.integers(0, count // 2 + 1, count) if rng.random() < 0.3 else None
    return (
        exact(before),
        exact(after),
        partition,
        AuditSettings(cluster=cluster, confidence=rng.choice([0.9, 0.95, 0.99])),
    )


def test_verdict_p_and_interval_never_disagree():
    seen = {"more robust": 0, "less robust": 0, "no significant difference": 0, "too few samples": 0, "no verdict": 0}
    sigma_changes = 0
    for seed in range(200):
        before, after, partition, plan = drawn_pair(seed)
        for row in compare(before, after, partition, plan):
            seen[row.verdict] += 1
            if row.verdict in UNJUDGED:
                assert math.isnan(row.p)
                continue
            side = int(row.change.low > 0) - int(row.change.high < 0)
            assert row.verdict == {1: "more robust", -1: "less robust", 0: "no significant difference"}[side]
            assert (row.p_adjusted < plan.alpha) == (side != 0)
            assert (row.p < plan.alpha) == (row.change_alone.low > 0 or row.change_alone.high < 0)
            assert row.change.low <= row.change.value <= row.change.high
            assert row.change_alone.low <= row.change_alone.value <= row.change_alone.high
            if math.isnan(row.sigma_p):
                continue
            changed = row.sigma_change.low > 0 or row.sigma_change.high < 0
            sigma_changes += changed
            assert (row.sigma_p_adjusted < plan.alpha) == changed
            alone = row.sigma_change_alone
            assert (row.sigma_p < plan.alpha) == (alone.low > 0 or alone.high < 0)
            assert row.sigma_change.low <= row.sigma_change.value <= row.sigma_change.high
    assert min(seen.values()) > 20, seen
    assert sigma_changes > 20


@pytest.mark.parametrize("wrong", [0, 60, 95])
def test_a_sample_that_may_become_right_or_wrong_unobserved_lies_as_far_as_the_correct_ones(wrong):
    distances = np.concatenate([np.zeros(wrong), np.full(100 - wrong, 3.0), np.full(50, 1.0)])
    sums = cluster_sums(distances, Partition("g", ["a", "b"], [0] * 100 + [1] * 50), None, np.arange(150))
    change, _ = paired_changes(sums, sums)
    assert change.value.tolist() == [0, 0]
    # Nothing changed, so that the error is that of one newly wrong and one newly right sample.
    assert change.difference.error == pytest.approx([math.sqrt(2) * 3 / 100, math.sqrt(2) / 50])


SHORT = ("2 % newly wrong", "5 % newly wrong", "5 % newly wrong, five groups of 50", "5 % newly right",
         "5 % of the people newly wrong (clusters)")  # fmt: skip


@pytest.mark.parametrize("scenario", SHORT)
def test_newly_wrong_samples_that_were_not_drawn_raise_no_alarm(scenario):
    """At most 10 % of 60; drawing the samples or flipping signs alone gives 28 to 65 %."""
    found = rates(NULLS[scenario], 60)
    assert found.alarms <= 0.1
    assert found.together >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("scenario", NULLS)
def test_false_alarms_and_coverage_are_as_documented(scenario):
    """At most 5 % + three standard errors of 2,000 comparisons, for mean distances and for σ."""
    found, worst = rates(NULLS[scenario], 2_000, first=50_000), 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2_000)
    assert found.alarms <= worst
    assert found.sigma_alarms <= worst
    assert found.together >= 1 - worst
    assert found.sigma_together >= 1 - worst
    assert found.alone.min() >= 1 - worst


@pytest.mark.slow
@pytest.mark.parametrize("scenario", EFFECTS)
def test_intervals_of_a_change_cover_it_as_documented(scenario):
    found = rates(EFFECTS[scenario], 2_000, first=50_000)
    assert found.together >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 2_000)
    assert found.found[1] > 0.95


def test_groups_of_which_no_search_tells_anything_are_shown_with_dashes_and_one_advice():
    values = np.append(np.full(40, np.inf), np.full(40, 3.0))
    distances = Distances(values, np.ones(80, dtype=bool), "exact", "l2", tried=np.append(np.zeros(40), np.full(40, 5)))
    found = compare(distances, distances, groups(40, 40), AuditSettings(resamples=200, up_to=2))
    shown = [cell.text for row in found.section().tables[0].rows for cell in row]
    assert "– → –" in shown
    assert not any("nan" in text for text in shown)
    advice = [note for note in found.notes() if "cannot be compared" in note]
    assert len(advice) == 1
    assert advice[0].endswith("Search farther.")
