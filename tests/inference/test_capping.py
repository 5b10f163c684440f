"""A radius names how far a verdict holds, and searches that failed at different depths decide no verdict."""

import math

import numpy as np
import pytest

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.analyses.comparison import compare
from fairmargin.analyses.power import power
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import reason_of
from fairmargin.inference.censoring import Searches, horizon_of, restrict
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, NOT_COMPARABLE
from fairmargin.inference.settings import AuditSettings

QUICK = AuditSettings(resamples=400)


def upper(values, tried=None):
    """Return upper bounds; the search for the infinite ones looked as far as `tried`."""
    values = np.asarray(values, dtype=float)
    looked = None if tried is None else np.where(np.isinf(values), tried, 0.0)
    return Distances(values, values > 0, "upper", "l2", tried=looked)


def halves(values):
    """Return the partition in which the first 200 samples are F and all others M."""
    return Partition.by("sex", np.where(np.arange(len(values)) < 200, "F", "M"))


def audited(values, tried=None, chosen=QUICK):
    return audit(upper(values, tried), halves(values), chosen)


def verdicts(result):
    return [row.verdict for row in result]


def searched(values, deepest, seed=5):
    """Return distances whose searches end at a random depth of at most `deepest`."""
    depth = np.random.default_rng(seed).uniform(0, deepest, len(values))
    return upper(np.where(values <= depth, values, np.inf), depth)


RNG = np.random.default_rng(0)
GAP = np.concatenate([RNG.gamma(6, 0.8 / 6, 200), RNG.gamma(6, 1 / 6, 200)])  # the first group is 20 % less robust
UNREACHED = np.append(GAP, np.inf)


# One or a few failed searches. ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("accuracy", [1, 8], ids=["all correct", "12 % correct"])
def test_one_search_that_failed_early_changes_almost_nothing(accuracy):
    correct = np.arange(401) % accuracy == 0
    with_it, without = np.where(correct, UNREACHED, 0.0), np.where(correct[:400], GAP, 0.0)
    result, known = audited(with_it, tried=0.05), audited(without)
    assert verdicts(result) == verdicts(known)
    assert result.up_to == without.max()
    for row, other in zip(result, known, strict=True):
        assert row.sigma.value == pytest.approx(other.sigma.value, abs=0.06)
        assert row.sigma.high - row.sigma.low == pytest.approx(other.sigma.high - other.sigma.low, rel=0.1)
    assert "1 search failed before, at 0.05" in result.cap_reason
    assert "Kaplan–Meier" in str(result)
    assert AuditResult.from_json(result.to_json()).to_json() == result.to_json()


def test_an_audit_of_failed_searches_is_that_of_all_distances_with_wider_intervals():
    censored = audit(searched(GAP, 2.2), halves(GAP), QUICK)
    everything = audited(GAP, chosen=AuditSettings(resamples=400, up_to=censored.up_to))
    assert 0.3 < np.mean([row.unreached for row in censored]) < 0.5
    assert verdicts(censored) == verdicts(everything)
    for row, other in zip(censored, everything, strict=True):
        assert other.sigma.low < row.sigma.value < other.sigma.high
        assert row.sigma.high - row.sigma.low > other.sigma.high - other.sigma.low
        assert row.sigma_bounds.low < row.sigma.low < row.sigma.high < row.sigma_bounds.high
        assert row.band > other.band
        assert row.curve.area(up_to=censored.up_to) == pytest.approx(row.robustness.value)
    assert everything["F"].sigma_bounds is None


def test_a_verdict_that_needs_the_assumption_on_depths_says_so():
    censored = audit(searched(GAP, 2.2), halves(GAP), QUICK)
    assert any("rests on the assumption" in warning for warning in censored.warnings)
    few = audited(np.append(GAP, [np.inf] * 2), tried=0.3)
    assert few["F"].sigma_bounds.high < 0
    assert not any("rests on the assumption" in warning for warning in few.warnings)
    assert "σ at any depth" in str(few.section().tables[0].columns)
    assert "assume that, inside a group, the depth" in str(few)


def test_no_sample_is_dropped_and_a_group_of_one_does_not_decide_the_radius():
    values = np.append(GAP, np.inf)
    partition = Partition("g", ["F", "M", "one"], np.repeat([0, 1, 2], [200, 200, 1]))
    result = audit(upper(values, tried=0.05), partition, QUICK)
    assert result.up_to == GAP.max()
    assert verdicts(result) == [LESS_ROBUST, MORE_ROBUST, NOT_COMPARABLE]
    lone = result["one"]
    assert not lone.robustness.is_defined
    assert "searches failed for 100 % of “one”" in lone.reason
    assert "1 of 3 groups cannot be compared" in result.warnings[0]
    assert not result.overall.variance.is_defined
    assert "“one”" in result.overall.worst_robustness.reason


@pytest.mark.parametrize("across", [False, True], ids=["weights", "weights and people in both groups"])
def test_weights_and_people_count_in_restricted_means_and_in_the_bounds(across):
    distances, rng = searched(GAP, 2.2), np.random.default_rng(3)
    weight = rng.uniform(0.5, 1.5, 400)
    person = rng.integers(0, 150, 400) if across else None
    chosen = AuditSettings(resamples=400, sample_weight=weight, cluster=person)
    result = audit(distances, halves(GAP), chosen)
    alone = audit(distances, halves(GAP), QUICK)
    assert result.up_to == alone.up_to
    row, other = result["F"], alone["F"]
    assert row.curve.area(up_to=result.up_to) == pytest.approx(row.robustness.value)
    assert row.robustness.value != other.robustness.value
    assert row.sigma.value == pytest.approx(other.sigma.value, abs=0.05)
    assert row.sigma_bounds.low < row.sigma.low < row.sigma.high < row.sigma_bounds.high
    order = rng.permutation(400)
    again = AuditSettings(resamples=400, sample_weight=weight[order], cluster=person[order] if across else None)
    assert audit(distances.take(order), halves(GAP).take(order), again).to_json() == result.to_json()


# The horizon. --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [GAP, UNREACHED], ids=["all reached", "one unreached"])
def test_a_radius_that_was_asked_for_is_the_users_choice_and_its_cut_is_counted(values):
    result = audited(values, tried=0.05, chosen=AuditSettings(resamples=400, up_to=0.5))
    assert result.up_to == 0.5
    assert NOT_COMPARABLE not in verdicts(result)
    assert "of 400 finite distances above 0 (" in result.cap_reason
    assert "lie beyond 0.5" in result.cap_reason


def test_beyond_every_search_nothing_is_compared_and_the_remedy_names_a_radius_that_is_near_enough():
    values = np.where(GAP > 1, np.inf, GAP)
    result = audited(values, tried=1.0, chosen=AuditSettings(resamples=400, up_to=2.0))
    for row in result:
        assert row.verdict == NOT_COMPARABLE
        for estimate in (row.sigma, row.gap_to_rest, row.robustness):
            assert not estimate.is_defined
        assert "before 2, and too few other samples tell" in reason_of(row.p_adjusted)
    assert math.isnan(result.overall.p_equal)
    assert NO_DIFFERENCE not in str(result)
    assert AuditResult.from_json(result.to_json()).to_json() == result.to_json()
    assert [str(result).count(part) for part in ("2 of 2 groups cannot be compared", "Set `up_to=`")] == [1, 1]
    assert result.finding(result["F"]).endswith("how far those distances reach).")
    (advice,) = (each for each in result.warnings if "cannot be compared" in each)
    enough = float(advice.split("at most ")[1].split(",")[0])
    assert NOT_COMPARABLE not in verdicts(audited(values, 1.0, AuditSettings(resamples=400, up_to=enough)))


@pytest.mark.parametrize("seed", range(6))
def test_the_radius_that_is_advised_is_rounded_so_that_it_is_near_enough(seed):
    depth = np.random.default_rng(seed).uniform(0.1, 1.2, 400)
    distances = upper(np.where(depth >= GAP, GAP, np.inf), depth)
    known = restrict(distances, halves(GAP), None, 2.0)
    assert all(known.gaps)
    advised = float(known.remedy.split("at most ")[1].split(",")[0])
    assert restrict(distances, halves(GAP), None, advised).gaps == ("", "")


@pytest.mark.parametrize("depth", [math.inf, 6.0, math.nan], ids=["proven", "searched far", "of unknown depth"])
def test_a_few_samples_of_which_more_is_known_do_not_make_failed_searches_comparable(depth):
    values = np.random.default_rng(0).uniform(0.5, 1.5, 400)
    tried = np.where(np.arange(400) % 200 == 0, depth, 1.0)
    distances = upper(np.where((values > 1) | (tried != 1), np.inf, values), tried)
    beyond = audit(distances, halves(values), AuditSettings(resamples=400, up_to=5))
    assert verdicts(beyond) == [NOT_COMPARABLE] * 2
    assert "at most 1," in beyond.warnings[0]
    assert audit(distances, halves(values), QUICK).up_to <= 1


def test_a_fixed_depth_is_no_censoring_before_the_largest_distance_found():
    values = np.where(GAP > 1, np.inf, GAP)
    result = audited(values, tried=1.0)
    assert result.up_to == values[np.isfinite(values)].max()
    assert result.censoring == ""
    assert "capped at" in result.cap_reason
    assert result["F"].robustness.value == pytest.approx(np.minimum(values, result.up_to)[:200].mean())


def test_proven_samples_count_as_the_largest_distance_and_their_share_is_reported():
    result = audited(np.append(GAP, [np.inf] * 20), tried=math.inf)
    assert [row.unreachable for row in result] == pytest.approx([0, 20 / 220])
    assert result.up_to == GAP.max()
    assert result["M"].robustness.value == pytest.approx((GAP[200:].sum() + 20 * GAP.max()) / 220)
    assert result["M"].sigma_bounds is None
    assert "it is proven that no allowed change leads to another class" in result.cap_reason


def test_both_kinds_of_samples_without_a_distance_are_counted_in_one_sentence():
    depth = np.append(np.full(410, np.inf), np.full(10, np.nan))
    reason = audited(np.append(GAP, [np.inf] * 20), depth).cap_reason
    assert "(for 10 it is proven that no allowed change leads to another class; nothing says how far" in reason
    assert ") (" not in reason.split("have no finite distance")[1]


@pytest.mark.parametrize("tried", [None, np.nan], ids=["not kept", "unknown"])
def test_a_search_of_unknown_depth_is_taken_to_look_as_far_as_the_largest_distance_and_bounds_do_not_rely_on_it(tried):
    result = audited(np.append(GAP, [np.inf] * 40), tried)
    assert result.up_to == GAP.max()
    assert "nothing says how far the search for 40 looked" in result.cap_reason
    assert result["M"].robustness.value == pytest.approx((GAP[200:].sum() + 40 * GAP.max()) / 240)
    assert f"capped at {GAP.max():.4g}, the largest distance found, the same for all groups" in result.cap_reason
    assert "depth is not known are assumed to have looked as far as the cap" in result.censoring
    assert sum("rests on the assumption that searches of unknown depth" in each for each in result.warnings) == 1
    assert not any("does not depend on the distance" in each for each in (result.censoring, *result.warnings))
    assert result["F"].sigma_bounds.low <= result["F"].sigma.low < result["F"].sigma.high < 0
    assert result["F"].sigma_bounds.high > 0


def test_all_searches_failed():
    result = audited(np.full(400, np.inf), tried=2.0)
    assert (result.up_to, verdicts(result)) == (2.0, [NO_DIFFERENCE] * 2)
    depth = np.random.default_rng(0).uniform(1, 2, 400)
    result = audit(upper(np.full(400, np.inf), depth), halves(depth), QUICK)
    assert 1 < result.up_to < 2
    assert [row.robustness.value for row in result] == pytest.approx([result.up_to] * 2)
    assert verdicts(result) == [NO_DIFFERENCE] * 2


def test_the_radius_is_printed_and_named_in_every_verdict():
    uncapped = audited(GAP)
    assert "radius" not in str(uncapped)
    assert set(uncapped.to_frame()["up_to"]) == {math.inf}
    for result in (audited(UNREACHED), audited(GAP, chosen=AuditSettings(resamples=400, up_to=1.5))):
        radius = f"up to a radius of {result.up_to:.4g}"
        assert radius in str(result).splitlines()[0]
        assert all(radius in result.finding(row) for row in result)
        assert set(result.to_frame()["up_to"]) == {result.up_to}


def test_the_group_whose_searches_end_first_decides_the_radius():
    depth = np.where(np.arange(400) < 200, 0.6, 5.0) * np.random.default_rng(1).uniform(0.9, 1, 400)
    values = np.where(depth >= GAP, GAP, np.inf)
    horizon = horizon_of([upper(values, depth)], halves(GAP), None, math.inf)
    assert 0.5 < horizon.up_to < 0.6
    assert "“F” are still at risk" in horizon.reason
    at_risk = (np.minimum(GAP, depth)[:200] >= horizon.up_to).sum()
    assert at_risk == math.ceil(0.05 * 200)


def test_inside_strata_every_cell_with_ten_samples_reaches_the_radius():
    depth = np.random.default_rng(2).uniform(0, 2.0, 400)
    control = Partition.by("class", np.arange(400) % 3)
    distances = upper(np.where(depth >= GAP, GAP, np.inf), depth)
    horizon = horizon_of([distances], halves(GAP), control, math.inf)
    assert horizon.up_to <= horizon_of([distances], halves(GAP), None, math.inf).up_to
    known = restrict(distances, halves(GAP), control, horizon.up_to)
    assert known.gaps == ("", "")
    searches = Searches.of(distances)
    for cell in range(6):
        own = (halves(GAP).membership == cell // 3) & (control.membership == cell % 3)
        assert searches.radius[own].max() >= horizon.up_to
    assert audit(distances, halves(GAP), AuditSettings(resamples=400, control=control)).up_to == horizon.up_to


def test_a_single_group_has_no_rest_and_no_verdict_either_way():
    result = audit(upper(UNREACHED, tried=0.05), Partition.by("all", ["all"] * 401), QUICK)
    assert verdicts(result) == [NOT_COMPARABLE]


# Other analyses. -----------------------------------------------------------------------------------------------------


def test_a_comparison_of_models_pairs_the_influence_of_each_sample():
    change = compare(upper(GAP), upper(1.2 * GAP), halves(GAP), QUICK)
    assert verdicts(change) == [MORE_ROBUST] * 2
    assert "radius" not in str(change)
    failed, reached = upper(np.append(1.2 * GAP, np.inf), 0.05), upper(np.append(GAP, 1.0))
    for pair, verdict in (((reached, failed), MORE_ROBUST), ((failed, reached), LESS_ROBUST)):
        found = compare(*pair, halves(UNREACHED), QUICK)
        assert verdicts(found) == [verdict] * 2
        assert abs(found["F"].change.value) == pytest.approx(abs(change["F"].change.value), rel=0.02)
        assert "1 of 802 samples of both runs" in found.cap_reason
        assert any("Kaplan–Meier" in warning for warning in found.warnings)
        assert f"up to a radius of {found.up_to:.4g}" in found.finding(found["F"])
    alike = compare(searched(GAP, 3.0), searched(1.2 * GAP, 3.6), halves(GAP), QUICK)
    assert verdicts(alike) == [MORE_ROBUST] * 2
    assert (alike["F"].change.low, alike["F"].change.high) != (change["F"].change.low, change["F"].change.high)
    shallow = upper(np.where(GAP > 1, np.inf, GAP), 1.0)
    beyond = compare(shallow, upper(1.2 * GAP), halves(GAP), AuditSettings(resamples=400, up_to=2.0))
    assert verdicts(beyond) == [NOT_COMPARABLE] * 2
    assert math.isnan(beyond["F"].before)
    assert not beyond["F"].change.is_defined
    assert "2 of 2 groups cannot be compared" in beyond.warnings[0]
    beyond.to_json()


def test_power_counts_what_failed_searches_cost_and_promises_nothing_beyond_them():
    chosen = AuditSettings(up_to=1.2)
    known, censored = (power(d, halves(GAP), chosen)["F"] for d in (upper(GAP), searched(GAP, 2.2)))
    assert censored.smallest_drop < 1.1 * known.smallest_drop < 0
    shallow = upper(np.where(GAP > 1, np.inf, GAP), 1.0)
    beyond = power(shallow, halves(GAP), AuditSettings(up_to=2.0))["F"]
    assert math.isnan(beyond.smallest_drop)
    assert "too few other samples tell" in reason_of(beyond.samples_needed)
