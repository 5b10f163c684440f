"""An auditor asks whether the attack was strong enough, of a network that hides its gradients from one group."""

from pathlib import Path

import numpy as np
import pytest

from tests.distances import saturated
from tests.distances.saturated import problem
from tests.stories.examples import QUICK, fairmargin, json_of, refused, succeeded, write_distances
from tests.stories.waiting import DRAWN, wait_until


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masked")
    net = Path(saturated.__file__).read_text(encoding="utf-8") + "\n\ndef make():\n    return HalfSaturated()\n"
    (folder / "net.py").write_text(net, encoding="utf-8")
    _, x, y, half = problem(200)
    np.savez(folder / "data.npz", x=x, y=y, half=np.array(half.labels)[half.membership])
    return folder


def audit(files, *more):
    source = ("--model", f"{files}/net.py:make", "--data", files / "data.npz", "--bounds", "0,1", "--group", "half")
    return fairmargin("audit", *source, "--estimator", "fmn:steps=8", "--out", files / "run", *QUICK, *more)


def test_an_audit_that_looks_unfair_is_told_from_a_weak_attack_by_adding_adequacy(files):
    first = succeeded(audit(files))
    page = (files / "run" / "report.html").read_text(encoding="utf-8")
    assert "Whether the attack was strong enough was not checked" in page
    assert "strong enough" not in first.stdout
    added = " ".join(succeeded(audit(files, "--adequacy")).stdout.split())
    assert "Adequacy was added to the audit in" in added
    assert "2 shards were there already" in added  # the audit itself is not measured again
    assert "replaced" not in added
    found = json_of(audit(files, "--adequacy", "--json"))
    assert found["measured_shards"] == 0
    assert "distances" not in found["adequacy"][0]["groups"][0]
    (checked,) = found["adequacy"]
    masked, plain = checked["groups"]
    assert checked["verdict"] == "not settled"
    assert {a["kind"] for a in masked["alarms"] if a["raised"]} >= {"no gradient", "noise is nearer"}
    assert not any(a["raised"] for a in plain["alarms"] if a["kind"] in ("no gradient", "noise is nearer"))
    said = " ".join(succeeded(fairmargin("report", files / "run")).stdout.split())
    assert "Was the attack strong enough? By half: fmn:steps=8" in said
    assert "Not settled: budgets of up to 32 steps" in said
    assert "Note: No gradient" in said
    assert len(json_of(fairmargin("report", files / "run", "--json"))["adequacy"]) == 1


def test_how_many_samples_are_looked_at_is_an_option_that_is_checked(files):
    few = json_of(audit(files, "--adequacy", "--adequacy-samples", 12, "--json"))
    assert [group["size"] for group in few["adequacy"][0]["groups"]] == [12, 12]
    assert refused(audit(files, "--adequacy", "--adequacy-samples", 9)) == (
        "--adequacy-samples must be 10 or more; given '9'."
    )  # fmt: skip
    assert "goes with --adequacy" in refused(audit(files, "--adequacy-samples", 12))


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        ("plumb+first_order", "`first_order` is a proxy, which bounds the distance on neither side"),
        ("plumb+exact_linear", "`exact_linear` needs more from a model than gradients"),
        ("exact_linear", "`exact_linear` needs from the model its weights, and works on linear models only"),
        ("plumb:norm=l1", "`plumb` cannot measure in L1; it measures in l2, linf"),
        ("fmn:steps=0", "`steps` of `fmn` must be at least 1"),
    ],
)
def test_an_estimator_that_does_not_fit_is_refused_at_once_by_its_name_in_options(files, tmp_path, estimator, said):
    source = ("--model", f"{files}/net.py:make", "--data", files / "data.npz", "--bounds", "0,1", "--group", "half")
    out = tmp_path / "run"
    sentence = refused(fairmargin("audit", *source, "--estimator", estimator, "--out", out))
    assert said in sentence
    assert "Classifier" not in sentence
    assert not out.exists()


def test_the_list_of_estimators_says_in_which_norms_each_measures():
    found = json_of(fairmargin("list", "estimators", "--json"))["estimators"]
    assert "Norms: l2, linf." in found["plumb"]
    assert "Norms: l1, l2, linf." in found["fmn"]
    assert all("Norms: " in about for about in found.values())
    shown = " ".join(succeeded(fairmargin("list", "estimators")).stdout.split())
    assert shown.count("Norms: ") == len(found)
    assert "Norms" not in succeeded(fairmargin("list", "engines")).stdout


def test_adequacy_is_no_option_for_distances_measured_elsewhere(tmp_path):
    table = write_distances(tmp_path / "distances.csv")
    options = ("--distances", table, "--bound", "upper", "--norm", "l2", "--group", "sex", "--adequacy")
    assert "--adequacy goes with --model with --data" in refused(
        fairmargin("audit", *options, "--out", tmp_path / "run")
    )


@pytest.mark.browser
def test_the_section_is_read_on_a_screen_and_on_a_phone(files, browser_page):
    succeeded(audit(files, "--adequacy"))
    for width in (1200, 390):
        browser_page.set_viewport_size({"width": width, "height": 900})
        browser_page.goto((files / "run" / "report.html").as_uri())
        wait_until(browser_page, DRAWN)
        section = browser_page.locator("section").filter(has_text="Was the attack strong enough? By half")
        assert "Was the attack strong enough?" in section.inner_text()
        assert section.locator(".chip.bad").count() == 2
        assert section.locator(".plot .scatterlayer .trace").count() >= 2
        assert browser_page.evaluate("document.documentElement.scrollWidth") <= width
        for details in section.locator("details > summary").all():
            details.click()
        for table in section.locator(".scroll").all():  # nothing of a table is cut off
            assert table.evaluate("table => table.scrollWidth <= table.clientWidth")
        assert browser_page.complaints == []
