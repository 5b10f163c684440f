"""`fairmargin demo`, and the report that it writes."""

import pytest

from tests.stories.examples import contents_of, fairmargin, json_of, results_of, succeeded
from tests.stories.waiting import check_page


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run the demo; return its folder and the result of the command."""
    folder = tmp_path_factory.mktemp("demo") / "fairmargin-demo"
    return folder, succeeded(fairmargin("demo", "--out", folder))


def weakest_digit(folder):
    (digits,) = [each for each in results_of(folder) if (each["partition"], each["norm"]) == ("digit", "l2")]
    assert len(digits["groups"]) == 10
    return min(digits["groups"], key=lambda row: row["robustness"]["value"])


def test_the_demo_prints_the_weakest_digit_first(demo):
    folder, result = demo
    weakest = weakest_digit(folder)
    assert weakest["verdict"] == "less robust"
    shown = [line.split() for line in result.stdout.splitlines()]
    first = shown[next(i for i, words in enumerate(shown) if words[:1] == ["group"]) + 2]
    assert first[0] == weakest["group"]
    assert first[1:3] == ["less", "robust"]


def test_the_demo_writes_a_report_that_names_the_weakest_digit(demo):
    folder, result = demo
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"{weakest_digit(folder)['group']}: less robust than the rest, by " in page
    assert "equally hard to fool for every digit?" in page
    assert f"Report: {folder / 'report.html'}" in result.stdout


def test_the_demo_measures_two_norms_and_two_partitions(demo):
    assert [(each["norm"], each["partition"]) for each in results_of(demo[0])] == [
        (norm, partition) for norm in ("l2", "linf") for partition in ("digit", "ink")
    ]


def test_the_demo_audits_boosted_trees_on_the_raw_rows_of_a_synthetic_table(demo):
    folder, result = demo
    sex, age = results_of(folder / "table")
    assert [row["verdict"] for row in sex["groups"]] == ["less robust", "more robust"]
    assert [row["group"] for row in age["groups"]] == ["below 30", "30 to below 45", "45 to below 60", "60 and above"]
    assert (sex["bound"], sex["norm"]) == ("exact", "l1")
    (rules,) = results_of(folder / "table", "columns")
    assert {row["group"] for row in rules["groups"] if row["immutable"]} == {"sex", "age"}
    assert "female: the median sample gets another answer with" in (folder / "table" / "report.html").read_text("utf-8")
    assert f"Report: {folder / 'table' / 'report.html'}" in result.stdout


def test_a_second_demo_measures_nothing_and_gives_the_same_results(demo):
    folder, _ = demo
    before = contents_of(folder)
    found = json_of(fairmargin("demo", "--out", folder, "--json"))
    assert found["measured_shards"] == 0
    assert found["reused_shards"] == 2
    assert contents_of(folder) == before
    assert [found[name]["measured_shards"] for name in ("cnn", "table")] == [0, 0]


def test_every_command_reads_the_run_of_the_demo(demo):
    folder, _ = demo
    assert fairmargin("gate", folder, "--if", "sigma_high < 0", "--group", "digit").exit_code == 1
    succeeded(fairmargin("power", folder, "--group", "digit"))
    succeeded(fairmargin("report", folder, "--quiet"))


@pytest.mark.browser
def test_the_report_of_the_demo_opens_in_a_browser_with_its_curves_drawn(demo, browser_page, tmp_path):
    folder, _ = demo
    check_page(browser_page, folder / "report.html")
    assert browser_page.locator(".plot").count() >= 4
    lines = browser_page.evaluate(
        """Array.from(document.querySelector('.plot').querySelectorAll('.scatterlayer path.js-line'))
           .filter((path) => path.getTotalLength() > 100).length"""
    )
    assert lines >= 10  # one curve per digit
    seen = browser_page.locator("body").inner_text()
    assert f"Noise or an attacker reaches “{weakest_digit(folder)['group']}” first" in seen
    browser_page.screenshot(path=tmp_path / "demo.png", full_page=True)
    assert (tmp_path / "demo.png").stat().st_size > 50_000
