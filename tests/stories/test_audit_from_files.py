"""`fairmargin audit` of models and data in files, and of distances measured elsewhere."""

import math
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from skl2onnx import to_onnx

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
    """Write the people and two models of them. Every test writes its runs elsewhere."""
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


def by_sex(folder, out, *options, **files):
    """Audit the people by sex; return what `--json` prints."""
    return json_of(fairmargin(*people_audit(folder, "--group", "sex", "--out", out, "--json", *options, **files)))


@pytest.fixture(scope="module")
def usual(folder, tmp_path_factory):
    """Audit the people by sex; return the run folder, which no test changes, and what `--json` prints."""
    run = tmp_path_factory.mktemp("usual") / "run"
    return run, by_sex(folder, run)


# Sources of models and distances


def test_a_linear_model_is_audited_on_a_table(usual):
    rows = audited(usual[1], "sex")
    assert list(rows) == ["F", "M"]
    assert rows["F"]["verdict"] == "less robust"
    assert rows["M"]["verdict"] == "more robust"
    assert rows["F"]["size"] + rows["M"]["size"] == len(people())


def test_an_onnx_file_needs_no_trust_and_has_the_audit_of_the_same_linear_model(folder, usual, tmp_path):
    model = to_onnx(fitted(folder / "people.csv"), np.zeros((1, len(FEATURES)), dtype=np.float32))
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    found = audited(by_sex(folder, tmp_path / "run", model="model.onnx"), "sex")
    for group, row in audited(usual[1], "sex").items():
        assert found[group]["verdict"] == row["verdict"]
        assert found[group]["sigma"]["value"] == pytest.approx(row["sigma"]["value"], rel=1e-4)


@pytest.mark.parametrize("name", ["table.parquet", "table.csv"])
def test_distances_measured_elsewhere_are_audited(tmp_path, name):
    table = write_distances(tmp_path / name)
    options = ["--bound", "lower", "--norm", "linf", "--group", "sex", "--group", "site", *QUICK]
    found = json_of(fairmargin("audit", "--distances", table, *options, "--out", tmp_path / "run", "--json"))
    rows, measured = audited(found, "sex", "measured elsewhere"), distances()
    for sex in ("F", "M"):
        assert rows[sex]["robustness"]["value"] == pytest.approx(measured.distance[measured.sex == sex].mean())
        assert rows[sex]["accuracy"]["value"] == pytest.approx(measured.correct[measured.sex == sex].mean())
    assert list(audited(found, "site", "measured elsewhere")) == ["1", "2", "3"]
    assert {(a["bound"], a["norm"]) for a in found["audits"]} == {("lower", "linf")}


def test_shares_at_chosen_radii_and_curves_are_printed_written_and_checked(tmp_path):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.gamma(2, 0.5, 300), rng.gamma(9, 1 / 9, 300)])  # of the same mean
    table = pd.DataFrame({"distance": values, "correct": True, "sex": np.repeat(["F", "M"], 300)})
    table.to_csv(tmp_path / "table.csv", index=False)
    about = ["--distances", tmp_path / "table.csv", "--bound", "exact", "--norm", "l2", "--group", "sex", *QUICK]
    printed = succeeded(fairmargin("audit", *about, "--radii", "2,0.5", "--out", tmp_path / "run")).stdout
    assert "do not differ significantly, but their curves do" in printed
    assert (
        "At the chosen radii: at 0.5 fewer samples of “F” and more samples of “M” withstand than of the rest" in printed
    )
    row = pd.read_csv(tmp_path / "run/audit.csv").iloc[0]
    own, rest = (np.mean(side > 0.5) for side in (values[:300], values[300:]))
    assert row["difference_at_0.5"] == pytest.approx(own - rest)
    assert "Curves by sex" in (tmp_path / "run/report.html").read_text(encoding="utf-8")
    # The gate computes everything again, and reads the new columns.
    assert fairmargin("gate", tmp_path / "run", "--if", "p_curves_adjusted < 0.05").exit_code == 1
    precise = fairmargin("audit", *about, "--radii", "1", "--precision", "0.1", "--out", tmp_path / "other")
    assert refused(precise).startswith("--radii are for the curves of all samples, and --precision measures some")


def test_the_report_names_what_was_assumed_about_distances(tmp_path):
    table = write_distances(tmp_path / "table.csv")
    succeeded(fairmargin("audit", "--distances", table, "--group", "sex", *QUICK, "--out", tmp_path / "run"))
    assert "assumed to be upper bounds" in (tmp_path / "run/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["model", "make"])
def test_a_model_from_a_python_file_has_the_same_audit(folder, usual, tmp_path, name):
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
    (tmp_path / "rules.toml").write_text("".join(f"[{name}]\nlow = -inf\nhigh = inf\n" for name in FEATURES))
    rules = ("--columns", tmp_path / "rules.toml")  # the weights of a file say nothing about ranges
    arguments = people_audit(folder, "--group", "sex", *rules, "--out", tmp_path / "run", "--json")
    arguments[arguments.index("--model") + 1] = f"{tmp_path / 'train.py'}:{name}"
    for sex, row in audited(json_of(fairmargin(*arguments)), "sex").items():
        assert row["robustness"]["value"] == pytest.approx(audited(usual[1], "sex")[sex]["robustness"]["value"])


def test_images_with_bounds_are_farther_from_the_boundary_than_without(tmp_path):
    data, model = write_images(tmp_path)
    values = {}
    for bounds in ("0,1", "-9,9", "0,inf"):
        options = ["--bounds", bounds, "--group", "camera", *QUICK, "--out", tmp_path / f"run {bounds}", "--json"]
        found = json_of(fairmargin("audit", "--model", model, "--data", data, *options))
        values[bounds] = [row["robustness"]["value"] for row in audited(found, "camera").values()]
    # The difference is small: few images reach a bound before they reach the boundary.
    assert all(np.array(values["0,1"]) > values["-9,9"])


def test_without_a_group_the_classes_are_compared(tmp_path):
    data, model = write_images(tmp_path)
    found = json_of(fairmargin("audit", "--model", model, "--data", data, *QUICK, "--out", tmp_path / "run", "--json"))
    assert list(audited(found, "class")) == ["0", "1", "2", "3"]


# Groups


def test_several_groups_crossings_and_estimators_in_one_run(folder, tmp_path):
    options = ["--group", "sex", "--group", "race", "--cross", "race,sex", "--control", LABEL, "--cluster", "person"]
    both = ["--estimator", "exact_linear:norm=l2", "--estimator", "exact_linear:norm=linf"]
    found = json_of(fairmargin(*people_audit(folder, *options, *both, "--out", tmp_path / "run", "--json")))
    expected = [(e, p) for e in both[1::2] for p in ("sex", "race", "race & sex")]
    assert [(a["estimator"], a["partition"]) for a in found["audits"]] == expected
    assert {a["control"] for a in found["audits"]} == {LABEL}
    assert all(a["clustered"] for a in found["audits"])
    assert {a["norm"] for a in found["audits"]} == {"l2", "linf"}
    assert set(audited(found, "race & sex", both[1])) == {
        f"race={race} & sex={sex}" for race in ("Black", "Other", "White") for sex in ("F", "M")
    }


def test_a_column_named_class_takes_precedence_over_the_classes(tmp_path):
    table = people().rename(columns={"race": "class"})
    write_people(tmp_path / "people.csv", table)
    write_model(tmp_path / "model.npz", tmp_path / "people.csv")
    found = json_of(fairmargin(*people_audit(tmp_path, "--group", "class", "--out", tmp_path / "run", "--json")))
    assert list(audited(found, "class")) == ["Black", "Other", "White"]


# Output


def test_json_alone_is_printed_and_its_numbers_are_finite_or_null(folder, tmp_path):
    table = people()
    table.loc[0, "sex"] = "X"  # a group of one sample has no interval and no p
    write_people(tmp_path / "people.csv", table)
    arguments = people_audit(folder, "--group", "sex", "--out", tmp_path / "run", "--json")
    arguments[arguments.index("--data") + 1] = tmp_path / "people.csv"
    result = fairmargin(*arguments)
    found = json_of(result)
    assert result.stderr == ""
    rows = audited(found, "sex")
    assert set(rows) == {"F", "M", "X"}
    assert all(math.isfinite(number) for number in numbers_in(found))
    assert rows["X"]["p"] == {"undefined": "it has 1 sample; a reliable interval needs 30, a verdict 50"}
    assert rows["X"]["sigma"]["low"] is None
    assert rows["X"]["verdict"] == "too few samples"
    assert {row["verdict"] for row in rows.values()} <= set(VERDICTS)
    assert found["run"] == str(tmp_path / "run")
    assert Path(found["report"]).is_file()


def test_a_table_and_the_path_of_the_report_are_printed(folder, tmp_path):
    result = succeeded(fairmargin(*people_audit(folder, "--group", "sex", "--out", tmp_path / "run")))
    lines = result.stdout.splitlines()
    assert lines[0].startswith("By sex: exact_linear · exact distances · L2 norm · 360 samples in 2 groups")
    assert any(line.split()[:1] == ["F"] and "less robust" in line for line in lines)
    assert f"Report: {tmp_path / 'run/report.html'}" in lines
    assert result.stderr == ""


# The run folder


def test_the_run_folder_contains_record_samples_table_and_report(folder, tmp_path, monkeypatch):
    run = tmp_path / "run"
    typed = [*map(str, people_audit(folder, "--group", "sex", "--cross", "race,sex", "--out", run, "--quiet"))]
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/fairmargin", *typed])  # as started by a shell
    assert succeeded(fairmargin(*typed)).output == ""
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


def test_a_second_run_measures_nothing_and_other_settings_reuse_distances(folder, usual, tmp_path):
    run = shutil.copytree(usual[0], tmp_path / "run")
    again = by_sex(folder, run)
    assert (usual[1]["measured_shards"], usual[1]["reused_shards"]) == (1, 0)
    assert (again["measured_shards"], again["reused_shards"]) == (0, 1)
    assert contents_of(run) == contents_of(usual[0])
    found = json_of(fairmargin(*people_audit(folder, "--group", "race", "--confidence", 0.9, "--out", run, "--json")))
    assert (found["measured_shards"], found["reused_shards"]) == (0, 1)
    assert [a["partition"] for a in found["audits"]] == ["race"]
    found = by_sex(folder, run, "--estimator", "exact_linear", "--estimator", "exact_linear:norm=l1")
    assert (found["measured_shards"], found["reused_shards"]) == (1, 1)


def test_another_model_in_the_same_folder_is_refused(folder, usual):
    content = contents_of(usual[0])
    sentence = refused(fairmargin(*people_audit(folder, "--group", "sex", "--out", usual[0], model="other.npz")))
    assert "holds another run" in sentence
    assert "other.npz" in sentence
    assert "Choose another --out" in sentence
    assert contents_of(usual[0]) == content


def test_a_model_file_that_changed_is_measured_again(folder, tmp_path):
    write_people(tmp_path / "people.csv")
    for strength in (1.0, 0.001):
        write_model(tmp_path / "model.npz", tmp_path / "people.csv", strength=strength)
        found = by_sex(tmp_path, tmp_path / "run")
        assert found["measured_shards"] == 1
