import math
from dataclasses import replace

import numpy as np
import pytest

from fairmargin.analyses import explanations, summary
from fairmargin.analyses.audit import audit
from fairmargin.analyses.cells import MARKS
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.estimate import (
    LESS_ROBUST,
    MORE_ROBUST,
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    TOO_FEW,
    VERDICTS,
    Estimate,
)
from fairmargin.presentation import formatting
from fairmargin.report import answer as words
from fairmargin.report.document import SYMBOLS
from tests.report.examples import example_group, example_result, undefined_group


def group_with(sigma: float, low: float, high: float, verdict: str = LESS_ROBUST, name: str = "8"):
    return replace(
        example_group(name, verdict=verdict), sigma=Estimate(sigma, low, high, Bound.EXACT), p_adjusted=0.0002
    )


def result_of(*groups, bound=Bound.EXACT, **options):
    return example_result(groups=groups, bound=bound, **options)


def test_the_headline_names_the_group_the_size_the_interval_and_the_p_value():
    result = result_of(group_with(-0.31, -0.36, -0.25), group_with(0.02, -0.1, 0.14, NO_DIFFERENCE, "1"))
    assert summary.headline(result) == (
        "Noise or an attacker reaches “8” first: on average its samples lie 31 % closer to the boundary than "
        "everyone else’s (95 % interval 25 % to 36 %, p < 0.001)."
    )


def test_the_headline_takes_the_significant_group_with_the_smallest_sigma():
    groups = [
        undefined_group("u"),
        group_with(-0.2, -0.3, -0.1, name="a"),
        group_with(-0.5, -0.9, 0.1, NO_DIFFERENCE, name="b"),
        group_with(-0.4, -0.5, -0.3, name="c"),
    ]
    assert [row.group for row in summary.by_sigma(groups)] == ["b", "c", "a", "u"]
    assert "reaches “c” first" in summary.headline(result_of(*groups))
    assert "Also significantly less robust: “a” (20 % closer)." in summary.summary(result_of(*groups))


@pytest.mark.parametrize(
    ("bound", "phrase"),
    [
        (Bound.UPPER, "as far as this attack can tell"),
        (Bound.LOWER, "weakest guarantee: on average its certified radii are 31 % smaller"),
        (Bound.NEITHER, "Judged by a proxy"),
    ],
)
def test_the_headline_claims_no_more_than_the_bound_allows(bound, phrase):
    result = result_of(group_with(-0.31, -0.36, -0.25), bound=bound)
    assert phrase in summary.headline(result)
    assert words.audits_answer([result]).startswith("No: the model is not equally hard to fool for everyone, ")
    more = summary.headline(result_of(group_with(0.3, 0.2, 0.4, MORE_ROBUST), bound=bound))
    assert "first" not in more
    assert ("30 % larger" if bound is Bound.LOWER else "30 % farther from the boundary") in more


def test_no_significant_difference_is_not_sold_as_equality():
    result = result_of(group_with(0.02, -0.1, 0.14, NO_DIFFERENCE))
    assert "No significant difference" in summary.headline(result)
    assert any("up to 14 %" in sentence for sentence in summary.summary(result))
    assert "no proof of equality" in words.audits_answer([result])


def test_an_audit_that_judged_nobody_says_that_it_cannot_tell():
    result = result_of(undefined_group("a"), undefined_group("b", verdict=NOT_COMPARABLE))
    assert "No verdict on the groups" in summary.headline(result)
    assert words.audits_answer([result]).startswith("This audit cannot tell")


def test_the_answer_says_no_as_soon_as_one_partition_differs():
    unequal = result_of(group_with(-0.31, -0.36, -0.25), partition="digit")
    equal = result_of(group_with(0.02, -0.1, 0.14, NO_DIFFERENCE), partition="sex")
    answer = words.audits_answer([equal, unequal])
    assert answer.startswith("No: the model is not equally hard to fool for everyone.")
    assert "“8” of “digit” (31 % closer than the rest)" in answer
    assert "By “sex” no significant difference was found." in answer


def test_estimators_that_contradict_each_other_are_reported():
    less = result_of(group_with(-0.3, -0.4, -0.2), partition="digit")
    more = result_of(group_with(0.3, 0.2, 0.4, MORE_ROBUST), partition="digit")
    assert "The estimators contradict each other about “8” of “digit”." in words.audits_answer([less, more])
    assert words.disagreements([less, less]) == ()
    assert words.disagreements([less, replace(more, partition="other")]) == ()


def test_names_cannot_rearrange_a_sentence_and_keep_what_tells_them_apart():
    for name in ("a\u202eb", "a\nb", "a\x00b", "a\u2066b", "a\t b"):
        assert formatting.plain(name) == "a b"
    assert formatting.plain("👩\u200d🔬") == "👩\u200d🔬"  # one emoji of several parts
    short = formatting.quoted("start" + "x" * 500 + "end")
    assert len(short) <= 62
    assert short.startswith("“start")
    assert short.endswith("end”")


def test_every_verdict_and_every_bound_has_a_symbol_and_a_meaning():
    assert set(MARKS) == set(explanations.VERDICT_MEANINGS) == set(VERDICTS)
    assert len({SYMBOLS[mark] for mark in MARKS.values()}) == len(VERDICTS) - 1  # two say that samples are too few
    assert set(explanations.BOUND_MEANINGS) == set(Bound)
    assert "orders nothing by itself" in explanations.BOUND_MEANINGS[Bound.UPPER]


def test_conditions_are_told_only_where_they_hold():
    assert example_result().notes() == []
    capped = replace(example_result(up_to=2.0, control="age"), clustered=True, subject="smoothed(0.25)")
    text = " ".join(capped.notes())
    for phrase in ("capped at 2", "no finite distance", "equal “age”", "resampled together", "smoothed(0.25)"):
        assert phrase in text
    left_out = replace(example_group(size=200), dropped=0.25)
    assert "50 samples without a counterpart" in result_of(left_out, control="age").notes()[-1]


def test_the_radius_of_a_cap_is_named_in_the_answer_and_the_headline():
    capped, plain = example_result(up_to=2.0), example_result()
    assert "radius" not in words.audits_answer([plain]) + summary.headline(plain)
    assert "This holds up to a radius of 2: differences beyond it are not seen." in words.audits_answer([capped])
    assert "on average, up to a radius of 2, its samples lie" in summary.headline(capped)
    other = replace(plain, partition="age")
    assert "This holds only up to a radius of 2 by “digit”" in words.audits_answer([capped, other])
    equal = example_result(groups=[example_group(name, verdict=NO_DIFFERENCE) for name in "01"], up_to=2.0)
    assert "was found up to a radius of 2." in summary.headline(equal)


def test_a_group_whose_rest_is_always_wrong_is_judged_although_its_sigma_is_undefined():
    values = np.concatenate([np.random.default_rng(0).gamma(2, 1, 60), np.zeros(50)])
    distances = Distances(values, values > 0, "exact", "l2")
    result = audit(distances, Partition("g", ["big", "a", "b"], np.repeat([0, 1, 2], [60, 25, 25])))
    assert [row.verdict for row in result] == [MORE_ROBUST, TOO_FEW, TOO_FEW]
    assert not result["big"].sigma.is_defined
    assert summary.headline(result) == (
        "No group is significantly easier to reach than the rest, but “big” is harder to reach: on average its samples "
        "lie farther from the boundary than everyone else’s, whose distances are all 0 (p < 0.001)."
    )
    assert words.audits_answer([result]).startswith("No: the model is not equally hard to fool for everyone.")
    assert "“big” of “g” (farther than the rest, whose distances are all 0)" in words.audits_answer([result])


def test_an_unlimited_interval_allows_differences_of_any_size():
    open_ended = group_with(0.1, -0.3, math.inf, NO_DIFFERENCE)
    assert "the interval allows a difference of any size" in summary.summary(result_of(open_ended))[1]
    several = result_of(open_ended, group_with(0.1, -0.3, 0.4, NO_DIFFERENCE, "1"))
    assert "their intervals allow differences of any size" in summary.summary(several)[1]


def test_large_relative_differences_are_factors():
    wide = group_with(20.0, -0.3, 904.0, NO_DIFFERENCE)
    assert "its mean does not tell how large it may be: look at the medians." in summary.summary(result_of(wide))[1]
    less_wide = group_with(20.0, -0.3, 90.0, NO_DIFFERENCE)
    assert "the interval allows a difference of up to 91 times." in summary.summary(result_of(less_wide))[1]
    assert "(a mean 21 times that of the rest, 95 % interval −30 % to 905 times;" in summary.finding(
        result_of(wide), wide, ""
    )
    one = group_with(0.2, -0.3, 5e14, NO_DIFFERENCE)
    assert "95 % interval −30 % to more than 120 times;" in summary.finding(result_of(one), one, "")
