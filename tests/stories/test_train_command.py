"""`fairmargin train`: from data to weights, which `fairmargin audit` reads."""

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
from tests.stories.examples import FEATURES, LABEL, QUICK, fairmargin, json_of, refused, succeeded, write_people

FAST = ("--optimizer", "adam", "--rate", "0.01")

NET = """
from torch import nn

def make():
    return nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
"""


def digits(*more: object, method: str = "erm", epochs: int = 2, arch: str = "small_cnn") -> list[object]:
    source = ["--data", "digits", "--arch", arch] if arch else ["--data", "digits"]
    return ["train", *source, "--per-group", 20, "--batch", 32, "--method", method, "--epochs", epochs, *more]


def test_it_prints_epochs_the_file_of_weights_and_a_command_that_audits_them(tmp_path: Path) -> None:
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


def test_the_audit_of_the_weights_has_the_accuracy_of_the_training_including_normalisation(tmp_path: Path) -> None:
    run = tmp_path / "run"
    common = ["--mean", "0.3", "--std", "0.4", *FAST, "--validation", "test", "--watch-samples", 1000]
    found = json_of(fairmargin(*digits(*common, "--out", run, "--json", epochs=3)))
    _, *arguments = found["audit_command"]
    audit = json_of(fairmargin(*arguments, *QUICK, "--estimator", "softmax_margin", "--json"))
    assert audit["audits"][0]["overall"]["accuracy"]["value"] == pytest.approx(found["history"][-1]["natural"])
    assert found["history"][-1]["natural"] > 0.5


def test_a_network_from_a_python_file_is_trained_with_groups_other_than_classes(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    options = ["--model", f"{tmp_path / 'net.py'}:make", "--group", "ink", "--out", tmp_path / "run", "--json"]
    found = json_of(fairmargin(*digits(*options, method="penalty", arch="")))
    assert {epoch["worst_group"] for epoch in found["history"]} <= {"heavy", "light", "medium"}
    _, *arguments = found["audit_command"]
    audit = json_of(fairmargin(*arguments, *QUICK, "--estimator", "first_order", "--per-group", 10, "--json"))
    assert [row["group"] for row in audit["audits"][0]["groups"]] == ["heavy", "light", "medium"]


def test_a_table_with_text_labels_is_trained_on_and_audited(tmp_path: Path) -> None:
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
    assert "occur" in said  # a warning: the audited samples are training samples


def test_a_training_starts_from_the_weights_of_another(tmp_path: Path) -> None:
    succeeded(fairmargin(*digits(*FAST, "--out", tmp_path / "cold", "--quiet")))
    options = ["--weights", tmp_path / "cold" / "model.safetensors", "--rate", 1e-6, "--out", tmp_path / "warm"]
    warm = json_of(fairmargin(*digits(*options, "--json", epochs=1)))
    cold = json_of(fairmargin(*digits(*FAST, "--out", tmp_path / "cold", "--json")))
    assert cold["trained_now"] == 0
    assert warm["history"][0]["natural"] == cold["history"][-1]["natural"]


def test_methods_and_architectures_are_listed() -> None:
    found = json_of(fairmargin("list", "methods", "--json"))["methods"]
    assert "weight=0.1" in found["fat"]
    assert {"erm", "adverm", "penalty", "group_dro", "madry", "trades", "farmur"} <= set(found)
    found = json_of(fairmargin("list", "architectures", "--json"))["architectures"]
    assert "resnet20" in found
    assert all(title for title in found.values())


def test_a_finished_training_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = digits("--out", tmp_path / "run", "--json")
    done = fairmargin(*command)
    first = json_of(done)
    assert done.stderr == ""
    assert (first["diverged"], len(first["history"])) == (False, 2)
    monkeypatch.setattr(loop, "sum_up", lambda *_: pytest.fail("trained again"))
    again = json_of(fairmargin(*command))
    assert (first["trained_now"], again["trained_now"]) == (2, 0)
    assert again["history"] == first["history"]
    said = succeeded(fairmargin(*command[:-1])).stdout
    assert "2 epochs were there already; 0 were trained now." in said
    assert succeeded(fairmargin(*command[:-1], "--quiet")).output == ""


def test_a_training_stopped_by_patience_is_not_continued(tmp_path: Path) -> None:
    command = digits("--rate", 1e-9, "--patience", 2, "--out", tmp_path / "run", epochs=9)
    said = succeeded(fairmargin(*command)).stdout
    assert "Stopped after epoch 3 of 9" in said
    assert json_of(fairmargin(*command, "--json"))["trained_now"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--set", "weigth=1"], "`penalty`: unknown field `weigth`. Did you mean 'weight'?"),
        (["--set", "weight"], "--set takes field=value, as in --set weight=0.5; given 'weight'"),
        (["--set", "weight=1", "--set", "weight=2"], "the field `weight`, which is given twice"),
        (["--arch", ""], "What is to be trained?"),
        (["--model", "net.py:make"], "Give --arch, or --model"),
        (["--data", ""], "What is to be trained on?"),
        (["--watch-radius", "eight"], "--watch-radius must be a number such as 0.1 or a fraction such as 4/255"),
        (["--settings-of", "mah"], "There are no settings of 'mah'. Did you mean 'ma'?"),
        (["--augmentation", "flip"], "--augmentation is for images"),
        (["--validation", "2"], "--validation is a share"),
        (["--rate", "-1"], "--rate must be a positive number; given '-1'."),
        (["--audit-epochs", "frist"], "Did you mean 'first'?"),
        (["--log", "mlflow"], "pip install 'fairmargin[mlflow]'"),
        (["--mean", "0.5"], "--mean is given without --std"),
        (["--weights", "nowhere.pt"], "There is no file of weights"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: list[str], said: str
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    sentence = refused(fairmargin(*digits("--out", tmp_path / "run", *change, method="penalty", epochs=1)))
    assert said in sentence
    assert "TrainingPlan" not in sentence
    assert not list(tmp_path.glob("run/*.safetensors"))


def test_the_audit_of_a_training_on_a_file_needs_other_data(tmp_path: Path) -> None:
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
def test_an_architecture_for_images_refuses_the_columns_of_a_table(tmp_path: Path, features: int) -> None:
    command = ["train", "--data", write_table(tmp_path / "t.csv", features), "--label", "label", "--group", "kind"]
    said = refused(fairmargin(*command, "--arch", "small_cnn", "--epochs", 1, "--out", tmp_path / "run"))
    assert f"`small_cnn` takes images, and {tmp_path / 't.csv'} holds rows of {features} numbers" in said
    assert "Use `logistic`" in said
    succeeded(fairmargin(*command, "--arch", "logistic", "--epochs", 1, "--out", tmp_path / "run", "--quiet"))


def test_arrays_are_images_only_if_they_have_the_shape_of_images(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, y = random.random((40, 16)), np.arange(40) % 2
    for name, shape in (("flat", (40, 16)), ("square", (40, 1, 4, 4))):
        np.savez(tmp_path / f"{name}.npz", x=x.reshape(shape), y=y)
    command = ["train", "--arch", "small_cnn", "--epochs", 1, "--out", tmp_path / "run", "--data"]
    said = refused(fairmargin(*command, tmp_path / "flat.npz"))
    assert "(samples, channels, height, width)" in said
    succeeded(fairmargin(*command, tmp_path / "square.npz"))


def test_a_continuous_label_is_refused(tmp_path: Path) -> None:
    command = ["train", "--data", write_table(tmp_path / "t.csv", 3, "number"), "--label", "label", "--group", "kind"]
    said = refused(fairmargin(*command, "--arch", "logistic", "--epochs", 1, "--out", tmp_path / "run"))
    assert "The label is a number that was measured" in said
    assert "60 different ones among 60 samples" in said


def test_one_sample_per_class_cannot_be_split_for_validation(tmp_path: Path) -> None:
    command = ["train", "--data", "digits", "--arch", "logistic", "--per-group", 1, "--epochs", 1, "--out"]
    said = refused(fairmargin(*command, tmp_path / "run"))
    assert "--validation 0.1 keeps a part of every class apart, and no class has 2 samples" in said
    succeeded(fairmargin(*command, tmp_path / "run", "--validation", 0, "--quiet"))


def test_the_method_uses_the_first_partition_and_the_suggested_audit_compares_all(tmp_path: Path) -> None:
    several = ("--group", "ink", "--cross", "digit,ink", "--merge-below", 5, "--json")
    found = json_of(fairmargin(*digits(*several, "--out", tmp_path / "run")))
    assert {epoch["worst_group"] for epoch in found["history"]} <= {"light", "medium", "heavy"}
    assert found["audit_command"][-6:-2] == ["--group", "ink", "--cross", "digit,ink"]
    named = json_of(fairmargin(*digits(*several, "--method-groups", "class", "--out", tmp_path / "other")))
    assert {epoch["worst_group"] for epoch in named["history"]} <= set("0123456789")


def test_options_take_precedence_over_the_settings_of_a_paper_which_are_printed(tmp_path: Path) -> None:
    command = digits("--settings-of", "ma", "--validation", 0, "--out", tmp_path / "run", epochs=4)
    told = succeeded(fairmargin(*command)).stderr.splitlines()[0]
    assert told == (
        "Settings of Ma 2022 (FAT): rate 0.1, optimizer sgd, momentum 0.9, weight decay 0.0002, schedule "
        "steps:0.5,0.6667. Given beside it: epochs 4, batch 32."
    )
    found = json_of(fairmargin(*command, "--json"))
    assert found["settings"] == told
    assert [round(epoch["rate"], 9) for epoch in found["history"]] == [0.1, 0.1, 0.01, 0.001]
    assert json_of(fairmargin(*digits("--out", tmp_path / "own", "--json", epochs=1)))["settings"] == ""


def test_a_training_that_diverges_ends_with_exit_code_1_and_suggests_no_audit(tmp_path: Path) -> None:
    done = fairmargin(*digits("--rate", 1e38, "--out", tmp_path / "run"))
    assert done.exit_code == 1
    assert "Stopped in epoch 1 after 1 step: " in done.stdout
    assert "is not a number" in done.stdout
    assert all(np.isfinite(part).all() for part in load_file(tmp_path / "run" / "model.safetensors").values())
    assert "Audit them" not in done.stdout
    assert "Nothing was learned; the weights it began with: " in done.stdout
    found = json.loads(fairmargin(*digits("--rate", 1e38, "--out", tmp_path / "run", "--json")).stdout)
    assert (found["audit_command"], found["history"]) == ([], [])


def test_notes_of_a_training_are_printed_and_in_the_json(tmp_path: Path) -> None:
    command = digits("--set", "temperature=0", "--out", tmp_path / "run", method="adverm", epochs=1)
    note = "`temperature` of `adverm` is 0: the indicator has no gradient, and the network is trained as by `erm`."
    assert f"Note: {note}" in succeeded(fairmargin(*command)).stdout
    assert note in json_of(fairmargin(*command, "--json"))["notes"]
    assert "1 epoch was there already; 0 were trained now." in succeeded(fairmargin(*command)).stdout


def test_groups_with_too_few_samples_at_an_epoch_are_named(tmp_path: Path) -> None:
    options = ["--audit-epochs", "last", "--estimator", "first_order", *QUICK, *FAST, "--audit-per-group"]
    few = succeeded(fairmargin(*digits(*options, 12, "--group", "ink", "--out", tmp_path / "few"))).stdout
    assert "Too few samples for a verdict: heavy, light, medium." in few
    enough = succeeded(fairmargin(*digits(*options, 60, "--group", "ink", "--out", tmp_path / "run"))).stdout
    assert "Too few samples" not in enough
    table = enough.partition("σ by ink")[2]
    assert re.search(r"−\d+\.\d %", table)
    assert not re.search(r"-\d+\.\d", table)


def test_report_and_gate_read_a_training_with_and_without_audited_epochs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained = json_of(fairmargin(*digits(*FAST, "--out", run, "--json", epochs=3)))
    (run / "report.html").unlink()
    (training,) = json_of(fairmargin("report", run, "--json"))["training"]
    assert [row["loss"] for row in training["groups"]] == [epoch["loss"] for epoch in trained["history"]]
    assert "Accuracy over the epochs" in (run / "report.html").read_text()
    assert "epoch=3" in fairmargin("gate", run, "--if", "last and natural > 0").stdout
    assert succeeded(fairmargin("gate", run, "--if", "best and natural < 0")).exit_code == 0
    options = ["--audit-epochs", "first,last", "--audit-per-group", 15, "--estimator", "first_order", *QUICK]
    command = digits(*FAST, *options, "--out", run, epochs=3)
    said = succeeded(fairmargin(*command)).stdout
    for words in ("epoch 1 (first)", "epoch 3 (last", "Epochs 1 and 3 agree on the sign of σ for"):
        assert words in said
    assert {"1 (first)"} < set(pd.read_csv(run / "audit.csv")["epoch"])
    audited = json_of(fairmargin(*command, "--json"))
    assert [each["epoch"].split()[0] for each in audited["audits"]] == ["1", "3"]
    assert audited["epochs"][0]["agreements"]
    said = fairmargin("gate", run, "--if", "size == 15").stdout
    assert "first_order, epoch 1 (first)" in said
    assert "σ by class at each epoch" in (run / "report.html").read_text()


def test_other_settings_are_refused_in_the_folder_of_an_interrupted_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "sum_up", stop)
        assert fairmargin(*digits("--out", tmp_path / "run")).exit_code == 130
    said = refused(fairmargin(*digits("--rate", 0.5, "--out", tmp_path / "run")))
    assert "it differs in rate (0.01, now 0.5)" in said
