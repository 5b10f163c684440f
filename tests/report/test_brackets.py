"""The page draws what is certain, and its first paragraph says it too."""

import numpy as np

from fairmargin.analyses.audit import audit
from fairmargin.analyses.bracket import bracket
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings
from fairmargin.report import figures
from fairmargin.report.page import write_report
from tests.analyses.test_certified import two_groups
from tests.report.examples import HOSTILE, example_result
from tests.report.test_page import page_of as page_with

PLAN = AuditSettings(resamples=200)


def measured(loose, labels=("F", "M"), subject="model"):
    rng = np.random.default_rng(0)
    truth = np.concatenate([rng.gamma(4, 1.0, 80), rng.gamma(4, 2.0, 80)])
    groups = Partition.by("sex", [labels[0]] * 80 + [labels[1]] * 80)
    lower = Distances(truth * (1 - loose), truth > 0, Bound.LOWER, Norm.L2, subject)
    upper = Distances(truth * (1 + loose), truth > 0, Bound.UPPER, Norm.L2, subject)
    return lower, upper, groups


def page_of(tmp_path, loose, **options):
    lower, upper, groups = measured(loose, **options)
    found = bracket(lower, upper, groups, PLAN)
    return write_report(tmp_path / "page.html", [audit(upper, groups, PLAN), found]).read_text(encoding="utf-8")


def test_the_page_says_who_is_certainly_easier_to_fool(tmp_path):
    page = page_of(tmp_path, 0.1)
    assert "Certain, whatever the attack: “F” is easier to fool." in page
    assert "What is certain, by sex" in page
    assert "certainly less robust" in page


def test_bounds_that_leave_room_are_not_called_certain(tmp_path):
    page = page_of(tmp_path, 0.9)
    assert "Certain, whatever" not in page
    assert "nothing is certain yet" in page


def test_what_is_certain_up_to_a_radius_names_it_at_the_top_and_in_the_table(tmp_path):
    lower, upper, groups = measured(0.1)
    plan = AuditSettings(resamples=200, up_to=5.0)
    page = write_report(tmp_path / "p.html", [audit(upper, groups, plan), bracket(lower, upper, groups, plan)])
    text = page.read_text(encoding="utf-8")
    assert "Certain, whatever the attack: “F” (up to a radius of 5) is easier to fool." in text
    assert "It is certain (up to a radius of 5) which side" in text
    assert "Distances beyond 5 count as 5." in text
    assert "verdict<small>up to a radius of 5</small>" in text
    assert "up to a radius" not in page_of(tmp_path, 0.1)


def test_what_is_certain_of_a_smoothed_model_is_not_said_of_the_model(tmp_path):
    page = page_of(tmp_path, 0.1, subject="smoothed(0.25)")
    assert "“F” (of the smoothed(0.25) model, up to false certificates) is easier to fool." in page


def test_the_figure_draws_both_limits_of_every_group_and_ends_without_limit():
    lower, upper, groups = measured(0.1)
    figure = figures.bracket_intervals(bracket(lower, upper, groups, PLAN))
    assert len(figure.data) == 4
    thick = [trace for trace in figure.data if trace.line.width > 5]
    assert all(trace.x[0] < trace.x[1] for trace in thick)
    nothing = Distances(np.zeros(160), upper.correct, Bound.LOWER, Norm.L2)
    figure = figures.bracket_intervals(bracket(nothing, upper, groups, PLAN))
    assert all(np.isfinite(trace.x).all() for trace in figure.data)


def test_the_page_shows_what_is_guaranteed():
    found, _ = two_groups(HOSTILE[:3])
    page = page_with(example_result(bound=Bound.LOWER), found)
    assert page.open == []
    assert "What is guaranteed" in page.text
    assert HOSTILE[0] in page.text
    row = found.groups[0]
    assert f"≥ {100 * row.shares[1].guaranteed:.1f} %" in page.text
    assert "What is guaranteed" not in page_with(example_result()).text
