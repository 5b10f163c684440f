"""The comparison of curves: verdicts, sentences, chosen radii, and what an audit says of it."""

import math
import re

import numpy as np
import pytest

import fairmargin as fm
from fairmargin.analyses.curves import CROSSING, DIFFERENT, HIGHER, LOWER
from fairmargin.inference.estimate import NO_DIFFERENCE, NOT_COMPARABLE, TOO_FEW
from fairmargin.report.answer import answer_of

QUICK = fm.AuditSettings(resamples=200)


def distances_of(*groups, **more):
    values = np.concatenate(groups)
    codes = np.repeat(np.arange(len(groups)), [len(each) for each in groups])
    found = fm.Distances(values, values > 0, "exact", "l2", **more)
    return found, fm.Partition("sex", ["F", "M", "X"][: len(groups)], codes)


def equal_means():
    rng = np.random.default_rng(0)
    return distances_of(rng.gamma(2, 0.5, 300), rng.gamma(9, 1 / 9, 300))


def test_groups_with_equal_means_and_other_shapes_have_crossing_curves():
    found = fm.compare_curves(*equal_means())
    row = found["F"]
    assert row.verdict == CROSSING
    assert row.fewer.end < row.more.start
    assert row.fewer.own < row.fewer.rest
    assert row.more.own > row.more.rest
    mirrored = found["M"]
    assert (mirrored.fewer.start, mirrored.more.start) == (row.more.start, row.fewer.start)
    assert found.headline.startswith("The curves of “F” and its rest differ: fewer of its samples withstand at radii")


def test_an_audit_says_that_the_curves_differ_where_the_means_do_not():
    result = fm.audit(*equal_means(), QUICK)
    assert {row.verdict for row in result} == {NO_DIFFERENCE}
    sentence = "do not differ significantly, but their curves do: fewer of its samples withstand at radii"
    for row in result:
        assert f"The means of “{row.group}” and its rest {sentence}" in result.finding(row)
    assert sum(sentence in each for each in result.summary()) == 1
    assert sentence in answer_of([result])
    assert "nothing here shows" not in answer_of([result])
    assert fm.AuditResult.from_json(result.to_json()).sentences() == result.sentences()


def test_an_audit_says_nothing_of_curves_where_the_means_differ_or_the_curves_do_not():
    rng = np.random.default_rng(1)
    for factor in (1.0, 0.5):
        result = fm.audit(*distances_of(factor * rng.gamma(4, 1, 200), rng.gamma(4, 1, 200)), QUICK)
        assert "but their curves do" not in str(result) + answer_of([result])
        assert (result.curves["F"].verdict in DIFFERENT) == (factor < 1)


def test_a_group_that_lies_nearer_has_the_lower_curve():
    rng = np.random.default_rng(2)
    found = fm.compare_curves(*distances_of(0.5 * rng.gamma(4, 1, 200), rng.gamma(4, 1, 400)))
    assert [row.verdict for row in found] == [LOWER, HIGHER]
    assert found["F"].more is None


def test_stretches_hold_only_radii_at_which_the_difference_is_significant_and_name_shares_of_the_samples():
    distances, partition = equal_means()
    for row in fm.compare_curves(distances, partition):
        own = distances.values[dict(partition)[row.group]]
        rest = distances.values[~dict(partition)[row.group]]
        for sign, stretch in ((-1, row.fewer), (1, row.more)):
            assert stretch.start <= stretch.radius < stretch.end
            shares = [np.mean(side > stretch.radius) for side in (own, rest)]
            assert [stretch.own, stretch.rest] == pytest.approx(shares)
            for radius in np.linspace(stretch.start, stretch.end, 20)[:-1]:
                assert sign * (np.mean(own > radius) - np.mean(rest > radius)) > 0


def test_differences_at_chosen_radii_exclude_0_exactly_where_p_is_significant():
    seen = set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = fm.compare_curves(
            *distances_of(*(rng.gamma(4, scale, 60) for scale in (0.8, 1.0, 1.3))), radii=[4, 0.5, 2, 2]
        )
        assert found.radii == (0.5, 2, 4)
        for row in found:
            for estimate, p in zip(row.differences, row.differences_p, strict=True):
                assert (estimate.low > 0 or estimate.high < 0) == (p < 0.05)
                seen.add(p < 0.05)
    assert seen == {True, False}


def test_a_difference_at_a_chosen_radius_is_that_of_two_shares_and_more_radii_widen_intervals():
    distances, partition = equal_means()
    (one,) = fm.compare_curves(distances, partition, radii=1).groups[0].differences
    own, rest = distances.values[:300], distances.values[300:]
    assert one.value == pytest.approx(np.mean(own > 1) - np.mean(rest > 1))
    several = fm.compare_curves(distances, partition, radii="1/2, 1, 1.5").groups[0].differences[1]
    assert several.low < one.low < one.high < several.high


def test_radius_0_compares_accuracies_and_a_radius_beyond_every_distance_shows_no_difference():
    rng = np.random.default_rng(3)
    found = fm.compare_curves(
        *distances_of(rng.gamma(4, 1, 100) * (rng.random(100) < 0.7), rng.gamma(4, 1, 100)), radii=(0, 1e6)
    )
    accuracy, nothing = found["F"].differences
    assert accuracy.high < 0
    assert (nothing.value, found["F"].differences_p[1]) == (0, 1)


def test_curves_are_compared_only_as_far_as_every_search_looked():
    rng = np.random.default_rng(4)
    values = rng.gamma(4, 1, 200)
    values[:10] = np.inf
    tried = np.where(np.isinf(values), 5.0, np.nan)
    tried[3] = 3.0
    partition = fm.Partition.by("sex", ["F", "M"] * 100)
    distances = fm.Distances(values, values > 0, "upper", "l2", tried=tried)
    found = fm.compare_curves(distances, partition, radii=(2, 4))
    assert found.end == 3
    assert all(row.robustness_bias_radius < 3 for row in found)
    assert found["F"].differences[1].reason == "curves are compared below a radius of 3 only"
    limit = "Curves are compared only below a radius of 3, the shortest search that found nothing."
    assert found.at_radii.endswith(f"at 4 not compared. {limit}")
    assert str(found).count(limit) == 1
    assert limit in str(fm.compare_curves(distances, partition))
    assert math.isnan(found["F"].differences_p[1])
    (warning,) = found.warnings
    assert re.search(
        r"\d+ % of the finite distances above 0 lie beyond 3, where the comparison of curves ends", warning
    )


def test_a_proof_that_nothing_can_be_found_is_no_gap_in_what_is_known():
    values = np.concatenate([np.random.default_rng(5).gamma(4, 1, 100), np.full(40, np.inf), np.full(60, 2.0)])
    tried = np.where(np.isinf(values), np.inf, np.nan)
    partition = fm.Partition.by("sex", ["F"] * 100 + ["M"] * 100)
    found = fm.compare_curves(fm.Distances(values, values > 0, "exact", "l2", tried=tried), partition)
    assert found.end == math.inf
    assert found["M"].more.end == math.inf
    assert "∞" in found.finding(found["M"])


def test_where_nothing_says_how_far_a_search_looked_the_largest_distance_found_is_the_end():
    values = np.append(np.arange(1, 80.0), np.inf)
    found = fm.compare_curves(fm.Distances(values, values > 0, "upper", "l2"), fm.Partition.by("sex", ["F", "M"] * 40))
    assert found.end == 79
    assert "below a radius of 79, the largest distance found." in str(found)


def test_a_radius_that_was_asked_for_is_named_as_what_limits_the_comparison_of_curves():
    distances, partition = distances_of(np.arange(1, 80.0), np.arange(1, 80.0))
    found = fm.compare_curves(distances, partition, fm.AuditSettings(up_to=30))
    assert (found.end, found.end_reason) == (30, "the one asked for")
    assert "below a radius of 30, the one asked for." in str(found)
    assert "below a radius" not in str(fm.compare_curves(distances, partition))


def test_small_groups_and_single_groups_have_no_verdict_but_a_reason():
    rng = np.random.default_rng(6)
    few = fm.compare_curves(*distances_of(rng.gamma(4, 1, 10), rng.gamma(4, 1, 100)))
    assert [row.verdict for row in few] == [TOO_FEW] * 2
    assert few.finding(few["M"]) == (
        "M: too few samples (its rest has 10 samples; a reliable interval needs 30, a verdict 50)."
    )
    alone = fm.compare_curves(*distances_of(rng.gamma(4, 1, 100)), radii=1)
    assert [row.verdict for row in alone] == [NOT_COMPARABLE]
    assert alone["F"].differences[0].reason == "there is no sample outside group 'F'"
    assert alone.headline == "No verdict on the curves of the groups of “sex”."


def test_equal_distances_and_distances_of_0_have_equal_curves():
    for value in (0.0, 1.0):
        found = fm.compare_curves(*distances_of(np.full(50, value), np.full(50, value)))
        assert [(row.p, row.verdict) for row in found] == [(1.0, NO_DIFFERENCE)] * 2


def test_samples_of_weight_0_count_as_absent():
    distances, partition = equal_means()
    weights = np.tile([1.0, 0.0], 300)
    found = fm.compare_curves(distances, partition, fm.AuditSettings(sample_weight=weights), radii=1)
    half = fm.compare_curves(distances.take(weights > 0), partition.take(weights > 0), radii=1)
    assert [row.p for row in found] == [row.p for row in half]
    assert "300 of 600 samples have weight 0 and count as absent." in found.warnings


def test_weights_enter_differences_at_chosen_radii():
    rng = np.random.default_rng(7)
    distances, partition = distances_of(rng.gamma(4, 1, 200), rng.gamma(4, 1, 200))
    weights = rng.uniform(1, 3, 400)
    found = fm.compare_curves(distances, partition, fm.AuditSettings(sample_weight=weights), radii=4)["F"]
    own, rest = (np.average(distances.values[s] > 4, weights=weights[s]) for s in (slice(200), slice(200, 400)))
    assert found.differences[0].value == pytest.approx(own - rest)
