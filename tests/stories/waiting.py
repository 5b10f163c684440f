"""Opening and waiting for a page whose content security policy forbids evaluating text as code."""

from pathlib import Path
from typing import Any

DRAWN = "document.querySelectorAll('.plot[data-drawn]').length === document.querySelectorAll('.plot').length"


def check_page(page: Any, path: Path, width: int = 1280) -> None:
    """Open a report; check that there are no errors, no requests for other files, and no horizontal scrolling."""
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(path.as_uri())
    wait_until(page, DRAWN)
    assert page.console_errors == []
    assert page.requested == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def wait_until(page: Any, condition: str, seconds: int = 60) -> None:
    """Wait until the condition holds. Playwright's own function evaluates text as code, which the policy forbids."""
    for _ in range(seconds * 10):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{condition} did not come true")
