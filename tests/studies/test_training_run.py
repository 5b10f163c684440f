"""A training from names to weights: what is kept apart, what is begun with, what is audited, what is refused early."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from fairmargin.core.partition import Partition
from fairmargin.data.catalog import load
from fairmargin.data.dataset import Dataset
from fairmargin.engine.local import Serial
from fairmargin.errors import InputError, StoreError
from fairmargin.inference.measures import sign_agreement
from fairmargin.models.weights import load_weights
from fairmargin.studies.epoch_audits import check_question
from fairmargin.studies.paper_settings import PAPERS, Wishes, descent
from fairmargin.studies.training_data import build_network, held_out, load_training_data, prepared
from fairmargin.studies.training_run import FinishedTraining, audit_arguments, run_training
from fairmargin.studies.training_study import EpochQuestion, TrainingStudy, make_method, make_subject, watching
from fairmargin.training.plan import TrainingPlan

QUICK = TrainingPlan(rate=0.01, optimizer="adam", batch=16)  # so that a few epochs learn something


def silent(_what, _done, _total):
    return None


def digits(**changes):
    fields = {"data": "digits", "per_group": 30} | changes.pop("subject", {})
    return replace(
        TrainingStudy(make_subject("small_cnn", fields), make_method("erm", []), 3, QUICK),
        **changes,
    )


def run(study, out, **more) -> FinishedTraining:
    return run_training(study, out, Serial(), **more)


# What is kept apart. -------------------------------------------------------------------------------------------------


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
    found = [load_training_data(digits(plan=TrainingPlan(seed=seed)), silent) for seed in (0, 7)]
    assert found[0].validation.fingerprint == found[1].validation.fingerprint
    rows = {row.tobytes() for row in np.asarray(found[0].training.x)}
    assert not any(row.tobytes() in rows for row in np.asarray(found[0].validation.x))
    assert len(found[0].training) + len(found[0].validation) == 300


def test_validation_can_be_a_split_or_nothing():
    assert load_training_data(digits(validation="0"), silent).validation is None
    assert len(load_training_data(digits(validation="test"), silent).validation) == 719


def test_labels_that_are_names_become_positions_in_the_order_of_the_training_data():
    study = digits()
    training = prepared(study, Dataset([[0.0], [1.0], [2.0]], ["b", "c", "a"]))
    assert training.class_names == ("a", "b", "c")
    further = prepared(study, Dataset([[0.0], [1.0]], ["c", "b"]), training.class_names)
    assert further.y.tolist() == [2, 1]
    with pytest.raises(InputError, match="Label 'd' is none of the classes"):
        prepared(study, Dataset([[0.0]], ["d"]), training.class_names)


def test_images_without_limits_lie_between_0_and_1_as_for_an_audit():
    found = prepared(digits(), Dataset(np.zeros((2, 1, 4, 4)), [0, 1]))
    assert (float(found.domain.low), float(found.domain.high)) == (0.0, 1.0)


# What is begun with. -------------------------------------------------------------------------------------------------


def test_the_network_to_begin_with_follows_from_the_seed_and_leaves_the_global_randomness_alone():
    data = load_training_data(digits(), silent)
    before = torch.random.get_rng_state()
    weights = [
        torch.cat([p.flatten() for p in build_network(digits(plan=TrainingPlan(seed=seed)), data).parameters()])
        for seed in (1, 1, 2)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_paper_says_how_long_and_options_beside_it_win():
    found = descent(Wishes(epochs=12, batch=16), "ma")
    assert (found.epochs, found.batch, found.rate, found.weight_decay) == (12, 16, 0.1, 2e-4)
    assert [round(found.schedule.factor(epoch, 12), 6) for epoch in (5, 6, 7, 8)] == [1.0, 0.1, 0.1, 0.01]
    whole = descent(Wishes(), "ma")
    assert [round(whole.schedule.factor(epoch, 120), 6) for epoch in (59, 60, 79, 80)] == [1.0, 0.1, 0.1, 0.01]
    assert (descent(Wishes(), "nanda").batch, descent(Wishes(), "mousavi").batch) == (28, 64)
    assert (descent(Wishes(), "tran").epochs, descent(Wishes(), "tran-faces").epochs) == (200, 70)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_settings_of_every_paper_are_a_plan(paper):
    found = descent(Wishes(), paper)
    TrainingPlan(rate=found.rate, momentum=found.momentum, batch=found.batch, schedule=found.schedule)


def test_without_epochs_or_a_paper_one_is_asked_how_long():
    with pytest.raises(InputError, match="How long"):
        descent(Wishes(rate=0.1))


@pytest.mark.parametrize(
    ("method", "settings", "attack", "radius", "expected"),
    [
        ("madry", ["radius=1/4"], "", "", ("pgd:steps=10,norm=linf", 0.25)),
        ("trades", ["radius=0.5", "norm=l2"], "", "", ("pgd:steps=10,norm=l2", 0.5)),
        ("madry", ["radius=0.25"], "pgd:norm=l2", "", ("pgd:norm=l2", 0.0)),  # its radius is of another norm
        ("madry", ["radius=0.25"], "fgsm", "1/8", ("fgsm", 0.125)),
        ("erm", [], "", "", ("pgd:steps=10", 0.0)),
        ("adverm", ["radius=0.5"], "", "", ("pgd:steps=10", 0.0)),  # its radius is of no attack
        ("madry", ["radius=0.25"], "", "0", ("pgd:steps=10,norm=linf", 0.0)),
    ],
)
def test_validation_data_are_attacked_at_the_methods_own_radius_where_the_norm_is_its_own(
    method, settings, attack, radius, expected
):
    assert watching(make_method(method, settings), attack, radius) == expected


# What is found. ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    out = tmp_path_factory.mktemp("audited") / "run"
    question = EpochQuestion(
        ("first", "middle", "last", "best", "2"), "test", ("first_order",), per_group=20, resamples=200
    )
    study = digits(epochs=4, plan=replace(QUICK, keep_every=2), question=question)
    return study, run(study, out)


def test_epochs_are_audited_with_the_weights_that_they_had(audited):
    study, finished = audited
    found = {audit.epoch: audit for audit in finished.audits.audits}
    assert "first" in found[1].words
    assert {"middle", "2"} <= set(found[2].words)
    assert "last" in found[4].words
    assert "best" in found[finished.result.best_epoch].words
    test = load("digits", split="test").sample(per_group=20)
    for epoch in (1, 2, 4):
        network = build_network(study, load_training_data(study, silent)).eval()
        load_weights(network, finished.result.folder / f"epoch-{epoch:04d}.safetensors")
        with torch.no_grad():
            answers = network(torch.as_tensor(test.x, dtype=torch.float32)).argmax(dim=1).numpy()
        assert found[epoch].result.overall.accuracy.value == pytest.approx((answers == test.y).mean())
    assert found[4].result.overall.accuracy.value > found[1].result.overall.accuracy.value


def test_audits_are_kept_with_intervals_and_the_epochs_compared_by_the_signs_of_sigma(audited):
    _, finished = audited
    folder, audits = finished.result.folder, finished.audits.audits
    table = pd.read_csv(folder / "audits.csv")
    assert set(table["epoch"]) == {audit.epoch for audit in audits}
    known = table.dropna(subset=["sigma_high"])  # a group that is never right has no interval
    assert len(known) > 10
    assert known["sigma"].between(known["sigma_low"], known["sigma_high"]).all()
    kept = json.loads((folder / "audits.json").read_text())
    assert [each["epoch"] for each in kept["audits"]] == [audit.epoch for audit in audits]
    pairs = {(each["earlier"], each["later"]): each["found"] for each in kept["agreement"]}
    assert len(pairs) == len(audits) * (len(audits) - 1) // 2
    sigma = {audit.epoch: {row.group: row.sigma.value for row in audit.result} for audit in audits}
    assert pairs[1, 4]["share"] == sign_agreement(sigma[1], sigma[4]).share


def test_a_finished_training_is_only_read_and_its_epochs_are_not_measured_again(audited, monkeypatch):
    study, finished = audited
    monkeypatch.setattr(Serial, "run", lambda _self, tasks: pytest.fail("measured again") if list(tasks) else iter(()))
    heard = []
    again = run(study, finished.result.folder, on_epoch=heard.append)
    assert (heard, again.trained_now) == ([], 0)
    assert again.result.to_frame().equals(finished.result.to_frame())
    assert [a.result.to_json() for a in again.audits.audits] == [a.result.to_json() for a in finished.audits.audits]


def test_audits_can_be_asked_for_after_the_training(tmp_path):
    study = digits(epochs=2)
    run(study, tmp_path / "run")
    later = replace(study, question=EpochQuestion(("last",), "validation", ("softmax_margin",), resamples=200))
    finished = run(later, tmp_path / "run")
    assert finished.trained_now == 0
    (audit,) = finished.audits.audits
    assert audit.result.overall.size == 30
    assert audit.result.overall.accuracy.value == pytest.approx(finished.result.history[-1].natural)


def test_a_folder_says_what_was_asked_and_on_which_data(tmp_path):
    finished = run(digits(epochs=1), tmp_path / "run", command="fairmargin train …")
    about = json.loads((finished.result.folder / "training_run.json").read_text())
    assert about["command"] == "fairmargin train …"
    assert about["asked"]["data"] == "digits"
    assert (about["data"]["samples"], about["validation"]["samples"]) == (270, 30)
    assert about["versions"]["torch"]


def test_another_training_in_the_same_folder_is_refused_and_the_difference_named(tmp_path):
    run(digits(epochs=1), tmp_path / "run")
    other = digits(epochs=1, plan=replace(QUICK, rate=0.02))
    with pytest.raises(StoreError, match=r"differs in rate \(0.01, now 0.02\)"):
        run(other, tmp_path / "run")


def test_a_folder_that_holds_an_audit_is_refused(tmp_path):
    (tmp_path / "store.json").write_text("{}")
    with pytest.raises(StoreError, match="holds an audit"):
        run(digits(epochs=1), tmp_path)


def test_a_crossed_partition_is_trained_validated_and_audited_by_its_intersections(tmp_path):
    study = digits(
        subject={"cross": (("ink", "digit"),), "per_group": 40},
        epochs=1,
        question=EpochQuestion(("last",), "validation", ("softmax_margin",), resamples=200),
    )
    finished = run(study, tmp_path / "run")
    assert finished.audits.audits[0].result.partition == "ink & digit"
    assert "ink=" in finished.result.history[0].worst_group
    assert audit_arguments(study, tmp_path)[-4:-2] == ["--cross", "ink,digit"]


# What is refused before anything is trained. -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"question": EpochQuestion(("frist",))}, "Did you mean 'first'"),
        ({"question": EpochQuestion(("9",))}, "there is no epoch 9 among 3"),
        ({"epochs": 10, "question": EpochQuestion(("4",))}, "weights of epoch 4 are not kept"),
        ({"question": EpochQuestion(("best",)), "validation": "0"}, "--validation 0 leaves none"),
        ({"question": EpochQuestion((), "test")}, "add --audit-epochs"),
        ({"question": EpochQuestion(("last",), "", ("plum",))}, "Did you mean 'plumb'"),
        ({"question": EpochQuestion(("last",), confidence=2.0)}, "confidence"),
    ],
)
def test_a_question_about_epochs_that_cannot_be_answered_is_refused_before_training(changes, said):
    with pytest.raises(InputError, match=said):
        check_question(digits(**changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"validation": "0", "plan": TrainingPlan(patience=3)}, "--patience watches validation data"),
        (
            {"validation": "0", "method": make_method("farmur", ["found_on=validation"])},
            "Validation data are asked for",
        ),
        ({"epochs": 0}, "--epochs must be 1 or more"),
    ],
)
def test_a_study_that_contradicts_itself_is_refused(changes, said):
    with pytest.raises(InputError, match=said):
        digits(**changes)


@pytest.mark.parametrize(("validation", "said"), [("1.5", "from 0 to below 1"), ("tset", "no file 'tset'")])
def test_validation_that_is_neither_share_nor_split_nor_file_is_refused(validation, said):
    with pytest.raises(InputError, match=said):
        load_training_data(replace(digits(), validation=validation), silent)


def test_the_class_is_grouped_by_if_the_label_column_is_named():
    subject = make_subject("logistic", {"data": "people.csv", "label": "hired", "groups": ("hired",)})
    assert TrainingStudy(subject, make_method("erm", []), 1).groups == "class"
