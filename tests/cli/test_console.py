"""Progress and results as they are shown in a terminal or in the log of a long run."""

import json
import math
import re

import numpy as np
import pytest
from rich.console import Console

from fairmargin.analyses.audit import audit
from fairmargin.analyses.bracket import bracket
from fairmargin.analyses.catalog import RESULTS
from fairmargin.cli import console
from fairmargin.cli.console import show_section
from fairmargin.cli.progress import lines_in_a_log, progress
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings
from tests.report.test_page import Page, html_of
from tests.spec.test_every_analysis import HOSTILE, PLAIN, made

GROUPED = [kind for kind in RESULTS if kind != "training"]  # whose rows are epochs, of which the table shows two


@pytest.fixture
def clock():
    times = iter([0.0, 10.0, 61.0, 61.0, 70.0, 130.0, 130.0])
    return lambda: next(times)


@pytest.fixture
def printed(monkeypatch, capsys):
    """Return a function that prints a section at a width and returns the lines."""

    def lines(section, width):
        monkeypatch.setattr(console, "output", Console(highlight=False, emoji=False, width=width, soft_wrap=False))
        show_section(section)
        return capsys.readouterr().out.splitlines()

    return lines


def test_a_log_gets_a_line_a_minute_at_most(clock, capsys):
    tell = lines_in_a_log(clock)
    for done in range(4):
        tell("training", 1000 * done, 4000)
    assert capsys.readouterr().err.splitlines() == ["training: 1,000 of 4,000 (25%)", "training: 3,000 of 4,000 (75%)"]


def test_short_and_quiet_commands_leave_a_log_empty(capsys):
    for quiet in (False, True):
        with progress(quiet) as tell:
            tell("measuring", 0, 2)
            tell("measuring", 2, 2)
    assert capsys.readouterr().err == ""


def test_the_tables_name_the_radius_of_a_cap(printed):
    rng = np.random.default_rng(0)
    truth = np.concatenate([rng.gamma(4, 1.0, 80), rng.gamma(4, 2.0, 80)])
    groups = Partition.by("sex", ["F"] * 80 + ["M"] * 80)
    lower, upper = (Distances(f * truth, truth > 0, b, "l2") for f, b in ((0.9, "lower"), (1.1, "upper")))
    for up_to, said in ((5.0, True), (math.inf, False)):
        plan = AuditSettings(resamples=200, up_to=up_to)
        assert ("distances capped at 5" in printed(audit(upper, groups, plan).section(), 140)[0]) is said
        heading = printed(bracket(lower, upper, groups, plan).section(), 140)[0]
        assert ("up to a radius of 5" in heading) is said


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("kind", GROUPED)
def test_no_width_takes_the_group_or_the_verdict_from_a_table(kind, width, printed):
    section = made(kind).section()
    lines = printed(section, width)
    table = section.tables[0]
    assert any(line.split()[:1] == [table.columns[0].name] for line in lines)
    if table.marks:
        assert any("verdict" in line for line in lines)
    for row in table.rows:
        (line,) = [line for line in lines if line.split()[:1] == [row[0].text]]
        assert line.split()[1] in [word for cell in row for word in cell.text.split()]
        if table.marks:
            assert line.split()[1] == row[1].text.split()[0]
    drawn = [line for line in lines if re.match(r" (group|column|F|M|rare|─)", line)]
    assert max(map(len, drawn)) <= width


def test_a_narrow_table_leaves_out_the_last_columns_first(printed):
    section, counts = made("comparison").section(), set()
    for width in (240, 140, 120, 100, 80):
        lines = printed(section, width)
        (rule,) = (number for number, line in enumerate(lines) if line.startswith(" ─"))
        header = " ".join(lines[1:rule])
        assert "95 % interval" in header
        shown = [name in header for name in ("mean distance", "change of σ", "p of σ", "samples")]
        assert shown == sorted(shown, reverse=True), "a column is left out before one on its right"
        counts.add(sum(shown))
    assert len(counts) > 2
    assert max(counts) == 4


def test_hostile_names_are_printed_as_they_are_spelled(printed):
    lines = printed(made("audit", ("[red]x[/]", *HOSTILE[1:])).section(), 140)
    assert any(line.split()[:1] == ["[red]x[/]"] for line in lines)


@pytest.mark.parametrize("kind", GROUPED)
def test_console_page_and_json_agree_about_values_intervals_and_verdicts(kind, printed):
    found = made(kind)
    lines, page = printed(found.section(), 400), Page(html_of(found)).text
    text = "\n".join(lines)
    table = found.section().tables[0]
    rows = {row["group"]: row for row in json.loads(json.dumps(found.to_dict()))["groups"]}
    assert set(rows) == {row[0].text for row in table.rows} == set(PLAIN)
    for row in table.rows:
        for column, cell in zip(table.columns, row, strict=True):
            assert cell.text in text
            assert cell.text in page
            if cell.interval:
                assert cell.interval in page
                assert not column.interval or cell.interval in text
            if column.kind == "verdict":
                assert cell.text == rows[row[0].text]["verdict"]


def test_of_many_groups_the_console_prints_20_and_counts_the_others(printed):
    rng = np.random.default_rng(0)
    distances = Distances(rng.gamma(4, 1.0, 200), np.ones(200, dtype=bool), "exact", "l2")
    groups = Partition.by("town", [f"t{number % 50}" for number in range(200)])
    lines = printed(audit(distances, groups, AuditSettings(resamples=200)).section(), 140)
    assert sum(bool(re.match(r" t\d+ ", line)) for line in lines) == 20
    assert "… and 30 more; the page and the files of the run have all." in lines
    assert any("join small ones (`--merge-below`, `Partition.merge`)" in line for line in lines)
