"""An analyst has a forest that scikit-learn fitted, and audits it from the command line as it is."""

from pathlib import Path

import joblib
import pandas as pd
import pytest

from tests.stories.examples import FEATURES, LABEL, fairmargin, json_of, people_audit, refused, succeeded, write_people

TRAIN = f"""
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
people = pd.read_csv("people.csv")
model = RandomForestClassifier(8, max_depth=4, random_state=0).fit(people[{list(FEATURES)}], people["{LABEL}"])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people")
    write_people(path / "people.csv")
    (path / "train.py").write_text(TRAIN.replace("people.csv", str(path / "people.csv")))
    return path


def audit(folder: Path, out: Path, *options: object, model: str = "train.py:model") -> list[object]:
    return [*people_audit(folder, "--group", "sex", *options, "--out", out, model=model)]


def test_a_forest_in_a_file_of_python_is_measured_exactly_in_one_process_and_in_several(folder, tmp_path):
    serial = json_of(fairmargin(*audit(folder, tmp_path / "serial", "--json")))
    (about,) = serial["audits"]
    assert (about["estimator"], about["bound"], about["norm"]) == ("exact_tree", "exact", "linf")
    parallel = json_of(fairmargin(*audit(folder, tmp_path / "two", "--json", "--engine", "processes:workers=2")))
    assert parallel["audits"][0]["groups"] == about["groups"]


def test_a_plan_for_a_forest_names_its_estimator(folder, tmp_path):
    assert "exact_tree" in succeeded(fairmargin(*audit(folder, tmp_path / "run", "--plan"))).stdout


def test_a_forest_in_a_joblib_file_needs_trust(folder, tmp_path):
    found: dict[str, object] = {}
    exec((folder / "train.py").read_text(), found)
    joblib.dump(found["model"], folder / "model.joblib")
    assert "--trust-model" in refused(fairmargin(*audit(folder, tmp_path / "no", model="model.joblib")))
    trusted = audit(folder, tmp_path / "run", "--trust-model", "--norm", "l1", "--json", model="model.joblib")
    (about,) = json_of(fairmargin(*trusted))["audits"]
    assert (about["estimator"], about["bound"], about["norm"]) == ("exact_tree:norm=l1", "exact", "l1")


@pytest.fixture
def numbered(folder, tmp_path) -> pd.DataFrame:
    """The same people in `tmp_path`, with labels 0 and 1, which is all that these files know about the classes."""
    people = pd.read_csv(folder / "people.csv")
    people[LABEL] = (people[LABEL] == "yes").astype(int)
    people.to_csv(tmp_path / "people.csv", index=False)
    return people


def test_a_file_of_xgboost_needs_no_trust(numbered, tmp_path):
    xgboost = pytest.importorskip("xgboost", reason="reads models of XGBoost, which is not installed")
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(numbered[[*FEATURES]], numbered[LABEL])
    model.save_model(tmp_path / "model.json")
    (about,) = json_of(fairmargin(*audit(tmp_path, tmp_path / "run", "--json", model="model.json")))["audits"]
    assert (about["estimator"], about["bound"]) == ("exact_tree", "exact")


def test_a_file_of_lightgbm_needs_no_trust(numbered, tmp_path):
    lightgbm = pytest.importorskip("lightgbm", reason="reads models of LightGBM, which is not installed")
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(numbered[[*FEATURES]], numbered[LABEL])
    model.booster_.save_model(tmp_path / "model.txt")
    (about,) = json_of(fairmargin(*audit(tmp_path, tmp_path / "run", "--json", model="model.txt")))["audits"]
    assert (about["estimator"], about["bound"]) == ("exact_tree", "exact")
