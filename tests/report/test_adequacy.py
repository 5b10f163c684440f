"""Whether the attack was strong enough, as a reader of the page meets it."""

import math
from itertools import pairwise

import numpy as np
import pytest

from fairmargin.analyses.adequacy import Evidence, settle
from fairmargin.analyses.alarms import SIGNS, consequence
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.report.answer import strength
from fairmargin.report.figures import budgets
from fairmargin.report.sections import unchecked
from fairmargin.study.options import AuditOptions, DataOptions, ImportOptions, ModelOptions
from fairmargin.study.record import About, RunRecord, StoredResult
from fairmargin.study.study import Study
from tests.report.examples import example_result
from tests.report.test_page import page_of as page_with

NAMES = ("25 steps", "50 steps", "100 steps", "200 steps", "400 steps")


def example(
    names=("0", "1", "8"), *, weak="", blind="", beside=None, names_of_budgets=NAMES, partition="digit", per_group=40
):
    """Groups of gamma distances; those of `weak` go on falling, `blind` has no gradient, others are `beside`."""
    rng = np.random.default_rng(0)
    groups = Partition(partition, list(names), np.repeat(np.arange(len(names)), per_group))
    values = rng.gamma(9, 0.1, len(groups))
    is_weak = groups.membership == (list(names).index(weak) if weak else -1)
    runs = []
    for factor in (1.6, 1.3, 1.1, 0.9, 0.7):
        runs.append(Distances(np.where(is_weak, values * factor, values), values > 0, "upper", "l2"))
    no_slope = groups.membership == (list(names).index(blind) if blind else -1)
    slopes = Distances(np.where(no_slope, math.inf, 1.0), values > 0, "neither", "l2")
    others = None if beside is None else Distances(beside * values, values > 0, "upper", "l2")
    evidence = Evidence(tuple(runs), tuple(names_of_budgets), 2, slopes=slopes, others=others)
    return settle(evidence, groups, estimator="fmn:steps=100")


def page_of(adequacy, *, names=("0", "1", "8"), partition="digit"):
    return page_with(example_result(names, bound=Bound.UPPER, partition=partition), adequacy)


# Sentences


def test_a_settled_gap_is_said_at_the_top_and_in_its_section():
    found = example()
    assert strength([found]) == "More steps of this attack did not move these gaps, and no alarm was raised."
    assert strength([]) == strength([example(("everyone",), partition="all")]) == ""  # one group has no gap
    page = page_of(found)
    assert "More steps of this attack did not move these gaps" in page.text
    assert "Settled: budgets of up to 400 steps moved no group’s gap by more than 2 points of σ." in page.text
    assert page.open == []


def test_a_gap_that_still_moves_is_said_to_be_partly_the_attacks():
    found = example(weak="8")
    assert found.verdict == "not settled"
    assert strength([found]).startswith(
        "But with more steps of this attack the gaps by “digit” still moved: in part they are the attack’s"
    )
    assert "The distances are not yet those of the model but of the attack" in found.headline
    page = page_of(found)
    assert strength([found]) in page.text
    assert found.finding(found["8"]) in page.text
    assert any(a.get("class") == "chip bad" for a in page.attributes("span"))


def test_alarms_name_the_groups_the_share_and_its_interval():
    found = example(blind="1")
    (sentence,) = found.alarm_sentences()
    assert sentence.startswith("No gradient (the model has no gradient, or none that is a number): “1” at 100 %")
    assert "(40 of 40; 95 % interval 91 % to 100 %)" in sentence
    assert "signs that the attack was misled about “1” of “digit”" in strength([found])
    assert sentence.endswith(f"91 % to 100 %). {consequence('no gradient')}")
    assert "an attack that sees nothing, or stays in the wrong place, does not move" in found.headline
    page = page_of(found)
    assert sentence in page.text
    assert [text.strip() for text in page.seen].count("no gradient") == 2  # of one group, and a column of all alarms


def test_the_page_says_which_samples_were_measured_again_what_each_alarm_means_and_when_it_is_raised():
    text = page_of(example()).text
    assert "chosen by their content" in text
    for kind in SIGNS:
        assert kind.capitalize() in text
        assert consequence(kind) in text
    assert "Raised above 5.0 %" in text
    assert "Raised by any sample" in text


@pytest.mark.parametrize(
    ("bound", "imported", "said"),
    [
        (Bound.UPPER, "", "was not checked. Run the same command with --adequacy"),
        (Bound.UPPER, "table.csv", "must be checked there"),
        (Bound.EXACT, "", "computed, not searched for, and there is nothing to settle"),
        (Bound.NEITHER, "", "no budget would make them distances"),
        (Bound.LOWER, "", "no attack that could have been stronger"),
    ],
)
def test_where_nothing_was_checked_the_page_of_a_run_says_so_in_one_line(bound, imported, said):
    source = {"imported": ImportOptions(distances=imported)}
    if not imported:
        source = {"data": DataOptions(data="digits"), "model": ModelOptions(model="model.npz")}
    stored = StoredResult(kind="audit", about=About(partition="digit", estimator="fmn"), key="a")
    record = RunRecord(study=Study(**source, audit=AuditOptions()), results=(stored, stored))
    (line,) = unchecked(record.reading(lambda _: example_result(bound=bound))).sentences
    assert line.startswith("fmn: ")
    assert said in line


def test_the_section_begins_with_two_sentences_for_people_who_build_no_models():
    first, second, *_ = page_of(example()).text.partition("Here it was checked ")[2].split(". ")
    assert first.strip().startswith("whether the search for mistakes of the model was thorough enough")
    assert second.startswith("It matters because")
    for word in ("σ", "bound", "budget", "gradient", "attack", "interval"):
        assert word not in first + second.partition("An attack finds")[0]


def test_what_another_attack_found_is_said_at_the_top_and_in_the_alarms():
    found = example(beside=0.5)
    assert found.verdict == "settled"
    opening = strength([found])
    assert opening.startswith("Another attack on this page came clearly nearer than fmn:steps=100 for “0” of “digit”")
    assert "misled" not in opening
    (sentence,) = found.alarm_sentences()
    assert sentence.startswith("Another attack is nearer (another attack audited beside this one found")
    assert "So the distances of these groups may be too large: what the other attack found" in sentence
    assert opening in page_of(found).text


# Figures


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
