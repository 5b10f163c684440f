"""An engineer has a model and a file, and wants to know: one command, or five lines of Python."""

import json
import math
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from skl2onnx import to_onnx

import fairmargin as fm
from fairmargin.inference.estimate import VERDICTS
from tests.stories.examples import (
    FEATURES,
    LABEL,
    QUICK,
    contents_of,
    distances,
    fairmargin,
    fitted,
    json_of,
    people,
    people_audit,
    record_of,
    refused,
    results_of,
    succeeded,
    write_distances,
    write_images,
    write_model,
    write_people,
)

RUN_FOLDER = {
    *("record.json", "samples.parquet", "audit.csv", "report.html"),
    *("checksums.json", "store.json"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People and a model of them. Every test writes its runs elsewhere."""
    path = tmp_path_factory.mktemp("people")
    write_people(path / "people.csv")
    write_model(path / "model.npz", path / "people.csv")
    write_model(path / "other.npz", path / "people.csv", strength=0.01)
    return path


def numbers_in(value):
    match value:
        case dict():
            for part in value.values():
                yield from numbers_in(part)
        case list():
            for part in value:
                yield from numbers_in(part)
        case float():
            yield value


def audited(found, partition, estimator="exact_linear"):
    (audit,) = [a for a in found["audits"] if (a["partition"], a["estimator"]) == (partition, estimator)]
    return {row["group"]: row for row in audit["groups"]}


# The sources


def test_a_table_and_a_model_of_weights(folder, tmp_path):
    found = json_of(fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "run", "--json")))
    rows = audited(found, "sex")
    assert list(rows) == ["F", "M"]
    assert rows["F"]["verdict"] == "less robust"
    assert rows["M"]["verdict"] == "more robust"
    assert rows["F"]["size"] + rows["M"]["size"] == len(people())


def test_the_same_model_from_an_onnx_file_needs_no_trust_and_has_the_same_audit(folder, tmp_path):
    model = to_onnx(fitted(folder / "people.csv"), np.zeros((1, len(FEATURES)), dtype=np.float32))
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    expected, found = (
        audited(
            json_of(
                fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / name, "--json", model=name))
            ),
            "sex",
        )
        for name in ("model.npz", "model.onnx")
    )
    assert {group: row["verdict"] for group, row in found.items()} == {"F": "less robust", "M": "more robust"}
    for group, row in expected.items():
        assert found[group]["sigma"]["value"] == pytest.approx(row["sigma"]["value"], rel=1e-4)


@pytest.mark.parametrize("name", ["table.parquet", "table.csv"])
def test_distances_that_were_measured_elsewhere(tmp_path, name):
    table = write_distances(tmp_path / name)
    options = ["--bound", "lower", "--norm", "linf", "--group", "sex", "--group", "site", *QUICK]
    found = json_of(fairmargin("audit", "--distances", table, *options, "--out", tmp_path / "run", "--json"))
    rows, measured = audited(found, "sex", "measured elsewhere"), distances()
    for sex in ("F", "M"):
        assert rows[sex]["robustness"]["value"] == pytest.approx(measured.distance[measured.sex == sex].mean())
        assert rows[sex]["accuracy"]["value"] == pytest.approx(measured.correct[measured.sex == sex].mean())
    assert list(audited(found, "site", "measured elsewhere")) == ["1", "2", "3"]
    assert {(a["bound"], a["norm"]) for a in found["audits"]} == {("lower", "linf")}


def test_what_was_assumed_about_distances_is_said_in_the_report(tmp_path):
    table = write_distances(tmp_path / "table.csv")
    succeeded(fairmargin("audit", "--distances", table, "--group", "sex", *QUICK, "--out", tmp_path / "run"))
    assert "assumed to be upper bounds" in (tmp_path / "run/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["model", "make"])
def test_a_model_from_a_file_of_python(folder, tmp_path, name):
    code = (
        "import numpy as np\n"
        "from sklearn.linear_model import LogisticRegression\n"
        f"archive = np.load({str(folder / 'model.npz')!r})\n"
        "model = LogisticRegression()\n"
        "model.coef_ = archive['weight'][1:] - archive['weight'][:1]\n"
        "model.intercept_ = archive['bias'][1:] - archive['bias'][:1]\n"
        "model.classes_ = archive['classes']\n"
        "def make():\n    return model\n"
    )
    (tmp_path / "train.py").write_text(code)
    usual = json_of(fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "usual", "--json")))
    arguments = people_audit(folder, "--group", "sex", "--out", tmp_path / "run", "--json")
    arguments[arguments.index("--model") + 1] = f"{tmp_path / 'train.py'}:{name}"
    found = json_of(fairmargin(*arguments))
    for sex, row in audited(found, "sex").items():
        assert row["robustness"]["value"] == pytest.approx(audited(usual, "sex")[sex]["robustness"]["value"])


def test_images_with_bounds_are_farther_from_the_boundary_than_without(tmp_path):
    data, model = write_images(tmp_path)
    values = {}
    for bounds in ("0,1", "-9,9"):
        options = ["--bounds", bounds, "--group", "camera", *QUICK, "--out", tmp_path / f"run {bounds}", "--json"]
        found = json_of(fairmargin("audit", "--model", model, "--data", data, *options))
        values[bounds] = [row["robustness"]["value"] for row in audited(found, "camera").values()]
    # Not by as much as a tenth: few images reach a limit before they reach the boundary.
    assert all(np.array(values["0,1"]) > values["-9,9"])


def test_without_a_group_the_classes_are_compared(tmp_path):
    data, model = write_images(tmp_path)
    found = json_of(fairmargin("audit", "--model", model, "--data", data, *QUICK, "--out", tmp_path / "run", "--json"))
    assert list(audited(found, "class")) == ["0", "1", "2", "3"]


def test_a_bound_may_be_infinite(tmp_path):
    data, model = write_images(tmp_path)
    options = ["--bounds", "0,inf", "--group", "camera", *QUICK, "--out", tmp_path / "run"]
    succeeded(fairmargin("audit", "--model", model, "--data", data, *options))


# The comparisons


def test_several_groups_crossings_and_estimators_in_one_run(folder, tmp_path):
    options = ["--group", "sex", "--group", "race", "--cross", "race,sex", "--control", LABEL, "--cluster", "person"]
    both = ["--estimator", "exact_linear:norm=l2", "--estimator", "exact_linear:norm=linf"]
    found = json_of(fairmargin(*people_audit(folder, *options, *both, "--out", tmp_path / "run", "--json")))
    asked = [(e, p) for e in both[1::2] for p in ("sex", "race", "race & sex")]
    assert [(a["estimator"], a["partition"]) for a in found["audits"]] == asked
    assert {a["control"] for a in found["audits"]} == {LABEL}
    assert all(a["clustered"] for a in found["audits"])
    assert {a["norm"] for a in found["audits"]} == {"l2", "linf"}
    assert set(audited(found, "race & sex", both[1])) == {
        f"race={race} & sex={sex}" for race in ("Black", "Other", "White") for sex in ("F", "M")
    }


def test_small_groups_are_merged_into_other(folder, tmp_path):
    small = people().race.value_counts()["Other"]
    options = ["--group", "race", "--merge-below", small + 1]
    found = json_of(fairmargin(*people_audit(folder, *options, "--out", tmp_path / "run", "--json")))
    assert {group: row["size"] for group, row in audited(found, "race").items()}["other"] == small


def test_clusters_make_intervals_wider_where_samples_of_a_person_are_copies(folder, tmp_path):
    table = people()
    table.loc[1::2, [*FEATURES, LABEL]] = table.loc[0::2, [*FEATURES, LABEL]].to_numpy()
    write_people(tmp_path / "people.csv", table)
    write_model(tmp_path / "model.npz", tmp_path / "people.csv")
    widths = []
    for name, options in (("alone", []), ("clustered", ["--cluster", "person"])):
        found = json_of(
            fairmargin(*people_audit(tmp_path, "--group", "sex", *options, "--out", tmp_path / name, "--json"))
        )
        row = audited(found, "sex")["F"]["robustness"]
        widths.append(row["high"] - row["low"])
    assert widths[1] / widths[0] == pytest.approx(math.sqrt(2), rel=0.15)


def test_a_control_removes_a_gap_that_only_the_mix_of_classes_made(tmp_path):
    rng = np.random.default_rng(5)
    stratum = np.repeat(["easy", "hard"], 400)
    sex = np.where(rng.random(800) < np.where(stratum == "easy", 0.8, 0.2), "F", "M")
    value = rng.gamma(4, np.where(stratum == "easy", 1.0, 0.3))
    table = write_distances(tmp_path / "t.csv", pd.DataFrame({"distance": value, "sex": sex, "kind": stratum}))
    verdicts = {}
    for control in ("", "kind"):
        options = ["--group", "sex", "--control", control, *QUICK, "--out", tmp_path / f"run {control}", "--json"]
        found = json_of(fairmargin("audit", "--distances", table, *options))
        verdicts[control] = audited(found, "sex", "measured elsewhere")["F"]["verdict"]
    assert verdicts == {"": "more robust", "kind": "no significant difference"}


def test_a_column_that_is_named_class_groups_by_that_column(tmp_path):
    table = people().rename(columns={"race": "class"})
    write_people(tmp_path / "people.csv", table)
    write_model(tmp_path / "model.npz", tmp_path / "people.csv")
    found = json_of(fairmargin(*people_audit(tmp_path, "--group", "class", "--out", tmp_path / "run", "--json")))
    assert list(audited(found, "class")) == ["Black", "Other", "White"]


# What is printed


def test_json_is_all_that_is_printed_and_holds_every_group_with_finite_numbers_or_null(folder, tmp_path):
    table = people()
    table.loc[0, "sex"] = "X"  # a group of one: no interval, no p
    write_people(tmp_path / "people.csv", table)
    arguments = people_audit(folder, "--group", "sex", "--out", tmp_path / "run", "--json")
    arguments[arguments.index("--data") + 1] = tmp_path / "people.csv"
    result = fairmargin(*arguments)
    found = json_of(result)
    assert result.stderr == ""
    rows = audited(found, "sex")
    assert set(rows) == {"F", "M", "X"}
    assert all(math.isfinite(number) for number in numbers_in(found))
    assert rows["X"]["p"] is None
    assert rows["X"]["sigma"]["low"] is None
    assert rows["X"]["verdict"] == "too few samples"
    assert {row["verdict"] for row in rows.values()} <= set(VERDICTS)
    assert found["run"] == str(tmp_path / "run")
    assert Path(found["report"]).is_file()


def test_quiet_prints_nothing(folder, tmp_path):
    result = succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "run", "--quiet")))
    assert result.output == ""
    assert (tmp_path / "run/report.html").is_file()


def test_otherwise_a_table_and_the_place_of_the_report_are_printed(folder, tmp_path):
    result = succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "run")))
    lines = result.stdout.splitlines()
    assert lines[0].startswith("By sex: exact_linear · exact distances · L2 norm · 360 samples in 2 groups")
    assert any(line.split()[:1] == ["F"] and "less robust" in line for line in lines)
    assert f"Report: {tmp_path / 'run/report.html'}" in lines


def test_standard_error_is_empty_when_all_went_well_and_nobody_watches(folder, tmp_path):
    result = succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "run")))
    assert result.stderr == ""


# The run folder


def test_the_run_folder_holds_all_that_the_run_was(folder, tmp_path, monkeypatch):
    run = tmp_path / "run"
    typed = [*map(str, people_audit(folder, "--group", "sex", "--cross", "race,sex", "--out", run, "--quiet"))]
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/fairmargin", *typed])  # what a shell would have left there
    succeeded(fairmargin(*typed))
    assert {path.name for path in run.iterdir() if path.is_file()} - {".lock"} == RUN_FOLDER
    record = record_of(run)
    assert record["status"] == "finished"
    assert record["study"]["groups"] == {"group": ["sex"], "cross": [["race", "sex"]]}
    shards = {path.stem for path in run.glob("shards/??/*.parquet")}
    assert {key for stored in record["results"] for keys in stored["shards"] for key in keys} == shards
    assert {path.stem for path in run.glob("results/*")} == {stored["key"] for stored in record["results"]}
    manifest = record["provenance"]
    assert shlex.split(manifest["command"]) == ["fairmargin", *typed]
    assert {"fairmargin", "python", "numpy"} <= set(manifest["versions"])
    assert "360 samples" in manifest["data"]
    samples = pd.read_parquet(run / "samples.parquet")
    assert samples.sex.tolist() == people().sex.tolist()
    table = pd.read_csv(run / "audit.csv")
    assert table.groupby("partition").size().to_dict() == {
        result["partition"]: len(result["groups"]) for result in results_of(run)
    }
    page = (run / "report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "race=Other &amp; sex=F" in page


def test_running_again_measures_nothing_and_finds_the_same(folder, tmp_path):
    arguments = people_audit(folder, "--group", "sex", "--out", tmp_path / "run", "--json")
    first = json_of(fairmargin(*arguments))
    content = contents_of(tmp_path / "run")
    second = json_of(fairmargin(*arguments))
    assert (first["measured_shards"], first["reused_shards"]) == (1, 0)
    assert (second["measured_shards"], second["reused_shards"]) == (0, 1)
    assert contents_of(tmp_path / "run") == content


def test_other_groups_settings_and_estimators_reuse_what_was_measured(folder, tmp_path):
    run = tmp_path / "run"
    json_of(fairmargin(*people_audit(folder, "--group", "sex", "--out", run, "--json")))
    found = json_of(fairmargin(*people_audit(folder, "--group", "race", "--confidence", 0.9, "--out", run, "--json")))
    assert (found["measured_shards"], found["reused_shards"]) == (0, 1)
    assert [a["partition"] for a in found["audits"]] == ["race"]
    both = ["--estimator", "exact_linear", "--estimator", "exact_linear:norm=l1"]
    found = json_of(fairmargin(*people_audit(folder, "--group", "race", *both, "--out", run, "--json")))
    assert (found["measured_shards"], found["reused_shards"]) == (1, 1)


def test_another_model_in_the_same_folder_is_refused(folder, tmp_path):
    succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "run")))
    content = contents_of(tmp_path / "run")
    sentence = refused(
        fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "run", model="other.npz"))
    )
    assert "holds another run" in sentence
    assert "other.npz" in sentence
    assert "Choose another --out" in sentence
    assert contents_of(tmp_path / "run") == content


def test_a_model_that_changed_in_its_file_is_measured_anew(folder, tmp_path):
    write_people(tmp_path / "people.csv")
    write_model(tmp_path / "model.npz", tmp_path / "people.csv")
    arguments = people_audit(tmp_path, "--group", "sex", "--out", tmp_path / "run", "--json")
    first = json_of(fairmargin(*arguments))
    write_model(tmp_path / "model.npz", tmp_path / "people.csv", strength=0.001)
    second = json_of(fairmargin(*arguments))
    assert second["measured_shards"] == 1
    assert audited(first, "sex")["F"]["robustness"] != audited(second, "sex")["F"]["robustness"]


def test_the_report_can_be_written_again_elsewhere(folder, tmp_path):
    succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "run", "--quiet")))
    target = tmp_path / "again.html"
    found = json_of(fairmargin("report", tmp_path / "run", "--out", target, "--json"))
    assert found["report"] == str(target)
    assert target.read_bytes() == (tmp_path / "run/report.html").read_bytes()


# The same in Python


def test_five_lines_of_python_find_what_the_command_finds(folder, tmp_path):
    people_data = fm.load(folder / "people.csv", label=LABEL, features=FEATURES, attributes=["sex"])
    model = fm.as_classifier(fitted(folder / "people.csv"), domain=people_data.domain)
    measured = fm.measure(model, people_data.x, people_data.y, fm.ESTIMATORS["exact_linear"]())
    result = fm.audit(measured, fm.Partition.by("sex", people_data.attributes["sex"]), fm.AuditSettings(resamples=200))
    fm.write_report(tmp_path / "report.html", result)

    succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "run", "--quiet")))
    (stored,) = results_of(tmp_path / "run")
    assert stored == json.loads(result.to_json())
    assert "less robust" in (tmp_path / "report.html").read_text(encoding="utf-8")
