"""The draft of rules for a table says the same as no rules, except what it proposes."""

import tomllib

import numpy as np
import pandas as pd
import pytest

from fairmargin.models.tables.draft import draft, looks_sensitive
from fairmargin.models.tables.schema import coding_of
from fairmargin.study.rules_file import rules_of


def table(**more):
    rng = np.random.default_rng(0)
    columns = {
        "weight": rng.normal(70, 10, 60).astype(np.float32),
        "grade": rng.integers(1, 7, 60),
        "constant": np.ones(60),
        "empty": np.full(60, np.nan),
        "job": rng.choice(["cook", "nurse", None], 60),
        "employed": rng.random(60) < 0.5,
        "level": pd.Categorical(rng.choice(["low", "high"], 60), ["low", "high"], ordered=True),
    }
    return pd.DataFrame({**columns, **more})


def columns_with(frame, text=""):
    rules = rules_of(tomllib.loads(text))
    return {column.name: column for column in coding_of(frame, rules, names=tuple(frame.columns)).columns}


def test_the_draft_is_read_back_without_any_change():
    frame = table()
    with_draft, without = columns_with(frame, draft(frame)), columns_with(frame)
    assert list(with_draft) == list(without)
    for name, column in without.items():
        assert with_draft[name].fingerprint() == column.fingerprint(), name


def test_columns_that_look_sensitive_do_not_move_and_age_only_rises():
    frame = table(age=np.arange(60), Sex=["F", "M"] * 30)
    found = columns_with(frame, draft(frame))
    assert {name for name, column in found.items() if column.immutable} == {"age", "Sex", "constant", "empty"}
    assert found["age"].direction == "up"
    assert "looks sensitive: remove this line" in draft(frame)


@pytest.mark.parametrize(
    "name", ["sex", "Gender", "race", "ethnic_group", "AGE", "religion", "nationality", "birth date", "relationship"]
)
def test_names_of_sensitive_columns_are_recognised(name):
    assert looks_sensitive(name)


@pytest.mark.parametrize("name", ["wage", "mileage", "sexton", "trace", "embrace", "income", "usage_2020", "package"])
def test_names_that_only_contain_such_a_word_are_not(name):
    assert not looks_sensitive(name)


def test_columns_of_zeros_and_ones_that_encode_a_category_become_one():
    codes = pd.get_dummies(pd.Series(["cook", "nurse", "guard"] * 20, name="job"), prefix="main_job", dtype=int)
    frame = pd.concat([table()[["weight"]], codes, pd.DataFrame({"flag_a": [0, 1] * 30, "flag_b": 0})], axis=1)
    found = columns_with(frame, draft(frame))
    assert found["main_job"].categories == ("cook", "guard", "nurse")
    assert {"flag_a", "flag_b", "weight", "main_job"} == set(found)


def test_dates_names_and_missing_values_are_mentioned():
    frame = table(since=pd.date_range("2020", periods=60), name=[f"person {i}" for i in range(60)])
    frame = pd.concat([frame] * 3, ignore_index=True).assign(name=[f"person {i}" for i in range(180)])
    text = draft(frame)
    assert '# "since" holds dates or durations' in text
    assert "180 different texts: looks like a name or a key" in text
    assert "# missing in 100 % of the rows, and stays missing" in text
    assert "since" not in rules_of(tomllib.loads(text))
