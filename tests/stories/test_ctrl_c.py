"""Ctrl-C while a command starts or exits: one sentence or no output, and no traceback."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEADLINE = 120  # seconds until a test fails; no assertion is about time

# A process that stops at a given moment, creates a file, and waits there for Ctrl-C. Children of a test runner that was
# started in the background ignore SIGINT unless a handler is set.
PROGRAM = """
import atexit, signal, sys, time
from pathlib import Path

signal.signal(signal.SIGINT, signal.default_int_handler)
moment, marker = sys.argv[1], Path(sys.argv[2])


def wait():
    marker.touch()
    while True:
        time.sleep(0.01)


class WaitingImport:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            wait()
        if "as an ImportError:" + name == moment:  # as libraries in C do
            try:
                wait()
            except KeyboardInterrupt as error:
                raise ImportError("initialization failed") from error


sys.meta_path.insert(0, WaitingImport())
if moment == "at exit":
    atexit.register(wait)
sys.argv[1:] = sys.argv[3:]
from fairmargin.cli import main
main()
"""


def interrupted(folder: Path, moment: str, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run the command and send SIGINT at that moment."""
    marker = folder / "marker"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, moment, str(marker), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        started = time.monotonic()
        while not marker.exists():
            assert process.poll() is None, (
                f"the process ended before that moment: {process.stderr and process.stderr.read()}"
            )
            assert time.monotonic() - started < DEADLINE, "the process did not reach that moment"
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.mark.parametrize("moment", ["fairmargin.cli.app", "typer", "fairmargin.cli.commands"])
def test_ctrl_c_during_the_import_of_the_commands_prints_nothing(tmp_path: Path, moment: str) -> None:
    ended = interrupted(tmp_path, moment, "--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("moment", ["torch", "as an ImportError:torch", "fairmargin.runner.run"])
def test_ctrl_c_during_the_imports_of_a_command_prints_one_sentence(tmp_path: Path, moment: str) -> None:
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"never read")
    model = ("--model", "arch:logistic", "--weights", str(weights))
    ended = interrupted(tmp_path, moment, "audit", *model, "--data", "digits", "--out", str(tmp_path / "run"))
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr.strip() == "Stopped. Everything measured so far is kept: the same command continues from here."


def test_ctrl_c_at_exit_prints_nothing(tmp_path: Path) -> None:
    ended = interrupted(tmp_path, "at exit", "--version")
    assert ended.returncode == -signal.SIGINT
    assert ended.stdout.startswith("fairmargin ")
    assert ended.stderr == ""
