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
    return fairmargin(
        "audit", *source, "--estimator", "fmn:steps=8", "--no-accelerate", "--out", files / "run", *QUICK, *more
    )


def test_an_audit_that_looks_unfair_is_told_from_a_weak_attack_by_adding_adequacy(files):
    first = succeeded(audit(files))
    page = (files / "run" / "report.html").read_text(encoding="utf-8")
    assert "Whether the attack was strong enough was not checked" in page
    assert "strong enough" not in first.stdout
    found = json_of(audit(files, "--adequacy", "--json"))
    assert found["reused_shards"] >= 2  # the audit itself is not measured again
    (checked,) = found["adequacy"]
    masked, plain = checked["groups"]
    assert checked["verdict"] == "not settled"
    assert {a["kind"] for a in masked["alarms"] if a["raised"]} >= {"no gradient", "noise is nearer"}
    assert not any(a["raised"] for a in plain["alarms"] if a["kind"] in ("no gradient", "noise is nearer"))
    said = " ".join(succeeded(fairmargin("report", files / "run")).stdout.split())
    assert "Was fmn:steps=8 strong enough by half? Not settled: budgets of up to 32 steps" in said
    assert "Alarm: No gradient" in said
    assert len(json_of(fairmargin("report", files / "run", "--json"))["adequacy"]) == 1


def test_adequacy_is_no_option_for_distances_measured_elsewhere(tmp_path):
    table = write_distances(tmp_path / "distances.csv")
    options = ("--distances", table, "--bound", "upper", "--norm", "l2", "--group", "sex", "--adequacy")
    assert "--adequacy goes with --model" in refused(fairmargin("audit", *options, "--out", tmp_path / "run"))


@pytest.mark.browser
def test_the_section_is_read_on_a_screen_and_on_a_phone(files, browser_page):
    succeeded(audit(files, "--adequacy"))
    for width in (1200, 390):
        browser_page.set_viewport_size({"width": width, "height": 900})
        browser_page.goto((files / "run" / "report.html").as_uri())
        wait_until(browser_page, DRAWN)
        section = browser_page.locator("#strength")
        assert "Was the attack strong enough?" in section.inner_text()
        assert section.locator(".chip.not-settled").count() == 2
        assert section.locator(".plot .scatterlayer .trace").count() >= 2
        assert browser_page.evaluate("document.documentElement.scrollWidth") <= width
        assert browser_page.complaints == []
