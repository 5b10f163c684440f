"""Every kind of run: `report`, `gate` and `--json` work and agree with each other."""

import json
import re

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from tests.report.test_page import Page
from tests.stories.examples import QUICK, fairmargin, json_of, refused, succeeded

NETWORK = """
import torch


def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
"""
HOSTILE = "<b>M</b>"

KINDS = {
    "exact": ("audit", "model.npz", (), {"audits"}),
    "adequacy": ("audit", "model.npz", ("--estimator", "deepfool:steps=8", "--adequacy"), {"audits", "adequacy"}),
    "attack": ("attack", "model.npz", ("--attack", "fgsm", "--radius", "0.3"), {"robust_accuracy"}),
    "precision": ("audit", "model.npz", ("--estimator", "deepfool:steps=8", "--precision", "0.3"), {"precision"}),
    "bracket": (
        "audit",
        "net.py:make",
        ("--estimator", "verified", "--estimator", "fmn:steps=10"),
        {"audits", "brackets"},
    ),
    "certified": ("audit", "net.py:make", ("--estimator", "smoothing:draws=50"), {"audits", "certificates"}),
    "table": ("audit", "tree.joblib", ("--trust-model", "--examples", "2"), {"audits", "changes"}),
    "study": ("run", "", ("study.toml",), {"audits", "robust_accuracy"}),
    "imported": ("audit", "", ("--distances", "distances.csv", "--bound", "upper", "--norm", "l2"), {"audits"}),
}
GATES = {"attack": "robust_accuracy_low < 2", "precision": "size > 0"}
"""Conditions that every group meets, where that is not the usual one on σ."""

STUDY = """
seeds = [0]
[data.people]
data = "people.csv"
audit_on = "tested.csv"
label = "linear"
features = ["a", "b", "c"]
group = "sex"
[model.logistic]
[model.given]
model = "model.npz"
fixed = true
[train.erm]
epochs = 2
[audit]
resamples = 200
[audit.exact_linear]
[attack.fgsm]
radius = 0.3
resamples = 200
"""

every_kind = pytest.mark.parametrize("kind", KINDS)
every_kind_of_one_model = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "study"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write samples, two models of them, and distances of one model."""
    path = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    x, sex = rng.normal(size=(120, 3)), np.where(np.arange(120) % 2 == 0, "F", HOSTILE)
    x[sex == "F"] *= 0.5
    (path / "net.py").write_text(NETWORK, encoding="utf-8")
    names: dict[str, object] = {}
    exec(compile(NETWORK, "net.py", "exec"), names)
    import torch

    y = names["make"]()(torch.tensor(x, dtype=torch.float32)).argmax(1).numpy()  # type: ignore[operator]
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame = frame.assign(net=y, linear=(x @ [1, 2, -1] > 0).astype(int), sex=sex)
    for name in ("people", "tested"):
        frame.to_csv(path / f"{name}.csv", index=False)
    joblib.dump(DecisionTreeClassifier(max_depth=4).fit(frame[["a", "b", "c"]], frame["linear"]), path / "tree.joblib")
    (path / "study.toml").write_text(STUDY, encoding="utf-8")
    np.savez(path / "model.npz", weight=np.array([[0.0, 0, 0], [1, 2, -1]]), bias=np.zeros(2))
    values = rng.gamma(4, 1.0, 120)
    pd.DataFrame({"distance": values, "correct": True, "sex": sex}).to_csv(path / "distances.csv", index=False)
    return path


@pytest.fixture(scope="module")
def runs(folder):
    """Return a function that makes the run of a kind once, and returns its folder and what `--json` printed."""
    made: dict[str, tuple[object, dict[str, object]]] = {}

    def run_of(kind):
        if kind not in made:
            command, model, options, _ = KINDS[kind]
            source = [folder / each if str(each).endswith((".csv", ".toml")) else each for each in options]
            if model:
                label = "net" if model.startswith("net") else "linear"
                data = ("--data", folder / "people.csv", "--label", label, "--features", "a,b,c")
                source = ["--model", folder / model, *data, *source]
            out = folder / kind
            quick = () if kind in ("precision", "study") else QUICK
            groups = () if kind == "study" else ("--group", "sex")
            made[kind] = out, json_of(fairmargin(command, *source, *groups, *quick, "--out", out, "--json"))
        return made[kind]

    return run_of


@every_kind
def test_json_holds_every_result_with_its_sentences(kind, runs):
    _, content = runs(kind)
    keys = KINDS[kind][3]
    assert keys <= set(content)
    for key in keys:
        for result in content[key]:
            assert result["partition"] == "sex"
            assert result["sentences"]
            assert {row["group"] for row in result["groups"]} == {"F", HOSTILE}
            assert all(row["finding"].startswith(tuple(result["sentences"])) for row in result["groups"])
            assert not {"curve", "distances"} & set(result["groups"][0])


@every_kind
def test_report_writes_the_same_page_and_json_again(kind, runs, tmp_path):
    out, content = runs(kind)
    page = (out / "report.html").read_text(encoding="utf-8")
    again = json_of(fairmargin("report", out, "--out", tmp_path / "page.html", "--json"))
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    for key in (*KINDS[kind][3], "notes"):
        assert again[key] == content[key]


@every_kind
def test_the_page_never_shows_nan_or_markup_of_names(kind, runs):
    page = Page((runs(kind)[0] / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert not {tag for tag, _ in page.tags} & {"b"}
    assert not re.search(r"\b(nan|None)\b", page.text)
    assert "fairmargin" in page.text


@every_kind_of_one_model
def test_the_page_shows_every_result(kind, runs):
    out, content = runs(kind)
    page = Page((out / "report.html").read_text(encoding="utf-8"))
    for key in KINDS[kind][3]:
        for result in content[key]:
            for sentence in result["sentences"]:
                assert " ".join(sentence.split()) in page.text


def test_the_page_of_a_study_shows_every_group_model_and_measurement(runs, tmp_path):
    out, content = runs("study")
    page = Page((out / "report.html").read_text(encoding="utf-8"))
    shown = succeeded(fairmargin("report", out, "--out", tmp_path / "page.html")).stdout
    results = content["audits"] + content["robust_accuracy"]
    assert {(each["model"], each["method"]) for each in results} == {("logistic", "erm"), ("given", "as given")}
    for text in ("logistic", "given", "exact_linear", "fgsm at radius 0.3", "F", HOSTILE):
        assert text in page.text
        assert text in shown


@every_kind_of_one_model
def test_report_prints_every_verdict(kind, runs, tmp_path):
    out, content = runs(kind)
    text = succeeded(fairmargin("report", out, "--out", tmp_path / "page.html")).stdout
    for key in KINDS[kind][3]:
        for row in (row for result in content[key] for row in result["groups"] if "verdict" in row):
            assert re.search(rf"^ {re.escape(row['group'])} +{row['verdict']}", text, re.MULTILINE), row["verdict"]


@every_kind
def test_gate_passes_and_fails_by_the_numbers_of_the_json(kind, runs):
    out, content = runs(kind)
    first = next(key for key in ("audits", "precision", "robust_accuracy") if key in content)
    rows = len(content[first][0]["groups"]) * len(content[first])
    always = GATES.get(kind, "sigma_low < 100")
    failed = fairmargin("gate", out, "--if", always, "--json")
    assert failed.exit_code == 1
    assert len(json.loads(failed.stdout)["matching"]) == rows
    assert json_of(fairmargin("gate", out, "--if", "size > 1000000", "--json"))["checked"] == rows
    assert "has no partition 'race'" in refused(fairmargin("gate", out, "--if", always, "--group", "race"))
