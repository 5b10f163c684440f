"""A cap names the radius up to which a verdict holds, and a forced cap that cuts too much allows no verdict."""

import math

import numpy as np
import pytest

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.analyses.comparison import compare
from fairmargin.analyses.power import power
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import reason_of
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


RNG = np.random.default_rng(0)
GAP = np.concatenate([RNG.gamma(6, 0.8 / 6, 200), RNG.gamma(6, 1 / 6, 200)])  # the first group is 20 % less robust
UNREACHED = np.append(GAP, np.inf)


def test_one_short_search_makes_groups_not_comparable_instead_of_equal():
    assert verdicts(audited(GAP)) == [LESS_ROBUST, MORE_ROBUST]
    result = audited(UNREACHED, tried=0.05)
    for row in result:
        assert row.verdict == NOT_COMPARABLE
        assert not row.sigma.is_defined
        assert not row.gap_to_rest.is_defined
        assert math.isnan(row.p)
        assert math.isnan(row.p_adjusted)
        assert "the cap of 0.05" in reason_of(row.p_adjusted)
        for words in ("cuts 100 % of the group's", "1 unreached sample looked only as far as 0.05", "up_to="):
            assert words in result.finding(row)
    assert NO_DIFFERENCE not in str(result)
    assert AuditResult.from_json(result.to_json()).to_json() == result.to_json()
    overall = result.overall
    for estimate in (overall.variance, overall.relative_variance, overall.largest_gap, overall.worst_robustness):
        assert not estimate.is_defined
        assert "cap" in estimate.reason
    assert math.isnan(overall.p_equal)
    assert overall.robustness.value == pytest.approx(0.05)


def test_the_remedy_names_a_radius_that_is_far_enough():
    cut = audited(UNREACHED, tried=0.05)
    enough = float(cut.finding(cut["F"]).split("Search as far as ")[1].split(" ")[0])
    result = audited(UNREACHED, tried=1.001 * enough)
    assert verdicts(result) == [LESS_ROBUST, MORE_ROBUST]
    assert result.warnings[0].startswith("The distances are upper bounds")
    assert NOT_COMPARABLE in verdicts(audited(UNREACHED, tried=0.99 * enough))


@pytest.mark.parametrize("values", [GAP, UNREACHED], ids=["all reached", "one unreached"])
def test_a_radius_that_was_asked_for_is_the_users_choice_and_its_cut_is_counted(values):
    result = audited(values, tried=0.05, chosen=AuditSettings(resamples=400, up_to=0.5))
    assert NOT_COMPARABLE not in verdicts(result)
    assert "of 400 finite distances above 0 (" in result.cap_reason
    assert "lie beyond 0.5" in result.cap_reason


def test_misclassified_samples_do_not_hide_a_cap_that_makes_all_others_equal():
    values = np.where(np.arange(401) % 8 == 0, UNREACHED, 0.0)  # 12 % are correct
    assert ((values > 0.05) & np.isfinite(values)).mean() < 0.2
    assert set(verdicts(audited(values, tried=0.05))) == {NOT_COMPARABLE}


def test_a_small_group_whose_distances_are_all_cut_is_not_compared_and_the_others_are():
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.gamma(6, 0.1, 300), rng.gamma(6, 0.15, 300), rng.gamma(60, 0.1, 40), [np.inf]])
    partition = Partition("g", ["near", "mid", "far"], np.repeat([0, 1, 2, 1], [300, 300, 40, 1]))
    result = audit(upper(values, tried=2.5), partition, QUICK)
    assert verdicts(result) == [LESS_ROBUST, NO_DIFFERENCE, NOT_COMPARABLE]
    assert "1 of 3 groups cannot be compared" in result.warnings[0]
    assert not result.overall.largest_gap.is_defined
    assert not math.isnan(result.overall.p_equal)


@pytest.mark.parametrize(("tried", "verdict"), [(0.8, NO_DIFFERENCE), (0.79, NOT_COMPARABLE)])
def test_a_cap_that_cuts_a_fifth_or_less_leaves_the_verdict(tried, verdict):
    values = np.append(np.tile(np.linspace(0.1, 1.0, 10), 40), np.inf)  # 2 or 3 of 10 values are cut
    assert set(verdicts(audited(values, tried))) == {verdict}


def test_a_single_group_has_no_rest_and_no_verdict_either_way():
    result = audit(upper(UNREACHED, tried=0.05), Partition.by("all", ["all"] * 401), QUICK)
    assert verdicts(result) == [NOT_COMPARABLE]


def test_the_cap_is_printed_and_named_in_every_verdict():
    uncapped = audited(GAP)
    assert "radius" not in str(uncapped)
    assert set(uncapped.to_frame()["up_to"]) == {math.inf}
    for result in (audited(UNREACHED), audited(GAP, chosen=AuditSettings(resamples=400, up_to=1.5))):
        radius = f"up to a radius of {result.up_to:.4g}"
        assert radius in str(result).splitlines()[0]
        assert all(radius in result.finding(row) for row in result)
        assert set(result.to_frame()["up_to"]) == {result.up_to}


def test_a_comparison_of_models_is_withheld_in_the_same_way():
    change = compare(upper(GAP), upper(1.2 * GAP), halves(GAP), QUICK)
    assert verdicts(change) == [MORE_ROBUST] * 2
    assert "radius" not in str(change)
    capped, reached = upper(np.append(1.2 * GAP, np.inf), 0.05), upper(np.append(GAP, 1.0))
    for pair in ((reached, capped), (capped, reached)):
        found = compare(*pair, halves(UNREACHED), QUICK)
        for row in found:
            assert row.verdict == NOT_COMPARABLE
            assert not row.change.is_defined
            assert not row.sigma_change.is_defined
            assert all(math.isnan(p) for p in (row.p, row.p_adjusted, row.sigma_p, row.sigma_after))
            assert "only as far as 0.05" in found.finding(row)
        assert "up to a radius of 0.05" in str(found)
        assert "cannot be compared" in found.warnings[0]
        found.to_json()
    chosen = compare(reached, capped, halves(UNREACHED), AuditSettings(resamples=400, up_to=2.0))
    assert verdicts(chosen) == [MORE_ROBUST] * 2
    assert all("up to a radius of 2" in chosen.finding(row) for row in chosen)
    nearer = compare(reached, upper(np.append(0.3 * GAP, np.inf)), halves(UNREACHED), QUICK)
    assert set(verdicts(nearer)) == {NOT_COMPARABLE}
    assert "nothing says how far the search for them looked" in nearer.finding(nearer["F"])


def test_power_promises_nothing_where_nothing_could_be_compared():
    found = power(upper(UNREACHED, tried=0.05), halves(UNREACHED))["F"]
    assert math.isnan(found.smallest_drop)
    assert "the cap of 0.05" in reason_of(found.samples_needed)
    assert power(upper(UNREACHED, tried=3.0), halves(UNREACHED))["F"].smallest_drop < 0
