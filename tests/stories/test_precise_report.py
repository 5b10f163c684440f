"""After an audit to a precision: its page, the same again from the run folder, a gate, and what it cannot do."""

import numpy as np
import pandas as pd
import pytest

from fairmargin.report.page import write_report
from tests.report.examples import HOSTILE
from tests.report.precise_examples import precise_group, precise_result
from tests.stories.examples import QUICK, fairmargin, json_of, record_of, refused, result_files, succeeded
from tests.stories.waiting import DRAWN, wait_until


def write_people(folder):
    """A linear model, and people of whom those in group F lie nearer to its boundary."""
    rng = np.random.default_rng(0)
    x, sex = rng.normal(size=(900, 3)), np.where(rng.random(900) < 0.3, "F", "M")
    x[sex == "F"] *= 0.5
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(hired=(x @ [1, 2, -1] > 0).astype(int), sex=sex)
    frame.to_csv(folder / "people.csv", index=False)
    np.savez(folder / "model.npz", weight=np.array([[0.0, 0, 0], [1, 2, -1]]), bias=np.zeros(2))
    return folder


def audited(folder, out, *more):
    source = ("--model", folder / "model.npz", "--data", folder / "people.csv", "--label", "hired")
    given = ("--features", "a,b,c", "--group", "sex", "--out", out)
    return fairmargin("audit", *source, *given, *more)


@pytest.fixture(scope="module")
def precise(tmp_path_factory):
    """A finished run to a precision."""
    folder = write_people(tmp_path_factory.mktemp("precise"))
    result = succeeded(
        audited(folder, folder / "run", "--estimator", "deepfool:steps=10", "--precision", "0.2", "--title", "People")
    )
    assert f"Report: {folder / 'run' / 'report.html'}" in " ".join(result.stdout.split("\n"))
    return folder


def test_the_run_ends_with_a_page_that_can_be_made_again(precise, tmp_path):
    page = (precise / "run" / "report.html").read_text(encoding="utf-8")
    assert "<title>People</title>" in page
    assert "What each group took" in page
    assert "fairmargin" in page
    succeeded(fairmargin("report", precise / "run", "--out", tmp_path / "again.html", "--quiet"))
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_the_report_as_json_holds_what_the_page_shows(precise):
    (found,) = json_of(fairmargin("report", precise / "run", "--json"))["precision"]
    table = pd.read_csv(precise / "run" / "precision.csv").set_index("group")
    for row in found["groups"]:
        assert row["sigma"]["value"] == pytest.approx(table.loc[row["group"], "sigma"])
        assert row["verdict"] == table.loc[row["group"], "verdict"]
        assert row["finding"] == table.loc[row["group"], "finding"]


def test_a_gate_reads_it(precise):
    failed = fairmargin("gate", precise / "run", "--if", "sigma_high < -0.1")
    assert failed.exit_code == 1
    assert "sex=F" in failed.stdout
    assert fairmargin("gate", precise / "run", "--if", "sigma_low < -0.9").exit_code == 0
    assert "no column" in refused(fairmargin("gate", precise / "run", "--if", "accuracy < 0.5"))


def test_two_runs_of_which_one_is_to_a_precision_are_not_compared(precise):
    assert "--precision" in refused(fairmargin("compare", precise / "run", precise / "run"))


def test_what_was_asked_last_is_what_is_reported(precise, tmp_path):
    run = tmp_path / "run"
    succeeded(audited(precise, run, *QUICK))
    succeeded(audited(precise, run, "--estimator", "deepfool:steps=10", "--precision", "0.2"))
    assert "precision" in json_of(fairmargin("report", run, "--json"))
    succeeded(audited(precise, run, *QUICK))
    assert "audits" in json_of(fairmargin("report", run, "--json"))
    assert "What each group took" not in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("damage", ['{"found": []}', "[]", "{", '{"found": [{"format": 1}]}'])
def test_a_damaged_or_missing_result_is_said(precise, tmp_path, damage):
    run = tmp_path / "run"
    succeeded(audited(precise, run, "--estimator", "deepfool:steps=10", "--precision", "0.3", "--quiet"))
    (path,) = result_files(run, "precision")
    path.write_text(damage)
    assert f"{path.name} does not match its checksum" in refused(fairmargin("report", run))
    assert f"{path.name} does not match its checksum" in refused(fairmargin("gate", run, "--if", "sigma < 0"))
    path.unlink()
    assert f"{path.name} is missing" in refused(fairmargin("report", run))


def test_how_it_came_about_is_kept(precise):
    record = record_of(precise / "run")
    assert record["provenance"]["created"].startswith("20")
    assert any("standard deviation" in note for note in record["notes"])
    assert record["provenance"]["versions"]["numpy"] == np.__version__


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_a_complaint_and_fits_the_screen(browser_page, tmp_path, width):
    hostile = precise_result([precise_group(name) for name in HOSTILE], partition=HOSTILE[0])
    write_report(tmp_path / "page.html", [precise_result(), hostile])
    browser_page.set_viewport_size({"width": width, "height": 900})
    browser_page.goto((tmp_path / "page.html").as_uri())
    wait_until(browser_page, DRAWN)
    assert browser_page.complaints == []
    assert browser_page.requested == [(tmp_path / "page.html").as_uri()]
    assert browser_page.evaluate("document.documentElement.scrollWidth") == width
    marks = browser_page.evaluate("document.querySelectorAll('.plot')[0].querySelectorAll('.points path').length")
    assert marks == 2
