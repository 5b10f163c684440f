"""Rules of columns are read from TOML and written so that they are read back unchanged."""

import tomllib

import numpy as np
import pytest

from fairmargin.core.column import Column, TableColumn
from fairmargin.study.options import DataOptions
from fairmargin.study.rules_file import fields_of, plain_rules, read_rules, rules_of, rules_text, table_text, toml_value

NAMES = ("age", "capital gain", "a.b", 'say "x"', "tab\there", "Ωmega", "", "1e5", "del\x7f")


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_column_is_read_back(name, tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(table_text(name, {"unit": 0.1}, {"unit": "two\nlines", "cost": "a\rb"}), encoding="utf-8")
    assert read_rules(path) == {name: Column(unit=0.1)}


@pytest.mark.parametrize("value", [True, 3, 0.1, 1e-300, 1e22, -5.0, "yes", ["a", "b"], [1, 2.5], float("-inf")])
def test_any_value_is_read_back(value):
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value
    assert (
        tomllib.loads(f"x = {toml_value(np.array(value)[()] if not isinstance(value, list) else value)}")["x"] == value
    )


def test_rules_as_plain_values_make_the_same_rules_again():
    rules = {
        "age": Column(kind="number", unit=10, low=17, high=90, step=1, direction="up", label="years"),
        "job": Column(kind="category", values=["cook", "nurse"], ordered=True, cost=2),
        "gain": Column(plausible="zero_or_at_least", immutable=False),
        "any": Column(),
    }
    assert rules_of(plain_rules(rules)) == rules
    assert DataOptions(columns=plain_rules(rules)).columns == plain_rules(rules)
    options = DataOptions(columns=plain_rules(rules))
    assert DataOptions(**options.plain()) == options


def test_resolved_columns_are_written_with_what_was_chosen(tmp_path):
    columns = (
        TableColumn("age", "number", unit=13.640432, low=17, high=90, step=1, direction="up", label="years"),
        TableColumn("gain", "number", unit=1.0, gap=100.0, immutable=True),
        TableColumn("grade", "number", allowed=np.array([1.0, 2.5])),
        TableColumn("many", "number", allowed=np.arange(200.0)),
        TableColumn("job", "category", categories=("cook", "nurse"), reachable=(0, 1), cost=2.0),
        TableColumn("level", "category", categories=("low", "high"), reachable=(0, 1), ordered=True),
    )
    (tmp_path / "rules.toml").write_text(rules_text(columns), encoding="utf-8")
    rules = read_rules(tmp_path / "rules.toml")
    assert list(rules) == [column.name for column in columns]
    assert rules["age"] == Column(
        kind="number", unit=13.640432, low=17, high=90, step=1, direction="up", label="years", immutable=False
    )
    assert (rules["gain"].plausible, rules["gain"].low, rules["gain"].immutable) == ("zero_or_at_least", None, True)
    assert (rules["grade"].values, rules["many"].values, rules["many"].plausible) == ((1.0, 2.5), None, "observed")
    assert (rules["job"].values, rules["job"].cost) == (None, 2.0)  # another table may have other categories
    assert rules["level"].values == ("low", "high")
    assert set(fields_of(columns[0])) == {"kind", "unit", "label", "low", "high", "step", "direction", "immutable"}
