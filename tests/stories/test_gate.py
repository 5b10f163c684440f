"""`fairmargin gate`: exit code 0 if the audit passes, 1 if it fails, 2 if that cannot be decided."""

import json
import subprocess
import sys

import pytest

from tests.stories.examples import (
    fairmargin,
    people,
    people_audit,
    refused,
    succeeded,
    write_model,
    write_people,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Make a run in which group F is less robust and group X, with one sample, has no interval."""
    folder = tmp_path_factory.mktemp("gate")
    table = people()
    table.loc[0, "sex"] = "X"
    write_people(folder / "people.csv", table)
    write_model(folder / "model.npz", folder / "people.csv")
    both = ["--estimator", "exact_linear", "--estimator", "exact_linear:norm=linf"]
    succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--group", "race", *both, "--out", folder / "run")))
    return folder / "run"


def test_the_exit_code_is_0_if_no_group_meets_the_condition(run):
    result = succeeded(fairmargin("gate", run, "--if", "size > 1000"))
    assert result.stdout == "passes: no group of 12 meets size > 1000\n"


def test_the_exit_code_is_1_if_groups_meet_the_condition_and_they_are_named(run):
    result = fairmargin("gate", run, "--if", "verdict == 'less robust'", "--group", "sex")
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert text.count("fails") == 2  # one group, two estimators
    assert "fails sex=F (exact_linear): verdict = less robust. F: less robust than the rest" in text
    assert "(exact_linear:norm=linf)" in text
    assert "M: more robust" not in text


def test_the_exit_code_is_2_if_the_condition_cannot_be_decided_for_a_group(run):
    result = fairmargin("gate", run, "--if", "sigma_low < -0.99")
    assert result.exit_code == 2
    assert result.stdout == ""
    where = "sex=X (exact_linear), sex=X (exact_linear:norm=linf)"
    assert f"sigma_low < -0.99 cannot be decided for {where}: a value is undefined" in " ".join(result.stderr.split())
    assert "a value is undefined (" in result.stderr
    assert "1 sample" in result.stderr
    assert "--allow-undefined" in result.stderr
    assert "race" not in result.stderr


def test_undefined_groups_pass_with_allow_undefined(run):
    result = succeeded(fairmargin("gate", run, "--if", "sigma_low < -0.99", "--allow-undefined"))
    assert "passes" in result.stdout


def test_a_failed_group_takes_precedence_over_an_undefined_one(run):
    result = fairmargin("gate", run, "--if", "sigma_low < 0")
    assert result.exit_code == 1
    assert "cannot be decided" not in result.stderr


def test_a_condition_that_excludes_a_group_needs_no_defined_values_of_it(run):
    succeeded(fairmargin("gate", run, "--if", "size >= 30 and sigma_low < -0.99"))


def test_only_the_selected_partitions_are_checked(run):
    assert fairmargin("gate", run, "--if", "group == 'F'").exit_code == 1
    succeeded(fairmargin("gate", run, "--if", "group == 'F'", "--group", "race"))
    assert fairmargin("gate", run, "--if", "group == 'F'", "--group", "race", "--group", "sex").exit_code == 1


@pytest.mark.parametrize(("condition", "code"), [("size > 1000", 0), ("size > 1", 1), ("p < -1", 2)])
def test_json_contains_the_groups_and_the_exit_code_is_the_same(run, condition, code):
    result = fairmargin("gate", run, "--if", condition, "--json")
    assert result.exit_code == code
    found = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert found["condition"] == condition
    assert found["checked"] == 12
    assert bool(found["matching"]) == (code == 1)
    assert bool(found["undefined"]) == (code == 2)
    for row in [*found["matching"], *found["undefined"]]:
        assert {"partition", "group", "estimator", "sigma_low", "verdict"} <= set(row)


@pytest.mark.parametrize(("condition", "code"), [("size > 1000", 0), ("size > 1", 1)])
def test_quiet_prints_nothing_and_the_exit_code_is_the_same(run, condition, code):
    result = fairmargin("gate", run, "--if", condition, "--quiet")
    assert (result.exit_code, result.output) == (code, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--if", "sigma_lo < 0"], "Did you mean 'sigma_low'?"),
        (["--if", "min(size) > 100000"], "min takes two or more values"),
        (["--if", "size > 1", "--group", "sxe"], "no partition 'sxe'. Did you mean 'sex'?"),
    ],
)
def test_a_wrong_condition_has_exit_code_2(run, arguments, words):
    assert words in refused(fairmargin("gate", run, *arguments))


def test_every_column_that_the_help_names_can_be_used(run):
    text = " ".join(fairmargin("gate", "--help").stdout.replace("│", " ").split())
    named = text.split("Columns:")[1].split(".")[0]
    for word in ("(each also with _low and _high)", ","):
        named = named.replace(word, " ")
    columns = named.split()
    assert {"group", "sigma", "gap_to_rest", "verdict", "p_adjusted"} <= set(columns)
    limits = [f"{name}_{end}" for name in ("accuracy", "robustness", "sigma", "gap_to_rest") for end in ("low", "high")]
    for column in (*columns, *limits):
        result = fairmargin("gate", run, "--if", f"{column} == {column}", "--group", "race")
        assert result.exit_code == 1, (column, result.output)


@pytest.mark.parametrize(
    "condition", ["sigma_low < -0.2", "sigma_high < -0.1", 'verdict == "less robust" and size >= 100']
)
def test_the_examples_in_the_help_find_the_weak_group(run, condition):
    result = fairmargin("gate", run, "--if", condition, "--group", "sex")
    assert result.exit_code == 1
    assert "sex=F (" in result.stdout


HEAVY = ("torch", "scipy.stats", "scipy.optimize", "pandas", "matplotlib", "sklearn", "plotly")


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [
        (("gate", "RUN", "--if", "size > 1000", "--quiet"), []),
        (("compare", "RUN", "RUN", "--quiet"), []),
        (("power", "RUN", "--quiet"), []),
        (("report", "RUN", "--quiet"), ["plotly"]),
    ],
)
def test_commands_that_read_a_run_load_only_what_they_need(run, arguments, loaded):
    command = ["fairmargin", *(str(run) if part == "RUN" else part for part in arguments)]
    program = (
        f"import sys; sys.argv = {command!r}\n"
        "from fairmargin.cli import main\n"
        f"try: main()\nfinally: print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == [str(loaded)]
