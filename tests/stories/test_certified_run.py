"""Runs whose certificates may be false, and verdicts of runs to a precision."""

import pandas as pd
import pytest

from tests.stories.examples import QUICK, fairmargin, json_of, refused, result_files, results_of, succeeded
from tests.stories.test_precise_report import audited, write_people


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return write_people(tmp_path_factory.mktemp("people"))


def test_a_run_by_smoothing_says_what_is_guaranteed_although_certificates_may_be_false(people, tmp_path):
    run = tmp_path / "run"
    said = succeeded(audited(people, run, "--estimator", "smoothing:draws=200,alpha=0.01", *QUICK)).stdout
    assert "What is guaranteed, by sex: smoothing:draws=200,alpha=0.01" in " ".join(said.split())
    assert "What is guaranteed" in (run / "report.html").read_text(encoding="utf-8")
    (found,) = json_of(fairmargin("report", run, "--json"))["certificates"]
    assert found["alpha"] == 0.01
    for row in found["groups"]:
        assert row["mean"]["false"] > 0
        assert 0 < row["mean"]["guaranteed"] < row["mean"]["value"]
        shares = [share["guaranteed"] for share in row["shares"]]
        assert shares == sorted(shares, reverse=True)
    (path,) = result_files(run, "certified")
    path.write_text("[{}]")
    assert f"{path.name} does not match its checksum" in refused(fairmargin("report", run))


def test_a_run_without_smoothing_guarantees_nothing_and_forgets_what_an_earlier_one_did(people, tmp_path):
    run = tmp_path / "run"
    succeeded(audited(people, run, "--estimator", "smoothing:draws=50", *QUICK))
    assert (run / "certified.csv").is_file()
    assert len(results_of(run, "certified")) == 1
    succeeded(audited(people, run, "--estimator", "exact_linear", *QUICK))
    assert not (run / "certified.csv").exists()
    assert results_of(run, "certified") == []
    assert {path.name for path in (run / "results").iterdir()} == {path.name for path in result_files(run)}
    assert "What is guaranteed" not in (run / "report.html").read_text(encoding="utf-8")


def test_an_audit_to_a_precision_ends_with_verdicts(people, tmp_path):
    run = tmp_path / "run"
    said = succeeded(audited(people, run, "--estimator", "deepfool:steps=10", "--precision", "0.2")).stdout
    assert "less robust" in said
    table = pd.read_csv(run / "precision.csv").set_index("group")
    assert table.verdict.to_dict() == {"F": "less robust", "M": "more robust"}
    assert (table.p_adjusted < 0.001).all()
    assert fairmargin("gate", run, "--if", 'verdict == "less robust"').exit_code == 1
    assert results_of(run, "precision")[0]["groups"][0]["verdict"] == "less robust"
