"""A pipeline asks whether the audit may pass: 0 yes, 1 no, 2 nobody can tell."""

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
    """Women are less robust; one person of an unknown sex has no interval."""
    folder = tmp_path_factory.mktemp("gate")
    table = people()
    table.loc[0, "sex"] = "X"
    write_people(folder / "people.csv", table)
    write_model(folder / "model.npz", folder / "people.csv")
    both = ["--estimator", "exact_linear", "--estimator", "exact_linear:norm=linf"]
    succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--group", "race", *both, "--out", folder / "run")))
    return folder / "run"


def test_passes_with_0_when_no_group_meets_the_condition(run):
    result = succeeded(fairmargin("gate", run, "--if", "size > 1000"))
    assert result.stdout == "passes: no group of 12 meets size > 1000\n"


def test_fails_with_1_and_names_the_groups_that_meet_it(run):
    result = fairmargin("gate", run, "--if", "verdict == 'less robust'", "--group", "sex")
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert text.count("fails") == 2  # one group, two estimators
    assert "fails sex=F (exact_linear): verdict = less robust. F: less robust than the rest" in text
    assert "(exact_linear:norm=linf)" in text
    assert "M: more robust" not in text


def test_ends_with_2_when_the_condition_cannot_be_decided_and_says_for_whom(run):
    result = fairmargin("gate", run, "--if", "sigma_low < -99")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "sigma_low < -99 cannot be decided for sex=X" in result.stderr
    assert "--allow-undefined" in result.stderr
    assert "race" not in result.stderr


def test_lets_undefined_pass_when_told_so(run):
    result = succeeded(fairmargin("gate", run, "--if", "sigma_low < -99", "--allow-undefined"))
    assert "passes" in result.stdout


def test_a_group_that_fails_weighs_more_than_one_that_is_undefined(run):
    result = fairmargin("gate", run, "--if", "sigma_low < 0")
    assert result.exit_code == 1
    assert "cannot be decided" not in result.stderr


def test_the_logic_of_three_values_spares_groups_that_are_excluded_anyhow(run):
    succeeded(fairmargin("gate", run, "--if", "size >= 30 and sigma_low < -99"))


def test_looks_only_at_the_partitions_that_are_named(run):
    assert fairmargin("gate", run, "--if", "group == 'F'").exit_code == 1
    succeeded(fairmargin("gate", run, "--if", "group == 'F'", "--group", "race"))
    assert fairmargin("gate", run, "--if", "group == 'F'", "--group", "race", "--group", "sex").exit_code == 1


@pytest.mark.parametrize(("condition", "code"), [("size > 1000", 0), ("size > 1", 1), ("p < -1", 2)])
def test_json_holds_what_was_found_and_the_exit_code_stays(run, condition, code):
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
def test_quiet_says_nothing_but_the_exit_code(run, condition, code):
    result = fairmargin("gate", run, "--if", condition, "--quiet")
    assert (result.exit_code, result.output) == (code, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--if", "sigma_lo < 0"], "Did you mean 'sigma_low'?"),
        (["--if", "__import__('os')"], "uses a call that is not allowed"),
        (["--if", "verdict < 1"], "compares a text with a number"),
        (["--if", "size > 1", "--group", "sxe"], "no partition 'sxe'. Did you mean 'sex'?"),
    ],
)
def test_bad_input_ends_with_2_and_a_sentence(run, arguments, words):
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
def test_the_examples_of_the_help_find_the_weak_group(run, condition):
    result = fairmargin("gate", run, "--if", condition, "--group", "sex")
    assert result.exit_code == 1
    assert "sex=F (" in result.stdout


def test_a_defect_of_ours_is_never_taken_for_a_failed_gate(run):
    assert fairmargin("gate", run, "--if", "min(size) > 100000").exit_code in (0, 2)


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
