"""Whether the attack was strong enough, as a reader of the page meets it."""

import math
from itertools import pairwise

import numpy as np
import pytest

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.metrics.alarms import THRESHOLDS
from fairmargin.metrics.settling import Evidence, settle
from fairmargin.report.figures import budgets
from fairmargin.report.page import Provenance, Section, render, write_report
from fairmargin.report.words import strength, strength_alarms, strength_headline
from tests.report.examples import HOSTILE, example_result
from tests.report.test_page import Page

NAMES = ("25 steps", "50 steps", "100 steps", "200 steps", "400 steps")


def example(names=("0", "1", "8"), *, weak="", blind="", names_of_budgets=NAMES, partition="digit", per_group=40):
    """Groups of gamma distances; those of `weak` go on falling, `blind` has no gradients."""
    rng = np.random.default_rng(0)
    groups = Partition(partition, list(names), np.repeat(np.arange(len(names)), per_group))
    values = rng.gamma(9, 0.1, len(groups))
    is_weak = groups.membership == (list(names).index(weak) if weak else -1)
    runs = []
    for factor in (1.6, 1.3, 1.1, 0.9, 0.7):
        runs.append(Distances(np.where(is_weak, values * factor, values), values > 0, "upper", "l2"))
    no_slope = groups.membership == (list(names).index(blind) if blind else -1)
    slopes = Distances(np.where(no_slope, math.inf, 1.0), values > 0, "neither", "l2")
    return settle(Evidence(tuple(runs), tuple(names_of_budgets), 2, slopes=slopes), groups, estimator="fmn:steps=100")


def page_of(adequacy, *, bound=Bound.UPPER, estimator="fmn:steps=100", names=("0", "1", "8"), partition="digit"):
    section = Section(example_result(names, bound=bound, partition=partition), estimator, adequacy)
    return Page(render([section], Provenance()))


# Sentences


def test_a_settled_gap_is_said_at_the_top_and_in_its_section():
    found = example()
    assert strength([found]) == "More attack budget did not move these gaps, and no alarm was raised."
    page = page_of(found)
    assert "More attack budget did not move these gaps" in page.text
    assert "Settled: budgets of up to 400 steps moved no group’s gap by more than 2 points of σ." in page.text
    assert page.open == []


def test_a_gap_that_still_moves_is_said_to_be_partly_the_attacks():
    found = example(weak="8")
    assert found.verdict == "not settled"
    assert "still moves the gaps by “digit”: in part they are the attack’s, not the model’s" in strength([found])
    assert "The distances are not yet those of the model but of the attack" in strength_headline(found)
    page = page_of(found)
    assert strength([found]) in page.text
    assert found["8"].finding in page.text
    assert any(a.get("class") == "chip not-settled" for a in page.attributes("span"))


def test_alarms_name_the_groups_the_share_and_its_interval():
    found = example(blind="1")
    (sentence,) = strength_alarms(found)
    assert sentence.startswith("No gradient (the model has no gradient, or none that is a number): “1” at 100 %")
    assert "(40 of 40; 95 % interval 91 % to 100 %)" in sentence
    assert "signs that the attack was misled about “1” of “digit”" in strength([found])
    assert "an attack that sees nothing does not move either" in strength_headline(found)
    page = page_of(found)
    assert sentence in page.text
    assert [a.get("class") for a in page.attributes("span")].count("chip alarm") == 1


def test_what_each_alarm_means_and_when_it_is_raised_stands_on_the_page():
    text = page_of(example()).text
    for kind in THRESHOLDS:
        assert kind.capitalize() in text
    assert "Raised above 5.0 %" in text
    assert "Raised by any sample" in text


@pytest.mark.parametrize(
    ("bound", "estimator", "said"),
    [
        (Bound.UPPER, "fmn", "was not checked. Run the same command with --adequacy"),
        (Bound.UPPER, "measured elsewhere", "must be checked there"),
        (Bound.EXACT, "exact_linear", "computed, not searched for, and there is nothing to settle"),
        (Bound.NEITHER, "first_order", "no budget would make them distances"),
        (Bound.LOWER, "smoothing", "no attack that could have been stronger"),
    ],
)
def test_where_nothing_was_checked_the_page_says_so_in_one_line(bound, estimator, said):
    page = page_of(None, bound=bound, estimator=estimator)
    assert said in page.text
    assert "What the alarms mean" not in page.text


def test_nothing_is_added_to_the_opening_where_nothing_was_checked():
    assert strength([]) == ""


# Hostile, long and many


def test_hostile_names_are_shown_and_not_run():
    found = example(HOSTILE, weak=HOSTILE[0], blind=HOSTILE[1], partition="<script>alert(4)</script>", per_group=12)
    page = page_of(found, names=HOSTILE, partition="<script>alert(4)</script>", estimator="<b>x</b>")
    assert page.open == []
    assert "<script>alert(1)</script>" in page.text
    assert not {tag for tag, _ in page.tags} & {"img", "b", "i"}
    assert sum(1 for attributes, _ in page.scripts if not attributes) == 2


def test_the_figure_draws_every_group_and_marks_the_audited_budget():
    figure = budgets(example(weak="8"))
    names = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert names == ["0", "1", "8"]
    assert [trace.error_y.array is not None for trace in figure.data if trace.name] == [True] * 3
    assert figure.layout.shapes[0].x0 == 2
    assert list(figure.layout.xaxis.ticktext) == ["25", "50", "100", "200", "400"]
    falling = next(trace for trace in figure.data if trace.name == "8").y
    assert all(after <= before for before, after in pairwise(falling))


def test_the_figure_shows_what_a_budget_found_alone_where_that_was_farther_away():
    rng = np.random.default_rng(0)
    values = rng.gamma(9, 0.1, 40)
    runs = tuple(Distances(values * factor, values > 0, "upper", "l2") for factor in (1.0, 1.4))
    found = settle(Evidence(runs, ("<b>weak</b>", "strong"), 0), Partition.by("g", ["a"] * 20 + ["b"] * 20))
    figure = budgets(found)
    assert [trace.line.dash for trace in figure.data] == ["dot", "solid", "dot", "solid"]
    assert figure.layout.xaxis.ticktext[0] == "&lt;b&gt;weak&lt;/b&gt;"


def test_of_many_groups_the_least_and_the_most_robust_stand_out():
    found = example([f"region {i:02d}" for i in range(20)], per_group=12)
    named = [trace.name for trace in budgets(found).data if trace.showlegend]
    assert len(named) == 3
    assert "18 other groups" in named


# From Python


def test_a_report_takes_an_adequacy_and_refuses_one_that_belongs_to_no_audit(tmp_path):
    result = example_result(bound=Bound.UPPER)
    path = write_report(tmp_path / "report.html", result, adequacy=example())
    assert "Settled: budgets of up to 400 steps" in path.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="belongs to none of the audits"):
        write_report(tmp_path / "report.html", result, adequacy=[example(partition="ink")])
