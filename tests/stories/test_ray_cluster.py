"""A cluster of two simulated nodes: audits, trainings and studies end with the bytes of a run in one process."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairmargin.engine.local import Serial
from fairmargin.engine.ray import Ray
from fairmargin.engine.task import DEVICE, Task
from fairmargin.runner.run import run
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study_file import make_study
from fairmargin.training.loop import loggers
from fairmargin.training.loop.loggers import LOGGERS
from tests.engine.functions import span, variable
from tests.engine.test_local import eventually
from tests.engine.test_ray import descendants
from tests.stories.examples import contents_of, fairmargin, refused, succeeded, write_images

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'fairmargin[ray]'")

NETWORK = """
import torch
from parts import features

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(features(), torch.nn.Linear(8, 2))
"""
PARTS = """
from torch import nn

class Root(nn.Module):
    def forward(self, x):
        return x.clamp(min=0) + 0.1 * x

def features():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), Root())
"""
STUDY = {
    "seeds": [0, 1],
    "data": {"digits": {"per_group": 10, "audit_per_group": 4, "by": "class", "group": "ink"}},
    "model": {"logistic": {"mean": 0.3, "std": 0.4}},
    "train": {"epochs": 2, "batch": 16, "optimizer": "adam", "rate": 0.02, "erm": {}},
    "audit": {"resamples": 200, "exact_linear": {}, "deepfool": {"audit_epochs": ["first", "last"]}},
    "attack": {"resamples": 200, "pgd": {"attack": "pgd:steps=3", "radius": [0.1]}},
}


START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from fairmargin.cli import main; main()"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start two nodes with a processor each, which ask for a token."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "0" * 64)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH", "")])))
        ray._raylet.Config.initialize("")  # reads the mode again
        node = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=node)
        cluster.add_node(num_gpus=1, **node)
        yield cluster
        cluster.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make images, and a network in two files of the user."""
    (tmp_path / "net.py").write_text(NETWORK)
    (tmp_path / "parts.py").write_text(PARTS)
    write_images(tmp_path, count=1200, side=4, classes=2)
    return tmp_path


def test_a_study_with_trainings_ends_with_the_same_bytes(cluster: Any, tmp_path: Path) -> None:
    study = make_study(STUDY)
    for name, engine in (("serial", Serial()), ("ray", Ray(cluster.address, gpus=0))):
        record, _ = run(study, RunFolder(tmp_path / name), engine)
        assert not record.failures
    assert outcome(tmp_path / "ray") == outcome(tmp_path / "serial")


def outcome(folder: Path) -> dict[str, bytes]:
    """Return everything that must be the same however a run came about, weights among it."""
    patterns = ("record.json", "results.csv", "results/*", "shards/*/*", "trainings/*/epoch*", "trainings/*/*model*")
    found = {str(path.relative_to(folder)): path.read_bytes() for each in patterns for path in folder.glob(each)}
    assert len(found) > 10
    return found


def test_a_training_of_the_users_network_is_logged_here_and_refused_before_it_starts(
    cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", "--model", f"{folder / 'net.py'}:make", "--data", folder / "images.npz", "--method", "erm"]
    arguments += ["--epochs", 2, "--group", "camera", "--log", "tensorboard", "--quiet"]
    logged: list[int] = []

    @contextmanager
    def logger(place: Path, _: object) -> Iterator[Any]:
        yield lambda epoch: logged.append(epoch.epoch)

    monkeypatch.setitem(LOGGERS.entries, "tensorboard", logger)
    monkeypatch.setitem(loggers._PACKAGES, "tensorboard", "no_such_package")
    engine = f"ray:address={cluster.address},gpus=0"
    assert "needs a package" in refused(fairmargin(*arguments, "--engine", engine, "--out", folder / "ray"))
    assert not list(folder.glob("ray/*.safetensors"))
    monkeypatch.setitem(loggers._PACKAGES, "tensorboard", "json")
    succeeded(fairmargin(*arguments, "--engine", engine, "--out", folder / "ray"))
    assert logged == [1, 2]
    succeeded(fairmargin(*arguments, "--out", folder / "serial"))
    for name in ("model", "best", "epoch-0001"):
        weights = [(folder / run / f"{name}.safetensors").read_bytes() for run in ("ray", "serial")]
        assert weights[0] == weights[1]


class Audit:
    """An audit of a network of the user in a process of its own."""

    def __init__(self, folder: Path, run: str, engine: str) -> None:
        self.run = folder / run
        model, data = folder / "net.py", folder / "images.npz"
        options = ["--estimator", "carlini_wagner", "--group", "camera", "--resamples", "200", "--adequacy"]
        command = ["audit", "--model", f"{model}:make", "--data", str(data), *options, "--engine", engine]
        self.command = [sys.executable, "-c", START, *command, "--out", str(self.run), "--json"]

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self) -> None:
        process = self.start()
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        assert out.startswith("{")  # messages of Ray are not among the results

    def shards(self) -> int:
        return len(list(self.run.glob("shards/??/*.parquet")))


def workers() -> list[int]:
    """Return the processes that run a task of this package."""
    found = []
    for process in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            found += [process] if b"ray::_run" in Path(f"/proc/{process}/cmdline").read_bytes() else []
    return found


def test_a_killed_worker_node_and_driver_lose_nothing(cluster: Any, folder: Path) -> None:
    audit = Audit(folder, "ray", f"ray:address={cluster.address},gpus=0")
    node = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    driver = audit.start()
    try:
        assert eventually(lambda: audit.shards() >= 2 or driver.poll() is not None, seconds=120)
        assert eventually(lambda: bool(workers()) or driver.poll() is not None)
        for worker in workers()[:1]:
            os.kill(worker, signal.SIGKILL)
        cluster.remove_node(node, allow_graceful=False)
        kept = audit.shards()
        assert eventually(lambda: audit.shards() >= kept + 1 or driver.poll() is not None, seconds=120)
        driver.send_signal(signal.SIGKILL)
        _, err = driver.communicate(timeout=60)
    finally:
        driver.kill()
    assert driver.returncode == -signal.SIGKILL, err
    kept = audit.shards()
    audit.finish()
    assert audit.shards() > kept
    serial = Audit(folder, "serial", "serial")
    serial.finish()
    assert contents_of(audit.run) == contents_of(serial.run)
    assert contents_of(audit.run, "adequacy") == contents_of(serial.run, "adequacy")
    assert contents_of(serial.run)


def test_tasks_take_turns_on_a_gpu_and_are_told_to_use_it(cluster: Any) -> None:
    # The GPU is one in name only: networks stay on the processor, because torch finds none.
    with Ray(cluster.address).session() as session:
        spans = sorted(found for _, found in session.run([Task(str(i), span, (0.1,)) for i in range(4)]))
        ((_, device),) = session.run([Task("device", variable, (DEVICE,))])
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert device == "cuda"
    ((_, device),) = Ray(cluster.address, gpus=0).run([Task("device", variable, (DEVICE,))])
    assert device == "cpu"
