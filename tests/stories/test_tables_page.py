"""The six models of docs/tables.md are audited as printed, in Python and from a file by the command line."""

import re
import shlex
from pathlib import Path
from typing import Any

import joblib
import pytest

from tests.stories.examples import QUICK, fairmargin, json_of, succeeded

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
LONGEST_EXAMPLE = 10  # lines
ESTIMATORS = {
    "LogisticRegression": ("exact_linear", "exact"),
    "RandomForestClassifier": ("exact_tree", "exact"),
    "HistGradientBoostingClassifier": ("exact_tree", "exact"),
    "XGBClassifier": ("exact_tree", "exact"),
    "LGBMClassifier": ("exact_tree", "exact"),
    "MLPClassifier": ("fmn", "upper"),
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


PREPARATION, *EXAMPLES = blocks("python")


def model_of(block: str) -> str:
    """Return the name of the model that a block fits, "" if it fits none of the six."""
    return next((name for name in ESTIMATORS if f"import {name}" in block), "")


@pytest.fixture(scope="module")
def prepared() -> dict[str, Any]:
    """Return the names that the first block defines, and the types of native categories of a later one."""
    names: dict[str, Any] = {}
    exec(compile(PREPARATION, "docs/tables.md", "exec"), names)
    native = next(line for block in EXAMPLES for line in block.splitlines() if line.startswith("native = "))
    exec(native, names)
    return names


def test_the_page_has_the_six_models():
    assert {model_of(block) for block in EXAMPLES} - {""} == set(ESTIMATORS)


@pytest.mark.parametrize("number", range(len(EXAMPLES)), ids=lambda number: model_of(EXAMPLES[number]) or str(number))
def test_each_example_runs_has_at_most_ten_lines_and_is_audited_from_a_file_too(prepared, tmp_path, number):
    block, names = EXAMPLES[number], dict(prepared)
    name = model_of(block)
    if name in ("XGBClassifier", "LGBMClassifier"):
        pytest.importorskip("xgboost" if name.startswith("XGB") else "lightgbm")
    if "rules = " in block:
        exec(next(each for each in EXAMPLES if "import LogisticRegression" in each), names)
    exec(compile(block, "docs/tables.md", "exec"), names)
    if not name:
        assert len(names["found"]) == 3
        return
    assert len([line for line in block.splitlines() if line.strip()]) <= LONGEST_EXAMPLE
    estimator, bound = ESTIMATORS[name]
    result = names["record"]["sex"]
    assert result.bound.value == bound
    assert {row.group for row in result} == {"female", "male"}

    joblib.dump(names["model"], tmp_path / "model.joblib")
    rows = names["people"][800:].copy()
    if name == "XGBClassifier":
        rows["granted"] = rows["granted"] == "yes"
    rows.to_csv(tmp_path / "people.csv", index=False)
    names["X_train"].to_csv(tmp_path / "train.csv", index=False)
    arguments = shlex.split("--trust-model --label granted --group sex --json")
    done = fairmargin(
        *("audit", "--model", tmp_path / "model.joblib", "--data", tmp_path / "people.csv", *arguments),
        *("--training-data", tmp_path / "train.csv", "--out", tmp_path / "run", *QUICK),
    )
    (audit,) = json_of(succeeded(done))["audits"]
    assert audit["estimator"].split(":")[0] == estimator
    measured = {row["group"]: row["robustness"]["value"] for row in audit["groups"]}
    assert measured == pytest.approx({row.group: row.robustness.value for row in result})
