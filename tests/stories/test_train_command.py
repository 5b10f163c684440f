"""`fairmargin train`: one command to weights, which `fairmargin audit` reads; it goes on, it stops, it says no."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from fairmargin.training.loop import epochs as loop
from fairmargin.training.loop.epochs import sum_up
from tests.stories.examples import FEATURES, LABEL, QUICK, fairmargin, json_of, refused, succeeded, write_people

START = "from fairmargin.cli import main; main()"
DEADLINE = 120  # seconds until a story is given up: no assertion is about time

FAST = ("--optimizer", "adam", "--rate", "0.01")

NET = """
from torch import nn

def make():
    return nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
"""


def digits(*more: object, method: str = "erm", epochs: int = 2, arch: str = "small_cnn") -> list[object]:
    source = ["--data", "digits", "--arch", arch] if arch else ["--data", "digits"]
    return ["train", *source, "--per-group", 20, "--batch", 32, "--method", method, "--epochs", epochs, *more]


# What a person gets. -------------------------------------------------------------------------------------------------


def test_it_ends_with_a_table_the_weights_and_a_command_that_audits_them(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = digits("--set", "weight=0.5", "--set", "radius=4/255", "--set", "steps=2", method="fat")
    done = succeeded(fairmargin(*command, "--out", run))
    assert "attacked by pgd:steps=10,norm=linf at radius 0.01569" in done.stdout
    assert f"Weights: {run / 'model.safetensors'}" in done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("epoch ")]
    assert [line.partition(",")[0] for line in lines] == ["epoch 1 of 2", "epoch 2 of 2"]
    assert all(word in lines[0] for word in ("loss", "accuracy", "worst group", "validation", "attacked"))
    (said,) = (line for line in done.stdout.splitlines() if line.startswith("Audit them: "))
    program, *arguments = shlex.split(said.removeprefix("Audit them: "))
    assert program == "fairmargin"
    audit = json_of(fairmargin(*arguments, *QUICK, "--estimator", "first_order", "--per-group", 12, "--json"))
    assert [row["group"] for row in audit["audits"][0]["groups"]] == [str(digit) for digit in range(10)]


def test_the_audit_of_the_weights_sees_the_network_that_was_trained_normalisation_and_all(tmp_path: Path) -> None:
    run = tmp_path / "run"
    common = ["--mean", "0.3", "--std", "0.4", *FAST, "--validation", "test", "--watch-samples", 1000]
    found = json_of(fairmargin(*digits(*common, "--out", run, "--json", epochs=3)))
    _, *arguments = found["audit_command"]
    audit = json_of(fairmargin(*arguments, *QUICK, "--estimator", "softmax_margin", "--json"))
    assert audit["audits"][0]["overall"]["accuracy"]["value"] == pytest.approx(found["history"][-1]["natural"])
    assert found["history"][-1]["natural"] > 0.5


def test_json_is_all_that_is_printed_and_quiet_prints_nothing(tmp_path: Path) -> None:
    done = fairmargin(*digits("--out", tmp_path / "run", "--json", epochs=1))
    found = json_of(done)
    assert (found["trained_now"], found["diverged"], len(found["history"])) == (1, False, 1)
    assert done.stderr == ""
    assert succeeded(fairmargin(*digits("--out", tmp_path / "quiet", "--quiet", epochs=1))).output == ""


def test_your_own_network_is_trained_from_your_file_and_groups_need_not_be_classes(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    options = ["--model", f"{tmp_path / 'net.py'}:make", "--group", "ink", "--out", tmp_path / "run", "--json"]
    found = json_of(fairmargin(*digits(*options, method="penalty", arch="")))
    assert {epoch["worst_group"] for epoch in found["history"]} <= {"heavy", "light", "medium"}
    _, *arguments = found["audit_command"]
    audit = json_of(fairmargin(*arguments, *QUICK, "--estimator", "first_order", "--per-group", 10, "--json"))
    assert [row["group"] for row in audit["audits"][0]["groups"]] == ["heavy", "light", "medium"]


def test_a_table_with_names_for_labels_is_trained_on_and_audited(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv")
    source = ["--data", tmp_path / "people.csv", "--label", LABEL, "--features", ",".join(FEATURES), "--group", "sex"]
    options = ["--arch", "logistic", "--epochs", 5, "--rate", 0.5, "--audit-on", tmp_path / "people.csv", *QUICK]
    more = ["--audit-epochs", "last", "--estimator", "first_order", "--out", tmp_path / "run"]
    found = json_of(fairmargin("train", *source, *options, *more, "--json"))
    assert found["history"][-1]["natural"] > 0.8
    _, *arguments = found["audit_command"]
    assert arguments[arguments.index("--class-names") + 1] == "no,yes"
    audit = json_of(fairmargin(*arguments, *QUICK, "--estimator", "first_order", "--json"))
    (inside,) = found["audits"]
    assert audit["audits"][0]["overall"]["accuracy"] == inside["overall"]["accuracy"]
    said = succeeded(fairmargin("train", *source, *options, *more)).stdout
    assert "occur" in said  # audited on what was trained on: that is warned of


def test_epochs_are_audited_when_asked_and_their_agreement_is_said(tmp_path: Path) -> None:
    options = ["--audit-epochs", "first,last", "--audit-per-group", 15, "--estimator", "first_order", *QUICK]
    said = succeeded(fairmargin(*digits(*options, *FAST, "--out", tmp_path / "run", epochs=3))).stdout
    assert "epoch 1 (first)" in said
    assert "epoch 3 (last" in said
    assert "Epochs 1 and 3 agree on the sign of σ for" in said
    table = pd.read_csv(tmp_path / "run" / "audit.csv")
    assert set(table["epoch"]) > {"1 (first)"}
    assert "sigma_low" in table.columns
    (compared,) = json_of(fairmargin("report", tmp_path / "run", "--json"))["epochs"]
    assert compared["agreements"]


def test_weights_of_one_training_are_where_another_begins(tmp_path: Path) -> None:
    succeeded(fairmargin(*digits(*FAST, "--out", tmp_path / "cold", "--quiet")))
    options = ["--weights", tmp_path / "cold" / "model.safetensors", "--rate", 1e-6, "--out", tmp_path / "warm"]
    warm = json_of(fairmargin(*digits(*options, "--json", epochs=1)))
    cold = json_of(fairmargin(*digits(*FAST, "--out", tmp_path / "cold", "--json")))
    assert cold["trained_now"] == 0
    assert warm["history"][0]["natural"] == cold["history"][-1]["natural"]


def test_the_settings_of_a_paper_are_taken_and_options_win(tmp_path: Path) -> None:
    options = ["--settings-of", "ma", "--out", tmp_path / "run", "--json"]
    found = json_of(fairmargin(*digits(*options, epochs=4)))
    assert [round(epoch["rate"], 9) for epoch in found["history"]] == [0.1, 0.1, 0.01, 0.001]


def test_methods_are_listed_with_their_fields() -> None:
    found = json_of(fairmargin("list", "methods", "--json"))["methods"]
    assert "weight=0.1" in found["fat"]
    assert {"erm", "adverm", "penalty", "group_dro", "madry", "trades", "farmur"} <= set(found)


def test_help_shows_commands_that_can_be_typed() -> None:
    said = succeeded(fairmargin("train", "--help")).stdout
    for option in ("--method", "--set", "--settings-of", "--audit-epochs", "--log"):
        assert option in said


# Going on where it stopped. ------------------------------------------------------------------------------------------


def test_a_finished_training_returns_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = digits("--out", tmp_path / "run", "--json")
    first = json_of(fairmargin(*command))
    monkeypatch.setattr(loop, "sum_up", lambda *_: pytest.fail("trained again"))
    again = json_of(fairmargin(*command))
    assert (first["trained_now"], again["trained_now"]) == (2, 0)
    assert again["history"] == first["history"]
    said = succeeded(fairmargin(*command[:-1])).stdout
    assert "2 epochs were there already; 0 were trained now." in said


def trained(command: list[str], run: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return json_of(fairmargin(*command, "--out", run, "--json")), load_file(run / "model.safetensors")


def test_interrupted_amid_an_epoch_it_says_so_and_the_same_command_goes_on_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, steps = list(map(str, digits(*FAST, epochs=3))), []

    def until_ctrl_c(*arguments: Any) -> Any:
        steps.append(arguments)
        if len(steps) == 9:  # of 6 in each epoch
            raise KeyboardInterrupt
        return sum_up(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "sum_up", until_ctrl_c)
        stopped = fairmargin(*command, "--out", tmp_path / "run")
    assert stopped.exit_code == 130
    assert "the same command continues" in stopped.stderr
    assert stopped.stdout == ""
    resumed, weights = trained(command, tmp_path / "run")
    assert resumed["trained_now"] == 2
    whole, expected = trained(command, tmp_path / "whole")
    assert [e["loss"] for e in resumed["history"]] == [e["loss"] for e in whole["history"]]
    assert all(np.array_equal(weights[name], expected[name]) for name in expected)


def test_stopped_for_lack_of_progress_it_says_so_and_stays_stopped(tmp_path: Path) -> None:
    command = digits("--rate", 1e-9, "--patience", 2, "--out", tmp_path / "run", epochs=9)
    said = succeeded(fairmargin(*command)).stdout
    assert "Stopped after epoch 3 of 9" in said
    assert json_of(fairmargin(*command, "--json"))["trained_now"] == 0


# What can go wrong. --------------------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_ends_with_a_sentence_and_exit_code_1(tmp_path: Path) -> None:
    done = fairmargin(*digits("--rate", 1e30, "--out", tmp_path / "run"))
    assert done.exit_code == 1
    assert "is not a number" in done.stdout
    assert "Traceback" not in done.output
    assert all(np.isfinite(part).all() for part in load_file(tmp_path / "run" / "model.safetensors").values())


def write_one_class(folder: Path) -> Path:
    np.savez(folder / "one.npz", x=np.random.default_rng(0).random((20, 4)), y=np.full(20, 3))
    return folder / "one.npz"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--method", "fatt"], "Unknown method `fatt`. Did you mean 'fat'?"),
        (["--set", "weigth=1"], "`penalty`: unknown field `weigth`. Did you mean 'weight'?"),
        (["--set", "weight=heavy"], "`penalty`, field `weight`: expected a number, given 'heavy'"),
        (["--set", "weight=-1"], "`weight` of `penalty` must be a number, 0 or more"),
        (["--set", "weight"], "--set takes field=value, as in --set weight=0.5; given 'weight'"),
        (["--set", "weight=1", "--set", "weight=2"], "the field `weight`, which is given twice"),
        (["--arch", "smal_cnn"], "Unknown architecture `smal_cnn`. Did you mean 'small_cnn'?"),
        (["--arch", ""], "What is to be trained?"),
        (["--model", "net.py:make"], "Give --arch, or --model"),
        (["--data", "digit"], "Unknown dataset 'digit'. Did you mean 'digits'?"),
        (["--data", ""], "What is to be trained on?"),
        (["--group", "inc"], "no attribute 'inc'. Did you mean 'ink'?"),
        (["--method", "madry", "--set", "radius=4"], "larger than the box"),
        (["--watch-radius", "8"], "larger than the box"),
        (["--watch-radius", "eight"], "--watch-radius must be a number such as 0.1 or a fraction such as 4/255"),
        (["--watch", "pdg"], "Unknown attack `pdg`. Did you mean 'pgd'?"),
        (["--schedule", "step"], "There is no schedule 'step'. Did you mean 'steps'?"),
        (["--settings-of", "mah"], "There are no settings of 'mah'. Did you mean 'ma'?"),
        (["--optimizer", "sdg"], "--optimizer must be one of sgd, adam; given 'sdg'"),
        (["--augmentation", "flip"], "is for images"),
        (["--epochs", "0"], "--epochs must be 1 or more"),
        (["--validation", "2"], "--validation is a share"),
        (["--audit-epochs", "frist"], "Did you mean 'first'?"),
        (["--log", "tensorbord"], "Did you mean 'tensorboard'?"),
        (["--log", "mlflow"], "pip install 'fairmargin[mlflow]'"),
        (["--mean", "0.5"], "--mean is given without --std"),
        (["--weights", "nowhere.pt"], "There is no file of weights"),
        (["--device", "toaster"], "`device` cannot be 'toaster'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: list[str], said: str
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    given = list(map(str, digits("--out", tmp_path / "run", method="penalty", epochs=1)))
    if "--method" not in change and change[0] not in ("--set", "--log") and change[0] in given:
        place = given.index(change[0])
        given[place : place + 2] = []
    if "--method" in change:
        place = given.index("--method")
        given[place : place + 2] = []
    assert said in refused(fairmargin(*given, *change))
    assert not list(tmp_path.glob("run/*.safetensors"))


def test_data_of_one_class_are_refused(tmp_path: Path) -> None:
    path = write_one_class(tmp_path)
    command = ["train", "--data", path, "--arch", "logistic", "--epochs", 1, "--out", tmp_path / "run"]
    assert "one class only" in refused(fairmargin(*command))


def test_a_file_that_is_audited_needs_data_that_were_not_trained_on(tmp_path: Path) -> None:
    write_people(tmp_path / "people.csv")
    command = ["train", "--data", tmp_path / "people.csv", "--label", LABEL, "--features", ",".join(FEATURES)]
    options = ["--arch", "logistic", "--epochs", 1, "--audit-epochs", "last", "--out", tmp_path / "run"]
    assert "--audit-on" in refused(fairmargin(*command, *options))


def write_table(path: Path, features: int, label: str = "class") -> Path:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.random((60, features)), columns=[f"f{i}" for i in range(features)])
    table["kind"] = random.choice(["a", "b"], 60)
    table["label"] = random.choice(["no", "yes"], 60) if label == "class" else random.random(60)
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("features", [16, 17])
def test_columns_of_a_table_are_no_picture_whatever_their_number(tmp_path: Path, features: int) -> None:
    command = ["train", "--data", write_table(tmp_path / "t.csv", features), "--label", "label", "--group", "kind"]
    said = refused(fairmargin(*command, "--arch", "small_cnn", "--epochs", 1, "--out", tmp_path / "run"))
    assert f"`small_cnn` takes images, and {tmp_path / 't.csv'} holds rows of {features} numbers" in said
    assert "Take `logistic`" in said
    succeeded(fairmargin(*command, "--arch", "logistic", "--epochs", 1, "--out", tmp_path / "run", "--quiet"))


def test_flat_arrays_are_taken_for_pictures_only_in_their_shape(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, y = random.random((40, 16)), np.arange(40) % 2
    for name, shape in (("flat", (40, 16)), ("square", (40, 1, 4, 4))):
        np.savez(tmp_path / f"{name}.npz", x=x.reshape(shape), y=y)
    command = ["train", "--arch", "small_cnn", "--epochs", 1, "--out", tmp_path / "run", "--data"]
    said = refused(fairmargin(*command, tmp_path / "flat.npz"))
    assert "(samples, channels, height, width)" in said
    succeeded(fairmargin(*command, tmp_path / "square.npz"))


def test_a_label_that_is_measured_is_no_class(tmp_path: Path) -> None:
    command = ["train", "--data", write_table(tmp_path / "t.csv", 3, "number"), "--label", "label", "--group", "kind"]
    said = refused(fairmargin(*command, "--arch", "logistic", "--epochs", 1, "--out", tmp_path / "run"))
    assert "The label is a number that was measured" in said
    assert "60 different ones among 60 samples" in said


def test_one_sample_of_each_class_leaves_none_for_validation(tmp_path: Path) -> None:
    command = ["train", "--data", "digits", "--arch", "logistic", "--per-group", 1, "--epochs", 1, "--out"]
    said = refused(fairmargin(*command, tmp_path / "run"))
    assert "--validation 0.1 keeps a part of every class apart, and no class has 2 samples" in said
    succeeded(fairmargin(*command, tmp_path / "run", "--validation", 0, "--quiet"))


def test_the_method_treats_the_first_of_several_groups_and_the_audit_that_is_suggested_compares_all(
    tmp_path: Path,
) -> None:
    several = ("--group", "ink", "--cross", "digit,ink", "--merge-below", 5, "--json")
    found = json_of(fairmargin(*digits(*several, "--out", tmp_path / "run")))
    assert {epoch["worst_group"] for epoch in found["history"]} <= {"light", "medium", "heavy"}
    assert found["audit_command"][-6:-2] == ["--group", "ink", "--cross", "digit,ink"]
    named = json_of(fairmargin(*digits(*several, "--method-groups", "class", "--out", tmp_path / "other")))
    assert {epoch["worst_group"] for epoch in named["history"]} <= set("0123456789")


def test_what_is_taken_from_a_paper_is_said(tmp_path: Path) -> None:
    options = ["--settings-of", "ma", "--validation", 0]
    told = succeeded(fairmargin(*digits(*options, "--out", tmp_path / "run", epochs=1))).stderr.splitlines()[0]
    assert told == (
        "Settings of Ma 2022 (FAT): rate 0.1, optimizer sgd, momentum 0.9, weight decay 0.0002, schedule "
        "steps:0.5,0.6667. Given beside it: epochs 1, batch 32."
    )
    assert json_of(fairmargin(*digits(*options, "--out", tmp_path / "run", "--json", epochs=1)))["settings"] == told
    assert json_of(fairmargin(*digits("--out", tmp_path / "own", "--json", epochs=1)))["settings"] == ""


def test_what_never_learned_is_not_to_be_audited(tmp_path: Path) -> None:
    done = fairmargin(*digits("--rate", 1e38, "--out", tmp_path / "run"))
    assert done.exit_code == 1
    assert "Stopped in epoch 1 after 1 step: " in done.stdout
    assert "Audit them" not in done.stdout
    assert "Nothing was learned; the weights it began with: " in done.stdout
    found = json.loads(fairmargin(*digits("--rate", 1e38, "--out", tmp_path / "run", "--json")).stdout)
    assert (found["audit_command"], found["history"]) == ([], [])


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--rate", "-1", "--rate must be a positive number; given '-1'."),
        ("--weight-decay", "-1", "--weight-decay must be a number, 0 or more; given '-1'."),
        ("--watch-samples", "0", "--watch-samples must be a whole number, 1 or more; given '0'."),
        ("--momentum", "1", "--momentum must lie below 1; given '1'."),
        ("--augmentation", "flip", "--augmentation is for images"),
    ],
)
def test_errors_name_options_and_no_fields(tmp_path: Path, option: str, value: str, said: str) -> None:
    sentence = refused(fairmargin(*digits(option, value, "--out", tmp_path / "run")))
    assert sentence.startswith(said)
    assert "TrainingPlan" not in sentence


def test_notes_of_a_training_are_shown_and_in_the_json(tmp_path: Path) -> None:
    command = digits("--set", "temperature=0", "--out", tmp_path / "run", method="adverm", epochs=1)
    note = "`temperature` of `adverm` is 0: the indicator has no gradient, and the network is trained as by `erm`."
    assert f"Note: {note}" in succeeded(fairmargin(*command)).stdout
    assert note in json_of(fairmargin(*command, "--json"))["notes"]
    assert "1 epoch was there already; 0 were trained now." in succeeded(fairmargin(*command)).stdout


def test_audited_epochs_say_which_groups_have_too_few_samples(tmp_path: Path) -> None:
    options = ["--audit-epochs", "last", "--estimator", "first_order", *QUICK, *FAST, "--audit-per-group"]
    few = succeeded(fairmargin(*digits(*options, 12, "--group", "ink", "--out", tmp_path / "few"))).stdout
    assert "Too few samples for a verdict: heavy, light, medium." in few
    enough = succeeded(fairmargin(*digits(*options, 40, "--group", "ink", "--out", tmp_path / "run"))).stdout
    assert "Too few samples" not in enough
    table = enough.partition("σ by ink")[2]
    assert re.search(r"−\d+\.\d %", table)
    assert not re.search(r"-\d+\.\d", table)


def test_report_gate_and_json_work_on_a_training_with_and_without_audited_epochs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained = json_of(fairmargin(*digits(*FAST, "--out", run, "--json", epochs=3)))
    (run / "report.html").unlink()
    (course,) = json_of(fairmargin("report", run, "--json"))["training"]
    assert [row["loss"] for row in course["groups"]] == [epoch["loss"] for epoch in trained["history"]]
    assert "Accuracy over the epochs" in (run / "report.html").read_text()
    assert "epoch=3" in fairmargin("gate", run, "--if", "last and natural > 0").stdout
    assert succeeded(fairmargin("gate", run, "--if", "best and natural < 0")).exit_code == 0
    options = ["--audit-epochs", "first,last", "--audit-per-group", 15, "--estimator", "first_order", *QUICK]
    audited = json_of(fairmargin(*digits(*FAST, *options, "--out", run, "--json", epochs=3)))
    assert [each["epoch"].split()[0] for each in audited["audits"]] == ["1", "3"]
    said = fairmargin("gate", run, "--if", "size == 15").stdout
    assert "first_order, epoch 1 (first)" in said
    assert "σ by class at each epoch" in (run / "report.html").read_text()


def test_a_training_with_other_settings_in_the_folder_of_an_interrupted_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "sum_up", stop)
        assert fairmargin(*digits("--out", tmp_path / "run")).exit_code == 130
    said = refused(fairmargin(*digits("--rate", 0.5, "--out", tmp_path / "run")))
    assert "it differs in rate (0.01, now 0.5)" in said
