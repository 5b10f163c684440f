"""`fairmargin audit` of networks: weights, images, normalisation and classes."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from fairmargin.data.fetch.cache import FOLDER_VARIABLE
from fairmargin.models.architectures.catalog import build_architecture
from fairmargin.runner.demo import train_network
from tests.data.files import noise
from tests.stories.examples import QUICK, fairmargin, json_of, record_of, refused, succeeded

SHARED = Path(__file__).parents[3] / "shared"
NAMES = ("--class-names", "0,1,2,3,4,5,6,7,8,9")
IMAGENET = ("--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        return self.layers(x)

def make():
    torch.manual_seed(0)
    return Net()
"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "digits.safetensors"
    save_file(train_network().state_dict(), path)
    return path


def audit(weights, out, *more):
    common = ("audit", "--model", "arch:small_cnn", "--weights", weights, "--data", "digits", "--split", "test")
    return fairmargin(*common, "--group", "digit", "--out", out, *QUICK, *more)


def test_the_default_estimator_of_a_network_is_plumb(weights, tmp_path):
    found = json_of(audit(weights, tmp_path / "run", "--json", "--per-group", "20"))
    (result,) = found["audits"]
    assert result["estimator"] == "plumb"
    assert result["bound"] == "upper"
    assert [row["size"] for row in result["groups"]] == [20] * 10
    assert result["overall"]["accuracy"]["value"] > 0.9


PROTOTYPES = """
import torch

class Prototypes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.places = torch.nn.Parameter(torch.eye(3, 4))

    def forward(self, x):
        return -((x[:, None] - self.places) ** 2).sum(dim=2)
"""


def test_a_network_whose_layers_do_not_tell_its_classes_gets_those_of_the_data(tmp_path):
    (tmp_path / "net.py").write_text(PROTOTYPES)
    x = np.random.default_rng(0).random((60, 4), dtype=np.float32)
    for name, classes in (("three", 3), ("two", 2)):  # the last class may be absent from the samples
        np.savez(tmp_path / f"{name}.npz", x=x, y=np.arange(60) % classes, sex=np.repeat(["F", "M"], 30))
    common = (
        "audit",
        "--model",
        f"{tmp_path}/net.py:Prototypes",
        "--estimator",
        "first_order",
        "--group",
        "sex",
        *QUICK,
    )
    succeeded(fairmargin(*common, "--data", tmp_path / "three.npz", "--out", tmp_path / "run"))
    two = (*common, "--data", tmp_path / "two.npz", "--out", tmp_path / "run2")
    assert "Give the label values with `classes=` (--class-names)" in refused(fairmargin(*two))
    succeeded(fairmargin(*two, "--class-names", "0,1,2"))


def test_a_network_and_images_of_the_user_are_measured_in_two_processes(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "faces").mkdir()
    rows = []
    for i in range(80):
        (tmp_path / "faces" / f"{i}.png").write_bytes(noise(i, size=8))
        rows.append({"file": f"{i}.png", "smiles": ["no", "yes"][i % 2], "sex": ["F", "M"][i // 2 % 2]})
    pd.DataFrame(rows).to_csv(tmp_path / "faces.csv", index=False)
    common = ("audit", "--model", f"{tmp_path}/net.py:make", "--data", tmp_path / "faces", "--labels")
    options = (tmp_path / "faces.csv", "--label", "smiles", "--group", "sex", "--engine", "processes:workers=2")
    found = json_of(fairmargin(*common, *options, "--out", tmp_path / "run", *QUICK, "--json"))
    (result,) = found["audits"]
    notes = " ".join(record_of(tmp_path / "run")["notes"])
    assert "taken for these classes (in sorted order; --class-names a,b,… gives another): 0 no, 1 yes." in notes
    assert "No --weights were given" in notes
    assert sum(row["size"] for row in result["groups"]) == 80
    assert {row["group"] for row in result["groups"]} == {"F", "M"}


def test_a_warning_counts_audited_samples_that_are_training_samples(weights, tmp_path):
    digits = tmp_path / "digits.npz"
    x = np.random.default_rng(0).uniform(size=(60, 1, 8, 8)).astype(np.float32)
    np.savez(digits, x=x, y=np.arange(60) % 10)
    np.savez(tmp_path / "training.npz", x=x[:7], y=np.arange(7))
    common = ("audit", "--model", "arch:small_cnn", "--weights", weights, "--data", digits, "--out", tmp_path / "run")
    result = succeeded(fairmargin(*common, "--training-data", tmp_path / "training.npz", "--bounds", "0,1", *QUICK))
    assert "7 of 60 audited samples also occur in the training data" in result.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--mean", "a,b"), "--mean must be numbers"),
        (("--size", "-1"), "--size must be 0 or more"),
        (("--size", "32"), "no images that could be resized"),
        (("--task", "age5"), "only one task"),
        (("--labels", "faces.csv"), "folder (or zip) of images"),
        (("--device", "gpu"), "device"),
        (
            ("--estimator", "exact_linear"),
            "`exact_linear` needs from the model its weights; linear models only",
        ),
        (("--estimator", "plumb+verified"), "bracket"),
    ],
)
def test_wrong_options_are_refused(weights, tmp_path, options, sentence):
    said = refused(audit(weights, tmp_path / "run", *options))
    for part in sentence.split("; "):
        assert part in said


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is not beside the project")
def test_the_public_resnet20_has_its_accuracy_on_the_cifar10_test_set(tmp_path):
    found = json_of(
        fairmargin(
            *("audit", "--model", "arch:resnet20", "--weights", SHARED / "weights" / "cifar10-resnet20-12fca82f.th"),
            *(*IMAGENET, "--data", "cifar10", "--root", SHARED / "data", "--split", "test"),
            *("--estimator", "softmax_margin", "--out", tmp_path / "run", "--json", *QUICK),
        )
    )
    (result,) = found["audits"]
    assert result["overall"]["size"] == 10_000
    assert result["overall"]["accuracy"]["value"] >= 0.91
    assert {row["group"] for row in result["groups"]} >= {"airplane", "truck"}
    shutil.rmtree(tmp_path / "run")


def test_the_report_says_that_a_proxy_has_no_unit(weights, tmp_path):
    succeeded(audit(weights, tmp_path / "run", "--per-group", "10", "--estimator", "softmax_margin"))
    assert "no unit of length" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_class_names_put_text_labels_in_the_order_of_the_outputs(tmp_path):
    torch.manual_seed(0)
    network = build_architecture("logistic", (2,), 2)
    save_file(network.state_dict(), tmp_path / "net.safetensors")
    x = np.random.default_rng(0).uniform(size=(80, 2)).astype(np.float32)
    y = network(torch.tensor(x)).argmax(dim=1).numpy()
    names = np.array(["yes", "no"])  # not in alphabetical order
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "hired": names[y], "sex": np.array(["F", "M"])[y[::-1]]})
    frame.to_csv(tmp_path / "people.csv", index=False)
    common = ("audit", "--model", "arch:logistic", "--weights", tmp_path / "net.safetensors", "--label", "hired")
    options = ("--group", "sex", "--estimator", "first_order", "--scale", "none", *QUICK)
    data = ("--data", tmp_path / "people.csv", *options)
    right = json_of(fairmargin(*common, *data, "--class-names", "yes,no", "--out", tmp_path / "right", "--json"))
    sorted_ = json_of(fairmargin(*common, *data, "--out", tmp_path / "sorted", "--json"))
    assert right["audits"][0]["overall"]["accuracy"]["value"] == 1.0
    assert sorted_["audits"][0]["overall"]["accuracy"]["value"] == 0.0


def test_a_class_that_does_not_occur_in_the_data_still_has_its_output(weights, tmp_path):
    x = np.random.default_rng(0).uniform(size=(60, 64)).astype(np.float32)
    for name, y, more in (("gap", np.where(np.arange(60) % 2, 9, 3), ()), ("named", np.arange(60) % 4, NAMES)):
        np.savez(tmp_path / f"{name}.npz", x=x, y=y)
        common = ("audit", "--model", "arch:small_cnn", "--weights", weights, "--data", tmp_path / f"{name}.npz")
        options = ("--bounds", "0,1", "--estimator", "first_order", *more, *QUICK)
        found = json_of(fairmargin(*common, *options, "--out", tmp_path / name, "--json"))
        assert "rows of 64 numbers were read as grey pictures of 8 × 8 pixels" in " ".join(found["notes"])


@pytest.fixture(scope="module")
def logistic(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "logistic.safetensors"
    save_file(build_architecture("logistic", (64,), 10).state_dict(), path)
    return path


@pytest.mark.parametrize("more", [(), ("--engine", "processes:workers=1"), ("--mean", "0.3", "--std", "0.4")])
def test_a_logistic_regression_of_the_catalog_is_audited_exactly(logistic, tmp_path, more):
    model = ("--model", "arch:logistic", "--weights", logistic, "--data", "digits", "--split", "test")
    arguments = ("audit", *model, "--estimator", "exact_linear", "--estimator", "plumb", "--out", tmp_path, "--json")
    found = json_of(fairmargin(*arguments, *QUICK, *more))
    exact, search = found["audits"]
    assert (exact["bound"], search["bound"]) == ("exact", "upper")
    values = [part["overall"]["robustness"]["value"] for part in (exact, search)]
    assert values[0] <= values[1] * (1 + 1e-5)
    assert values[0] == pytest.approx(values[1], rel=0.01)
