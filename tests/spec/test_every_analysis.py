"""Every kind of result can be stored as JSON, refuses damaged files, and has tables and sentences."""

import json
import math
import re
from dataclasses import fields
from functools import cache
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from fairmargin.analyses.adequacy import Evidence, settle
from fairmargin.analyses.audit import audit
from fairmargin.analyses.bracket import bracket
from fairmargin.analyses.catalog import RESULTS
from fairmargin.analyses.certified import certify_groups
from fairmargin.analyses.changes import nearest_changes, words_of
from fairmargin.analyses.column_rules import ColumnRules, column_rules
from fairmargin.analyses.comparison import compare
from fairmargin.analyses.curves import compare_curves
from fairmargin.analyses.epochs import compare_epochs
from fairmargin.analyses.power import power
from fairmargin.analyses.robust_accuracy import accuracy_under_attack
from fairmargin.analyses.training import EpochRow, TrainingCourse
from fairmargin.core.column import TableColumn
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.settings import AuditSettings
from fairmargin.report.draw import draw
from fairmargin.report.page import render
from tests.report.examples import texts_of
from tests.report.precise_examples import precise_group, precise_result

PLAIN = ("F", "M", "rare")
HOSTILE = ("<script>alert(1)</script>", "two\nlines\u202e", "a & b")
SIZES = (60, 60, 2)
SETTINGS = AuditSettings(resamples=200)


def groups(names):
    return Partition('hair "colour"', list(names), np.repeat([0, 1, 2], SIZES))


def distances(bound="upper", factor=1.0, subject="model"):
    rng = np.random.default_rng(0)
    values = rng.gamma(4, 1.0, sum(SIZES)) * np.repeat([0.5, 1.0, 1.0], SIZES) * factor
    values[::20] = 0.0
    return Distances(values, values > 0, bound, "l2", subject)


def adequacy_of(names):
    runs = tuple(distances(factor=factor) for factor in (1.2, 1.0, 0.9))
    noise = distances(factor=0.5)
    return settle(Evidence(runs, ("25 steps", "50 steps", "100 steps"), 1, noise=noise), groups(names))


def precision_of(names):
    return precise_result([precise_group(name) for name in names], partition='hair "colour"')


def columns_of(names):
    number = TableColumn(names[0], "number", unit=2.5, low=-3, high=1e9, step=1, direction="up", label="$", gap=4)
    category = TableColumn(names[1], "category", categories=names, reachable=(0, 1), cost=2, immutable=True)
    return number, category, TableColumn(names[2], "number", allowed=np.array([1.0, 2.0]), source="the rules")


def changes_of(names):
    found = distances("exact")
    changes = {i: words_of(columns_of(names), [0, 0, 1], [5, i % 2, math.nan]) for i in range(len(found))}
    return nearest_changes(found, groups(names), changes, exact=True)


def robust_accuracy_of(names):
    found = distances()
    return accuracy_under_attack(
        found.correct, found.values > 1, groups(names), SETTINGS, attack="pgd", norm="l2", radius=1
    )


MADE_BY = {
    "audit": lambda names: audit(distances(), groups(names), SETTINGS),
    "curves": lambda names: compare_curves(distances(), groups(names), SETTINGS, radii=(0.5, 2)),
    "precision": precision_of,
    "robust_accuracy": robust_accuracy_of,
    "bracket": lambda names: bracket(distances("lower", 0.9), distances(), groups(names), SETTINGS),
    "certified": lambda names: certify_groups(
        distances("lower", subject="smoothed(0.25)"), groups(names), [0.5, 1.0], alpha=0.001
    ),
    "adequacy": adequacy_of,
    "comparison": lambda names: compare(distances(), distances(factor=1.3), groups(names), SETTINGS),
    "power": lambda names: power(distances(), groups(names), SETTINGS),
    "training": lambda names: TrainingCourse(
        "epoch",
        tuple(EpochRow(name, 1.5 / n, 0.1, 0.25 * n, "8", 0.125 * n, 0.5, 0.25) for n, name in enumerate(names, 1)),
        by='hair "colour"',
        best=names[1],
        stopped="Stopped after epoch 3 of 9: on validation data the worst group has not become better since epoch 2.",
    ),
    "epochs": lambda names: compare_epochs(
        {"1 (first)": MADE_BY["audit"](names), "3": audit(distances(factor=2), groups(names), SETTINGS)}
    ),
    "changes": changes_of,
    "columns": lambda names: ColumnRules('hair "colour"', column_rules(columns_of(names)).groups),
}
ROWS = {"certified": lambda found: len(found.radii), "adequacy": lambda found: len(found.budgets)}  # per group

every_kind = pytest.mark.parametrize("kind", RESULTS)


@cache
def made(kind, names=PLAIN):
    return MADE_BY[kind](names)


def test_the_catalog_lists_every_result_that_this_suite_can_make():
    assert list(RESULTS) == list(MADE_BY)
    assert {RESULTS.name_of(made(kind)) for kind in RESULTS} == set(RESULTS)


# Kept and read back


@every_kind
@pytest.mark.parametrize("names", [PLAIN, HOSTILE], ids=["plain", "hostile"])
def test_a_result_survives_a_round_trip_through_json(kind, names):
    found = made(kind, names)
    again = RESULTS[kind].from_json(found.to_json())
    assert type(again) is type(found)
    assert again.to_json() == found.to_json()
    assert again.sentences() == found.sentences()
    assert again.to_frame().equals(found.to_frame())


@every_kind
def test_a_missing_field_is_named(kind):
    for field in fields(made(kind)):
        content = json.loads(made(kind).to_json())
        del content[field.name]
        with pytest.raises(InputError, match=rf"This .* is damaged: '{field.name}'\. .*\.$"):
            RESULTS[kind].from_json(json.dumps(content))


@every_kind
@pytest.mark.parametrize("junk", [None, "word", [], 7, {"undefined": 3}], ids=repr)
def test_damaged_groups_are_refused_with_one_sentence(kind, junk):
    for place in ("groups", 0), ("groups",):
        content = json.loads(made(kind).to_json())
        inside = content
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]] = junk
        with pytest.raises(InputError, match=r"This .* is damaged: .+\."):
            RESULTS[kind].from_json(json.dumps(content))


@every_kind
def test_a_number_in_a_text_is_refused(kind):
    content = json.loads(made(kind).to_json())
    row = content["groups"][0]
    row = row.get("mean") if kind == "certified" else row
    name = next(name for name, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool))
    row[name] = str(row[name])
    with pytest.raises(InputError, match="is not a number"):
        RESULTS[kind].from_json(json.dumps(content))


@every_kind
def test_the_text_of_another_kind_or_another_version_is_refused(kind):
    name = RESULTS[kind].FORMAT.name
    with pytest.raises(InputError, match=rf"This is not a text written by `{RESULTS[kind].__name__}\.to_json`"):
        RESULTS[kind].from_json("{}")
    content = {**json.loads(made(kind).to_json()), "format": 99}
    with pytest.raises(InputError, match=rf"This {name} has format 99; this version of Fairmargin reads format \d"):
        RESULTS[kind].from_json(json.dumps(content))


# Tabulated and told


@every_kind
def test_the_table_has_a_row_for_every_group(kind):
    found = made(kind)
    frame = found.to_frame()
    assert len(frame) == len(found.groups) * ROWS.get(kind, lambda _: 1)(found)
    assert list(dict.fromkeys(frame["group"])) == [row.group for row in found] == list(PLAIN)
    assert set(frame["partition"]) == {found.partition}
    assert found["M"] is found.groups[1]
    with pytest.raises(InputError, match="has no group 'x'; it has 'F', 'M', 'rare'"):
        found["x"]


@every_kind
def test_the_numbers_of_the_table_are_those_of_the_rows(kind):
    found = made(kind)
    compared = 0
    for record in found.records():
        row = found[record["group"]]
        for name, value in record.items():
            held = getattr(row, name, None)
            if isinstance(held, Estimate):
                value, held = (
                    [record[f"{name}{end}"] for end in ("", "_low", "_high")],
                    [held.value, held.low, held.high],
                )
            if isinstance(held, str | int | float | list):
                np.testing.assert_equal(value, held)
                compared += 1
    assert compared > 0


@every_kind
def test_every_sentence_is_complete_and_without_nan(kind):
    found = made(kind)
    for sentence in found.sentences():
        assert sentence[:1] == sentence[:1].strip() != ""
        assert sentence.endswith(".")
        assert not re.search(r"\b(nan|inf|None)\b", sentence), sentence
        assert not re.search(r"\d%|[ (\[]-\d", sentence), f"two ways to write numbers: {sentence}"
    # The summary may say a part of a finding, which is then not repeated.
    assert [found.finding(row).startswith(tuple(found.sentences())) for row in found] == [True] * 3
    assert str(found).splitlines() == [found.title, *(f"  {sentence}" for sentence in found.sentences())]


@every_kind
def test_json_has_the_sentences_of_the_result(kind):
    found = made(kind)
    content = found.to_dict()
    assert content["sentences"] == found.sentences()
    assert [row["finding"] for row in content["groups"]] == [found.finding(row) for row in found]
    assert RESULTS[kind].from_json(json.dumps(content, allow_nan=False)).to_json() == found.to_json()


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.seen, self.text = set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)

    def handle_data(self, data):
        self.text += data


@every_kind
def test_hostile_names_are_escaped_in_notebooks_and_sentences(kind):
    found = made(kind, HOSTILE)
    page = Tags(found._repr_html_())
    assert page.seen <= {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "br"}
    assert HOSTILE[0] in page.text or kind == "training"  # which shows the last and the best epoch only
    for sentence in found.sentences():
        assert sentence.isprintable(), sentence


@every_kind
def test_a_notebook_shows_the_answer_and_every_row_of_the_tables(kind):
    found, section = made(kind), made(kind).section()
    text = Tags(found._repr_html_()).text
    shown = [section.title, section.answer, *section.sentences, *section.cautions, *section.notes]
    shown += [cell.text for table in section.tables for row in table.rows for cell in row]
    assert [each for each in shown if each not in text] == []


# Shown


@every_kind
def test_a_section_shows_no_nan_and_one_way_to_write_numbers(kind):
    for text in texts_of(made(kind).section()):
        assert not re.search(r"\b(nan|inf|None)\b", text), text
        assert not re.search(r"\d%|[ (\[]-\d", text), f"two ways to write numbers: {text}"


@every_kind
def test_a_section_has_a_row_and_a_finding_for_every_group(kind):
    found, section = made(kind), made(kind).section()
    table = section.tables[0]
    if kind != "training":  # which shows the last and the best epoch only
        assert sorted(row[0].text for row in table.rows) == sorted(PLAIN)
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert not table.marks or len(table.marks) == len(table.rows)
    complete = sorted(found.finding(row) for row in found)
    assert all(whole.startswith(part) for part, whole in zip(sorted(section.findings), complete, strict=True))


@every_kind
def test_the_page_of_a_result_begins_with_the_answer_and_escapes_names(kind):
    section = made(kind, HOSTILE).section()
    html = render("A page", [section])
    assert HOSTILE[0] not in html
    assert HOSTILE[0] in unescape(html)
    if section.answer:
        body = Tags(html).text.replace("\u00a0", " ")
        assert 0 < body.index(section.answer) < body.index("How to read this")


@every_kind
def test_every_figure_can_be_drawn_and_has_a_text_alternative(kind):
    for figure in made(kind).section().figures:
        assert figure.alt.endswith(".")
        assert len(draw(figure).data) > 0
