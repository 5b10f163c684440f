"""`fairmargin run`: from a study file to one table and one page; plans of all commands."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.stories.examples import fairmargin, json_of, refused, succeeded
from tests.stories.waiting import check_page

GUIDE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
STUDY = """
title = "Digits"
seeds = [0, 1]

[train]
epochs = 2
batch = 32
optimizer = "adam"

[data.digits]
per_group = 20
by = "class"
audit_per_group = 13
group = ["ink"]

[model.small_cnn]

[train.erm]

[audit]
resamples = 200

[audit.first_order]
audit_epochs = ["first", "last"]

[audit.carlini_wagner]
estimator = "carlini_wagner:steps=20,searches=2"

[attack.pgd]
attack = "pgd:steps=3"
radius = ["16/255"]
resamples = 200
"""
TABLES = ("results.csv", "audit.csv", "robust_accuracy.csv", "training.csv")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Carry out the study; return its run folder."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    done = succeeded(fairmargin("run", folder / "study.toml", "--out", folder / "run"))
    assert "2 networks were trained now." in done.stdout
    assert "there already" not in done.stdout
    return folder / "run"


def network_of(run: Path) -> tuple[object, ...]:
    """Return the options that name a network which the study trained, and its data."""
    weights = next(run.glob("trainings/*/model.safetensors"))
    return ("--model", "arch:small_cnn", "--weights", weights, "--data", "digits")


def test_a_second_run_reads_the_table_of_the_first(whole: Path, study: Path) -> None:
    before = (whole / "results.csv").read_bytes()
    done = succeeded(fairmargin("run", study, "--out", whole))
    assert "16 shards were there already; 0 were measured now." in done.stdout
    assert "trained now" not in done.stdout
    assert f"Table: {whole / 'results.csv'}" in done.stdout
    assert f"Report: {whole / 'report.html'}" in done.stdout
    assert "All networks: 2 networks" in done.stdout
    assert (whole / "results.csv").read_bytes() == before
    table = pd.read_csv(whole / "results.csv")
    assert set(table.by) == {"first_order", "carlini_wagner:steps=20,searches=2", "pgd:steps=3"}
    assert table.groupby(["seed", "by", "epoch", "radius"], dropna=False).size().tolist() == [3] * 8
    assert succeeded(fairmargin("run", study, "--out", whole, "--quiet")).stdout == ""


def test_power_has_rows_for_every_network(whole: Path) -> None:
    rows = json_of(fairmargin("power", whole, "--sigma", -0.3, "--json"))
    assert len(rows) == 2 * 3 * 3
    assert {(row["seed"], row["epoch"]) for row in rows} == {(s, e) for s in (0, 1) for e in ("1 (first)", "2 (last)")}
    shown = " ".join(succeeded(fairmargin("power", whole)).stdout.split())
    assert "digits · small_cnn · erm · first_order · seed 0 · epoch 1 (first)" in shown


def test_gate_names_the_network(whole: Path) -> None:
    done = fairmargin("gate", whole, "--if", "seed == 1 and epoch == '1 (first)' and size > 0")
    assert done.exit_code == 1
    said = [line for line in done.stdout.splitlines() if line.startswith("fails")]
    assert len(said) == 3
    assert all("(digits, small_cnn, erm, seed 1, first_order, epoch 1 (first))" in line for line in said)
    assert succeeded(fairmargin("gate", whole, "--if", "method == 'erm' and size > 1000"))


def test_commands_that_need_a_single_model_refuse_a_study(whole: Path, tmp_path: Path) -> None:
    assert "holds a study of several models" in refused(fairmargin("compare", whole, whole))
    said = refused(fairmargin("audit", "--distances", whole, "--group", "ink", "--out", tmp_path / "run"))
    assert "holds a study of several models" in said
    said = refused(fairmargin("audit", *network_of(whole), "--out", whole, "--group", "ink"))
    assert "holds another run: it differs in what is measured (several models, now one model)" in said


def test_a_plan_lists_trainings_and_measurements_and_writes_nothing(study: Path, tmp_path: Path) -> None:
    planned = json_of(fairmargin("run", study, "--plan", "--out", tmp_path / "run", "--json"))
    assert list(planned) == ["trainings", "measurements", "seconds_left", "notes"]
    assert [each["name"] for each in planned["trainings"]] == [
        f"digits, small_cnn, erm, seed {seed}: training" for seed in (0, 1)
    ]
    assert [each["name"] for each in planned["measurements"]] == [
        f"digits, small_cnn, erm, seed {seed}: {what}"
        for seed in (0, 1)
        for what in (
            "first_order, epoch first",
            "first_order, epoch last",
            "carlini_wagner:steps=20,searches=2, epoch last",
            "pgd:steps=3 at 0.06275, epoch last",
        )
    ]
    assert [each["parts"] for each in planned["trainings"]] == [2, 2]
    assert {each["samples"] for each in planned["measurements"]} == {130}
    assert not any(each["done"] for kind in ("trainings", "measurements") for each in planned[kind])
    assert planned["seconds_left"] >= 0
    shown = succeeded(fairmargin("run", study, "--plan", "--out", tmp_path / "run")).stdout
    assert "2 trainings, 8 measurements; 0 of 10 done already." in shown
    assert "estimated from a trial on a few samples" in shown
    for each in (*planned["trainings"], *planned["measurements"]):
        assert each["name"] in shown
    assert succeeded(fairmargin("run", study, "--plan", "--quiet")).stdout.count("\n") <= 2
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_a_plan_names_groups_that_are_too_small_for_a_verdict(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY.replace('["ink"]', '["ink", "class"]'), encoding="utf-8")
    planned = json_of(fairmargin("run", study, "--plan", "--out", tmp_path / "run", "--json"))
    said = "no group reaches 50 test samples, below which there is no verdict; the smallest has"
    assert planned["notes"] == [
        f"digits: By {name!r} {said} {size}. `audit_per_group` is 13." for name, size in (("ink", 40), ("class", 13))
    ]


def test_a_plan_says_what_is_done(whole: Path, study: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    shown = succeeded(fairmargin("run", study, "--plan", "--out", whole)).stdout
    assert "2 trainings, 8 measurements; 10 of 10 done already." in shown
    study.write_text(STUDY.replace("steps=20", "steps=21"), encoding="utf-8")
    planned = json_of(fairmargin("run", study, "--plan", "--out", whole, "--json"))
    work = [*planned["trainings"], *planned["measurements"]]
    left = [each["name"] for each in work if each["done"] < each["parts"]]
    assert left == [
        f"digits, small_cnn, erm, seed {seed}: carlini_wagner:steps=21,searches=2, epoch 2 (last)" for seed in (0, 1)
    ]
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


def test_every_command_that_measures_has_a_plan(whole: Path, tmp_path: Path) -> None:
    model = ("--data", "digits", "--per-group", 5, "--by", "class", "--out", tmp_path / "run")
    network = (*network_of(whole), *model)
    epochs = ("--epochs", 4, "--audit-epochs", "first,last", "--audit-per-group", 4, "--estimator", "deepfool:steps=3")
    for command, trainings, measurements in (
        (("audit", *network, "--estimator", "deepfool:steps=3", "--estimator", "first_order"), 0, 2),
        (("audit", *network, "--estimator", "deepfool:steps=3", "--precision", 0.3), 0, 1),
        (("attack", *network, "--attack", "fgsm", "--radius", 0.1, "--radius", 0.2), 0, 2),
        (("train", "--arch", "logistic", *model, *epochs), 1, 2),
        (("train", "--arch", "logistic", *model, "--epochs", 4), 1, 0),
    ):
        planned = json_of(fairmargin(*command, "--plan", "--json"))
        assert (len(planned["trainings"]), len(planned["measurements"])) == (trainings, measurements), command
        shown = succeeded(fairmargin(*command, "--plan")).stdout
        for each in (*planned["trainings"], *planned["measurements"]):
            assert each["passes"] > 0
            assert each["name"] in shown
        noted = "--precision" in command
        assert bool(planned["notes"]) == noted
        assert ("as few samples as it takes" in shown) == noted
    assert not (tmp_path / "run").exists()


def test_a_plan_of_imported_distances_is_empty(tmp_path: Path) -> None:
    pd.DataFrame({"distance": [1.0, 2.0] * 40, "correct": True, "sex": ["F", "M"] * 40}).to_csv(tmp_path / "d.csv")
    command = ("audit", "--distances", tmp_path / "d.csv", "--bound", "upper", "--norm", "l2", "--group", "sex")
    command += ("--out", tmp_path / "run", "--plan")  # type: ignore[assignment]
    assert "Nothing is measured: the distances are imported." in succeeded(fairmargin(*command)).stdout
    assert json_of(fairmargin(*command, "--json")) == {
        "trainings": [],
        "measurements": [],
        "seconds_left": 0,
        "notes": [],
    }


def test_a_failed_training_is_named_and_the_others_are_done(study: Path, tmp_path: Path) -> None:
    wrong = STUDY.replace("[train.erm]", '[train.erm]\n[train.lost]\nmethod = "adverm:group=nobody"')
    wrong = wrong.replace("[0, 1]", "[0]").replace("carlini_wagner", "softmax_margin")
    wrong = wrong.replace('"softmax_margin:steps=20,searches=2"', '"softmax_margin"')
    study.write_text(wrong, encoding="utf-8")
    done = fairmargin("run", study, "--out", tmp_path / "run")
    assert done.exit_code == 1
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("Failed:"))
    assert line.startswith("Failed: digits, small_cnn, lost, seed 0 (4 measurements need it): ")
    assert "no group 'nobody'" in line
    assert set(pd.read_csv(tmp_path / "run" / "results.csv").method) == {"erm"}
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "What could not be done" in page
    assert "digits, small_cnn, lost, seed 0 (4 measurements need it)" in page


def test_the_study_of_the_guide_can_be_planned(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "study.toml").write_text(shown, encoding="utf-8")
    planned = json_of(fairmargin("run", tmp_path / "study.toml", "--plan", "--out", tmp_path / "run", "--json"))
    assert (len(planned["trainings"]), len(planned["measurements"])) == (12, 48)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_console_errors_and_fits_the_screen(browser_page: Any, whole: Path, width: int) -> None:
    check_page(browser_page, whole / "report.html", width)
    assert browser_page.locator(".plot .heatmaplayer image, .plot .hm image").count() == 2  # one for each estimator
    assert "All networks" in browser_page.inner_text("main")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[data.digits]", "[data.digit]", "Unknown dataset 'digit'. Did you mean 'digits'?"),
        ("[model.small_cnn]", "[network.small_cnn]", "study.toml: Sections [network.…] are called [model.…] now"),
        ("audit_epochs", "audit_epoch", "study.toml, [audit.first_order]: `audit_epoch` is unknown. Did you mean"),
        ("[data.digits]", "[data.digits]\nsmallest_group = 5", "it belongs to [audit.…] and [attack.…]."),
        ("[audit.first_order]", "[audit.first_order]\nepochs = 5", "`epochs` is unknown here: it belongs to [train"),
        (
            "[model.small_cnn]",
            "[model.smal_cnn]",
            "study.toml, [model.smal_cnn]: Unknown architecture `smal_cnn`. Did you mean 'small_cnn'?",
        ),
        ('["first", "last"]', "[7]", "`audit_epochs` names epoch 7, and there are 2."),
        ("seeds = [0, 1]", "seeds = [0, 1", "is not valid TOML"),
        ("[train.erm]", '[train."a\\nb"]\nepoch = 1', "[train.a\\nb]: `epoch` is unknown."),
    ],
)
def test_a_wrong_study_file_is_refused(study: Path, tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in STUDY
    study.write_text(STUDY.replace(old, new), encoding="utf-8")
    assert said in refused(fairmargin("run", study, "--out", tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_an_unknown_engine_of_a_study_file_is_refused(study: Path) -> None:
    study.write_text('engine = "sreial"\n' + study.read_text(encoding="utf-8"), encoding="utf-8")
    assert "Unknown engine `sreial`" in refused(fairmargin("run", study))
