"""`fairmargin run`: a study from a file to one table and one page; it plans, is killed and goes on, it says no."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.stories.examples import fairmargin, json_of, refused, succeeded
from tests.stories.waiting import DRAWN, wait_until

# A process started in the background of a shell ignores Ctrl-C, and so do its children, unless told otherwise.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from fairmargin.cli import main; main()"
)
GUIDE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
DEADLINE = 240  # seconds until a story is given up: no assertion is about time

STUDY = """
title = "Digits"
seeds = [0, 1]
resamples = 200

[training]
epochs = 2
batch = 32
optimizer = "adam"

[data.digits]
train_per_group = 20
test_per_group = 13
partitions = ["ink"]

[network.small_cnn]

[method.erm]

[distance.first_order]
epochs = ["first", "last"]

[distance.carlini_wagner]
steps = 20
searches = 2

[attack.pgd]
steps = 3
radius = ["16/255"]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a study that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    done = succeeded(fairmargin("run", folder / "study.toml", "--out", folder / "run"))
    assert "10 tasks were done now; 0 were there already." in done.stdout
    return folder / "run"


# What a person gets. -------------------------------------------------------------------------------------------------


def test_it_ends_with_a_table_that_a_second_call_only_reads(whole: Path, study: Path) -> None:
    before = (whole / "results.csv").read_bytes()
    done = succeeded(fairmargin("run", study, "--out", whole))
    assert "0 tasks were done now; 10 were there already." in done.stdout
    assert f"Table: {whole / 'results.csv'}" in done.stdout
    assert f"Report: {whole / 'report.html'}" in done.stdout
    assert "Who fares worst" in done.stdout
    assert (whole / "results.csv").read_bytes() == before
    table = pd.read_csv(whole / "results.csv")
    assert set(table.by) == {"first_order", "carlini_wagner", "pgd"}
    assert table.groupby(["seed", "by", "epoch", "radius"], dropna=False).size().tolist() == [3] * 8
    assert succeeded(fairmargin("run", whole / "study.toml", "--out", whole, "--quiet")).stdout == ""


def test_commands_on_audits_say_what_the_folder_of_a_study_is(whole: Path) -> None:
    said = refused(fairmargin("report", whole))
    assert "holds a study of many networks, not an audit" in said
    assert f"fairmargin run {whole / 'study.toml'} --out {whole}" in said


def test_a_plan_lists_the_tasks_and_does_nothing(study: Path, tmp_path: Path) -> None:
    planned = json_of(fairmargin("run", study, "--plan", "--out", tmp_path / "run", "--json"))
    assert [task["kind"] for task in planned["tasks"]] == ["train", "measure", "measure", "measure", "attack"] * 2
    assert not any(task["done"] for task in planned["tasks"])
    assert planned["seconds_left"] > 0
    assert not (tmp_path / "run").exists()
    shown = succeeded(fairmargin("run", study, "--plan", "--out", tmp_path / "run")).stdout
    assert "2 trainings, 6 measurements, 2 attacks; 0 of 10 done already." in shown
    assert "a rough guess" in shown


def test_groups_that_are_too_small_for_a_verdict_are_named_before_anything_is_trained(
    study: Path, tmp_path: Path
) -> None:
    study.write_text(STUDY.replace('["ink"]', '["ink", "class"]'), encoding="utf-8")
    planned = json_of(fairmargin("run", study, "--plan", "--out", tmp_path / "run", "--json"))
    said = "By 'class' no group reaches 30 test samples (`smallest_group`), below which there is no verdict"
    assert [note for note in planned["notes"] if note.startswith("digits: By")] == [
        f"digits: {said}; the smallest has 13. `test_per_group` is 13."
    ]


def test_a_plan_says_what_is_done_already(whole: Path, study: Path) -> None:
    shown = succeeded(fairmargin("run", study, "--plan", "--out", whole)).stdout
    assert "all done already" in shown
    study.write_text(STUDY.replace("steps = 20", "steps = 21"), encoding="utf-8")
    planned = json_of(fairmargin("run", study, "--plan", "--out", whole, "--json"))
    left = [task["name"] for task in planned["tasks"] if not task["done"]]
    assert left == [f"digits, small_cnn, erm, seed {seed}: carlini_wagner, the last epoch" for seed in (0, 1)]
    assert "from tasks that are done" in succeeded(fairmargin("run", study, "--plan", "--out", whole)).stdout


def test_json_holds_every_row_of_the_table(whole: Path, study: Path) -> None:
    found = json_of(fairmargin("run", study, "--out", whole, "--json"))
    assert found["failures"] == []
    assert found["report"] == str(whole / "report.html")
    assert [row["finding"] for row in found["results"]] == pd.read_csv(whole / "results.csv").finding.tolist()


def test_a_task_that_fails_is_named_and_the_others_are_done(study: Path, tmp_path: Path) -> None:
    wrong = STUDY.replace("[method.erm]", '[method.erm]\n[method.adverm]\ngroup = "nobody"').replace("[0, 1]", "[0]")
    study.write_text(wrong.replace("[distance.carlini_wagner]\nsteps = 20\nsearches = 2", ""), encoding="utf-8")
    done = fairmargin("run", study, "--out", tmp_path / "run")
    assert done.exit_code == 1
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("Failed:"))
    assert line.startswith("Failed: digits, small_cnn, adverm, seed 0 (3 tasks need it): ")
    assert "no group 'nobody'" in line
    assert set(pd.read_csv(tmp_path / "run" / "results.csv").method) == {"erm"}
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "What could not be done" in page
    assert "digits, small_cnn, adverm, seed 0 (3 tasks need it)" in page


def test_the_study_of_the_guide_is_one_and_its_plan_can_be_made(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```$", GUIDE, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "study.toml").write_text(shown, encoding="utf-8")
    planned = json_of(fairmargin("run", tmp_path / "study.toml", "--plan", "--out", tmp_path / "run", "--json"))
    kinds = [task["kind"] for task in planned["tasks"]]
    assert (kinds.count("train"), kinds.count("measure"), kinds.count("attack")) == (12, 24, 24)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_a_complaint_and_fits_the_screen(browser_page: Any, whole: Path, width: int) -> None:
    browser_page.set_viewport_size({"width": width, "height": 844})
    browser_page.goto((whole / "report.html").as_uri())
    wait_until(browser_page, DRAWN)
    assert browser_page.complaints == []
    assert browser_page.requested == [(whole / "report.html").as_uri()]
    assert browser_page.evaluate("document.documentElement.scrollWidth") <= width
    assert browser_page.locator(".plot .heatmaplayer image, .plot .hm image").count() == 2  # one for each estimator
    linked = browser_page.evaluate("Array.from(document.querySelectorAll('#run a')).map((link) => link.href)")
    assert linked == [(whole / name).as_uri() for name in ("results.csv", "study.toml")]


# Killed. -------------------------------------------------------------------------------------------------------------


def test_a_killed_study_goes_on_and_ends_with_the_identical_table_and_page(
    whole: Path, study: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-c", START, "run", str(study), "--out", str(run), "--quiet"]
    process, started = subprocess.Popen(command, stderr=subprocess.PIPE), time.monotonic()
    try:
        while len(list(run.glob("shards/??/*.parquet"))) < 2 and process.poll() is None:
            assert time.monotonic() - started < DEADLINE, "no shard was written"
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait(DEADLINE) == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()
    assert not (run / "results.csv").exists()
    assert not (run / "report.html").exists()
    kept = {path: path.stat().st_mtime_ns for path in (*run.rglob("shards/*/*.parquet"), *run.rglob("epoch-*"))}
    succeeded(fairmargin("run", study, "--out", run))
    for name in ("results.csv", "report.html"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # nothing of it was done again


def test_ctrl_c_amid_a_training_keeps_its_epochs_and_says_so(study: Path, tmp_path: Path) -> None:
    study.write_text(
        STUDY.replace("epochs = 2", "epochs = 40").replace("[0, 1]", "[0]").replace("steps = 20", "steps = 2"),
        encoding="utf-8",
    )
    run = tmp_path / "run"
    command = [sys.executable, "-c", START, "run", str(study), "--out", str(run), "--quiet"]
    process, started = subprocess.Popen(command, stderr=subprocess.PIPE), time.monotonic()
    try:
        while not list(run.glob("trainings/*/latest.safetensors")) and process.poll() is None:
            assert time.monotonic() - started < DEADLINE, "no epoch was written"
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert said.decode().strip() == "Stopped. Everything measured so far is kept: the same command continues from here."
    (first,) = run.glob("trainings/*/epoch-0001.safetensors")
    written = first.stat().st_mtime_ns
    assert not list(run.glob("trainings/*/model.safetensors"))
    found = json_of(fairmargin("run", study, "--out", run, "--json"))
    assert {row["epoch"] for row in found["results"]} == {1, 40}
    assert first.stat().st_mtime_ns == written


# What is refused. ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[data.digits]", "[data.digit]", "study.toml, [data.digit]: unknown dataset 'digit'. Did you mean 'digits'?"),
        ("[network.small_cnn]", "[network.smal_cnn]", "unknown architecture 'smal_cnn'. Did you mean 'small_cnn'?"),
        ("[method.erm]", "[method.erms]", "Unknown method `erms`. Did you mean 'erm'?"),
        (
            "steps = 20",
            "step = 20",
            "study.toml, [distance.carlini_wagner]: unknown field `step`. Did you mean `steps`?",
        ),
        ('["ink"]', '["inc"]', "digits has no partition 'inc'. Did you mean 'ink'?"),
        ('["first", "last"]', "[7]", "there is no epoch 7 among 2."),
        ("seeds = [0, 1]", "seeds = [0, 1", "is no TOML"),
        ('radius = ["16/255"]', "radius = 16", "did you mean 16/255?"),
        ("[distance.first_order]", "[distance.exact_linear]", "exact_linear"),
    ],
)
def test_a_wrong_study_is_refused_in_a_sentence(study: Path, tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in STUDY
    study.write_text(STUDY.replace(old, new), encoding="utf-8")
    assert said in refused(fairmargin("run", study, "--out", tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_study_or_an_engine_that_there_is_not_is_refused(study: Path, tmp_path: Path) -> None:
    assert "There is no study" in refused(fairmargin("run", tmp_path / "none.toml"))
    assert "Unknown engine `proceses`" in refused(fairmargin("run", study, "--engine", "proceses"))


def test_a_folder_of_something_else_is_refused(study: Path, tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "study.json").write_text(json.dumps({}))
    assert "holds an audit or attacks" in refused(fairmargin("run", study, "--out", tmp_path / "audit"))
