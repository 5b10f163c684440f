"""CSV files in which names from untrusted sources cannot become formulas or terminal commands."""

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmargin.errors import visible
from fairmargin.store.table import cell, write_csv

FORMULAS = ["=1+1", "+1-1", "-1+1|cmd", "@SUM(A1)", "＝1", "＋1", "－1", "＠x"]


@pytest.mark.parametrize("text", [*FORMULAS, "\t=1", "\r=1", " =1", "\u3000=1", "\ufeff=1"])
def test_no_cell_begins_a_formula(text: str) -> None:
    assert cell(text).lstrip()[0] not in "=+-@＝＋－＠\t\r\n"


@pytest.mark.parametrize("text", ["x;=1+1", "x; =1", "x;＝1", 'x";@y'])
def test_no_part_of_a_cell_begins_a_formula_where_semicolons_separate(text: str) -> None:
    assert cell(text).split(";")[1].lstrip()[0] == "'"


@pytest.mark.parametrize(
    "text", ["-5", "+3.5", "-1e-3", "-.5", "0", "F", "O'Brien", "a=b", "20-30", "женщина", "نمی‌دانم"]
)
def test_ordinary_names_do_not_change(text: str) -> None:
    assert cell(text) == text


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    for safe in (visible(text), cell(text)):
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in safe)
        assert not any("\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" or c in "\u2028\u2029" for c in safe)
        safe.encode()  # half of a surrogate pair could not be written


@given(st.text(min_size=1))
def test_neutralised_text_is_not_changed_again(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert cell(cell(text)) == cell(text)


def test_numbers_are_read_as_the_same_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "group": ["=1+1", "-5", 'a,"b"\n;c', "F"],
            "kind": pd.Categorical(["@x", "y", "y", "@x"]),
            "sigma": [-0.5, math.nan, math.inf, rng.normal()],
            "size": [1, 2, 3, 4],
            "met": [True, False, True, True],
        }
    )
    write_csv(tmp_path / "table.csv", frame)
    again = pd.read_csv(tmp_path / "table.csv")
    pd.testing.assert_frame_equal(again[["sigma", "size", "met"]], frame[["sigma", "size", "met"]], check_exact=True)
    assert again["group"].tolist() == ["'=1+1", "-5", 'a,"b"\\n;c', "F"]
    assert again["kind"].tolist() == ["'@x", "y", "y", "'@x"]
    with (tmp_path / "table.csv").open(newline="") as file:
        assert next(iter(csv.DictReader(file)))["sigma"] == "-0.5"


def test_an_empty_table_can_be_written(tmp_path: Path) -> None:
    write_csv(tmp_path / "empty.csv", pd.DataFrame())
    write_csv(tmp_path / "names.csv", pd.DataFrame({"=x": [-1.5], "\x1b[31m": ["a"]}))
    assert (tmp_path / "names.csv").read_text() == "'=x,\\x1b[31m\n-1.5,a\n"
