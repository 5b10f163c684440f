import base64
import json
import re
from dataclasses import replace
from hashlib import sha256
from html import escape
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from plotly.offline import get_plotlyjs

from fairmargin.analyses.explanations import BOUND_MEANINGS
from fairmargin.core.bound import Bound
from fairmargin.inference.estimate import Estimate
from fairmargin.report.answer import answer_of
from fairmargin.report.document import ETHICS, PageDetails, json_in_html
from fairmargin.report.page import render
from tests.report.examples import (
    HOSTILE,
    REASON,
    crowded_result,
    example_group,
    example_result,
    hostile_result,
    undefined_group,
)

PROVENANCE = PageDetails(
    title="Digits <b>&</b>",
    command="fairmargin audit study.toml",
    created="2026-02-03T10:11:12+00:00",
    model="softmax regression",
    data="scikit-learn digits",
    estimator="exact distance to a linear boundary",
    seed=7,
    versions={"numpy": "2.4.6", "torch": "2.13.0"},
    notes=("Pixels lie in [0, 1].",),
)
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Reader of a page: tags, attributes, scripts, and the text that a person sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[tuple[dict[str, str], str]] = []
        self.styles: list[str] = []
        self.seen: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append((self.tags[-1][1], data))
        elif self.open and self.open[-1] == "style":
            self.styles.append(data)
        else:
            self.seen.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.seen).replace("\u00a0", " "))

    def attributes(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def html_of(*results, provenance=PROVENANCE):
    sections = [result.section() for result in results]
    return render(provenance.title, sections, provenance=provenance, answer=answer_of(results))


def page_of(*results, provenance=PROVENANCE):
    return Page(html_of(*results, provenance=provenance))


@pytest.fixture(scope="module")
def usual():
    rows = [example_group("8", scale=0.65), example_group("1", scale=1.3, seed=1), undefined_group("rare")]
    return page_of(example_result(groups=rows, warnings=("Group 'rare' has 2 samples.",)))


@pytest.fixture(scope="module")
def hostile():
    return page_of(hostile_result(), provenance=replace(PROVENANCE, command="</script><script>alert(7)</script>"))


@pytest.mark.parametrize(
    "result", [example_result(), hostile_result(), crowded_result()], ids=["usual", "hostile", "crowded"]
)
def test_every_tag_is_closed_in_order_and_the_same_results_give_the_same_page(result):
    html = html_of(result)
    assert Page(html).open == []
    assert html == html_of(result)
    assert f"<title>{escape(PROVENANCE.title)}</title>" in html


def test_plotly_is_inlined_exactly_once_for_many_sections():
    html = html_of(*[example_result()] * 3)
    assert html.count(get_plotlyjs()) == 1
    assert len(html) < len(get_plotlyjs()) + 500_000


def test_the_page_loads_nothing(hostile):
    for tag, attributes in hostile.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "b", "i", "u")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    assert not re.search(r"url\(|@import|https?:", "".join(hostile.styles))


def test_only_the_two_scripts_of_the_page_may_run_and_the_policy_names_them_by_hash(hostile):
    (policy,) = [a["content"] for a in hostile.attributes("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    code = [text for attributes, text in hostile.scripts if attributes.get("type") != "application/json"]
    assert len(code) == 2
    for text in code:
        assert base64.b64encode(sha256(text.encode()).digest()).decode() in policy
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.split("style-src")[0]


def test_hostile_texts_are_shown_and_not_interpreted(hostile):
    for name in HOSTILE:
        assert re.sub(r"\s+", " ", name) in hostile.text
    for text in (
        "alert(4)",
        "<img src=x onerror=alert(5)>",
        "</script><script>alert(6)</script>",
        "alert(7)",
        "<i>age</i>",
    ):
        assert text in hostile.text


def test_figures_are_json_that_cannot_leave_its_element(hostile):
    data = [text for attributes, text in hostile.scripts if attributes.get("type") == "application/json"]
    assert len(data) == 2
    for text in data:
        assert not re.search(r"[<>&\u2028\u2029]", text)
        assert {"data", "layout"} <= set(json.loads(text))
    assert page_of(example_result(["a\u2028b", "c"])).open == []
    content = ["</script>", "<!--", "a & b", "\u2028", "\u2029"]
    text = json_in_html(json.dumps(content, ensure_ascii=False))
    assert not re.search(r"[<>&\u2028\u2029]", text)
    assert json.loads(text) == content


def test_every_group_and_its_verdict_stand_in_the_table():
    result = crowded_result()
    text = page_of(result).text
    for row in result:
        assert re.search(rf"{row.group} .{{0,260}}?{row.verdict}", text), row.group


def test_undefined_values_show_their_reason_and_never_nan_and_warnings_are_visible(usual):
    assert "undefined" in usual.text
    assert REASON in usual.text
    assert "an interval needs at least 3 samples" in usual.text
    assert not re.search(r"\bnan\b", usual.text, re.IGNORECASE)
    assert "Group 'rare' has 2 samples." in usual.text
    result = example_result()
    undefined = Estimate.undefined("fewer than two groups", Bound.EXACT)
    endless = Estimate(float("inf"), 1.0, float("inf"), Bound.UPPER)
    whole = replace(result.overall, variance=undefined, worst_robustness=endless)
    text = page_of(replace(result, overall=whole)).text
    assert "undefined fewer than two groups" in text
    assert "∞ [1.000, ∞]" in text


def test_the_parts_stand_in_the_order_of_the_argument(usual):
    marks = [
        "No: the model is not equally hard",
        "Noise or an attacker",
        "Before you rely on this",
        "Every group against the rest",
        "Who withstands",
        "Closer or farther",
        "Each group in a sentence",
        "The partition as a",
    ]
    marks += ["How to read this", "What the bounds mean", "How it was measured", "Use with care", "Made by Fairmargin"]
    places = [usual.text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_the_page_says_how_it_was_measured(usual):
    for text in (
        "softmax regression",
        "scikit-learn digits",
        "numpy 2.4.6",
        "fairmargin audit study.toml",
        "Seed 7",
        "Holm",
    ):
        assert text in usual.text
    assert BOUND_MEANINGS[Bound.EXACT] in usual.text
    assert BOUND_MEANINGS[Bound.UPPER] not in usual.text
    for sentence in ETHICS:
        assert sentence in usual.text


def test_the_unreached_share_has_a_column_only_where_there_is_one(usual):
    assert "unreached" not in usual.text
    assert (
        "unreached"
        in page_of(example_result(groups=[example_group(unreached=0.05), example_group("1")], up_to=3.0)).text
    )


def test_a_screen_reader_finds_its_way(usual):
    assert usual.attributes("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in usual.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert len(usual.attributes("caption")) == len(usual.attributes("table"))
    assert all(a.get("scope") in ("col", "row") for a in usual.attributes("th"))
    plots = [a for a in usual.attributes("div") if a.get("class") == "plot"]
    assert len(plots) == 2
    assert all("“8”" in a["aria-label"] for a in plots)


def test_the_contents_appear_with_the_third_section():
    assert not page_of(example_result(), example_result()).attributes("nav")
    page = page_of(example_result(), example_result(), example_result())
    assert page.attributes("nav")
    targets = {a["id"] for _, a in page.tags if "id" in a}
    assert {a["href"].removeprefix("#") for a in page.attributes("a")} <= targets
