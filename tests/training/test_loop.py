"""The loop that all methods share. What it refuses is in `tests/spec/refusals/training.py`."""

import json
import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.data.dataset import Dataset
from fairmargin.data.samples import Pixels
from fairmargin.engine.local import Processes, Serial
from fairmargin.engine.task import Task
from fairmargin.models.normalized import Normalized
from fairmargin.models.reading.weights import load_weights
from fairmargin.study.schedule import Schedule
from fairmargin.training.catalog import METHODS, parse_method
from fairmargin.training.loop import data as loop_data
from fairmargin.training.loop.history import Epoch
from fairmargin.training.methods.plain import ERM
from fairmargin.training.parts.losses import CrossEntropy
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import Recipe, Term
from fairmargin.training.train import train
from tests.training.problems import blobs, changed, linear, same_weights, tiny

PLAN = TrainingPlan(rate=0.1, batch=16)


def net(seed=0, classes=3, dtype=torch.float32):
    return tiny(normed=True, classes=classes, seed=seed, dtype=dtype)


def trained(model=None, data=None, method=None, epochs=1, plan=PLAN, **others):
    """Train with the usual arguments where no others are given."""
    return train(
        net() if model is None else model,
        blobs() if data is None else data,
        ERM() if method is None else method,
        epochs=epochs,
        plan=plan,
        **others,
    )


@dataclass(frozen=True)
class LabelSmoothing:
    """A user's own method: (1 − a)·CE(f(x), y) + a·mean_k CE(f(x), k)."""

    amount: float = 0.1

    def recipe(self, epoch, epochs):
        return Recipe.of(Term(CrossEntropy(), weight=1 - self.amount), Term(ToAll(), weight=self.amount, name="all"))


@dataclass(frozen=True)
class ToAll:
    def __call__(self, views):
        to_all = -views.scores("clean").log_softmax(dim=1).mean(dim=1)
        return replace(CrossEntropy()(views), values=to_all)


@dataclass(frozen=True)
class Breaks:
    """Cross-entropy that is NaN from an epoch on."""

    since: int

    def recipe(self, epoch, epochs):
        return Recipe.of(Term(CrossEntropy(), weight=math.nan if epoch >= self.since else 1.0))


# Threads and seeds


@pytest.fixture
def three_threads():
    """Set three threads of torch; restored afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("given", "used"), [(1, 1), (2, 2), (0, 3)])
def test_a_training_uses_the_threads_of_its_plan_and_restores_the_others(three_threads, tmp_path, given, used):
    seen = set()
    count = lambda *_: seen.add(torch.get_num_threads())  # noqa: E731
    trained(epochs=2, plan=changed(PLAN, threads=given), out=tmp_path, progress=count, on_epoch=count)
    assert seen == {used}
    assert torch.get_num_threads() == 3
    assert json.loads((tmp_path / "training.json").read_text())["threads"] == used


def test_a_training_that_fails_restores_the_threads(three_threads):
    def fail(_epoch):
        raise LookupError

    with pytest.raises(LookupError):
        trained(plan=changed(PLAN, threads=1), on_epoch=fail)
    assert torch.get_num_threads() == 3


def weights_with(threads):
    """Train a network whose sums are split among threads, in the process that calls this."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 3))
    found = trained(network, blobs(600), epochs=3, plan=TrainingPlan(rate=0.1, batch=256, threads=threads)).module
    return {name: value.numpy() for name, value in found.state_dict().items()}


@pytest.mark.parametrize("threads", [1, 2])
def test_serial_and_processes_train_the_same_weights(three_threads, threads):
    task = Task("a", weights_with, (threads,))
    ((_, here),) = Serial().run([task])
    ((_, there),) = Processes(workers=1).run([task])
    assert all(np.array_equal(here[name], there[name]) for name in here)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    method = parse_method("fat:radius=0.1,steps=2")
    one, same, other = (trained(method=method, plan=changed(PLAN, seed=seed)).module for seed in (0, 0, 1))
    assert same_weights(one, same)
    assert not same_weights(one, other)


# History, progress and notes


def test_a_training_learns_and_reports_it(tmp_path):
    epochs, reports = [], []
    found = trained(
        data=blobs(90),
        epochs=12,
        partition="kind",
        validation=blobs(60, 1),
        plan=changed(PLAN, watch_radius="1/50"),
        on_epoch=epochs.append,
        progress=lambda *step: reports.append(step),
        out=tmp_path,
    )
    first, last = found.history[0], found.history[-1]
    assert last.loss < 0.5 * first.loss
    assert last.accuracy > 0.8
    assert last.worst_accuracy <= last.accuracy
    assert last.worst_group == "rare"
    assert last.worst_robust <= last.worst_natural <= 1
    assert last.robust <= last.natural
    assert tuple(epochs) == found.history
    assert dict(last.terms)["loss"] == last.loss
    steps = [step for step in reports if "loss" in step[0]]
    assert set(range(6, 73, 6)) <= {done for _, done, _ in steps}, "the end of every epoch is reported"
    assert steps[-1][1:] == (72, 72)
    assert "epoch 12 of 12: loss 0." in steps[-1][0]
    assert "worst group" in steps[-1][0]
    assert any("evaluating validation data" in description for description, _, _ in reports)
    frame = found.to_frame()
    assert list(frame["epoch"]) == list(range(1, 13))
    assert frame["term loss"].tolist() == frame["loss"].tolist()
    assert found.notes == ()
    assert repr(found) == (
        f"TrainingResult(Sequential, 12 epochs, loss {last.loss:.4g}, accuracy {last.accuracy:.1%}, worst group "
        f"'{last.worst_group}' {last.worst_accuracy:.1%}, best epoch {found.best_epoch}, in '{tmp_path}')"
    )


def test_classes_without_training_samples_are_noted(tmp_path):
    found = trained(net(classes=5), out=tmp_path)
    (note,) = found.notes
    start = "The model tells 5 classes apart, and the training data have 3 of them: none is of class 3, 4."
    assert note.startswith(start)
    assert note in (tmp_path / "training.json").read_text(encoding="utf-8")
    assert found.classifier.classes == (0, 1, 2, 3, 4)


def test_groups_without_validation_data_are_noted():
    other = blobs(30, 1)
    (note,) = trained(partition="kind", validation=other.take(other.attributes["kind"] == "common")).notes
    assert note.startswith("The validation data have no sample of 'rare' (kind): the worst group there")


def test_a_setting_without_effect_is_noted():
    assert trained(method=parse_method("adverm:temperature=0")).notes == (
        "`temperature` of `adverm` is 0: the indicator has no gradient, and the network is trained as by `erm`.",
    )
    assert trained(method=parse_method("adverm:temperature=0.1")).notes == ()


# The best epoch and early stopping


def test_the_best_epoch_is_the_one_with_the_best_worst_group():
    given = {"epochs": 6, "partition": "kind", "validation": blobs(60, 1)}
    found = trained(**given, plan=changed(PLAN, watch_radius=0.05, watch="pgd:steps=3"))
    robust = [epoch.worst_robust for epoch in found.history]
    assert robust[found.best_epoch - 1] == max(robust)
    assert found.history[found.best_epoch - 1].watched == max(epoch.watched for epoch in found.history)
    shorter = trained(**{**given, "epochs": found.best_epoch})
    assert same_weights(shorter.module, found.best_module)
    without = trained()
    assert (without.best_epoch, without.best_module) == (0, None)
    assert math.isnan(without.history[0].natural)


def test_epochs_with_an_equal_worst_group_are_compared_by_all_samples():
    usual = {"rate": 0.1, "seconds": 1.0, "loss": 1.0, "terms": (), "accuracy": 0.5, "worst_group": "a"}
    early, late, fair = (
        Epoch(epoch=1, worst_accuracy=0, natural=n, robust=r, worst_natural=0, worst_robust=w, **usual)
        for n, r, w in ((0.4, 0.1, 0.0), (0.4, 0.3, 0.0), (0.2, 0.1, 0.05))
    )
    assert early.watched < late.watched < fair.watched


def test_a_training_stops_if_the_worst_groups_robust_accuracy_no_longer_rises():
    plan = changed(PLAN, watch_radius=0.05, watch="pgd:steps=2", patience=3)
    found = trained(epochs=60, validation=blobs(60, 1), plan=plan)
    robust = [epoch.worst_robust for epoch in found.history]
    assert found.stopped.startswith(f"Stopped after epoch {len(robust)} of 60")
    assert len(robust) < 60
    assert len(robust) - found.best_epoch == 3
    assert max(robust) == robust[found.best_epoch - 1]
    assert found.stopped.endswith(f"since epoch {found.best_epoch}.")


@pytest.mark.parametrize("plan", [PLAN, changed(PLAN, average=0.9), changed(PLAN, optimizer="adam")])
@pytest.mark.parametrize("since", [0, 2])
def test_a_loss_that_is_not_finite_stops_with_the_weights_of_the_last_complete_epoch(since, plan, tmp_path):
    found = trained(method=Breaks(since), epochs=4, plan=plan, out=tmp_path)
    where = f"after epoch {since}" if since else "at the start"
    assert f"Stopped in epoch {since + 1} after 0 steps: the loss or a weight is not a number" in found.stopped
    assert f"The weights are those {where}." in found.stopped
    assert len(found.history) == since
    assert "stopped early" in repr(found)
    expected = net() if since == 0 else trained(epochs=since, plan=plan).module
    assert same_weights(found.module, expected)
    kept = net(seed=5)
    load_weights(kept, tmp_path / "model.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), found.module.parameters(), strict=True))


def test_weights_that_overflow_in_the_last_step_of_an_epoch_are_not_kept():
    plan = TrainingPlan(rate=1e38, batch=60, momentum=0)
    found = trained(linear(3).float(), blobs(classes=2), epochs=3, plan=plan)
    assert "is not a number" in found.stopped
    assert all(torch.isfinite(parameter).all() for parameter in found.module.parameters())


# Weights


def test_the_moving_average_is_returned():
    plan = TrainingPlan(rate=0.1, batch=60, momentum=0)
    a, b, c = (trained(linear(3), blobs(classes=2), epochs=n, plan=plan).module.weight for n in (1, 2, 3))
    averaged = changed(plan, average=0.5)
    one, three = (trained(linear(3), blobs(classes=2), epochs=n, plan=averaged).module.weight for n in (1, 3))
    torch.testing.assert_close(one, a)
    torch.testing.assert_close(three, 0.25 * a + 0.25 * b + 0.5 * c)


def test_a_training_starts_from_the_given_weights():
    first = trained(epochs=2, plan=changed(PLAN, momentum=0)).module
    slow = trained(first, plan=TrainingPlan(rate=1e-12, batch=16)).module
    torch.testing.assert_close(first[0].weight, slow[0].weight, atol=1e-9, rtol=0)


def test_checkpoints_are_weights_of_the_network_without_its_normalisation(tmp_path):
    model = Normalized(net(), 0.5, 0.25)
    given = {"epochs": 7, "validation": blobs(30, 1), "plan": changed(PLAN, keep_every=5)}
    found = trained(model, **given, out=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        "best.safetensors",
        *(f"epoch-000{n}.safetensors" for n in (1, 3, 5, 7)),
        "latest.safetensors",
        "model.safetensors",
    ]
    for name, module in {
        "model": found.module,
        "epoch-0007": found.module,
        "best": found.best_module,
        "epoch-0003": trained(model, **{**given, "epochs": 3}).module,
    }.items():
        kept = net(seed=9)
        load_weights(kept, tmp_path / f"{name}.safetensors")
        assert same_weights(kept, module.model)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "history.parquet"), found.to_frame())
    assert '"name": "erm"' in (tmp_path / "training.json").read_text()


def test_the_rate_follows_the_schedule():
    steps, cosine = (
        [epoch.rate for epoch in trained(data=blobs(32), epochs=epochs, plan=changed(PLAN, schedule=kind)).history]
        for epochs, kind in ((4, Schedule("steps", (0.5, 0.75))), (2, Schedule("cosine")))
    )
    assert steps == pytest.approx([0.1, 0.1, 0.01, 0.001])
    assert cosine == pytest.approx([0.05 * (1 + math.cos(math.pi * share)) for share in (0.25, 0.75)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["fat", "adverm", "group_dro", "smooth_adv"])
def test_networks_keep_their_precision(name, dtype):
    found = trained(net(dtype=dtype), blobs(dtype=np.float64), METHODS[name]())
    assert {part.dtype for part in found.module.parameters()} == {dtype}


# Data


def test_a_users_own_method_trains_and_its_folder_can_be_continued(tmp_path):
    found, plain = trained(method=LabelSmoothing(0.5), epochs=3, out=tmp_path), trained(epochs=3)
    assert [name for name, _ in found.history[0].terms] == ["loss", "all"]
    confidence = lambda each: each(torch.as_tensor(blobs().x)).softmax(1).amax(1).mean()  # noqa: E731
    assert confidence(found.module) < confidence(plain.module)
    again = trained(method=LabelSmoothing(0.5), epochs=3, out=tmp_path)
    assert same_weights(found.module, again.module)
    with pytest.raises(ValueError, match="holds another training"):
        trained(method=LabelSmoothing(0.4), epochs=3, out=tmp_path)


def test_labels_may_be_text_and_the_classifier_returns_them():
    data = blobs(60)
    named = Dataset(data.x, np.array(["ant", "bee", "cow"])[data.y], domain=data.domain)
    text, numbers = (trained(data=each, epochs=3) for each in (named, data))
    assert text.classifier.classes == ("ant", "bee", "cow")
    assert same_weights(text.module, numbers.module)
    assert text.history[0].worst_group in ("ant", "bee", "cow")


def test_data_that_are_read_batch_by_batch_give_the_same_weights(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 255, (40, 1, 4, 4), dtype=np.uint8)
    floats, y = images.astype(np.float32) / np.float32(255), np.arange(40) % 2
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "floats.npy", floats)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    pixels, mapped = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("images", "floats"))
    whole = trained(model, Dataset(floats, y, domain=Domain(0, 1)), epochs=2).module
    monkeypatch.setattr(loop_data, "_BYTES_IN_MEMORY", 0)
    for x in (Pixels(pixels), mapped, floats[::-1][::-1]):
        assert same_weights(whole, trained(model, Dataset(x, y, domain=Domain(0, 1)), epochs=2).module)


def test_memory_mapped_data_are_not_written_to(tmp_path):
    data, method = blobs(), parse_method("madry:radius=0.1,steps=1")
    np.save(tmp_path / "x.npy", data.x)
    mapped = Dataset(np.load(tmp_path / "x.npy", mmap_mode="r"), data.y, domain=data.domain)
    with warnings.catch_warnings(action="error"):  # torch warns of read-only memory
        found = trained(data=mapped, method=method)
    assert same_weights(found.module, trained(method=method).module)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), data.x)


def test_a_users_own_partition_is_evaluated_on_validation_data():
    data, other = blobs(), blobs(30, 1)
    crossed, there = (each.partition("kind") & each.partition("class") for each in (data, other))
    found = trained(partition=crossed, validation=other, validation_partition=there)
    assert 0 <= found.history[0].worst_natural <= found.history[0].natural
