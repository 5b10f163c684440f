"""From both sides of the boundary to what is certain, and to a precision for a fraction of the work."""

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import save_file

from fairmargin.runner.demo import train_network
from tests.stories.examples import QUICK, fairmargin, json_of, record_of, refused, results_of, succeeded


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "digits.safetensors"
    save_file(train_network().state_dict(), path)
    return path


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A linear model, and people on both sides of its boundary, those of group F nearer to it."""
    folder, rng = tmp_path_factory.mktemp("people"), np.random.default_rng(0)
    x, sex = rng.normal(size=(1500, 3)), np.where(rng.random(1500) < 0.3, "F", "M")
    x[sex == "F"] *= 0.5
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(hired=(x @ [1, 2, -1] > 0).astype(int), sex=sex)
    frame.to_csv(folder / "people.csv", index=False)
    np.savez(folder / "model.npz", weight=np.array([[0.0, 0, 0], [1, 2, -1]]), bias=np.zeros(2))
    return folder


def audit(weights, out, *more):
    common = ("audit", "--model", "arch:small_cnn", "--weights", weights, "--data", "digits", "--split", "test")
    return fairmargin(*common, "--group", "digit", "--per-group", "32", "--out", out, *QUICK, *more)


def to_precision(people, out, *more):
    model, data = ("--model", people / "model.npz"), ("--data", people / "people.csv", "--label", "hired")
    given = ("--features", "a,b,c", "--group", "sex", "--estimator", "deepfool:steps=10", "--out", out)
    return fairmargin("audit", *model, *data, *given, *more)


def test_a_run_that_measured_from_both_sides_says_what_is_certain(weights, tmp_path):
    both = ("--estimator", "plumb:steps=12", "--estimator", "verified")
    said = succeeded(audit(weights, tmp_path / "run", *both)).stdout
    assert "between verified and plumb:steps=12" in " ".join(said.split())
    assert len(results_of(tmp_path / "run", "bracket")) == 1
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "What is certain, by digit" in page
    again = json_of(fairmargin("report", tmp_path / "run", "--json"))
    (found,) = again["brackets"]
    for row in found["groups"]:
        assert row["sigma"]["low"] <= row["sigma"]["high"]
        assert row["robustness"]["low"] > 0


def test_a_certificate_does_not_sharpen_an_attack_by_a_plus(weights, tmp_path):
    assert "bracket" in refused(audit(weights, tmp_path / "run", "--estimator", "plumb+verified"))


def test_to_a_precision_few_samples_are_measured_and_the_rest_is_saved(people, tmp_path):
    said = succeeded(to_precision(people, tmp_path / "run", "--precision", "0.2")).stdout
    assert "less than" in said
    table = pd.read_csv(tmp_path / "run" / "precision.csv")
    assert table.reference_samples.sum() < 600
    assert ((table.sigma_high - table.sigma_low) / 2 < 0.2).all()
    weak = table.set_index("group").loc["F"]
    assert weak.sigma_high < -0.3  # half as far
    shards = sorted(path.name for path in (tmp_path / "run" / "shards").iterdir())
    found = json_of(to_precision(people, tmp_path / "run", "--precision", "0.2", "--json"))
    assert found["precision"][0]["groups"][0]["sigma"]["value"] == weak.sigma
    assert sorted(path.name for path in (tmp_path / "run" / "shards").iterdir()) == shards


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--precision", "3"), "precision"),
        (("--precision", "-0.1"), "precision"),
        (("--precision", "nan"), "--precision is half the width"),
        (("--precision", "0"), "Leave it out for a full audit"),
        (("--target", "samples"), "--precision"),
        (("--precision", "0.1", "--target", "everyone"), "target"),
        (("--precision", "0.1", "--adequacy"), "--adequacy"),
        (("--precision", "0.1", "--estimator", "ddn"), "one --estimator"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_measured(people, tmp_path, options, told):
    assert told in refused(to_precision(people, tmp_path / "run", *options))
    assert not (tmp_path / "run").exists()


def test_certificates_and_attacks_that_enclose_nothing_are_told_apart(weights, tmp_path):
    apart = ("--estimator", "smoothing:draws=100", "--estimator", "plumb:steps=4")
    succeeded(audit(weights, tmp_path / "run", *apart))
    assert results_of(tmp_path / "run", "bracket") == []
    assert "together they enclose nothing" in " ".join(record_of(tmp_path / "run")["notes"])
    assert "together they enclose nothing" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_the_attack_on_a_smoothed_model_can_be_checked_too(weights, tmp_path):
    attack = "smoothed_attack:draws=100,steps=2,copies=4"
    few = ("--per-group", "10", "--adequacy", "--adequacy-samples", "10")
    succeeded(audit(weights, tmp_path / "run", "--estimator", attack, *few))
    assert "Was the attack strong enough?" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
