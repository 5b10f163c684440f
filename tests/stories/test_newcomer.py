"""Mistakes of first-time users with a table and a scikit-learn model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from tests.stories.examples import fairmargin, json_of, record_of, refused, succeeded

FEATURES = ["age", "income", "job"]


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, 400),
            "income": rng.normal(30, 5, 400),
            "job": rng.choice(["clerk", "driver", "nurse"], 400),
            "sex": rng.choice(["F", "M"], 400),
        }
    )
    score = (table["age"] - 40) / 10 + (table["income"] - 30) / 5 + (table["job"] == "nurse") + rng.normal(0, 0.5, 400)
    return table.assign(hired=(score > 0.3).astype(int))


@pytest.fixture(scope="module")
def encoded(people):
    return pd.get_dummies(people[FEATURES]).astype(float)


@pytest.fixture(scope="module")
def model(people, encoded):
    return LogisticRegression(max_iter=5000).fit(encoded, people["hired"])


@pytest.fixture
def here(people, model, tmp_path, monkeypatch):
    """Work in a folder with the table, and the model as an .npz file with and without the names of its features."""
    people.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    arrays = {"weight": model.coef_, "bias": model.intercept_, "classes": model.classes_}
    np.savez("model.npz", **arrays)
    np.savez("named.npz", **arrays, features=np.array(model.feature_names_in_, dtype=str))
    return tmp_path


def audit(*more: object, features: str = "age,income,job", data: str = "people.csv", out: str = "run"):
    options = ["--data", data, "--label", "hired", "--group", "sex", "--features", features, "--resamples", 200]
    return fairmargin("audit", *options, "--out", out, *more)


def accuracy_of(result) -> float:
    (found,) = json_of(result)["audits"]
    return found["overall"]["accuracy"]["value"]


def test_a_binary_model_saved_as_in_the_guide_is_audited(here, model):
    succeeded(audit("--model", "model.npz"))


def test_a_model_with_feature_names_gets_the_features_in_its_order(here, model, encoded, people):
    right = accuracy_of(audit("--model", "named.npz", "--json"))
    assert right == pytest.approx(model.score(encoded, people["hired"]))
    assert accuracy_of(audit("--model", "named.npz", "--json", features="job,income,age", out="other")) == right


def test_a_category_that_does_not_occur_becomes_a_column_of_zeros_with_a_note(here, model, encoded, people):
    kept = people["job"] != "driver"
    people[kept].to_csv("few.csv", index=False)
    found = accuracy_of(audit("--model", "named.npz", "--json", data="few.csv"))
    assert found == pytest.approx(model.score(encoded[kept], people["hired"][kept]))
    notes = record_of(here / "run")["notes"]
    assert any("do not occur here" in note and "job_driver" in note for note in notes)


def test_a_category_unknown_to_the_model_is_refused_by_name(here, model, people):
    people.replace({"job": {"nurse": "architect"}}).to_csv("new.csv", index=False)
    assert "Unknown to the model: job=architect" in refused(audit("--model", "named.npz", data="new.csv"))


def test_a_python_file_can_import_modules_from_its_folder(here, model):
    (here / "neighbour.py").write_text("FILE = 'model.npz'\n")
    (here / "mine.py").write_text(
        "import numpy as np\nfrom neighbour import FILE\n"
        "with np.load(FILE) as f:\n    model = (f['weight'], f['bias'])\n"
    )
    succeeded(audit("--model", "mine.py:model"))


def test_distances_in_different_units_are_refused(here, model):
    succeeded(audit("--model", "model.npz", out="std"))
    succeeded(audit("--model", "model.npz", "--scale", "none", out="raw"))
    assert "different units" in refused(fairmargin("compare", "std", "raw"))


def test_a_comparison_says_that_it_ignores_the_control(here, model):
    succeeded(audit("--model", "model.npz", "--control", "hired", "--smallest-group", 10))
    shown = succeeded(fairmargin("compare", "run", "run")).stdout
    assert "audited within each hired" in shown
    assert "no significant difference" in shown


def test_a_gate_with_a_misspelled_verdict_is_refused(here, model):
    succeeded(audit("--model", "model.npz"))
    assert "Did you mean 'less robust'?" in refused(fairmargin("gate", "run", "--if", "verdict == 'les robust'"))


def test_an_audit_with_other_settings_says_that_results_were_replaced(here, model):
    first = succeeded(audit("--model", "model.npz")).stdout
    second = succeeded(audit("--model", "model.npz", "--confidence", 0.9)).stdout
    assert "were replaced" not in first
    assert "were replaced" in second


def test_assumptions_about_the_data_are_printed(here, model):
    assert "standard deviation" in succeeded(audit("--model", "model.npz")).stdout
