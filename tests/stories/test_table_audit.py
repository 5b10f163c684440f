"""An analyst audits ordinary pipelines of scikit-learn on the raw rows of a table, without encoding anything."""

import shutil
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest

import fairmargin as fm
from fairmargin.study.check import checked
from fairmargin.study.run_folder import RunFolder
from tests.stories.examples import contents_of, fairmargin, json_of, record_of, refused, succeeded
from tests.stories.raw_table import LABEL, raw_people, table_audit, write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table")
    write_table(path)
    return path


@pytest.fixture(scope="module")
def usual(folder, tmp_path_factory):
    """Audit the linear pipeline by sex; return the run folder, which no test changes, and what `--json` prints."""
    run = tmp_path_factory.mktemp("usual") / "run"
    return run, audited(folder, run)


def audited(folder: Path, out: Path, *more: object, **files: str):
    return json_of(fairmargin(*table_audit(folder, "--out", out, "--json", *more, **files)))


def rows_of(found, kind: str, partition: str = "") -> dict[str, dict]:
    (result,) = [each for each in found[kind] if each["partition"] == (partition or each["partition"])]
    return {row["group"]: row for row in result["groups"]}


# Models


@pytest.mark.parametrize(("model", "estimator"), [("linear", "exact_linear"), ("forest", "exact_tree")])
def test_a_pipeline_is_measured_exactly_on_raw_rows_and_predicts_as_the_original(folder, tmp_path, model, estimator):
    found = audited(folder, tmp_path / "run", model=f"{model}.joblib")
    (about,) = found["audits"]
    assert (about["estimator"], about["bound"], about["norm"]) == (f"{estimator}:norm=l1", "exact", "l1")
    people = pd.read_csv(folder / "people.csv")
    right = joblib.load(folder / f"{model}.joblib").predict(people.drop(columns=[LABEL])) == people[LABEL]
    for sex, row in rows_of(found, "audits").items():
        assert row["accuracy"]["value"] == pytest.approx(right[people.sex == sex].mean())
    assert "Columns that the model does not take were ignored: id." in found["notes"]


def test_a_parquet_file_has_the_audit_of_the_same_csv_file(folder, usual, tmp_path):
    found = audited(folder, tmp_path / "run", data="people.parquet")
    assert found["audits"] == usual[1]["audits"]
    assert found["columns"] == usual[1]["columns"]
    assert record_of(tmp_path / "run")["provenance"]["samples"] == record_of(usual[0])["provenance"]["samples"]


def test_a_norm_and_an_estimator_that_are_asked_for_are_used(folder, tmp_path):
    found = audited(folder, tmp_path / "run", "--norm", "linf")
    assert [each["estimator"] for each in found["audits"]] == ["exact_linear:norm=linf"]


def test_processes_find_what_one_process_finds(folder, usual, tmp_path):
    found = audited(folder, tmp_path / "run", "--engine", "processes:workers=2")
    assert found["audits"] == usual[1]["audits"]
    assert found["changes"] == usual[1]["changes"]
    ours, theirs = record_of(tmp_path / "run")["provenance"], record_of(usual[0])["provenance"]
    assert [ours[name] for name in ("samples", "domain", "classifier")] == [
        theirs[name] for name in ("samples", "domain", "classifier")
    ]


def test_labels_that_are_numbers_in_the_model_are_named_by_class_names(folder, tmp_path):
    people = pd.read_csv(folder / "people.csv")
    model = joblib.load(folder / "linear.joblib").fit(people.drop(columns=[LABEL, "id"]), people[LABEL] == ">50K")
    model[-1].classes_ = np.array([0, 1])
    joblib.dump(model, tmp_path / "model.joblib")
    shutil.copy(folder / "people.csv", tmp_path)
    asked = table_audit(tmp_path, "--out", tmp_path / "run", "--json", model="model.joblib")
    assert "--class-names '<=50K,>50K'" in refused(fairmargin(*asked))
    assert json_of(fairmargin(*asked, "--class-names", "<=50K,>50K"))["audits"]


# Groups


def test_the_columns_of_the_groups_do_not_move_unless_a_rule_says_so(folder, usual, tmp_path):
    rules = rows_of(usual[1], "columns")
    assert [name for name, rule in rules.items() if rule["immutable"]] == ["sex"]
    assert "defines groups" in rules["sex"]["source"]
    (tmp_path / "rules.toml").write_text("[sex]\nimmutable = false\n")
    found = audited(folder, tmp_path / "run", "--columns", tmp_path / "rules.toml", "--immutable", "age,hours")
    assert [name for name, rule in rows_of(found, "columns").items() if rule["immutable"]] == ["age", "hours"]


def test_numbers_are_grouped_by_edges_and_kept_in_their_order(folder, tmp_path):
    found = audited(folder, tmp_path / "run", "--group", "age", "--bins", "age=30,45,60")
    groups = ["below 30", "30 to below 45", "45 to below 60", "60 and above"]
    assert list(rows_of(found, "audits", "age")) == groups
    assert [row.group for row in checked(RunFolder(tmp_path / "run"))["age"]] == groups
    assert rows_of(found, "columns")["age"]["immutable"]


def test_a_group_need_not_be_a_column_of_the_model(folder, tmp_path):
    people = pd.read_csv(folder / "people.csv")
    people["region"] = np.where(np.arange(len(people)) % 3 > 0, "north", "south")
    people.to_csv(tmp_path / "people.csv", index=False)
    shutil.copy(folder / "linear.joblib", tmp_path)
    found = audited(tmp_path, tmp_path / "run", "--group", "region", "--control", LABEL)
    assert set(rows_of(found, "audits", "region")) == {"north", "south"}
    assert {each["control"] for each in found["audits"]} == {LABEL}


def test_some_rows_of_every_group_are_measured_in_the_units_of_all(folder, usual, tmp_path):
    found = audited(folder, tmp_path / "run", "--per-group", "20")
    assert [row["size"] for row in rows_of(found, "audits").values()] == [20, 20]
    assert found["columns"] == usual[1]["columns"]


# Rules


def test_the_draft_of_rules_changes_nothing_but_what_it_proposes(folder, usual, tmp_path):
    draft = succeeded(fairmargin("columns", folder / "people.csv", "--label", LABEL)).stdout
    (tmp_path / "rules.toml").write_text(draft, encoding="utf-8")
    found = audited(folder, tmp_path / "run", "--columns", tmp_path / "rules.toml")
    expected = audited(folder, tmp_path / "without", "--immutable", "age,sex")
    assert found["audits"] == expected["audits"]
    assert "Rules for columns that the model does not take were ignored: id." in found["notes"]
    of_model = ("--model", folder / "linear.joblib", "--trust-model")
    assert "[id]" not in succeeded(fairmargin("columns", folder / "people.csv", *of_model)).stdout


def test_the_rules_of_a_run_measure_it_again_and_another_table_in_the_same_units(folder, usual, tmp_path):
    rules = usual[0] / "columns.toml"
    again = audited(folder, tmp_path / "again", "--columns", rules)
    assert again["audits"] == usual[1]["audits"]
    shutil.copy(folder / "linear.joblib", tmp_path)
    raw_people(150, seed=1).to_csv(tmp_path / "people.csv", index=False)
    for out, more in (
        ("own", ()),
        ("same", ("--columns", rules)),
        ("trained", ("--training-data", folder / "people.csv")),
    ):
        audited(tmp_path, tmp_path / out, *more)
    units = {
        out: {
            row["group"]: row["unit"]
            for row in rows_of(json_of(fairmargin("report", tmp_path / out, "--json")), "columns").values()
        }
        for out in ("own", "same", "trained")
    }
    assert (
        units["same"] == units["trained"] == {name: row["unit"] for name, row in rows_of(usual[1], "columns").items()}
    )
    assert units["own"] != units["same"]


def test_a_study_file_has_rules_and_edges(folder, tmp_path):
    shutil.copy(folder / "people.csv", tmp_path)
    for name in ("linear", "forest"):
        shutil.copy(folder / f"{name}.joblib", tmp_path)
    (tmp_path / "study.toml").write_text(
        f"""
[columns.age]
direction = "up"
unit = 10

[data]
data = "people.csv"
label = "{LABEL}"
group = ["sex", "age"]
bins = {{ age = [40] }}

[model]
trust_model = true
[model.linear]
model = "linear.joblib"
[model.forest]
model = "forest.joblib"

[audit.exact]
resamples = 200
estimator = []
"""
    )
    found = json_of(fairmargin("run", tmp_path / "study.toml", "--out", tmp_path / "run", "--json"))
    assert {(each["model"], each["estimator"]) for each in found["audits"]} == {
        ("linear", "exact_linear:norm=l1"),
        ("forest", "exact_tree:norm=l1"),
    }
    for rules in found["columns"]:
        (age,) = [row for row in rules["groups"] if row["group"] == "age"]
        assert (age["unit"], age["direction"], age["immutable"]) == (10, "up", True)
    (tmp_path / "study.toml").write_text(
        (tmp_path / "study.toml")
        .read_text()
        .replace('[columns.age]\ndirection = "up"\nunit = 10', 'columns = "rules.toml"')
    )
    (tmp_path / "rules.toml").write_text("[age]\nunti = 10\n")
    sentence = refused(fairmargin("run", tmp_path / "study.toml", "--out", tmp_path / "other"))
    assert "rules.toml, [age]: `unti` is unknown. Did you mean 'unit'?" in sentence


# What is shown


def test_the_median_sample_of_each_group_has_its_nearest_change_in_words(folder, usual):
    run, found = usual
    page = (run / "report.html").read_text(encoding="utf-8")
    for sex, row in rows_of(found, "changes").items():
        assert row["changes"]
        words = [change["words"] for change in row["changes"]]
        assert row["finding"].startswith(f"{sex}: the median sample gets another answer with {words[0]}")
        assert all(each in page for each in words)
        assert row["examples"] == []
        assert sum(column["share"] for column in row["columns"]) >= 1
    assert "How rows may change" in page
    assert "standard deviation in the data at hand" in page


def test_single_rows_are_shown_on_request_and_their_changes_are_those_that_nearest_finds(folder, tmp_path):
    found = audited(folder, tmp_path / "run", "--examples", "2")
    people, model = pd.read_csv(folder / "people.csv"), joblib.load(folder / "linear.joblib")
    rows = people.drop(columns=[LABEL, "id"])
    classifier = fm.as_classifier(model, columns={"sex": fm.Column(immutable=True)}, training_data=rows)
    for row in rows_of(found, "changes").values():
        assert len(row["examples"]) == 2
        for example in row["examples"]:
            one = [example["row"] - 1]
            nearest = fm.nearest(
                classifier, rows.iloc[one], people[LABEL].iloc[one], fm.ESTIMATORS["exact_linear"]("l1")
            )
            changed = [name for name in rows if not nearest[name].equals(rows[name].iloc[one])]
            assert {change["column"] for change in example["changes"]} == set(changed)
            assert model.predict(nearest)[0] != people[LABEL].iloc[one[0]]


def test_a_plan_names_the_estimator_and_stores_nothing(folder, tmp_path):
    shown = succeeded(fairmargin(*table_audit(folder, "--out", tmp_path / "run", "--plan"))).stdout
    assert "exact_linear:norm=l1" in shown
    assert not (tmp_path / "run" / "record.json").exists()


def test_a_file_that_holds_no_model_is_refused_before_its_data(folder, tmp_path):
    joblib.dump({"weights": 1}, tmp_path / "dict.joblib")
    said = refused(fairmargin(*table_audit(folder, "--out", tmp_path / "run", model=str(tmp_path / "dict.joblib"))))
    assert "Cannot read a model of type `dict`" in said


# The run folder


def test_gate_report_and_compare_work_and_nothing_is_measured_twice(folder, usual, tmp_path):
    run, _ = usual
    assert fairmargin("gate", run, "--if", "size > 100000").exit_code == 0
    succeeded(fairmargin("report", run, "--out", tmp_path / "page.html"))
    again = shutil.copytree(run, tmp_path / "again")
    second = audited(folder, again)
    assert (second["measured_shards"], second["reused_shards"]) == (0, 1)
    assert contents_of(again, "changes") == contents_of(run, "changes")


def test_exact_distances_of_a_linear_model_and_of_trees_are_compared_if_norm_and_rules_are_the_same(
    folder, usual, tmp_path
):
    run, _ = usual
    forest = {"model": "forest.joblib"}
    audited(folder, tmp_path / "forest", **forest)
    (found,) = json_of(fairmargin("compare", run, tmp_path / "forest", "--json"))
    sex = pd.read_csv(folder / "people.csv").sex
    for when, path in (("before", run), ("after", tmp_path / "forest")):
        opened = RunFolder.existing(path)
        values = opened.distances(checked(opened).results[0].shards[0]).values
        means = {row["group"]: values[sex == row["group"]].mean() for row in found["groups"]}
        assert {row["group"]: row[when] for row in found["groups"]} == pytest.approx(means)
    assert not [each for each in found["warnings"] if "estimator" in each]
    assert found["estimator"] == "exact_linear:norm=l1 before, exact_tree:norm=l1 after"
    shown = succeeded(fairmargin("compare", run, tmp_path / "forest")).stdout
    assert found["estimator"] in shown
    assert "gap" in shown

    audited(folder, tmp_path / "l2", "--norm", "l2", **forest)
    compared = refused(fairmargin("compare", run, tmp_path / "l2"))
    assert (
        "exact_linear:norm=l1 (exact distances, L1) before, exact_tree:norm=l2 (exact distances, L2) after" in compared
    )
    audited(folder, tmp_path / "brief", "--estimator", "exact_tree:boxes=1", **forest)
    compared = refused(fairmargin("compare", run, tmp_path / "brief"))
    assert "upper" in compared
    assert "only be compared if both are exact in the same norm" in compared
    (tmp_path / "rules.toml").write_text("[age]\nunit = 5\n", encoding="utf-8")
    audited(folder, tmp_path / "other", "--columns", tmp_path / "rules.toml", **forest)
    compared = refused(fairmargin("compare", run, tmp_path / "other"))
    assert "unit of column 'age' is " in compared
    assert "in the first run and 5.0 in the second" in compared
    (tmp_path / "fixed.toml").write_text("[age]\nimmutable = true\n", encoding="utf-8")
    audited(folder, tmp_path / "fixed", "--columns", tmp_path / "fixed.toml", **forest)
    compared = refused(fairmargin("compare", run, tmp_path / "fixed"))
    assert "immutable of column 'age' is False in the first run and True in the second; columns that define" in compared
    assert "units" not in compared


def test_a_run_that_lost_some_results_continues(folder, usual, tmp_path):
    run = shutil.copytree(usual[0], tmp_path / "run")
    for path in (*run.glob("results/*"), *run.glob("shards/??/*"), run / "record.json", run / "columns.toml"):
        path.unlink()
    found = audited(folder, run)
    assert found["measured_shards"] == 1
    for kind in ("audit", "changes", "columns"):
        assert contents_of(run, kind) == contents_of(usual[0], kind)
    assert (run / "columns.toml").read_bytes() == (usual[0] / "columns.toml").read_bytes()


# In Python


def test_one_call_in_python_finds_what_the_command_finds(folder, usual):
    people, model = pd.read_csv(folder / "people.csv"), joblib.load(folder / "linear.joblib")
    record = fm.audit_model(
        model,
        people.drop(columns=[LABEL]),
        people[LABEL],
        groups=people[["sex"]],
        settings=fm.AuditSettings(resamples=200),
        progress=False,
    )
    command = RunFolder(usual[0]).read()
    assert record.provenance.samples == command.provenance.samples
    assert record.provenance.domain == command.provenance.domain
    assert record.provenance.classifier == command.provenance.classifier
    for kind in ("audit", "changes", "columns"):
        assert record.select(kind=kind).to_json() == command.select(kind=kind).to_json()


# Mistakes


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (
            "[agee]\nunit = 3\n",
            "rules.toml: `columns` has a rule for 'agee', but the table has no such column. Did you",
        ),
        ("[age]\nstepp = 1\n", "rules.toml, [age]: `stepp` is unknown. Did you mean 'step'?"),
        ("[age]\nunit = -1\n", "rules.toml, [age]: `unit` must be positive; given -1"),
        ("[age]\nlow = 80\nhigh = 20\n", "rules.toml, [age]: `low` must not exceed `high`"),
        ("[age]\nlow = 200\n", "rules.toml: `columns` leaves no value for 'age'"),
        (
            '[occupation]\nvalues = ["Sale"]\n',
            "'occupation' the category 'Sale', which the data do not have. Did you mean 'Sa",
        ),
        ("[occupation]\nunit = 3\n", "rules.toml: `columns` gives `unit` for 'occupation', which holds categories"),
        ("age = 3\n", "rules.toml, [age]: Expected one table per column"),
        ("[age\n", "rules.toml is not valid TOML"),
    ],
)
def test_a_wrong_rule_is_refused_by_file_and_key(folder, tmp_path, rules, words):
    (tmp_path / "rules.toml").write_text(rules)
    sentence = refused(
        fairmargin(*table_audit(folder, "--columns", tmp_path / "rules.toml", "--out", tmp_path / "run"))
    )
    assert words in sentence
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--columns", "none.toml"), "There is no file of rules none.toml"),
        (("--immutable", "agee"), "--immutable names 'agee', but the table has no such column. Did you mean 'age'?"),
        (("--group", "age"), "Column 'age' holds 70 different numbers, too many for groups"),
        (("--group", "age", "--bins", "hours=30"), "--bins gives edges for 'hours', which is not a column of groups"),
        (("--group", "age", "--bins", "age=60,30"), "--bins must be rising numbers"),
        (("--group", "sex", "--bins", "sex=1"), "`bins` are for columns of numbers, but 'sex' holds 'Male'"),
        (("--group", "sxe"), "--group names a column that is not there"),
        (("--scale", "none"), "--scale does not go with a model that takes the rows of a table"),
        (("--mean", "0", "--std", "1"), "`mean` is for torch modules"),
        (("--label", "incme"), "--label names a column that is not there"),
        (("--features", "age,hours"), "has no column 'capital gain', which the model was trained on"),
    ],
)
def test_a_wrong_option_is_refused(folder, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    sentence = refused(fairmargin(*table_audit(folder, "--out", tmp_path / "run", *options)))
    assert words in sentence
    assert not (tmp_path / "run").exists()


def test_many_numbers_as_groups_are_refused_with_edges_to_copy(folder, tmp_path):
    sentence = refused(fairmargin(*table_audit(folder, "--group", "age", "--out", tmp_path / "run")))
    edges = sentence.partition("--bins ")[2].rstrip(".")
    succeeded(fairmargin(*table_audit(folder, "--group", "age", "--bins", edges, "--out", tmp_path / "run")))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.assign(sex=t.sex.where(t.index > 4, t.sex.str.lower())), "would be two groups. Spell them alike"),
        (lambda t: t.drop(columns="hours"), "`people.csv` has no column 'hours', which the model was trained on"),
        (lambda t: t.assign(age=t.age.astype(str).where(t.index != 7, "old")), "must hold numbers; row 7 holds 'old'"),
        (lambda t: t.assign(income=t.income.where(t.index != 3, "50K")), "holds labels that are not among the model's"),
        (lambda t: t.assign(income=t.income.where(t.index != 3)), "label 'income' is missing in 1 of 240 rows"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_with_its_column(folder, tmp_path, change, words):
    shutil.copy(folder / "linear.joblib", tmp_path)
    change(pd.read_csv(folder / "people.csv")).to_csv(tmp_path / "people.csv", index=False)
    assert words in refused(fairmargin(*table_audit(tmp_path, "--out", tmp_path / "run")))


def test_rules_are_refused_for_other_models(folder, tmp_path):
    np.savez(tmp_path / "model.npz", weight=np.ones((1, 1)), bias=np.zeros(1), classes=["<=50K", ">50K"])
    shutil.copy(folder / "people.csv", tmp_path)
    asked = table_audit(tmp_path, "--features", "age", "--out", tmp_path / "run", model="model.npz")
    assert "--immutable is for models of scikit-learn" in refused(fairmargin(*asked, "--immutable", "age"))
    assert "--examples shows nearest changes of rows" in refused(fairmargin(*asked, "--examples", "2"))
