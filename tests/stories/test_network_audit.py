"""From a network's weights and images to a verdict, by the command line."""

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


def table(out):
    return pd.read_csv(out / "audit.csv")


def test_weights_and_an_architecture_are_audited_with_plumb_unless_something_else_is_asked(weights, tmp_path):
    found = json_of(audit(weights, tmp_path / "run", "--json", "--per-group", "20"))
    (result,) = found["audits"]
    assert result["estimator"] == "plumb"
    assert result["bound"] == "upper"
    assert [row["size"] for row in result["groups"]] == [20] * 10
    assert result["overall"]["accuracy"]["value"] > 0.9


def test_a_run_that_lost_a_shard_measures_only_that(weights, tmp_path):
    out = tmp_path / "run"
    succeeded(audit(weights, out))
    before = table(out)
    shards = sorted(out.glob("shards/*/*.parquet"))
    assert len(shards) == 6  # 719 samples in shards of 128
    shards[0].unlink()
    found = json_of(audit(weights, out, "--json"))
    assert (found["measured_shards"], found["reused_shards"]) == (1, 5)
    pd.testing.assert_frame_equal(table(out), before, check_exact=True)


def test_a_network_of_ones_own_is_measured_on_ones_own_images_in_two_processes(tmp_path, monkeypatch):
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


def test_samples_that_were_trained_on_are_warned_of(weights, tmp_path):
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
        (("--model", "arch:resnet_20"), "Did you mean 'resnet20'"),
        (("--model", "arch:small_cnn", "--weights", "nowhere.safetensors"), "nowhere.safetensors"),
        (("--model", "arch:small_cnn", "--weights", ""), "--weights"),
        (("--mean", "a,b"), "--mean must be numbers"),
        (("--std", "0", "--mean", "0"), "greater than 0"),
        (("--std", "1"), "--std is given without --mean"),
        (("--size", "-1"), "--size must be 0 or more; given '-1'"),
        (("--estimator", "deepfol"), "Did you mean 'deepfool'"),
        (("--estimator", "deepfool:rivals=0"), "at least 1"),
        (("--estimator", "exact_linear"), "works on linear models only"),
        (("--task", "age5"), "only one task"),
        (("--size", "32"), "no images that could be resized"),
        (("--labels", "faces.csv"), "folder (or zip) of images"),
        (("--device", "gpu"), "device"),
    ],
)
def test_bad_input_is_a_sentence(weights, tmp_path, options, sentence):
    assert sentence in refused(audit(weights, tmp_path / "run", *options))


def test_weights_of_another_network_are_refused_by_name(tmp_path):
    path = tmp_path / "other.pth"
    torch.save({"state_dict": build_architecture("logistic", (64,), 10).state_dict()}, path)
    said = refused(audit(path, tmp_path / "run"))
    assert "other.pth" in said
    assert "classifier.1.weight" in said


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


def test_a_proxy_without_a_unit_says_so_in_the_report(weights, tmp_path):
    succeeded(audit(weights, tmp_path / "run", "--per-group", "10", "--estimator", "softmax_margin"))
    assert "no unit of length" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_model_that_is_hardly_ever_right_is_warned_of(tmp_path):
    path = tmp_path / "untrained.safetensors"
    torch.manual_seed(0)
    save_file(build_architecture("small_cnn", (64,), 10).state_dict(), path)
    result = succeeded(audit(path, tmp_path / "run", "--estimator", "first_order"))
    assert "always answering the commonest class would be" in " ".join(result.stdout.split())


def test_class_names_put_text_labels_in_the_order_of_the_outputs(tmp_path):
    torch.manual_seed(0)
    network = build_architecture("logistic", (2,), 2)
    save_file(network.state_dict(), tmp_path / "net.safetensors")
    x = np.random.default_rng(0).uniform(size=(80, 2)).astype(np.float32)
    y = network(torch.tensor(x)).argmax(dim=1).numpy()
    names = np.array(["yes", "no"])  # not in the order of the alphabet
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "hired": names[y], "sex": np.array(["F", "M"])[y[::-1]]})
    frame.to_csv(tmp_path / "people.csv", index=False)
    common = ("audit", "--model", "arch:logistic", "--weights", tmp_path / "net.safetensors", "--label", "hired")
    data = (
        "--data",
        tmp_path / "people.csv",
        "--group",
        "sex",
        "--estimator",
        "first_order",
        "--scale",
        "none",
        *QUICK,
    )
    right = json_of(fairmargin(*common, *data, "--class-names", "yes,no", "--out", tmp_path / "right", "--json"))
    sorted_ = json_of(fairmargin(*common, *data, "--out", tmp_path / "sorted", "--json"))
    assert right["audits"][0]["overall"]["accuracy"]["value"] == 1.0
    assert sorted_["audits"][0]["overall"]["accuracy"]["value"] == 0.0


def test_a_folder_of_other_files_is_not_made_a_run(weights, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds other files (notes.txt) and no run" in refused(audit(weights, tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


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
    asked = ("audit", *model, "--estimator", "exact_linear", "--estimator", "plumb", "--out", tmp_path, "--json")
    found = json_of(fairmargin(*asked, *QUICK, *more))
    exact, search = found["audits"]
    assert (exact["bound"], search["bound"]) == ("exact", "upper")
    values = [part["overall"]["robustness"]["value"] for part in (exact, search)]
    assert values[0] <= values[1] * (1 + 1e-5)
    assert values[0] == pytest.approx(values[1], rel=0.01)


def test_a_logistic_regression_is_audited_exactly_to_a_precision(logistic, tmp_path):
    model = ("--model", "arch:logistic", "--weights", logistic, "--data", "digits", "--split", "test")
    asked = ("audit", *model, "--group", "ink", "--estimator", "exact_linear", "--precision", "0.2", "--out", tmp_path)
    assert "exact_linear" in succeeded(fairmargin(*asked)).stdout


def test_a_network_with_a_relu_is_not_audited_exactly(weights, tmp_path):
    sentence = refused(audit(weights, tmp_path / "run", "--estimator", "exact_linear"))
    assert "`exact_linear` needs from the model its weights, and works on linear models only" in sentence
