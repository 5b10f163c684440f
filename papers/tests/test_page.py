"""The page of a paper and the running of its parts."""

import json

import pytest

from fairmargin_papers.catalog import PAPERS
from fairmargin_papers.shared.claims import Claim, Decision
from fairmargin_papers.shared.page import Shown, markdown
from fairmargin_papers.shared.paper import Findings, NotPossibleHereError, Paper, Part, Picture, Table
from fairmargin_papers.shared.pictures import panels
from fairmargin_papers.shared.reproduce import reproduce, rows

CLAIMS = (
    Claim("small", 1, "Water | is wet.", "yes", "closely"),
    Claim("small", 2, "Fire is hot.", "1,000 K", "direction"),
    Claim("small", 3, "The moon is far.", "", "not here"),
    Claim("small", 4, "Nobody looked.", "", "closely"),
)


def water(assignment):
    figure, (axis,) = panels()
    axis.plot([0, 1], [0, 1])
    assignment.progress("pouring", 1, 1)
    wet = assignment.claims[1].found("0.5", Decision("holds", (0.25, 0.75), 0.5), remark="Touched.")
    return Findings((wet,), (Picture("drops", "Drops of\nwater", figure),), ("One glass.",))


def fire(assignment):
    claim = assignment.claims[2]
    unsure = claim.found("b", Decision("undecided", (0.25, float("inf"))), remark="Felt.")
    return Findings((claim.found("a", "does not hold", remark="Felt."), unsure))


WATER, FIRE = Part("water", "pouring", frozenset({1}), water), Part("fire", "burning", frozenset({2}), fire)


def small(*parts, waiting=None):
    return Paper("small", "A small paper", "Nobody, “Small”, 2020.", CLAIMS, parts, waiting or {})


def test_every_claim_has_a_row_and_those_not_tested_say_why(tmp_path):
    done = reproduce(small(WATER, FIRE, waiting={3: "the rocket is late"}), "smoke", tmp_path)
    assert [claim.name for claim in done.claims] == ["1", "2a", "2b", "3", "4"]
    said = {claim.name: claim.remark for claim in done.claims if claim.verdict == "not tested"}
    assert said["3"] == "the rocket is late"
    assert "yet" in said["4"]
    text = done.page.read_text(encoding="utf-8")
    assert "5 rows: 1 hold, 1 do not hold, 1 undecided, 2 not tested." in text
    assert "not tested (the rocket is late)" in text


def test_the_page_shows_interval_chance_remark_and_figure(tmp_path):
    done = reproduce(small(WATER), "smoke", tmp_path)
    text = done.page.read_text(encoding="utf-8")
    assert "| 1 | Water \\| is wet. | yes | 0.5 [25.0%, 75.0%] (by chance 50.0%) | **holds** |" in text
    assert "- **1** Touched." in text
    assert "![Drops of water](small/drops.svg)" in text
    assert "`fairmargin reproduce small --scale smoke`" in text
    assert [path.is_file() for path in done.pictures] == [True]
    found = json.loads((tmp_path / "small" / "claims.json").read_text(encoding="utf-8"))
    assert found["claims"][0]["interval"] == [0.25, 0.75]
    assert found["scale"] == "smoke"


def test_an_interval_may_have_no_end_and_what_holds_for_several_rows_is_said_once(tmp_path):
    text = reproduce(small(FIRE), "smoke", tmp_path).page.read_text(encoding="utf-8")
    assert "| 2b | Fire is hot. | 1,000 K | b [0.25, ∞] | **undecided** |" in text
    assert "- **2a, 2b** Felt." in text
    assert text.count("Felt.") == 1
    found = json.loads((tmp_path / "small" / "claims.json").read_text(encoding="utf-8"))
    assert found["claims"][2]["interval"] == [0.25, "inf"]


def test_a_verdict_in_direction_only_says_so():
    paper = small(FIRE)
    shown = Shown(paper, "smoke", [CLAIMS[1].found("hot", "holds")], [], [], {"numpy": "2"})
    assert "**holds**, in direction only" in markdown(shown)


def test_tables_stand_on_the_page_and_in_json(tmp_path):
    def told(assignment):
        wet = assignment.claims[1].found("yes", "holds")
        return Findings((wet,), tables=(Table("drops", "Drops, counted.", ("a|b", "n"), (("x", "1"), ("y", "2"))),))

    text = reproduce(small(Part("water", "pouring", frozenset({1}), told)), "smoke", tmp_path).page.read_text("utf-8")
    assert "## Tables\n\nDrops, counted.\n\n| a\\|b | n |\n|---|---|\n| x | 1 |\n| y | 2 |\n" in text
    found = json.loads((tmp_path / "small" / "claims.json").read_text(encoding="utf-8"))
    assert found["tables"][0]["rows"] == [["x", "1"], ["y", "2"]]


def test_a_table_with_a_row_that_is_too_short_is_a_defect():
    with pytest.raises(ValueError, match="2 columns, and a row of 1"):
        Table("drops", "", ("a", "b"), (("1",),))


def test_the_page_says_that_data_came_from_a_folder_but_not_from_which(tmp_path):
    (tmp_path / "secret").mkdir()
    done = reproduce(small(WATER), "laptop", tmp_path, root=tmp_path / "secret")
    text = done.page.read_text(encoding="utf-8")
    assert "`fairmargin reproduce small --scale laptop --root DATA`" in text
    assert "secret" not in text


def test_the_same_run_gives_the_same_bytes(tmp_path):
    for folder in ("first", "second"):
        reproduce(small(WATER, FIRE), "smoke", tmp_path / folder)
    first, second = (
        {path.relative_to(tmp_path / folder): path.read_bytes() for path in (tmp_path / folder).rglob("*.*")}
        for folder in ("first", "second")
    )
    assert first == second
    assert len(first) == 3


def test_an_interruption_leaves_the_finished_parts_on_the_page(tmp_path):
    def stop(assignment):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(small(WATER, Part("fire", "burning", frozenset({2}), stop)), "smoke", tmp_path)
    text = (tmp_path / "small.md").read_text(encoding="utf-8")
    assert "**holds**" in text
    assert "not tested (the run was stopped before this part)" in text


def test_a_part_that_lacks_its_data_leaves_the_others_be(tmp_path):
    def no_faces(assignment):
        raise NotPossibleHereError("UTKFace was not found")

    done = reproduce(small(Part("fire", "burning", frozenset({2}), no_faces), WATER), "smoke", tmp_path)
    assert [claim.verdict for claim in done.claims] == ["holds", "not tested", "not tested", "not tested"]
    assert done.claims[1].remark == "UTKFace was not found"


def test_a_part_that_forgets_a_promised_row_is_a_defect(tmp_path):
    with pytest.raises(RuntimeError, match=r"promises claims \[1, 2\]"):
        reproduce(small(Part("water", "pouring", frozenset({1, 2}), water)), "smoke", tmp_path)
    with pytest.raises(ValueError, match="no claim"):
        small(Part("water", "pouring", frozenset({9}), water))


@pytest.mark.parametrize("name", PAPERS)
def test_papers_number_their_claims_one_by_one_and_parts_do_not_share_them(name):
    paper = PAPERS[name]
    assert [claim.number for claim in paper.claims] == list(range(1, len(paper.claims) + 1))
    assert all(claim.text.endswith(".") for claim in paper.claims)
    answered = [number for part in paper.parts for number in part.numbers]
    assert len(answered) == len(set(answered))
    assert len({part.name for part in paper.parts}) == len(paper.parts)
    untested = rows(paper, {})
    assert len(untested) == len(paper.claims)
    assert all(row.verdict == "not tested" and row.remark for row in untested)
