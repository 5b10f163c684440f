"""A training from its options to weights: validation data, initial weights and audits of epochs."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fairmargin.core.partition import Partition
from fairmargin.data.catalog import load
from fairmargin.data.dataset import Dataset
from fairmargin.engine.local import Processes, Serial
from fairmargin.errors import InputError, StoreError
from fairmargin.inference.agreement import sign_agreement
from fairmargin.models.reading.weights import load_weights
from fairmargin.runner.run import run as carry_out
from fairmargin.runner.trainer import make_method, prepare_training, watching
from fairmargin.runner.training_data import (
    DataLoader,
    build_network,
    groups_name,
    held_out,
    load_training_data,
    prepared,
)
from fairmargin.store.folder import Store
from fairmargin.study.options import (
    AuditOptions,
    DataOptions,
    EpochOptions,
    GroupOptions,
    ModelOptions,
    TrainOptions,
)
from fairmargin.study.paper_settings import PAPERS
from fairmargin.study.record import RunRecord
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study import Study
from fairmargin.training.plan import TrainingPlan

DIGITS = DataOptions(data="digits", per_group=30)
QUICK = {"rate": 0.01, "optimizer": "adam", "batch": 16}  # so that a few epochs learn something
NO_GROUPS = GroupOptions()


def study(*, train=None, **parts) -> Study:
    options = TrainOptions(**{"arch": "small_cnn", "epochs": 3, **QUICK, **(train or {})})
    return Study(**{"data": DIGITS, "train": options, **parts})


def at(*epochs, estimator, **more) -> dict:
    """Return the parts of a study that audit these epochs."""
    audit = AuditOptions(estimator=estimator, resamples=200)
    return {"audit": audit, "epochs": EpochOptions(audit_epochs=epochs, **more)}


def run(asked: Study, out: Path, engine=None, **more) -> RunRecord:
    return carry_out(asked, RunFolder(out), engine or Serial(), **more)[0]


def training_data(**train):
    return load_training_data(DIGITS, NO_GROUPS, TrainOptions(epochs=1, **train))


def network(data, seed=0):
    return build_network(ModelOptions(model="arch:small_cnn"), "digits", data, seed)


def audits_of(record):
    return {int(stored.about.epoch.split()[0]): (stored, result) for stored, result in record.of_kind("audit")}


# Validation data. ----------------------------------------------------------------------------------------------------


def test_every_class_and_in_it_every_group_gives_its_share_to_validation():
    random = np.random.default_rng(0)
    y, group = random.integers(0, 4, 2000), random.choice(["a", "b", "c"], 2000, p=[0.7, 0.2, 0.1])
    kept = held_out(y, Partition.by("group", group), 0.2)
    for label in range(4):
        mine = y == label
        assert kept[mine].sum() == round(0.2 * mine.sum())
        for name in "abc":
            both = mine & (group == name)
            assert abs(kept[both].sum() - 0.2 * both.sum()) <= 1


def test_a_class_of_two_has_one_on_each_side_and_a_single_sample_is_trained_on():
    y = np.array([0, 0, 1] + [2] * 30)
    kept = held_out(y, Partition.by("class", y), 0.1)
    assert [int(kept[y == label].sum()) for label in range(3)] == [1, 0, 3]


def test_validation_samples_are_no_training_samples_and_do_not_depend_on_the_seed():
    found = [prepare_training(*study(seed=seed).members, DataLoader()).job.data for seed in (0, 7)]
    assert found[0].validation.fingerprint == found[1].validation.fingerprint
    rows = {row.tobytes() for row in np.asarray(found[0].training.x)}
    assert not any(row.tobytes() in rows for row in np.asarray(found[0].validation.x))
    assert len(found[0].training) + len(found[0].validation) == 300


def test_validation_can_be_a_split_or_nothing():
    assert training_data(validation="0").validation is None
    assert len(training_data(validation="test").validation) == 719


def test_labels_that_are_names_become_positions_in_the_order_of_the_training_data():
    training = prepared(Dataset([[0.0], [1.0], [2.0]], ["b", "c", "a"]), NO_GROUPS)
    assert training.class_names == ("a", "b", "c")
    further = prepared(Dataset([[0.0], [1.0]], ["c", "b"]), NO_GROUPS, training.class_names)
    assert further.y.tolist() == [2, 1]
    with pytest.raises(InputError, match="Label 'd' is none of the classes"):
        prepared(Dataset([[0.0]], ["d"]), NO_GROUPS, training.class_names)


def test_images_without_limits_lie_between_0_and_1_as_for_an_audit():
    found = prepared(Dataset(np.zeros((2, 1, 4, 4)), [0, 1]), NO_GROUPS)
    assert (float(found.domain.low), float(found.domain.high)) == (0.0, 1.0)


# Initial weights and settings. ---------------------------------------------------------------------------------------


def test_the_network_to_begin_with_follows_from_the_seed_and_leaves_the_global_randomness_alone():
    data = training_data()
    before = torch.random.get_rng_state()
    weights = [torch.cat([p.flatten() for p in network(data, seed).parameters()]) for seed in (1, 1, 2)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_paper_says_how_long_and_options_beside_it_win():
    found = TrainOptions(settings_of="ma", epochs=12, batch=16)
    assert (found.epochs, found.batch, found.rate, found.weight_decay) == (12, 16, 0.1, 2e-4)
    assert [round(found.schedule.factor(epoch, 12), 6) for epoch in (5, 6, 7, 8)] == [1.0, 0.1, 0.1, 0.01]
    whole = TrainOptions(settings_of="ma")
    assert [round(whole.schedule.factor(epoch, 120), 6) for epoch in (59, 60, 79, 80)] == [1.0, 0.1, 0.1, 0.01]
    assert [TrainOptions(settings_of=paper).batch for paper in ("nanda", "mousavi")] == [28, 64]
    assert [TrainOptions(settings_of=paper).epochs for paper in ("tran", "tran-faces")] == [200, 70]


@pytest.mark.parametrize("paper", PAPERS)
def test_the_settings_of_every_paper_are_a_plan(paper):
    plan = TrainingPlan(**TrainOptions(settings_of=paper).descent())
    assert plan.rate == PAPERS[paper].fields["rate"]


@pytest.mark.parametrize("given", [{}, {"rate": 0.01}, {"momentum": 0.9, "epochs": 7}, {"weight_decay": 0}])
def test_options_beside_a_paper_survive_a_round_trip_also_where_they_are_defaults(given):
    asked = TrainOptions(settings_of="ma", **given)
    again = TrainOptions(**asked.model_dump(mode="json", exclude_defaults=True))
    assert again == asked
    assert all(getattr(again, name) == value for name, value in given.items())
    assert again.settings_sentence == asked.settings_sentence


@pytest.mark.parametrize(
    ("method", "settings", "attack", "radius", "expected"),
    [
        ("madry", ["radius=1/4"], "", None, ("pgd:steps=10,norm=linf", 0.25)),
        ("trades", ["radius=0.5", "norm=l2"], "", None, ("pgd:steps=10,norm=l2", 0.5)),
        ("madry", ["radius=0.25"], "pgd:norm=l2", None, ("pgd:norm=l2", 0.0)),  # its radius is of another norm
        ("madry", ["radius=0.25"], "fgsm", 1 / 8, ("fgsm", 0.125)),
        ("erm", [], "", None, ("pgd:steps=10", 0.0)),
        ("adverm", ["radius=0.5"], "", None, ("pgd:steps=10", 0.0)),  # its radius is of no attack
        ("madry", ["radius=0.25"], "", 0, ("pgd:steps=10,norm=linf", 0.0)),
    ],
)
def test_validation_data_are_attacked_at_the_methods_own_radius_where_the_norm_is_its_own(
    method, settings, attack, radius, expected
):
    assert watching(make_method(TrainOptions(method=method, set=settings, epochs=1)), attack, radius) == expected


# Results. ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    out = tmp_path_factory.mktemp("audited") / "run"
    asked = study(
        train={"epochs": 4, "keep_every": 2},
        **at("first", "middle", "last", "best", "2", estimator="first_order", audit_per_group=20),
    )
    return asked, out, run(asked, out)


def test_epochs_are_audited_with_the_weights_that_they_had(audited):
    _, out, record = audited
    found = audits_of(record)
    course = record.select(kind="training")
    assert found[1][0].about.epoch.startswith("1 (first")
    assert found[2][0].about.epoch.startswith("2 (middle")
    assert found[4][0].about.epoch.startswith("4 (last")
    assert "best" in found[int(course.best)][0].about.epoch
    test = load("digits", split="test").sample(per_group=20)
    for epoch in (1, 2, 4):
        module = network(training_data()).eval()
        load_weights(module, out / f"epoch-{epoch:04d}.safetensors")
        with torch.no_grad():
            answers = module(torch.as_tensor(test.x, dtype=torch.float32)).argmax(dim=1).numpy()
        assert found[epoch][1].overall.accuracy.value == pytest.approx((answers == test.y).mean())
    assert found[4][1].overall.accuracy.value > found[1][1].overall.accuracy.value


def test_an_audit_of_an_epoch_is_selected_by_number_or_name(audited):
    _, _, record = audited
    by_number, by_name = (record.select(partition="class", epoch=epoch) for epoch in (1, "first"))
    assert by_number.to_json() == by_name.to_json() == audits_of(record)[1][1].to_json()
    with pytest.raises(InputError, match=r"no epoch '3'. It has: 1 \(first"):
        record.select(partition="class", epoch=3)


def test_audits_are_kept_with_intervals_and_the_epochs_compared_by_the_signs_of_sigma(audited):
    _, out, record = audited
    audits = audits_of(record)
    table = pd.read_csv(out / "audit.csv")
    assert set(table["epoch"]) == {stored.about.epoch for stored, _ in audits.values()}
    known = table.dropna(subset=["sigma_high"])  # a group that is never right has no interval
    assert len(known) > 10
    assert known["sigma"].between(known["sigma_low"], known["sigma_high"]).all()
    ((_, compared),) = RunFolder(out).read().of_kind("epochs")
    assert compared.epochs == tuple(stored.about.epoch for stored, _ in audits.values())
    pairs = {(int(each.earlier), int(each.later)): each.found for each in compared.agreements}
    assert len(pairs) == len(audits) * (len(audits) - 1) // 2
    sigma = {epoch: {row.group: row.sigma.value for row in result} for epoch, (_, result) in audits.items()}
    assert pairs[1, 4].share == sign_agreement(sigma[1], sigma[4]).share


def test_a_finished_training_is_only_read_and_its_epochs_are_not_measured_again(audited, monkeypatch):
    asked, out, record = audited
    monkeypatch.setattr("fairmargin.training.loop.epochs.sum_up", lambda *_: pytest.fail("trained again"))
    monkeypatch.setattr(Store, "write", lambda *_: pytest.fail("measured again"))
    epochs = []
    kept = (out / "record.json").read_text()
    again = run(asked, out, on_epoch=epochs.append)
    assert epochs == []
    assert [stored for stored, _ in again.of_kind("audit")] == [stored for stored, _ in record.of_kind("audit")]
    assert [r.to_json() for _, r in again.of_kind("training")] == [r.to_json() for _, r in record.of_kind("training")]
    assert json.loads((out / "record.json").read_text())["results"] == json.loads(kept)["results"]


def test_every_epoch_is_told_once_and_the_weights_are_the_same_in_every_engine(tmp_path):
    told = {"serial": [], "processes": []}
    for name, engine in (("serial", Serial()), ("processes", Processes(2))):
        run(study(train={"epochs": 2}), tmp_path / name, engine, on_epoch=told[name].append)
    assert [epoch.epoch for epoch in told["serial"]] == [epoch.epoch for epoch in told["processes"]] == [1, 2]
    assert [epoch.loss for epoch in told["serial"]] == [epoch.loss for epoch in told["processes"]]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in told]
    assert weights[0] == weights[1]


def test_audits_can_be_asked_for_after_the_training_and_stay_when_it_is_run_again(tmp_path):
    asked = study(train={"epochs": 2})
    first = run(asked, tmp_path / "run")
    assert not list(first.of_kind("audit"))
    epochs = []
    later = study(train={"epochs": 2}, **at("last", audit_on="validation", estimator="softmax_margin"))
    record = run(later, tmp_path / "run", on_epoch=epochs.append)
    assert epochs == []
    ((_, audit),) = record.of_kind("audit")
    ((_, course),) = record.of_kind("training")
    assert audit.overall.size == 30
    assert audit.overall.accuracy.value == pytest.approx(course.groups[-1].natural)
    again = run(asked, tmp_path / "run")
    assert [result.to_json() for _, result in again.of_kind("audit")] == [audit.to_json()]
    assert again.study == later


def test_another_training_in_the_same_folder_is_refused_and_the_difference_named(tmp_path):
    run(study(train={"epochs": 1}), tmp_path / "run")
    with pytest.raises(StoreError, match=r"differs in rate \(0.01, now 0.02\)"):
        run(study(train={"epochs": 1, "rate": 0.02}), tmp_path / "run")
    with pytest.raises(StoreError, match=r"differs in group \(\(\), now \('ink',\)\)"):
        run(study(train={"epochs": 1}, groups=GroupOptions(group="ink")), tmp_path / "run")


def test_a_crossed_partition_is_trained_validated_and_audited_by_its_intersections(tmp_path):
    asked = study(
        data=DIGITS.model_copy(update={"per_group": 40}),
        groups=GroupOptions(cross="ink,digit"),
        train={"epochs": 1},
        **at("last", audit_on="validation", estimator="softmax_margin"),
    )
    record = run(asked, tmp_path / "run")
    ((stored, _),) = record.of_kind("audit")
    assert stored.about.partition == "ink & digit"
    assert "ink=" in record.select(kind="training").groups[0].worst_group


def test_a_method_treats_the_first_groups_unless_it_names_others_and_all_groups_are_audited(tmp_path):
    groups = GroupOptions(group=("ink", "class"), merge_below=5)
    for named, expected in (("", "ink"), ("class", "class"), ("ink & digit", "ink & digit")):
        asked = study(
            data=DIGITS.model_copy(update={"per_group": 40, "by": "class"}),
            groups=groups,
            train={"epochs": 1, "method_groups": named},
            **at("last", audit_on="validation", estimator="softmax_margin"),
        )
        record = run(asked, tmp_path / expected.replace(" ", ""))
        assert record.select(kind="training").by == expected
        assert {stored.about.partition for stored, _ in record.of_kind("audit")} == {"ink", "class"}


def test_a_network_with_more_outputs_than_classes_is_trained_and_audited(tmp_path):
    (tmp_path / "net.py").write_text("from torch import nn\n\ndef make():\n    return nn.Linear(64, 12)\n")
    asked = study(
        model=ModelOptions(model=f"{tmp_path / 'net.py'}:make"),
        train={"arch": "", "epochs": 1},
        **at("last", audit_on="validation", estimator="softmax_margin"),
    )
    ((_, audit),) = run(asked, tmp_path / "run").of_kind("audit")
    assert len(audit.groups) == 10


def test_the_class_is_grouped_by_if_the_label_column_is_named():
    assert groups_name(GroupOptions(group="hired"), "hired") == "class"
