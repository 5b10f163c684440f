"""Takes the picture of README.md from the demo's report: `fairmargin demo`, then `python docs/take_pictures.py`."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main(report: Path = Path("fairmargin-demo/report.html")) -> None:
    """Both figures of the report's first section, one below the other."""
    target = Path(__file__).parent / "images" / "demo.png"
    target.parent.mkdir(exist_ok=True)
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1080, "height": 900})
        page.goto(report.resolve().as_uri())
        page.wait_for_selector(".plotly svg.main-svg, .js-plotly-plot svg.main-svg")
        figures = page.locator("figure")
        first, second = figures.nth(0).bounding_box(), figures.nth(1).bounding_box()
        assert first is not None
        assert second is not None
        clip = {
            "x": first["x"] - 10,
            "y": first["y"] - 6,
            "width": first["width"] + 20,
            "height": second["y"] + second["height"] - first["y"] + 12,
        }
        page.screenshot(path=target, clip=clip, full_page=True)
        browser.close()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
