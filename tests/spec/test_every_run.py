"""Every kind of run on every engine: nothing is lost when it is stopped, and the results are the same."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairmargin.store.folder import Store
from tests.stories.examples import fairmargin, record_of, refused, succeeded

DEADLINE = 300  # seconds until a test gives up; no assertion is about time

# A process started in the background of a shell ignores Ctrl-C, and so do its children, unless a handler is set.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from fairmargin.cli import main; main()"
)

# A network that waits, so that the process can be stopped in the middle of its work.
NETWORK = """
import time
import torch


class Wait(torch.nn.Module):
    def forward(self, x):
        time.sleep(0.002)
        return x


def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(Wait(), torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))
"""

STUDY = """
seeds = [0]
[data.digits]
per_group = 20
by = "class"
audit_per_group = 10
group = "ink"
[model.net]
model = "net.py:make"
[train.erm]
epochs = 20
batch = 20
[audit]
resamples = 200
audit_epochs = ["first", "last"]
[audit.first]
estimator = ["first_order", "deepfool:steps=9", "fmn:steps=20"]
"""

SAMPLES = "--model net.py:make --data digits --per-group 10 --by class --group ink --resamples 200"
ESTIMATORS = " ".join(
    f"--estimator {each}"
    for each in ("first_order", "fmn:steps=10", "ddn:steps=10", "deepfool:steps=9", "fmn:steps=20")
)
RADII = " ".join(f"--radius 0.0{digit}" for digit in range(2, 9))
EPOCHS = "--batch 20 --epochs 30 --audit-epochs first,last --audit-per-group 10 --estimator deepfool:steps=9"
RUNS = {
    "audit": f"audit {SAMPLES} {ESTIMATORS}",
    "attack": f"attack {SAMPLES} --attack pgd:steps=20 {RADII}",
    "train": f"train {SAMPLES} {EPOCHS}",
    "study": "run study.toml",
}


def arguments(kind: str, engine: str, out: Path) -> list[str]:
    return [*RUNS[kind].split(), "--engine", engine, "--out", str(out), "--quiet"]


def results(run: Path) -> dict[str, bytes]:
    """Return the bytes of every file with results: JSON, tables and trained weights."""
    kept = [*run.glob("results/*.json"), *run.glob("*.csv"), *run.rglob("model.safetensors")]
    return {str(path.relative_to(run)): path.read_bytes() for path in kept}


def pieces(run: Path) -> set[Path]:
    """Return the files that are written during a run: shards, and epochs of trainings."""
    return {*run.glob("shards/??/*.parquet"), *run.rglob("epoch-*.safetensors"), *run.rglob("latest.safetensors")}


def start_and_wait_for_progress(command: list[str], folder: Path, run: Path) -> "subprocess.Popen[str]":
    before = pieces(run)
    process = subprocess.Popen(
        [sys.executable, "-c", START, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started = time.monotonic()
    while pieces(run) <= before:
        if process.poll() is not None or time.monotonic() - started > DEADLINE:
            process.kill()
            raise AssertionError(f"the run ended before it could be stopped: {process.communicate()}")
        time.sleep(0.002)
    return process


def start_and_stop(command: list[str], folder: Path, run: Path) -> "subprocess.Popen[str]":
    """Start a run and stop its process after its first progress; on a slow machine, it may have ended by then."""
    for _ in range(5):
        process = start_and_wait_for_progress(command, folder, run)
        process.send_signal(signal.SIGSTOP)
        if record_of(run)["status"] == "running":
            return process
        process.kill()
        process.communicate()
        shutil.rmtree(run)
    raise AssertionError("the run always ended before it could be stopped")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    (path / "net.py").write_text(NETWORK, encoding="utf-8")
    (path / "study.toml").write_text(STUDY, encoding="utf-8")
    return path


@pytest.mark.parametrize("engine", ["serial", "processes:workers=2"])
@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_is_interrupted_and_killed_has_the_results_of_an_uninterrupted_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, engine: str
) -> None:
    monkeypatch.chdir(folder)
    run, command = tmp_path / "run", arguments(kind, engine, tmp_path / "run")

    process = start_and_stop(command, folder, run)
    try:
        # A worker that trains holds the lock, and it works on while the process that started it is stopped.
        if (kind, engine) != ("train", "processes:workers=2"):
            second = refused(fairmargin(*command))
            assert second.startswith("Another process (pid ")
            assert second.endswith("choose another --out.")
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert (process.returncode, out) == (130, "")
    assert err.strip() == "Stopped. Everything measured so far is kept: the same command continues from here."
    store = Store.open(run, create=False)
    with store.lock():  # the lock was released
        assert all(len(store.read(key)) for key in list(store.keys()))  # a damaged shard would be an error

    process = start_and_wait_for_progress(command, folder, run)
    process.kill()
    process.communicate()
    assert record_of(run)["status"] == "running"
    assert "did not finish" in refused(fairmargin("gate", run, "--if", "size > 1"))

    before = {path: path.stat().st_mtime_ns for path in pieces(run) if path.name != "latest.safetensors"}
    succeeded(fairmargin(*command))
    assert {path: path.stat().st_mtime_ns for path in before} == before  # nothing was computed again
    assert not [
        path for path in run.rglob(".*") if path.is_file() and path.name != ".lock"
    ]  # no partly written file is left
    succeeded(fairmargin(*arguments(kind, "serial", tmp_path / "whole")))
    assert results(run) == results(tmp_path / "whole")
