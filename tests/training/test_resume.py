"""A training that is killed and started again gives the same weights, bit for bit."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.data.dataset import Dataset
from fairmargin.errors import StoreError
from fairmargin.study.schedule import Schedule
from fairmargin.training.catalog import parse_method
from fairmargin.training.loop import epochs as loop
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.train import train
from tests.training.problems import blobs, changed, same_weights

PLAN = TrainingPlan(rate=0.05, batch=8, schedule=Schedule("cosine"))
WITH_ALL = changed(
    PLAN, average=0.9, weight_decay=1e-3, watch_radius=0.05, watch="pgd:steps=2", watch_samples=5, patience=9
)
CASES = {
    "sgd with momentum": ("erm", PLAN),
    "adam": ("erm", changed(PLAN, optimizer="adam", rate=0.01)),
    "moving average and validation": ("penalty", WITH_ALL),
    "attacked": ("fat:radius=0.1,steps=2", PLAN),
    "weights of groups": ("group_dro:step=0.5", PLAN),
    "phases": ("farmur:radius=0.05,steps=2,since=0.5", changed(PLAN, average=0.5)),
    "noise": ("smooth_adv:radius=0.1,steps=1", PLAN),
}


class Killed(BaseException):
    """Ends a training like a kill: no handler of `Exception` catches it."""


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 3)
    )  # dropout and running statistics depend on the steps before


@pytest.fixture(autouse=True)
def every_step_is_reported(monkeypatch):
    """Report every step, so that a training can be killed after any of them."""
    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_REPORTS", -1.0)


def killed_after(steps):
    """Return a progress callback that ends the training after this number of steps."""
    seen = []

    def progress(description, _done, _total):
        if "loss" in description:
            seen.append(description)
            if len(seen) == steps:
                raise Killed

    return progress


def run(case, out=None, **others):
    spelling, plan = CASES[case]
    method, data = parse_method(spelling), blobs(40)
    return train(
        network(), data, method, epochs=4, partition="kind", validation=blobs(20, 1), plan=plan, out=out, **others
    )


def same_histories(one, other):
    left, right = (found.to_frame().drop(columns="seconds") for found in (one, other))
    pd.testing.assert_frame_equal(left, right, check_exact=True)


@pytest.mark.parametrize("every_step", [True, False], ids=["kept every step", "kept every epoch"])
@pytest.mark.parametrize("case", CASES)
def test_a_training_that_is_killed_several_times_gives_the_same_weights(case, every_step, tmp_path, monkeypatch):
    if every_step:
        monkeypatch.setattr(loop, "_SECONDS_BETWEEN_SAVES", -1.0)
    whole = run(case)
    for steps in (3, 1, 6) if every_step else (7, 8, 4):  # an epoch has 5 steps: within one, and at its end
        with pytest.raises(Killed):
            run(case, tmp_path, progress=killed_after(steps))
    resumed = run(case, tmp_path)
    assert same_weights(whole.module, resumed.module)
    assert same_weights(whole.best_module, resumed.best_module)
    same_histories(whole, resumed)
    assert (resumed.best_epoch, resumed.stopped) == (whole.best_epoch, whole.stopped)


def test_a_training_that_is_killed_during_validation_gives_the_same_weights(tmp_path):
    def progress(description, _done, _total):
        if "evaluating validation data" in description and "epoch 2" in description:
            raise KeyboardInterrupt

    case = "moving average and validation"
    with pytest.raises(KeyboardInterrupt):
        run(case, tmp_path, progress=progress)
    assert same_weights(run(case).module, run(case, tmp_path).module)


def test_a_training_on_augmented_images_that_is_killed_gives_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_SAVES", -1.0)
    random = np.random.default_rng(0)
    data = Dataset(random.uniform(size=(30, 1, 6, 6)).astype(np.float32), np.arange(30) % 2, domain=Domain(0, 1))
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
    plan = TrainingPlan(rate=0.1, batch=8, augmentation="crop_flip")
    trained = lambda **others: train(net, data, parse_method("erm"), epochs=2, plan=plan, **others)  # noqa: E731
    with pytest.raises(Killed):
        trained(out=tmp_path, progress=killed_after(3))
    whole = trained()
    assert same_weights(whole.module, trained(out=tmp_path).module)
    plain = train(net, data, parse_method("erm"), epochs=2, plan=changed(plan, augmentation="none"))
    assert not same_weights(whole.module, plain.module)


@pytest.mark.parametrize(
    ("plan", "stopped"),
    [
        (PLAN, ""),
        (changed(PLAN, patience=1, rate=1e-9), "Stopped after epoch 2 of 4: the worst group's accuracy on val"),
    ],
    ids=["complete", "stopped early"],
)
def test_a_finished_training_makes_no_step(tmp_path, plan, stopped):
    given = {"epochs": 4, "plan": plan, "validation": blobs(20, 1), "out": tmp_path}
    reports, epochs = [], []
    first = train(network(), blobs(40), parse_method("fat:radius=0.1,steps=2"), **given)
    again = train(
        network(),
        blobs(40),
        parse_method("fat:radius=0.1,steps=2"),
        **given,
        progress=lambda *step: reports.append(step),
        on_epoch=epochs.append,
    )
    assert reports == epochs == []
    assert first.stopped.startswith(stopped)
    assert again.stopped == first.stopped
    assert bool(first.stopped) == bool(stopped)
    assert same_weights(first.module, again.module)
    same_histories(first, again)


@pytest.mark.parametrize("midway", [True, False], ids=["within an epoch", "after one"])
def test_a_folder_of_another_training_is_refused(tmp_path, midway, monkeypatch):
    data = blobs(40)
    given = {"model": network(), "dataset": data, "method": parse_method("fat:steps=1"), "epochs": 2, "plan": PLAN}
    monkeypatch.setattr(loop, "_SECONDS_BETWEEN_SAVES", -1.0)
    with pytest.raises(Killed):
        train(**given, out=tmp_path, progress=killed_after(2 if midway else 6))
    elsewhere = Dataset(data.x, data.y, data.attributes, Domain(0, 2))
    for other in (
        {"plan": changed(PLAN, seed=1)},
        {"epochs": 3},
        {"partition": "kind"},
        {"dataset": blobs(40, seed=5)},
        {"dataset": elsewhere},
        {"model": network(1)},
        {"method": parse_method("fat:steps=1,weight=0.7")},
        {"validation": blobs(20, 1)},
    ):
        with pytest.raises(StoreError, match="holds another training"):
            train(**{**given, **other}, out=tmp_path)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    run("adam", tmp_path)
    path = tmp_path / "latest.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StoreError, match=r"latest.safetensors cannot be read \(.*\). Remove it to start again"):
        run("adam", tmp_path)


def test_two_trainings_cannot_write_into_one_folder(tmp_path):
    def progress(_description, _done, _total):
        run("adam", tmp_path)

    with pytest.raises(StoreError, match=r"Another process .* is writing to the run"):
        run("adam", tmp_path, progress=progress)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(StoreError, match="is a file; a training is stored in a folder"):
        run("adam", path)


PROGRAM = """
import sys, time
from pathlib import Path
from fairmargin.training.loop import epochs as loop
from tests.training.test_resume import run
loop._SECONDS_BETWEEN_SAVES = loop._SECONDS_BETWEEN_REPORTS = -1.0
slowly = lambda *_: time.sleep(0.05) if "slowly" in sys.argv else None
run("moving average and validation", Path(sys.argv[1]), progress=slowly)
"""


def test_a_training_whose_process_is_killed_gives_the_same_weights(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path), "slowly"], env={**os.environ}
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "epoch-0001.safetensors").exists() or not (tmp_path / "midway.safetensors").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "model.safetensors").exists()
    resumed = run("moving average and validation", tmp_path)
    assert same_weights(resumed.module, run("moving average and validation").module)
