"""The report, opened as a file in a browser without a network."""

import re

import pytest

from fairmargin.report.page import write_report
from tests.report.examples import HOSTILE, crowded_result, example_result, hostile_result
from tests.stories.waiting import DRAWN, check_page, wait_until

pytestmark = pytest.mark.browser

# If a browser executed this name, the title would change.
SCRIPT = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    contents = {
        "usual": [example_result([str(i) for i in range(10)])],
        "crowded": [example_result(), example_result(partition="sex"), crowded_result()],
        "hostile": [hostile_result(), example_result([SCRIPT, "other"], partition=SCRIPT)],
    }
    for name, results in contents.items():
        write_report(folder / f"{name}.html", results, title=f"A {name} page")
    return folder


def show(page, file):
    page.goto(file.as_uri())
    wait_until(page, DRAWN)


def test_a_curve_is_drawn_for_every_group_and_for_all_samples(browser_page, files):
    show(browser_page, files / "usual.html")
    drawn = browser_page.evaluate(
        """Array.from(document.querySelector('.plot').querySelectorAll('.scatterlayer .trace'))
           .map((trace) => trace.querySelector('path.js-line')).filter((path) => path)
           .filter((path) => path.getTotalLength() > 100 && getComputedStyle(path).strokeWidth !== '0px').length"""
    )
    assert drawn == 11


def test_the_intervals_are_drawn_with_a_mark_for_every_group(browser_page, files):
    show(browser_page, files / "usual.html")
    marks = browser_page.evaluate("document.querySelectorAll('.plot')[1].querySelectorAll('.points path').length")
    assert marks == 10


def test_hostile_names_are_shown_and_not_executed(browser_page, files):
    show(browser_page, files / "hostile.html")
    assert browser_page.title() == "A hostile page"
    assert browser_page.locator("img, a[href^='javascript'], .plot a").count() == 0
    labels = browser_page.evaluate(
        """Array.from(document.querySelectorAll('.plot')[1].querySelectorAll('.yaxislayer-above text'))
           .map((label) => label.textContent)"""
    )
    assert "\"quoted' & <b>bold</b>" in labels
    assert "&lt;not a tag&gt;" in labels
    names = browser_page.locator("tbody th.group").all_inner_texts()
    assert set(HOSTILE) <= set(names)


def test_the_content_security_policy_blocks_scripts(browser_page, files):
    show(browser_page, files / "usual.html")
    browser_page.evaluate(
        """const script = document.createElement('script'); script.textContent = "document.title = 'broken'";
           document.body.append(script)"""
    )
    assert browser_page.title() == "A usual page"


def test_hovering_shows_group_radius_and_share(browser_page, files):
    show(browser_page, files / "usual.html")
    browser_page.locator(".plot").first.scroll_into_view_if_needed()
    box = browser_page.locator(".plot .nsewdrag").first.bounding_box()
    path = browser_page.evaluate(
        """(() => { const {_fullData, _fullLayout: {xaxis, yaxis}} = document.querySelector('.plot');
           const {x, y} = _fullData.find((trace) => trace.name.startsWith('8 ')), i = Math.floor(x.length / 2);
           return [xaxis.d2p(x[i]), yaxis.d2p(y[i])] })()"""
    )
    browser_page.mouse.move(box["x"] + path[0], box["y"] + path[1])
    browser_page.wait_for_selector(".hovertext")
    text = browser_page.locator(".hovertext").first.text_content()
    assert re.fullmatch(r"\d \(n = \d+\)τ = [\d.]+: [\d.]+%", text)  # of the nearest curve; they lie close together


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["usual", "crowded", "hostile"])
def test_the_page_opens_without_console_errors_and_fits_screens_and_phones(browser_page, files, name, width):
    check_page(browser_page, files / f"{name}.html", width)
    widest = browser_page.evaluate(
        "Math.max(...Array.from(document.querySelectorAll('.main-svg')).map((s) => s.getBoundingClientRect().right))"
    )
    assert widest <= width


def test_figures_adapt_to_the_width_of_the_window(browser_page, files):
    show(browser_page, files / "usual.html")
    browser_page.set_viewport_size({"width": 390, "height": 844})
    wait_until(browser_page, "document.querySelector('.main-svg').getBoundingClientRect().width < 390")
    wait_until(browser_page, "document.querySelector('.plot').dataset.narrow === 'true'")
    browser_page.set_viewport_size({"width": 1100, "height": 844})
    wait_until(browser_page, "document.querySelector('.main-svg').getBoundingClientRect().width > 900")
    assert browser_page.locator(".plot .main-svg").first.bounding_box()["height"] == 440
    assert browser_page.console_errors == []


def test_every_figure_fits_the_printed_page(browser_page, files):
    show(browser_page, files / "usual.html")
    printed = browser_page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000
    browser_page.emulate_media(media="print")
    browser_page.set_viewport_size({"width": 680, "height": 960})
    for box in browser_page.evaluate(
        "Array.from(document.querySelectorAll('.main-svg, table')).map((s) => s.getBoundingClientRect().right)"
    ):
        assert box <= 681
    assert browser_page.locator("details.each li").first.is_visible()
    browser_page.wait_for_timeout(300)  # the change of size must not redraw the figures
    assert browser_page.console_errors == []
