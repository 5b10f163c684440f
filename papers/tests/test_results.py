"""The committed pages of the papers: run to the end at laptop scale, with all that they speak of, and counted right."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairmargin_papers.catalog import PAPERS
from fairmargin_papers.shared.reproduce import NOT_REACHED

RESULTS = Path(__file__).parents[2] / "docs" / "results"
EACH = pytest.mark.parametrize("name", PAPERS)
VERDICTS = ("holds", "does not hold", "undecided", "not tested")


def kept(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / name / "claims.json").read_text(encoding="utf-8"))
    return content


@EACH
def test_every_paper_was_run_to_its_end_at_laptop_scale(name: str):
    page = kept(name)
    assert page["scale"] == "laptop"
    assert {row["number"] for row in page["claims"]} == {claim.number for claim in PAPERS[name].claims}
    assert not [row["name"] for row in page["claims"] if row["remark"] == NOT_REACHED]
    assert f"`{page['command']}`" in (RESULTS / f"{name}.md").read_text(encoding="utf-8")


@EACH
def test_every_row_says_what_came_out_or_why_nothing_did(name: str):
    for row in kept(name)["claims"]:
        assert row["verdict"] in VERDICTS
        assert row["remark"] if row["verdict"] == "not tested" else row["ours"], row["name"]


@EACH
def test_figures_on_the_page_are_the_figures_beside_it(name: str):
    page = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)
    assert shown == [figure["file"] for figure in kept(name)["figures"]]
    assert set(shown) == {f"{name}/{path.name}" for path in (RESULTS / name).glob("*.svg")}


@EACH
def test_the_overview_counts_the_rows_of_every_page(name: str):
    overview = (RESULTS / "README.md").read_text(encoding="utf-8")
    line = next(line for line in overview.splitlines() if line.startswith(f"| [{name}]({name}.md) |"))
    ours = [row["text"].startswith("(ours)") for row in kept(name)["claims"]]
    said = [row["verdict"] for row in kept(name)["claims"]]
    theirs, own = (
        [verdict for verdict, our in zip(said, ours, strict=True) if our == which] for which in (False, True)
    )
    assert "not tested" not in own
    counted = [*map(theirs.count, VERDICTS), *map(own.count, VERDICTS[:3])]
    assert [int(cell) for cell in line.split("|")[3:10]] == counted


def test_a_gap_of_adverm_narrows_only_if_the_numbers_on_the_page_say_so_at_the_radius_and_over_the_curves():
    rows = [row for row in kept("nanda2020")["claims"] if row["number"] in (1, 2, 5)]
    assert len(rows) == 6
    for row in rows:
        found = re.search(r"the shares differ by [\d.]+ → [\d.]+ points \(([+−][\d.]+) ± ([\d.]+)\)", row["ours"])
        assert found is not None, row["name"]
        change, half = float(found[1].replace("−", "-")), float(found[2])
        low, high = row["interval"]
        if row["verdict"] == "holds":
            assert change + half < 0, row["name"]
            assert high < 1, row["name"]
        elif row["verdict"] == "does not hold":
            assert change - half > 0 or low > 1, row["name"]
        else:
            assert change - half <= 0 <= change + half or low <= 1 <= high, row["name"]


def test_what_stands_out_says_of_truck_what_its_rows_say():
    rows = {row["name"]: row["verdict"] for row in kept("nanda2020")["claims"]}
    assert rows["1c"] == rows["6a"] == "undecided"
    text = " ".join((RESULTS / "README.md").read_text(encoding="utf-8").split())
    assert "“truck” is undecided with both networks" in text
