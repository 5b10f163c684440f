"""Brackets, guarantees of smoothing, and audits to a precision, from the command line to the page."""

import pandas as pd
import pytest
from safetensors.torch import save_file

from fairmargin.report.page import write_report
from fairmargin.runner.demo import train_network
from tests.report.examples import HOSTILE
from tests.report.precise_examples import precise_group, precise_result
from tests.stories.examples import (
    QUICK,
    fairmargin,
    json_of,
    linear_audit,
    record_of,
    refused,
    result_files,
    results_of,
    succeeded,
    write_linear_people,
)
from tests.stories.waiting import check_page

PRECISE = ("--estimator", "deepfool:steps=10", "--precision", "0.2")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "digits.safetensors"
    save_file(train_network().state_dict(), path)
    return path


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return write_linear_people(tmp_path_factory.mktemp("people"), count=1500)


def audit(weights, out, *more):
    common = ("audit", "--model", "arch:small_cnn", "--weights", weights, "--data", "digits", "--split", "test")
    return fairmargin(*common, "--group", "digit", "--per-group", "32", "--out", out, *QUICK, *more)


def page_of(run):
    return (run / "report.html").read_text(encoding="utf-8")


def test_a_certificate_and_an_attack_form_a_bracket(weights, tmp_path):
    both = ("--estimator", "plumb:steps=12", "--estimator", "verified")
    shown = succeeded(audit(weights, tmp_path / "run", *both)).stdout
    assert "between verified and plumb:steps=12" in " ".join(shown.split())
    assert "What is certain, by digit" in page_of(tmp_path / "run")
    (found,) = json_of(fairmargin("report", tmp_path / "run", "--json"))["brackets"]
    for row in found["groups"]:
        assert row["sigma"]["low"] <= row["sigma"]["high"]
        assert row["robustness"]["low"] > 0


def test_a_note_says_that_a_certificate_and_an_attack_of_different_models_form_no_bracket(weights, tmp_path):
    run = tmp_path / "run"
    succeeded(audit(weights, run, "--estimator", "smoothing:draws=100", "--estimator", "plumb:steps=4"))
    assert results_of(run, "bracket") == []
    assert "together they enclose nothing" in " ".join(record_of(run)["notes"])
    assert "together they enclose nothing" in page_of(run)


def test_the_adequacy_of_an_attack_on_a_smoothed_model_is_checked(weights, tmp_path):
    attack = "smoothed_attack:draws=100,steps=2,copies=4"
    few = ("--per-group", "10", "--adequacy", "--adequacy-samples", "10")
    succeeded(audit(weights, tmp_path / "run", "--estimator", attack, *few))
    assert "Was the attack strong enough?" in page_of(tmp_path / "run")


# Guarantees of smoothing


def test_guarantees_of_smoothing_account_for_false_certificates(people, tmp_path):
    run = tmp_path / "run"
    shown = succeeded(linear_audit(people, run, "--estimator", "smoothing:draws=200,alpha=0.01", *QUICK)).stdout
    assert "What is guaranteed, by sex: smoothing:draws=200,alpha=0.01" in " ".join(shown.split())
    assert "What is guaranteed" in page_of(run)
    (found,) = json_of(fairmargin("report", run, "--json"))["certificates"]
    assert found["alpha"] == 0.01
    for row in found["groups"]:
        assert row["mean"]["false"] > 0
        assert 0 < row["mean"]["guaranteed"] < row["mean"]["value"]
        shares = [share["guaranteed"] for share in row["shares"]]
        assert shares == sorted(shares, reverse=True)


def test_a_later_run_without_smoothing_removes_the_guarantees(people, tmp_path):
    run = tmp_path / "run"
    succeeded(linear_audit(people, run, "--estimator", "smoothing:draws=50", *QUICK))
    assert (run / "certified.csv").is_file()
    succeeded(linear_audit(people, run, "--estimator", "exact_linear", *QUICK))
    assert not (run / "certified.csv").exists()
    assert results_of(run, "certified") == []
    assert {path.name for path in (run / "results").iterdir()} == {path.name for path in result_files(run)}
    assert "What is guaranteed" not in page_of(run)


# Audits to a precision


def test_an_audit_to_a_precision_measures_few_samples_and_ends_with_verdicts(people, tmp_path):
    run = tmp_path / "run"
    shown = succeeded(linear_audit(people, run, *PRECISE, "--title", "People")).stdout
    assert "less than" in shown
    assert "less robust" in shown
    assert "<title>People</title>" in page_of(run)
    table = pd.read_csv(run / "precision.csv").set_index("group")
    assert table.reference_samples.sum() < 600
    assert ((table.sigma_high - table.sigma_low) / 2 < 0.2).all()
    assert table.loc["F"].sigma_high < -0.3  # samples of F are half as far from the boundary
    assert table.verdict.to_dict() == {"F": "less robust", "M": "more robust"}
    assert fairmargin("gate", run, "--if", 'verdict == "less robust"').exit_code == 1
    assert "not a column" in refused(fairmargin("gate", run, "--if", "accuracy < 0.5"))
    assert "--precision" in refused(fairmargin("compare", run, run))
    shards = sorted(path.name for path in (run / "shards").rglob("*"))
    found = json_of(linear_audit(people, run, *PRECISE, "--json"))
    assert found["precision"][0]["groups"][0]["sigma"]["value"] == table.loc["F"].sigma
    assert sorted(path.name for path in (run / "shards").rglob("*")) == shards


def test_the_report_shows_the_last_run_in_a_folder(people, tmp_path):
    run = tmp_path / "run"
    for options, kind in ((QUICK, "audits"), (PRECISE, "precision"), (QUICK, "audits")):
        succeeded(linear_audit(people, run, *options))
        assert kind in json_of(fairmargin("report", run, "--json"))
        assert ("What each group took" in page_of(run)) == (kind == "precision")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--precision", "nan"), "--precision is half the width"),
        (("--precision", "0"), "Leave it out for a full audit"),
        (("--target", "samples"), "--precision"),
        (("--precision", "0.1", "--estimator", "ddn"), "one --estimator"),
    ],
)
def test_invalid_options_of_a_precision_are_refused_before_anything_is_measured(people, tmp_path, options, words):
    assert words in refused(linear_audit(people, tmp_path / "run", "--estimator", "deepfool:steps=10", *options))
    assert not (tmp_path / "run").exists()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_a_precision_opens_without_errors_and_fits_the_screen(browser_page, tmp_path, width):
    hostile = precise_result([precise_group(name) for name in HOSTILE], partition=HOSTILE[0])
    write_report(tmp_path / "page.html", [precise_result(), hostile])
    check_page(browser_page, tmp_path / "page.html", width)
    marks = browser_page.evaluate("document.querySelectorAll('.plot')[0].querySelectorAll('.points path').length")
    assert marks == 2
