"""Verdicts of audits to a precision: corrected for the number of groups, and kept whole."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fairmargin.core.bound import Bound
from fairmargin.errors import InputError
from fairmargin.metrics.permutation import holm
from fairmargin.metrics.precision import PrecisionResult, judged
from fairmargin.metrics.results import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, NOT_COMPARABLE, TOO_FEW
from fairmargin.metrics.undefined import reason_of
from tests.report.precise_examples import precise_group, precise_result


def test_verdicts_are_corrected_for_the_number_of_groups():
    rows = [precise_group(name, sigma=-0.2) for name in "abcd"]
    p = np.array([0.02, 0.001, 0.5, 0.04])
    found = judged(rows, p, 0.95)
    assert [row.p for row in found] == p.tolist()
    assert [row.p_adjusted for row in found] == holm(p).tolist()
    assert [row.verdict for row in found] == [NO_DIFFERENCE, LESS_ROBUST, NO_DIFFERENCE, NO_DIFFERENCE]


def test_two_groups_against_each_other_are_one_question():
    rows = [precise_group("F", sigma=-0.2), precise_group("M", sigma=0.25)]
    found = judged(rows, np.array([0.03, 0.03]), 0.95)
    assert [row.p_adjusted for row in found] == [0.03, 0.03]
    assert [row.verdict for row in found] == [LESS_ROBUST, MORE_ROBUST]


def test_a_small_group_is_not_judged_and_does_not_count_among_the_questions():
    rows = [precise_group("a"), precise_group("b"), precise_group("tiny", size=29)]
    found = judged(rows, np.array([0.02, 0.4, 1e-9]), 0.95)
    assert [row.verdict for row in found] == [LESS_ROBUST, NO_DIFFERENCE, TOO_FEW]
    assert found[0].p_adjusted == 0.04
    assert "30 samples" in reason_of(found[2].p_adjusted)


def test_without_a_rest_or_without_an_interval_nothing_is_compared():
    alone = replace(precise_group("all"), sigma=precise_group("all").sigma.undefined("there is no rest", Bound.NEITHER))
    (found,) = judged([alone], np.array([np.nan]), 0.95)
    assert found.verdict == NOT_COMPARABLE
    assert reason_of(found.p_adjusted) == "there is no rest"
    never, other = judged([precise_group("never"), precise_group("other")], np.array([np.nan, np.nan]), 0.95)
    assert never.verdict == other.verdict == NOT_COMPARABLE


def test_a_result_comes_back_from_json_as_it_was():
    rows = judged(
        [precise_group("a"), precise_group("b"), precise_group("tiny", size=9)], np.array([0.01, 0.2, 0.5]), 0.9
    )
    result = replace(precise_result(), groups=rows, up_to=2.5, notes=("żółć",))
    again = PrecisionResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert again["a"] == result["a"]
    assert reason_of(again["tiny"].p) == reason_of(result["tiny"].p) != ""
    assert again.up_to == 2.5
    assert PrecisionResult.from_json(precise_result().to_json()) == precise_result()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.pop("format"), "no audit to a precision"),
        (lambda c: c.update(format=7), "format 7"),
        (lambda c: c.update(groups=[]), "damaged"),
        (lambda c: c.update(target="everyone"), "damaged"),
        (lambda c: c["groups"][0].update(verdict="fine"), "damaged"),
        (lambda c: c["groups"][0].update(sigma=3), "damaged"),
        (lambda c: c.pop("cheap"), "damaged"),
    ],
)
def test_what_is_damaged_is_refused_with_a_sentence(change, said):
    content = json.loads(precise_result().to_json())
    change(content)
    with pytest.raises(InputError, match=said):
        PrecisionResult.from_json(json.dumps(content))


def test_no_json_at_all_is_refused_with_a_sentence():
    for text in ("", "[1]", "nothing", "3"):
        with pytest.raises(InputError, match="no audit to a precision"):
            PrecisionResult.from_json(text)


def test_the_table_has_every_verdict_with_its_sentence():
    frame = precise_result().to_frame().set_index("group")
    assert frame.loc["F", "verdict"] == LESS_ROBUST
    assert "F: less robust than the rest, by upper bounds" in frame.loc["F", "finding"]
    assert "p < 0.001" in frame.loc["F", "finding"]
