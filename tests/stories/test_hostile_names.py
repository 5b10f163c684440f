"""Names of groups and columns may be hostile: no page, terminal or spreadsheet interprets them."""

import csv
import io
import json
import re

import numpy as np
import pytest

from fairmargin.errors import InputError
from tests.stories.examples import QUICK, distances, fairmargin, json_of, refused, succeeded, write_distances

NAMES = {
    "F": '=HYPERLINK("http://evil")\x1b]0;owned\x07\x9b2J',
    "M": "[red]x[/] [link=http://evil]y[/link]\u202e\x7f\u2066\\",
}
COLUMN = "@sex\x1b[31m[bold]"
MARKUP = ["<script>alert(1)</script>", "a & b", '"quoted"', "żółć 漢字 🙂", ":smile:", "{{ 7 * 7 }}", "x" * 200]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    table = distances()
    table[COLUMN] = table["sex"].map(NAMES)
    table["kind"] = "a"
    table.loc[::2, "kind"] = "\r+b"
    write_distances(folder / "table.parquet", table)
    arguments = [
        "audit",
        "--distances",
        folder / "table.parquet",
        "--bound",
        "upper",
        "--norm",
        "l2",
        "--group",
        COLUMN,
    ]
    return folder / "run", succeeded(fairmargin(*arguments, "--group", "kind", *QUICK, "--out", folder / "run"))


def control_characters(text: str) -> list[str]:
    """Return the characters that a terminal would interpret, except line breaks."""
    return [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202a\u202e\u2066\u2069")]


def test_no_cell_of_a_csv_file_is_a_formula_or_a_terminal_sequence(run):
    text = (run[0] / "audit.csv").read_text(encoding="utf-8")
    assert control_characters(text) == []
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["group"][:11] for row in rows} == {"'=HYPERLINK", "[red]x[/] [", "a", "'+b"}
    for row in rows:
        for name, value in row.items():
            if value.startswith(("=", "+", "-", "@")):
                assert name not in ("group", "partition", "finding", "verdict")
                float(value)  # a number may begin with a sign


def test_the_terminal_shows_names_as_they_are_spelled(run):
    for result in (run[1], fairmargin("report", run[0]), fairmargin("gate", run[0], "--if", "size > 1")):
        assert control_characters(result.output) == []
        shown = "".join(result.stdout.split())
        assert "[red]x[/][link=http://evil]y[/link]" in shown
        assert r"\x1b]0;owned\x07\x9b2J" in shown


@pytest.mark.parametrize("command", ["report", "gate", "compare", "power"])
def test_json_escapes_control_characters_and_keeps_the_names(run, command):
    more = {"gate": ["--if", "size > 1"], "compare": [run[0]]}.get(command, [])
    text = fairmargin(command, run[0], *more, "--json").stdout
    assert control_characters(text) == []
    assert set(NAMES.values()) <= groups_in(json.loads(text))


def test_the_report_shows_names_as_they_are_spelled(run):
    page = (run[0] / "report.html").read_text(encoding="utf-8")
    data = "".join(re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL))
    shown = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert control_characters(shown) == control_characters(data) == []
    assert r"\x1b]0;owned\x07\x9b2J" in shown
    assert "owned" in data


@pytest.mark.parametrize("column", ["<script>alert(1)</script>", "R&D"])
def test_names_that_look_like_markup_are_shown_as_text_by_every_command(tmp_path, column):
    table = distances()
    table[column] = np.array(MARKUP)[np.arange(len(table)) % len(MARKUP)]
    write_distances(tmp_path / "table.csv", table)
    arguments = ["audit", "--distances", tmp_path / "table.csv", "--bound", "upper", "--norm", "l2", "--group", column]
    found = json_of(fairmargin(*arguments, *QUICK, "--out", tmp_path / "run", "--json"))
    assert groups_in(found["audits"][0]["groups"]) >= set(MARKUP)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    for command, more in (("report", ()), ("power", ()), ("compare", (tmp_path / "run",))):
        shown = succeeded(fairmargin(command, tmp_path / "run", *more)).stdout
        assert column in shown
        assert ":smile:" in shown


def groups_in(content):
    """Return every value of a key `group`, at any depth."""
    match content:
        case dict():
            return {content.get("group")} | {name for part in content.values() for name in groups_in(part)}
        case list():
            return {name for part in content for name in groups_in(part)}
    return set()


def test_an_error_shows_names_as_they_are_spelled(run):
    for option in ("\x1b[2Jkind", "\u202ekind"):
        said = refused(fairmargin("gate", run[0], "--if", "size > 1", "--group", option))
        assert control_characters(said) == []
        assert COLUMN.replace("\x1b", "\\x1b") in said  # the message lists the partitions


def test_an_error_in_python_escapes_control_characters():
    assert str(InputError("column \x1b]0;owned\x07 of\ntable")) == "column \\x1b]0;owned\\x07 of\ntable"
