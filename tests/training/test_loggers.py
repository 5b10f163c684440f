"""Epochs are logged to TensorBoard or MLflow; neither package is needed otherwise."""

import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest

from fairmargin.errors import InputError
from fairmargin.training.loop.history import Epoch
from fairmargin.training.loop.loggers import logging_to, scalars

EPOCH = Epoch(3, 0.1, 2.0, 0.5, (("robust groups", 0.25),), 0.9, "a", 0.8, natural=0.7, worst_natural=0.6)


class Writer:
    """Stands in for torch's SummaryWriter and keeps what is written."""

    made: ClassVar[list["Writer"]] = []

    def __init__(self, log_dir):
        self.log_dir, self.texts, self.numbers, self.closed = log_dir, {}, [], False
        Writer.made.append(self)

    def add_text(self, name, text):
        self.texts[name] = text

    def add_scalar(self, name, value, step):
        self.numbers.append((name, value, step))

    def flush(self):
        pass

    def close(self):
        self.closed = True


@pytest.fixture
def tensorboard(monkeypatch):
    Writer.made = []
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return Writer.made


class Run:
    """Stands in for MLflow's active run."""

    def __init__(self, run_id):
        self.info, self.ended = SimpleNamespace(run_id=run_id), None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.ended = "FAILED" if kind else "FINISHED"


@pytest.fixture
def mlflow(monkeypatch):
    module = ModuleType("mlflow")
    module.started, module.params, module.metrics = [], [], []

    def start_run(run_id=None, run_name=None):
        module.started.append((run_id, run_name))
        module.run = Run(run_id or "abc")
        return module.run

    module.start_run = start_run
    module.log_params = module.params.append
    module.log_metrics = lambda values, step: module.metrics.append((values, step))
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


def test_numbers_that_were_not_measured_are_not_logged():
    assert scalars(EPOCH) == {
        "loss": 0.5,
        "rate": 0.1,
        "seconds": 2.0,
        "accuracy": 0.9,
        "worst_accuracy": 0.8,
        "natural": 0.7,
        "worst_natural": 0.6,
        "term/robust_groups": 0.25,
    }


def test_without_loggers_nothing_is_imported_or_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with logging_to((), tmp_path, {}) as on_epoch:
        on_epoch(EPOCH)
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_gets_every_number_with_its_epoch_and_is_closed(tensorboard, tmp_path):
    with logging_to(["tensorboard"], tmp_path, {"method": "fat"}) as on_epoch:
        on_epoch(EPOCH)
    (writer,) = tensorboard
    assert writer.log_dir == str(tmp_path / "tensorboard")
    assert "method: fat" in writer.texts["settings"]
    assert ("loss", 0.5, 3) in writer.numbers
    assert len(writer.numbers) == len(scalars(EPOCH))
    assert writer.closed


def test_tensorboard_is_closed_if_the_training_is_interrupted(tensorboard, tmp_path):
    with pytest.raises(KeyboardInterrupt), logging_to(["tensorboard"], tmp_path, {}):
        raise KeyboardInterrupt
    assert tensorboard[0].closed


def test_mlflow_gets_the_settings_once_and_continues_the_same_run(mlflow, tmp_path):
    run = tmp_path / "run"
    with logging_to(["mlflow"], run, {"weight": 0.5}) as on_epoch:
        on_epoch(EPOCH)
    with logging_to(["mlflow"], run, {"weight": 0.5}) as on_epoch:
        on_epoch(EPOCH)
    assert mlflow.started == [(None, "run"), ("abc", None)]
    assert mlflow.params == [{"weight": "0.5"}]
    assert mlflow.metrics == [(scalars(EPOCH), 3)] * 2
    assert mlflow.run.ended == "FINISHED"


def test_a_failed_training_is_marked_as_failed_in_mlflow(mlflow, tmp_path):
    with pytest.raises(InputError), logging_to(["mlflow"], tmp_path, {}):
        raise InputError("no")
    assert mlflow.run.ended == "FAILED"


def test_every_logger_gets_an_epoch_once(tensorboard, mlflow, tmp_path):
    with logging_to(["tensorboard", "mlflow", "tensorboard"], tmp_path, {}) as on_epoch:
        on_epoch(EPOCH)
    assert len(tensorboard) == 1
    assert len(mlflow.metrics) == 1


@pytest.mark.parametrize(("kind", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow")])
def test_the_extra_of_a_missing_package_is_named(kind, module, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)  # import raises ImportError
    with pytest.raises(InputError, match=rf"pip install 'fairmargin\[{kind}\]'"), logging_to([kind], tmp_path, {}):
        pytest.fail("the training began")
