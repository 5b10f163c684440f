"""A paper run again on the command line: a page of claims, figures beside it, and sentences for what cannot be."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fairmargin_papers.catalog import PAPERS
from fairmargin_papers.shared.paper import Findings, Part
from fairmargin_papers.theory.gaussian_classes import GaussianClasses
from fairmargin_papers.theory.gaussian_pair import GaussianPair
from tests.stories.examples import fairmargin, refused, succeeded


@pytest.fixture
def rows(smoke):
    """The rows of a paper by name."""
    return lambda name: {claim["name"]: claim for claim in smoke(name)[1]["claims"]}


@pytest.mark.parametrize("name", PAPERS)
def test_the_smoke_scale_of_every_paper_writes_a_page_with_a_row_for_every_claim(smoke, name):
    folder, found = smoke(name)
    assert {claim["number"] for claim in found["claims"]} == {claim.number for claim in PAPERS[name].claims}
    page = (folder / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {PAPERS[name].title}")
    for claim in found["claims"]:
        assert f"\n| {claim['name']} | " in page
        assert claim["verdict"] in page
        assert claim["verdict"] != "not tested" or claim["remark"]
    stored = json.loads((folder / name / "claims.json").read_text(encoding="utf-8"))
    assert stored["claims"] == found["claims"]
    for figure in stored["figures"]:
        assert f"]({figure['file']})" in page
        assert "<svg" in (folder / figure["file"]).read_text(encoding="utf-8")


def test_the_toys_show_bias_that_accuracy_does_not(rows):
    found = rows("toy")
    assert found["1"]["ours"] == "70% / 30% against 30% / 30%, accuracy 100%"
    assert {name: row["verdict"] for name, row in found.items()} == {"1": "holds", "2": "holds"}
    low, high = found["2"]["interval"]
    assert -1 < low < high < 0


def test_tran_holds_but_for_the_penalty_that_counts_twice(rows):
    theory = {1, 2, 3, 4, 5, 6, 7, 8, 15}
    found = {name: row for name, row in rows("tran").items() if row["number"] in theory}
    assert {name for name, row in found.items() if row["verdict"] != "holds"} == {"7a", "15b"}
    assert found["7a"]["ours"] == "0 of 200 settings"
    assert f"θ* = {GaussianPair(-1.0, 1.0, 10.0).natural_threshold():.3f}" in found["1"]["remark"]
    pair = GaussianPair(0.0, 4.0, 1.5)
    for reading, number in (("sum", "1.6000"), ("max", "1.6762")):
        assert f"{pair.fair_threshold(0.1, reading=reading):.4f}" == number
        assert number in found["7a"]["remark"]


def test_ma_is_refuted_where_it_is_false_and_nowhere_else(rows):
    found = {name: row for name, row in rows("ma").items() if row["number"] <= 6}
    assert {name for name, row in found.items() if row["verdict"] != "holds"} == {"1a", "1c", "2a", "3", "6"}
    assert "8.92·10⁻⁴" in found["2a"]["remark"]
    assert float(found["3"]["ours"].rsplit(" ", 1)[1]) == pytest.approx(2.0, abs=0.02)


def test_the_counter_example_to_growing_variance_is_one(rows):
    said = rows("ma")["2a"]["remark"].rsplit("Counter-example: ", 1)[1].rstrip(".").replace("−", "-")
    values = {name: float(value) for name, value in (word.split(" = ") for word in said.split("; "))}
    assert values["σ₋"] >= values["σ₊"]
    assert values["ε_train"] <= values["ε_test"]
    classes = GaussianClasses(*(values[name] for name in ("μ₊", "μ₋", "σ₊", "σ₋")), int(values["d"]), values["α"])
    along = np.asarray(classes.vcra(np.linspace(0, values["ε_train"], 200), values["ε_test"]))
    assert (np.diff(along) < 0).any()


def test_farmurs_formulas_fail_on_linear_models_and_the_printed_indicator_trains_nothing(rows):
    farmur = rows("farmur")
    assert [farmur[name]["verdict"] for name in ("10", "11")] == ["does not hold", "does not hold"]
    assert "from 0.5250 to 0.5250" in farmur["11"]["ours"]
    assert rows("nanda2020")["7"]["verdict"] == "holds"


def test_a_second_run_gives_the_same_bytes_and_tells_a_person_what_it_found(smoke, tmp_path):
    first, _ = smoke("toy")
    said = succeeded(fairmargin("reproduce", "toy", "--out", tmp_path)).stdout
    assert "holds" in said
    assert str(tmp_path / "toy.md") in said.replace("\n", "")
    files = [path.relative_to(first) for path in first.rglob("*") if path.is_file()]
    assert len(files) == 4
    for file in files:
        assert (first / file).read_bytes() == (tmp_path / file).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trans"], "Did you mean 'tran'?"),
        (["hinton"], "There are: toy, nanda, nanda2020, tran, ma, farmur."),
        (["toy", "--scale", "smokes"], "Did you mean 'smoke'?"),
        (["toy", "--scale", ""], "There are: smoke, laptop, paper."),
    ],
)
def test_an_unknown_paper_or_scale_gets_a_suggestion_and_writes_nothing(tmp_path, arguments, sentence):
    assert sentence in refused(fairmargin("reproduce", *arguments, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def answered(assignment, *numbers):
    return Findings(tuple(assignment.claims[number].found("seen", "holds") for number in numbers))


def quick(assignment):
    return answered(assignment, 1, 2)


def stop(assignment):
    raise KeyboardInterrupt


QUICK, STOP = Part("toy", "quick", frozenset({1, 2}), quick), Part("networks", "training", frozenset({5, 6}), stop)


def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(PAPERS, "nanda", replace(PAPERS["nanda"], parts=(QUICK,)))
    (tmp_path / "file").write_text("in the way")
    assert "Cannot write" in refused(fairmargin("reproduce", "nanda", "--out", tmp_path / "file"))


def test_stopping_keeps_what_is_finished_and_says_what_is_not(tmp_path, monkeypatch):
    monkeypatch.setitem(PAPERS, "nanda", replace(PAPERS["nanda"], parts=(QUICK, STOP)))
    result = fairmargin("reproduce", "nanda", "--out", tmp_path)
    assert result.exit_code == 130
    assert "Stopped" in result.stderr
    page = (tmp_path / "nanda.md").read_text(encoding="utf-8")
    assert page.count("**holds**") == 2
    assert page.count("stopped before this part") == 2


def test_a_run_that_is_stopped_leaves_the_page_of_an_earlier_one_that_came_further(tmp_path, monkeypatch):
    whole = Part("networks", "training", frozenset({5, 6}), lambda given: answered(given, 5, 6))
    monkeypatch.setitem(PAPERS, "nanda", replace(PAPERS["nanda"], parts=(QUICK, whole)))
    succeeded(fairmargin("reproduce", "nanda", "--out", tmp_path))
    before = (tmp_path / "nanda.md").read_bytes()
    monkeypatch.setitem(PAPERS, "nanda", replace(PAPERS["nanda"], parts=(QUICK, STOP)))
    assert fairmargin("reproduce", "nanda", "--out", tmp_path).exit_code == 130
    assert (tmp_path / "nanda.md").read_bytes() == before


def test_a_page_of_another_scale_is_not_written_over(tmp_path, monkeypatch):
    monkeypatch.setitem(PAPERS, "nanda", replace(PAPERS["nanda"], parts=(QUICK,)))
    succeeded(fairmargin("reproduce", "nanda", "--scale", "laptop", "--engine", "serial", "--out", tmp_path))
    before = (tmp_path / "nanda.md").read_bytes()
    sentence = refused(fairmargin("reproduce", "nanda", "--out", tmp_path))
    assert "has the results of --scale laptop, which --scale smoke would overwrite" in sentence
    assert (tmp_path / "nanda.md").read_bytes() == before


@pytest.mark.parametrize("place", ["nowhere", "file"])
def test_a_folder_of_datasets_that_is_none_is_refused_at_once(tmp_path, place):
    (tmp_path / "file").write_text("no folder")
    root, out = tmp_path / place, tmp_path / "out"
    assert "There is no folder" in refused(fairmargin("reproduce", "toy", "--root", root, "--out", out))
    assert not out.exists()


@pytest.mark.parametrize(("scale", "times"), [("smoke", 1), ("laptop", 0)])
def test_a_page_of_smoke_says_what_its_verdicts_are_worth(tmp_path, monkeypatch, scale, times):
    monkeypatch.setitem(PAPERS, "nanda", replace(PAPERS["nanda"], parts=(QUICK,)))
    succeeded(fairmargin("reproduce", "nanda", "--scale", scale, "--engine", "serial", "--out", tmp_path))
    page = (tmp_path / "nanda.md").read_text(encoding="utf-8")
    assert page.count("no evidence for or against the paper") == times


def test_quiet_means_quiet_and_rows_not_tested_are_counted(tmp_path, monkeypatch):
    monkeypatch.setitem(PAPERS, "nanda", replace(PAPERS["nanda"], parts=(QUICK,)))
    assert succeeded(fairmargin("reproduce", "nanda", "--out", tmp_path, "--quiet")).output == ""
    assert "14 further claims were not tested" in succeeded(fairmargin("reproduce", "nanda", "--out", tmp_path)).stdout


def test_help_shows_an_example():
    assert "fairmargin reproduce toy --scale smoke" in succeeded(fairmargin("reproduce", "--help")).stdout
