"""A browser for the stories of reports."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Chromium without a window; skip the test if there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    executable = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if executable is None:
        pytest.skip(f"no Chromium on the PATH (looked for {', '.join(CHROMIUMS)})")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=executable, args=list(OPTIONS))
        yield chromium
        chromium.close()


@pytest.fixture
def browser_page(browser: Any) -> Iterator[Any]:
    """Open an empty page, which collects errors in `.console_errors` and requested addresses in `.requested`."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.console_errors, page.requested = [], []
    page.on("console", lambda message: page.console_errors.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: page.console_errors.append(str(error)))
    page.on("requestfailed", lambda request: page.console_errors.append(f"failed: {request.url}"))
    page.on("dialog", lambda dialog: (page.console_errors.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: page.requested.append(request.url))
    yield page
    page.close()
