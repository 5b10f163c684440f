"""An audit that is killed, interrupted or started twice loses nothing and ends with the same numbers."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fairmargin.store.folder import Store
from tests.stories.examples import contents_of, fairmargin, record_of, refused, write_images

SHARDS = 52
DEADLINE = 180  # seconds until a story is given up: no assertion is about time
NO_VERDICTS = "--smallest-group", "1000000"  # no verdicts, no tests: these stories are about measuring


# A runner that was started in the background hands its children a deaf ear for Ctrl-C.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from fairmargin.cli import main; main()"
)


class Audit:
    """An audit in a process of its own."""

    def __init__(self, data: Path, model: Path, run: Path) -> None:
        options = [
            "--bounds",
            "0,1",
            "--group",
            "camera",
            "--resamples",
            "200",
            *NO_VERDICTS,
            "--out",
            str(run),
            "--json",
        ]
        command = ["audit", "--model", str(model), "--data", str(data), *options]
        self.command = [sys.executable, "-c", START, *command]
        self.run = run

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self) -> dict:
        done = subprocess.run(self.command, capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def shards(self) -> int:
        return len(list(self.run.glob("shards/??/*.parquet")))

    def disturbed(self, disturb: Callable[["subprocess.Popen[str]"], None]) -> "subprocess.CompletedProcess[str]":
        """Starts, waits until three shards are there, and lets `disturb` end the process."""
        process, started = self.start(), time.monotonic()
        try:
            while self.shards() < 3 and process.poll() is None:
                assert time.monotonic() - started < DEADLINE, "no shard was written"
                time.sleep(0.002)
            if process.poll() is None:
                disturb(process)
            out, err = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
            process.wait()
        return subprocess.CompletedProcess(self.command, process.returncode, out, err)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """An audit of many shards, run from start to end without a disturbance."""
    folder = tmp_path_factory.mktemp("whole")
    data, model = write_images(folder, count=SHARDS * 1024 - 100, side=8, classes=10)
    audit = Audit(data, model, folder / "run")
    found = audit.finish()
    assert (found["measured_shards"], found["reused_shards"]) == (SHARDS, 0)
    assert audit.shards() == SHARDS
    return audit


def cut_short(whole: Audit, folder: Path, disturb, code: int):
    """A run that ended amid its measuring, and what it said. A machine too quick for that is tried again."""
    for attempt in range(5):
        audit = Audit(*files_of(whole), folder / f"run {attempt}")
        ended = audit.disturbed(disturb)
        if ended.returncode == code and 3 <= audit.shards() < SHARDS:
            return audit, ended
    raise AssertionError(
        f"the process could not be caught amid measuring: it ended with {ended.returncode} and {audit.shards()} shards"
    )


def files_of(audit: Audit) -> tuple[Path, Path]:
    return audit.run.parent / "images.npz", audit.run.parent / "reader.npz"


def assert_same_result(left: Audit, right: Audit) -> None:
    assert contents_of(left.run) == contents_of(right.run)
    assert (left.run / "audit.csv").read_bytes() == (right.run / "audit.csv").read_bytes()


def test_a_killed_audit_goes_on_and_ends_with_the_identical_result(whole, tmp_path):
    audit, _ = cut_short(whole, tmp_path, lambda process: process.send_signal(signal.SIGKILL), code=-signal.SIGKILL)
    kept = audit.shards()
    assert record_of(audit.run)["status"] == "running"
    assert "did not finish" in refused(fairmargin("gate", audit.run, "--if", "size > 1"))
    found = audit.finish()
    assert found["reused_shards"] == kept
    assert found["measured_shards"] == SHARDS - kept
    assert_same_result(audit, whole)
    assert list(audit.run.glob("shards/*/.*")) == []  # nothing half-written is left


def test_ctrl_c_says_a_sentence_and_keeps_what_was_measured(whole, tmp_path):
    audit, ended = cut_short(whole, tmp_path, lambda process: process.send_signal(signal.SIGINT), code=130)
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    assert ended.stderr.strip() == (
        "Stopped. Everything measured so far is kept: the same command continues from here."
    )
    store = Store.open(audit.run, create=False)
    with store.lock():  # it was released, or this would be refused
        assert all(map(store.verified, store.keys()))


def test_a_second_process_is_refused_while_the_first_one_writes(whole, tmp_path):
    told: list[subprocess.CompletedProcess[str]] = []

    def start_another(process: "subprocess.Popen[str]") -> None:
        process.send_signal(signal.SIGSTOP)  # it holds its breath, and the lock
        told.append(subprocess.run(audit.command, capture_output=True, text=True, timeout=DEADLINE, check=False))
        process.send_signal(signal.SIGKILL)

    audit = Audit(*files_of(whole), tmp_path / "run")
    audit.disturbed(start_another)
    (second,) = told
    assert second.returncode == 2
    assert second.stdout == ""
    (sentence,) = second.stderr.splitlines()
    assert sentence.startswith("Error: Another process (pid ")
    assert "is writing to the run in" in sentence
    assert sentence.endswith("choose another --out.")
