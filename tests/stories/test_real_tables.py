"""Real tables of ../shared, which have duplicate headers, missing values and unusual columns."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import fairmargin as fm
from fairmargin.models.loading import save_linear
from tests.stories.examples import fairmargin, succeeded

COMPAS = Path(__file__).parents[3] / "shared" / "data" / "compas" / "compas-scores-two-years.csv"
FEATURES = ("age", "priors_count", "juv_fel_count", "juv_misd_count", "c_charge_degree")

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not COMPAS.is_file(), reason="../shared/data is not beside the project"),
]


@pytest.fixture(scope="module")
def compas() -> fm.Dataset:
    return fm.load(COMPAS, label="two_year_recid", attributes=("race", "sex"), features=FEATURES)


@pytest.fixture(scope="module")
def model(compas: fm.Dataset) -> LogisticRegression:
    return LogisticRegression(max_iter=2_000).fit(np.asarray(compas.x), compas.y)


def test_compas_is_read_with_groups_and_notes(compas: fm.Dataset) -> None:
    assert len(compas) == 7_214
    assert dict(zip(compas.partition("race").labels, compas.partition("race").sizes, strict=True))["Asian"] == 32
    assert {"c_charge_degree=F", "c_charge_degree=M"} < set(compas.feature_names)
    assert any("standard deviation" in note for note in compas.notes)


def test_groups_of_compas_with_enough_people_have_a_verdict(compas: fm.Dataset, model: LogisticRegression) -> None:
    classifier = fm.as_classifier(model, domain=compas.domain)
    distances = fm.measure(classifier, compas.x, compas.y, fm.ESTIMATORS["exact_linear"](norm=fm.Norm.L2))
    result = fm.audit(distances, compas.partition("race"))
    assert result["Native American"].verdict == "too few samples"  # 18 people
    assert result["African-American"].sigma.low < result["African-American"].sigma.value < 1
    assert distances.correct.mean() == pytest.approx(model.score(np.asarray(compas.x), compas.y))


def test_the_command_line_gives_the_results_of_python(
    compas: fm.Dataset, model: LogisticRegression, tmp_path: Path
) -> None:
    classifier = fm.as_classifier(model, domain=compas.domain)
    save_linear(classifier, tmp_path / "model.npz")  # type: ignore[arg-type]
    options = ["--label", "two_year_recid", "--group", "sex", "--features", ",".join(FEATURES), "--control", "class"]
    run = tmp_path / "run"
    command = ["audit", "--model", tmp_path / "model.npz", "--data", COMPAS, *options, "--out", run, "-q"]
    succeeded(fairmargin(*command))
    distances = fm.measure(classifier, compas.x, compas.y, fm.ESTIMATORS["exact_linear"](norm=fm.Norm.L2))
    plan = fm.AuditSettings(control=compas.partition("class"))
    expected = fm.audit(distances, compas.partition("sex"), plan)
    table = (run / "audit.csv").read_text(encoding="utf-8")
    assert f"{expected['Female'].sigma.value:.6f}"[:8] in table
