"""Adequacy of an attack on a network whose gradients vanish for the samples of one group."""

from pathlib import Path

import numpy as np
import pytest

from tests.distances import saturated
from tests.distances.saturated import problem
from tests.stories.examples import QUICK, fairmargin, json_of, refused, succeeded
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


def test_adequacy_distinguishes_a_weak_attack_from_an_unfair_network(files):
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


def test_the_number_of_samples_to_check_is_an_option(files):
    few = json_of(audit(files, "--adequacy", "--adequacy-samples", 12, "--json"))
    assert [group["size"] for group in few["adequacy"][0]["groups"]] == [12, 12]
    assert refused(audit(files, "--adequacy", "--adequacy-samples", 9)) == (
        "--adequacy-samples must be 10 or more; given '9'."
    )


@pytest.mark.parametrize("estimator", ["plumb+first_order", "plumb+exact_linear", "plumb:norm=l1"])
def test_an_estimator_that_does_not_fit_is_refused_before_anything_is_written(files, tmp_path, estimator):
    source = ("--model", f"{files}/net.py:make", "--data", files / "data.npz", "--bounds", "0,1", "--group", "half")
    out = tmp_path / "run"
    sentence = refused(fairmargin("audit", *source, "--estimator", estimator, "--out", out))
    assert f"`{estimator.partition('+')[2] or 'plumb'}`" in sentence
    assert "Classifier" not in sentence
    assert not out.exists()


@pytest.mark.parametrize(
    ("kind", "name", "norms"), [("estimators", "fmn", "l1, l2, linf"), ("attacks", "pgd", "l2, linf")]
)
def test_estimators_and_attacks_are_listed_with_their_norms(kind, name, norms):
    found = json_of(fairmargin("list", kind, "--json"))[kind]
    assert f"Norms: {norms}." in found[name]
    assert all("Norms: " in about for about in found.values())
    shown = " ".join(succeeded(fairmargin("list", kind)).stdout.split())
    assert shown.count("Norms: ") == len(found)


@pytest.mark.browser
def test_the_section_fits_the_width_of_screens_and_phones(files, browser_page):
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
        assert browser_page.console_errors == []
