"""Code of the user that calls `sys.exit(0)` does not make a command succeed, in any process."""

from pathlib import Path

import numpy as np
import pytest

from fairmargin.data.formats.torch_dataset import item_at
from fairmargin.distances.foreign import FromAttack
from fairmargin.distances.measure import measure
from fairmargin.distances.plumb.estimator import Plumb
from fairmargin.errors import FairmarginError, InputError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.reading.user_file import imported
from tests.stories.examples import QUICK, fairmargin, refused

NET = """
import multiprocessing
import os
import sys

from torch import nn

calls = []


def in_worker():
    return multiprocessing.parent_process() is not None


{at_import}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))

    def forward(self, x):
        calls.append(1)
        {in_forward}
        return self.layers(x)
"""
PREDICTS = """
import sys
from dataclasses import dataclass

import fairmargin as fm


@dataclass
class Own:
    domain: fm.Domain
    classes: tuple = tuple(range(10))
    offers: frozenset = frozenset({"predict"})
    tile: int = 1

    def predict(self, x):
        sys.exit(0)

    def fingerprint(self):
        return "own"


model = Own(fm.Domain(0, 1))
"""
PROCESSES = "processes:workers=1"


def net(folder: Path, in_forward: str = "pass", at_import: str = "pass") -> str:
    path = folder / "net.py"
    path.write_text(NET.format(in_forward=in_forward, at_import=at_import))
    return f"{path}:Net"


def arguments(command: str, model: str, out: Path, *more: object) -> list[object]:
    common = [command, "--model", model, "--data", "digits", "--split", "test", "--per-group", 10, "--out", out]
    return [*common, *(QUICK if command == "audit" else ("--radius", "0.1")), *more]


@pytest.mark.parametrize(
    ("command", "in_forward"),
    [
        ("audit", "sys.exit(0)"),
        ("attack", "sys.exit(0)"),
        ("audit", "len(calls) > 4 and sys.exit(0)"),
        ("attack", "exit()"),
        ("audit", "raise GeneratorExit"),
        ("attack", "raise BaseException('enough')"),
    ],
)
def test_a_network_that_exits_is_refused_and_the_line_is_named(tmp_path: Path, command: str, in_forward: str) -> None:
    sentence = refused(fairmargin(*arguments(command, net(tmp_path, in_forward), tmp_path / "run")))
    assert "tried to end the program" in sentence
    assert "net.py', line 25" in sentence
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("command", ["audit", "attack"])
@pytest.mark.parametrize("where", ["in_forward", "at_import"])
def test_a_network_that_exits_in_a_worker_is_refused_and_the_line_is_named(
    tmp_path: Path, command: str, where: str
) -> None:
    model = net(tmp_path, **{where: "in_worker() and sys.exit(0)"})
    sentence = refused(fairmargin(*arguments(command, model, tmp_path / "run", "--engine", PROCESSES)))
    assert "tried to end the program (SystemExit: 0" in sentence
    assert f"net.py', line {25 if where == 'in_forward' else 15}" in sentence


@pytest.mark.parametrize("where", ["in_forward", "at_import"])
def test_a_network_that_kills_its_worker_is_refused(tmp_path: Path, where: str) -> None:
    model = net(tmp_path, **{where: "in_worker() and os._exit(0)"})
    sentence = refused(fairmargin(*arguments("audit", model, tmp_path / "run", "--engine", PROCESSES)))
    assert "A worker process ended abruptly" in sentence


@pytest.mark.parametrize("command", ["audit", "attack"])
def test_a_classifier_of_the_user_that_exits_is_refused(tmp_path: Path, command: str) -> None:
    (tmp_path / "own.py").write_text(PREDICTS)
    sentence = refused(fairmargin(*arguments(command, f"{tmp_path / 'own.py'}:model", tmp_path / "run")))
    assert "tried to end the program (SystemExit: 0" in sentence


def test_a_training_whose_network_exits_is_refused(tmp_path: Path) -> None:
    model = net(tmp_path, "self.training and sys.exit(0)")
    command = ["train", "--model", model, "--data", "digits", "--per-group", 10, "--method", "erm", "--epochs", 1]
    sentence = refused(fairmargin(*command, "--out", tmp_path / "run", "--quiet"))
    assert "tried to end the program (SystemExit: 0" in sentence
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("error", [SystemExit(0), GeneratorExit("enough")])
def test_models_attacks_and_data_that_exit_raise_errors_in_python(tmp_path: Path, error: BaseException) -> None:
    name = type(error).__name__
    network, _ = imported(net(tmp_path, f"raise {error!r}"))
    x, y = np.zeros((2, 64)), [0, 1]
    with pytest.raises(FairmarginError, match=name):
        measure(network, x, y, Plumb())
    sound, _ = imported(net(tmp_path))
    with pytest.raises(InputError, match=rf"failed on .*{name}"):
        measure(sound, x, as_classifier(sound).predict(x), FromAttack(lambda *_: _raise(error)))
    with pytest.raises(InputError, match=rf"cannot be read \({name}"):
        item_at(_Items(error), 0)
    with pytest.raises(FairmarginError, match=name):
        imported(net(tmp_path, at_import=f"raise {error!r}"))


def test_ctrl_c_inside_a_network_interrupts_the_command(tmp_path: Path) -> None:
    model = net(tmp_path, "raise KeyboardInterrupt")
    assert fairmargin(*arguments("audit", model, tmp_path / "run")).exit_code == 130


class _Items:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __getitem__(self, _: int) -> None:
        raise self.error


def _raise(error: BaseException) -> None:
    raise error
