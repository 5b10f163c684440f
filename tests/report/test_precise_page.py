"""The page of an audit to a precision: what is known, how little was measured for it, and who is not judged."""

import math
from dataclasses import replace

import pytest
from fairmargin.report.precise_page import render_precise

from fairmargin.core.bound import Bound
from fairmargin.errors import InputError
from fairmargin.inference.estimate import LESS_ROBUST, NO_DIFFERENCE, NOT_COMPARABLE, Estimate
from fairmargin.report import figures, precise_words
from fairmargin.report.document import Provenance
from fairmargin.report.page import write_report
from tests.report.examples import HOSTILE, example_result
from tests.report.precise_examples import precise_group, precise_result
from tests.report.test_page import Page


def text_of(html: str) -> str:
    return " ".join(" ".join(Page(html).seen).split())


@pytest.fixture(scope="module")
def text():
    return text_of(render_precise([precise_result()], Provenance(title="Precisely", seed=3)))


def test_the_answer_says_who_is_easier_to_fool_and_how_precisely_it_is_known(text):
    assert "No: the model is not equally hard to fool for everyone" in text
    assert "“F” of “sex” (20 % closer than the rest)" in text
    assert "± 5.0 points; for 1 of 2 groups they are known less precisely" in text


def test_every_group_has_its_verdict_its_intervals_and_its_numbers_of_samples(text):
    for shown in ("less robust", "more robust", "−20.0 %", "[−24.0, −16.0]", "0.800", "[0.760, 0.840]", "± 6.4 points"):
        assert shown in text
    assert "alone [−23.2, −16.8]" in text
    assert "hold for all groups at once" in text
    for heading in ("As precise", "Cheap", "Dear", "Verdict", "Mean distance"):
        assert heading in text


def test_the_saving_is_told_to_those_who_build_no_models(text):
    assert "A cheap estimate (first_order) was made of everybody, and the dear one (plumb:steps=40) of 120" in text
    assert "5.2 times less" in text
    assert "7.1 times less" in text
    assert "nothing is taken from it unchecked" in text
    assert "opinion poll" in text


def test_a_gap_between_upper_bounds_is_warned_of_and_exact_distances_need_no_warning(text):
    assert "orders nothing by itself" in text
    exact = text_of(render_precise([precise_result(bound=Bound.EXACT)], Provenance()))
    assert "Before you rely on this" not in exact


def test_where_no_cheap_estimate_paid_none_is_shown():
    rows = [replace(row, cheap_samples=0) for row in precise_result()]
    alone = text_of(render_precise([precise_result(rows, cheap="")], Provenance()))
    assert "no cheap one helped" in alone
    assert "nothing is taken from it unchecked" not in alone
    assert "Correlation" not in alone


def test_what_cost_more_is_not_called_a_saving():
    dear = replace(precise_result(), spent=10_400.0, full_cost=10_400.0)
    assert "had 2.0 times more to do" in precise_words.work(dear)
    assert "no less than with the dear estimate on all" in precise_words.work(dear)


def test_several_partitions_share_one_page_with_contents():
    pages = [precise_result(partition=name) for name in ("sex", "race", "age")]
    page = Page(render_precise(pages, Provenance()))
    targets = [a["href"] for tag, a in page.tags if tag == "a"]
    assert targets[:4] == ["#audit-1", "#audit-2", "#audit-3", "#saved"]
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets} <= set(ids)


def test_names_of_strangers_are_text_and_the_page_is_well_formed():
    rows = [precise_group(name, verdict=LESS_ROBUST) for name in HOSTILE]
    found = precise_result(rows, partition=HOSTILE[0], notes=("<img src=x onerror=alert(1)>",))
    page = Page(render_precise([found], Provenance(title=HOSTILE[1])))
    assert page.open == []
    assert not [tag for tag, _ in page.tags if tag in ("img", "b", "i")]
    assert len(page.scripts) == 3  # a figure's numbers, plotly, and our own


def test_a_group_without_sigma_says_why_and_one_that_is_never_right_is_named():
    never = replace(
        precise_group("never"),
        robustness=Estimate(0.0, 0.0, math.nan, Bound.UPPER, "nobody is right"),
        sigma=Estimate(-1.0, -1.0, math.nan, Bound.NEITHER, "nobody is right"),
        sigma_alone=Estimate(-1.0, -1.0, math.nan, Bound.NEITHER, "nobody is right"),
        p=math.nan,
        p_adjusted=math.nan,
        verdict=NOT_COMPARABLE,
        met=False,
    )
    shown = text_of(render_precise([precise_result([never, precise_group("other")])], Provenance()))
    assert "Of “never” no sample that was looked at is classified correctly" in shown
    assert "nobody is right" in shown
    assert "no interval" in shown


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
    shown = text_of(render_precise([precise_result([row])], Provenance()))
    assert "All mean distances are known to ± 5.0 points" in shown
    assert "there is no sample outside" in shown


def test_the_figure_marks_every_group_and_how_long_intervals_may_be():
    figure = figures.precise_intervals(precise_result())
    assert {trace.name for trace in figure.data} == {"less robust", "more robust"}
    strip, line = figure.layout.shapes  # the line at 0 lies on top
    assert (strip.x0, strip.x1) == (-0.05, 0.05)
    assert line.x0 == line.x1 == 0
    with pytest.raises(InputError, match="audit_to_precision"):
        figures.precise_intervals(example_result())


def test_write_report_takes_an_audit_to_a_precision_but_does_not_mix(tmp_path):
    path = write_report(tmp_path / "page.html", precise_result())
    assert "How little was measured" in path.read_text(encoding="utf-8")
    write_report(tmp_path / "two.html", [precise_result(), precise_result(partition="race")])
    with pytest.raises(InputError, match="audit_to_precision"):
        write_report(tmp_path / "mixed.html", [precise_result(), example_result()])
    with pytest.raises(InputError, match="`audit`"):
        write_report(tmp_path / "mixed.html", [example_result(), precise_result()])
    with pytest.raises(InputError, match="brackets"):
        write_report(tmp_path / "mixed.html", precise_result(), brackets=object())
    with pytest.raises(InputError, match="at least one audit"):
        write_report(tmp_path / "mixed.html", [])
    assert not (tmp_path / "mixed.html").exists()


def test_no_difference_is_no_proof():
    rows = [precise_group(name, sigma=0.01, verdict=NO_DIFFERENCE) for name in "abc"]
    shown = text_of(render_precise([precise_result(rows)], Provenance()))
    assert "no proof of equality" in shown
    assert "All differences from the rest are known to ± 5.0 points" in shown
