"""The loop that every method shares."""

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
from fairmargin.core.partition import Partition
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
from tests.training.problems import blobs, changed, linear, same_weights, tiny, weights

PLAN = TrainingPlan(rate=0.1, batch=16)


def net(seed=0, classes=3, dtype=torch.float32):
    return tiny(normed=True, classes=classes, seed=seed, dtype=dtype)


@dataclass(frozen=True)
class LabelSmoothing:
    """A researcher's own method, in ten lines: (1 − a)·CE(f(x), y) + a·mean_k CE(f(x), k)."""

    amount: float = 0.1

    def recipe(self, epoch, epochs):
        return Recipe.of(Term(CrossEntropy(), weight=1 - self.amount), Term(ToAll(), weight=self.amount, name="all"))


@dataclass(frozen=True)
class ToAll:
    def __call__(self, views):
        to_all = -views.scores("clean").log_softmax(dim=1).mean(dim=1)
        return replace(CrossEntropy()(views), values=to_all)


@pytest.fixture
def three_threads():
    """A process in which torch has three threads; restored afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("asked", "used"), [(1, 1), (2, 2), (0, 3)])
def test_a_training_runs_on_the_threads_of_its_plan_and_restores_the_others(three_threads, tmp_path, asked, used):
    seen = set()
    look = lambda *_: seen.add(torch.get_num_threads())  # noqa: E731
    train(
        net(), blobs(), ERM(), epochs=2, plan=changed(PLAN, threads=asked), out=tmp_path, progress=look, on_epoch=look
    )
    assert seen == {used}
    assert torch.get_num_threads() == 3
    assert json.loads((tmp_path / "training.json").read_text())["threads"] == used


def test_a_training_that_fails_restores_the_threads(three_threads):
    def fail(_epoch):
        raise LookupError

    with pytest.raises(LookupError):
        train(net(), blobs(), ERM(), epochs=1, plan=changed(PLAN, threads=1), on_epoch=fail)
    assert torch.get_num_threads() == 3


def trained_weights(threads):
    """Train in whatever process calls this; a network whose sums are split among threads."""
    data = blobs(600)
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(data.x.shape[1], 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 3)
    )
    plan = TrainingPlan(rate=0.1, batch=256, threads=threads)
    found = train(network, data, ERM(), epochs=3, plan=plan).module
    return {name: value.numpy() for name, value in found.state_dict().items()}


@pytest.mark.parametrize("threads", [1, 2])
def test_serial_and_processes_train_the_same_weights(three_threads, threads):
    task = Task("a", trained_weights, (threads,))
    ((_, here),) = Serial().run([task])
    ((_, there),) = Processes(workers=1).run([task])
    assert all(np.array_equal(here[name], there[name]) for name in here)


def test_a_method_of_ten_lines_trains_and_its_folder_can_be_continued(tmp_path):
    data = blobs()
    found = train(net(), data, LabelSmoothing(0.5), epochs=3, plan=PLAN, out=tmp_path)
    assert [name for name, _ in found.history[0].terms] == ["loss", "all"]
    plain = train(net(), data, ERM(), epochs=3, plan=PLAN)
    confidence = lambda each: each(torch.as_tensor(data.x)).softmax(1).amax(1).mean()  # noqa: E731
    assert confidence(found.module) < confidence(plain.module)
    again = train(net(), data, LabelSmoothing(0.5), epochs=3, plan=PLAN, out=tmp_path)
    assert same_weights(found.module, again.module)
    with pytest.raises(ValueError, match="holds another training"):
        train(net(), data, LabelSmoothing(0.4), epochs=3, plan=PLAN, out=tmp_path)


def test_the_same_seed_gives_the_same_weights_and_another_one_others():
    method, data = parse_method("fat:radius=0.1,steps=2"), blobs()
    one, same, other = (
        train(net(), data, method, epochs=2, plan=changed(PLAN, seed=seed)).module for seed in (0, 0, 1)
    )
    assert same_weights(one, same)
    assert not same_weights(one, other)


def test_a_training_learns_and_its_history_says_how():
    data = blobs(90)
    heard, told = [], []
    found = train(
        net(),
        data,
        ERM(),
        epochs=12,
        partition="kind",
        validation=blobs(60, 1),
        plan=changed(PLAN, watch_radius="1/50"),
        on_epoch=heard.append,
        progress=lambda *what: told.append(what),
    )
    first, last = found.history[0], found.history[-1]
    assert last.loss < 0.5 * first.loss
    assert last.accuracy > 0.8
    assert last.worst_accuracy <= last.accuracy
    assert last.worst_group == "rare"
    assert last.worst_robust <= last.worst_natural <= 1
    assert last.robust <= last.natural
    assert tuple(heard) == found.history
    assert dict(last.terms)["loss"] == last.loss
    steps = [what for what in told if "loss" in what[0]]
    assert set(range(6, 73, 6)) <= {done for _, done, _ in steps}, "the end of every epoch is told"
    assert steps[-1][1:] == (72, 72)
    assert "epoch 12 of 12: loss 0." in steps[-1][0]
    assert "worst group" in steps[-1][0]
    assert any("evaluating validation data" in what for what, _, _ in told)
    frame = found.to_frame()
    assert list(frame["epoch"]) == list(range(1, 13))
    assert frame["term loss"].tolist() == frame["loss"].tolist()


def test_the_best_epoch_is_the_one_with_the_best_worst_group():
    asked = {"epochs": 6, "partition": "kind", "validation": blobs(60, 1)}
    found = train(net(), blobs(), ERM(), **asked, plan=changed(PLAN, watch_radius=0.05, watch="pgd:steps=3"))
    robust = [epoch.worst_robust for epoch in found.history]
    assert robust[found.best_epoch - 1] == max(robust)
    assert found.history[found.best_epoch - 1].watched == max(epoch.watched for epoch in found.history)
    shorter = train(net(), blobs(), ERM(), **{**asked, "epochs": found.best_epoch}, plan=PLAN)
    assert same_weights(shorter.module, found.best_module)


def test_without_validation_data_there_is_no_best_epoch():
    found = train(net(), blobs(), ERM(), epochs=2, plan=PLAN)
    assert (found.best_epoch, found.best_module) == (0, None)
    assert math.isnan(found.history[0].natural)


def test_stops_early_when_the_worst_groups_robust_accuracy_no_longer_rises():
    plan = changed(PLAN, watch_radius=0.05, watch="pgd:steps=2", patience=3)
    found = train(net(), blobs(), ERM(), epochs=60, validation=blobs(60, 1), plan=plan)
    robust = [epoch.worst_robust for epoch in found.history]
    assert found.stopped.startswith(f"Stopped after epoch {len(robust)} of 60")
    assert len(robust) < 60
    assert len(robust) - found.best_epoch == 3
    assert max(robust) == robust[found.best_epoch - 1]
    assert found.stopped.endswith(f"since epoch {found.best_epoch}.")


@dataclass(frozen=True)
class Breaks:
    """Cross-entropy that is NaN from some epoch on."""

    since: int

    def recipe(self, epoch, epochs):
        return Recipe.of(Term(CrossEntropy(), weight=math.nan if epoch >= self.since else 1.0))


@pytest.mark.parametrize("plan", [PLAN, changed(PLAN, average=0.9), changed(PLAN, optimizer="adam")])
@pytest.mark.parametrize("since", [0, 2])
def test_a_loss_that_is_no_number_stops_with_the_weights_of_the_last_whole_epoch(since, plan, tmp_path):
    found = train(net(), blobs(), Breaks(since), epochs=4, plan=plan, out=tmp_path)
    where = f"after epoch {since}" if since else "at the start"
    assert f"Stopped in epoch {since + 1} after 0 steps: the loss or a weight is not a number" in found.stopped
    assert f"The weights are those {where}." in found.stopped
    assert len(found.history) == since
    expected = net() if since == 0 else train(net(), blobs(), ERM(), epochs=since, plan=plan).module
    assert same_weights(found.module, expected)
    kept = net(seed=5)
    load_weights(kept, tmp_path / "model.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), found.module.parameters(), strict=True))


def test_weights_that_overflow_in_the_last_step_of_an_epoch_are_not_kept(tmp_path):
    plan = TrainingPlan(rate=1e38, batch=60, momentum=0)
    found = train(linear(3).float(), blobs(classes=2), ERM(), epochs=3, plan=plan, out=tmp_path)
    assert "is not a number" in found.stopped
    assert all(torch.isfinite(parameter).all() for parameter in found.module.parameters())


def test_a_moving_average_is_what_is_validated_and_returned():
    plan = TrainingPlan(rate=0.1, batch=60, average=0.5, momentum=0)
    one, three = (train(linear(3), blobs(classes=2), ERM(), epochs=n, plan=plan).module for n in (1, 3))
    plain = [
        train(linear(3), blobs(classes=2), ERM(), epochs=n, plan=TrainingPlan(rate=0.1, batch=60, momentum=0))
        for n in (1, 2, 3)
    ]
    a, b, c = (found.module.weight for found in plain)
    torch.testing.assert_close(one.weight, a)
    torch.testing.assert_close(three.weight, 0.25 * a + 0.25 * b + 0.5 * c)


def test_a_warm_start_begins_at_the_weights_given():
    first = train(net(), blobs(), ERM(), epochs=2, plan=changed(PLAN, momentum=0)).module
    slow = train(first, blobs(), ERM(), epochs=1, plan=TrainingPlan(rate=1e-12, batch=16)).module
    torch.testing.assert_close(first[0].weight, slow[0].weight, atol=1e-9, rtol=0)


def test_checkpoints_are_weights_that_fit_the_network(tmp_path):
    model = Normalized(net(), 0.5, 0.25)
    asked = {"epochs": 7, "validation": blobs(30, 1), "plan": changed(PLAN, keep_every=5)}
    found = train(model, blobs(), ERM(), **asked, out=tmp_path)
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
        "epoch-0003": train(model, blobs(), ERM(), **{**asked, "epochs": 3}).module,
    }.items():
        kept = net(seed=9)
        load_weights(kept, tmp_path / f"{name}.safetensors")
        assert same_weights(kept, module.model)
    frame = pd.read_parquet(tmp_path / "history.parquet")
    pd.testing.assert_frame_equal(frame, found.to_frame())
    assert '"name": "erm"' in (tmp_path / "training.json").read_text()


def test_every_group_may_be_missing_from_a_batch():
    data = blobs(40)
    lonely = Partition("lonely", ("one", "others"), [0] + [1] * 39)
    for name in METHODS:
        steps = {"steps": 1} if "steps" in METHODS[name].__dataclass_fields__ else {}
        if name == "farmur":
            continue  # BatchNorm cannot learn from a part of one sample: see the refusals
        found = train(net(), data, METHODS[name](**steps), epochs=2, partition=lonely, plan=changed(PLAN, batch=8))
        assert math.isfinite(found.history[-1].loss)


def test_labels_may_be_text_and_the_classifier_speaks_it():
    data = blobs(60)
    named = Dataset(data.x, np.array(["ant", "bee", "cow"])[data.y], domain=data.domain)
    text, numbers = (train(net(), each, ERM(), epochs=3, plan=PLAN) for each in (named, data))
    assert text.classifier.classes == ("ant", "bee", "cow")
    assert same_weights(text.module, numbers.module)
    assert text.history[0].worst_group in ("ant", "bee", "cow")


def test_a_network_may_know_classes_that_the_data_lack():
    found = train(net(classes=5), blobs(), ERM(), epochs=1, plan=PLAN)
    assert found.classifier.classes == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["fat", "adverm", "group_dro", "smooth_adv"])
def test_networks_of_either_precision_keep_it(name, dtype):
    found = train(net(dtype=dtype), blobs(dtype=np.float64), METHODS[name](), epochs=1, plan=PLAN)
    assert {part.dtype for part in found.module.parameters()} == {dtype}


def test_data_too_large_for_memory_are_read_batch_by_batch_with_the_same_result(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 255, (40, 1, 4, 4), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    y = np.arange(40) % 2
    on_disk = np.load(tmp_path / "images.npy", mmap_mode="r")
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    floats = images.astype(np.float32) / np.float32(255)
    np.save(tmp_path / "floats.npy", floats)
    found = [train(model, Dataset(floats, y, domain=Domain(0, 1)), ERM(), epochs=2, plan=PLAN)]
    monkeypatch.setattr(loop_data, "_BYTES_IN_MEMORY", 0)
    for x in (Pixels(on_disk), np.load(tmp_path / "floats.npy", mmap_mode="r"), floats[::-1][::-1]):
        found.append(train(model, Dataset(x, y, domain=Domain(0, 1)), ERM(), epochs=2, plan=PLAN))
    assert all(same_weights(found[0].module, other.module) for other in found[1:])


def test_memory_mapped_data_are_not_written_to(tmp_path):
    data = blobs()
    np.save(tmp_path / "x.npy", data.x)
    mapped = Dataset(np.load(tmp_path / "x.npy", mmap_mode="r"), data.y, domain=data.domain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of read-only memory
        found = train(net(), mapped, parse_method("madry:radius=0.1,steps=1"), epochs=1, plan=PLAN)
    assert same_weights(
        found.module, train(net(), data, parse_method("madry:radius=0.1,steps=1"), epochs=1, plan=PLAN).module
    )
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), data.x)


def test_a_partition_of_ones_own_is_watched_on_validation_data_too():
    data, other = blobs(), blobs(30, 1)
    crossed, there = (each.partition("kind") & each.partition("class") for each in (data, other))
    found = train(
        net(), data, ERM(), epochs=1, partition=crossed, validation=other, validation_partition=there, plan=PLAN
    )
    assert 0 <= found.history[0].worst_natural <= found.history[0].natural


def test_the_rate_follows_the_schedule():
    plan = changed(PLAN, schedule=Schedule("steps", (0.5, 0.75)))
    found = train(net(), blobs(32), ERM(), epochs=4, plan=plan)
    assert [epoch.rate for epoch in found.history] == pytest.approx([0.1, 0.1, 0.01, 0.001])
    found = train(net(), blobs(32), ERM(), epochs=2, plan=changed(PLAN, schedule=Schedule("cosine")))
    assert [epoch.rate for epoch in found.history] == pytest.approx(
        [0.05 * (1 + math.cos(math.pi * share)) for share in (0.25, 0.75)]
    )


def test_parameters_that_ask_for_no_gradient_stay():
    model = net()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    found = train(model, blobs(), ERM(), epochs=2, plan=PLAN)
    before, after = weights(model), weights(found.module)
    assert torch.equal(before["0.weight"], after["0.weight"])
    assert not torch.equal(before["3.weight"], after["3.weight"])


def test_epochs_whose_worst_group_is_never_right_are_told_apart_by_everyone():
    usual = {"rate": 0.1, "seconds": 1.0, "loss": 1.0, "terms": (), "accuracy": 0.5, "worst_group": "a"}
    early, late, fair = (
        Epoch(epoch=1, worst_accuracy=0, natural=n, robust=r, worst_natural=0, worst_robust=w, **usual)
        for n, r, w in ((0.4, 0.1, 0.0), (0.4, 0.3, 0.0), (0.2, 0.1, 0.05))
    )
    assert early.watched < late.watched < fair.watched
