"""An audit notes which verdicts depend on the 1 % largest distances of all samples."""

import math
import re

import numpy as np
import pytest

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.core.arrays import Floats
from fairmargin.core.partition import Partition
from fairmargin.inference.design import Design
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.tails import changes_without_tail
from fairmargin.report.answer import answer_of
from tests.inference.builders import exact, groups_of

QUICK, ALONE = AuditSettings(resamples=400), Design(None, None)
NEARER = np.random.default_rng(0).gamma(4, np.repeat([0.2, 0.25], 200))


def with_far(place: int, distance: float = 500.0) -> Floats:
    values = NEARER.copy()
    values[place] = distance
    return values


def notes(result: AuditResult) -> list[str]:
    return [warning for warning in result.warnings if "largest distance" in warning]


def verdicts(values: Floats, groups: Partition, settings: AuditSettings = QUICK) -> list[str]:
    return [row.verdict for row in audit(exact(values), groups, settings)]


@pytest.mark.parametrize("place", [0, 200])
def test_one_far_sample_among_400_takes_the_verdict_and_a_note_says_what_it_would_be(place: int) -> None:
    groups = groups_of(200, 200)
    assert verdicts(NEARER, groups) == [LESS_ROBUST, MORE_ROBUST]
    result = audit(exact(with_far(place)), groups, QUICK)
    assert [row.verdict for row in result] == [NO_DIFFERENCE] * 2
    (note,) = notes(result)
    assert note.startswith(
        "Without the 4 largest distances of all 400 (1.0 %), “g0” would be less robust and “g1” would be more robust: "
        "the verdict depends on a few far samples. Medians do not depend on them; relative to the rest: “g0” −2"
    )
    assert note in result.section().cautions
    row = result["g0"]
    assert row.sigma_median.high < 0
    assert "Its median distance is also smaller than that of the rest: −2" in result.finding(row)


def test_a_verdict_that_rests_on_far_samples_is_named_too() -> None:
    rng = np.random.default_rng(1)
    values = np.append(rng.gamma(4, 0.25, 1000), rng.gamma(4, 0.25, 1000))
    values[:20] += 10.0
    result = audit(exact(values), groups_of(1000, 1000), QUICK)
    assert [row.verdict for row in result] == [MORE_ROBUST, LESS_ROBUST]
    assert "(1.0 %), “g0” and “g1” would be not significantly different: the verdict depends" in notes(result)[0]


def test_a_sign_that_reverses_counts_as_a_change() -> None:
    rng = np.random.default_rng(1)
    values = np.append(0.7 * rng.gamma(4, 0.25, 1000), rng.gamma(4, 0.25, 1000))
    values[:20] += 100.0
    result = audit(exact(values), groups_of(1000, 1000), QUICK)
    assert [row.verdict for row in result] == [MORE_ROBUST, LESS_ROBUST]
    assert "“g1” would be more robust" in notes(result)[0]


@pytest.mark.parametrize("settings", [QUICK, AuditSettings(resamples=400, up_to=1.5)])
def test_without_far_samples_or_with_a_cap_there_is_no_note(settings: AuditSettings) -> None:
    values = NEARER if math.isinf(settings.up_to) else with_far(0)
    result = audit(exact(values), groups_of(200, 200), settings)
    assert [row.verdict for row in result] == [LESS_ROBUST, MORE_ROBUST]
    assert notes(result) == []


def test_the_tail_is_that_of_all_samples_and_ends_before_equal_values() -> None:
    values = np.arange(1000.0)
    for changed, removed in ((values, 10), (np.minimum(values, 995), 10), (np.minimum(values, 985), 0)):
        found = changes_without_tail(changed, groups_of(500, 500), QUICK, ALONE, [NO_DIFFERENCE] * 2)
        assert found.samples == removed
    assert changes_without_tail(values[:40], groups_of(20, 20), QUICK, ALONE, [NO_DIFFERENCE] * 2).samples == 1


@pytest.mark.parametrize("kind", ["clusters in groups", "clusters across groups", "control", "weights"])
def test_clusters_weights_and_a_control_are_kept_in_the_comparison_without_the_tail(kind: str) -> None:
    person = np.arange(400) // 2 if kind == "clusters in groups" else np.arange(400) % 200
    settings = AuditSettings(
        resamples=400,
        cluster=person if "clusters" in kind else None,
        sample_weight=np.arange(400) % 2 + 1.0 if kind == "weights" else None,
        control=Partition.by("class", np.arange(400) % 2) if kind == "control" else None,
    )
    assert verdicts(NEARER, groups_of(200, 200), settings) == [LESS_ROBUST, MORE_ROBUST]
    result = audit(exact(with_far(0)), groups_of(200, 200), settings)
    assert result["g0"].verdict == NO_DIFFERENCE
    assert "“g0” would be less robust and “g1” would be more robust" in notes(result)[0]


def test_a_group_that_has_too_few_samples_without_the_tail_is_not_named() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.gamma(4, 10.0, 51), rng.gamma(4, 0.25, 2000), rng.gamma(4, 0.25, 2000)])
    result = audit(exact(values), groups_of(51, 2000, 2000), QUICK)
    assert result["g0"].verdict == MORE_ROBUST
    assert not any("“g0” would" in note for note in notes(result))


def test_where_one_far_sample_makes_an_interval_very_wide_the_result_says_so_once_and_points_to_the_medians() -> None:
    result = audit(exact(with_far(1)), groups_of(200, 200), QUICK)
    assert max(row.sigma.high for row in result) > 10
    shown = [each for each in str(result).splitlines() if "depend on single samples" in each]
    assert len(shown) == 1
    assert "one distance makes up" in shown[0]
    assert "Compare the medians (of" in shown[0]
    wide = max(result, key=lambda row: row.sigma.high)
    assert " times; p" in result.finding(wide)
    assert "depend on single samples" in result.finding(wide)


def test_no_sentence_is_shown_twice() -> None:
    rng = np.random.default_rng(0)
    values = np.append(rng.gamma(2, 0.5, 200), rng.gamma(2, 1.0, 200))
    result = audit(exact(values), groups_of(200, 200), QUICK)
    text = str(result).lower()
    assert text.count("the mean distance of its correct samples is smaller") == 1
    assert "mean distance of its correct samples is smaller" in result.finding(result["g0"])


def test_limits_that_tell_nothing_are_neither_printed_in_digits_nor_change_those_of_other_numbers() -> None:
    rng = np.random.default_rng(0)
    values = np.append(rng.gamma(2, 0.5, 200), rng.gamma(2, 0.5, 200))
    values[-1] = 500.0
    result = audit(exact(values), groups_of(200, 200), QUICK)
    section = result.section()
    tables = [*section.tables, *(table for each in section.further for table in each.tables)]
    shown = [text for table in tables for row in table.rows for cell in row for text in (cell.text, cell.interval)]
    assert not any(re.search(r"\d,\d{3},\d{3}|e\+|−100\.0", text) for text in shown), shown
    assert any("> ×" in text for text in shown)
    assert f"{result['g0'].robustness.value:.2f}" in [cell.text[:4] for row in section.tables[0].rows for cell in row]
    said = "For 2 of 2 groups the difference could be chance; their means do not tell how large it may be: look at the "
    assert said + "medians." in str(result)
    assert not re.search(r"\d,\d{3},\d{3}|e\+", str(result))
    assert max(row["sigma_high"] for row in result.records()) > 1e4
    answer = answer_of([result])
    assert "they do not decide it. Mean distances depend on single samples" in answer
    assert "nothing here shows" not in answer


def test_of_curves_that_differ_the_group_of_which_fewer_withstand_is_named_and_its_median_agrees() -> None:
    rng = np.random.default_rng(0)
    values = np.append(rng.gamma(2, 0.6, 200), rng.gamma(2, 0.4, 200))
    values[-1] = 500.0
    result = audit(exact(values), groups_of(200, 200), QUICK)
    assert "The means of “g1” and its rest do not differ significantly" in result.hidden_difference
    assert "fewer of its samples withstand" in result.hidden_difference
    assert "Its median distance is also smaller" in result.finding(result["g1"])
