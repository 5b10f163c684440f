"""The page of an audit to a precision: what is known, how little was measured for it, and who is not judged."""

import math
from dataclasses import replace

import pytest

from fairmargin.core.bound import Bound
from fairmargin.errors import InputError
from fairmargin.inference.estimate import NOT_COMPARABLE, Estimate
from fairmargin.report import figures
from fairmargin.report.page import write_report
from tests.report.examples import example_result
from tests.report.precise_examples import precise_group, precise_result
from tests.report.test_page import Page, html_of


def text_of(html: str) -> str:
    return " ".join(" ".join(Page(html).seen).split())


@pytest.fixture(scope="module")
def text():
    return text_of(html_of(precise_result()))


def test_the_answer_says_who_is_easier_to_fool_and_how_precisely_it_is_known(text):
    assert "No: the model is not equally hard to fool for everyone" in text
    assert "“F” of “sex” (20 % closer than the rest)" in text
    assert "± 5.0 points; for 1 of 2 groups they are known less precisely" in text


def test_every_group_has_its_verdict_its_intervals_and_its_numbers_of_samples(text):
    for shown in ("less robust", "more robust", "−20.0 %", "[−24.0, −16.0]", "0.800", "[0.760, 0.840]", "± 6.4 points"):
        assert shown in text
    assert "alone [" not in text  # two groups are one question, so that both intervals are the same
    assert "hold for all groups at once" in text
    for heading in ("as precise", "cheap", "reference", "verdict", "mean distance"):
        assert heading in text


def test_the_saving_is_told_to_those_who_build_no_models(text):
    assert "plumb:steps=40 measured 120 of 800 samples, first_order 800" in text
    assert "5.2× less than the compute of a plain random part" in text
    assert "7.1× less than that of all samples" in text
    assert "nothing is taken from it unchecked" in text
    assert "opinion poll" in text


def test_a_gap_between_upper_bounds_is_warned_of_and_exact_distances_need_no_warning(text):
    assert "orders nothing by itself" in text
    exact = text_of(html_of(precise_result(bound=Bound.EXACT)))
    assert "Before you rely on this" not in exact


def test_where_no_cheap_estimate_paid_none_is_shown():
    rows = [replace(row, cheap_samples=0) for row in precise_result()]
    alone = text_of(html_of(precise_result(rows, cheap="")))
    assert "plumb:steps=40 measured 120 of 800 samples: " in alone
    assert "nothing is taken from it unchecked" not in alone
    assert "correlation" not in alone


def test_what_cost_more_is_not_called_a_saving():
    expensive = replace(precise_result(), spent=10_400.0, full_cost=10_400.0)
    assert "2.0× more than the compute of a plain random part" in " ".join(expensive.section().sentences)


def test_one_group_alone_is_shown_by_its_mean():
    undefined = Estimate.undefined("there is no sample outside group 'all'", Bound.NEITHER)
    row = replace(
        precise_group("all"),
        sigma=undefined,
        sigma_alone=undefined,
        verdict=NOT_COMPARABLE,
        p=math.nan,
        p_adjusted=math.nan,
    )
    shown = text_of(html_of(precise_result([row])))
    assert "All mean distances are known to ± 5.0 points" in shown
    assert "there is no sample outside" in shown


def test_the_figure_marks_every_group_and_how_long_intervals_may_be():
    figure = figures.precise_intervals(precise_result())
    assert {trace.name for trace in figure.data} == {"less robust", "more robust"}
    strip, line = figure.layout.shapes  # the line at 0 lies on top
    assert (strip.x0, strip.x1) == (-0.05, 0.05)
    assert line.x0 == line.x1 == 0


def test_a_group_that_is_never_right_is_named_and_a_group_without_sigma_says_why():
    nothing = Estimate(-1.0, -1.0, math.nan, Bound.NEITHER, "no sample is classified correctly")
    mean = Estimate(0.0, 0.0, math.nan, Bound.UPPER, "no sample is classified correctly")
    never = precise_group("never", verdict=NOT_COMPARABLE, met=False)
    never = replace(never, robustness=mean, sigma=nothing, sigma_alone=nothing, p=math.nan, p_adjusted=math.nan)
    shown = text_of(html_of(precise_result([never, precise_group("other")])))
    assert "Of “never” no sample that was looked at is classified correctly" in shown
    assert "−100.0 % no sample is classified correctly" in shown


def test_write_report_takes_one_result_or_several_of_any_kind_and_writes_nothing_otherwise(tmp_path):
    path = write_report(tmp_path / "page.html", precise_result())
    assert "What each group took" in path.read_text(encoding="utf-8")
    mixed = write_report(tmp_path / "mixed.html", [precise_result(), example_result()], title="Mixed")
    assert "<title>Mixed</title>" in mixed.read_text(encoding="utf-8")
    with pytest.raises(InputError):
        write_report(tmp_path / "none.html", [example_result(), None])
    assert not (tmp_path / "none.html").exists()
