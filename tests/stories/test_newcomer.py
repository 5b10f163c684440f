"""What a newcomer with a table, a model and no patience ran into."""

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
def here(people, tmp_path, monkeypatch):
    people.to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*more: object, features: str = "age,income,job", data: str = "people.csv", out: str = "run"):
    options = ["--data", data, "--label", "hired", "--group", "sex", "--features", features, "--resamples", 200]
    return fairmargin("audit", *options, "--out", out, *more)


def accuracy_of(result) -> float:
    (found,) = json_of(result)["audits"]
    return found["overall"]["accuracy"]["value"]


def test_a_binary_model_is_saved_as_the_guide_says(here, model):
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_)
    succeeded(audit("--model", "model.npz"))


def test_a_model_that_knows_its_features_gets_them_in_its_order(here, model, encoded, people):
    names = np.array(model.feature_names_in_, dtype=str)
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_, features=names)
    right = accuracy_of(audit("--model", "model.npz", "--json"))
    assert right == pytest.approx(model.score(encoded, people["hired"]))
    assert accuracy_of(audit("--model", "model.npz", "--json", features="job,income,age", out="other")) == right


def test_a_category_that_does_not_occur_is_filled_in_and_said(here, model, encoded, people):
    names = np.array(model.feature_names_in_, dtype=str)
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_, features=names)
    kept = people["job"] != "driver"
    people[kept].to_csv("few.csv", index=False)
    found = accuracy_of(audit("--model", "model.npz", "--json", data="few.csv"))
    assert found == pytest.approx(model.score(encoded[kept], people["hired"][kept]))
    notes = record_of(here / "run")["notes"]
    assert any("do not occur here" in note and "job_driver" in note for note in notes)


def test_a_category_that_the_model_does_not_know_is_refused_by_name(here, model, people):
    names = np.array(model.feature_names_in_, dtype=str)
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_, features=names)
    people.replace({"job": {"nurse": "architect"}}).to_csv("new.csv", index=False)
    assert "Unknown to the model: job=architect" in refused(audit("--model", "model.npz", data="new.csv"))


def test_a_model_file_finds_its_neighbours(here, model):
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_)
    (here / "neighbour.py").write_text("FILE = 'model.npz'\n")
    (here / "mine.py").write_text(
        "import numpy as np\nfrom neighbour import FILE\n"
        "with np.load(FILE) as f:\n    model = (f['weight'], f['bias'])\n"
    )
    succeeded(audit("--model", "mine.py:model"))


def test_distances_in_different_units_are_not_compared(here, model):
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_)
    succeeded(audit("--model", "model.npz", out="std"))
    succeeded(audit("--model", "model.npz", "--scale", "none", out="raw"))
    assert "different units" in refused(fairmargin("compare", "std", "raw"))


def test_a_comparison_says_that_it_holds_no_control_constant(here, model):
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_)
    succeeded(audit("--model", "model.npz", "--control", "hired", "--smallest-group", 10))
    shown = succeeded(fairmargin("compare", "run", "run")).stdout
    assert "audited within each hired" in shown
    assert "no significant difference" in shown


def test_a_gate_on_a_misspelled_verdict_is_refused_rather_than_passed(here, model):
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_)
    succeeded(audit("--model", "model.npz"))
    assert "Did you mean 'less robust'?" in refused(fairmargin("gate", "run", "--if", "verdict == 'les robust'"))


def test_a_gate_that_fails_shows_the_number_that_failed_it(here, model):
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_)
    succeeded(audit("--model", "model.npz"))
    result = fairmargin("gate", "run", "--if", "sigma_low < 5")
    assert result.exit_code == 1
    assert "sex=F (exact_linear): sigma_low = " in result.stdout


def test_asking_something_else_of_a_run_is_said(here, model):
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_)
    first = succeeded(audit("--model", "model.npz")).stdout
    second = succeeded(audit("--model", "model.npz", "--confidence", 0.9)).stdout
    assert "were replaced" not in first
    assert "were replaced" in second


def test_what_was_assumed_of_the_data_is_said_in_the_terminal(here, model):
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_)
    assert "standard deviation" in succeeded(audit("--model", "model.npz")).stdout


def test_one_cell_that_is_no_number_is_named(here, model, people):
    np.savez("model.npz", weight=model.coef_, bias=model.intercept_, classes=model.classes_)
    spoilt = people.astype({"age": object})
    spoilt.loc[3, "age"] = "n/a?"
    spoilt.to_csv("spoilt.csv", index=False)
    assert "'n/a?' in data row 4" in refused(audit("--model", "model.npz", data="spoilt.csv"))


def test_distances_too_large_to_be_averaged_are_refused(here):
    pd.DataFrame({"distance": [1e300] * 80, "correct": True, "sex": ["F", "M"] * 40}).to_csv("huge.csv", index=False)
    assert "too large" in refused(fairmargin("audit", "--distances", "huge.csv", "--group", "sex", "--out", "run"))
